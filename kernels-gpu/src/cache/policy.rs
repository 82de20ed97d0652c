//! Score policies: which score a key gets when it is placed and when it is used again. The key with the
//! lowest score of a bucket is evicted first.
use crate::keyed::Scalar;
use simt::device;

/// The time of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Number of the batch: later batches have higher numbers.
    pub now: u64,
    /// The epoch that the table's owner has set.
    pub epoch: u32,
}

/// Parameter of a batch that gives its keys exactly the scores that the caller passes, whatever the policy
/// is.
pub const EXACTLY: u32 = u32::MAX;

/// A rule for scores. One of your own needs a line of
/// [`cache_instances!`](crate::cache_instances) for its kernels.
///
/// `given` is the score that the caller passed for the element. Without scores, it is the number of
/// elements of the batch that have the key: 1 if keys are distinct.
///
/// ```
/// use phalanx_kernels::cache::{ScorePolicy, Time};
///
/// /// Keeps the largest score that a key was ever given.
/// #[derive(Clone, Copy, Debug)]
/// struct Largest;
///
/// impl ScorePolicy<u32> for Largest {
///     const NAME: &'static str = "largest";
///
///     fn new(_: Time, _: u32) -> Self {
///         Self
///     }
///
///     fn placed(self, given: u32) -> u32 {
///         given
///     }
///
///     fn used(self, old: u32, given: u32) -> u32 {
///         old.max(given)
///     }
/// }
///
/// assert_eq!(Largest.used(7, 3), 7);
/// ```
pub trait ScorePolicy<S: Scalar>: Copy + Send + Sync + 'static {
    /// Name of the policy in the names of variants.
    const NAME: &'static str;

    /// Returns the policy for a batch of this time. The table's owner chooses `parameter`: its meaning is the
    /// policy's own. Batches with the parameter [`EXACTLY`] use no policy.
    fn new(time: Time, parameter: u32) -> Self;

    /// Returns the score of a key that is placed.
    fn placed(self, given: S) -> S;

    /// Returns the score of a key with the score `old` after it was used again.
    fn used(self, old: S, given: S) -> S;
}

/// A policy, or the scores as the caller passes them.
#[derive(Clone, Copy)]
pub(super) struct Scoring<P> {
    policy: P,
    is_exact: bool,
}

#[device]
impl<P> Scoring<P> {
    /// Returns the scoring of a batch with this time and parameter.
    pub fn new<S: Scalar>(time: Time, parameter: u32) -> Self
    where
        P: ScorePolicy<S>,
    {
        Self { policy: P::new(time, parameter), is_exact: parameter == EXACTLY }
    }

    /// Returns the score of a key that is placed.
    pub fn placed<S: Scalar>(self, given: S) -> S
    where
        P: ScorePolicy<S>,
    {
        if self.is_exact { given } else { self.policy.placed(given) }
    }

    /// Returns the score of a key with the score `old` after it was used again.
    pub fn used<S: Scalar>(self, old: S, given: S) -> S
    where
        P: ScorePolicy<S>,
    {
        if self.is_exact { given } else { self.policy.used(old, given) }
    }
}

/// The rules of [`BuiltIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Rule {
    /// Score: the time of the last use.
    Lru = 0,
    /// Score: the number of uses.
    Lfu = 1,
    /// Score: the epoch of the last use, then its time.
    EpochLru = 2,
    /// Score: the epoch of the last use, then the number of uses.
    EpochLfu = 3,
    /// Score: as the caller says.
    Custom = 4,
    /// Score: the number of uses, then the time of the last one.
    LfuThenLru = 5,
}

/// The rules of the library as one policy, so that kernels are compiled once for all of them: the branch on
/// the rule is the same for all threads.
///
/// A rule of two parts keeps one in the high half of the score and the other in the low half. Numbers that
/// exceed their part stay at its maximum.
///
/// ```
/// use phalanx_kernels::cache::{BuiltIn, Rule, ScorePolicy, Time};
///
/// let policy = BuiltIn::of(Rule::EpochLfu, Time { epoch: 3, now: 100 });
/// let first: u64 = policy.placed(1);
/// assert_eq!((first, policy.used(first, 4)), (3 << 32 | 1, 3 << 32 | 5));
/// assert_eq!(BuiltIn::of(Rule::Lfu, Time::default()).used(u32::MAX - 1, 7), u32::MAX);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    time: Time,
    rule: u32,
}

#[device]
impl BuiltIn {
    /// Returns the policy of a rule at a time.
    pub fn of(rule: Rule, time: Time) -> Self {
        Self { time, rule: rule as u32 }
    }

    /// Returns whether the policy has this rule.
    fn is(self, rule: Rule) -> bool {
        self.rule == rule as u32
    }

    /// Returns the score after `uses` uses in all, for rules that count uses or none.
    fn score<S: Scalar>(self, uses: u64) -> u64 {
        let (half, most) = (S::BITS / 2, low_half::<S>());
        let epoch = (self.time.epoch as u64).min(most) << half;
        if self.is(Rule::Lru) {
            self.time.now.min(S::MAX.to_u64())
        } else if self.is(Rule::EpochLru) {
            epoch | self.time.now.min(most)
        } else if self.is(Rule::EpochLfu) {
            epoch | uses.min(most)
        } else if self.is(Rule::LfuThenLru) {
            uses.min(most) << half | self.time.now.min(most)
        } else {
            uses.min(S::MAX.to_u64())
        }
    }

    /// Returns the number of uses that a score tells.
    fn uses<S: Scalar>(self, score: S) -> u64 {
        let score = score.to_u64();
        if self.is(Rule::EpochLfu) {
            score & low_half::<S>()
        } else if self.is(Rule::LfuThenLru) {
            score >> (S::BITS / 2)
        } else {
            score
        }
    }
}

/// Returns the largest number of half a score.
#[device]
fn low_half<S: Scalar>() -> u64 {
    u64::MAX >> (64 - S::BITS / 2)
}

#[device]
impl<S: Scalar> ScorePolicy<S> for BuiltIn {
    const NAME: &'static str = "cache";

    fn new(time: Time, parameter: u32) -> Self {
        Self { time, rule: parameter }
    }

    fn placed(self, given: S) -> S {
        S::from_u64(self.score::<S>(given.to_u64()))
    }

    fn used(self, old: S, given: S) -> S {
        let before = if self.is(Rule::Custom) { 0 } else { self.uses(old) };
        S::from_u64(self.score::<S>(before.saturating_add(given.to_u64())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rule: Rule) -> BuiltIn {
        BuiltIn::of(rule, Time { epoch: 2, now: 50 })
    }

    #[test]
    fn rules_score_as_their_names_say() {
        let placed = |rule| ScorePolicy::<u64>::placed(at(rule), 3);
        let used = |rule, old: u64| at(rule).used(old, 3);
        assert_eq!((placed(Rule::Lru), used(Rule::Lru, 7)), (50, 50));
        assert_eq!((placed(Rule::Lfu), used(Rule::Lfu, 7)), (3, 10));
        assert_eq!((placed(Rule::Custom), used(Rule::Custom, 7)), (3, 3));
        assert_eq!((placed(Rule::EpochLru), used(Rule::EpochLru, 1 << 32 | 9)), (2 << 32 | 50, 2 << 32 | 50));
        assert_eq!((placed(Rule::EpochLfu), used(Rule::EpochLfu, 1 << 32 | 9)), (2 << 32 | 3, 2 << 32 | 12));
        assert_eq!(placed(Rule::LfuThenLru), 3 << 32 | 50);
        assert_eq!(used(Rule::LfuThenLru, 7 << 32 | 9), 10 << 32 | 50);
    }

    #[test]
    fn exact_scores_depend_on_no_policy() {
        for (parameter, expected) in [(EXACTLY, (3, 3)), (Rule::Lfu as u32, (3, 10))] {
            let scoring = Scoring::<BuiltIn>::new::<u64>(Time::default(), parameter);
            assert_eq!((scoring.placed(3u64), scoring.used(7u64, 3)), expected);
        }
    }

    #[test]
    fn parts_of_scores_saturate() {
        assert_eq!(at(Rule::Lfu).used(u64::MAX, 1), u64::MAX);
        assert_eq!(at(Rule::EpochLfu).used(1u32 << 16 | 0xffff, 1), 2 << 16 | 0xffff);
        assert_eq!(at(Rule::LfuThenLru).used(0xffff_0000u32, 9), 0xffff_0032);
        let late = BuiltIn::of(Rule::EpochLru, Time { epoch: 1 << 20, now: 1 << 20 });
        assert_eq!(ScorePolicy::<u32>::placed(late, 0), u32::MAX);
    }
}

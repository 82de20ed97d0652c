//! Operations of a case and their valid results: the host side of a map benchmark, for any map. Sets are maps
//! that return no values.
//!
//! | op | initial contents | operations |
//! |---|---|---|
//! | `insert` | none | `n` unique keys, inserted or replaced |
//! | `find_hit` | `n` keys | each once, shuffled |
//! | `find_miss` | `n` keys | `n` others |
//! | `remove_half` | `n` keys | half of them |
//! | `mixed_50i50f`, .. | `initial_n` keys, or `n / 2` | `n` operations, in percent: `i`nsertions of new keys, `r`emovals, `u`pdates, `f`inds of existing keys, `m`isses |
//! | `ycsb_load`, `ycsb_a` .. `ycsb_f` | `n` records (none for LOAD) | `n` operations of that workload, parameter `theta` |
use crate::engine::benchmark::Verified;
use crate::engine::suite::Case;
use anyhow::{Context, Result, bail, ensure};
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use workloads::parallel;
use workloads::random::{Source, tabulate};
use workloads::{
    Distribution, Key, Mix, Op, Permutation, Stream, UniqueKeys, Ycsb, YcsbOptions, updated_value_of,
    value_of,
};

/// Operations that every plan supports. Mixes are parsed, so other mixes work too.
pub const OPS: &[&str] = &[
    "insert", "find_hit", "find_miss", "remove_half", "mixed_50i50f", "mixed_10i90f", "mixed_20i20r60f",
    "mixed_40i40r20f", "mixed_50i50r", "mixed_20i20r30f30m", "mixed_10i10r40f40m", "ycsb_load", "ycsb_a",
    "ycsb_b", "ycsb_c", "ycsb_d", "ycsb_f",
];

/// Operations of [`OPS`] that a set supports.
pub const SET_OPS: &[&str] = &[
    "insert", "find_hit", "find_miss", "remove_half", "mixed_50i50f", "mixed_50i50r", "mixed_20i20r30f30m",
    "mixed_10i10r40f40m",
];

/// Timed call of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Insertion of the whole batch.
    Insert,
    /// Look-up of the whole batch.
    Get,
    /// Removal of the whole batch.
    Remove,
    /// Batch with an operation per element.
    Mixed,
}

/// Parameter with the number of initial keys of a mix.
const INITIAL: &str = "initial_n";

/// Operations of a case, and the data to check their results.
#[derive(Debug)]
pub struct Plan<K, V> {
    /// Initial keys, with their [`value_of`].
    pub preload: Vec<K>,
    /// Timed call.
    pub call: Call,
    /// Operations of the timed call.
    pub stream: Stream<K, V>,
    /// Maximum number of keys at any time.
    pub keys: u64,
    /// Number of keys at which the case's load factor or utilisation applies: the number of initial keys if
    /// the case specifies it (`initial_n`), else [`Self::keys`].
    pub sized_for: u64,
    /// Keys of all read-modify-writes, sorted.
    added: Vec<K>,
    /// Keys of all insertions that may race with reads, sorted.
    arriving: Vec<K>,
    updates: bool,
}

/// Result of one operation.
struct Answer<K, V> {
    op: Op,
    key: K,
    outcome: Option<Outcome>,
    /// Value found or replaced; `None` if the call returns none.
    value: Option<V>,
}

impl<K: Key, V: Key> Plan<K, V> {
    /// Generates the operations of a case.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the operation is unknown or the parameters do not fit it.
    pub fn new(case: &Case) -> Result<Self> {
        let keys = UniqueKeys::<K>::new(case.seed);
        let (preload, call, stream) = match case.op.as_str() {
            "insert" => (0, Call::Insert, plain(Op::Insert, keys.present(case.n as usize)?)),
            "find_hit" => (case.n, Call::Get, plain(Op::FindHit, shuffled(&keys, case))),
            "find_miss" => (case.n, Call::Get, plain(Op::FindMiss, keys.absent(case.n as usize)?)),
            "remove_half" => {
                let mix = Mix { remove: 1.0, ..Mix::default() };
                (case.n, Call::Remove, mix.stream(case.n, case.n as usize / 2, case.seed)?)
            }
            op => Self::mixed(op, case).with_context(|| format!("no plan for '{op}'"))?,
        };
        let plan = Self::with(keys.present(preload as usize)?, call, stream)?;
        let sized_for = if case.params.contains_key(INITIAL) { preload } else { plan.keys };
        Ok(Self { sized_for, ..plan })
    }

    fn mixed(op: &str, case: &Case) -> Result<(u64, Call, Stream<K, V>)> {
        if let Some(shares) = op.strip_prefix("mixed_") {
            let initial = case.number_if_given(INITIAL)?.map_or(case.n / 2, |initial| initial as u64);
            let stream = parse_mix(shares)?.stream(initial, case.n as usize, case.seed)?;
            return Ok((initial, Call::Mixed, stream));
        }
        let letter = op.strip_prefix("ycsb_").context("it is neither a mix nor a YCSB workload")?;
        let workload: Ycsb = letter.parse()?;
        ensure!(workload != Ycsb::E, "a hash map does not scan");
        let distribution = Distribution::Zipf(case.number("theta")?);
        let (records, operations, seed) = (case.n, case.n as usize, case.seed);
        let stream = workload.stream(&YcsbOptions { records, operations, distribution, seed })?;
        match workload {
            Ycsb::Load => Ok((0, Call::Insert, stream)),
            Ycsb::C => Ok((records, Call::Get, stream)),
            _ => Ok((records, Call::Mixed, stream)),
        }
    }

    fn with(preload: Vec<K>, call: Call, stream: Stream<K, V>) -> Result<Self> {
        let of = |op| {
            let pairs = stream.ops.par_iter().zip(&stream.keys);
            let mut keys: Vec<K> = pairs.filter(|(found, _)| **found == op).map(|(_, key)| *key).collect();
            keys.par_sort_unstable();
            keys
        };
        let reads = stream.ops.contains(&Op::Read);
        let inserted = stream.count(Op::Insert);
        let (added, arriving) = (of(Op::ReadModifyWrite), if reads { of(Op::Insert) } else { vec![] });
        let updates = stream.ops.contains(&Op::Update);
        let keys = (preload.len() + inserted) as u64;
        ensure!(!stream.is_empty(), "the case has no operations: n is too small");
        Ok(Self { preload, call, stream, keys, sized_for: keys, added, arriving, updates })
    }

    /// Returns whether the call changes the map, so that it must be restored.
    pub fn writes(&self) -> bool {
        self.call != Call::Get
    }

    /// Checks every result. `values` are the returned values; if there are none, only the outcomes are
    /// checked.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] that describes a wrong result.
    pub fn judge(&self, outcomes: &[u8], values: Option<&[V]>) -> Result<Verified> {
        let told = values.filter(|_| matches!(self.call, Call::Get | Call::Mixed));
        self.all(outcomes, told, "answered", |answer| self.is_right(answer))?;
        let succeeded =
            parallel::count(outcomes.len(), |index| succeeded(Outcome::from_code(outcomes[index])));
        Ok(Verified { compared: self.stream.len() as u64, succeeded: succeeded as u64 })
    }

    /// Checks the results of a `Get` of every key of the stream after all operations.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] that describes a wrong result.
    pub fn judge_after(&self, outcomes: &[u8], values: Option<&[V]>) -> Result<()> {
        self.all(outcomes, values, "left its key as", |answer| self.is_right_after(answer))
    }

    fn all(
        &self,
        outcomes: &[u8],
        values: Option<&[V]>,
        verb: &str,
        right: impl Fn(&Answer<K, V>) -> bool + Sync,
    ) -> Result<()> {
        let asked = self.stream.len();
        ensure!(
            outcomes.len() == asked && values.is_none_or(|values| values.len() == asked),
            "{asked} operations have {} outcomes and {:?} values",
            outcomes.len(),
            values.map(<[V]>::len)
        );
        let answer = |index: usize| Answer {
            op: self.stream.ops[index],
            key: self.stream.keys[index],
            outcome: Outcome::from_code(outcomes[index]),
            value: values.map(|values| values[index]),
        };
        let wrong = parallel::first(asked, |index| !right(&answer(index)));
        let Some(index) = wrong else { return Ok(()) };
        let Answer { op, key, outcome, value } = answer(index);
        bail!("operation {index}, {op:?} of key {key:?}, {verb} {outcome:?} with {value:?}")
    }

    fn is_right(&self, answer: &Answer<K, V>) -> bool {
        let old = || answer.value.is_none_or(|value| self.was(answer.key, value));
        match (answer.op, answer.outcome) {
            (Op::Insert, Some(Outcome::Inserted)) | (Op::FindMiss, Some(Outcome::Absent)) => true,
            (Op::FindHit | Op::Read, Some(Outcome::Found)) => old(),
            (Op::Read, Some(Outcome::Absent)) => self.arriving.binary_search(&answer.key).is_ok(),
            (Op::Update | Op::ReadModifyWrite, Some(Outcome::Replaced)) => old(),
            (Op::Remove, Some(Outcome::Removed)) => old(),
            _ => false,
        }
    }

    fn is_right_after(&self, answer: &Answer<K, V>) -> bool {
        if matches!(answer.op, Op::Remove | Op::FindMiss) {
            return answer.outcome == Some(Outcome::Absent);
        }
        answer.outcome == Some(Outcome::Found)
            && answer.value.is_none_or(|value| self.stays(answer.op, answer.key, value))
    }

    /// Returns whether a key may have this value after all operations.
    fn stays(&self, op: Op, key: K, value: V) -> bool {
        let (first, updated) = (value_of::<K, V>(key), updated_value_of::<K, V>(key));
        match op {
            Op::Update => value == updated,
            _ if self.updates => value == first || value == updated,
            _ => value == first.add(V::truncate(self.times_added(key))),
        }
    }

    /// Returns whether a key may have had this value at some time.
    fn was(&self, key: K, value: V) -> bool {
        let first = value_of::<K, V>(key);
        let negated = V::truncate(first.widen().wrapping_neg());
        value == first
            || (self.updates && value == updated_value_of(key))
            || value.add(negated).widen() <= self.times_added(key)
    }

    fn times_added(&self, key: K) -> u64 {
        let below = self.added.partition_point(|other| *other < key);
        (self.added[below..].partition_point(|other| *other == key)) as u64
    }
}

fn succeeded(outcome: Option<Outcome>) -> bool {
    outcome.is_some_and(|outcome| !matches!(outcome, Outcome::Refused | Outcome::Absent))
}

/// Returns a stream of one operation.
fn plain<K: Key, V: Key>(op: Op, keys: Vec<K>) -> Stream<K, V> {
    let values = parallel::map(&keys, |&key| if op == Op::FindMiss { V::default() } else { value_of(key) });
    Stream { ops: vec![op; keys.len()], keys, values }
}

/// Returns the first `n` keys in an order that differs from that of their insertion.
fn shuffled<K: Key>(keys: &UniqueKeys<K>, case: &Case) -> Vec<K> {
    let order = Permutation::new(case.n, &Source::new(case.seed, "order of finds"));
    tabulate(case.n as usize, |index| keys.at(order.at(index)))
}

/// Parses the shares in a name such as `50i50f`.
fn parse_mix(text: &str) -> Result<Mix> {
    let mut mix = Mix::default();
    let mut percent = String::new();
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            percent.push(letter);
            continue;
        }
        let share: f64 =
            percent.parse().with_context(|| format!("no percentage before '{letter}' in '{text}'"))?;
        percent.clear();
        match letter {
            'i' => mix.insert = share,
            'r' => mix.remove = share,
            'u' => mix.update = share,
            'f' => mix.find_hit = share,
            'm' => mix.find_miss = share,
            _ => bail!("'{letter}' in '{text}' is none of i, r, u, f, m"),
        }
    }
    let total = mix.insert + mix.remove + mix.update + mix.find_hit + mix.find_miss;
    ensure!(total == 100.0 && percent.is_empty(), "the shares of '{text}' make {total} %, not 100");
    Ok(mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::record::Param;
    use std::collections::HashMap;

    fn case(op: &str) -> Case {
        Case {
            op: op.to_owned(),
            n: 2_000,
            params: [("theta".to_owned(), Param::Number(0.99))].into(),
            seed: 5,
            ..Case::default()
        }
    }

    type Answers = (Vec<u8>, Vec<u32>);

    /// Executes a plan sequentially, forwards or backwards. Returns the results and the final contents.
    fn answers(plan: &Plan<u32, u32>, backwards: bool) -> (Answers, Answers) {
        let mut map: HashMap<u32, u32> = plan.preload.iter().map(|key| (*key, value_of(*key))).collect();
        let asked = plan.stream.len();
        let mut given = (vec![0xff; asked], vec![0; asked]);
        for turn in 0..asked {
            let index = if backwards { asked - 1 - turn } else { turn };
            let (key, value) = (plan.stream.keys[index], plan.stream.values[index]);
            let old = map.get(&key).copied();
            let (outcome, new) = match (plan.stream.ops[index], old) {
                (Op::Insert | Op::Update | Op::ReadModifyWrite, None) => (Outcome::Inserted, Some(value)),
                (Op::Insert | Op::Update, Some(_)) => (Outcome::Replaced, Some(value)),
                (Op::ReadModifyWrite, Some(old)) => (Outcome::Replaced, Some(old.wrapping_add(value))),
                (Op::Remove, Some(_)) => (Outcome::Removed, None),
                (_, Some(old)) => (Outcome::Found, Some(old)),
                (_, None) => (Outcome::Absent, None),
            };
            given.0[index] = outcome as u8;
            given.1[index] = old.unwrap_or(value);
            match new {
                Some(new) => map.insert(key, new),
                None => map.remove(&key),
            };
        }
        let after = plan.stream.keys.iter().map(|key| map.get(key));
        let outcome =
            |found: Option<&u32>| if found.is_some() { Outcome::Found } else { Outcome::Absent } as u8;
        (
            given,
            (after.clone().map(outcome).collect(), after.map(|found| found.copied().unwrap_or(0)).collect()),
        )
    }

    #[test]
    fn a_right_maps_answers_are_right_in_any_order() {
        for op in OPS.iter().chain(&["mixed_30u30f40m"]) {
            let plan = Plan::<u32, u32>::new(&case(op)).unwrap();
            for backwards in [false, true] {
                let ((outcomes, results), after) = answers(&plan, backwards);
                let verified =
                    plan.judge(&outcomes, Some(&results)).unwrap_or_else(|error| panic!("{op}: {error}"));
                assert_eq!(verified.compared, plan.stream.len() as u64);
                plan.judge_after(&after.0, Some(&after.1)).unwrap_or_else(|error| panic!("{op}: {error}"));
            }
        }
    }

    /// Changes one result at a time: no other outcome is valid except where a read races with its insertion,
    /// and no other value except where an update races.
    #[test]
    fn changed_answers_are_wrong() {
        for op in OPS {
            let plan = Plan::<u32, u32>::new(&case(op)).unwrap();
            let ((mut outcomes, mut results), (mut kept, mut values)) = answers(&plan, false);
            for index in (0..plan.stream.len()).step_by(97) {
                let right = std::mem::replace(&mut outcomes[index], 0xff);
                assert!(plan.judge(&outcomes, Some(&results)).is_err(), "{op}: an unwritten outcome passed");
                outcomes[index] = Outcome::Refused as u8;
                assert!(plan.judge(&outcomes, Some(&results)).is_err(), "{op}: a refusal passed");
                outcomes[index] = right;
                let told = matches!(
                    Outcome::from_code(right),
                    Some(Outcome::Found | Outcome::Replaced | Outcome::Removed)
                );
                results[index] ^= 0x5a5a_0000;
                let is_wrong = plan.judge(&outcomes, Some(&results)).is_err();
                assert_eq!(is_wrong, told && plan.call != Call::Remove, "{op} {right}");
                results[index] ^= 0x5a5a_0000;
                let found = kept[index];
                values[index] ^= 0x5a5a_0000;
                for outcome in [Outcome::Absent as u8, found] {
                    kept[index] = outcome;
                    let is_wrong = plan.judge_after(&kept, Some(&values)).is_err();
                    assert_eq!(is_wrong, found == Outcome::Found as u8, "{op}");
                }
                values[index] ^= 0x5a5a_0000;
            }
        }
    }

    /// For sets only the outcomes are checked, and each of them is.
    #[test]
    fn a_sets_wrong_outcomes_are_seen() {
        for op in SET_OPS {
            let plan = Plan::<u32, u32>::new(&case(op)).unwrap();
            let ((mut outcomes, _), (mut kept, _)) = answers(&plan, true);
            let verified = plan.judge(&outcomes, None).unwrap_or_else(|error| panic!("{op}: {error}"));
            assert_eq!(verified.compared, plan.stream.len() as u64);
            plan.judge_after(&kept, None).unwrap_or_else(|error| panic!("{op}: {error}"));
            for index in (0..plan.stream.len()).step_by(97) {
                let right = std::mem::replace(&mut outcomes[index], Outcome::Refused as u8);
                assert!(plan.judge(&outcomes, None).is_err(), "{op}: a refusal passed");
                outcomes[index] = right;
                let was = kept[index] == Outcome::Found as u8;
                let other = if was { Outcome::Absent } else { Outcome::Found };
                let right = std::mem::replace(&mut kept[index], other as u8);
                assert!(plan.judge_after(&kept, None).is_err(), "{op}: {other:?} passed afterwards");
                kept[index] = right;
            }
        }
    }

    #[test]
    fn a_lost_read_modify_write_is_seen() {
        let plan = Plan::<u32, u32>::new(&case("ycsb_f")).unwrap();
        let (_, (outcomes, mut values)) = answers(&plan, false);
        let added = plan.stream.ops.iter().position(|op| *op == Op::ReadModifyWrite).unwrap();
        values[added] = values[added].wrapping_sub(1);
        assert!(plan.judge_after(&outcomes, Some(&values)).is_err());
    }

    #[test]
    fn mixes_are_parsed_or_refused() {
        assert_eq!(parse_mix("50i50f").unwrap(), Mix { insert: 50.0, find_hit: 50.0, ..Mix::default() });
        for wrong in ["50i", "50i60f", "i100f", "50x50f", "50i50f3"] {
            assert!(parse_mix(wrong).is_err(), "{wrong}");
        }
        assert!(Plan::<u32, u32>::new(&case("ycsb_e")).is_err());
        assert!(Plan::<u32, u32>::new(&case("fly")).is_err());
    }

    #[test]
    fn sizes_count_what_is_there_at_most() {
        let keys = |op| Plan::<u32, u32>::new(&case(op)).unwrap().keys;
        assert_eq!((keys("insert"), keys("find_miss"), keys("mixed_50i50f")), (2_000, 2_000, 2_000));
    }

    #[test]
    fn a_mix_may_say_what_is_there_before() {
        let mut case = case("mixed_20i20r30f30m");
        let sizes = |case: &Case| {
            let plan = Plan::<u32, u32>::new(case).unwrap();
            (plan.preload.len(), plan.stream.len(), plan.keys, plan.sized_for)
        };
        assert_eq!(sizes(&case), (1_000, 2_000, 1_400, 1_400));
        case.params.insert(INITIAL.to_owned(), Param::Integer(5_000));
        assert_eq!(sizes(&case), (5_000, 2_000, 5_400, 5_000));
        case.params.insert(INITIAL.to_owned(), Param::Text("many".to_owned()));
        assert!(Plan::<u32, u32>::new(&case).is_err());
    }
}

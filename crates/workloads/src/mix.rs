//! Mixed batches by share of each operation, as slab hash's concurrent benchmark defines them (Ashkiani et
//! al., IPDPS 2018, section VI-C: shares of inserts, removals, hits and misses).
//!
//! The shares are met exactly and the operations are shuffled. Within a batch, no removed key is accessed by
//! another operation, and each key is inserted or removed once. Therefore every operation's result is known
//! although the batch runs concurrently. Updates and hits may share keys: a hit may read [`value_of`] its key
//! or [`updated_value_of`] it.
use crate::keys::{Key, UniqueKeys, updated_value_of, value_of};
use crate::permutation::Permutation;
use crate::random::{Source, below};
use crate::stream::{Op, Stream};
use crate::{Error, Result, check_available};

/// Shares of operations. Only their proportions matter; they need not sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    /// Share of inserts of absent keys.
    pub insert: f64,
    /// Share of removals of present keys.
    pub remove: f64,
    /// Share of reads of present keys.
    pub find_hit: f64,
    /// Share of reads of absent keys.
    pub find_miss: f64,
    /// Share of updates of present keys.
    pub update: f64,
}

/// Kinds of operations, in layout order before the shuffle.
const KINDS: [Op; 5] = [Op::Insert, Op::Remove, Op::FindHit, Op::FindMiss, Op::Update];

impl Mix {
    /// Generates a stream for a structure that holds the first `present` keys of `UniqueKeys::new(seed)`,
    /// each with its [`value_of`].
    ///
    /// Inserts use the keys `present..`. Removals use the last keys before `present`. Hits and updates choose
    /// uniformly among the other present keys.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a share that is negative or not a number, or when all are zero;
    /// [`Error::TooMany`] when there are more removals than present keys, when no key remains for hits or
    /// updates, or when the unique keys run out.
    pub fn stream<K: Key, V: Key>(&self, present: u64, operations: usize, seed: u64) -> Result<Stream<K, V>> {
        let layout = Layout::new(self.counts(operations as u64)?, present)?;
        layout.check_keys(UniqueKeys::<K>::FIRST_ABSENT)?;
        let keys = UniqueKeys::<K>::new(seed);
        let order = Permutation::new(operations as u64, &Source::new(seed, "order of a mix"));
        let source = Source::new(seed, "choices of a mix");
        let made = source.generate(operations, |generator, index| {
            let chosen = below(generator, layout.kept.max(1));
            let (op, counter) =
                layout.operation(order.at(index as u64), chosen, UniqueKeys::<K>::FIRST_ABSENT);
            let key = keys.at(counter);
            (op, key, carried(op, key))
        });
        Ok(Stream::unzip(made))
    }

    /// Returns the number of operations of each kind. Cumulative shares are rounded, so the numbers sum to
    /// `operations`.
    fn counts(&self, operations: u64) -> Result<[u64; 5]> {
        let shares = [self.insert, self.remove, self.find_hit, self.find_miss, self.update];
        let total: f64 = shares.iter().sum();
        let bad = shares.into_iter().find(|share| !(0.0..=1e9).contains(share));
        if let Some(found) = bad.or((total == 0.0).then_some(0.0)) {
            return Err(Error::OutOfRange {
                what: "the shares of a mix",
                range: "0.. with a sum above 0",
                found,
            });
        }
        let mut before = 0.0;
        let ends = shares.map(|share| {
            before += share;
            (before / total * operations as f64).round() as u64
        });
        Ok(std::array::from_fn(|kind| ends[kind] - if kind == 0 { 0 } else { ends[kind - 1] }))
    }
}

fn carried<K: Key, V: Key>(op: Op, key: K) -> V {
    match op {
        Op::Update => updated_value_of(key),
        Op::FindMiss => V::default(),
        _ => value_of(key),
    }
}

/// Layout of the operations before the shuffle, and the keys of each kind.
struct Layout {
    counts: [u64; 5],
    present: u64,
    /// Number of keys that no operation removes.
    kept: u64,
}

impl Layout {
    fn new(counts: [u64; 5], present: u64) -> Result<Self> {
        let [_, removed, hits, _, updates] = counts;
        let available = present;
        if removed > present || (removed == present && hits + updates > 0) {
            let asked = removed + u64::from(hits + updates > 0);
            return Err(Error::TooMany { what: "keys to remove, find and update", asked, available });
        }
        Ok(Self { counts, present, kept: present - removed })
    }

    fn check_keys(&self, available: u64) -> Result<()> {
        let asked = self.present.saturating_add(self.counts[0]).max(self.counts[3]);
        check_available("unique keys", asked, available)
    }

    /// Returns the operation at `place` of the layout and its key's counter. `chosen` is a random key among
    /// those kept.
    fn operation(&self, mut place: u64, chosen: u64, first_absent: u64) -> (Op, u64) {
        let mut kind = 0;
        while place >= self.counts[kind] {
            place -= self.counts[kind];
            kind += 1;
        }
        let counter = match KINDS[kind] {
            Op::Insert => self.present + place,
            Op::Remove => self.kept + place,
            Op::FindMiss => first_absent + place,
            _ => chosen,
        };
        (KINDS[kind], counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Executes the stream in the given order on a map and checks that every operation has the result of its
    /// kind.
    fn replay(present: u64, seed: u64, stream: &Stream<u32, u32>, order: impl Iterator<Item = usize>) {
        let keys = UniqueKeys::<u32>::new(seed);
        let mut map: HashMap<u32, u32> = (0..present).map(|i| (keys.at(i), value_of(keys.at(i)))).collect();
        for index in order {
            let (key, value) = (stream.keys[index], stream.values[index]);
            match stream.ops[index] {
                Op::Insert => assert_eq!(map.insert(key, value), None),
                Op::Remove => assert_eq!(map.remove(&key), Some(value)),
                Op::FindHit => assert!([value_of(key), updated_value_of(key)].contains(&map[&key])),
                Op::FindMiss => assert!(!map.contains_key(&key)),
                Op::Update => assert!(map.insert(key, value).is_some()),
                other => panic!("{other:?} in a mix"),
            }
        }
    }

    proptest! {
        #[test]
        fn results_do_not_depend_on_the_order(
            (present, operations, seed) in (500u64..2_000, 0usize..400, any::<u64>()),
            shares in prop::array::uniform5(0.0..1.0f64),
        ) {
            let [insert, remove, find_hit, find_miss, update] = shares;
            let mix = Mix { insert: insert + 0.01, remove, find_hit, find_miss, update };
            let stream = mix.stream(present, operations, seed).unwrap();
            replay(present, seed, &stream, 0..operations);
            replay(present, seed, &stream, (0..operations).rev());
        }
    }

    #[test]
    fn shares_are_exact_and_shuffled() {
        let mix = Mix { insert: 0.5, find_hit: 0.25, find_miss: 0.25, ..Mix::default() };
        let stream = mix.stream::<u64, u64>(1_000, 100_000, 9).unwrap();
        assert_eq!(stream.count(Op::Insert), 50_000);
        assert_eq!(stream.count(Op::FindHit), 25_000);
        let early = stream.ops[..10_000].iter().filter(|&&op| op == Op::Insert).count();
        assert!((4_700..5_300).contains(&early), "{early} inserts in the first tenth");
    }

    #[test]
    fn impossible_mixes_are_errors() {
        let all = Mix { remove: 1.0, ..Mix::default() };
        assert!(all.stream::<u32, u32>(100, 100, 1).is_ok());
        assert!(matches!(all.stream::<u32, u32>(99, 100, 1), Err(Error::TooMany { .. })));
        let hits = Mix { find_hit: 1.0, ..Mix::default() };
        assert!(matches!(hits.stream::<u32, u32>(0, 1, 1), Err(Error::TooMany { .. })));
        assert!(matches!(Mix::default().stream::<u32, u32>(1, 1, 1), Err(Error::OutOfRange { .. })));
        let negative = Mix { insert: -1.0, find_hit: 2.0, ..Mix::default() };
        assert!(matches!(negative.stream::<u32, u32>(1, 1, 1), Err(Error::OutOfRange { .. })));
    }
}

//! Multimaps, compared with a map of lists.
use crate::common::{Rng, replay, seed};
use crate::multi_maps;
use gpu::Device;
use phalanx::Outcome;
use phalanx::map::OpCode;
use phalanx::map::Word;
use phalanx::slab_hash::{Builder, MultiOp, SlabMultiMap};
use phalanx_testing::counts::{UNTOUCHED, each_count};
use std::collections::BTreeMap;

/// Runs a case on every multimap variant.
macro_rules! every_kind {
    ($device:expr, $case:ident) => {
        multi_maps::<u32, u32>($device).into_iter().for_each($case);
        multi_maps::<u32, u64>($device).into_iter().for_each($case);
        multi_maps::<u64, u32>($device).into_iter().for_each($case);
        multi_maps::<u64, u64>($device).into_iter().for_each($case);
    };
}

fn values<V: Word>(numbers: impl IntoIterator<Item = u64>) -> Vec<V> {
    numbers.into_iter().map(V::from_u64).collect()
}

fn keys<K: Word>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    numbers.into_iter().map(K::from_u64).collect()
}

/// Returns the map's pairs in order. Panics if their number is not the length, or an invariant is violated.
#[track_caller]
fn contents<K: Word, V: Word>(map: &SlabMultiMap<K, V>) -> Vec<(K, V)> {
    let mut pairs: Vec<(K, V)> = map.iter().unwrap().collect();
    pairs.sort_unstable();
    assert_eq!(pairs.len(), map.len().unwrap(), "{}", map.variant());
    map.validate().unwrap_or_else(|error| panic!("{}: {error}", map.variant()));
    pairs
}

/// Multimap, and the values of each key in the order of insertion.
struct Run<K: Word, V: Word> {
    map: SlabMultiMap<K, V>,
    model: BTreeMap<K, Vec<V>>,
    rng: Rng,
    next: u64,
}

pub fn values_agree_with_the_model(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        println!("{}", replay(seed()));
        let map = builder.buckets(2).slabs(1).build().unwrap();
        let mut run = Run { map, model: BTreeMap::new(), rng: Rng::new(seed()), next: 0 };
        for round in 0..40 {
            run.step(round);
            run.check(round);
        }
    }
    every_kind!(device, case);
}

impl<K: Word, V: Word> Run<K, V> {
    /// Returns some of 40 distinct keys, including some of the topmost three.
    fn some(&mut self) -> Vec<K> {
        let numbers = (0..37).chain((0..3).map(|below| u64::MAX - below));
        numbers.filter(|_| self.rng.below(2) == 0).map(K::from_u64).collect()
    }

    fn step(&mut self, round: u64) {
        match round % 8 {
            2 => self.map.rehash(1 + round as u32 % 5).unwrap(),
            3 => self.remove_one(),
            5 => self.remove_all(),
            6 => self.map.flush_all().unwrap(),
            7 => self.retain(round),
            1 | 4 => self.execute(),
            _ => self.insert(),
        }
    }

    /// Inserts each key at most once per batch, so that the order of its values is that of the batches.
    fn insert(&mut self) {
        let keys = self.some();
        let values: Vec<V> = values(self.next..self.next + keys.len() as u64);
        self.next += keys.len() as u64;
        assert_eq!(self.map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; keys.len()]);
        keys.into_iter().zip(values).for_each(|(key, value)| self.model.entry(key).or_default().push(value));
    }

    /// Executes at most one operation per key in a batch, since the operations of a batch have no order.
    fn execute(&mut self) {
        let keys = self.some();
        let operations: Vec<MultiOp<K, V>> = (self.next..)
            .zip(keys)
            .map(|(next, key)| match self.rng.below(3) {
                0 => MultiOp::Insert(key, V::from_u64(next)),
                1 => MultiOp::GetFirst(key),
                _ => MultiOp::RemoveOne(key),
            })
            .collect();
        self.next += operations.len() as u64;
        for (operation, (outcome, value)) in operations.iter().zip(self.map.execute(&operations).unwrap()) {
            self.holds_what(*operation, outcome, value);
        }
    }

    /// Applies an operation to the model, and compares the results.
    fn holds_what(&mut self, operation: MultiOp<K, V>, outcome: Outcome, value: Option<V>) {
        let (MultiOp::Insert(key, _) | MultiOp::GetFirst(key) | MultiOp::RemoveOne(key)) = operation;
        let held = self.model.entry(key).or_default();
        let expected = match operation {
            MultiOp::Insert(_, value) => {
                held.push(value);
                (Outcome::Inserted, None)
            }
            _ if held.is_empty() => (Outcome::Absent, None),
            MultiOp::GetFirst(_) => (Outcome::Found, Some(held[0])),
            MultiOp::RemoveOne(_) => {
                held.remove(0);
                (Outcome::Removed, None)
            }
        };
        assert_eq!((outcome, value), expected, "{operation:?}");
    }

    /// Removes each key up to three times in the batch.
    fn remove_one(&mut self) {
        let some = self.some();
        let keys: Vec<K> = (0..3)
            .flat_map(|_| some.iter().copied().filter(|_| self.rng.below(2) == 0).collect::<Vec<_>>())
            .collect();
        let removed = self.map.remove_one(&keys).unwrap();
        for key in &some {
            let asked = keys.iter().filter(|other| *other == key).count();
            let found =
                keys.iter().zip(&removed).filter(|(other, removed)| *other == key && **removed).count();
            let held = self.model.entry(*key).or_default();
            assert_eq!(found, asked.min(held.len()), "{key:?}");
            held.drain(..found);
        }
    }

    fn remove_all(&mut self) {
        let keys: Vec<K> = self.some().into_iter().filter(|_| self.rng.below(3) == 0).collect();
        let expected: Vec<u32> =
            keys.iter().map(|key| self.model.remove(key).map_or(0, |held| held.len() as u32)).collect();
        assert_eq!(self.map.remove_all(&keys).unwrap(), expected);
    }

    fn retain(&mut self, round: u64) {
        if matches!(round, 23 | 31) {
            let keeps = |key: K, value: V| (key.to_u64() ^ value.to_u64()) % 3 != round % 3;
            let mut seen = BTreeMap::<K, Vec<V>>::new();
            let keep = |key, value| {
                seen.entry(key).or_default().push(value);
                keeps(key, value)
            };
            self.map.retain(keep).unwrap();
            self.model.retain(|_, held| !held.is_empty());
            assert_eq!(seen, self.model, "in order");
            self.model.iter_mut().for_each(|(&key, held)| held.retain(|&value| keeps(key, value)));
        } else if round % 16 == 7 {
            let range = V::from_u64(self.next / 4)..=V::from_u64(u64::MAX);
            self.map.retain_values(range.clone()).unwrap();
            self.model.values_mut().for_each(|held| held.retain(|value| range.contains(value)));
        } else {
            let range = K::from_u64(5)..=K::from_u64(u64::MAX - 1);
            self.map.retain_keys(range.clone()).unwrap();
            self.model.retain(|key, _| range.contains(key));
        }
    }

    /// Compares the results of all queries on all keys with the model.
    fn check(&mut self, round: u64) {
        let name = self.map.variant().to_owned();
        let keys: Vec<K> = keys((0..40).chain((0..5).map(|below| u64::MAX - below)));
        let expected: Vec<&[V]> =
            keys.iter().map(|key| self.model.get(key).map_or(&[][..], |held| held)).collect();
        let found = self.map.get_all(&keys).unwrap();
        assert_eq!((found.len(), found.is_empty()), (keys.len(), false));
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{name}, round {round}");
        let counts: Vec<u32> = expected.iter().map(|held| held.len() as u32).collect();
        assert_eq!(self.map.count(&keys).unwrap(), counts, "{name}, round {round}");
        let there: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
        assert_eq!(self.map.contains_key(&keys).unwrap(), there, "{name}, round {round}");
        let mut pairs: Vec<(K, V)> =
            self.model.iter().flat_map(|(&key, held)| held.iter().map(move |&value| (key, value))).collect();
        pairs.sort_unstable();
        assert_eq!(contents(&self.map), pairs, "{name}, round {round}");
        assert_eq!(self.map.is_empty().unwrap(), pairs.is_empty());
    }
}

pub fn equal_keys_in_a_batch_all_count(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        let map = builder.buckets(2).slabs(1).build().unwrap();
        let key = |n: u64| if n.is_multiple_of(7) { u64::MAX } else { n % 7 };
        let (k, v): (Vec<K>, Vec<V>) = (keys((0..700).map(key)), values(0..700));
        assert_eq!(map.insert(&k, &v).unwrap(), vec![Outcome::Inserted; 700]);
        let seven: Vec<K> = keys((0..7).map(key));
        assert_eq!(map.count(&seven).unwrap(), [100; 7]);
        for (of, found) in map.get_all(&seven).unwrap().iter().enumerate() {
            let mut found: Vec<u64> = found.iter().map(|value| value.to_u64()).collect();
            found.sort_unstable();
            assert_eq!(
                found,
                (0..700).filter(|n| n % 7 == of as u64).collect::<Vec<_>>(),
                "{}",
                map.variant()
            );
        }
        // 60 values of each key are removed one by one, the rest at once by the first of several removals.
        assert_eq!(map.remove_one(&k[..420]).unwrap(), vec![true; 420]);
        assert_eq!(map.count(&seven).unwrap(), [40; 7]);
        let removed = map.remove_all(&k[..35]).unwrap();
        assert_eq!((removed.iter().sum::<u32>(), removed.len()), (280, 35), "{}", map.variant());
        assert!(contents(&map).is_empty());
        assert_eq!(map.remove_one(&seven).unwrap(), [false; 7]);
    }
    every_kind!(device, case);
}

pub fn a_key_has_values_beyond_a_slab(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        let mut map = builder.buckets(3).slabs(1).build().unwrap();
        for part in 0..60 {
            assert_eq!(
                map.insert(&keys([4, 5]), &values([part, part + 100])).unwrap(),
                [Outcome::Inserted; 2]
            );
        }
        let of_four: Vec<V> = values(0..60);
        assert_eq!(map.get_all(&keys([4])).unwrap().of(0), of_four);
        for buckets in [1, 7, 3] {
            map.rehash(buckets).unwrap();
            assert_eq!(map.get_all(&keys([4])).unwrap().of(0), of_four, "{buckets} buckets");
        }
        assert_eq!(map.remove_one(&keys([4; 50])).unwrap(), [true; 50]);
        assert_eq!(map.get_all(&keys([4])).unwrap().of(0), &of_four[50..], "the first ones went");
        assert_eq!(map.remove_all(&keys([5])).unwrap(), [60]);
        assert_eq!(
            contents(&map),
            of_four[50..].iter().map(|&value| (K::from_u64(4), value)).collect::<Vec<_>>()
        );
    }
    every_kind!(device, case);
}

pub fn batches_of_many_are_bounded_by_counts(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        let device = builder.clone().build().unwrap().device().clone();
        each_count(&device, 40, |counted| {
            let map = builder.clone().build().unwrap();
            let (stream, name) = (device.stream().unwrap(), map.variant());
            let (mut outcomes, mut results) = (counted.results::<u8>(), counted.results::<V>());
            let (all, more) = (keys::<K>(0..40), values::<V>(100..140));
            let (k, v) = (counted.buffer(&all), counted.buffer(&more));
            let (on, k) = (map.on(&stream), counted.bounded(&k));
            on.insert(k, &v, &mut outcomes).unwrap();
            counted.check(name, &mut outcomes, |_| Outcome::Inserted as u8);
            let codes = counted.buffer(&[OpCode::INSERT.code() as u8; 40]);
            on.execute(&codes, k, &v, &mut results, &mut outcomes).unwrap();
            counted.check(name, &mut outcomes, |_| Outcome::Inserted as u8);
            assert_eq!(contents(&map).len(), 2 * counted.used);
            assert!(map.insert(&all, &more).unwrap().all_placed());
            let mut counts = counted.results::<u32>();
            on.count(k, &mut counts).unwrap();
            counted.check(name, &mut counts, |_| 3);
            let offsets = counted.buffer(&(0..40).collect::<Vec<u64>>());
            let (mut counts, mut found) = (counted.buffer(&[1; 40]), counted.results::<V>());
            counts.slice_mut(counted.used..).unwrap().fill_bytes(UNTOUCHED).unwrap();
            on.get_all(k, &offsets, &mut found, &mut counts).unwrap();
            counted.check(name, &mut counts, |_| 3);
            counted.check(name, &mut found, |index| more[index]);
            on.remove_one(k, &mut outcomes).unwrap();
            counted.check(name, &mut outcomes, |_| Outcome::Removed as u8);
            on.remove_all(k, &mut counts).unwrap();
            counted.check(name, &mut counts, |_| 2);
            assert_eq!(contents(&map).len(), 40 - counted.used);
        });
    }
    every_kind!(device, case);
}

pub fn maps_of_many_take_buffers(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        let map = builder.build().unwrap();
        let (device, stream) = (map.device().clone(), map.device().stream().unwrap());
        let on = map.on(&stream);
        let k = device.from_slice(&keys::<K>((0..90).map(|n| n % 30))).unwrap();
        let (v, mut codes) = (device.from_slice(&values::<V>(0..90)).unwrap(), device.buffer(90).unwrap());
        on.insert(&k, &v, Some(&mut codes)).unwrap();
        assert_eq!(codes.read().unwrap(), [Outcome::Inserted as u8; 90]);
        on.insert(&k, &v, None).unwrap();
        let mut counts = device.buffer(90).unwrap();
        on.count(&k, &mut counts).unwrap();
        assert_eq!(counts.read().unwrap(), [6; 90]);
        // Space for all values, for fewer, for none, and beyond the end of the slice.
        let asked = device.from_slice(&keys::<K>([3, 4, 5, 6])).unwrap();
        let offsets = device.from_slice(&[0u64, 6, 8, u64::MAX]).unwrap();
        let mut counts = device.from_slice(&[6u32, 2, 0, 6]).unwrap();
        let mut found = device.from_slice(&values::<V>([999; 10])).unwrap();
        on.get_all(&asked, &offsets, &mut found, &mut counts).unwrap();
        assert_eq!(
            counts.read().unwrap(),
            [6; 4],
            "{}: how many there are, not how many found room",
            map.variant()
        );
        let found: Vec<u64> = found.read().unwrap().iter().map(|value| value.to_u64()).collect();
        assert!(
            found[..6].iter().all(|value| value % 30 == 3) && found[6..8].iter().all(|value| value % 30 == 4)
        );
        assert_eq!(found[8..], [999, 999], "{}: what has no room writes nothing", map.variant());
        on.remove_one(&k, &mut codes).unwrap();
        assert_eq!(codes.read().unwrap(), [Outcome::Removed as u8; 90]);
        on.remove_all(&asked, &mut counts).unwrap();
        assert_eq!(counts.read().unwrap(), [3; 4]);
        assert_eq!(contents(&map).len(), 180 - 90 - 12);
        // Appends to an absent key and to an existing one, looks up, removes; an invalid code looks up.
        let codes =
            [OpCode::INSERT, OpCode::INSERT, OpCode::GET, OpCode::REMOVE].map(|code| code.code() as u8);
        let codes = device.from_slice(&[&codes[..], &[99]].concat()).unwrap();
        let k = device.from_slice(&keys::<K>([3, 7, 8, 9, 5])).unwrap();
        let v = device.from_slice(&values::<V>([1, 2, 3, 4, 5])).unwrap();
        let (mut found, mut outcomes) = (device.buffer::<V>(5).unwrap(), device.buffer(5).unwrap());
        on.execute(&codes, &k, &v, &mut found, &mut outcomes).unwrap();
        let expected =
            [Outcome::Inserted, Outcome::Inserted, Outcome::Found, Outcome::Removed, Outcome::Absent];
        assert_eq!(outcomes.read().unwrap(), expected.map(|outcome| outcome as u8), "{}", map.variant());
        assert_eq!(found.read().unwrap()[2].to_u64() % 30, 8);
        assert_eq!(map.count(&keys([3, 7, 8, 9, 5])).unwrap(), [1, 4, 3, 2, 0], "{}", map.variant());
    }
    every_kind!(device, case);
}

pub fn saved_maps_of_many_load(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        for len in [0, 1, 400] {
            let map = builder.clone().capacity(1).slabs(1).build().unwrap();
            let key = |n: u64| if n % 50 < 3 { u64::MAX - n % 50 } else { n % 50 };
            assert!(map.insert(&keys((0..len).map(key)), &values(0..len)).unwrap().all_placed());
            let mut saved = Vec::new();
            map.save(&mut saved).unwrap();
            for into in [builder.clone(), SlabMultiMap::builder().device(map.device())] {
                let loaded = SlabMultiMap::load(&saved[..], into).unwrap();
                assert_eq!(contents(&loaded), contents(&map), "{}", map.variant());
            }
        }
    }
    every_kind!(device, case);
}

/// Four threads append to the same keys while the pool grows, and each checks its own values.
pub fn threads_share_a_map_of_many(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        let map = &builder.buckets(2).slabs(1).build().unwrap();
        let work = |thread: u64| {
            for part in 0..5 {
                let numbers = (0..40).map(|n| thread * 1000 + part * 40 + n);
                let outcomes = map.insert(&keys((0..40).map(|n| n % 8)), &values(numbers)).unwrap();
                assert_eq!(outcomes, [Outcome::Inserted; 40]);
                assert!(
                    map.count(&keys(0..8)).unwrap().iter().all(|&count| u64::from(count) >= (part + 1) * 5)
                );
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        let mut found: Vec<u64> = contents(map).into_iter().map(|(_, value)| value.to_u64()).collect();
        found.sort_unstable();
        let all = (0..4).flat_map(|thread| thread * 1000..thread * 1000 + 200);
        assert_eq!(found, all.collect::<Vec<_>>(), "{}", map.variant());
    }
    every_kind!(device, case);
}

pub fn keys_are_found_while_their_values_are_replaced(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabMultiMap<K, V>>) {
        const KEYS: u64 = 256;
        const ROUNDS: u64 = 40;
        let map = builder.buckets(64).slabs(4096).build().unwrap();
        let device = map.device();
        let (changes, lookups) = (device.stream().unwrap(), device.stream().unwrap());
        let replaced = device.from_slice(&keys::<K>(0..KEYS)).unwrap();
        let sought = device.from_slice(&keys::<K>((0..16 * KEYS).map(|index| index % KEYS))).unwrap();
        let first = device.from_slice(&values::<V>(0..KEYS)).unwrap();
        map.on(&changes).insert(&replaced, &first, None).unwrap();
        changes.synchronize().unwrap();
        let mut told = Vec::new();
        for round in 1..=ROUNDS {
            let next = device.from_slice(&values::<V>(round * KEYS..(round + 1) * KEYS)).unwrap();
            let mut removed = device.filled(KEYS as usize, UNTOUCHED).unwrap();
            let mut found = device.filled(sought.len(), UNTOUCHED).unwrap();
            map.on(&lookups).contains_key(&sought, &mut found).unwrap();
            map.on(&changes).insert(&replaced, &next, None).unwrap();
            map.on(&changes).remove_one(&replaced, &mut removed).unwrap();
            told.push((found, removed, next));
        }
        device.synchronize().unwrap();
        for (round, (found, removed, _)) in told.iter().enumerate() {
            let others = |codes: &[u8], outcome| codes.iter().filter(|&&code| code != outcome as u8).count();
            assert_eq!(others(&found.read().unwrap(), Outcome::Found), 0, "{}, {round}", map.variant());
            assert_eq!(others(&removed.read().unwrap(), Outcome::Removed), 0, "{}, {round}", map.variant());
        }
        assert_eq!(map.len().unwrap() as u64, KEYS);
    }
    every_kind!(device, case);
}

//! Every method for its own sake, one key at most once a batch: there is one right answer.
use crate::common::{Dice, replay, seed};
use crate::kinds::{Kind, contents, every_kind};
use gpu::Device;
use phalanx::Map;
use phalanx::hash_map::{HashMap, Key, Merge, Op, Outcome, Value};
use std::collections::BTreeMap;

pub fn every_method_answers_as_std_does(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let map = kind.builder().capacity(20).build().unwrap();
        let mut run = Run { map, model: BTreeMap::new(), dice: Dice::new(seed()) };
        for round in 0..20 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.round(round)));
            assert!(done.is_ok(), "{}, round {round}; {}", kind.name, replay("conformance", seed()));
        }
    }
    every_kind!(device, case);
}

/// A map and what it should hold.
struct Run<K, V> {
    map: HashMap<K, V>,
    model: BTreeMap<K, V>,
    dice: Dice,
}

impl<K: Key, V: Value> Run<K, V> {
    /// Up to 40 of 60 keys, each once, the topmost five among them; and values.
    fn pairs(&mut self) -> Vec<(K, V)> {
        let numbers = (0..55).chain((0..5).map(|below| u64::MAX - below)).map(K::from_u64);
        let taken: Vec<_> = numbers.filter(|_| self.dice.below(3) > 0).take(40).collect();
        taken.into_iter().map(|key| (key, V::from_u64(self.dice.below(1 << 40)))).collect()
    }

    fn round(&mut self, round: u64) {
        let pairs = self.pairs();
        let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().copied().unzip();
        match round % 7 {
            0 => self.insert(&keys, &values),
            1 => self.insert_new(&keys, &values),
            2 => self.upsert(Merge::Add, &keys, &values, V::wrapping_add),
            3 => self.upsert(Merge::Min, &keys, &values, V::min),
            4 => self.upsert(Merge::Max, &keys, &values, V::max),
            5 => self.get_or_insert(&keys, &values),
            _ => self.execute(&pairs),
        }
        self.look();
        self.remove();
        assert_eq!(contents(&self.map), self.model);
        let load = self.map.load_factor().unwrap();
        assert_eq!(load, self.model.len() as f64 / self.map.slots() as f64);
        assert_eq!(self.map.is_empty().unwrap(), self.model.is_empty());
    }

    fn insert(&mut self, keys: &[K], values: &[V]) {
        let outcomes = self.map.insert(keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let was = self.model.insert(key, value);
            assert_eq!(outcome, if was.is_some() { Outcome::Replaced } else { Outcome::Inserted }, "{key:?}");
        }
    }

    fn insert_new(&mut self, keys: &[K], values: &[V]) {
        let outcomes = self.map.insert_new(keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let is_new = !self.model.contains_key(&key);
            self.model.entry(key).or_insert(value);
            assert_eq!(outcome, if is_new { Outcome::Inserted } else { Outcome::Found }, "{key:?}");
        }
    }

    fn upsert(&mut self, merge: Merge, keys: &[K], values: &[V], joined: impl Fn(V, V) -> V) {
        let outcomes = self.map.upsert(merge, keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let was = self.model.get(&key).copied();
            self.model.insert(key, was.map_or(value, |was| joined(was, value)));
            assert_eq!(outcome, if was.is_some() { Outcome::Replaced } else { Outcome::Inserted }, "{key:?}");
        }
    }

    fn get_or_insert(&mut self, keys: &[K], values: &[V]) {
        let found = self.map.get_or_insert(keys, values).unwrap();
        for ((&key, &value), found) in keys.iter().zip(values).zip(found) {
            assert_eq!(found, Some(*self.model.entry(key).or_insert(value)), "{key:?}");
        }
    }

    fn execute(&mut self, pairs: &[(K, V)]) {
        let ops: Vec<_> = pairs
            .iter()
            .map(|&(key, value)| match self.dice.below(3) {
                0 => Op::Get(key),
                1 => Op::Remove(key),
                _ => Op::Insert(key, value),
            })
            .collect();
        for (op, (outcome, value)) in ops.iter().zip(self.map.execute(&ops).unwrap()) {
            let (was, here, gone) = match *op {
                Op::Get(key) => (self.model.get(&key).copied(), Outcome::Found, Outcome::Absent),
                Op::Remove(key) => (self.model.remove(&key), Outcome::Removed, Outcome::Absent),
                Op::Insert(key, value) => {
                    (self.model.insert(key, value), Outcome::Replaced, Outcome::Inserted)
                }
                _ => unreachable!("only these three are made above"),
            };
            assert_eq!(outcome, if was.is_some() { here } else { gone }, "{op:?}");
            let argument = op.parts().2;
            // What a removal takes away it does not tell: its argument comes back.
            let told = if outcome == Outcome::Removed { argument } else { was.unwrap_or(argument) };
            assert_eq!(value, told, "{op:?}");
        }
    }

    fn look(&mut self) {
        let keys: Vec<K> = self.pairs().into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = keys.iter().map(|key| self.model.get(key).copied()).collect();
        assert_eq!(self.map.get(&keys).unwrap(), expected);
        let there: Vec<_> = expected.iter().map(Option::is_some).collect();
        assert_eq!(self.map.contains_key(&keys).unwrap(), there);
    }

    fn remove(&mut self) {
        let some: Vec<K> =
            self.pairs().into_iter().map(|(key, _)| key).filter(|_| self.dice.below(4) == 0).collect();
        let expected: Vec<_> = some.iter().map(|key| self.model.remove(key).is_some()).collect();
        assert_eq!(self.map.remove(&some).unwrap(), expected);
    }
}

pub fn empty_batches_answer_nothing(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let map = kind.builder().capacity(1).build().unwrap();
        assert_eq!(map.insert(&[], &[]).unwrap(), []);
        assert_eq!(map.insert_new(&[], &[]).unwrap(), []);
        assert_eq!(map.upsert(Merge::Add, &[], &[]).unwrap(), []);
        assert_eq!(map.get_or_insert(&[], &[]).unwrap(), []);
        assert_eq!(map.get(&[]).unwrap(), []);
        assert_eq!(map.contains_key(&[]).unwrap(), []);
        assert_eq!(map.remove(&[]).unwrap(), []);
        assert_eq!(map.execute(&[]).unwrap(), []);
        assert_eq!(map.iter().unwrap().count(), 0);
        assert!(map.is_empty().unwrap());
    }
    every_kind!(device, case);
}

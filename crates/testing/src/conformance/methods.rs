//! Every method in isolation, with each key at most once per batch, so that there is a single correct result.
use crate::common::{Rng, replay, seed};
use crate::kinds::{Kind, Tested, contents};
use phalanx::{Merge, Op, Outcome};
use phalanx_kernels::keyed::Scalar;
use std::collections::BTreeMap;

pub fn every_method_answers_as_std_does<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(20);
    let mut run = Run { map, model: BTreeMap::new(), rng: Rng::new(seed()) };
    for round in 0..20 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.round(round)));
        assert!(done.is_ok(), "{}, round {round}; {}", kind.name, replay(seed()));
    }
}

/// Map and its expected contents.
struct Run<M: Tested> {
    map: M,
    model: BTreeMap<M::Key, M::Value>,
    rng: Rng,
}

impl<M: Tested> Run<M> {
    /// Generates up to 40 distinct keys of 60, including some of the five topmost, with values.
    fn contents(&mut self) -> Vec<(M::Key, M::Value)> {
        let numbers = (0..55).chain((0..5).map(|below| u64::MAX - below)).map(M::Key::from_u64);
        let taken: Vec<_> = numbers.filter(|_| self.rng.below(3) > 0).take(40).collect();
        taken.into_iter().map(|key| (key, M::Value::from_u64(self.rng.below(1 << 40)))).collect()
    }

    fn round(&mut self, round: u64) {
        let pairs = self.contents();
        let (keys, values): (Vec<M::Key>, Vec<M::Value>) = pairs.iter().copied().unzip();
        match round % 8 {
            0 => self.insert(&keys, &values),
            1 => self.insert_new(&keys, &values),
            2 => self.upsert(Merge::Add, &keys, &values, M::Value::wrapping_add),
            3 => self.upsert(Merge::Min, &keys, &values, M::Value::min),
            4 => self.upsert(Merge::Max, &keys, &values, M::Value::max),
            5 => self.get_or_insert(&keys, &values),
            6 => self.replace(&keys, &values),
            _ => self.execute(&pairs),
        }
        self.check();
        if round.is_multiple_of(2) {
            self.remove()
        } else {
            self.take()
        }
        assert_eq!(contents(&self.map), self.model);
        assert_eq!(self.map.is_empty().unwrap(), self.model.is_empty());
    }

    fn insert(&mut self, keys: &[M::Key], values: &[M::Value]) {
        let outcomes = self.map.insert(keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let was = self.model.insert(key, value);
            assert_eq!(outcome, if was.is_some() { Outcome::Replaced } else { Outcome::Inserted }, "{key:?}");
        }
    }

    fn insert_new(&mut self, keys: &[M::Key], values: &[M::Value]) {
        let outcomes = self.map.insert_new(keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let is_new = !self.model.contains_key(&key);
            self.model.entry(key).or_insert(value);
            assert_eq!(outcome, if is_new { Outcome::Inserted } else { Outcome::Found }, "{key:?}");
        }
    }

    fn upsert(
        &mut self,
        merge: Merge<M::Value>,
        keys: &[M::Key],
        values: &[M::Value],
        joined: impl Fn(M::Value, M::Value) -> M::Value,
    ) {
        let outcomes = self.map.upsert(merge, keys, values).unwrap();
        for ((&key, &value), outcome) in keys.iter().zip(values).zip(outcomes) {
            let was = self.model.get(&key).copied();
            self.model.insert(key, was.map_or(value, |was| joined(was, value)));
            assert_eq!(outcome, if was.is_some() { Outcome::Replaced } else { Outcome::Inserted }, "{key:?}");
        }
    }

    fn get_or_insert(&mut self, keys: &[M::Key], values: &[M::Value]) {
        let found = self.map.get_or_insert(keys, values).unwrap();
        for ((&key, &value), found) in keys.iter().zip(values).zip(found) {
            assert_eq!(found, Some(*self.model.entry(key).or_insert(value)), "{key:?}");
        }
    }

    fn replace(&mut self, keys: &[M::Key], values: &[M::Value]) {
        let found = self.map.replace(keys, values).unwrap();
        let outcome = |old: &Option<_>| if old.is_some() { Outcome::Replaced } else { Outcome::Inserted };
        let expected: Vec<_> =
            keys.iter().zip(values).map(|(&key, &value)| self.model.insert(key, value)).collect();
        assert_eq!(*found.outcomes(), expected.iter().map(outcome).collect::<Vec<_>>());
        assert_eq!(found, expected);
    }

    fn execute(&mut self, pairs: &[(M::Key, M::Value)]) {
        let ops: Vec<_> = pairs
            .iter()
            .map(|&(key, value)| match self.rng.below(3) {
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
            let told = match outcome {
                Outcome::Removed | Outcome::Absent => None,
                _ => Some(was.unwrap_or(argument)),
            };
            assert_eq!(value, told, "{op:?}");
        }
    }

    fn check(&mut self) {
        let keys: Vec<M::Key> = self.contents().into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = keys.iter().map(|key| self.model.get(key).copied()).collect();
        assert_eq!(self.map.get(&keys).unwrap(), expected);
        let there: Vec<_> = expected.iter().map(Option::is_some).collect();
        assert_eq!(self.map.contains_key(&keys).unwrap(), there);
    }

    /// Generates about a quarter as many keys as [`Self::contents`] does.
    fn few_keys(&mut self) -> Vec<M::Key> {
        self.contents().into_iter().map(|(key, _)| key).filter(|_| self.rng.below(4) == 0).collect()
    }

    fn take(&mut self) {
        let some = self.few_keys();
        let expected: Vec<_> = some.iter().map(|key| self.model.remove(key)).collect();
        let outcome = |old: &Option<_>| if old.is_some() { Outcome::Removed } else { Outcome::Absent };
        let (values, outcomes) = self.map.take(&some).unwrap().into_parts();
        assert_eq!(outcomes, expected.iter().map(outcome).collect::<Vec<_>>());
        assert_eq!(values, expected);
    }

    fn remove(&mut self) {
        let some = self.few_keys();
        let expected: Vec<_> = some.iter().map(|key| self.model.remove(key).is_some()).collect();
        assert_eq!(self.map.remove(&some).unwrap(), expected);
    }
}

pub fn empty_batches_answer_nothing<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(1);
    assert_eq!(map.insert(&[], &[]).unwrap(), []);
    assert_eq!(map.insert_new(&[], &[]).unwrap(), []);
    assert_eq!(map.upsert(Merge::Add, &[], &[]).unwrap(), []);
    assert_eq!(map.get_or_insert(&[], &[]).unwrap(), []);
    assert_eq!(map.get(&[]).unwrap(), []);
    assert_eq!(map.contains_key(&[]).unwrap(), []);
    assert_eq!(map.remove(&[]).unwrap(), []);
    assert_eq!(map.take(&[]).unwrap(), []);
    assert_eq!(map.replace(&[], &[]).unwrap(), []);
    assert_eq!(map.execute(&[]).unwrap(), []);
    assert_eq!(map.iter().unwrap().count(), 0);
    assert!(map.is_empty().unwrap());
}

//! A script: a random map, and random calls.
use crate::Scripted;
use crate::batch::{Model, Told, Verb, told};
use gpu::Device;
use phalanx::{Error, Outcome};
use phalanx_testing::common::Rng;
use phalanx_testing::fault::Injected;
use phalanx_testing::kinds::contents;
use phalanx_testing::scripts::Counters;

/// Number of calls of a script.
const CALLS: u64 = 12;

pub struct Script<'a, M: Scripted> {
    device: &'a Device,
    rng: Rng,
    map: M,
    model: Model,
    /// Number of different keys, and whether they are spread over all words.
    keys: (u64, bool),
    counters: &'a mut Counters,
}

impl<'a, M: Scripted> Script<'a, M> {
    pub fn new(device: &'a Device, seed: u64, counters: &'a mut Counters) -> Self {
        let mut rng = Rng::new(seed);
        let map = M::build(M::random(device, &mut rng)).unwrap();
        let keys = (rng.pick(&[60, 900, 6000]), rng.below(2) == 0);
        Self { device, rng, map, model: Model::new(), keys, counters }
    }

    pub fn run(&mut self) {
        for _ in 0..CALLS {
            self.counters.calls += 1;
            match self.rng.below(20) {
                0..=11 => self.change(),
                12..=14 => self.look_up(),
                15..=16 => self.retain(),
                17..=18 => self.save_and_load(),
                _ => self.clear(),
            }
            assert_eq!(contents(&self.map), self.model);
        }
    }

    fn fault(&mut self) -> Injected<'a> {
        // A call then allocates the memory of its copies anew.
        self.device.release_staging();
        Injected::of_allocations(self.device, &mut self.rng)
    }

    /// Returns distinct keys: none, one, those of a warp, of several blocks, or of a large batch.
    fn batch(&mut self) -> Vec<u32> {
        let most = self.rng.pick(&[0, 1, 2, 20, 20, 130, 400, 400, 1500, 1500, 6000]);
        let (len, (many, is_spread)) = (self.rng.below(most + 1), self.keys);
        let spread = |number: u64| (number as u32).wrapping_mul(if is_spread { 0x9e37_79b1 } else { 1 });
        let first = self.rng.below(many);
        let mut keys: Vec<u32> = match self.rng.below(4) {
            // Neighbours, in order.
            0 => (first..first + len).map(spread).collect(),
            _ => (0..len).map(|_| spread(self.rng.below(many))).collect(),
        };
        // The largest words have a meaning in tables.
        keys.iter_mut().filter(|key| **key % 61 == 7).for_each(|key| *key = u32::MAX - *key % 3);
        let mut seen = std::collections::HashSet::new();
        keys.retain(|&key| seen.insert(key));
        if self.rng.below(4) == 0 {
            keys.sort_unstable();
        }
        keys
    }

    fn change(&mut self) {
        let (keys, verb) = (self.batch(), self.rng.pick(&Verb::ALL));
        let round = self.rng.below(1 << 20) as u32;
        let values: Vec<u32> = keys.iter().map(|key| key.wrapping_mul(31).wrapping_add(round)).collect();
        self.counters.elements += keys.len() as u64;
        let mut fault = self.fault();
        let said = told(fault.during(|| verb.call(&self.map, &keys, &values)));
        self.counters.note_result(&fault, &said);
        let elements = keys.iter().copied().zip(values.iter().copied());
        match said {
            Ok((told, is_full)) => {
                assert_eq!(told.len(), keys.len());
                let elements: Vec<_> = elements.zip(told).collect();
                self.changed(verb, &elements, is_full, fault.has_struck);
            }
            Err(error) => self.change_failed(verb, &elements.collect::<Vec<_>>(), &error),
        }
    }

    /// Checks what a call has returned, and applies it.
    fn changed(&mut self, verb: Verb, elements: &[((u32, u32), Told)], is_full: bool, is_struck: bool) {
        let mut refused = 0;
        for &((key, value), told) in elements {
            let before = self.model.get(&key).copied();
            if told.0 == Some(Outcome::Refused) {
                let may = M::KEEPS_VERSIONS || verb.inserts() && before.is_none();
                assert!(may, "{verb:?} of {key} refused, {before:?} before");
                refused += 1;
                continue;
            }
            let (after, expected) = verb.apply(key, value, before);
            let same = if is_full { told.0 == expected.0 || expected.0.is_none() } else { told == expected };
            assert!(same, "{verb:?} of {key}: {told:?}, expected {expected:?}, {before:?} before");
            match after {
                Some(after) => self.model.insert(key, after),
                None => self.model.remove(&key),
            };
        }
        assert!(refused == 0 || is_struck, "{verb:?}: a map that grows refuses {refused}");
        self.counters.refused += u64::from(refused > 0);
    }

    /// After a call that has failed, each of its keys is as before, or as after the call. If memory was
    /// lacking, nothing has been inserted.
    fn change_failed(&mut self, verb: Verb, elements: &[(u32, u32)], error: &Error) {
        let is_nothing = verb.inserts() && matches!(error, Error::Device(gpu::Error::OutOfMemory { .. }));
        let now = contents(&self.map);
        let mut expected = self.model.clone();
        for &(key, value) in elements.iter().filter(|_| !is_nothing) {
            let before = self.model.get(&key).copied();
            let (after, _) = verb.apply(key, value, before);
            if now.get(&key).copied() == after {
                match after {
                    Some(after) => expected.insert(key, after),
                    None => expected.remove(&key),
                };
            }
        }
        assert!(now == expected, "{verb:?} of {} keys failed: {error}", elements.len());
        self.model = now;
    }

    fn look_up(&mut self) {
        let (keys, mut fault) = (self.batch(), self.fault());
        let found = fault.during(|| self.map.get(&keys));
        self.counters.note_result(&fault, &found);
        if let Ok(found) = found {
            assert!(found.into_iter().eq(keys.iter().map(|key| self.model.get(key).copied())));
        }
        let mut fault = self.fault();
        let found = fault.during(|| self.map.contains_key(&keys));
        self.counters.note_result(&fault, &found);
        if let Ok(found) = found {
            assert!(found.into_iter().eq(keys.iter().map(|key| self.model.contains_key(key))));
        }
    }

    /// Removes the pairs outside a range of keys or values. If the call fails, some of them are left.
    fn retain(&mut self) {
        let ends = [self.rng.below(1 << 32) as u32, self.rng.below(1 << 32) as u32];
        let range = ends[0].min(ends[1])..=ends[0].max(ends[1]);
        let (mut fault, by_key) = (self.fault(), self.rng.below(2) == 0);
        let said = fault.during(|| match by_key {
            true => self.map.retain_keys(range.clone()),
            false => self.map.retain_values(range.clone()),
        });
        self.counters.note_result(&fault, &said);
        let before = self.model.clone();
        self.model.retain(|key, value| range.contains(if by_key { key } else { value }));
        if said.is_err() {
            let now = contents(&self.map);
            assert!(self.model.iter().all(|pair| now.get(pair.0) == Some(pair.1)), "a kept pair is gone");
            assert!(now.iter().all(|pair| before.get(pair.0) == Some(pair.1)), "a pair that never was");
            self.model = now;
        }
    }

    /// Saves the map, and goes on with another one that is loaded from the file.
    fn save_and_load(&mut self) {
        let (mut fault, mut file) = (self.fault(), Vec::new());
        let saved = fault.during(|| self.map.save(&mut file));
        self.counters.note_result(&fault, &saved);
        if saved.is_err() {
            return;
        }
        let builder = M::random(self.device, &mut self.rng);
        let mut fault = self.fault();
        let loaded = fault.during(|| M::load_in(&file, builder));
        match loaded {
            Ok(map) => {
                self.map = map;
                self.counters.loaded += 1;
            }
            Err(Error::NoRoom { .. } | Error::DoesNotFit { .. }) if fault.has_struck => {}
            failed => self.counters.note_result(&fault, &failed.map(drop)),
        }
    }

    /// Removes all pairs. If the call fails, the map is as before, or empty.
    fn clear(&mut self) {
        let mut fault = self.fault();
        let said = fault.during(|| self.map.clear());
        self.counters.note_result(&fault, &said);
        if said.is_ok() || contents(&self.map).is_empty() {
            self.model.clear();
        }
    }
}

//! A script: a random map, and random calls.
use super::super::model::{self, Map, Placement, all_pairs, check, look_around};
use super::batch::{Batch, Model, Verb};
use gpu::Device;
use phalanx::{Error, Result};
use phalanx_testing::common::Rng;
use phalanx_testing::fault::Injected;
use phalanx_testing::scripts::Counters;
use std::ops::ControlFlow;

/// Number of calls of a script.
const CALLS: u64 = 12;

pub struct Script<'a> {
    device: &'a Device,
    rng: Rng,
    map: Map<u32, u32>,
    /// Whether the map may refuse pairs without a fault.
    may_refuse: bool,
    model: Model,
    /// Number of different keys, and whether they are spread over all words.
    keys: (u64, bool),
    counters: &'a mut Counters,
}

impl<'a> Script<'a> {
    pub fn new(device: &'a Device, seed: u64, counters: &'a mut Counters) -> Self {
        let mut rng = Rng::new(seed);
        let (builder, may_refuse) = model::random(device, &mut rng, 0);
        let map = builder.build().unwrap();
        let keys = (rng.pick(&[60, 900, 3000]), rng.below(2) == 0);
        Self { device, rng, map, may_refuse, model: Model::new(), keys, counters }
    }

    pub fn run(&mut self) {
        for _ in 0..CALLS {
            self.counters.calls += 1;
            match self.rng.below(20) {
                0..=9 => self.change(),
                10..=13 => self.look_up(),
                14 => self.retain(),
                15..=16 => self.stream(),
                17 => self.save_and_load(),
                _ => self.manage(),
            }
            assert_eq!(self.map.len(), self.model.len());
            assert!(self.map.peak_device_bytes() <= self.map.budget());
        }
        let absent = self.random_keys(20).into_iter().filter(|key| !self.model.contains_key(key));
        let absent: Vec<u32> = absent.collect();
        check(&self.map, &self.model, &absent);
    }

    fn fault(&mut self) -> Injected<'a> {
        Injected::random(self.device, &mut self.rng)
    }

    /// Returns a number of elements: none, one, those of a chunk, or of several.
    fn len(&mut self) -> usize {
        let most = self.rng.pick(&[1, 2, 20, 20, 130, 400, 400, 1500]);
        self.rng.below(most + 1) as usize
    }

    fn random_keys(&mut self, len: usize) -> Vec<u32> {
        let (many, is_spread) = self.keys;
        let key = |number: u32| if is_spread { number.wrapping_mul(0x9e37_79b1) } else { number };
        // The largest words have a meaning in tables.
        let reserved = |number: u32| !(number % 8);
        (0..len)
            .map(|_| match (self.rng.below(many) as u32, self.rng.below(64)) {
                (number, 0) => reserved(number),
                (number, _) => key(number),
            })
            .collect()
    }

    /// Returns a batch, of one key in one of eight.
    fn batch(&mut self) -> Batch {
        let (len, verb) = (self.len(), self.rng.pick(&Verb::ALL));
        let mut keys = self.random_keys(len);
        if self.rng.below(8) == 0 && len > 0 {
            keys = vec![keys[0]; len];
        }
        if verb == Verb::Mixed {
            keys.sort_unstable();
            keys.dedup();
        }
        let round = self.rng.below(1 << 20) as u32;
        let values = keys.iter().map(|key| key.wrapping_mul(31).wrapping_add(round)).collect();
        self.counters.elements += keys.len() as u64;
        Batch { verb, keys, values }
    }

    fn change(&mut self) {
        let (batch, mut fault) = (self.batch(), self.fault());
        let is_on_host = self.rng.below(4) > 0;
        let said = match is_on_host {
            true => batch.on_host(&self.map, &mut fault),
            false => batch.on_device(&self.map, &mut fault),
        };
        let is_refused = !said.is_error && said.done.contains(&false);
        self.counters.refused += u64::from(is_refused);
        // A hash map does not grow for batches on device buffers.
        assert!(
            !is_refused || !is_on_host || self.may_refuse || fault.has_struck,
            "a map that grows refuses"
        );
        self.counters.note(&fault, said.is_error);
        batch.apply(&mut self.model, &said);
        if fault.has_struck {
            assert_eq!(all_pairs(&self.map), self.model, "{:?}: the elements that are done", batch.verb);
        }
    }

    fn look_up(&mut self) {
        let (len, mut fault) = (self.len(), self.fault());
        // Some keys are looked up often.
        let often = self.random_keys(8);
        let mut keys = self.random_keys(len);
        if self.rng.below(2) == 0 {
            keys.iter_mut()
                .for_each(|key| *key = if *key % 8 == 0 { *key } else { often[*key as usize % 8] });
        }
        let found = match self.rng.below(2) {
            0 => fault.during(|| self.map.get(&keys)).map(|values| {
                assert!(values.into_iter().eq(keys.iter().map(|key| self.model.get(key).copied())));
            }),
            _ => fault.during(|| self.map.contains_key(&keys)).map(|found| {
                assert!(found.into_iter().eq(keys.iter().map(|key| self.model.contains_key(key))));
            }),
        };
        self.counters.note(&fault, found.is_err());
        self.require_device_error(found);
        keys.truncate(50);
        look_around(&self.map, &self.model, &keys);
    }

    fn require_device_error(&self, said: Result<()>) {
        assert!(matches!(said, Ok(()) | Err(Error::Device(_) | Error::ShardFile { .. })), "{said:?}");
    }

    /// If a removal fails, some of the rejected keys may be removed.
    fn retain(&mut self) {
        let (mut fault, rest) = (self.fault(), self.rng.below(5) as u32);
        let keeps = move |key: u32| key % 5 != rest;
        let map = &mut self.map;
        let said = fault.during(|| map.retain(|key, _| keeps(key)));
        self.counters.note(&fault, said.is_err());
        let before = std::mem::take(&mut self.model);
        self.model =
            before.iter().filter(|(key, _)| keeps(**key)).map(|(&key, &value)| (key, value)).collect();
        if said.is_err() {
            let now = all_pairs(&self.map);
            assert!(self.model.iter().all(|pair| now.get(pair.0) == Some(pair.1)), "a kept pair is gone");
            assert!(now.iter().all(|pair| before.get(pair.0) == Some(pair.1)), "a pair that never was");
            self.model = now;
        }
    }

    /// Inserts batches until the callback stops, and looks all of them up.
    fn stream(&mut self) {
        let lens: Vec<usize> = (0..4).map(|_| self.len() / 4).collect();
        let batches: Vec<Vec<u32>> = lens.into_iter().map(|len| self.random_keys(len)).collect();
        let stop = 1 + self.rng.below(5) as usize;
        let done = self.map.insert_stream(batches.iter().map(|keys| (keys, keys)), |progress| {
            if progress.batches == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if self.may_refuse {
            assert!(matches!(done, Ok(_) | Err(Error::NoRoom { .. })), "{done:?}");
            self.model = all_pairs(&self.map);
        } else {
            let inserted = batches.iter().take(done.unwrap().batches).flatten();
            self.model.extend(inserted.map(|&key| (key, key)));
        }
        let mut found = Vec::new();
        let sink = |keys: &[u32], values: Vec<Option<u32>>| found.extend(keys.iter().copied().zip(values));
        self.map.get_stream(&batches, sink, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.len(), batches.iter().map(Vec::len).sum::<usize>());
        assert!(found.into_iter().all(|(key, value)| self.model.get(&key).copied() == value));
    }

    /// Saves the map, and goes on with another one that is loaded from the file.
    fn save_and_load(&mut self) {
        let (mut fault, mut file) = (self.fault(), Vec::new());
        let saved = fault.during(|| self.map.save(&mut file));
        self.counters.note(&fault, saved.is_err());
        if saved.is_err() {
            return self.require_device_error(saved);
        }
        let (builder, may_refuse) = model::random(self.device, &mut self.rng, self.model.len());
        let mut fault = self.fault();
        let loaded = fault.during(|| Map::load(&file[..], builder));
        self.counters.note(&fault, loaded.is_err());
        match loaded {
            Ok(map) => {
                (self.map, self.may_refuse) = (map, may_refuse);
                self.counters.loaded += 1;
            }
            // Without memory for more shards, pairs are left over.
            Err(Error::DoesNotFit { .. }) => {}
            Err(error) => self.require_device_error(Err(error)),
        }
    }

    fn manage(&mut self) {
        match self.rng.below(4) {
            0 => {
                self.map.clear().unwrap();
                self.model.clear();
            }
            1 => self.map.release_host_memory().unwrap(),
            _ => {
                let all = [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];
                self.map.set_placement(self.rng.pick(&all));
            }
        }
    }
}

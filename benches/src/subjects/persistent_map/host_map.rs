//! Baseline: access managed by the CPU. A batch is copied to the host, several threads look it up in a
//! concurrent map in host memory, and the results are copied back.
use super::items::{Key, Value};
use super::table::{Elements, Table, Verb};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result};
use dashmap::DashMap;
use gpu::{Buffer, Device, Stream, Tier};
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use simt::hash::mix64;
use std::hash::{BuildHasherDefault, Hasher};

/// Default number of threads.
const THREADS: f64 = 16.0;

/// Elements that a thread takes at a time.
const GRAIN: usize = 256;

/// Hashes the words of a key. Faster than the default, which resists attacks.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.0 = mix64(self.0 ^ u64::from_le_bytes(padded));
        }
    }

    fn write_usize(&mut self, _len: usize) {
        // All keys have the same number of words.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A concurrent map of the host, and memory for the copies.
pub struct HostMap<K, V> {
    map: DashMap<K, V, BuildHasherDefault<Mixed>>,
    pool: ThreadPool,
    device: Device,
    copies: Copies<K, V>,
}

/// Copies of a batch in pinned memory.
struct Copies<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<K: Key, V: Value> Copies<K, V> {
    fn new(device: &Device, len: usize) -> Result<Self> {
        Ok(Self {
            keys: device.buffer_on(Tier::Pinned, len)?,
            values: device.buffer_on(Tier::Pinned, len)?,
            outcomes: device.buffer_on(Tier::Pinned, len)?,
        })
    }
}

impl<K: Key, V: Value> HostMap<K, V> {
    /// Creates an empty map with room for `pairs` pairs, and `threads` threads.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the threads cannot start, or pinned memory runs out.
    pub fn new(gpu: &Gpu, case: &Case, pairs: usize) -> Result<Self> {
        let threads = case.number_if_given("threads")?.unwrap_or(THREADS) as usize;
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().context("threads of a host map")?;
        let device = gpu.device.clone();
        let copies = Copies::new(&device, 0)?;
        Ok(Self { map: DashMap::with_capacity_and_hasher(pairs, <_>::default()), pool, device, copies })
    }

    /// Executes an operation on the copies.
    fn execute(&mut self, verb: Verb, len: usize) -> Result<()> {
        let (map, copies) = (&self.map, &mut self.copies);
        let keys = &copies.keys.as_slice()?[..len];
        let values = &mut copies.values.as_mut_slice()?[..len];
        let outcomes = &mut copies.outcomes.as_mut_slice()?[..len];
        self.pool.install(|| {
            let elements = keys.par_iter().zip(values).zip(outcomes).with_min_len(GRAIN);
            elements.for_each(|((key, value), outcome)| *outcome = one(map, verb, *key, value) as u8);
        });
        Ok(())
    }
}

/// Executes an operation on a pair.
fn one<K: Key, V: Value>(
    map: &DashMap<K, V, BuildHasherDefault<Mixed>>,
    verb: Verb,
    key: K,
    value: &mut V,
) -> Outcome {
    match verb {
        Verb::Get => map.get(&key).map_or(Outcome::Absent, |found| {
            *value = *found;
            Outcome::Found
        }),
        Verb::Insert => map.insert(key, *value).map_or(Outcome::Inserted, |_| Outcome::Replaced),
        Verb::Update => map.get_mut(&key).map_or(Outcome::Absent, |mut found| {
            *found = *value;
            Outcome::Replaced
        }),
        Verb::Remove => map.remove(&key).map_or(Outcome::Absent, |_| Outcome::Removed),
    }
}

impl<K: Key, V: Value> Table<K, V> for HostMap<K, V> {
    fn submit(&mut self, stream: &Stream, verb: Verb, elements: Elements<'_, K, V>) -> Result<()> {
        let Elements { keys, values, mut results, mut outcomes } = elements;
        let len = keys.len();
        if self.copies.keys.len() < len {
            self.copies = Copies::new(&self.device, len)?;
        }
        stream.synchronize()?;
        keys.read_into(0, &mut self.copies.keys.as_mut_slice()?[..len])?;
        if verb.writes_values() {
            values.read_into(0, &mut self.copies.values.as_mut_slice()?[..len])?;
        }
        self.execute(verb, len)?;
        if verb == Verb::Get {
            results.write(&self.copies.values.as_slice()?[..len])?;
        }
        Ok(outcomes.write(&self.copies.outcomes.as_slice()?[..len])?)
    }

    fn load(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        let map = &self.map;
        let insert = |(key, value): (&K, &V)| {
            map.insert(*key, *value);
        };
        self.pool.install(|| keys.par_iter().zip(values).with_min_len(GRAIN).for_each(insert));
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.map.clear();
        Ok(())
    }

    fn len(&self) -> Result<usize> {
        Ok(self.map.len())
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn memory_usage(&self) -> [usize; 2] {
        [0, self.map.capacity() * size_of::<(K, V)>()]
    }
}

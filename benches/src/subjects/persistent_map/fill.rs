//! Insertions until a key is refused.
use super::items::{Key, Numbered, Value};
use super::run::{check_contents, named};
use super::table::{self, Elements, Table, Verb};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::PersistentMap;
use phalanx_kernels::keyed::Outcome;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use workloads::parallel;

/// Prepared case: a map for `n` pairs, which does not grow. Insertions end when `until` per cent of the slots
/// are filled (100), even if no key was refused. `calls` is `host` (calls on host slices, which
/// move other pairs if few keys are refused) or `stream` (batches on device buffers, which do not).
pub struct Fill<'a, K, V> {
    gpu: &'a Gpu,
    map: PersistentMap<K, V>,
    numbered: Numbered,
    by_host: bool,
    batch: usize,
    /// Number of keys after which no more are inserted.
    most: usize,
    /// Number of keys that have been inserted or refused.
    asked: u32,
    refused: HashSet<u32>,
    ms: f64,
}

impl<'a, K: Key, V: Value> Fill<'a, K, V> {
    /// Creates the map.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the machine lacks the memory.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let map: PersistentMap<K, V> = table::builder(gpu, case, case.n as usize)?.build()?;
        let until = case.number_if_given("until")?.unwrap_or(100.0);
        Ok(Self {
            gpu,
            most: (map.capacity() as f64 * until / 100.0) as usize,
            map,
            numbered: Numbered::new(case.seed),
            by_host: case.choice("calls", &[("host", true), ("stream", false)])?,
            batch: (case.number("batch")? as usize).max(1),
            asked: 0,
            refused: HashSet::new(),
            ms: 0.0,
        })
    }

    /// Inserts a batch. Returns its outcomes.
    fn insert(&mut self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        if self.by_host {
            let start = Instant::now();
            let outcomes = self.map.insert(keys, values)?;
            self.ms += start.elapsed().as_secs_f64() * 1e3;
            return Ok(outcomes.into());
        }
        let (device, stream) = (&self.gpu.device, &self.gpu.stream);
        let (keys, values) = (device.from_slice(keys)?, device.from_slice(values)?);
        let mut outcomes: Buffer<u8> = device.filled(keys.len(), UNWRITTEN)?;
        let mut results = device.buffer::<V>(0)?;
        let (results, codes) = (results.slice_mut(..)?, outcomes.slice_mut(..)?);
        let elements =
            Elements { keys: keys.slice(..)?, values: values.slice(..)?, results, outcomes: codes };
        let start = Instant::now();
        self.map.submit(stream, Verb::Insert, elements)?;
        stream.synchronize()?;
        self.ms += start.elapsed().as_secs_f64() * 1e3;
        let codes = outcomes.read()?;
        Ok(codes.into_iter().map(|code| Outcome::from_code(code).unwrap_or(Outcome::Absent)).collect())
    }
}

impl<K: Key, V: Value> Benchmark for Fill<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        (self.asked, self.ms) = (0, 0.0);
        self.refused.clear();
        Ok(self.map.clear()?)
    }

    fn launch(&mut self) -> Result<()> {
        while self.refused.is_empty() && (self.asked as usize) < self.most {
            let first = self.asked;
            let word = |index: usize| self.numbered.word(first + index as u32);
            let keys = parallel::tabulate(self.batch, |index| K::of(word(index)));
            let values = parallel::tabulate(self.batch, |index| V::of(word(index), 0));
            let outcomes = self.insert(&keys, &values)?;
            for (number, outcome) in (first..).zip(outcomes) {
                let is_refused = outcome == Outcome::Refused;
                ensure!(is_refused || outcome == Outcome::Inserted, "key {number} is {outcome:?}");
                self.refused.extend(is_refused.then_some(number));
            }
            self.asked += self.batch as u32;
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (gpu, refused) = (self.gpu, &self.refused);
        let expected = |number: u32| (!refused.contains(&number)).then_some(0);
        check_contents(gpu, &mut self.map, &self.numbered, 0..self.asked, &expected)?;
        self.map.check()?;
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        u64::from(self.asked) - self.refused.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let capacity = self.map.capacity() as f64;
        let first = self.refused.iter().min().copied().unwrap_or(self.asked);
        let counted = BTreeMap::from([
            // In per cent, so that a figure can show it.
            ("load", 100.0 * self.operations() as f64 / capacity),
            ("load_at_first_refusal", 100.0 * f64::from(first) / capacity),
            ("capacity", capacity),
        ]);
        vec![Metric::TableBytes(self.map.memory_usage() as u64), named(counted)]
    }
}

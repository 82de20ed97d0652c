//! Addition of a level.
use super::items::{Key, Numbered, Value};
use super::run::{check_contents, load, named};
use super::table;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use phalanx::PersistentMap;
use std::collections::BTreeMap;
use std::time::Instant;

/// Prepared case: a map with `n` pairs.
pub struct Grow<'a, K, V> {
    gpu: &'a Gpu,
    case: Case,
    numbered: Numbered,
    map: Option<PersistentMap<K, V>>,
    /// Capacity before the growth.
    before: usize,
    ms: f64,
}

impl<'a, K: Key, V: Value> Grow<'a, K, V> {
    /// Prepares the case. Each repetition creates a map.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case has too many pairs.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        ensure!(case.n < 1 << 31, "{} pairs are too many", case.n);
        let numbered = Numbered::new(case.seed);
        Ok(Self { gpu, case: case.clone(), numbered, map: None, before: 0, ms: 0.0 })
    }

    fn map(&mut self) -> Result<&mut PersistentMap<K, V>> {
        self.map.as_mut().context("the map does not exist yet")
    }
}

impl<K: Key, V: Value> Benchmark for Grow<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.map = None;
        let mut map = table::builder(self.gpu, &self.case, self.case.n as usize)?.build()?;
        load(&mut map, &self.numbered, self.case.n as u32)?;
        self.before = map.capacity();
        self.map = Some(map);
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let (pairs, start) = (self.before / 2, Instant::now());
        self.map()?.reserve(pairs)?;
        self.ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (gpu, numbered, before) = (self.gpu, self.numbered.clone(), self.before);
        let pairs = self.case.n as u32;
        let map = self.map()?;
        ensure!(map.capacity() == 2 * before, "the map has {} slots, not twice {before}", map.capacity());
        map.check()?;
        check_contents(gpu, map, &numbered, 0..pairs, &|_| Some(0))?;
        Ok(Verified::all(pairs as usize))
    }

    fn operations(&self) -> u64 {
        self.case.n
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.map.as_ref().map_or(0, |map| map.memory_usage() + map.host_memory_usage());
        let counted = BTreeMap::from([("slots_before", self.before as f64)]);
        vec![Metric::TableBytes(bytes as u64), named(counted)]
    }
}

//! Lookups beside a refresh of the cache.
use super::files::pair_count;
use super::items::{Key, Numbered, Value};
use super::run::{load, named, quantile};
use super::sync::Batch;
use super::table::{self, Table, Verb};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::PersistentMap;
use std::collections::BTreeMap;
use std::time::Instant;
use workloads::ScrambledZipf;
use workloads::random::Source;

/// Batches before the refresh, and from its submission on.
const BEFORE: usize = 16;
const AFTER: usize = 64;

/// Prepared case. The cache is empty before each repetition.
pub struct Refresh<'a, K, V> {
    gpu: &'a Gpu,
    map: PersistentMap<K, V>,
    numbered: Numbered,
    pairs: u32,
    gets: Batch<K, V>,
    /// Milliseconds of a refresh alone, which is measured once.
    alone_ms: Option<f64>,
    /// Milliseconds of each batch.
    ms: Vec<f64>,
}

impl<'a, K: Key, V: Value> Refresh<'a, K, V> {
    /// Creates the map, and a batch of keys by Zipf's law.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the machine lacks the memory.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (pairs, numbered) = (pair_count(case)?, Numbered::new(case.seed));
        let zipf = ScrambledZipf::new(u64::from(pairs), case.number("theta")?, case.seed)?;
        let source = Source::new(case.seed, "lookups beside a refresh");
        let asked = source.generate(case.n as usize, |generator, _| zipf.item(generator) as u32);
        Ok(Self {
            gpu,
            map: table::builder(gpu, case, pairs as usize)?.build()?,
            gets: Batch::new(gpu, &numbered, Verb::Get, asked)?,
            numbered,
            pairs,
            alone_ms: None,
            ms: Vec::new(),
        })
    }

    /// Empties the cache, and looks keys up, so that a refresh has what to choose from.
    fn empty_cache(&mut self) -> Result<()> {
        Table::clear(&mut self.map)?;
        load(&mut self.map, &self.numbered, self.pairs)?;
        (0..BEFORE).try_for_each(|_| self.gets.run(&self.map).map(drop))
    }
}

impl<K: Key, V: Value> Benchmark for Refresh<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.ms.clear();
        self.empty_cache()?;
        if self.alone_ms.is_none() {
            self.gpu.device.synchronize()?;
            let start = Instant::now();
            self.map.refresh()?;
            self.alone_ms = Some(start.elapsed().as_secs_f64() * 1e3);
            self.empty_cache()?;
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        for number in 0..BEFORE + AFTER {
            if number == BEFORE {
                self.map.refresh_cache()?;
            }
            self.ms.push(self.gets.run(&self.map)?);
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms.iter().sum())
    }

    fn verify(&mut self) -> Result<Verified> {
        self.gets.check(&self.numbered)?;
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        (self.ms.len() * self.gets.len()) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let (before, after) = self.ms.split_at(BEFORE.min(self.ms.len()));
        let rate = |ms: f64| self.gets.len() as f64 / ms / 1e3;
        let counted = BTreeMap::from([
            ("before_mops", rate(quantile(before, 0.5))),
            ("lowest_mops", rate(quantile(after, 1.0))),
            // The second half is after the refresh.
            ("after_mops", rate(quantile(&after[after.len() / 2..], 0.5))),
            ("refresh_ms", self.alone_ms.unwrap_or(0.0)),
        ]);
        vec![Metric::TableBytes(self.map.memory_usage() as u64), named(counted)]
    }
}

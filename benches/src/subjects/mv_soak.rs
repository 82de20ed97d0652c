//! Soak test with insertions, removals and snapshots: it searches for hangs, lost updates and memory that is
//! never freed. Its times are no measurement.
use super::driver::{self, Batch};
use super::map_plan::Call;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use phalanx::MultiVersionBTree;
use phalanx::map::Word as MapWord;
use phalanx_kernels::keyed::Outcome;
use workloads::parallel;
use workloads::{Key as Word, UniqueKeys, value_of};

/// Rounds of updates. Each round ends with the same pairs as it began with.
pub struct Soak<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    tree: MultiVersionBTree<K, V>,
    keys: Vec<K>,
    others: Vec<K>,
    batches: Vec<Batch<K, V>>,
    batch: usize,
    /// Live slabs after the first round.
    live: Option<usize>,
    wrong: usize,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> Soak<'a, K, V> {
    /// Creates a soak test. Half of the `n` pairs stay, and the other half are inserted and removed in each
    /// round, `batch` pairs per launch.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when `batch` is 0.
    pub fn new(gpu: &'a Gpu, case: &Case, tree: MultiVersionBTree<K, V>) -> Result<Self> {
        let batch = case.number_if_given("batch")?.map_or(case.n as usize, |batch| batch as usize);
        ensure!(batch > 0, "`batch` is 0: {} pairs never come", case.n);
        let unique = UniqueKeys::<K>::new(case.seed);
        let half = case.n as usize / 2;
        let (keys, others) = (unique.present(half)?, unique.absent(half)?);
        Ok(Self { gpu, tree, keys, others, batches: Vec::new(), batch, live: None, wrong: 0 })
    }

    /// Takes a snapshot before each batch, inserts the batches, compares some keys with the snapshots, and
    /// removes the inserted keys.
    fn round(&mut self) -> Result<()> {
        let Self { gpu, tree, batches, others, batch, wrong, .. } = self;
        for (place, inserts) in batches.iter_mut().enumerate() {
            let then = tree.snapshot()?;
            driver::ask(tree, &gpu.stream, Call::Insert, inserts)?;
            let own = &others[place * *batch..][..inserts.keys.len()];
            let asked = &own[..own.len().min(256)];
            *wrong += tree.at(&then)?.contains_key(asked)?.into_iter().filter(|there| *there).count();
            gpu.stream.synchronize()?;
            *wrong += inserts.keys.len() - inserts.count(Outcome::Inserted)?;
        }
        for own in others.chunks(*batch) {
            let then = tree.snapshot()?;
            *wrong += tree.remove(own)?.into_iter().filter(|removed| !removed).count();
            let asked = &own[..own.len().min(256)];
            let kept = tree.at(&then)?.get(asked)?;
            *wrong += kept.iter().zip(asked).filter(|(found, key)| **found != Some(value_of(**key))).count();
        }
        Ok(())
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Soak<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        if self.batches.is_empty() {
            let values: Vec<V> = parallel::map(&self.keys, |&key| value_of(key));
            let outcomes = self.tree.insert(&self.keys, &values)?;
            ensure!(outcomes.all_placed(), "{} updates are refused", outcomes.refused());
            let parts = self.others.chunks(self.batch);
            self.batches = parts.map(|part| Batch::inserts(&self.gpu.device, part)).collect::<Result<_>>()?;
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.round()
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure!(self.wrong == 0, "{} answers were wrong", self.wrong);
        self.tree.drain()?;
        self.tree.validate()?;
        let (live, versions) = (self.tree.stats()?.live, self.tree.versions()?);
        ensure!(versions == 0, "no snapshot lives, and {versions} versions are left");
        // Nodes are not merged, so the same keys reuse the nodes from the first round.
        let first = *self.live.get_or_insert(live);
        ensure!(live <= first + first / 50, "{live} slabs are live, and {first} were after the first round");
        let found = self.tree.get(&self.keys)?;
        let right =
            found.iter().zip(&self.keys).filter(|(found, key)| **found == Some(value_of(**key))).count();
        ensure!(right == self.keys.len(), "{right} of {} pairs are there", self.keys.len());
        ensure!(self.tree.len()? == self.keys.len(), "{} pairs are counted", self.tree.len()?);
        // All insertions, all removals, and the pairs that stay.
        Ok(Verified::all(2 * self.others.len()))
    }

    fn operations(&self) -> u64 {
        2 * self.others.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.tree.memory_usage() as u64)]
    }
}

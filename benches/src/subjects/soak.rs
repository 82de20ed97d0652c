//! Soak test with insertions of new keys into an empty tree, repeated: it searches for hangs and lost keys,
//! and does not measure speed.
//!
//! Every key is looked up after each run, and the invariants of the whole tree are checked.
use super::driver::{self, Batch};
use super::increments::{all_inserted, verify_all};
use super::map_plan::Call;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use phalanx::BTree;
use phalanx::map::Word as MapWord;
use workloads::{Key as Word, UniqueKeys};

/// Runs of insertions, each into an empty tree.
pub struct Soak<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    tree: BTree<K, V>,
    seed: u64,
    pairs: usize,
    /// Pairs per launch.
    batch: usize,
    run: u64,
    keys: Vec<K>,
    batches: Vec<Batch<K, V>>,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> Soak<'a, K, V> {
    /// Creates a soak test of the case's `n` pairs, `batch` per launch, by default all at once.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when `batch` is 0.
    pub fn new(gpu: &'a Gpu, case: &Case, tree: BTree<K, V>) -> Result<Self> {
        let (seed, pairs) = (case.seed, case.n as usize);
        let batch = case.number_if_given("batch")?.map_or(pairs, |batch| batch as usize);
        ensure!(batch > 0, "`batch` is 0: {pairs} pairs never come");
        Ok(Self { gpu, tree, seed, pairs, batch, run: 0, keys: Vec::new(), batches: Vec::new() })
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Soak<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.tree.clear()?;
        self.run += 1;
        self.keys = UniqueKeys::new(self.seed.wrapping_add(self.run)).present(self.pairs)?;
        self.batches.clear();
        let parts = self.keys.chunks(self.batch);
        self.batches = parts.map(|part| Batch::inserts(&self.gpu.device, part)).collect::<Result<_>>()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let Self { gpu, tree, batches, .. } = self;
        batches.iter_mut().try_for_each(|batch| driver::ask(tree, &gpu.stream, Call::Insert, batch))
    }

    fn verify(&mut self) -> Result<Verified> {
        self.batches.iter().try_for_each(all_inserted)?;
        self.tree.validate()?;
        verify_all(&self.tree, &self.keys)
    }

    fn operations(&self) -> u64 {
        self.pairs as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.tree.memory_usage() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn other_keys_come_each_time_and_one_that_is_lost_is_seen() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = first_case("soak/btree", 0);
        let tree =
            BTree::<u32, u32>::builder().device(&gpu.device).capacity(case.n as usize).build().unwrap();
        let mut soak = Soak::new(&gpu, &case, tree).unwrap();
        let mut before = Vec::new();
        for _ in 0..2 {
            soak.restore().unwrap();
            soak.launch().unwrap();
            assert_eq!(soak.verify().unwrap(), Verified { compared: case.n, succeeded: case.n });
            assert_ne!(soak.keys, before);
            before.clone_from(&soak.keys);
        }
        soak.tree.remove(&before[..1]).unwrap();
        assert!(soak.verify().unwrap_err().to_string().contains("pairs are there"));
    }
}

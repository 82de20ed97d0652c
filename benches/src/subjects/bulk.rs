//! Bulk builds of B-trees from sorted pairs. Every pair is compared.
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::map::Word as MapWord;
use phalanx::{BTree, Map};
use rayon::prelude::*;
use workloads::parallel;
use workloads::{Key as Word, UniqueKeys, value_of};

/// Pairs per node, in all variants.
const SLOTS: f64 = 14.0;

/// Bulk build of an empty tree from sorted pairs on the device. The call blocks, so its time includes the
/// host's work.
pub struct Bulk<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    tree: BTree<K, V>,
    fill: f64,
    sorted: Vec<(K, V)>,
    keys: Buffer<K>,
    values: Buffer<V>,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> Bulk<'a, K, V> {
    /// Copies the pairs to the device.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device runs out of memory.
    pub fn new(gpu: &'a Gpu, case: &Case, tree: BTree<K, V>, fill: f64) -> Result<Self> {
        let mut keys = UniqueKeys::<K>::new(case.seed).present(case.n as usize)?;
        keys.par_sort_unstable();
        let values: Vec<V> = parallel::map(&keys, |&key| value_of(key));
        let (device_keys, device_values) = (gpu.device.from_slice(&keys)?, gpu.device.from_slice(&values)?);
        let sorted = keys.into_iter().zip(values).collect();
        Ok(Self { gpu, tree, fill, sorted, keys: device_keys, values: device_values })
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Bulk<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.tree.clear()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        Ok(self.tree.bulk_build_sorted(&self.keys, &self.values, self.fill)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        self.tree.validate()?;
        check_nodes(&self.tree, self.fill)?;
        // Does not use the tree's own `iter`, which would drop duplicate keys.
        let mut pairs: Vec<(K, V)> = Map::iter(&self.tree)?.collect();
        pairs.par_sort_unstable();
        let (found, expected) = (pairs.len(), self.sorted.len());
        ensure!(found == expected, "{expected} pairs were given, and {found} are in the tree");
        let wrong = pairs.par_iter().zip(&self.sorted).find_first(|(pair, given)| pair != given);
        ensure!(wrong.is_none(), "a pair and the one given: {wrong:?}");
        Ok(Verified::all(found))
    }

    fn operations(&self) -> u64 {
        self.sorted.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.tree.memory_usage() as u64)]
    }
}

/// Checks that a bulk-built tree has as many nodes as its pairs need. With `m` pairs or children in each
/// node, there is one node for each `m - 1` pairs, leaves and inner nodes together.
///
/// # Errors
/// Returns [`anyhow::Error`] when the number of nodes differs, and [`phalanx::Error`] when the device fails.
pub fn check_nodes<K: MapWord, V: MapWord>(tree: &BTree<K, V>, fill: f64) -> Result<()> {
    let (pairs, nodes) = (tree.len()? as f64, tree.stats()?.live as f64);
    let expected = pairs / ((SLOTS * fill).round() - 1.0);
    // One node of each level may be partly filled, and the root and the leaf of the reserved key always
    // exist.
    let is_right = (nodes - expected).abs() <= 0.02 * expected + 16.0;
    ensure!(is_right, "{pairs} pairs are in {nodes} nodes, and at a fill of {fill} it is some {expected:.0}");
    Ok(())
}

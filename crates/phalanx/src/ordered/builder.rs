//! Construction of B-trees and skip lists.
use super::growth::{Growth, nodes_for};
use super::history::History;
use super::kernels::{Kernels, Shape};
use super::large_batches::LargeBatches;
use super::memory::Memory;
use super::tree::Tree;
use crate::map::handle::Handle;
use crate::map::variant::select;
use crate::program::open;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Key, Result, Value};
use gpu::{Device, Tier};
use phalanx_kernels::ordered::EMPTY_TREE_NODES;
use std::marker::PhantomData;

/// Parameters of a [`BTree`](crate::BTree).
///
/// ```
/// use phalanx::btree::{Growth, LargeBatches, variants};
/// use phalanx::{BTree, Device};
///
/// let tree = BTree::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(10_000)
///     .nodes(2000) // instead of the number for the capacity
///     .super_block_slabs(1024)
///     .budget(1 << 20)
///     .growth(Growth::Fixed)
///     .large_batches(LargeBatches::Concurrent)
///     .directory(true)
///     .variant(variants::<u32, u32>()[0])
///     .build()?;
/// assert_eq!(tree.stats()?.capacity, 2048);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the pool, its bitmaps, the directory and 8 KiB
/// of counters, writes each byte once, launches the build of the empty tree, and waits.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    device: Option<Device>,
    capacity: usize,
    nodes: Option<usize>,
    super_block_slabs: Option<usize>,
    budget: usize,
    growth: Growth,
    large_batches: LargeBatches,
    directory: bool,
    data_tier: Tier,
    variant: Option<String>,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self {
            device: None,
            capacity: 1024,
            nodes: None,
            super_block_slabs: None,
            budget: usize::MAX,
            growth: Growth::Pool,
            large_batches: LargeBatches::default(),
            directory: true,
            data_tier: Tier::Device,
            variant: None,
            of: PhantomData,
        }
    }
}

// Not derived: a derived impl would require `Clone` of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        let (device, variant) = (self.device.clone(), self.variant.clone());
        Self { device, variant, of: PhantomData, ..*self }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// Sets the device that holds the tree. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets the number of pairs for which the pool has nodes from the start, whatever the order of insertion.
    /// Default: 1024. The tree usually holds more: the size assumes half-full nodes, which ascending keys
    /// leave, and is rounded up to super blocks, so a small capacity is exceeded many times over.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Raises the capacity to `pairs` if it is less.
    pub(crate) fn at_least(self, pairs: usize) -> Self {
        let capacity = self.capacity.max(pairs);
        self.capacity(capacity)
    }

    /// Sets the initial number of nodes of the pool, instead of deriving it from the capacity.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Sets the minimum number of nodes by which the pool grows: a power of two from 32 to 2^24. Default: an
    /// eighth of the initial number. See [`Growth::Pool`] for pools that reach the maximum of 255 super
    /// blocks.
    pub fn super_block_slabs(mut self, slabs: usize) -> Self {
        self.super_block_slabs = Some(slabs);
        self
    }

    /// Sets the maximum number of bytes of the nodes. Default: limited only by the device.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets the policy for a pool without free nodes. Default: [`Growth::Pool`].
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// Sets how large batches are executed. Default: [`LargeBatches::RebuildIfBlocking`].
    pub fn large_batches(mut self, large_batches: LargeBatches) -> Self {
        self.large_batches = large_batches;
        self
    }

    /// Sets whether descents begin at a node found through the directory or, if `false`, at the root. Meant
    /// for measuring the benefit of the directory. Default: `true`.
    pub fn directory(mut self, directory: bool) -> Self {
        self.directory = directory;
        self
    }

    /// Sets the memory tier of all super blocks but the first.
    pub(crate) fn data_tier(mut self, tier: Tier) -> Self {
        self.data_tier = tier;
        self
    }

    /// Selects the variant by name, one of [`variants`](crate::btree::variants). Default: the fastest
    /// measured.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Creates an empty tree, with the history that `history` creates for its device.
    pub(crate) fn build_tree(
        self,
        variants: impl Iterator<Item = &'static dyn Kernels<K::Word, V::Word>> + Clone,
        history: impl FnOnce(&Device, Shape) -> Result<Option<History>>,
    ) -> Result<Tree<K::Word, V::Word>> {
        let device = self.open_device()?;
        let kernels = select(&device, self.selected(), variants)?;
        let history = history(&device, kernels.shape())?;
        self.build_with(device, kernels, history)
    }

    /// Returns the device, ready for the kernels of this crate.
    pub(crate) fn open_device(&self) -> Result<Device> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        open(self.device.as_ref())
    }

    /// Returns the name of the selected variant, if one is selected.
    pub(crate) fn selected(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// Creates an empty tree with these kernels.
    pub(crate) fn build_with(
        self,
        device: Device,
        kernels: &dyn Kernels<K::Word, V::Word>,
        history: Option<History>,
    ) -> Result<Tree<K::Word, V::Word>> {
        let pool = self.pool(&device, kernels.shape())?;
        let words = |entries| kernels.directory_words(entries);
        let memory = Memory::new(&device, pool, self.directory, words)?.with(history);
        Tree::new(Handle::new(device, kernels.boxed(), memory), self.growth, self.large_batches)
    }

    fn pool(&self, device: &Device, shape: Shape) -> Result<SlabAlloc> {
        // Versions replaced by all threads on the device are freed three epochs later at the earliest.
        let versions = if shape.moves { 4 * device.resident_threads() as usize } else { 0 };
        let nodes = self
            .nodes
            .unwrap_or(nodes_for(self.capacity, shape.slots as usize) + versions)
            .max(EMPTY_TREE_NODES);
        let pool = SlabAlloc::builder()
            .device(device)
            .capacity(nodes)
            .slab_bytes(shape.node_bytes)
            .super_block_or_eighth(self.super_block_slabs)
            .budget(self.budget)
            .light(shape.light)
            .tiers(Tier::Device, self.data_tier);
        match self.nodes {
            Some(_) => pool.build(),
            None => pool.build_for("pairs (`capacity`)", self.capacity, shape.slots as usize / 2),
        }
    }
}

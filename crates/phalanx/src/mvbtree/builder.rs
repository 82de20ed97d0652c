//! Construction of trees that keep versions.
use super::MultiVersionBTree;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::variant::{names, variants};
use crate::ordered::builder::Builder as TreeBuilder;
use crate::ordered::growth::Growth;
use crate::ordered::history::History;
use crate::ordered::kernels::Kernels;
use crate::ordered::large_batches::LargeBatches;
use crate::{Key, Result, Value};
use gpu::Device;
use phalanx_kernels::mvbtree;
use phalanx_kernels::ordered::Config;
use std::fmt;

/// How updates keep the versions that snapshots read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// The first change of a leaf after a snapshot copies the leaf; later changes are in place. Only the host
    /// takes snapshots, between launches.
    InPlace,
    /// Every change copies the leaf. Hosts, streams and kernels take snapshots, concurrently with writers.
    OutOfPlace,
}

/// Parameters of a [`MultiVersionBTree`].
///
/// ```
/// use phalanx::mvbtree::{Growth, LargeBatches, Updates, variants};
/// use phalanx::{Device, MultiVersionBTree};
///
/// let tree = MultiVersionBTree::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(10_000)
///     .nodes(4000) // instead of the number for the capacity
///     .super_block_slabs(4096)
///     .budget(1 << 20)
///     .growth(Growth::Fixed)
///     .large_batches(LargeBatches::Concurrent)
///     .directory(true)
///     .updates(Updates::OutOfPlace)
///     .build()?;
/// assert_eq!((tree.updates(), tree.stats()?.capacity), (Updates::OutOfPlace, 4096));
/// let name = variants::<u32, u32>()[0];
/// assert_eq!(MultiVersionBTree::<u32, u32>::builder().variant(name).build()?.variant(), name);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the pool, its bitmaps, the directory, 8 KiB of
/// counters and the memory of snapshots and epochs, writes each byte once, launches the build of the empty
/// tree, and waits.
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    inner: TreeBuilder<K, V>,
    updates: Updates,
}

impl<K, V> fmt::Debug for Builder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("updates", &self.updates).finish_non_exhaustive()
    }
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { inner: TreeBuilder::default(), updates: Updates::InPlace }
    }
}

// Not derived: a derived impl would require `Clone` of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), updates: self.updates }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    fn map(self, change: impl FnOnce(TreeBuilder<K, V>) -> TreeBuilder<K, V>) -> Self {
        Self { inner: change(self.inner), updates: self.updates }
    }

    /// Sets the device that holds the tree. Default: [`Device::from_environment`].
    pub fn device(self, device: &Device) -> Self {
        self.map(|inner| inner.device(device))
    }

    /// Sets the number of pairs for which the pool has nodes from the start. Default: 1024. With
    /// [`Updates::OutOfPlace`] the pool has additional slabs for versions: four for each thread that can be
    /// resident on the device, since a batch replaces that many before any can be freed. Versions that
    /// snapshots keep need more.
    pub fn capacity(self, pairs: usize) -> Self {
        self.map(|inner| inner.capacity(pairs))
    }

    pub(super) fn at_least(self, pairs: usize) -> Self {
        self.map(|inner| inner.at_least(pairs))
    }

    /// Sets the initial number of nodes of the pool, instead of deriving it from the capacity.
    pub fn nodes(self, nodes: usize) -> Self {
        self.map(|inner| inner.nodes(nodes))
    }

    /// Sets the number of nodes by which the pool grows: a power of two from 32 to 2^24. Default: an eighth
    /// of the initial number.
    pub fn super_block_slabs(self, slabs: usize) -> Self {
        self.map(|inner| inner.super_block_slabs(slabs))
    }

    /// Sets the maximum number of bytes of nodes and versions. Default: limited only by the device.
    pub fn budget(self, bytes: usize) -> Self {
        self.map(|inner| inner.budget(bytes))
    }

    /// Sets the policy for a pool without free nodes. Default: [`Growth::Pool`].
    pub fn growth(self, growth: Growth) -> Self {
        self.map(|inner| inner.growth(growth))
    }

    /// Sets how large batches are executed. Default: [`LargeBatches::RebuildIfBlocking`].
    pub fn large_batches(self, large_batches: LargeBatches) -> Self {
        self.map(|inner| inner.large_batches(large_batches))
    }

    /// Sets whether descents begin at a node found through the directory or, if `false`, at the root. Meant
    /// for measuring the benefit of the directory. Default: `true`.
    pub fn directory(self, directory: bool) -> Self {
        self.map(|inner| inner.directory(directory))
    }

    /// Sets how updates keep the versions that snapshots read. Default: [`Updates::InPlace`].
    pub fn updates(mut self, updates: Updates) -> Self {
        self.updates = updates;
        self
    }

    /// Selects the variant by name, one of [`super::variants`], which also determines how it updates.
    /// Default: the one for [`Self::updates`].
    pub fn variant(self, name: &str) -> Self {
        self.map(|inner| inner.variant(name))
    }

    /// Creates an empty tree.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] if the capacity is 0; [`Error::UnknownVariant`] if no variant has the name for
    /// these types; [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap;
    /// [`Error::Device`] if the device lacks the memory; otherwise as [`crate::SlabAlloc`]'s builder.
    pub fn build(self) -> Result<MultiVersionBTree<K, V>> {
        let moves = self.updates == Updates::OutOfPlace;
        let by_name = self.inner.selected().is_some();
        let variants = versioned_trees().filter(|kernels| by_name || kernels.shape().moves == moves);
        let tree = self.inner.build_tree(variants, |device, shape| Ok(Some(History::new(device, shape)?)))?;
        Ok(MultiVersionBTree { tree })
    }
}

/// Returns the names of all variants for these key and value types. A name consists of how updates keep
/// versions, bytes per node, lanes per tile x words per lane, and bits of key and value.
///
/// ```
/// let names = phalanx::mvbtree::variants::<u32, u32>();
/// assert!(names.contains(&"mvtree_in_place_spread_128_4x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    names(versioned_trees::<K::Word, V::Word>())
}

variants! {
    /// Returns the kernels of all trees with snapshots and these key and value types, the defaults first.
    versioned_trees: Kernels, mvbtree, Config
}

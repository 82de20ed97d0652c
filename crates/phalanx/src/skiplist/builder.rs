//! Construction of skip lists.
use super::SkipList;
use super::kernels;
use super::list::List;
use super::passes::Assignment;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::variant::{names, select};
use crate::ordered::builder::Builder as TreeBuilder;
use crate::ordered::growth::Growth;
use crate::ordered::large_batches::LargeBatches;
use crate::{Key, Result, Value};
use gpu::{Device, Tier};

/// Parameters of a [`SkipList`].
///
/// ```
/// use phalanx::gpu::Tier;
/// use phalanx::skiplist::{Assignment, Growth, LargeBatches};
/// use phalanx::{Device, SkipList};
///
/// let list = SkipList::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(10_000)
///     .nodes(2000) // instead of the number for the capacity
///     .super_block_slabs(1024)
///     .budget(1 << 20)
///     .growth(Growth::Fixed)
///     .large_batches(LargeBatches::Concurrent)
///     .directory(true)
///     .data_tier(Tier::Pinned)
///     .assignment(Assignment::Spread)
///     .variant("list_spread_128_8x2_u32_u32")
///     .build()?;
/// assert_eq!(list.stats()?.capacity, 2048);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the pool, its bitmaps, the directory and 8 KiB
/// of counters, writes each byte once, launches the build of the empty list, and waits.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    nodes: TreeBuilder<K, V>,
    assignment: Assignment,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { nodes: TreeBuilder::default(), assignment: Assignment::default() }
    }
}

// Not derived: a derived impl would require `Clone` of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), assignment: self.assignment }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    fn with(self, change: impl FnOnce(TreeBuilder<K, V>) -> TreeBuilder<K, V>) -> Self {
        Self { nodes: change(self.nodes), ..self }
    }

    /// Sets the device that holds the list. Default: [`Device::from_environment`].
    pub fn device(self, device: &Device) -> Self {
        self.with(|nodes| nodes.device(device))
    }

    /// Sets the number of pairs for which the pool has nodes from the start, whatever the order of insertion.
    /// Default: 1024. The list usually holds more: the size assumes half-full nodes, which ascending keys
    /// leave, and is rounded up to super blocks, so a small capacity is exceeded many times over.
    pub fn capacity(self, pairs: usize) -> Self {
        self.with(|nodes| nodes.capacity(pairs))
    }

    /// Raises the capacity to `pairs` if it is less.
    pub(super) fn at_least(self, pairs: usize) -> Self {
        self.with(|nodes| nodes.at_least(pairs))
    }

    /// Sets the initial number of nodes of the pool, instead of deriving it from the capacity.
    pub fn nodes(self, many: usize) -> Self {
        self.with(|nodes| nodes.nodes(many))
    }

    /// Sets the number of nodes by which the pool grows: a power of two from 32 to 2^24. Default: an eighth
    /// of the initial number.
    pub fn super_block_slabs(self, slabs: usize) -> Self {
        self.with(|nodes| nodes.super_block_slabs(slabs))
    }

    /// Sets the maximum number of bytes of the nodes. Default: limited only by the device.
    pub fn budget(self, bytes: usize) -> Self {
        self.with(|nodes| nodes.budget(bytes))
    }

    /// Sets the policy for a pool that has no free nodes, even after merged nodes are reclaimed. Default:
    /// [`Growth::Pool`].
    pub fn growth(self, growth: Growth) -> Self {
        self.with(|nodes| nodes.growth(growth))
    }

    /// Sets how large batches are executed. Default: [`LargeBatches::RebuildIfBlocking`].
    /// With other assignments than [`Assignment::Spread`] it is [`LargeBatches::Concurrent`].
    pub fn large_batches(self, large_batches: LargeBatches) -> Self {
        self.with(|nodes| nodes.large_batches(large_batches))
    }

    /// Sets whether searches begin at a node found through the directory or, if `false`, at the topmost
    /// layer. Default: `true`.
    pub fn directory(self, directory: bool) -> Self {
        self.with(|nodes| nodes.directory(directory))
    }

    /// Sets the memory tier of data nodes. Default: [`Tier::Device`].
    ///
    /// It applies to variants whose index layers have their own part of the pool (`list_layered_...`,
    /// `list_apart_...`). The index nodes stay on the device, except those that do not fit that part, and
    /// those of a list that was built in bulk (`bulk_build`, `compact`, `load`) or moved to a larger pool:
    /// the first super block of such a list, which stays on the device, has data nodes. With other variants
    /// the tier applies to the nodes of all layers, except those in the first super block. Contiguous pools
    /// stay on the device.
    pub fn data_tier(self, tier: Tier) -> Self {
        self.with(|nodes| nodes.data_tier(tier))
    }

    /// Sets how the keys of a batch are assigned to tiles. Default: [`Assignment::Spread`].
    pub fn assignment(self, assignment: Assignment) -> Self {
        Self { assignment, ..self }
    }

    /// Selects the variant by name, one of [`super::variants`]. Default: nodes of 14 pairs.
    pub fn variant(self, name: &str) -> Self {
        self.with(|nodes| nodes.variant(name))
    }

    /// Creates an empty list.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] if the capacity is 0; [`Error::UnknownVariant`] if no variant has the name for
    /// these types; [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap;
    /// [`Error::Device`] if the device lacks the memory; otherwise as [`crate::SlabAlloc`]'s builder.
    pub fn build(self) -> Result<SkipList<K, V>> {
        let Self { nodes, assignment } = match self.assignment {
            Assignment::Spread => self,
            _ => self.large_batches(LargeBatches::Concurrent),
        };
        let device = nodes.open_device()?;
        let kernels = select(&device, nodes.selected(), kernels::all())?;
        let tree = nodes.build_with(device, kernels, None)?;
        Ok(SkipList { list: List::new(tree, kernels.boxed_list(), assignment) })
    }
}

/// Returns the names of all variants for these key and value types. A name consists of pool, bytes per node,
/// lanes per tile x words per lane, and bits of key and value.
///
/// ```
/// let names = phalanx::skiplist::variants::<u32, u32>();
/// assert!(names.contains(&"list_spread_128_8x2_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    names(kernels::all::<K::Word, V::Word>())
}

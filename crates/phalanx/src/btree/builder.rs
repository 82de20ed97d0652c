//! How trees are made.
use super::BTree;
use super::engine::{self, Engine, Shape};
use super::trees::{Growth, Memory, Trees, nodes_for};
use crate::map::owner::Owner;
use crate::mvbtree::History;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Key, PROGRAM, Result, Value};
use gpu::{Device, Tier};
use phalanx_kernels::btree::{LEAST, NAMES};
use std::marker::PhantomData;

/// The parameters of a [`BTree`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    device: Option<Device>,
    capacity: usize,
    nodes: Option<usize>,
    super_block_slabs: Option<usize>,
    budget: usize,
    growth: Growth,
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
            directory: true,
            data_tier: Tier::Device,
            variant: None,
            of: PhantomData,
        }
    }
}

// Not derived: that would ask it of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        let (device, variant) = (self.device.clone(), self.variant.clone());
        Self { device, variant, of: PhantomData, ..*self }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// The device that holds the tree. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// How many pairs the pool has nodes for from the start, in whatever order they come: pools are made of
    /// super blocks, of nodes that keys in order leave half full, so there is room for more, of few pairs for
    /// many times as many. Default: 1024.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// A capacity of so many pairs at least.
    pub(crate) fn at_least(self, pairs: usize) -> Self {
        let capacity = self.capacity.max(pairs);
        self.capacity(capacity)
    }

    /// Nodes that the pool has from the start, instead of what the capacity needs.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Nodes by which the pool grows at least: a power of two from 32 to 2^24. Default: an eighth of what it
    /// begins with. See [`Growth::Pool`] for what becomes of a pool that has 255 times as many.
    pub fn super_block_slabs(mut self, slabs: usize) -> Self {
        self.super_block_slabs = Some(slabs);
        self
    }

    /// Bytes that the nodes may occupy at most. Default: what the device has.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// What happens when the pool has no node left. Default: [`Growth::Pool`].
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// Whether walks begin at the nodes that the directory lists, or, where it is `false`, at the root: for
    /// those who measure what it is worth. Default: `true`.
    pub fn directory(mut self, directory: bool) -> Self {
        self.directory = directory;
        self
    }

    /// Where all super blocks but the first lie.
    pub(crate) fn data_tier(mut self, tier: Tier) -> Self {
        self.data_tier = tier;
        self
    }

    /// The kind of tree by its name, one of [`super::variants`]. Default: the fastest measured.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Makes the tree, empty.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::UnknownVariant`], [`Error::NeedsWideSwap`], those of [`SlabAlloc`]'s
    /// builder, and the device's when it lacks the memory.
    pub fn build(self) -> Result<BTree<K, V>> {
        let default = usual::<K, V>("tree_spread", "4x4");
        let family = Family { default, find: engine::find, names: names::<K, V> };
        Ok(BTree { trees: self.plant(family, |_, _| Ok(None))? })
    }

    /// Makes what has trees' nodes, empty, with the history that is made for it on a device.
    pub(crate) fn plant<E: Engine<K, V> + ?Sized>(
        self,
        family: Family<E>,
        history: impl FnOnce(&Device, Shape) -> Result<Option<History>>,
    ) -> Result<Trees<K, V, E>> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let device = self.device.clone().map_or_else(Device::from_environment, Ok)?;
        device.add_program(&PROGRAM);
        let (name, engine) = self.engine(&device, &family)?;
        let (pool, history) = (self.pool(&device, engine.shape())?, history(&device, engine.shape())?);
        let words = |entries| engine.directory_words(entries);
        let memory = Memory::new(&device, pool, self.directory, words)?.with(history);
        Trees::new(Owner::new(device, engine, name, memory), self.growth)
    }

    fn engine<E: Engine<K, V> + ?Sized>(
        &self,
        device: &Device,
        family: &Family<E>,
    ) -> Result<(String, Box<E>)> {
        let name = self.variant.clone().unwrap_or_else(|| family.default.clone());
        let Some(engine) = (family.find)(&name) else {
            return Err(Error::UnknownVariant { name, known: (family.names)().join(", ") });
        };
        if engine.shape().wide && !device.supports_cas128() {
            return Err(Error::NeedsWideSwap { name, device: device.name() });
        }
        Ok((name, engine))
    }

    fn pool(&self, device: &Device, shape: Shape) -> Result<SlabAlloc> {
        // What all threads on the device replace is freed three epochs later at the earliest.
        let versions = if shape.moves { 4 * device.resident_threads() as usize } else { 0 };
        let nodes =
            self.nodes.unwrap_or(nodes_for(self.capacity, shape.slots as usize) + versions).max(LEAST);
        let least = (nodes / 8).clamp(32, 1 << 24).next_power_of_two();
        SlabAlloc::builder()
            .device(device)
            .capacity(nodes)
            .slab_bytes(shape.node_bytes)
            .super_block_slabs(self.super_block_slabs.unwrap_or(least))
            .budget(self.budget)
            .light(shape.light)
            .tiers(Tier::Device, self.data_tier)
            .build()
    }
}

/// Kinds of what has trees' nodes, among which a builder chooses.
pub(crate) struct Family<E: ?Sized> {
    /// The one that is taken when none is named.
    pub default: String,
    /// That of a name, if its keys and values are of the right types.
    pub find: fn(&str) -> Option<Box<E>>,
    /// All names of the right types.
    pub names: fn() -> Vec<&'static str>,
}

/// The names of all kinds of tree for these types.
pub fn names<K: Key, V: Value>() -> Vec<&'static str> {
    NAMES.iter().copied().filter(|name| engine::find::<K, V>(name).is_some()).collect()
}

/// The name of the kind that is taken when none is named: `tiles` are lanes and words a lane, for pairs of 32
/// bits.
pub(crate) fn usual<K: Key, V: Value>(prefix: &str, tiles: &str) -> String {
    match (K::BITS, V::BITS) {
        (32, 32) => format!("{prefix}_128_{tiles}_u32_u32"),
        (key, value) => format!("{prefix}_256_16x1_u{key}_u{value}"),
    }
}

//! How skip lists are made.
use super::SkipList;
use super::engine::{self, Engine};
use super::notes::Notes;
use super::passes::Assignment;
#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::btree::Growth;
use crate::btree::builder::{Builder as Trees, Family, usual};
use crate::{Key, Result, Value};
use gpu::{Device, Tier};
use phalanx_kernels::skiplist::NAMES;

/// The parameters of a [`SkipList`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    nodes: Trees<K, V>,
    assignment: Assignment,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { nodes: Trees::default(), assignment: Assignment::default() }
    }
}

// Not derived: that would ask it of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), assignment: self.assignment }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    fn with(self, change: impl FnOnce(Trees<K, V>) -> Trees<K, V>) -> Self {
        Self { nodes: change(self.nodes), ..self }
    }

    /// The device that holds the list. Default: [`Device::from_environment`].
    pub fn device(self, device: &Device) -> Self {
        self.with(|nodes| nodes.device(device))
    }

    /// How many pairs the pool has nodes for from the start, in whatever order they come: pools are made of
    /// super blocks, of nodes that keys in order leave half full, so there is room for more, of few pairs for
    /// many times as many. Default: 1024.
    pub fn capacity(self, pairs: usize) -> Self {
        self.with(|nodes| nodes.capacity(pairs))
    }

    /// A capacity of so many pairs at least.
    pub(super) fn at_least(self, pairs: usize) -> Self {
        self.with(|nodes| nodes.at_least(pairs))
    }

    /// Nodes that the pool has from the start, instead of what the capacity needs.
    pub fn nodes(self, many: usize) -> Self {
        self.with(|nodes| nodes.nodes(many))
    }

    /// Nodes by which the pool grows: a power of two from 32 to 2^24.
    pub fn super_block_slabs(self, slabs: usize) -> Self {
        self.with(|nodes| nodes.super_block_slabs(slabs))
    }

    /// Bytes that the nodes may occupy at most. Default: what the device has.
    pub fn budget(self, bytes: usize) -> Self {
        self.with(|nodes| nodes.budget(bytes))
    }

    /// What happens when the pool has no node left, and none to take back. Default: [`Growth::Pool`].
    pub fn growth(self, growth: Growth) -> Self {
        self.with(|nodes| nodes.growth(growth))
    }

    /// Whether walks begin at the nodes that the directory lists, or, where it is `false`, at the topmost
    /// layer. Default: `true`.
    pub fn directory(self, directory: bool) -> Self {
        self.with(|nodes| nodes.directory(directory))
    }

    /// Where the memory of data nodes lies, for kinds whose index layers have a part of the pool
    /// (`list_layered_...`, `list_apart_...`): those stay on the device, but for those that find no place in
    /// it, and for those of a list that was built at once (`bulk_build`, `compact`, `load`) or has moved to a
    /// larger pool: of such a list the first super block has data nodes. The other kinds' nodes of all layers
    /// lie there, but for those of the first super block. Pools in one piece stay on the device. Default:
    /// [`Tier::Device`].
    pub fn data_tier(self, tier: Tier) -> Self {
        self.with(|nodes| nodes.data_tier(tier))
    }

    /// How the keys of a batch are shared out among tiles. Default: [`Assignment::Spread`].
    pub fn assignment(self, assignment: Assignment) -> Self {
        Self { assignment, ..self }
    }

    /// The kind of list by its name, one of [`super::variants`]. Default: nodes of 14 pairs.
    pub fn variant(self, name: &str) -> Self {
        self.with(|nodes| nodes.variant(name))
    }

    /// Makes the list, empty.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::UnknownVariant`], [`Error::NeedsWideSwap`], those of
    /// [`crate::SlabAlloc`]'s builder, and the device's when it lacks the memory.
    pub fn build(self) -> Result<SkipList<K, V>> {
        let trees = self.nodes.plant(family(), |_, _| Ok(None))?;
        Ok(SkipList { trees, assignment: self.assignment, notes: Notes::default() })
    }
}

/// The kinds of list.
fn family<K: Key, V: Value>() -> Family<dyn Engine<K, V>> {
    Family { default: usual::<K, V>("list_spread", "8x2"), find: engine::find::<K, V>, names: names::<K, V> }
}

/// The names of all kinds of list for these types.
pub fn names<K: Key, V: Value>() -> Vec<&'static str> {
    NAMES.iter().copied().filter(|name| engine::find::<K, V>(name).is_some()).collect()
}

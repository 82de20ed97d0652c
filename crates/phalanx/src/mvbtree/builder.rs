//! How trees that keep versions are made.
use super::MultiVersionBTree;
use super::history::History;
#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::btree::builder::{Builder as TreeBuilder, Family, usual};
use crate::btree::{Growth, engine};
use crate::{Key, Result, Value};
use gpu::Device;
use phalanx_kernels::btree::versioned;
use std::fmt;
use std::sync::RwLock;

/// How updates keep what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// A leaf is copied when it first changes after a snapshot, and changes where it is. Snapshots are taken
    /// by the host, between launches.
    InPlace,
    /// A leaf is copied by every change. Snapshots are taken by hosts, in streams and by kernels, while
    /// others write.
    OutOfPlace,
}

/// The parameters of a [`MultiVersionBTree`].
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

// Not derived: that would ask it of the keys and values too.
impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), updates: self.updates }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    fn map(self, change: impl FnOnce(TreeBuilder<K, V>) -> TreeBuilder<K, V>) -> Self {
        Self { inner: change(self.inner), updates: self.updates }
    }

    /// The device that holds the tree. Default: [`Device::from_environment`].
    pub fn device(self, device: &Device) -> Self {
        self.map(|inner| inner.device(device))
    }

    /// How many pairs the pool has nodes for from the start. For versions it has room besides where updates
    /// are [`Updates::OutOfPlace`]: four for each thread that is on the device at once, which is what a batch
    /// replaces before anything can be freed. Versions that snapshots keep take more. Default: 1024.
    pub fn capacity(self, pairs: usize) -> Self {
        self.map(|inner| inner.capacity(pairs))
    }

    pub(super) fn at_least(self, pairs: usize) -> Self {
        self.map(|inner| inner.at_least(pairs))
    }

    /// Nodes that the pool has from the start, instead of what the capacity needs.
    pub fn nodes(self, nodes: usize) -> Self {
        self.map(|inner| inner.nodes(nodes))
    }

    /// Nodes by which the pool grows: a power of two from 32 to 2^24.
    pub fn super_block_slabs(self, slabs: usize) -> Self {
        self.map(|inner| inner.super_block_slabs(slabs))
    }

    /// Bytes that nodes and versions may occupy at most. Default: what the device has.
    pub fn budget(self, bytes: usize) -> Self {
        self.map(|inner| inner.budget(bytes))
    }

    /// What happens when the pool has no node left. Default: [`Growth::Pool`].
    pub fn growth(self, growth: Growth) -> Self {
        self.map(|inner| inner.growth(growth))
    }

    /// Sets whether searches begin at the nodes that the directory lists or, with `false`, at the root, which
    /// shows what the directory is worth. Default: `true`.
    pub fn directory(self, directory: bool) -> Self {
        self.map(|inner| inner.directory(directory))
    }

    /// How updates keep what was there before. Default: [`Updates::InPlace`].
    pub fn updates(mut self, updates: Updates) -> Self {
        self.updates = updates;
        self
    }

    /// The kind of tree by its name, one of [`super::variants`], which says how it updates too. Default: the
    /// one for [`Self::updates`].
    pub fn variant(self, name: &str) -> Self {
        self.map(|inner| inner.variant(name))
    }

    /// Makes the tree, empty.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::UnknownVariant`], [`Error::NeedsWideSwap`], those of
    /// [`crate::SlabAlloc`]'s builder, and the device's when it lacks the memory.
    pub fn build(self) -> Result<MultiVersionBTree<K, V>> {
        let way = match self.updates {
            Updates::InPlace => "in_place",
            Updates::OutOfPlace => "out_of_place",
        };
        let default = usual::<K, V>(&format!("mvtree_{way}"), "4x4");
        let family = Family { default, find: engine::find_versioned, names: names::<K, V> };
        let trees = self.inner.plant(family, |device, shape| Ok(Some(History::new(device, shape)?)))?;
        Ok(MultiVersionBTree { trees, asked: RwLock::default() })
    }
}

/// The names of all kinds of tree for these types.
pub fn names<K: Key, V: Value>() -> Vec<&'static str> {
    versioned::NAMES.iter().copied().filter(|name| engine::find_versioned::<K, V>(name).is_some()).collect()
}

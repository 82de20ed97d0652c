//! A tree that keeps versions, and the lock between reads of the present and calls that free versions.
use crate::map::launch::Batch;
use crate::map::structure::{Room, Scans, Structure};
use crate::ordered::tree::Tree;
use crate::{Key, Result, Value};
use gpu::{Device, Stream};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A tree that keeps versions.
pub struct VersionedTree<K, V> {
    pub tree: Tree<K, V>,
    /// Held shared by queries that read as of a snapshot of their own, and exclusively while nodes are freed
    /// or allocated: such a snapshot would prevent a rebuild.
    reads: RwLock<()>,
}

impl<K: Key, V: Value> VersionedTree<K, V> {
    pub fn new(tree: Tree<K, V>) -> Self {
        Self { tree, reads: RwLock::default() }
    }

    /// Begins a read of the present: while the guard lives, no call frees versions to obtain memory.
    pub fn begin_read(&self) -> RwLockReadGuard<'_, ()> {
        self.reads.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key, V: Value> Structure for VersionedTree<K, V> {
    type Key = K;
    type Value = V;

    fn device(&self) -> &Device {
        self.tree.device()
    }

    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.tree.submit(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.tree.scans(run)
    }

    fn generation(&self) -> u64 {
        self.tree.generation()
    }

    fn grows(&self) -> bool {
        self.tree.grows()
    }

    fn grow(&self) -> Result<()> {
        self.tree.grow()
    }

    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
        self.tree.grow_for(refused, seen)
    }

    fn len(&self) -> Result<usize> {
        self.tree.len()
    }

    fn clear(&mut self) -> Result<()> {
        self.tree.clear()
    }

    fn memory_usage(&self) -> usize {
        self.tree.memory_usage()
    }
}

//! A skip list: the nodes that it shares with B-trees, the order of insertions, and the reclamation of nodes.
use super::compact::compact;
use super::dirty_flags::{DirtyFlags, SharedDirtyFlags};
use super::kernels::Kernels;
use super::passes::{Assignment, Pass, passes};
use crate::Result;
use crate::error::made_room;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, Scan};
use crate::map::structure::{HostKeys, Room, Scanner, Scans, Structure};
use crate::ordered::tree::Tree;
use gpu::{Device, Stream};
use phalanx_kernels::skiplist::kernels::passing;

/// Number of nodes up to which a reclamation is not worthwhile.
const MANY: usize = 64;

/// A skip list in device memory.
pub struct List<K, V> {
    pub tree: Tree<K, V>,
    pub kernels: Box<dyn Kernels<K, V>>,
    assignment: Assignment,
    dirty: SharedDirtyFlags,
}

impl<K: Word, V: Word> List<K, V> {
    pub fn new(tree: Tree<K, V>, kernels: Box<dyn Kernels<K, V>>, assignment: Assignment) -> Self {
        Self { tree, kernels, assignment, dirty: SharedDirtyFlags::default() }
    }

    /// Returns the number of merged nodes that still occupy slabs. Waits for all earlier launches.
    pub fn merged(&self) -> Result<usize> {
        Ok(self.tree.handle.settled()?.counts()?.long)
    }

    /// Frees the slabs of merged and empty nodes if there are at least `least`. Counting them reads all nodes
    /// once. A failed attempt does not clear the dirty flag.
    pub fn reclaim(&self, least: usize) -> Result<usize> {
        self.dirty.looked();
        compact(&self.tree, &*self.kernels, least).inspect_err(|_| self.dirty.not_looked())
    }

    /// Reclaims nodes if the operations in `flags` may have left many. Counting nodes takes as long as
    /// several small batches, so it waits for as many removals as may have merged many nodes; kernels of the
    /// user remove elements that nobody counts.
    fn reclaim_many(&self, flags: DirtyFlags) -> Result<()> {
        let removed = self.dirty.count_is_due().or(self.tree.is_viewed().then_some(0));
        let Some(removed) = removed.filter(|_| flags.removals).or(flags.retained.then_some(0)) else {
            return Ok(());
        };
        let (live, merged) = (self.tree.stats()?.live, self.merged()?);
        let least = MANY.max(live / 4);
        self.dirty.counted(removed, least.saturating_sub(merged));
        if live > MANY && merged > least {
            self.reclaim(1)?;
        } else if live > MANY && flags.retained {
            // The removing scan has read all nodes: reading them once more at most doubles its cost.
            self.reclaim(least)?;
        }
        Ok(())
    }

    /// Submits a batch whose elements are executed one by one, concurrently with other batches.
    fn submit_concurrently(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        if matches!(batch.op, BatchOp::Remove | BatchOp::Take | BatchOp::Mixed) {
            self.dirty.removals(batch.keys.max_len());
        }
        if batch.op.places() {
            return self.insert_as_assigned(stream, batch);
        }
        self.tree.submit_concurrently(stream, batch)
    }

    /// Launches a batch that may insert, as the assignment prescribes.
    fn insert_as_assigned(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let len = batch.keys.max_len();
        let many = |pass: Pass| passing(len, pass.step, pass.ratio) as u64;
        let (pairs, most) = {
            let memory = self.tree.handle.read();
            (memory.directory.estimated_pairs(), memory.directory.most())
        };
        let mut left = match self.assignment {
            Assignment::Spread => passes(len as u64, pairs),
            _ => vec![Pass::WHOLE],
        }
        .into_iter();
        while let Some(pass) = left.next() {
            let memory = self.tree.handle.read();
            memory.directory.wait_for_growth(stream)?;
            self.tree.rebuild_directory_if_due(stream, &memory)?;
            let (kernels, list) = (&self.kernels, memory.now());
            // SAFETY: as for `Tree::submit_concurrently`.
            unsafe {
                match (self.assignment, batch.op) {
                    (Assignment::Blocks { keys, thread_blocks }, BatchOp::Insert) => {
                        kernels.launch_runs(stream, list, batch, keys, thread_blocks)?;
                    }
                    _ if pass == Pass::WHOLE => kernels.launch_batch(stream, list, batch)?,
                    _ => kernels.launch_pass(stream, list, batch, pass)?,
                }
            }
            let more_follow = len as u64 > most && left.len() > 0;
            memory.directory.submitted(stream, many(pass), more_follow);
        }
        Ok(())
    }
}

impl<K: Word, V: Word> Structure for List<K, V> {
    type Key = K;
    type Value = V;

    fn device(&self) -> &Device {
        self.tree.device()
    }

    fn needs_whole(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> Result<bool> {
        Ok(self.tree.may_rebuild(op, keys))
    }

    fn run(&self, batch: Batch<K, V>, keys: &HostKeys<'_, K>) -> Result<()> {
        let stream = self.device().default_stream();
        let is_done = self.tree.rebuild_for(&batch, Some(keys))?;
        if is_done { Ok(()) } else { self.submit_concurrently(&stream, batch) }
    }

    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let is_done = self.tree.rebuild_for(&batch, None)?;
        if is_done { Ok(()) } else { self.submit_concurrently(stream, batch) }
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.tree.scans(&mut |scanner| {
            let scan = |scan: Scan<K, V>| {
                if matches!(scan, Scan::RetainBetween { .. }) {
                    self.dirty.retained();
                }
                scanner.run(scan)
            };
            run(Scanner { scan: &scan, ..scanner })
        })
    }

    fn generation(&self) -> u64 {
        self.tree.generation()
    }

    fn grows(&self) -> bool {
        self.tree.grows()
    }

    /// Reclaims nodes that have merged or that scans have emptied, if there are many.
    fn grow(&self) -> Result<()> {
        let flags = self.dirty.take();
        let maintained = self.tree.grow().and_then(|()| self.reclaim_many(flags));
        maintained.inspect_err(|_| self.dirty.put_back(flags))
    }

    /// Reclaims nodes, or grows the pool if the policy allows. If nothing was removed since the nodes were
    /// last scanned, there is nothing to reclaim: so a full list is not scanned by each call that it refuses.
    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if seen.is_some_and(|generation| generation != self.generation()) {
            // Another thread has freed or allocated nodes meanwhile.
            return Ok(Room::More);
        }
        // Instead of growing, many must be freed; instead of refusing, one suffices.
        let least = if self.tree.grows() { (self.tree.stats()?.live / 8).max(1) } else { 1 };
        let reclaims = seen.is_some() || !self.tree.grows();
        if reclaims && (self.dirty.is_due() || self.merged()? > 0) && made_room(self.reclaim(least))? > 0 {
            return Ok(Room::Freed);
        }
        self.tree.grow_for(refused, seen)
    }

    fn is_ordered(&self) -> bool {
        true
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

//! Growth of a B-tree or skip list: how memory for more nodes is obtained.
use super::bulk_build::{Runs, USUAL_FILL};
#[allow(unused_imports)] // for links in the documentation
use super::kernels::Task;
use super::memory::{Memory, directory_for};
use super::tree::Tree;
use crate::error::{made_room, or_later};
use crate::map::counts::distinct;
use crate::map::encoding::Word;
use crate::map::export::{self, Columns};
use crate::map::structure::{Room, Scans, Structure as _};
use crate::{Error, Result};
use gpu::Stream;
use phalanx_kernels::ordered::{EMPTY_TREE_NODES, nodes};

/// Returns the maximum number of nodes that `pairs` pairs need in any order of insertion into an empty tree
/// whose nodes have `slots` slots. The worst case is ascending keys, which leave leaves and inner nodes half
/// full.
pub fn nodes_for(pairs: usize, slots: usize) -> usize {
    let half = slots / 2;
    let leaves = pairs.div_ceil(half);
    leaves + leaves / (half - 1) + 32
}

/// Policy for a pool without free nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The pool does not grow for insertions: pairs that do not fit are refused. Calls that replace all pairs
    /// or reserve memory (`bulk_build`, `reserve`) still allocate what they need, within the budget.
    Fixed,
    /// A blocking call that had refused pairs gets more nodes, by the first of these that works, and then
    /// tries the refused pairs again:
    ///
    /// 1. It rebuilds the tree if its nodes are on average less than 0.35 full. This needs memory as
    ///    `compact` does.
    /// 2. It adds super blocks to the pool, at least half of its capacity if there is memory, up to the
    ///    budget.
    /// 3. If the pool has its maximum of 255 super blocks, it moves the pairs to a pool of larger super
    ///    blocks. Both pools exist during the move.
    /// 4. It rebuilds the tree if that frees an eighth of the pool's nodes.
    ///
    /// A tree that keeps versions is rebuilt or moved only while no snapshot is alive; a leaked one
    /// ([`std::mem::forget`]) lives as long as the tree. A call that finds no memory for the refused pairs
    /// returns [`Error::NoRoom`].
    Pool,
}

/// Returns half of the nodes plus the nodes of an empty tree.
fn half(nodes: usize) -> usize {
    nodes / 2 + EMPTY_TREE_NODES
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Enlarges the directory for a pool that has grown. Nothing else may run.
    pub fn fit_directory(&self, memory: &mut Memory) -> Result<()> {
        if memory.lacks_directory() {
            let words = |entries| self.handle.kernels().directory_words(entries);
            let mut larger = directory_for(&memory.pool, &self.handle.device, words)?;
            larger.learn(memory.directory.estimated_pairs());
            larger.count_on(&memory.directory)?;
            memory.directory = larger.used(memory.directory.is_used());
        }
        Ok(())
    }

    /// Provides `needed` nodes for a tree that replaces the current one. Returns whether the pool is new, and
    /// thus empty.
    pub fn fit_pool(&self, memory: &mut Memory, needed: usize) -> Result<bool> {
        let capacity = memory.pool.capacity();
        if needed <= capacity {
            return Ok(false);
        }
        let (kernels, device) = (self.handle.kernels(), &self.handle.device);
        let empty = |memory: &mut Memory| {
            let pool = memory.pool.larger(needed)?;
            memory.exchange(kernels, device, pool, |_| Ok(()))
        };
        self.grow_by(memory, needed - capacity, empty)
    }

    /// Grows the pool by `nodes` nodes or, if it cannot have that many super blocks, calls `exchange`.
    /// Returns whether the pool was exchanged. The caller has exclusive access, and no snapshot is alive.
    fn grow_by(
        &self,
        memory: &mut Memory,
        nodes: usize,
        exchange: impl FnOnce(&mut Memory) -> Result<()>,
    ) -> Result<bool> {
        match memory.pool.grow(nodes) {
            Err(Error::TooManySlabs { .. }) => {
                // No handle into the old pool may remain.
                memory.sweep(self.handle.kernels(), &self.handle.device.default_stream())?;
                return exchange(memory).map(|()| true);
            }
            grown => grown?,
        }
        memory.generation += 1;
        // The pool has grown even if the directory cannot be enlarged yet.
        or_later(self.fit_directory(memory))?;
        Ok(false)
    }

    /// Provides at least `needed` free nodes, and `wanted` ones if there is memory. Tries in this order:
    /// rebuild the tree if that frees half of its nodes; grow the pool; if the pool has all super blocks that
    /// handles can address, move the tree to a pool of larger ones; rebuild the tree if that frees an eighth
    /// of the pool. Returns whether there are more free nodes.
    fn make_nodes(&self, stream: &Stream, memory: &mut Memory, wanted: usize, needed: usize) -> Result<bool> {
        if made_room(self.pack(stream, memory, half))? {
            return Ok(true);
        }
        let has_grown = memory.pool.grow_if_possible(wanted, needed)?;
        or_later(self.fit_directory(memory))?;
        if has_grown {
            return Ok(true);
        }
        let eighth = needed.max(memory.pool.capacity() / 8);
        let moves = memory.pool.has_all_super_blocks() && !memory.is_remembered();
        Ok((moves && made_room(self.move_with(stream, memory, &[wanted, needed, 1]).map(|()| true))?)
            || made_room(self.pack(stream, memory, |_| eighth))?)
    }

    /// Moves the tree to a pool with the first of the numbers of additional nodes in `more` for which there
    /// is memory. Nothing else may run, no snapshot may be alive and no version retired.
    fn move_with(&self, stream: &Stream, memory: &mut Memory, more: &[usize]) -> Result<()> {
        let (kernels, device) = (self.handle.kernels(), &self.handle.device);
        let (live, capacity) = (memory.counts()?.live, memory.pool.capacity());
        // If the tree is fuller than usual, its nodes keep that fill.
        let mut fills = self.pairs_at(USUAL_FILL)?..self.pairs_at(1.0)?;
        let fits = |fill: &u32| nodes(live as u64, *fill) as usize <= capacity;
        let fill = fills.find(fits).unwrap_or(fills.end);
        // Allocated before the pairs are read, since it may fail for lack of memory.
        let pool = memory.pool.larger_by(more)?;
        let Runs { keys, values, count } = self.in_order(stream, memory, live)?;
        if nodes(count as u64, fill) as usize > pool.capacity() {
            return Err(Error::DoesNotFit { left_over: count.saturating_sub(live), pairs: count });
        }
        let pairs = (keys.global().part(0, count), values.global());
        memory.exchange(kernels, device, pool, |memory| {
            let (count, _) = memory.check_sorted(kernels, stream, pairs.0)?;
            // SAFETY: the caller's obligation. The slices outlive the wait.
            unsafe { memory.build(kernels, stream, pairs, (count, fill))? };
            Ok(device.synchronize()?)
        })
    }

    /// Returns all pairs in key order, `live` being their counted number. Nothing else may run.
    fn in_order(&self, stream: &Stream, memory: &Memory, live: usize) -> Result<Runs<K, V>> {
        Runs::of(self.export_alone(stream, memory, live)?)
    }

    /// Returns all pairs, `live` being their counted number. Nothing else may run.
    pub fn export_alone(&self, stream: &Stream, memory: &Memory, live: usize) -> Result<Columns<K, V>> {
        // SAFETY: the caller's obligation.
        let scan = |run: Scans<'_, K, V>| unsafe { self.scan_alone(stream, memory.now(), live, run) };
        export::whole(&self.handle.device, &scan, |pairs| pairs)
    }

    /// Rebuilds the tree if that frees at least `worth(nodes)` of its nodes, as after many removals. Nothing
    /// else may run. Returns whether the tree was rebuilt. It is not rebuilt while a snapshot is alive, nor
    /// if index nodes have their own part of the memory, since a bulk build does not distinguish them from
    /// other nodes.
    fn pack(&self, stream: &Stream, memory: &mut Memory, worth: impl Fn(usize) -> usize) -> Result<bool> {
        let (nodes_now, fill) = (memory.pool.stats()?.live, self.pairs_at(USUAL_FILL)?);
        let live = memory.counts()?.live;
        let nodes_then = nodes(live as u64, fill) as usize;
        if nodes_now < nodes_then + worth(nodes_now) || memory.is_remembered() || memory.pool.has_tiers() {
            return Ok(false);
        }
        let Runs { keys, values, count } = self.in_order(stream, memory, live)?;
        self.rebuild_from_sorted_in(stream, memory, (keys.global().part(0, count), values.global()), fill)?;
        Ok(true)
    }

    /// Reserves memory for `additional` more pairs: see [`BTree::reserve`](crate::BTree::reserve).
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let slots = self.handle.kernels().shape().slots as usize;
        self.thaw()?;
        self.handle.exclusive(|stream, memory| {
            // Each existing node may be full, so that one more pair splits it.
            let needed = |live| nodes_for(additional, slots).saturating_add(additional.min(live));
            let mut stats = memory.pool.stats()?;
            if needed(stats.live) > stats.free && made_room(self.pack(stream, memory, half))? {
                stats = memory.pool.stats()?;
            }
            let needed = needed(stats.live);
            if needed > stats.free {
                let move_with = |memory: &mut Memory| self.move_with(stream, memory, &[needed]);
                self.grow_by(memory, needed - stats.free, move_with)?;
            }
            Ok(())
        })
    }

    /// Implements [`Structure::grow_for`](crate::map::structure::Structure::grow_for): frees versions that no
    /// snapshot reads and, if the policy allows, provides more nodes within the budget.
    pub fn provide_nodes(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() && self.handle.read().history.is_none() {
            return Ok(Room::None);
        }
        let half = self.handle.kernels().shape().slots as usize / 2;
        let (kernels, refused) = (self.handle.kernels(), distinct(refused));
        self.handle.exclusive(|stream, memory| {
            if seen.is_some_and(|generation| generation != memory.generation) {
                // Another thread has provided nodes meanwhile, perhaps enough.
                return Ok(Room::More);
            }
            // Freed versions may suffice. A pool is exchanged only after the sweep, so an error of the sweep
            // ends the call.
            let freed = memory.sweep(kernels, stream)?;
            let needed = refused.div_ceil(half) * if memory.history.is_some() { 4 } else { 1 };
            let is_enough = seen.is_some() && freed > needed.max(memory.pool.capacity() / 4);
            let wanted = needed.max(memory.pool.capacity() / 2).max(EMPTY_TREE_NODES);
            let has_grown = self.grows() && !is_enough && self.make_nodes(stream, memory, wanted, needed)?;
            let room = if has_grown { Room::More } else { Room::freed_if(freed > 0) };
            memory.generation += u64::from(room != Room::None);
            Ok(room)
        })
    }
}

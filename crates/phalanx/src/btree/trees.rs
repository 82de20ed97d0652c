//! The memory of a tree, and the operations on the tree as a whole.
use super::Runs;
use super::directory::{Directory, places};
use super::engine::{Engine, Parts, Search, Task};
use super::sorter::{self, Sorts};
use crate::error::{made_room, or_later};
use crate::map::batches::check_same_device;
use crate::map::check;
use crate::map::counts::{Counts, distinct};
use crate::map::export::{self, Columns};
use crate::map::launch::{Batch, nothing};
use crate::map::launcher::scans;
use crate::map::owner::{self, Memory as _, Owner};
use crate::map::structure::{Room, Scans, Structure};
use crate::mvbtree::{History, MOST, Moment};
use crate::slab_alloc::{SlabAlloc, Stats};
use crate::{Error, Key, Result, Value};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use phalanx_kernels::ordered::{EMPTY_TREE_NODES, RawVersions as HistoryParts, directory_entries, nodes};
use simt::GlobalSlice;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Default fill of nodes: slightly more than insertions in random order leave.
pub const USUAL_FILL: f64 = 0.7;

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

/// A tree in device memory.
pub struct Trees<K, V, E: ?Sized = dyn Engine<K, V>> {
    pub owner: Owner<E, Memory>,
    growth: Growth,
    /// Whether read-only kernels (weak loads) may be in flight: see [`Self::thaw`].
    frozen: Mutex<bool>,
    /// Sorts batches before they are launched, for variants that do so.
    sorter: Option<Box<dyn Sorts<K, V>>>,
    of: PhantomData<fn() -> (K, V)>,
}

/// Device memory of a tree.
#[derive(Debug)]
pub struct Memory {
    pub counters: Buffer<u64>,
    pub pool: SlabAlloc,
    pub directory: Directory,
    /// Output of [`Task::CheckSorted`].
    report: Buffer<u64>,
    /// Number of times that the memory was replaced, grown or freed.
    pub generation: u64,
    /// Clock, snapshots and epochs, for trees that keep versions.
    pub history: Option<History>,
}

impl Memory {
    /// Allocates the memory of an empty tree. `words` returns the size in words of a directory of a given
    /// number of entries. Descents begin at the directory if `has_directory` is true, else at the root.
    pub fn new(
        device: &Device,
        pool: SlabAlloc,
        has_directory: bool,
        words: impl Fn(u32) -> usize,
    ) -> Result<Self> {
        let directory = directory_for(&pool, device, words)?.used(has_directory);
        let (counters, report) = (device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?, device.zeroed(3)?);
        Ok(Self { counters, pool, directory, report, generation: 0, history: None })
    }

    /// Sets the history, for a tree that keeps versions.
    pub fn with(self, history: Option<History>) -> Self {
        Self { history, ..self }
    }

    /// Frees all versions that no live snapshot reads, while nothing else runs. Returns the number of freed
    /// versions.
    pub fn sweep<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
    ) -> Result<usize> {
        let Some(history) = &mut self.history else { return Ok(0) };
        // Everything that may fail for lack of memory comes first: a sweep that stops half way leaves slabs
        // that are not nodes, and once it has settled the dropped snapshots, it is not due again.
        let (mut pins, mut freed) = (stream.device().buffer(MOST)?, stream.device().zeroed(1)?);
        let live = history.settle(stream)?;
        pins.write_at(0, &live)?;
        let pins = pins.slice().part(0, live.len());
        // SAFETY: the caller's lock excludes other launches, and all earlier ones have ended. The slice
        // outlives the wait below.
        unsafe {
            engine.task(stream, self.parts(), Task::MarkVersions)?;
            engine.task(stream, self.parts(), Task::Sweep { pins })?;
            engine.task(stream, self.parts(), Task::ClearMarked)?;
        }
        stream.synchronize()?;
        if let Some(history) = self.history.as_mut().filter(|_| live.is_empty()) {
            history.begin_anew()?;
        }
        self.pool.reclaim_counted(&mut freed)
    }

    /// Replaces the pool by `pool`, which `fill` fills. If `fill` fails, the memory is unchanged. No snapshot
    /// may be alive.
    fn exchange<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        device: &Device,
        pool: SlabAlloc,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let words = |entries| engine.directory_words(entries);
        let mut other = Self::new(device, pool, self.directory.is_used(), words)?;
        other.directory.count_on(&self.directory)?;
        other.generation = self.generation + 1;
        self.swap_nodes(&mut other);
        let filled = fill(self);
        if filled.is_err() {
            self.swap_nodes(&mut other);
        }
        filled
    }

    /// Swaps everything but the histories.
    fn swap_nodes(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.history, &mut other.history);
    }

    /// Returns whether the directory has too few entries for the pool.
    fn lacks_directory(&self) -> bool {
        directory_entries(self.pool.capacity()) > self.directory.entries()
    }

    /// Returns whether snapshots are alive, whose versions are in the pool.
    fn is_remembered(&self) -> bool {
        self.history.as_ref().is_some_and(History::is_asked_for)
    }

    /// Builds the tree from sorted pairs. `count` of them belong to the key order; the others have the
    /// reserved key. The slabs must be free.
    ///
    /// # Safety
    /// The caller ensures that nothing else runs on the tree, and that the slices outlive the stream's work.
    unsafe fn build<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        (count, fill): (u64, u32),
    ) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { engine.task(stream, self.parts(), Task::Build { keys, values, count, fill })? };
        self.directory.forgotten(keys.len() as u64);
        Ok(())
    }

    /// Checks the keys from which the tree is to be built. Returns the number of keys that belong to the key
    /// order, which are all but the reserved key that marks an empty slot, and whether no slab needs to be
    /// freed first.
    fn check_sorted<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
        keys: GlobalSlice<K>,
    ) -> Result<(u64, bool)> {
        self.report.fill_bytes(0)?;
        let report = self.report.slice();
        // SAFETY: the caller's lock excludes other launches, and all earlier ones have ended. The slice
        // outlives this call.
        unsafe { engine.task(stream, self.parts(), Task::CheckSorted { keys, report })? };
        let mut found = [0; 3];
        self.report.read_into(0, &mut found)?;
        let [many, taken, topmost] = found;
        if many > 0 {
            return Err(Error::Unsorted { many });
        }
        Ok((keys.len() as u64 - topmost, taken == 0))
    }
}

impl owner::Memory for Memory {
    type Parts = Parts;

    fn parts(&self) -> Parts {
        Parts {
            counters: self.counters.pointer(),
            pool: self.pool.parts(),
            directory: self.directory.pointer(),
            entries: self.directory.entries(),
            history: self.history.as_ref().map_or(HistoryParts::NOTHING, History::parts),
        }
    }

    fn counts(&self) -> Result<Counts> {
        Counts::read(&self.counters)
    }
}

/// Allocates a directory of the size that the pool needs.
fn directory_for(pool: &SlabAlloc, device: &Device, words: impl Fn(u32) -> usize) -> Result<Directory> {
    let entries = directory_entries(pool.capacity());
    Ok(Directory::new(device.zeroed(words(entries))?, entries))
}

/// Launches a rebuild of the directory, if the tree uses one.
fn launch_rebuild<K, V>(
    engine: &(impl Engine<K, V> + ?Sized),
    stream: &Stream,
    memory: &Memory,
) -> Result<()> {
    if !memory.directory.is_used() {
        return Ok(());
    }
    // SAFETY: as in `Owner::launch`. A rebuild may run concurrently with everything but exclusive tasks.
    unsafe { engine.task(stream, memory.parts(), Task::RebuildDirectory)? };
    Ok(())
}

/// Result of [`Trees::examine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Pairs in leaves.
    pub pairs: u64,
    /// Levels, including the leaf level.
    pub depth: u32,
    /// Inner nodes.
    pub inner: u64,
    /// Old versions of leaves that are not freed.
    pub versions: u64,
}

/// Nodes read by descents to keys: see [`BTree::walks`](super::BTree::walks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walks {
    /// Number of keys.
    pub keys: u64,
    /// Nodes read per level, leaves first. The last element counts all levels from the sixth up.
    pub nodes: Vec<u64>,
    /// Right links followed, to nodes that were split off after the node that led there was read.
    pub links: u64,
}

/// Returns half of the nodes plus the nodes of an empty tree.
fn half(nodes: usize) -> usize {
    nodes / 2 + EMPTY_TREE_NODES
}

impl<K: Key, V: Value, E: Engine<K, V> + ?Sized> Trees<K, V, E> {
    /// Creates an empty tree in new memory.
    pub fn new(owner: Owner<E, Memory>, growth: Growth) -> Result<Self> {
        let sorter = sorter::of(&owner.name);
        let trees = Self { owner, growth, frozen: Mutex::new(false), sorter, of: PhantomData };
        trees.rebuild_from_sorted(nothing(), nothing(), 2)?;
        Ok(trees)
    }

    /// Submits a task that may run concurrently with others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.owner.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.task(stream, memory.parts(), task)? };
        Ok(())
    }

    /// Submits a search by key order.
    pub fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.search_at(stream, search, Moment::NOW)
    }

    /// [`Self::search`] as of a timestamp.
    pub fn search_at(&self, stream: &Stream, search: Search<K, V>, moment: Moment) -> Result<()> {
        let memory = self.owner.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.search(stream, moment.of(memory.parts()), search)? };
        Ok(())
    }

    /// Submits a batch of lookups as of a timestamp.
    pub fn look_up_at(&self, stream: &Stream, batch: Batch<K, V>, moment: Moment) -> Result<()> {
        let memory = self.owner.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.look_up(stream, moment.of(memory.parts()), batch)? };
        Ok(())
    }

    /// [`Owner::scans`] as of a timestamp.
    pub fn scans_at(&self, run: Scans<'_, K, V>, moment: Moment) -> Result<()> {
        self.owner.exclusive(|engine, stream, memory| {
            let (pairs, parts) = (memory.counts()?.live, moment.of(memory.parts()));
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { scans(engine, stream, parts, pairs, run) }
        })
    }

    /// Waits for all earlier launches and frees all versions that no snapshot reads. Returns the number of
    /// freed versions.
    pub fn sweep(&self) -> Result<usize> {
        self.owner.exclusive(|engine, stream, memory| memory.sweep(engine, stream))
    }

    /// Prepares the tree for read-only kernels: waits for all writers and rebuilds the directory. The caller
    /// has exclusive access, and allows only readers afterwards. Does nothing if the tree is still frozen.
    pub fn freeze(&mut self) -> Result<()> {
        if *self.frozen() {
            return Ok(());
        }
        self.pairs()?;
        self.owner.exclusive(|engine, stream, memory| {
            launch_rebuild(engine, stream, memory)?;
            let pairs = memory.directory.pairs();
            memory.directory.made(pairs);
            Ok(())
        })?;
        *self.frozen() = true;
        Ok(())
    }

    /// Calls `launch`, which must only read, with the parts of a frozen tree.
    pub fn read<T>(&self, launch: impl FnOnce(Parts) -> gpu::Result<T>) -> Result<T> {
        Ok(launch(self.owner.read().parts())?)
    }

    /// Returns the lock of the flag that says whether read-only kernels may be in flight.
    pub fn frozen(&self) -> MutexGuard<'_, bool> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the read-only kernels of a frozen tree, before anything that may write is submitted: the
    /// borrow of their [`Frozen`](super::Frozen) has ended, but the kernels may still run.
    pub fn thaw(&self) -> Result<()> {
        let mut frozen = self.frozen();
        if *frozen {
            self.owner.device.synchronize()?;
            *frozen = false;
        }
        Ok(())
    }

    /// Rebuilds the directory if it is due.
    pub fn rebuild_directory_if_due(&self, stream: &Stream, memory: &Memory) -> Result<()> {
        self.thaw()?;
        let Some(pairs) = memory.directory.due() else { return Ok(()) };
        launch_rebuild(&*self.owner.engine, stream, memory)?;
        memory.directory.rebuilt(pairs);
        Ok(())
    }

    /// Enlarges the directory for a pool that has grown. Nothing else may run.
    fn fit_directory(&self, memory: &mut Memory) -> Result<()> {
        if memory.lacks_directory() {
            let words = |entries| self.owner.engine.directory_words(entries);
            let mut larger = directory_for(&memory.pool, &self.owner.device, words)?;
            larger.learn(memory.directory.pairs());
            larger.count_on(&memory.directory)?;
            memory.directory = larger.used(memory.directory.is_used());
        }
        Ok(())
    }

    /// Launches a batch, sorted first if the variant does so.
    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        match &self.sorter {
            Some(sorter) if sorter::takes(&batch) => {
                let memory = self.owner.read();
                // SAFETY: as in `Owner::launch`.
                unsafe { sorter.launch(stream, memory.parts(), batch) }
            }
            _ => self.owner.launch(stream, batch),
        }
    }

    pub fn stats(&self) -> Result<Stats> {
        self.owner.read().pool.stats()
    }

    /// Replaces the tree by one built from sorted pairs, `fill` of them in a node. If this fails because the
    /// pairs are not sorted or for lack of memory, the tree is unchanged.
    fn rebuild_from_sorted(&self, keys: GlobalSlice<K>, values: GlobalSlice<V>, fill: u32) -> Result<()> {
        self.thaw()?;
        self.owner
            .exclusive(|_, stream, memory| self.rebuild_from_sorted_in(stream, memory, (keys, values), fill))
    }

    /// [`Self::rebuild_from_sorted`] for a caller with exclusive access, while no snapshot is alive.
    fn rebuild_from_sorted_in(
        &self,
        stream: &Stream,
        memory: &mut Memory,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        fill: u32,
    ) -> Result<()> {
        let engine = &*self.owner.engine;
        let (count, is_new) = memory.check_sorted(engine, stream, keys)?;
        let is_new = self.fit_pool(memory, nodes(count, fill) as usize)? || is_new;
        if !is_new {
            // Retired slabs are freed first: the next task frees every node that it finds.
            memory.sweep(engine, stream)?;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { engine.task(stream, memory.parts(), Task::FreeNodes)? };
        }
        // SAFETY: as above. The slices' buffers outlive the wait for this task, or wait for it when they are
        // dropped.
        unsafe { memory.build(engine, stream, (keys, values), (count, fill)) }
    }

    /// Provides `needed` nodes for a tree that replaces the current one. Returns whether the pool is new, and
    /// thus empty.
    fn fit_pool(&self, memory: &mut Memory, needed: usize) -> Result<bool> {
        let capacity = memory.pool.capacity();
        if needed <= capacity {
            return Ok(false);
        }
        let (engine, device) = (&*self.owner.engine, &self.owner.device);
        let empty = |memory: &mut Memory| {
            let pool = memory.pool.larger(needed)?;
            memory.exchange(engine, device, pool, |_| Ok(()))
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
                memory.sweep(&*self.owner.engine, &self.owner.device.default_stream())?;
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
        let (engine, device) = (&*self.owner.engine, &self.owner.device);
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
        let pairs = (keys.slice().part(0, count), values.slice());
        memory.exchange(engine, device, pool, |memory| {
            let (count, _) = memory.check_sorted(engine, stream, pairs.0)?;
            // SAFETY: the caller's obligation. The slices outlive the wait.
            unsafe { memory.build(engine, stream, pairs, (count, fill))? };
            Ok(device.synchronize()?)
        })
    }

    /// Returns all pairs in key order, `live` being their counted number. Nothing else may run.
    fn in_order(&self, stream: &Stream, memory: &Memory, live: usize) -> Result<Runs<K, V>> {
        let engine = &*self.owner.engine;
        // SAFETY: the caller's obligation.
        let scan = |run: Scans<'_, K, V>| unsafe { scans(engine, stream, memory.parts(), live, run) };
        Runs::of(export::whole(&self.owner.device, &scan, |pairs| pairs)?)
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
        self.rebuild_from_sorted_in(stream, memory, (keys.slice().part(0, count), values.slice()), fill)?;
        Ok(true)
    }

    /// Reserves memory for `additional` more pairs: see [`BTree::reserve`](super::BTree::reserve).
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let slots = self.owner.engine.shape().slots as usize;
        self.thaw()?;
        self.owner.exclusive(|_, stream, memory| {
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

    /// Returns the number of pairs per node for a fill.
    pub fn pairs_at(&self, fill: f64) -> Result<u32> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Error::Fill(fill));
        }
        let slots = f64::from(self.owner.engine.shape().slots);
        Ok((slots * fill).round().clamp(2.0, slots) as u32)
    }

    /// Replaces all pairs: see [`BTree::bulk_build`](super::BTree::bulk_build).
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let (fill, device) = (self.pairs_at(fill)?, &self.owner.device);
        self.build((device.from_slice(keys)?, device.from_slice(values)?), fill)
    }

    /// [`Self::bulk_build`] from sorted pairs: see
    /// [`BTree::bulk_build_sorted`](super::BTree::bulk_build_sorted).
    pub fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        check("values", keys.len(), values.len())?;
        check_same_device(&self.owner.device, "keys", keys.device())?;
        check_same_device(&self.owner.device, "values", values.device())?;
        self.rebuild_from_sorted(keys.slice(), values.slice(), fill)
    }

    /// Rebuilds the tree with the given fill: see [`BTree::compact`](super::BTree::compact).
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        self.build(export::on_device(self)?, fill)
    }

    /// Replaces all pairs by those of this device's buffers, in any order, with `fill` pairs per node.
    fn build(&self, pairs: Columns<K, V>, fill: u32) -> Result<()> {
        let Runs { keys, values, count } = Runs::of(pairs)?;
        self.rebuild_from_sorted(keys.slice().part(0, count), values.slice(), fill)
    }

    /// Counts the nodes read by descents to keys of this device: see [`BTree::walks`](super::BTree::walks).
    pub fn walks(&self, keys: &Buffer<K>) -> Result<Walks> {
        let reads = self.owner.device.zeroed::<u64>(8)?;
        let stream = self.owner.device.default_stream();
        self.task(&stream, Task::CountReads { keys: keys.slice(), reads: reads.slice() })?;
        let mut nodes = reads.read()?;
        let links = nodes.pop().unwrap_or(0);
        Ok(Walks { keys: keys.len() as u64, nodes, links })
    }

    /// Checks all nodes: see [`BTree::validate`](super::BTree::validate).
    pub fn examine(&self) -> Result<Examined> {
        let report = self.owner.device.zeroed::<u64>(11)?;
        // SAFETY: the lock excludes other launches, and all earlier ones have ended. The slice outlives this
        // call.
        self.owner.exclusive(|engine, stream, memory| unsafe {
            Ok(engine.task(stream, memory.parts(), Task::Examine { report: report.slice() })?)
        })?;
        let found = report.read()?;
        let (versions, undated) = (found[9], found[10]);
        let stats = self.stats()?;
        let live = ((stats.live + stats.retired) as u64).saturating_sub(versions);
        let pairs = self.pairs()? as u64;
        let problems = [
            (undated != 0, format!("the time of {undated} leaves was never fixed")),
            (found[0] != live, format!("{live} slabs are live and {} are nodes", found[0])),
            (found[1] + 2 != live, format!("{live} nodes are live and {} of them are reached", found[1])),
            (found[2] != 0, format!("{} nodes are latched", found[2])),
            (found[3] != 0, format!("{} pairs are where they should not be", found[3])),
            (found[4] != 0, format!("{} children are not what their parents say", found[4])),
            (found[5] != 0, format!("{} links do not lead to the next node", found[5])),
            (found[6] != pairs, format!("{pairs} pairs are counted and {} are in leaves", found[6])),
        ];
        match problems.into_iter().find(|(is, _)| *is) {
            Some((_, problem)) => Err(Error::Invalid(problem)),
            None => Ok(Examined { pairs, depth: found[7] as u32, inner: found[8], versions }),
        }
    }
}

impl<K: Key, V: Value, E: Engine<K, V> + ?Sized> Structure for Trees<K, V, E> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.owner.device
    }

    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let mut rest = Some(batch);
        while let Some(batch) = rest {
            let now;
            {
                let memory = self.owner.read();
                if places(batch.op) {
                    memory.directory.wait_for_growth(stream)?;
                }
                self.rebuild_directory_if_due(stream, &memory)?;
                (now, rest) = memory.directory.next_chunk(batch);
            }
            self.submit(stream, now)?;
            if places(now.op) {
                let (many, more_follow) = (now.keys.len() as u64, rest.is_some());
                self.owner.read().directory.submitted(stream, many, more_follow);
            }
        }
        Ok(())
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.owner.scans(run)
    }

    fn generation(&self) -> u64 {
        self.owner.read().generation
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Pool
    }

    /// Frees the versions of dropped snapshots, and enlarges a directory for which there was no memory when
    /// the pool grew. Slots of removed pairs need no maintenance.
    fn grow(&self) -> Result<()> {
        if self.owner.read().lacks_directory() {
            or_later(self.owner.exclusive(|_, _, memory| self.fit_directory(memory)))?;
        }
        let due = self.owner.read().history.as_ref().is_some_and(History::is_due);
        if due { self.sweep().map(drop) } else { Ok(()) }
    }

    /// Frees versions that no snapshot reads and, if the policy allows, provides more nodes within the
    /// budget.
    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() && self.owner.read().history.is_none() {
            return Ok(Room::None);
        }
        let half = self.owner.engine.shape().slots as usize / 2;
        let refused = distinct(refused);
        self.owner.exclusive(|engine, stream, memory| {
            if seen.is_some_and(|age| age != memory.generation) {
                // Another thread has provided nodes meanwhile, perhaps enough.
                return Ok(Room::More);
            }
            // Freed versions may suffice. A pool is exchanged only after the sweep, so an error of the sweep
            // ends the call.
            let freed = memory.sweep(engine, stream)?;
            let needed = refused.div_ceil(half) * if memory.history.is_some() { 4 } else { 1 };
            let is_enough = seen.is_some() && freed > needed.max(memory.pool.capacity() / 4);
            let wanted = needed.max(memory.pool.capacity() / 2).max(EMPTY_TREE_NODES);
            let has_grown = self.grows() && !is_enough && self.make_nodes(stream, memory, wanted, needed)?;
            let room = if has_grown { Room::More } else { Room::freed_if(freed > 0) };
            memory.generation += u64::from(room != Room::None);
            Ok(room)
        })
    }

    fn pairs(&self) -> Result<usize> {
        let live = self.owner.counts()?.live;
        self.owner.read().directory.learn(live as u64);
        Ok(live)
    }

    fn empty(&mut self) -> Result<()> {
        self.rebuild_from_sorted(nothing(), nothing(), 2)
    }

    fn bytes(&self) -> usize {
        let memory = self.owner.read();
        let history = memory.history.as_ref().map_or(0, History::bytes);
        let sorter = self.sorter.as_ref().map_or(0, |sorter| sorter.bytes());
        memory.counters.bytes() + memory.directory.bytes() + memory.pool.memory_usage() + history + sorter
    }
}

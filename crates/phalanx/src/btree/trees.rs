//! The memory of a tree and what is done with it as a whole.
use super::Runs;
use super::directory::{Directory, places};
use super::engine::{Engine, Parts, Search, Task};
use super::sorter::{self, Sorts};
use crate::error::{made_room, or_later};
use crate::map::batches::belongs;
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
use phalanx_kernels::btree::{HistoryParts, LEAST, directory_entries, nodes};
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES};
use simt::GlobalSlice;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How full nodes are that nobody asked for a fill of: some more than insertions in random order leave them.
pub const USUAL_FILL: f64 = 0.7;

/// Nodes that so many pairs need at most, in whatever order they come to an empty tree of nodes of `slots`
/// pairs: where they come in order leaves are half full, and so are the nodes above.
pub fn nodes_for(pairs: usize, slots: usize) -> usize {
    let half = slots / 2;
    let leaves = pairs.div_ceil(half);
    leaves + leaves / (half - 1) + 32
}

/// What a tree does when its pool has no node left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing: what finds no room is refused. Calls that replace all pairs or ask for room (`bulk_build`,
    /// `reserve`) still take the memory that they need, within the budget.
    Fixed,
    /// A blocking call that was refused room builds the tree anew where its nodes are less than 0.35 full on
    /// average, which needs memory as `compact` does, else it adds super blocks to the pool, by half of what
    /// it has at least and up to the budget; then it tries again what was refused. Of a pool that has 255 the
    /// pairs move to one of larger super blocks, which needs room for both while it lasts. Rather than
    /// refuse, it builds the tree anew for an eighth of the pool's nodes. A tree that keeps versions is built
    /// anew and moves where no snapshot lives: one that was forgotten ([`std::mem::forget`]) lives as long as
    /// the tree. A call that finds no memory for what was refused is [`Error::NoRoom`].
    Pool,
}

/// A tree in device memory.
pub struct Trees<K, V, E: ?Sized = dyn Engine<K, V>> {
    pub owner: Owner<E, Memory>,
    growth: Growth,
    /// Kernels may run that bear no writer beside them: see [`Self::thaw`].
    frozen: Mutex<bool>,
    /// Where batches are sorted first.
    sorter: Option<Box<dyn Sorts<K, V>>>,
    of: PhantomData<fn() -> (K, V)>,
}

/// The buffers of a tree.
#[derive(Debug)]
pub struct Memory {
    pub tallies: Buffer<u64>,
    pub pool: SlabAlloc,
    pub directory: Directory,
    /// Takes what a survey finds.
    report: Buffer<u64>,
    /// How often room was made.
    pub age: u64,
    /// Snapshots, and what belongs to them, of trees that keep versions.
    pub history: Option<History>,
}

impl Memory {
    /// For trees of the kind that `words` tells the words of a directory of, which walks begin at or not.
    pub fn new(
        device: &Device,
        pool: SlabAlloc,
        has_directory: bool,
        words: impl Fn(u32) -> usize,
    ) -> Result<Self> {
        let directory = directory_for(&pool, device, words)?.used(has_directory);
        let (tallies, report) = (device.zeroed(STRIPES * STRIPE_WORDS)?, device.zeroed(3)?);
        Ok(Self { tallies, pool, directory, report, age: 0, history: None })
    }

    /// The memory of a tree that keeps versions, or of none such.
    pub fn with(self, history: Option<History>) -> Self {
        Self { history, ..self }
    }

    /// Frees all versions that no live snapshot can ask for. Where nothing runs. Returns how many.
    pub fn sweep<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
    ) -> Result<usize> {
        let Some(history) = &mut self.history else { return Ok(0) };
        // All that may fail for want of memory comes first: a sweep that ends half way leaves slabs that are
        // no nodes, and one that has settled what was dropped is due no more.
        let (mut pins, mut freed) = (stream.device().buffer(MOST)?, stream.device().zeroed(1)?);
        let live = history.settle(stream)?;
        pins.write_at(0, &live)?;
        let pins = pins.slice().part(0, live.len());
        // SAFETY: the caller's lock keeps other launches out, and those asked for before have ended; the
        // slice outlives the wait below.
        unsafe {
            engine.task(stream, self.parts(), Task::Suspect)?;
            engine.task(stream, self.parts(), Task::Sweep { pins })?;
            engine.task(stream, self.parts(), Task::Wipe)?;
        }
        stream.synchronize()?;
        if let Some(history) = self.history.as_mut().filter(|_| live.is_empty()) {
            history.begin_anew()?;
        }
        self.pool.reclaim_counted(&mut freed)
    }

    /// Takes another pool, as `fill` fills it. Where that fails the memory stays as it was. Where no snapshot
    /// lives.
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
        other.age = self.age + 1;
        self.swap_nodes(&mut other);
        let filled = fill(self);
        if filled.is_err() {
            self.swap_nodes(&mut other);
        }
        filled
    }

    /// Each becomes the other in everything but what it has of time.
    fn swap_nodes(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.history, &mut other.history);
    }

    /// Whether the directory has too few entries for the pool.
    fn lacks_directory(&self) -> bool {
        directory_entries(self.pool.capacity()) > self.directory.entries()
    }

    /// Whether snapshots live, whose versions lie in the pool.
    fn is_remembered(&self) -> bool {
        self.history.as_ref().is_some_and(History::is_asked_for)
    }

    /// Makes the tree one of sorted pairs, `count` of which go into its order, where nothing is.
    ///
    /// # Safety
    /// Nothing else runs on the tree, and the slices outlive the stream's work.
    unsafe fn build<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        (count, fill): (u64, u32),
    ) -> Result<()> {
        // SAFETY: the caller's promises.
        unsafe { engine.task(stream, self.parts(), Task::Build { keys, values, count, fill })? };
        self.directory.forgotten(keys.len() as u64);
        Ok(())
    }

    /// How many of the keys that a tree is to be built of go into its order: all but the one that an empty
    /// slot looks like. And whether there is nothing to clear away.
    fn survey<K: Key, V: Value>(
        &mut self,
        engine: &(impl Engine<K, V> + ?Sized),
        stream: &Stream,
        keys: GlobalSlice<K>,
    ) -> Result<(u64, bool)> {
        self.report.fill_bytes(0)?;
        let report = self.report.slice();
        // SAFETY: the caller's lock keeps other launches out, and those asked for before have ended; the
        // slice outlives this call.
        unsafe { engine.task(stream, self.parts(), Task::Survey { keys, report })? };
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
            tallies: self.tallies.pointer(),
            pool: self.pool.parts(),
            directory: self.directory.pointer(),
            entries: self.directory.entries(),
            history: self.history.as_ref().map_or(HistoryParts::NOTHING, History::parts),
        }
    }

    fn counts(&self) -> Result<Counts> {
        Counts::read(&self.tallies)
    }
}

/// A directory as large as a pool needs.
fn directory_for(pool: &SlabAlloc, device: &Device, words: impl Fn(u32) -> usize) -> Result<Directory> {
    let entries = directory_entries(pool.capacity());
    Ok(Directory::new(device.zeroed(words(entries))?, entries))
}

/// Has the directory made anew, if the tree has one.
fn list<K, V>(engine: &(impl Engine<K, V> + ?Sized), stream: &Stream, memory: &Memory) -> Result<()> {
    if !memory.directory.is_used() {
        return Ok(());
    }
    // SAFETY: as in `Owner::launch`: it may run beside everything but what runs alone.
    unsafe { engine.task(stream, memory.parts(), Task::List)? };
    Ok(())
}

/// What an examination has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Pairs in leaves.
    pub pairs: u64,
    /// Levels, the leaves' among them.
    pub depth: u32,
    /// Nodes above the leaves.
    pub inner: u64,
    /// Old versions of leaves that are not freed.
    pub versions: u64,
}

/// What is read on the ways to keys: see [`BTree::walks`](super::BTree::walks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walks {
    /// Keys that were walked to.
    pub keys: u64,
    /// Nodes that were read: leaves, then those of each level above them. The last is of all levels from the
    /// sixth up.
    pub nodes: Vec<u64>,
    /// Links to the right that were followed: to nodes that were split since whoever led there was read.
    pub links: u64,
}

/// Half of so many nodes, and of few more.
fn half(nodes: usize) -> usize {
    nodes / 2 + LEAST
}

impl<K: Key, V: Value, E: Engine<K, V> + ?Sized> Trees<K, V, E> {
    /// A tree in memory that is new.
    pub fn new(owner: Owner<E, Memory>, growth: Growth) -> Result<Self> {
        let sorter = sorter::of(&owner.name);
        let trees = Self { owner, growth, frozen: Mutex::new(false), sorter, of: PhantomData };
        trees.plant(nothing(), nothing(), 2)?;
        Ok(trees)
    }

    /// Asks a stream for a task that may run beside others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.owner.read();
        self.list(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.task(stream, memory.parts(), task)? };
        Ok(())
    }

    /// Asks a stream for a search by order.
    pub fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.search_at(stream, search, Moment::NOW)
    }

    /// [`Self::search`] as of a moment.
    pub fn search_at(&self, stream: &Stream, search: Search<K, V>, moment: Moment) -> Result<()> {
        let memory = self.owner.read();
        self.list(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.search(stream, moment.of(memory.parts()), search)? };
        Ok(())
    }

    /// Asks a stream for a batch that only looks for keys, as of a moment.
    pub fn look_up_at(&self, stream: &Stream, batch: Batch<K, V>, moment: Moment) -> Result<()> {
        let memory = self.owner.read();
        self.list(stream, &memory)?;
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.look_up(stream, moment.of(memory.parts()), batch)? };
        Ok(())
    }

    /// [`Owner::scans`] as of a moment.
    pub fn scans_at(&self, run: Scans<'_, K, V>, moment: Moment) -> Result<()> {
        self.owner.alone(|engine, stream, memory| {
            let (pairs, parts) = (memory.counts()?.live, moment.of(memory.parts()));
            // SAFETY: the lock keeps other launches out, and those asked for before have ended.
            unsafe { scans(engine, stream, parts, pairs, run) }
        })
    }

    /// Frees all versions that nobody can ask for, once what was asked for before has ended. Returns how
    /// many.
    pub fn sweep(&self) -> Result<usize> {
        self.owner.alone(|engine, stream, memory| memory.sweep(engine, stream))
    }

    /// Makes the tree ready for kernels that bear no writer beside them, the directory's among them, and
    /// makes that anew. The caller has the tree alone, and lets nobody else have it but to read. There is
    /// nothing to do where nothing that writes was asked for since the last time.
    pub fn freeze(&mut self) -> Result<()> {
        if *self.frozen() {
            return Ok(());
        }
        self.pairs()?;
        self.owner.alone(|engine, stream, memory| {
            list(engine, stream, memory)?;
            let pairs = memory.directory.pairs();
            memory.directory.made(pairs);
            Ok(())
        })?;
        *self.frozen() = true;
        Ok(())
    }

    /// Calls what only reads, of a tree that is frozen, with what views are made of.
    pub fn read<T>(&self, launch: impl FnOnce(Parts) -> gpu::Result<T>) -> Result<T> {
        Ok(launch(self.owner.read().parts())?)
    }

    /// Whether kernels may run that bear no writer beside them.
    pub fn frozen(&self) -> MutexGuard<'_, bool> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the readers of a tree that was frozen, before anything is asked for that may write: their
    /// borrow has ended, but their kernels may run still.
    pub fn thaw(&self) -> Result<()> {
        let mut frozen = self.frozen();
        if *frozen {
            self.owner.device.synchronize()?;
            *frozen = false;
        }
        Ok(())
    }

    /// Has the directory made anew, if it is time.
    pub fn list(&self, stream: &Stream, memory: &Memory) -> Result<()> {
        self.thaw()?;
        let Some(pairs) = memory.directory.due() else { return Ok(()) };
        list(&*self.owner.engine, stream, memory)?;
        memory.directory.listed(pairs);
        Ok(())
    }

    /// Makes room in the directory for a pool that has grown. Where nothing runs.
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

    /// Launches a batch, sorted where that is the kind's way.
    fn bring(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
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

    /// Makes the tree one of sorted pairs, `fill` in a node. Where this fails, because they are not sorted or
    /// for want of room, the tree is as it was.
    fn plant(&self, keys: GlobalSlice<K>, values: GlobalSlice<V>, fill: u32) -> Result<()> {
        self.thaw()?;
        self.owner.alone(|_, stream, memory| self.plant_in(stream, memory, (keys, values), fill))
    }

    /// [`Self::plant`] where nothing runs, and no snapshot lives.
    fn plant_in(
        &self,
        stream: &Stream,
        memory: &mut Memory,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        fill: u32,
    ) -> Result<()> {
        let engine = &*self.owner.engine;
        let (count, is_new) = memory.survey(engine, stream, keys)?;
        let is_new = self.fit_pool(memory, nodes(count, fill) as usize)? || is_new;
        if !is_new {
            // What was retired goes first: nodes are freed as they are found.
            memory.sweep(engine, stream)?;
            // SAFETY: the lock keeps other launches out, and those asked for before have ended.
            unsafe { engine.task(stream, memory.parts(), Task::Prune)? };
        }
        // SAFETY: as before; the slices' buffers outlive the wait for this, or wait before they go.
        unsafe { memory.build(engine, stream, (keys, values), (count, fill)) }
    }

    /// Makes room for so many nodes of a tree that takes the place of the one that is there. Returns whether
    /// the memory is new, and empty.
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

    /// Has the pool grow by so many nodes, or, where it cannot have the super blocks, has it exchanged. Gives
    /// whether it was. The caller has the tree alone: no snapshot lives.
    fn grow_by(
        &self,
        memory: &mut Memory,
        nodes: usize,
        exchange: impl FnOnce(&mut Memory) -> Result<()>,
    ) -> Result<bool> {
        match memory.pool.grow(nodes) {
            Err(Error::TooManySlabs { .. }) => {
                // Nobody keeps a handle of a pool that is no more.
                memory.sweep(&*self.owner.engine, &self.owner.device.default_stream())?;
                return exchange(memory).map(|()| true);
            }
            grown => grown?,
        }
        memory.age += 1;
        // The pool has its room whether or not the directory gets its own.
        or_later(self.fit_directory(memory))?;
        Ok(false)
    }

    /// Makes room for `needed` nodes, and for as many as are `wanted` if there is memory, by the first of
    /// these that does: the tree is built anew where that frees half of its nodes; the pool grows; the tree
    /// moves to a pool of larger super blocks, where it has all that handles can name; the tree is built
    /// anew, if an eighth of its nodes is freed by it. Returns whether there is more room.
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

    /// Moves the tree to memory with the first of so many nodes more that there is memory for. Where nothing
    /// runs, no snapshot lives, and no version is retired.
    fn move_with(&self, stream: &Stream, memory: &mut Memory, more: &[usize]) -> Result<()> {
        let (engine, device) = (&*self.owner.engine, &self.owner.device);
        let (live, capacity) = (memory.counts()?.live, memory.pool.capacity());
        // A tree that is fuller than usual has its nodes so full again.
        let mut fills = self.pairs_at(USUAL_FILL)?..self.pairs_at(1.0)?;
        let fits = |fill: &u32| nodes(live as u64, *fill) as usize <= capacity;
        let fill = fills.find(fits).unwrap_or(fills.end);
        // Before the pairs are read: there may be no memory for it.
        let pool = memory.pool.larger_by(more)?;
        let Runs { keys, values, count } = self.in_order(stream, memory, live)?;
        if nodes(count as u64, fill) as usize > pool.capacity() {
            return Err(Error::DoesNotFit { left_over: count.saturating_sub(live), pairs: count });
        }
        let pairs = (keys.slice().part(0, count), values.slice());
        memory.exchange(engine, device, pool, |memory| {
            let (count, _) = memory.survey(engine, stream, pairs.0)?;
            // SAFETY: the caller's promise; the slices outlive the wait.
            unsafe { memory.build(engine, stream, pairs, (count, fill))? };
            Ok(device.synchronize()?)
        })
    }

    /// All pairs, of which `live` are counted. Where nothing runs.
    fn in_order(&self, stream: &Stream, memory: &Memory, live: usize) -> Result<Runs<K, V>> {
        let engine = &*self.owner.engine;
        // SAFETY: the caller's promise.
        let scan = |run: Scans<'_, K, V>| unsafe { scans(engine, stream, memory.parts(), live, run) };
        Runs::of(export::whole(&self.owner.device, &scan, |pairs| pairs)?)
    }

    /// Builds the tree anew if that frees as many of its nodes as are worth it, as after many removals. Where
    /// nothing runs. Returns whether it has: not where a snapshot lives, nor where nodes of the index have
    /// memory of their own, which building does not tell from that of others.
    fn pack(&self, stream: &Stream, memory: &mut Memory, worth: impl Fn(usize) -> usize) -> Result<bool> {
        let (nodes_now, fill) = (memory.pool.stats()?.live, self.pairs_at(USUAL_FILL)?);
        let live = memory.counts()?.live;
        let nodes_then = nodes(live as u64, fill) as usize;
        if nodes_now < nodes_then + worth(nodes_now) || memory.is_remembered() || memory.pool.has_tiers() {
            return Ok(false);
        }
        let Runs { keys, values, count } = self.in_order(stream, memory, live)?;
        self.plant_in(stream, memory, (keys.slice().part(0, count), values.slice()), fill)?;
        Ok(true)
    }

    /// Room for so many more pairs: see [`BTree::reserve`](super::BTree::reserve).
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let slots = self.owner.engine.shape().slots as usize;
        self.thaw()?;
        self.owner.alone(|_, stream, memory| {
            // Each node that is there may be full, and split by one pair.
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

    /// The pairs of a node of which the part `fill` is used.
    pub fn pairs_at(&self, fill: f64) -> Result<u32> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Error::Fill(fill));
        }
        let slots = f64::from(self.owner.engine.shape().slots);
        Ok((slots * fill).round().clamp(2.0, slots) as u32)
    }

    /// These pairs in place of those that are there: see [`BTree::bulk_build`](super::BTree::bulk_build).
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let (fill, device) = (self.pairs_at(fill)?, &self.owner.device);
        self.build((device.from_slice(keys)?, device.from_slice(values)?), fill)
    }

    /// [`Self::bulk_build`] of pairs that are in order: see
    /// [`BTree::bulk_build_sorted`](super::BTree::bulk_build_sorted).
    pub fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        check("values", keys.len(), values.len())?;
        belongs(&self.owner.device, "keys", keys.device())?;
        belongs(&self.owner.device, "values", values.device())?;
        self.plant(keys.slice(), values.slice(), fill)
    }

    /// The same pairs in nodes of the same `fill`: see [`BTree::compact`](super::BTree::compact).
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        self.build(export::on_device(self)?, fill)
    }

    /// Pairs of buffers of this device, in any order, in place of those that are there, `fill` in a node.
    fn build(&self, pairs: Columns<K, V>, fill: u32) -> Result<()> {
        let Runs { keys, values, count } = Runs::of(pairs)?;
        self.plant(keys.slice().part(0, count), values.slice(), fill)
    }

    /// What is read on the ways to keys of this device: see [`BTree::walks`](super::BTree::walks).
    pub fn walks(&self, keys: &Buffer<K>) -> Result<Walks> {
        let reads = self.owner.device.zeroed::<u64>(8)?;
        let stream = self.owner.device.default_stream();
        self.task(&stream, Task::CountReads { keys: keys.slice(), reads: reads.slice() })?;
        let mut nodes = reads.read()?;
        let links = nodes.pop().unwrap_or(0);
        Ok(Walks { keys: keys.len() as u64, nodes, links })
    }

    /// Examines all nodes: see [`BTree::validate`](super::BTree::validate).
    pub fn examine(&self) -> Result<Examined> {
        let report = self.owner.device.zeroed::<u64>(11)?;
        // SAFETY: the lock keeps other launches out, and those asked for before have ended; the slice
        // outlives this call.
        self.owner.alone(|engine, stream, memory| unsafe {
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
                if places(batch.ask) {
                    memory.directory.wait_for_growth(stream)?;
                }
                self.list(stream, &memory)?;
                (now, rest) = memory.directory.portion(batch);
            }
            self.bring(stream, now)?;
            if places(now.ask) {
                let (many, more_follow) = (now.keys.len() as u64, rest.is_some());
                self.owner.read().directory.submitted(stream, many, more_follow);
            }
        }
        Ok(())
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.owner.scans(run)
    }

    fn age(&self) -> u64 {
        self.owner.read().age
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Pool
    }

    /// Removed pairs leave room by themselves. Versions of snapshots that were dropped are freed, and a
    /// directory that found no memory when the pool grew becomes as large as it should be.
    fn make_room(&self) -> Result<()> {
        if self.owner.read().lacks_directory() {
            or_later(self.owner.alone(|_, _, memory| self.fit_directory(memory)))?;
        }
        let due = self.owner.read().history.as_ref().is_some_and(History::is_due);
        if due { self.sweep().map(drop) } else { Ok(()) }
    }

    /// Makes room for what was refused: by what nobody can ask for any more, and, if that is the policy, by
    /// more nodes, as far as the budget allows.
    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() && self.owner.read().history.is_none() {
            return Ok(Room::None);
        }
        let half = self.owner.engine.shape().slots as usize / 2;
        let refused = distinct(refused);
        self.owner.alone(|engine, stream, memory| {
            if seen.is_some_and(|age| age != memory.age) {
                // Another thread has made room meanwhile, perhaps for all.
                return Ok(Room::More);
            }
            // Versions that nobody can ask for may be room enough. Without this no pool is exchanged, so its
            // errors end the call.
            let freed = memory.sweep(engine, stream)?;
            let needed = refused.div_ceil(half) * if memory.history.is_some() { 4 } else { 1 };
            let is_enough = seen.is_some() && freed > needed.max(memory.pool.capacity() / 4);
            let wanted = needed.max(memory.pool.capacity() / 2).max(LEAST);
            let has_grown = self.grows() && !is_enough && self.make_nodes(stream, memory, wanted, needed)?;
            let room = if has_grown { Room::More } else { Room::freed_if(freed > 0) };
            memory.age += u64::from(room != Room::None);
            Ok(room)
        })
    }

    fn pairs(&self) -> Result<usize> {
        let live = self.owner.counts()?.live;
        self.owner.read().directory.learn(live as u64);
        Ok(live)
    }

    fn empty(&mut self) -> Result<()> {
        self.plant(nothing(), nothing(), 2)
    }

    fn bytes(&self) -> usize {
        let memory = self.owner.read();
        let history = memory.history.as_ref().map_or(0, History::bytes);
        let sorter = self.sorter.as_ref().map_or(0, |sorter| sorter.bytes());
        memory.tallies.bytes() + memory.directory.bytes() + memory.pool.memory_usage() + history + sorter
    }
}

//! A B-tree or skip list in device memory: the operations that submit work to it.
use super::growth::Growth;
use super::history::ReadTimestamp;
use super::kernels::{Kernels, Search, Task};
use super::large_batches::LargeBatches;
use super::memory::{Memory, TreeRef};
use super::rebuild_batch::Rebuilds;
use super::sorter::{self, Sorter};
use crate::Result;
use crate::error::or_later;
use crate::map::encoding::Word;
use crate::map::frozen::Freezer;
use crate::map::handle::Handle;
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::structure::{HostKeys, Room, Scans, Structure, with_scanner};
use crate::slab_alloc::Stats;
use gpu::{Device, Stream};
use phalanx_kernels::ordered::{Config, TreeView};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// A B-tree or skip list in device memory.
pub struct Tree<K, V> {
    pub handle: Handle<dyn Kernels<K, V>, Memory>,
    pub growth: Growth,
    /// How batches that may rebuild the tree are executed.
    pub large_batches: LargeBatches,
    /// Whether read-only kernels (weak loads) may be in flight.
    pub freezer: Freezer,
    /// Whether kernels of the user may be launched on a view: see [`Self::view`].
    viewed: Mutex<bool>,
    /// Rebuilds by large batches. Locked after the handle's memory.
    rebuilds: Mutex<Rebuilds<K, V>>,
    /// Sorts batches before they are launched, for variants that do so.
    sorter: Option<Sorter<K, V>>,
    /// Held shared by queries that read as of a snapshot of their own, and exclusively while nodes are freed
    /// or allocated for refused elements: such a snapshot would prevent a rebuild.
    pub(super) reads: RwLock<()>,
}

/// Launches a rebuild of the directory, if the tree uses one.
fn launch_rebuild<K, V>(kernels: &dyn Kernels<K, V>, stream: &Stream, memory: &Memory) -> Result<()> {
    if !memory.directory.is_used() {
        return Ok(());
    }
    // SAFETY: as for `Tree::submit_concurrently`. A rebuild may run concurrently with everything but
    // exclusive tasks.
    unsafe { kernels.launch_task(stream, memory.now(), Task::RebuildDirectory)? };
    Ok(())
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Creates an empty tree in new memory.
    pub fn new(
        handle: Handle<dyn Kernels<K, V>, Memory>,
        growth: Growth,
        large_batches: LargeBatches,
    ) -> Result<Self> {
        let sorter = Sorter::for_variant(handle.kernels().variant());
        let reads = RwLock::default();
        let tree = Self {
            handle,
            growth,
            large_batches,
            freezer: Freezer::default(),
            viewed: Mutex::default(),
            rebuilds: Mutex::default(),
            sorter,
            reads,
        };
        tree.rebuild_from_sorted(nothing(), nothing(), 2)?;
        Ok(tree)
    }

    /// Returns the rebuilds by large batches, locked. After a panic the memory is valid, and is only used
    /// again from its beginning.
    pub(super) fn rebuilds(&self) -> MutexGuard<'_, Rebuilds<K, V>> {
        self.rebuilds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of batches that were executed by a rebuild.
    pub fn rebuild_count(&self) -> u64 {
        self.rebuilds().count
    }

    /// Begins a query that takes a snapshot of its own: while the guard lives, no call frees or allocates
    /// nodes for refused elements.
    pub fn begin_read(&self) -> RwLockReadGuard<'_, ()> {
        self.reads.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a task that may run concurrently with others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.handle.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as for `Tree::submit_concurrently`.
        unsafe { self.handle.kernels().launch_task(stream, memory.now(), task)? };
        Ok(())
    }

    /// Submits a search by key order.
    pub fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.search_at(stream, search, ReadTimestamp::NOW)
    }

    /// [`Self::search`] as of a timestamp.
    pub fn search_at(&self, stream: &Stream, search: Search<K, V>, timestamp: ReadTimestamp) -> Result<()> {
        let memory = self.handle.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as for `Tree::submit_concurrently`.
        unsafe { self.handle.kernels().launch_search(stream, memory.at(timestamp), search)? };
        Ok(())
    }

    /// Submits a batch of lookups as of a timestamp.
    pub fn look_up_at(&self, stream: &Stream, batch: Batch<K, V>, timestamp: ReadTimestamp) -> Result<()> {
        let memory = self.handle.read();
        self.rebuild_directory_if_due(stream, &memory)?;
        // SAFETY: as for `Tree::submit_concurrently`.
        unsafe { self.handle.kernels().launch_look_up(stream, memory.at(timestamp), batch)? };
        Ok(())
    }

    /// [`Structure::scans`] as of a timestamp.
    pub fn scans_at(&self, run: Scans<'_, K, V>, timestamp: ReadTimestamp) -> Result<()> {
        self.handle.exclusive(|stream, memory| {
            let pairs = memory.counts()?.live;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { self.scan_alone(stream, memory.at(timestamp), pairs, run) }
        })
    }

    /// Calls `run`, which may scan a tree of `pairs` pairs.
    ///
    /// # Safety
    /// - Nothing else runs on the tree until this function returns.
    pub unsafe fn scan_alone(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        pairs: usize,
        run: Scans<'_, K, V>,
    ) -> Result<()> {
        let kernels = self.handle.kernels();
        let size = (kernels.scan_threads(tree), pairs);
        // SAFETY: the caller's obligation. Each scan ends before its slices are dropped.
        with_scanner(stream, size, |scan| unsafe { kernels.launch_scan(stream, tree, scan) }, run)
    }

    /// Waits for all earlier launches and frees all versions that no snapshot reads. Returns the number of
    /// freed versions.
    pub fn sweep(&self) -> Result<usize> {
        self.handle.exclusive(|stream, memory| memory.sweep(self.handle.kernels(), stream))
    }

    /// Prepares the tree for read-only kernels: waits for all writers and rebuilds the directory. The caller
    /// has exclusive access, and allows only readers afterwards. Does nothing if the tree is still frozen.
    pub fn freeze(&mut self) -> Result<()> {
        if self.freezer.is_frozen() {
            return Ok(());
        }
        self.len()?;
        self.handle.exclusive(|stream, memory| {
            launch_rebuild(self.handle.kernels(), stream, memory)?;
            let pairs = memory.directory.estimated_pairs();
            memory.directory.made(pairs);
            Ok(())
        })?;
        self.freezer.freeze();
        Ok(())
    }

    /// Calls `launch`, which must only read, with a frozen tree.
    pub fn read<T>(&self, launch: impl FnOnce(TreeRef<'_>) -> gpu::Result<T>) -> Result<T> {
        Ok(launch(self.handle.read().now())?)
    }

    /// Returns the tree as kernels of the variant `M` take it. From now on such kernels may run at any time,
    /// so batches do not rebuild the tree, until [`Self::end_views`].
    ///
    /// # Safety
    /// - As for [`TreeRef::view`].
    pub unsafe fn view<M: Config>(&self) -> TreeView<M> {
        let memory = self.handle.read();
        *self.viewed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // SAFETY: the caller's obligations.
        unsafe { memory.now().view() }
    }

    /// Records that no kernel will be launched on a view any more: the caller has exclusive access.
    pub fn end_views(&self) {
        *self.viewed.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Returns whether kernels may be launched on a view.
    pub fn is_viewed(&self) -> bool {
        *self.viewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the read-only kernels of a frozen tree, before anything that may write is submitted: the
    /// borrow of their [`Frozen`](crate::btree::Frozen) has ended, but the kernels may still run.
    pub fn thaw(&self) -> Result<()> {
        self.freezer.thaw(&self.handle.device)
    }

    /// Rebuilds the directory if it is due.
    pub fn rebuild_directory_if_due(&self, stream: &Stream, memory: &Memory) -> Result<()> {
        self.thaw()?;
        let Some(pairs) = memory.directory.due() else { return Ok(()) };
        launch_rebuild(self.handle.kernels(), stream, memory)?;
        memory.directory.rebuilt(pairs);
        Ok(())
    }

    /// Submits a batch whose elements are executed one by one, concurrently with other batches.
    pub fn submit_concurrently(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let mut rest = Some(batch);
        while let Some(batch) = rest {
            let memory = self.handle.read();
            if batch.op.places() {
                memory.directory.wait_for_growth(stream)?;
            }
            self.rebuild_directory_if_due(stream, &memory)?;
            let now;
            (now, rest) = memory.directory.next_chunk(batch);
            // SAFETY: the memory outlives the launch, since dropping its buffers waits for it, and so do the
            // slices' buffers. Batches may run concurrently; exclusive operations take the write lock and
            // wait for the device.
            unsafe {
                match self.sorter.as_ref().zip(sorter::takes(&now)) {
                    Some((sorter, keys)) => sorter.submit(stream, memory.now(), now, keys)?,
                    None => self.handle.kernels().launch_batch(stream, memory.now(), now)?,
                }
            }
            if now.op.places() {
                let (many, more_follow) = (now.keys.max_len() as u64, rest.is_some());
                memory.directory.submitted(stream, many, more_follow);
            }
        }
        Ok(())
    }

    /// Returns whether the variant sorts batches.
    pub fn sorts_batches(&self) -> bool {
        self.sorter.is_some()
    }

    pub fn stats(&self) -> Result<Stats> {
        self.handle.read().pool.stats()
    }
}

impl<K: Word, V: Word> Structure for Tree<K, V> {
    type Key = K;
    type Value = V;

    fn device(&self) -> &Device {
        &self.handle.device
    }

    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let is_done = self.rebuild_for(&batch, None)?;
        if is_done { Ok(()) } else { self.submit_concurrently(stream, batch) }
    }

    fn needs_whole(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> Result<bool> {
        Ok(self.may_rebuild(op, keys))
    }

    fn run(&self, batch: Batch<K, V>, keys: &HostKeys<'_, K>) -> Result<()> {
        let stream = self.device().default_stream();
        let is_done = self.rebuild_for(&batch, Some(keys))?;
        if is_done { Ok(()) } else { self.submit_concurrently(&stream, batch) }
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.scans_at(run, ReadTimestamp::NOW)
    }

    fn generation(&self) -> u64 {
        self.handle.read().generation
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Pool
    }

    /// Frees the versions of dropped snapshots, and enlarges a directory for which there was no memory when
    /// the pool grew. Slots of removed pairs need no maintenance.
    fn grow(&self) -> Result<()> {
        if self.handle.read().lacks_directory() {
            or_later(self.handle.exclusive(|_, memory| self.fit_directory(memory)))?;
        }
        let is_due = self.handle.read().is_sweep_due();
        if is_due { self.sweep().map(drop) } else { Ok(()) }
    }

    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
        self.provide_nodes(refused, seen)
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn len(&self) -> Result<usize> {
        let memory = self.handle.settled()?;
        let live = memory.counts()?.live;
        memory.directory.learn(live as u64);
        Ok(live)
    }

    fn clear(&mut self) -> Result<()> {
        self.rebuild_from_sorted(nothing(), nothing(), 2)
    }

    fn memory_usage(&self) -> usize {
        let sorter = self.sorter.as_ref().map_or(0, Sorter::memory_usage);
        let tree = self.handle.read().memory_usage();
        tree + sorter + self.rebuilds().memory_usage()
    }
}

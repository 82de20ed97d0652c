//! The device memory of a B-tree or skip list.
use super::directory::Directory;
use super::history::{History, MOST, ReadTimestamp};
use super::kernels::{Kernels, Task};
use crate::map::counts::Counts;
use crate::map::encoding::Word;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use phalanx_kernels::ordered::{Config, RawVersions, TreeView, directory_entries};
use phalanx_kernels::slab::{Bitmaps, Handle, Pool, Supers};
use simt::GlobalSlice;

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

/// Addresses of a tree without versions: its nodes are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct RawTree {
    pub counters: *mut u64,
    pub bitmaps: RawBitmaps,
    pub supers: Supers,
    pub directory: *mut u64,
    /// Entries of the directory.
    pub entries: u32,
}

/// Addresses of the bitmaps of a pool of `units` slabs.
#[derive(Clone, Copy, Debug)]
pub struct RawBitmaps {
    pub live: *mut u32,
    pub retired: *mut u32,
    pub faults: *mut u64,
    pub units: u32,
}

impl RawTree {
    /// Returns the tree as kernels of the variant `M` take it.
    ///
    /// # Safety
    /// - The addresses are those of a tree of this variant, and stay so while the view is used.
    unsafe fn view<M: Config>(self) -> TreeView<M> {
        let RawBitmaps { live, retired, faults, units } = self.bitmaps;
        // SAFETY: the caller's obligations.
        unsafe {
            let bitmaps = Bitmaps::new(live, retired, faults, units);
            let pool = M::Pool::from_parts(bitmaps, self.supers, Handle::SLAB_BITS);
            TreeView::new(self.counters, pool, self.directory, self.entries, RawVersions::NOTHING)
        }
    }
}

/// Borrowed memory of a tree, and the timestamp as of which kernels read it.
#[derive(Clone, Copy, Debug)]
pub struct TreeRef<'a> {
    memory: Place<'a>,
    timestamp: ReadTimestamp,
}

/// Where a tree lies.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Memory(&'a Memory),
    Raw(RawTree),
}

impl TreeRef<'_> {
    /// Returns a tree without versions at some addresses.
    pub fn raw(tree: RawTree) -> Self {
        Self { memory: Place::Raw(tree), timestamp: ReadTimestamp::NOW }
    }

    /// Returns the tree as kernels of the variant `M` take it.
    ///
    /// # Safety
    /// - The tree is of this variant. Its memory is neither dropped, replaced nor grown while the view is
    ///   used.
    pub unsafe fn view<M: Config>(self) -> TreeView<M> {
        let memory = match self.memory {
            Place::Memory(memory) => memory,
            // SAFETY: the caller's obligations.
            Place::Raw(tree) => return unsafe { tree.view() },
        };
        let Memory { counters, pool, directory, history, .. } = memory;
        let versions = history.as_ref().map_or(RawVersions::NOTHING, |history| history.at(self.timestamp));
        let entries = directory.entries();
        // SAFETY: the caller's obligations.
        unsafe { TreeView::new(counters.pointer(), pool.as_view(), directory.pointer(), entries, versions) }
    }
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
    pub fn sweep<K: Word, V: Word>(&mut self, kernels: &dyn Kernels<K, V>, stream: &Stream) -> Result<usize> {
        let Some(history) = &mut self.history else { return Ok(0) };
        // Everything that may fail on a device that is not lost comes before or after the launches: a sweep
        // that stops half way leaves slabs that are not nodes. `settle` fails before it has changed anything:
        // once the dropped snapshots are settled, a sweep is not due again.
        let (mut stamps, freed) = (stream.device().buffer(MOST)?, stream.device().zeroed(1)?);
        let live = history.settle(stream, &mut stamps)?;
        let pins = stamps.global().part(0, live);
        // SAFETY: the caller's lock excludes other launches, and all earlier ones have ended. The slice
        // outlives the wait below.
        unsafe {
            kernels.launch_task(stream, self.now(), Task::MarkVersions)?;
            kernels.launch_task(stream, self.now(), Task::Sweep { pins })?;
            kernels.launch_task(stream, self.now(), Task::ClearMarked)?;
        }
        stream.synchronize()?;
        let freed = self.pool.reclaim_counted(&freed);
        if let Some(history) = self.history.as_mut().filter(|_| live == 0) {
            history.begin_anew()?;
        }
        freed
    }

    /// Returns whether snapshots were dropped since the last sweep.
    pub fn is_sweep_due(&self) -> bool {
        self.history.as_ref().is_some_and(History::is_due)
    }

    /// Sweeps if snapshots were dropped since the last sweep.
    pub fn sweep_if_due<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
    ) -> Result<usize> {
        if self.is_sweep_due() { self.sweep(kernels, stream) } else { Ok(0) }
    }

    /// Replaces the pool by `pool`, which `fill` fills. If `fill` fails, the memory is unchanged. No snapshot
    /// may be alive.
    pub fn exchange<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        device: &Device,
        pool: SlabAlloc,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let words = |entries| kernels.directory_words(entries);
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
    pub fn lacks_directory(&self) -> bool {
        directory_entries(self.pool.capacity()) > self.directory.entries()
    }

    /// Returns whether snapshots are alive, whose versions are in the pool.
    pub fn is_remembered(&self) -> bool {
        self.history.as_ref().is_some_and(History::is_asked_for)
    }

    /// Builds the tree from sorted pairs. `count` of them belong to the key order; the others have the
    /// reserved key. The slabs must be free.
    ///
    /// # Safety
    /// The caller ensures that nothing else runs on the tree, and that the slices outlive the stream's work.
    pub unsafe fn build<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        (count, fill): (u64, u32),
    ) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { kernels.launch_task(stream, self.now(), Task::Build { keys, values, count, fill })? };
        self.directory.forgotten(keys.len() as u64);
        Ok(())
    }

    /// Checks the keys from which the tree is to be built. Returns the number of keys that belong to the key
    /// order, which are all but the reserved key that marks an empty slot, and whether no slab needs to be
    /// freed first.
    pub fn check_sorted<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
        keys: GlobalSlice<K>,
    ) -> Result<(u64, bool)> {
        if keys.is_empty() {
            // Spares a new program the compilation of the kernel.
            return Ok((0, self.counts()?.taken == 0));
        }
        self.report.fill_bytes(0)?;
        let report = self.report.global();
        // SAFETY: the caller's lock excludes other launches, and all earlier ones have ended. The slice
        // outlives this call.
        unsafe { kernels.launch_task(stream, self.now(), Task::CheckSorted { keys, report })? };
        let mut found = [0; 3];
        self.report.read_into(0, &mut found)?;
        let [many, taken, topmost] = found;
        if many > 0 {
            return Err(Error::Unsorted { many });
        }
        Ok((keys.len() as u64 - topmost, taken == 0))
    }

    pub fn memory_usage(&self) -> usize {
        let history = self.history.as_ref().map_or(0, History::memory_usage);
        self.counters.byte_len() + self.directory.memory_usage() + self.pool.memory_usage() + history
    }

    /// Returns the tree as it is.
    pub fn now(&self) -> TreeRef<'_> {
        self.at(ReadTimestamp::NOW)
    }

    /// Returns the tree as of a timestamp.
    pub fn at(&self, timestamp: ReadTimestamp) -> TreeRef<'_> {
        TreeRef { memory: Place::Memory(self), timestamp }
    }

    /// Reads the counters. Waits for all earlier launches.
    pub fn counts(&self) -> Result<Counts> {
        Counts::read(&self.counters)
    }
}

/// Allocates a directory of the size that the pool needs.
pub fn directory_for(pool: &SlabAlloc, device: &Device, words: impl Fn(u32) -> usize) -> Result<Directory> {
    let entries = directory_entries(pool.capacity());
    Ok(Directory::new(device.zeroed(words(entries))?, entries))
}

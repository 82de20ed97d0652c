//! Kernels of the variants of B-trees and, as far as they are the same, of skip lists.
use super::memory::TreeRef;
use crate::map::launch::{self, Batch, Scan, THREADS};
use crate::map::variant::{HasVariant, VariantTag};
use gpu::{Device, Grid, Stream};
use phalanx_kernels::keyed::{COUNTER_SHARDS, Kind, SHARD_WORDS, Scalar, Slot};
use phalanx_kernels::mvbtree::kernels::{ClearMarkedVersions, MarkVersions, SweepVersions};
use phalanx_kernels::ordered::kernels::{
    AppendPairs, BuildEmpty, BulkBuild, CheckSorted, ClaimNodes, CountRange, CountReads, Examine, FindSpine,
    FreeNodes, Predecessor, Range, RebuildDirectory, Successor,
};
use phalanx_kernels::ordered::{self, AppendPlan, Config, Versions};
use phalanx_kernels::slab::{Bitmaps, Pool};
use simt::{BoundedSlice, GlobalSlice, Instance};

/// Properties of a variant that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs per node.
    pub slots: u32,
    /// Bytes per node.
    pub node_bytes: usize,
    /// Whether the pool is one contiguous allocation.
    pub light: bool,
    /// Whether the clock advances while kernels run: snapshots can then be taken at any time.
    pub moves: bool,
    /// Whether the largest key of all looks like an empty slot, and so has a leaf of its own.
    pub reserves_largest: bool,
}

/// A launch that only B-trees and skip lists have, besides those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Builds a tree of sorted pairs in the first slabs. Exclusive.
    Build { keys: GlobalSlice<K>, values: GlobalSlice<V>, count: u64, fill: u32 },
    /// Checks all nodes. Exclusive.
    Examine { report: GlobalSlice<u64> },
    /// Lists the last node of each level. Exclusive.
    FindSpine { spine: GlobalSlice<u64> },
    /// Allocates a slab for each handle, and counts those that are missing.
    Claim { seed: u32, handles: GlobalSlice<u32>, missing: GlobalSlice<u64> },
    /// Appends sorted pairs in claimed slabs, or frees these if some are missing. Exclusive.
    Append {
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        handles: GlobalSlice<u32>,
        spine: GlobalSlice<u64>,
        missing: GlobalSlice<u64>,
        plan: AppendPlan,
    },
    /// Rebuilds the directory.
    RebuildDirectory,
    /// Frees all nodes from a slab number on, but none of an empty tree. Exclusive.
    FreeNodes { first: u64 },
    /// First step of a sweep: marks all old versions as retired. Exclusive.
    MarkVersions,
    /// Second step of a sweep: unmarks the versions that live snapshots with the timestamps `pins` read, and
    /// unlinks the others. Exclusive.
    Sweep { pins: GlobalSlice<u32> },
    /// Third step of a sweep: blanks the slabs that are still marked, which the pool then reclaims.
    /// Exclusive.
    ClearMarked,
    /// Checks the keys from which a tree is to be built, and whether the tree is empty. Exclusive.
    CheckSorted { keys: GlobalSlice<K>, report: GlobalSlice<u64> },
    /// Counts the nodes that descents to the keys read.
    CountReads { keys: GlobalSlice<K>, reads: GlobalSlice<u64> },
}

/// A read-only launch of operations by key order.
#[derive(Clone, Copy, Debug)]
pub enum Search<K, V> {
    /// Finds the next pair of each key, upwards or downwards.
    Next {
        up: bool,
        inclusive: bool,
        keys: BoundedSlice<K>,
        found: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    /// Counts the keys in each range.
    Count { lows: BoundedSlice<K>, highs: GlobalSlice<K>, counts: GlobalSlice<u64> },
    /// Collects the pairs of each range.
    Range {
        lows: BoundedSlice<K>,
        highs: GlobalSlice<K>,
        offsets: GlobalSlice<u64>,
        room: u32,
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        counts: GlobalSlice<u64>,
    },
}

/// Read-only launches on trees of one variant, with keys `K` and values `V`.
pub trait Reader<K, V>: HasVariant + Send + Sync {
    /// Launches a batch of lookups: see [`launch::look_up`].
    ///
    /// # Safety
    /// - As for [`Kernels::launch_batch`]. If the variant is for trees without writers, nothing writes until
    ///   the kernel has ended.
    unsafe fn launch_look_up(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<K, V>,
    ) -> gpu::Result<()>;

    /// Launches a search by key order.
    ///
    /// # Safety
    /// - As for [`Self::launch_look_up`].
    unsafe fn launch_search(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        search: Search<K, V>,
    ) -> gpu::Result<()>;
}

/// Launches on trees of one variant, with keys `K` and values `V`.
pub trait Kernels<K, V>: Reader<K, V> {
    /// Returns an owned copy, which takes no memory.
    fn boxed(&self) -> Box<dyn Kernels<K, V>>;

    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Returns the number of 8-byte words of a directory of `entries` entries.
    fn directory_words(&self, entries: u32) -> usize;

    /// Returns the number of threads of a scan of the whole tree.
    fn scan_threads(&self, tree: TreeRef<'_>) -> usize;

    /// Compiles the kernel of a bulk build.
    fn prepare_build(&self, device: &Device) -> gpu::Result<()>;

    /// Compiles the kernel of an append.
    fn prepare_append(&self, device: &Device) -> gpu::Result<()>;

    /// Launches a batch.
    ///
    /// # Safety
    /// - The tree is of this variant. Its memory stays as it is until the kernel has ended, and so do the
    ///   slices.
    /// - No exclusive operation runs meanwhile.
    unsafe fn launch_batch(&self, stream: &Stream, tree: TreeRef<'_>, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`], and nothing else runs on the tree meanwhile.
    unsafe fn launch_scan(&self, stream: &Stream, tree: TreeRef<'_>, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`]; for an exclusive task as for [`Self::launch_scan`].
    unsafe fn launch_task(&self, stream: &Stream, tree: TreeRef<'_>, task: Task<K, V>) -> gpu::Result<()>;
}

impl<M: Config + Instance> Reader<M::Key, M::Value> for VariantTag<M> {
    unsafe fn launch_look_up(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::look_up::<M>(stream, tree.view(), batch) }
    }

    unsafe fn launch_search(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        search: Search<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let over = |len: usize| Grid::for_items(len, THREADS);
        // SAFETY: the caller's obligations. Each grid has a thread for every element.
        unsafe {
            let tree = tree.view::<M>();
            match search {
                Search::Next { up: true, inclusive, keys, found, values, outcomes } => {
                    let inclusive = inclusive.into();
                    stream.launch(
                        over(keys.max_len()),
                        Successor { tree, keys, inclusive, found, values, outcomes },
                    )
                }
                Search::Next { up: false, inclusive, keys, found, values, outcomes } => {
                    let inclusive = inclusive.into();
                    let next = Predecessor { tree, keys, inclusive, found, values, outcomes };
                    stream.launch(over(keys.max_len()), next)
                }
                Search::Count { lows, highs, counts } => {
                    stream.launch(over(lows.max_len()), CountRange { tree, lows, highs, counts })
                }
                Search::Range { lows, highs, offsets, room, keys, values, counts } => {
                    let range = Range { tree, lows, highs, offsets, room, keys, values, counts };
                    stream.launch(over(lows.max_len()), range)
                }
            }
        }
    }
}

impl<M: Config + Instance> Kernels<M::Key, M::Value> for VariantTag<M> {
    fn boxed(&self) -> Box<dyn Kernels<M::Key, M::Value>> {
        Box::new(Self::NEW)
    }

    fn shape(&self) -> Shape {
        Shape {
            slots: M::SLOTS,
            node_bytes: <M::Pool as Pool>::BYTES,
            light: <M::Pool as Pool>::CONTIGUOUS,
            moves: <M::Versions as Versions>::CLOCK_MOVES,
            reserves_largest: M::Slot::key(M::Slot::EMPTY).to_u64() == M::Key::MAX.to_u64(),
        }
    }

    fn directory_words(&self, entries: u32) -> usize {
        ordered::directory_words::<M::Slot>(entries)
    }

    fn scan_threads(&self, tree: TreeRef<'_>) -> usize {
        // SAFETY: the view is used only here.
        <M as Kind>::scan_threads(unsafe { tree.view() })
    }

    fn prepare_build(&self, device: &Device) -> gpu::Result<()> {
        device.prepare::<BulkBuild<M>>()
    }

    fn prepare_append(&self, device: &Device) -> gpu::Result<()> {
        device.prepare::<AppendPairs<M>>()
    }

    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::batch::<M>(stream, tree.view(), batch) }
    }

    unsafe fn launch_scan(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        scan: Scan<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::scan::<M>(stream, tree.view(), scan) }
    }

    unsafe fn launch_task(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        task: Task<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let over = |len: usize| Grid::for_items(len, THREADS);
        let tiles = |nodes: usize| Grid::for_items(nodes * M::TILE as usize, THREADS);
        // SAFETY: the caller's obligations. Each grid has a thread for every element or every slab, or a tile
        // for every node.
        unsafe {
            let tree = tree.view::<M>();
            let units = tree.units();
            match task {
                Task::Build { keys, values, count, fill } => {
                    let (nodes, leaves) =
                        (ordered::nodes(count, fill), ordered::Level::leaves(count, fill).nodes);
                    let words = Bitmaps::words_for(units).max(COUNTER_SHARDS * SHARD_WORDS);
                    let grid = over(words.max(nodes as usize * M::TILE as usize));
                    if keys.is_empty() {
                        return stream.launch(grid, BuildEmpty { tree });
                    }
                    stream.launch(grid, BulkBuild { tree, keys, values, count, fill, leaves, nodes })
                }
                Task::Examine { report } => stream.launch(over(units), Examine { tree, report }),
                Task::FindSpine { spine } => stream.launch(Grid::new(1, 32), FindSpine { tree, spine }),
                Task::Claim { seed, handles, missing } => {
                    stream.launch(over(handles.len()), ClaimNodes { tree, seed, handles, missing })
                }
                Task::Append { keys, values, handles, spine, missing, plan } => {
                    let append = AppendPairs { tree, keys, values, handles, spine, missing, plan };
                    stream.launch(tiles(plan.tiles() as usize), append)
                }
                Task::RebuildDirectory => {
                    stream.launch(Grid::new(1, ordered::DIRECTORY_THREADS), RebuildDirectory { tree })
                }
                Task::MarkVersions => stream.launch(over(units), MarkVersions { tree }),
                Task::Sweep { pins } => stream.launch(over(units), SweepVersions { tree, pins }),
                Task::ClearMarked => stream.launch(over(units), ClearMarkedVersions { tree }),
                Task::FreeNodes { first } => stream.launch(tiles(units), FreeNodes { tree, first }),
                Task::CountReads { keys, reads } => {
                    stream.launch(over(keys.len()), CountReads { tree, keys, reads })
                }
                Task::CheckSorted { keys, report } => {
                    stream.launch(over(keys.len().max(COUNTER_SHARDS)), CheckSorted { tree, keys, report })
                }
            }
        }
    }
}

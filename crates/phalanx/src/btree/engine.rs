//! Maps variant names to types: a variant is chosen at run time, when a tree is built, but kernels are
//! compiled for types.
use crate::map::launch::{Batch, BatchOp, THREADS, look_up};
use crate::map::launcher::{Launcher, Of, Viewed, engines, finds};
use crate::slab_alloc;
use gpu::{Grid, Stream};
use phalanx_kernels::btree::kernels::{CodedSorted, InsertSorted, RemoveSorted, sorted_threads};
use phalanx_kernels::btree::{self, phased, sorted};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar};
use phalanx_kernels::mvbtree as versioned;
use phalanx_kernels::mvbtree::kernels::{ClearMarkedVersions, MarkVersions, SweepVersions};
use phalanx_kernels::ordered::kernels::{
    BulkBuild, CheckSorted, CountRange, CountReads, Examine, FreeNodes, Predecessor, Range, RebuildDirectory,
    Successor,
};
use phalanx_kernels::ordered::{Config, RawVersions as HistoryParts, TreeView, Versions};
use phalanx_kernels::slab::{Bitmaps, Pool};
use simt::{GlobalSlice, Instance};
use std::any::{Any, TypeId};

/// Raw pointers to a tree, from which views are created.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub counters: *mut u64,
    pub pool: slab_alloc::Parts,
    pub directory: *mut u64,
    /// Capacity of the directory, in entries.
    pub entries: u32,
    pub history: HistoryParts,
}

/// Properties of a variant that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs per node.
    pub slots: u32,
    /// Bytes per node.
    pub node_bytes: usize,
    /// Whether the pool is one contiguous allocation.
    pub light: bool,
    /// Whether the variant needs 16-byte reads and writes.
    pub wide: bool,
    /// Whether the clock advances while kernels run: snapshots can then be taken at any time.
    pub moves: bool,
}

/// A launch that only trees have, besides those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Builds a tree of sorted pairs in the first slabs. Exclusive.
    Build { keys: GlobalSlice<K>, values: GlobalSlice<V>, count: u64, fill: u32 },
    /// Checks all nodes. Exclusive.
    Examine { report: GlobalSlice<u64> },
    /// Rebuilds the directory.
    RebuildDirectory,
    /// Frees all nodes but those of an empty tree. Exclusive.
    FreeNodes,
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
        keys: GlobalSlice<K>,
        found: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    /// Counts the keys in each range.
    Count { lows: GlobalSlice<K>, highs: GlobalSlice<K>, counts: GlobalSlice<u64> },
    /// Collects the pairs of each range.
    Range {
        lows: GlobalSlice<K>,
        highs: GlobalSlice<K>,
        offsets: GlobalSlice<u64>,
        room: u32,
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        counts: GlobalSlice<u64>,
    },
}

/// Launches of read-only kernels, on trees of one variant.
pub trait Reader<K, V>: Send + Sync {
    /// Returns the variant's name.
    fn name(&self) -> &'static str;

    /// Returns the variant's type.
    fn reads(&self) -> TypeId;

    /// Launches a batch of lookups: see [`look_up`].
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]. If the variant is for trees without writers, nothing writes until the
    ///   kernel has ended.
    unsafe fn look_up(&self, stream: &Stream, parts: Parts, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a search by key order.
    ///
    /// # Safety
    /// - As for [`Self::look_up`].
    unsafe fn search(&self, stream: &Stream, parts: Parts, search: Search<K, V>) -> gpu::Result<()>;
}

/// A variant of the tree.
pub trait Engine<K, V>: Launcher<Parts, K, V> + Reader<K, V> {
    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Returns the number of 8-byte words of a directory of `entries` entries.
    fn directory_words(&self, entries: u32) -> usize;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]; for an exclusive task as for [`Launcher::scan`].
    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<K, V>) -> gpu::Result<()>;
}

/// Returns the engine called `name` if its key and value types are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

engines!(btree);

/// [`find`] among the variants that keep versions.
pub fn find_versioned<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any_versioned(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

/// [`any`] among the variants that keep versions.
fn any_versioned(name: &str) -> Option<Box<dyn Any>> {
    versioned::visit(name, Find)
}

/// Launches of batches sorted by key, on trees of one variant.
pub trait Grouping<K, V>: Send + Sync {
    /// Launches a batch. `sorted` has its keys in order, and the original index of each.
    ///
    /// # Safety
    /// - As for [`Launcher::launch`].
    unsafe fn in_order(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<K, V>,
        sorted: (GlobalSlice<K>, GlobalSlice<u32>),
    ) -> gpu::Result<()>;
}

/// Returns the launcher of sorted batches for the variant called `name`, if the variant sorts batches and its
/// key and value types are `K` and `V`.
pub fn find_grouping<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Grouping<K, V>>> {
    any_grouping(name)?.downcast::<Box<dyn Grouping<K, V>>>().ok().map(|grouping| *grouping)
}

finds!(any_grouping, FindGrouping: Grouping, sorted of btree: Config);

impl<M: Config + Instance> Grouping<M::Key, M::Value> for Of<M> {
    unsafe fn in_order(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<M::Key, M::Value>,
        (keys, order): (GlobalSlice<M::Key>, GlobalSlice<u32>),
    ) -> gpu::Result<()> {
        let (tree, len) = (M::view(parts), batch.keys.len());
        let Batch { op: ask, codes, arguments, results, outcomes, .. } = batch;
        let (keys, code) = (keys.part(0, len), ask.coded().code());
        // As many positions as tiles that run at once, but not more than there are groups of keys.
        let tiles = stream.device().resident_threads() as usize / M::TILE as usize;
        let apart = tiles.min(len.div_ceil(M::TILE as usize)).max(1) as u32;
        let grid = Grid::for_items(sorted_threads(M::TILE, len, apart), THREADS);
        // SAFETY: the caller's obligations. The grid has a thread for every element.
        unsafe {
            match ask {
                BatchOp::Insert => {
                    stream.launch(grid, InsertSorted::<M> { tree, keys, order, apart, arguments, outcomes })
                }
                BatchOp::Remove => {
                    stream.launch(grid, RemoveSorted::<M> { tree, keys, order, apart, arguments, outcomes })
                }
                _ => {
                    let launch =
                        CodedSorted { tree, code, codes, keys, order, apart, arguments, results, outcomes };
                    stream.launch(grid, launch)
                }
            }
        }
    }
}

/// Returns the read-only launcher for trees without writers of the variant called `name`, if there is one and
/// its key and value types are `K` and `V`.
pub fn find_phased<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Reader<K, V>>> {
    any_phased(&name.replacen("tree_", "tree_phased_", 1))?
        .downcast::<Box<dyn Reader<K, V>>>()
        .ok()
        .map(|reader| *reader)
}

finds!(any_phased, FindPhased: Reader, phased of btree: Config);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> TreeView<M> {
        // SAFETY: `Launcher` requires the parts of a live tree of this variant.
        unsafe {
            let pool = slab_alloc::view_of(parts.pool);
            TreeView::new(parts.counters, pool, parts.directory, parts.entries, parts.history)
        }
    }
}

impl<M: Config + Instance> Reader<M::Key, M::Value> for Of<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn reads(&self) -> TypeId {
        TypeId::of::<M>()
    }

    unsafe fn look_up(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { look_up::<M>(stream, M::view(parts), batch) }
    }

    unsafe fn search(
        &self,
        stream: &Stream,
        parts: Parts,
        search: Search<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let tree = M::view(parts);
        let over = |len: usize| Grid::for_items(len, THREADS);
        // SAFETY: the caller's obligations. Each grid has a thread for every element.
        unsafe {
            match search {
                Search::Next { up: true, inclusive, keys, found, values, outcomes } => {
                    let inclusive = inclusive.into();
                    stream.launch(
                        over(keys.len()),
                        Successor { tree, keys, inclusive, found, values, outcomes },
                    )
                }
                Search::Next { up: false, inclusive, keys, found, values, outcomes } => {
                    let inclusive = inclusive.into();
                    let next = Predecessor { tree, keys, inclusive, found, values, outcomes };
                    stream.launch(over(keys.len()), next)
                }
                Search::Count { lows, highs, counts } => {
                    stream.launch(over(lows.len()), CountRange { tree, lows, highs, counts })
                }
                Search::Range { lows, highs, offsets, room, keys, values, counts } => {
                    let range = Range { tree, lows, highs, offsets, room, keys, values, counts };
                    stream.launch(over(lows.len()), range)
                }
            }
        }
    }
}

impl<M: Config + Instance> Engine<M::Key, M::Value> for Of<M> {
    fn shape(&self) -> Shape {
        Shape {
            slots: M::SLOTS,
            node_bytes: <M::Pool as Pool>::BYTES,
            light: <M::Pool as Pool>::CONTIGUOUS,
            wide: M::NEEDS_WIDE_SWAP,
            moves: <M::Versions as Versions>::CLOCK_MOVES,
        }
    }

    fn directory_words(&self, entries: u32) -> usize {
        btree::directory_words::<M::Slot>(entries)
    }

    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<M::Key, M::Value>) -> gpu::Result<()> {
        let tree = M::view(parts);
        let over = |len: usize| Grid::for_items(len, THREADS);
        let tiles = |nodes: usize| Grid::for_items(nodes * M::TILE as usize, THREADS);
        let units = tree.units();
        // SAFETY: the caller's obligations. Each grid has a thread for every element or every slab, or a tile
        // for every node.
        unsafe {
            match task {
                Task::Build { keys, values, count, fill } => {
                    let (nodes, leaves) =
                        (btree::nodes(count, fill), btree::Level::leaves(count, fill).nodes);
                    let words = Bitmaps::words_for(units).max(COUNTER_SHARDS * SHARD_WORDS);
                    let grid = over(words.max(nodes as usize * M::TILE as usize));
                    stream.launch(grid, BulkBuild { tree, keys, values, count, fill, leaves, nodes })
                }
                Task::Examine { report } => stream.launch(over(units), Examine { tree, report }),
                Task::RebuildDirectory => {
                    stream.launch(Grid::new(1, btree::DIRECTORY_THREADS), RebuildDirectory { tree })
                }
                Task::MarkVersions => stream.launch(over(units), MarkVersions { tree }),
                Task::Sweep { pins } => stream.launch(over(units), SweepVersions { tree, pins }),
                Task::ClearMarked => stream.launch(over(units), ClearMarkedVersions { tree }),
                Task::FreeNodes => stream.launch(tiles(units), FreeNodes { tree }),
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

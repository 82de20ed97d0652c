//! The bridge from names to types: a kind of tree is chosen when one is made, and kernels are compiled for
//! types.
use crate::map::launch::{Ask, Batch, THREADS, look_up};
use crate::map::launcher::{Launcher, Of, Viewed, engines, finds};
use crate::slab_alloc;
use gpu::{Grid, Stream};
use phalanx_kernels::btree::kernels::{
    BulkBuild, CodedSorted, CountRange, CountReads, Examine, InsertSorted, ListNodes, Predecessor, Prune,
    Range, RemoveSorted, Successor, Survey, SuspectVersions, SweepVersions, WipeVersions, sorted_threads,
};
use phalanx_kernels::btree::{self, Config, HistoryParts, TreeView, Versions, phased, sorted, versioned};
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES, Scalar};
use phalanx_kernels::slab::{Bitmaps, Pool};
use simt::{GlobalSlice, Instance};
use std::any::{Any, TypeId};

/// What views are made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub tallies: *mut u64,
    pub pool: slab_alloc::Parts,
    pub directory: *mut u64,
    /// Entries that it has room for.
    pub entries: u32,
    pub history: HistoryParts,
}

/// What a host needs to know of a kind of tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs in a node.
    pub slots: u32,
    /// Bytes of a node.
    pub node_bytes: usize,
    /// Whether the pool lies in one piece.
    pub light: bool,
    /// Whether it reads and writes 16 bytes at once.
    pub wide: bool,
    /// Whether it keeps versions, snapshots of which are taken while kernels run.
    pub moves: bool,
}

/// A launch that trees have beside those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Makes a tree of sorted pairs in the first `nodes` slabs. Runs alone.
    Build { keys: GlobalSlice<K>, values: GlobalSlice<V>, count: u64, fill: u32 },
    /// Examines all nodes. Runs alone.
    Examine { report: GlobalSlice<u64> },
    /// Makes the directory anew.
    List,
    /// Frees all nodes but the first. Runs alone.
    Prune,
    /// The steps of a sweep. They run alone.
    Suspect,
    /// As above, for live snapshots of these stamps.
    Sweep { pins: GlobalSlice<u32> },
    /// As above.
    Wipe,
    /// Looks at keys that a tree is to be built of, and at what there was. Runs alone.
    Survey { keys: GlobalSlice<K>, report: GlobalSlice<u64> },
    /// Counts the nodes that are read on the ways to keys.
    CountReads { keys: GlobalSlice<K>, reads: GlobalSlice<u64> },
}

/// A launch that answers by the order of keys, and changes nothing.
#[derive(Clone, Copy, Debug)]
pub enum Search<K, V> {
    /// The next pair of each key, upwards or downwards.
    Next {
        up: bool,
        inclusive: bool,
        keys: GlobalSlice<K>,
        found: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    /// How many keys there are in each range.
    Count { lows: GlobalSlice<K>, highs: GlobalSlice<K>, counts: GlobalSlice<u64> },
    /// The pairs of each range.
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

/// Launches of kernels that only read, on trees of one kind.
pub trait Reader<K, V>: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The kind's type.
    fn reads(&self) -> TypeId;

    /// Launches a batch that looks for keys: see [`look_up`].
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]; and if the kind is one for trees that nobody writes, nobody does until
    ///   the kernel has ended.
    unsafe fn look_up(&self, stream: &Stream, parts: Parts, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a search by order.
    ///
    /// # Safety
    /// - As for [`Self::look_up`].
    unsafe fn search(&self, stream: &Stream, parts: Parts, search: Search<K, V>) -> gpu::Result<()>;
}

/// A kind of tree.
pub trait Engine<K, V>: Launcher<Parts, K, V> + Reader<K, V> {
    /// Its measures.
    fn shape(&self) -> Shape;

    /// Words of 8 bytes of a directory of so many entries.
    fn directory_words(&self, entries: u32) -> usize;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]; for one that runs alone as for [`Launcher::scan`].
    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<K, V>) -> gpu::Result<()>;
}

/// The engine called `name`, if its keys and values are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

engines!(btree);

/// [`find`] of the kinds that keep versions.
pub fn find_versioned<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any_versioned(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

/// [`any`] of them.
fn any_versioned(name: &str) -> Option<Box<dyn Any>> {
    versioned::visit(name, Find)
}

/// Launches of batches whose keys were sorted, on trees of one kind.
pub trait Grouping<K, V>: Send + Sync {
    /// Launches a batch: its keys in order, and which number each was.
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

/// What launches on trees of the kind called `name` batches whose keys were sorted, if they are to be and its
/// keys and values are `K` and `V`.
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
        let Batch { ask, codes, arguments, results, outcomes, .. } = batch;
        let (keys, code) = (keys.part(0, len), ask.coded().code());
        // As many places as tiles that run side by side, and no more than there are groups of keys.
        let tiles = stream.device().resident_threads() as usize / M::TILE as usize;
        let apart = tiles.min(len.div_ceil(M::TILE as usize)).max(1) as u32;
        let grid = Grid::for_items(sorted_threads(M::TILE, len, apart), THREADS);
        // SAFETY: the caller's promises; the grid has a thread for every element.
        unsafe {
            match ask {
                Ask::Insert => {
                    stream.launch(grid, InsertSorted::<M> { tree, keys, order, apart, arguments, outcomes })
                }
                Ask::Remove => {
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

/// The reader for trees of the kind called `name` while nobody writes them, if there is one and its keys and
/// values are `K` and `V`.
pub fn find_phased<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Reader<K, V>>> {
    any_phased(&name.replacen("tree_", "tree_phased_", 1))?
        .downcast::<Box<dyn Reader<K, V>>>()
        .ok()
        .map(|reader| *reader)
}

finds!(any_phased, FindPhased: Reader, phased of btree: Config);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> TreeView<M> {
        // SAFETY: `Launcher` asks for the parts of a live tree of this kind.
        unsafe {
            let pool = slab_alloc::view_of(parts.pool);
            TreeView::new(parts.tallies, pool, parts.directory, parts.entries, parts.history)
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
        // SAFETY: the caller's promises.
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
        // SAFETY: the caller's promises; each grid has a thread for every element.
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
            moves: <M::Versions as Versions>::MOVES,
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
        // SAFETY: the caller's promises; each grid has a thread for every element, or for every slab, or a
        // tile for every node.
        unsafe {
            match task {
                Task::Build { keys, values, count, fill } => {
                    let (nodes, leaves) =
                        (btree::nodes(count, fill), btree::Level::leaves(count, fill).nodes);
                    let words = Bitmaps::words_for(units).max(STRIPES * STRIPE_WORDS);
                    let grid = over(words.max(nodes as usize * M::TILE as usize));
                    stream.launch(grid, BulkBuild { tree, keys, values, count, fill, leaves, nodes })
                }
                Task::Examine { report } => stream.launch(over(units), Examine { tree, report }),
                Task::List => stream.launch(Grid::new(1, btree::DIRECTORY_THREADS), ListNodes { tree }),
                Task::Suspect => stream.launch(over(units), SuspectVersions { tree }),
                Task::Sweep { pins } => stream.launch(over(units), SweepVersions { tree, pins }),
                Task::Wipe => stream.launch(over(units), WipeVersions { tree }),
                Task::Prune => stream.launch(tiles(units), Prune { tree }),
                Task::CountReads { keys, reads } => {
                    stream.launch(over(keys.len()), CountReads { tree, keys, reads })
                }
                Task::Survey { keys, report } => {
                    stream.launch(over(keys.len().max(STRIPES)), Survey { tree, keys, report })
                }
            }
        }
    }
}

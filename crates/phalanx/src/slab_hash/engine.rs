//! The bridge from names to types: a kind of lists is chosen when a structure is made, and kernels are
//! compiled for types.
use crate::map::launch::{THREADS, grid, nothing};
use crate::map::launcher::{Launcher, Of, Viewed, engines};
use crate::slab_alloc::{self, SlabAlloc};
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::{Scalar, Slot};
use phalanx_kernels::slab::Pool;
use phalanx_kernels::slab::list::kernels::{
    Append, AppendAll, Collect, Count, Flush, Inspect, MixedOfMany, RemoveAll,
};
use phalanx_kernels::slab::list::{self, Config, ListsView};
use simt::{GlobalSlice, Instance};

/// What views are made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub heads: *mut u64,
    pub tallies: *mut u64,
    pub pool: slab_alloc::Parts,
    pub buckets: u32,
}

/// What a host needs to know of a kind of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs or keys in a slab.
    pub slots: usize,
    /// Bytes of a pair or key.
    pub slot_bytes: usize,
    /// Bytes in a slab.
    pub slab_bytes: usize,
    /// Whether the pool lies in one piece.
    pub light: bool,
    /// Whether there are values.
    pub has_values: bool,
    /// Whether it needs a compare-and-swap of 16 bytes.
    pub wide: bool,
}

/// A launch that the lists have beside those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Appends pairs.
    Append { keys: GlobalSlice<K>, values: GlobalSlice<V>, outcomes: GlobalSlice<u8> },
    /// An operation of its own for each key, where insertions append.
    Mixed {
        codes: GlobalSlice<u8>,
        keys: GlobalSlice<K>,
        arguments: GlobalSlice<V>,
        results: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    /// Counts the pairs of each key.
    Count { keys: GlobalSlice<K>, counts: GlobalSlice<u32> },
    /// Copies the values of each key.
    Collect {
        keys: GlobalSlice<K>,
        offsets: GlobalSlice<u64>,
        values: GlobalSlice<V>,
        counts: GlobalSlice<u32>,
    },
    /// Removes the pairs of each key.
    RemoveAll { keys: GlobalSlice<K>, counts: GlobalSlice<u32> },
    /// Appends all pairs to other lists, of the same pool, and counts those that found no room. Runs alone.
    AppendAll { into: Parts, refused: GlobalSlice<u64> },
    /// Packs the lists of some buckets. Runs alone.
    Flush { buckets: GlobalSlice<u32> },
    /// Packs or drops all lists. Runs alone.
    FlushAll { keep: bool },
    /// Examines all lists. Runs alone.
    Inspect { report: GlobalSlice<u64> },
}

/// A kind of lists.
pub trait Engine<K, V>: Launcher<Parts, K, V> {
    /// Its measures.
    fn shape(&self) -> Shape;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]; for one that runs alone as for [`Launcher::scan`].
    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<K, V>) -> gpu::Result<()>;
}

/// The engine called `name`, if its keys and values are `K` and `V`, and it has values or not, as asked.
pub fn find<K: Scalar, V: Scalar>(name: &str, has_values: bool) -> Option<Box<dyn Engine<K, V>>> {
    let engine = *any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok()?;
    (engine.shape().has_values == has_values).then_some(engine)
}

engines!(list);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> ListsView<M> {
        let pool = slab_alloc::view_of(parts.pool);
        // SAFETY: `Launcher` asks for the parts of live lists of this kind.
        unsafe { ListsView::new(parts.heads, parts.tallies, pool, parts.buckets) }
    }
}

impl Parts {
    /// The parts of lists whose slabs beyond the heads come from a pool.
    pub fn new(heads: *mut u64, tallies: *mut u64, pool: &SlabAlloc, buckets: u32) -> Self {
        Self { heads, tallies, pool: pool.parts(), buckets }
    }
}

/// A grid with a tile of the kind `M` for each of so many buckets.
fn tiles<M: Config>(buckets: usize) -> Grid {
    Grid::for_items(buckets * M::TILE as usize, THREADS)
}

impl<M: Config + Instance> Engine<M::Key, M::Value> for Of<M> {
    fn shape(&self) -> Shape {
        Shape {
            slots: M::SLOTS as usize,
            slot_bytes: size_of::<<M::Slot as Slot>::Word>(),
            slab_bytes: <M::Pool as Pool>::BYTES,
            light: <M::Pool as Pool>::CONTIGUOUS,
            has_values: M::Slot::HAS_VALUE,
            wide: M::NEEDS_WIDE_SWAP,
        }
    }

    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<M::Key, M::Value>) -> gpu::Result<()> {
        let lists = M::view(parts);
        let all = lists.bucket_count() as usize + 1;
        let over = |len: usize| grid::<M>(stream, len);
        // SAFETY: the caller's promises; each grid has a thread for every element, those of a scan, or a tile
        // for every bucket.
        unsafe {
            match task {
                Task::Append { keys, values, outcomes } => {
                    stream.launch(over(keys.len()), Append { lists, keys, values, outcomes })
                }
                Task::Mixed { codes, keys, arguments, results, outcomes } => {
                    let grid = over(keys.len());
                    stream.launch(grid, MixedOfMany { lists, codes, keys, arguments, results, outcomes })
                }
                Task::Count { keys, counts } => {
                    stream.launch(over(keys.len()), Count { lists, keys, counts })
                }
                Task::Collect { keys, offsets, values, counts } => {
                    stream.launch(over(keys.len()), Collect { lists, keys, offsets, values, counts })
                }
                Task::RemoveAll { keys, counts } => {
                    stream.launch(over(keys.len()), RemoveAll { lists, keys, counts })
                }
                Task::AppendAll { into, refused } => {
                    let (grid, into) = (Grid::for_items(M::scan_threads(lists), THREADS), M::view(into));
                    stream.launch(grid, AppendAll { from: lists, into, refused })
                }
                Task::Flush { buckets } => {
                    stream.launch(tiles::<M>(buckets.len()), Flush { lists, buckets, all: 0, keep: 1 })
                }
                Task::FlushAll { keep } => {
                    let buckets = nothing();
                    stream.launch(tiles::<M>(all), Flush { lists, buckets, all: 1, keep: keep.into() })
                }
                Task::Inspect { report } => stream.launch(tiles::<M>(all), Inspect { lists, report }),
            }
        }
    }
}

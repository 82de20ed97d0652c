//! Maps variant names to types: a variant is chosen at run time, when a structure is built, but kernels are
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

/// Raw pointers to lists, from which views are created.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub heads: *mut u64,
    pub counters: *mut u64,
    pub pool: slab_alloc::Parts,
    pub buckets: u32,
}

/// Properties of a variant that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs or keys per slab.
    pub slots: usize,
    /// Bytes per pair or key.
    pub slot_bytes: usize,
    /// Bytes per slab.
    pub slab_bytes: usize,
    /// Whether the pool is one contiguous allocation.
    pub light: bool,
    /// Whether there are values.
    pub has_values: bool,
    /// Whether the variant needs a 16-byte compare-and-swap.
    pub wide: bool,
}

/// A launch that only lists have, besides those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Appends pairs.
    Append { keys: GlobalSlice<K>, values: GlobalSlice<V>, outcomes: GlobalSlice<u8> },
    /// Runs for each key an operation of its own; insertions append.
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
    /// Appends all pairs to other lists, and counts those that do not fit. Exclusive.
    AppendAll { into: Parts, refused: GlobalSlice<u64> },
    /// Packs the lists of some buckets. Exclusive.
    Flush { buckets: GlobalSlice<u32> },
    /// Packs all lists, or clears them if `keep` is false. Exclusive.
    FlushAll { keep: bool },
    /// Checks all lists. Exclusive.
    Inspect { report: GlobalSlice<u64> },
}

/// A variant of the lists.
pub trait Engine<K, V>: Launcher<Parts, K, V> {
    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Launcher::launch`]; for an exclusive task as for [`Launcher::scan`].
    unsafe fn task(&self, stream: &Stream, parts: Parts, task: Task<K, V>) -> gpu::Result<()>;
}

/// Returns the engine called `name` if its key and value types are `K` and `V`, and it has values if
/// `has_values` is true.
pub fn find<K: Scalar, V: Scalar>(name: &str, has_values: bool) -> Option<Box<dyn Engine<K, V>>> {
    let engine = *any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok()?;
    (engine.shape().has_values == has_values).then_some(engine)
}

engines!(list);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> ListsView<M> {
        let pool = slab_alloc::view_of(parts.pool);
        // SAFETY: `Launcher` requires the parts of live lists of this variant.
        unsafe { ListsView::new(parts.heads, parts.counters, pool, parts.buckets) }
    }
}

impl Parts {
    /// Collects the parts of lists whose slabs, except the heads, come from a pool.
    pub fn new(heads: *mut u64, counters: *mut u64, pool: &SlabAlloc, buckets: u32) -> Self {
        Self { heads, counters, pool: pool.parts(), buckets }
    }
}

/// Returns a grid with a tile of variant `M` for each bucket.
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
        // SAFETY: the caller's obligations. Each grid has a thread for every element or of a scan, or a tile
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

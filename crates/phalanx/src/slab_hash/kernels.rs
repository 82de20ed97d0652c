//! Kernels of the variants of slab lists.
use super::memory::ListsRef;
use crate::map::launch::{self, Batch, Scan, THREADS, grid, nothing};
use crate::map::variant::{HasVariant, VariantTag, variants};
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::{Kind, Scalar, Slot};
use phalanx_kernels::slab::Pool;
use phalanx_kernels::slab::list::kernels::{
    Append, AppendAll, Collect, ContainsKeyOfMany, Count, Flush, Inspect, MixedOfMany, RemoveAll, RemoveOne,
};
use phalanx_kernels::slab::list::{self, Config};
use simt::{BoundedSlice, GlobalSlice, Instance};

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
}

/// A launch that only lists have, besides those of all maps.
#[derive(Clone, Copy, Debug)]
pub enum Task<K, V> {
    /// Appends pairs.
    Append { keys: BoundedSlice<K>, values: GlobalSlice<V>, outcomes: GlobalSlice<u8> },
    /// Tests which keys are present.
    ContainsKey { keys: BoundedSlice<K>, values: GlobalSlice<V>, outcomes: GlobalSlice<u8> },
    /// Removes the first pair of each key.
    RemoveOne { keys: BoundedSlice<K>, values: GlobalSlice<V>, outcomes: GlobalSlice<u8> },
    /// Runs for each key an operation of its own; insertions append.
    Mixed {
        codes: GlobalSlice<u8>,
        keys: BoundedSlice<K>,
        arguments: GlobalSlice<V>,
        results: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    /// Counts the pairs of each key.
    Count { keys: BoundedSlice<K>, counts: GlobalSlice<u32> },
    /// Copies the values of each key.
    Collect {
        keys: BoundedSlice<K>,
        offsets: GlobalSlice<u64>,
        values: GlobalSlice<V>,
        counts: GlobalSlice<u32>,
    },
    /// Removes the pairs of each key.
    RemoveAll { keys: BoundedSlice<K>, counts: GlobalSlice<u32> },
    /// Packs the lists of some buckets. Exclusive.
    Flush { buckets: GlobalSlice<u32> },
    /// Packs all lists, or clears them if `keep` is false. Exclusive.
    FlushAll { keep: bool },
    /// Checks all lists. Exclusive.
    Inspect { report: GlobalSlice<u64> },
}

/// Read-only launches on lists of one variant, with keys `K` and values `V`.
pub trait Reader<K, V>: HasVariant + Send + Sync {
    /// Launches a batch of lookups: see [`launch::look_up`].
    ///
    /// # Safety
    /// - As for [`Kernels::launch_batch`]. If the variant is for lists without writers, nothing writes until
    ///   the kernel has ended.
    unsafe fn launch_look_up(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        batch: Batch<K, V>,
    ) -> gpu::Result<()>;
}

impl<M: Config + Instance> Reader<M::Key, M::Value> for VariantTag<M> {
    unsafe fn launch_look_up(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::look_up::<M>(stream, lists.view(), batch) }
    }
}

/// Launches on lists of one variant, with keys `K` and values `V`.
pub trait Kernels<K, V>: Reader<K, V> {
    /// Returns an owned copy, which takes no memory.
    fn boxed(&self) -> Box<dyn Kernels<K, V>>;

    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Returns the number of threads of a scan of all lists.
    fn scan_threads(&self, lists: ListsRef<'_>) -> usize;

    /// Launches a batch.
    ///
    /// # Safety
    /// - The lists are of this variant. Their memory stays as it is until the kernel has ended, and so do the
    ///   slices.
    /// - No exclusive operation runs meanwhile.
    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        batch: Batch<K, V>,
    ) -> gpu::Result<()>;

    /// Launches a sketch of the keys that are absent.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`] and [`launch::sketch`].
    unsafe fn launch_sketch(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        keys: BoundedSlice<K>,
        registers: GlobalSlice<u32>,
    ) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`], and nothing else runs on the lists meanwhile.
    unsafe fn launch_scan(&self, stream: &Stream, lists: ListsRef<'_>, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Launches a task.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`]; for an exclusive task as for [`Self::launch_scan`].
    unsafe fn launch_task(&self, stream: &Stream, lists: ListsRef<'_>, task: Task<K, V>) -> gpu::Result<()>;

    /// Copies all pairs to other lists, and counts those that do not fit. With `many`, a key may have several
    /// values; otherwise pairs are copied only if their keys are absent there.
    ///
    /// # Safety
    /// - As for [`Self::launch_scan`], for both.
    unsafe fn launch_copy(
        &self,
        stream: &Stream,
        from: ListsRef<'_>,
        into: ListsRef<'_>,
        many: bool,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all variants with these key and value types, the defaults first.
    any: Kernels, list, Config
}

/// Returns the kernels of all variants with these key and value types that have values, or have none. The
/// defaults are first.
pub fn all<K: Scalar, V: Scalar>(
    has_values: bool,
) -> impl Iterator<Item = &'static dyn Kernels<K, V>> + Clone {
    any::<K, V>().filter(move |kernels| kernels.shape().has_values == has_values)
}

/// Returns a grid with a tile of variant `M` for each bucket.
fn tiles<M: Config>(buckets: usize) -> Grid {
    Grid::for_items(buckets * M::TILE as usize, THREADS)
}

impl<M: Config + Instance> Kernels<M::Key, M::Value> for VariantTag<M> {
    fn boxed(&self) -> Box<dyn Kernels<M::Key, M::Value>> {
        Box::new(Self::NEW)
    }

    fn shape(&self) -> Shape {
        Shape {
            slots: M::SLOTS as usize,
            slot_bytes: size_of::<<M::Slot as Slot>::Word>(),
            slab_bytes: <M::Pool as Pool>::BYTES,
            light: <M::Pool as Pool>::CONTIGUOUS,
            has_values: M::Slot::HAS_VALUE,
        }
    }

    fn scan_threads(&self, lists: ListsRef<'_>) -> usize {
        // SAFETY: the view is used only here.
        <M as Kind>::scan_threads(unsafe { lists.view() })
    }

    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::batch::<M>(stream, lists.view(), batch) }
    }

    unsafe fn launch_sketch(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        keys: BoundedSlice<M::Key>,
        registers: GlobalSlice<u32>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::sketch::<M>(stream, lists.view(), keys, registers) }
    }

    unsafe fn launch_scan(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        scan: Scan<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::scan::<M>(stream, lists.view(), scan) }
    }

    unsafe fn launch_copy(
        &self,
        stream: &Stream,
        from: ListsRef<'_>,
        into: ListsRef<'_>,
        many: bool,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations. The grid has the threads that a scan needs.
        unsafe {
            let (from, into) = (from.view::<M>(), into.view());
            if !many {
                return launch::rehash::<M>(stream, from, into, refused);
            }
            let grid = Grid::for_items(<M as Kind>::scan_threads(from), THREADS);
            stream.launch(grid, AppendAll { from, into, refused })
        }
    }

    unsafe fn launch_task(
        &self,
        stream: &Stream,
        lists: ListsRef<'_>,
        task: Task<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let all = lists.buckets() as usize + 1;
        let over = |len: usize| grid::<M>(stream, len);
        // SAFETY: the caller's obligations. Each grid has a thread for every element, or a tile for every
        // bucket.
        unsafe {
            let lists = lists.view::<M>();
            match task {
                Task::Append { keys, values, outcomes } => {
                    stream.launch(over(keys.max_len()), Append { lists, keys, values, outcomes })
                }
                Task::ContainsKey { keys, values, outcomes } => {
                    stream.launch(over(keys.max_len()), ContainsKeyOfMany { lists, keys, values, outcomes })
                }
                Task::RemoveOne { keys, values, outcomes } => {
                    stream.launch(over(keys.max_len()), RemoveOne { lists, keys, values, outcomes })
                }
                Task::Mixed { codes, keys, arguments, results, outcomes } => {
                    let grid = over(keys.max_len());
                    stream.launch(grid, MixedOfMany { lists, codes, keys, arguments, results, outcomes })
                }
                Task::Count { keys, counts } => {
                    stream.launch(over(keys.max_len()), Count { lists, keys, counts })
                }
                Task::Collect { keys, offsets, values, counts } => {
                    stream.launch(over(keys.max_len()), Collect { lists, keys, offsets, values, counts })
                }
                Task::RemoveAll { keys, counts } => {
                    stream.launch(over(keys.max_len()), RemoveAll { lists, keys, counts })
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

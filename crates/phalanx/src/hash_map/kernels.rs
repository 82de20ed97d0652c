//! Kernels of the hash map's variants.
use super::table::RawTable;
use crate::map::launch::{self, Batch, Scan};
use crate::map::variant::{HasVariant, VariantTag, variants};
use gpu::Stream;
use phalanx_kernels::hash_map::{self, Config};
use phalanx_kernels::keyed::Kind;
use simt::{BoundedSlice, GlobalSlice, Instance};

/// Properties of a variant's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots per bucket.
    pub slots: usize,
    /// Bytes per bucket.
    pub bucket_bytes: usize,
}

/// Read-only launches on tables of one variant, with keys `K` and values `V`.
pub trait Reader<K, V>: HasVariant + Send + Sync {
    /// Launches a batch of lookups: see [`launch::look_up`].
    ///
    /// # Safety
    /// - As for [`Kernels::launch_batch`]. If the variant is for tables without writers, nothing writes until
    ///   the kernel has ended.
    unsafe fn launch_look_up(&self, stream: &Stream, table: &RawTable, batch: Batch<K, V>)
    -> gpu::Result<()>;
}

impl<M: Config + Instance> Reader<M::Key, M::Value> for VariantTag<M> {
    unsafe fn launch_look_up(
        &self,
        stream: &Stream,
        table: &RawTable,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::look_up::<M>(stream, table.view(), batch) }
    }
}

/// Launches on tables of one variant, with keys `K` and values `V`.
pub trait Kernels<K, V>: Reader<K, V> {
    /// Returns an owned copy, which takes no memory.
    fn boxed(&self) -> Box<dyn Kernels<K, V>>;

    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Returns the number of filter words for a table of `count` buckets.
    fn filter_words(&self, count: u32) -> usize;

    /// Returns the number of threads of a scan of the whole table.
    fn scan_threads(&self, table: &RawTable) -> usize;

    /// Launches a batch.
    ///
    /// # Safety
    /// - The table is of this variant. It stays as it is until the kernel has ended, and so do the slices.
    /// - No exclusive operation runs meanwhile.
    unsafe fn launch_batch(&self, stream: &Stream, table: &RawTable, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a sketch of the keys that are absent.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`] and [`launch::sketch`].
    unsafe fn launch_sketch(
        &self,
        stream: &Stream,
        table: &RawTable,
        keys: BoundedSlice<K>,
        registers: GlobalSlice<u32>,
    ) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch_batch`], and nothing else runs on the table meanwhile.
    unsafe fn launch_scan(&self, stream: &Stream, table: &RawTable, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Inserts the pairs of a table whose keys are absent from another into it, and counts those that do not
    /// fit.
    ///
    /// # Safety
    /// - As for [`Self::launch_scan`], for both tables.
    unsafe fn launch_rehash(
        &self,
        stream: &Stream,
        from: &RawTable,
        into: &RawTable,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all variants with these key and value types, the defaults first.
    all: Kernels, hash_map, Config
}

impl<M: Config + Instance> Kernels<M::Key, M::Value> for VariantTag<M> {
    fn boxed(&self) -> Box<dyn Kernels<M::Key, M::Value>> {
        Box::new(Self::NEW)
    }

    fn shape(&self) -> Shape {
        Shape { slots: M::SLOTS as usize, bucket_bytes: M::BUCKET_BYTES }
    }

    fn filter_words(&self, count: u32) -> usize {
        M::filter_words(count)
    }

    fn scan_threads(&self, table: &RawTable) -> usize {
        // SAFETY: the view is used only here.
        <M as Kind>::scan_threads(unsafe { table.view() })
    }

    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        table: &RawTable,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::batch::<M>(stream, table.view(), batch) }
    }

    unsafe fn launch_sketch(
        &self,
        stream: &Stream,
        table: &RawTable,
        keys: BoundedSlice<M::Key>,
        registers: GlobalSlice<u32>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::sketch::<M>(stream, table.view(), keys, registers) }
    }

    unsafe fn launch_scan(
        &self,
        stream: &Stream,
        table: &RawTable,
        scan: Scan<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::scan::<M>(stream, table.view(), scan) }
    }

    unsafe fn launch_rehash(
        &self,
        stream: &Stream,
        from: &RawTable,
        into: &RawTable,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::rehash::<M>(stream, from.view(), into.view(), refused) }
    }
}

//! The bridge from names to types: a kind of table is chosen when a map is made, and kernels are compiled for types.
use super::table::Parts;
use crate::map::launch::{self, Batch, Scan, THREADS};
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::keyed::kernels::Rehash;
use phalanx_kernels::probing::{self, Config, MapView, Visitor};
use simt::{GlobalSlice, Instance};
use std::any::{Any, TypeId};
use std::marker::PhantomData;

/// What a host needs to know of a kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots in a bucket.
    pub slots: usize,
    /// Bytes in a bucket.
    pub bytes: usize,
    /// Bits of filter a bucket.
    pub filter_bits: usize,
    /// Whether it needs a compare-and-swap of 16 bytes.
    pub wide: bool,
}

/// A kind of table.
pub trait Engine<K, V>: Send + Sync {
    /// Its type: a name alone may be borne by another one too.
    fn kind(&self) -> TypeId;

    /// Its measures.
    fn shape(&self) -> Shape;

    /// Words of filter for a table of `count` buckets.
    fn filter_words(&self, count: u32) -> usize;

    /// The threads that a scan of the whole takes.
    fn scan_threads(&self, parts: Parts) -> usize;

    /// Launches a batch.
    ///
    /// # Safety
    /// - `parts` are those of a live table of this kind, and stay so until the kernel has ended; so do the slices.
    /// - No scan and no rehash of the table runs meanwhile.
    unsafe fn launch(&self, stream: &Stream, parts: Parts, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch`], and nothing else runs on the table meanwhile.
    unsafe fn scan(&self, stream: &Stream, parts: Parts, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Inserts the pairs of a table into another, and counts those that found no room.
    ///
    /// # Safety
    /// - As for [`Self::scan`], of both tables.
    unsafe fn rehash(
        &self,
        stream: &Stream,
        from: Parts,
        into: Parts,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()>;
}

/// The engine called `name`, if its keys and values are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    let engine: Box<dyn Any> = probing::visit(name, Find)?;
    engine.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

struct Find;

impl Visitor for Find {
    type Output = Box<dyn Any>;

    fn visit<M: Config + Instance>(self) -> Box<dyn Any> {
        let engine: Box<dyn Engine<M::Key, M::Value>> = Box::new(Of::<M>(PhantomData));
        Box::new(engine)
    }
}

struct Of<M>(PhantomData<M>);

/// The view of a table of the kind `M`, which `parts` must be.
pub fn view<M: Config>(parts: Parts) -> MapView<M> {
    // SAFETY: `Engine::launch` asks for the parts of a live table of this kind.
    unsafe { MapView::new(parts.buckets, parts.filters, parts.tallies, parts.count, parts.looks) }
}

impl<M: Config + Instance> Engine<M::Key, M::Value> for Of<M> {
    fn kind(&self) -> TypeId {
        TypeId::of::<M>()
    }

    fn shape(&self) -> Shape {
        let (slots, bytes) = (M::SLOTS as usize, M::BUCKET_BYTES);
        Shape { slots, bytes, filter_bits: M::FILTER_BITS as usize, wide: M::NEEDS_WIDE_SWAP }
    }

    fn filter_words(&self, count: u32) -> usize {
        M::filter_words(count)
    }

    fn scan_threads(&self, parts: Parts) -> usize {
        M::scan_threads(view::<M>(parts))
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        // SAFETY: the caller's promises.
        unsafe { launch::batch::<M>(stream, view::<M>(parts), batch) }
    }

    unsafe fn scan(&self, stream: &Stream, parts: Parts, scan: Scan<M::Key, M::Value>) -> gpu::Result<()> {
        // SAFETY: the caller's promises.
        unsafe { launch::scan::<M>(stream, view::<M>(parts), scan) }
    }

    unsafe fn rehash(
        &self,
        stream: &Stream,
        from: Parts,
        into: Parts,
        refused: GlobalSlice<u64>,
    ) -> gpu::Result<()> {
        let (from, into) = (view::<M>(from), view::<M>(into));
        let grid = Grid::for_items(M::scan_threads(from), THREADS);
        // SAFETY: the caller's promises; the grid has the threads that a scan takes.
        unsafe { stream.launch(grid, Rehash::<M> { from, into, refused }) }
    }
}

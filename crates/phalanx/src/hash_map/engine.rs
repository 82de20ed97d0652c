//! The bridge from names to types: a kind of table is chosen when a map is made, and kernels are compiled for types.
use super::table::Parts;
use gpu::{Grid, Stream};
use phalanx_kernels::probing::kernels::{
    Apply, ContainsKey, Export, Get, Insert, InsertNew, Mixed, Rehash, Remove, RetainBetween,
};
use phalanx_kernels::probing::{self, Config, MapView, Scalar, Visitor};
use simt::{GlobalSlice, Instance};
use std::any::{Any, TypeId};
use std::marker::PhantomData;

/// Threads a block: measured, 128 is a little faster than 256.
const THREADS: u32 = 128;

/// One launch on a table: a kernel of `phalanx_kernels::probing::kernels` and its arguments but the map.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Launch<K, V> {
    Insert {
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    InsertNew {
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    Get {
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    ContainsKey {
        keys: GlobalSlice<K>,
        outcomes: GlobalSlice<u8>,
    },
    Remove {
        keys: GlobalSlice<K>,
        outcomes: GlobalSlice<u8>,
    },
    Apply {
        code: u32,
        keys: GlobalSlice<K>,
        arguments: GlobalSlice<V>,
        results: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    Mixed {
        codes: GlobalSlice<u8>,
        keys: GlobalSlice<K>,
        arguments: GlobalSlice<V>,
        results: GlobalSlice<V>,
        outcomes: GlobalSlice<u8>,
    },
    Export {
        keys: GlobalSlice<K>,
        values: GlobalSlice<V>,
        count: GlobalSlice<u64>,
    },
    Rehash {
        into: Parts,
        refused: GlobalSlice<u64>,
    },
    RetainBetween {
        by_value: bool,
        low: u64,
        high: u64,
    },
}

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

    /// Launches on a table.
    ///
    /// # Safety
    /// - `parts` are those of a live table of this kind, and stay so until the kernel has ended; so do the slices.
    /// - `Export`, `Rehash` and `RetainBetween` run with no other launch on the table.
    unsafe fn launch(&self, stream: &Stream, parts: Parts, launch: Launch<K, V>) -> gpu::Result<()>;
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

/// A slice of nothing, for results that are not wanted.
pub fn nothing<T: simt::Word>() -> GlobalSlice<T> {
    // SAFETY: no word of it is ever accessed.
    unsafe { GlobalSlice::from_raw_parts(std::ptr::dangling_mut(), 0) }
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

    unsafe fn launch(
        &self,
        stream: &Stream,
        parts: Parts,
        launch: Launch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let map = view::<M>(parts);
        let scan = Grid::for_items(map.slot_count(), THREADS);
        let over = |len: usize| Grid::for_items(len, THREADS);
        // SAFETY: the caller's promises; each grid has a thread for every element or slot.
        unsafe {
            match launch {
                Launch::Insert { keys, values, outcomes } => {
                    stream.launch(over(keys.len()), Insert { map, keys, values, outcomes })
                }
                Launch::InsertNew { keys, values, outcomes } => {
                    stream.launch(over(keys.len()), InsertNew { map, keys, values, outcomes })
                }
                Launch::Get { keys, values, outcomes } => {
                    stream.launch(over(keys.len()), Get { map, keys, values, outcomes })
                }
                Launch::ContainsKey { keys, outcomes } => {
                    stream.launch(over(keys.len()), ContainsKey { map, keys, values: nothing(), outcomes })
                }
                Launch::Remove { keys, outcomes } => {
                    stream.launch(over(keys.len()), Remove { map, keys, values: nothing(), outcomes })
                }
                Launch::Apply { code, keys, arguments, results, outcomes } => {
                    stream.launch(over(keys.len()), Apply { map, code, keys, arguments, results, outcomes })
                }
                Launch::Mixed { codes, keys, arguments, results, outcomes } => {
                    stream.launch(over(keys.len()), Mixed { map, codes, keys, arguments, results, outcomes })
                }
                Launch::Export { keys, values, count } => {
                    stream.launch(scan, Export { map, keys, values, count })
                }
                Launch::Rehash { into, refused } => {
                    stream.launch(scan, Rehash { from: map, into: view::<M>(into), refused })
                }
                Launch::RetainBetween { by_value, low, high } => {
                    stream.launch(scan, RetainBetween { map, by_value: by_value.into(), low, high })
                }
            }
        }
    }
}

//! The bridge from names to types: a kind of table is chosen when a map is made, and kernels are compiled for
//! types.
use super::table::Parts;
use crate::map::launcher::{Launcher, Of, Viewed, engines};
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::probing::{self, Config, MapView};
use simt::Instance;

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
pub trait Engine<K, V>: Launcher<Parts, K, V> {
    /// Its measures.
    fn shape(&self) -> Shape;

    /// Words of filter for a table of `count` buckets.
    fn filter_words(&self, count: u32) -> usize;
}

/// The engine called `name`, if its keys and values are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

engines!(probing);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> MapView<M> {
        let Parts { buckets, filters, tallies, count, looks } = parts;
        // SAFETY: `Launcher` asks for the parts of a live table of this kind.
        unsafe { MapView::new(buckets, filters, tallies, count, looks) }
    }
}

impl<M: Config + Instance> Engine<M::Key, M::Value> for Of<M> {
    fn shape(&self) -> Shape {
        let (slots, bytes) = (M::SLOTS as usize, M::BUCKET_BYTES);
        Shape { slots, bytes, filter_bits: M::FILTER_BITS as usize, wide: M::NEEDS_WIDE_SWAP }
    }

    fn filter_words(&self, count: u32) -> usize {
        M::filter_words(count)
    }
}

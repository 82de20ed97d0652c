//! Maps variant names to types: a variant is chosen at run time, when a map is built, but kernels are
//! compiled for types.
use super::table::Parts;
use crate::map::launcher::{Launcher, Of, Viewed, engines};
use phalanx_kernels::hash_map::{self as tables, Config, MapView};
use phalanx_kernels::keyed::Scalar;
use simt::Instance;

/// Properties of a variant that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots per bucket.
    pub slots: usize,
    /// Bytes per bucket.
    pub bytes: usize,
    /// Filter bits per bucket.
    pub filter_bits: usize,
    /// Whether the variant needs a 16-byte compare-and-swap.
    pub wide: bool,
}

/// A variant of the table.
pub trait Engine<K, V>: Launcher<Parts, K, V> {
    /// Returns the variant's properties.
    fn shape(&self) -> Shape;

    /// Returns the number of filter words for a table of `count` buckets.
    fn filter_words(&self, count: u32) -> usize;
}

/// Returns the engine called `name` if its key and value types are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

engines!(tables);

impl<M: Config + Instance> Viewed<Parts> for M {
    fn view(parts: Parts) -> MapView<M> {
        let Parts { buckets, filters, counters, count, max_probes: looks } = parts;
        // SAFETY: `Launcher` requires the parts of a live table of this variant.
        unsafe { MapView::new(buckets, filters, counters, count, looks) }
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

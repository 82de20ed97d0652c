//! Open addressing over buckets that a tile reads at once: the device side of `HashMap`. See `docs/structures/hashmap.md`.
mod instances;
mod map;
mod probe;

#[doc(no_inline)]
pub use crate::keyed::*;
pub use instances::*;
pub use map::{ANNEX, Config, MapView, Table, Visitor};
pub use probe::{Cursor, DoubleHash, Hinted, Probe, TwoChoice};

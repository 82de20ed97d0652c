//! Versions of the leaves of B-link trees: a past state stays readable while writers continue. The device
//! side of `MvBTree`. See `docs/structures/multiversion-b-tree.md`.
mod clock;
mod instances;
pub mod kernels;
mod sweep;
pub(crate) mod version;
pub(crate) mod versions;

#[doc(no_inline)]
pub use crate::btree::Tree;
#[doc(no_inline)]
pub use crate::ordered::*;
pub use clock::{FixedClock, InPlace, MovingClock, OutOfPlace};
pub use instances::*;
pub use version::{Version, Versioned};

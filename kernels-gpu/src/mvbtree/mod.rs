//! Versions of the leaves of B-link trees: a past state stays readable while writers continue. The device
//! side of `MultiVersionBTree`. See `docs/structures/multiversion-b-tree.md`.
//!
//! # Cost
//!
//! In addition to the accesses of [`crate::btree`]: out of place, or as of a snapshot, a lookup reads the
//! leaf's pairs and version word again, and one version per step back. The first update of a leaf after a
//! snapshot in place, and each update out of place, allocates a slab, writes 128 or 256 bytes, and fences.
//! The methods of [`Version`] are arithmetic in registers; [`Version::of_leaf`] and [`Version::from`] execute
//! two shuffles.
mod clock;
#[cfg(feature = "mvbtree")]
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
#[cfg(feature = "mvbtree")]
pub use instances::*;
pub use version::{Version, Versioned};

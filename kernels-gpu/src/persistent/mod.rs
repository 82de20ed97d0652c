//! A hash table of levels whose memory can be a file: the device side of `phalanx::PersistentMap`. The
//! repository's page `docs/structures/persistent-map.md` describes layout, durability, proofs and costs.
//!
//! ```text
//! image, in any memory that kernels reach                  device memory
//! a level      pages                                       fingerprints   16 bits a slot, by groups: the
//! a page       | slot bits | buckets: items | unused |                    buckets of all levels that share
//!              slot bit: whether the slot has an item                     a bucket of the lowest one
//!              item: key, value, padding                   versions       a word a group
//!                                                          dirty          a word a page
//! ```
//!
//! Only the image is durable: its slot bits alone say which items there are. Fingerprints are rebuilt from it
//! ([`recover`]). They are what operations search, and their states order the operations.
//!
//! # Cost
//!
//! See [`kernels`], [`recover`] and [`refresh`]; each lookup reads a link of its slot where there is a cache.
//! Constructors and accessors are arithmetic in registers.
mod cache;
mod change;
mod equal;
mod fingerprint;
mod hashed;
#[cfg(feature = "persistent-map")]
mod instances;
pub mod kernels;
mod keys;
mod kind;
mod layout;
mod lines;
pub mod make_room;
mod mode;
pub mod pages;
pub mod recover;
pub mod refresh;
mod rows;
mod search;
mod states;
mod supersede;
mod view;

pub use change::Changes;
pub use fingerprint::Fingerprint;
pub use hashed::Hashed;
#[cfg(feature = "persistent-map")]
pub use instances::*;
pub use kernels::Lookups;
pub use kind::{Config, Levels};
pub use layout::{Geometry, NOWHERE, PAGE_ALIGNMENT, Place};
pub use lines::{CacheView, MOST_LINES};
pub use search::Search;
pub use view::{MOST_LEVELS, PersistentView};

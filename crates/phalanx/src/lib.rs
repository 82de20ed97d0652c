//! Concurrent data structures that live on a GPU.
//!
//! The kernels are written in Rust. They are compiled to PTX for NVIDIA GPUs (feature `cuda`) and for an
//! emulator that needs no GPU. One program runs on both: [`Device::auto`] selects a GPU if there is one.
//!
//! ```
//! use phalanx::{HashMap, Map};
//!
//! let map = HashMap::<u32, u32>::with_capacity(1000)?;
//! map.insert(&[1, 2, 3], &[10, 20, 30])?;
//! assert_eq!(map.get(&[2, 4])?, [Some(20), None]);
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! Every structure has batch calls on host slices, which block, and on device buffers with a stream, which do
//! not block. Calls that may run concurrently take `&self`. For kernel authors, [`kernels`], the package
//! `phalanx-kernels`, has device-side functions of the same names. A crate of kernels depends on that package
//! alone and not on this one, which runs only on the host.
//!
//! # Cost
//!
//! Types and modules have a section on the cost of their calls: kernel launches, waits for the device, copies
//! between host and device, and allocations of device memory. The pages in `docs/structures` state the memory
//! accesses of each operation and measured rates. A call that returns no `Result` neither launches a kernel
//! nor waits for the device: it reads or sets O(1) words on the host, unless it states more. It may wait for
//! another thread that replaces the structure's memory.
pub mod btree;
mod error;
pub mod hash_map;
pub mod map;
pub mod mvbtree;
pub(crate) mod ordered;
pub mod primitives;
mod program;
pub mod skiplist;
pub mod slab_alloc;
pub mod slab_hash;

pub use btree::BTree;
pub use error::{Error, Result};
pub use gpu::{self, Device};
pub use hash_map::HashMap;
pub use map::{Key, Map, Merge, Op, Outcome, Outcomes, Value};
pub use mvbtree::MultiVersionBTree;
pub use phalanx_kernels as kernels;
pub use program::PROGRAM;
pub use skiplist::SkipList;
pub use slab_alloc::SlabAlloc;
pub use slab_hash::{SlabHash, SlabMultiMap, SlabSet};

#[doc(hidden)]
pub mod private {
    //! Items for this package's own tests, hidden from users. They are exported because tests inside the
    //! library that build structures would compile all their kernels again.
    pub use crate::map::export::{by, of_count, on_device};
    pub use crate::mvbtree::history::begin_at;
}

// Compiles and runs the examples of the pages.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/structures/btree.md")]
#[doc = include_str!("../../../docs/structures/hashmap.md")]
#[doc = include_str!("../../../docs/structures/multiversion-b-tree.md")]
#[doc = include_str!("../../../docs/structures/primitives.md")]
#[doc = include_str!("../../../docs/structures/reclaim.md")]
#[doc = include_str!("../../../docs/structures/skip-list.md")]
#[doc = include_str!("../../../docs/structures/slab-alloc.md")]
#[doc = include_str!("../../../docs/structures/slab-hash.md")]
struct Pages;

// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

//! Slabs: equal pieces of device memory that lanes allocate and free: the device side of `SlabAlloc`.
//!
//! ```text
//! bitmaps  | block 0: 32 words of 32 bits | block 1 | ... |          a set bit: the slab is live
//! retired  | the same shape                         | ... |          a set bit: free it once the launches have ended
//! slabs    | super block 0 | super block 1 | ...                     apart from the bitmaps; the pool never touches them
//!
//! handle   | super block: 8 | block: 14 | unit: 10 |                 all ones: no slab
//! ```
//!
//! A slab is owned by whoever turned its bit from 0 to 1 by a [`fetch_or`](simt::Global::fetch_or): exactly one lane sees the 0. Freeing is the
//! [`fetch_and`](simt::Global::fetch_and) that takes the bit back; the lane that sees a 0 there has freed what is not live.
//!
//! Two ways to a slab: [`Pool::allocate`] by a lane alone, in a few instructions and without state; [`Resident::allocate`] by a tile whose
//! lanes hold a block's bitmap in registers (slab-hash paper, section V) and take slabs for all of them by one atomic.
//!
//! Every access to a bitmap is relaxed: a bit is one word, and no operation needs two words to agree. So an allocation orders
//! nothing but itself. See [`Pool`] for what that asks of those who free and allocate in one launch.
mod bitmaps;
mod bits;
mod handle;
pub mod heap;
mod instances;
pub mod kernels;
mod layered;
pub mod list;
mod pool;
mod resident;
mod search;

pub use bitmaps::{BLOCK_WORDS, Bitmaps};
pub use handle::Handle;
pub use instances::*;
pub use layered::Layered;
pub use pool::{Light, MOST_SUPER_BLOCKS, Pool, Spread, Supers, Visitor};
pub use resident::{CHANGES, Resident};
pub use search::LOOKS;

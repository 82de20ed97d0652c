//! Slabs: equal pieces of device memory that lanes allocate and free: the device side of `SlabAlloc`.
//!
//! ```text
//! bitmaps  | block 0: 32 words of 32 bits | block 1 | ... |          a set bit: the slab is live
//! retired  | the same shape                         | ... |       a set bit: free it after the launches
//! slabs    | super block 0 | super block 1 | ...           apart from the bitmaps; never touched by the pool
//!
//! handle   | super block: 8 | block: 14 | unit: 10 |                 all ones: no slab
//! ```
//!
//! A slab is owned by whoever turned its bit from 0 to 1 by a [`fetch_or`](simt::Global::fetch_or): exactly
//! one lane sees the 0. Freeing is the [`fetch_and`](simt::Global::fetch_and) that takes the bit back; the
//! lane that sees a 0 there has freed what is not live.
//!
//! Two ways to a slab: [`Pool::allocate`] by a lane alone, in a few instructions and without state;
//! [`Resident::allocate`] by a tile whose lanes hold a block's bitmap in registers (slab-hash paper, section
//! V) and take slabs for all of them by one atomic.
//!
//! Every access to a bitmap is relaxed: a bit is one word, and no operation needs two words to agree. So an
//! allocation orders nothing but itself. See [`Pool`] for what that asks of those who free and allocate in
//! one launch.
//!
//! # Safe code stays within the pool
//!
//! A handle is a number that any code can make, so what takes one unchecked is `unsafe` or not public. These
//! do not compile:
//!
//! ```compile_fail,E0133
//! # use phalanx_kernels::slab::{Handle, Pool};
//! # use simt::{Order, Scope};
//! fn a_slab_of_any_handle<P: Pool>(pool: P) {
//!     pool.slab(Handle::from_word(0x0012_3456)).store(7, Order::Relaxed, Scope::Device);
//! }
//! ```
//! ```compile_fail,E0624
//! # use phalanx_kernels::slab::Pool;
//! fn a_bit_beyond_the_bitmap<P: Pool>(pool: P) {
//!     pool.bitmaps().take(1 << 20, 1);
//! }
//! ```
//! ```compile_fail,E0624
//! # use phalanx_kernels::{keyed::Packed, slab::{Light, list::{Lists, ListsView}}};
//! fn a_bucket_that_is_not_there(lists: ListsView<Lists<Packed, Light<128>, 4, 4>>) {
//!     lists.head(1_000_000);
//! }
//! ```
//! ```compile_fail,E0624
//! # use phalanx_kernels::{keyed::Packed, slab::{Handle, Light, list::{Lists, ListsView}}};
//! fn a_node_of_any_handle(lists: ListsView<Lists<Packed, Light<128>, 4, 4>>) {
//!     lists.node(Handle::from_word(0xFE00_0001));
//! }
//! ```
//! ```compile_fail,E0624
//! # use phalanx_kernels::keyed::{Bucket, Packed};
//! fn a_slot_beyond_the_bucket(bucket: Bucket<Packed, 4, 4>) {
//!     bucket.slot(1 << 20, 0);
//! }
//! ```
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

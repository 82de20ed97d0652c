//! Slabs: equal pieces of device memory that lanes allocate and free. The device side of `SlabAlloc`.
//!
//! ```text
//! bitmaps  | block 0: 32 words of 32 bits | block 1 | ... |          a set bit: the slab is live
//! retired  | the same shape                         | ... |       a set bit: freed after the launches
//! slabs    | super block 0 | super block 1 | ...           apart from the bitmaps; never touched by the pool
//!
//! handle   | super block: 8 | block: 14 | unit: 10 |                 all ones: no slab
//! ```
//!
//! The lane that turns a slab's bit from 0 to 1 by a [`fetch_or`](simt::Global::fetch_or) owns the slab:
//! exactly one lane sees the 0. Freeing is the [`fetch_and`](simt::Global::fetch_and) that clears the bit; a
//! lane that sees a 0 there has freed a slab that is not live.
//!
//! There are two ways to allocate a slab. [`Pool::allocate`] is for a lane alone: a few instructions, no
//! state. [`Resident::allocate`] is for a tile whose lanes keep the bitmap of a block in registers (slab-hash
//! paper, section V) and take slabs for several lanes by one atomic operation.
//!
//! Every access to a bitmap is relaxed: a bit lies in one word, and no operation needs two words to agree. So
//! an allocation orders no other access. [`Pool`] states the obligations of callers that free and allocate
//! within one launch.
//!
//! # Safe code stays within the pool
//!
//! Any code can make a handle, which is only a number, so functions that take one unchecked are `unsafe` or
//! not public. These examples do not compile:
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
//! ```compile_fail,E0603
//! # use phalanx_kernels::keyed::{Bucket, Packed};
//! fn a_slot_beyond_the_bucket(bucket: Bucket<Packed, 4, 4>) {
//!     bucket.slot(1 << 20, 0);
//! }
//! ```
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | [`Pool::allocate`] | one load of a random word of the bitmap and one atomic, 1 + fill atomics on average up to fill 0.95 |
//! | [`Resident::allocate`] | per round of a tile one atomic instruction of the lanes that serve others, and log2 W + 5 collectives or more; a read of 128 bytes when it changes the block |
//! | [`Resident::fence`] | a fence and a barrier of the tile |
//! | [`Pool::free`], [`Pool::retire`] | one atomic on the bitmap |
//! | [`Pool::take`], [`Pool::give`] | one atomic |
//! | [`Pool::extend`] | an allocation and a compare-and-swap; a free if another lane was faster |
//! | [`Pool::is_live`] | one load |
//! | [`Pool::slab`] | one instruction in a [`Light`] pool, about five in a [`Spread`] pool, and a load of the table for super blocks added later |
//!
//! The other methods of [`Pool`], and those of [`Handle`] and [`Bitmaps`], are arithmetic in registers.
mod allocate;
mod bitmaps;
mod bits;
mod handle;
pub mod heap;
#[cfg(feature = "slab-alloc")]
mod instances;
pub mod kernels;
mod layered;
pub mod list;
mod pool;
mod probes;

pub use allocate::{CHANGES, Resident};
pub use bitmaps::{BLOCK_WORDS, Bitmaps};
pub use handle::Handle;
#[cfg(feature = "slab-alloc")]
pub use instances::*;
pub use layered::Layered;
pub use pool::{Light, MOST_SUPER_BLOCKS, Phased, Pool, Spread, Supers};
pub use probes::MAX_PROBES;

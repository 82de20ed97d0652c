//! Slab lists: one chain of slabs per bucket. The device side of `SlabHash`, `SlabSet` and `SlabMultiMap`.
//! See `docs/structures/slab-hash.md`.
//!
//! ```
//! use phalanx_kernels::keyed::{Append, Insert, Packed, Slot};
//! use phalanx_kernels::slab::list::{Collect, Config, Count, Gather, Lists, ListsView, Node};
//! use phalanx_kernels::slab::{Pool, Spread};
//! use simt::{Global, GlobalSlice, Order, Scope, Thread, Tile};
//!
//! type Own = Lists<Packed, Spread<128>, 4, 4>;
//!
//! /// Inserts two values of a key and copies all its values, by a tile of four lanes.
//! fn insert_and_copy(lists: ListsView<Own>, key: u32, values: GlobalSlice<u32>) -> u32 {
//!     let tile = Tile::<4>::lockstep();
//!     lists.share(tile, true, Insert, key, 1); // or replaces the first value
//!     lists.share(tile, true, Append, key, 2);
//!     let many = lists.gather(tile, true, Count::default(), key); // calls `take` for each pair
//!     lists.gather(tile, true, Collect { values, from: 0, room: many }, key) // and `put` for its value
//! }
//!
//! /// Adds up the values of a list that nothing writes, then packs it.
//! fn sum_and_pack(lists: ListsView<Own>, bucket: u32) -> u32 {
//!     let (tile, mut sum) = (Tile::<4>::lockstep(), 0);
//!     assert!(bucket < lists.bucket_count() && !Node::<Packed, 4, 4>::is_link(0, 0));
//!     lists.for_each_node(tile, Some(bucket), |node| {
//!         for position in (0..Node::<Packed, 4, 4>::SLOTS).filter(|_| node.is_some()) {
//!             let word = node.map(|node| node.slot(position).load(Order::Relaxed, Scope::Device));
//!             sum += word.filter(|&word| Packed::is_live(word)).map_or(0, Packed::value);
//!         }
//!     });
//!     lists.flush(tile, bucket, true);
//!     assert_eq!(lists.inspect(bucket).gaps, 0);
//!     sum
//! }
//!
//! /// The same for any kind of lists, as entry points call it.
//! ///
//! /// # Safety
//! /// - As for `ListsView::new` and `ListsView::raw_pool`.
//! unsafe fn view_of<M: Config>(heads: *mut u64, counters: *mut u64, pool: M::Pool, key: M::Key) -> usize {
//!     // SAFETY: the caller's obligation.
//!     let lists = unsafe { ListsView::<M>::new(heads, counters, pool, 100) }.with_seed(0);
//!     M::flush(lists, Some(7), true);
//!     let pairs = M::inspect(lists, Some(7)).map_or(0, |found| found.pairs);
//!     assert!(M::gather(lists, true, Count::default(), key) <= pairs);
//!     // SAFETY: the pool is only asked for its size.
//!     unsafe { lists.raw_pool() }.units()
//! }
//!
//! /// Returns the node in a slab.
//! ///
//! /// # Safety
//! /// - As for `Node::at`.
//! unsafe fn node_at(slab: Global<u64>) -> Node<Packed, 4, 4> {
//!     // SAFETY: the caller's obligation.
//!     unsafe { Node::at(slab) }
//! }
//!
//! /// Removes a pair that a gather shows, and writes its value: what an operation does in `take` and `put`.
//! fn take_and_put<G: Gather<Slot = Packed>>(gather: G, slot: Global<u64>, place: u32) {
//!     let word = slot.load(Order::Relaxed, Scope::Device);
//!     if gather.take(slot, Packed::key(word)) {
//!         gather.put(place, Packed::value(word));
//!     }
//! }
//! ```
//!
//! # Cost
//!
//! [`ListsView::share`] reads the slabs of 128 bytes of a list until it finds the key or the end, each by one
//! or two loads of 16 bytes per lane, with two ballots; on average 1.035 slabs per hit at utilization 0.65
//! (pairs of 32 bits). An insertion adds a compare-and-swap, and an allocation when it lengthens the list.
//! [`ListsView::gather`] reads the whole list of the key. [`ListsView::for_each_node`], [`ListsView::flush`]
//! and [`ListsView::inspect`] read a whole list; a flush writes the pairs that move, and frees the slabs that
//! become empty. Addresses are arithmetic in registers.
mod gather;
#[cfg(feature = "slab-hash")]
mod instances;
pub mod kernels;
mod lists;
mod node;
mod walk;

pub use crate::keyed::Append;
use crate::keyed::{Bare, Packed, Published, Wide};
use crate::slab::Spread;
pub use gather::{Collect, Count, Gather, RemoveAll};
#[cfg(feature = "slab-hash")]
pub use instances::*;
pub use lists::{Config, Findings, Lists, ListsView, ReadOnly};
pub use node::Node;
pub use walk::LONG;

/// The default kind of lists for maps of 32-bit keys and values.
pub type DefaultLists = Lists<Packed, Spread<128>, 4, 4>;

/// The default kind for maps of other keys and values, on devices with a 16-byte compare-and-swap.
pub type DefaultWide<K, V> = Lists<Wide<K, V>, Spread<128>, 4, 2>;

/// The default kind for maps of other keys and values on older devices.
pub type DefaultPublished<K, V> = Lists<Published<K, V>, Spread<128>, 4, 2>;

/// The default kind for sets of 32-bit keys.
pub type DefaultSet32 = Lists<Bare<u32>, Spread<128>, 4, 8>;

/// The default kind for sets of 64-bit keys.
pub type DefaultSet64 = Lists<Bare<u64>, Spread<128>, 4, 4>;

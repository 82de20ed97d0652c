//! The common part of B-trees and skip lists: ordered maps in linked nodes of 16 or 32 words. A B-link tree
//! (`btree`) and a skip list (`skiplist`) are levels of such nodes, each linked to the next of its level;
//! they differ in how a split becomes known to the level above.
//!
//! | file | contents |
//! |---|---|
//! | `node`, `meta` | the layout of a node, and the words that a tile reads of one |
//! | `nodes`, `fixed_nodes` | access to the nodes of a structure; the root and other nodes that always exist |
//! | `search` | the step of a search from one node to the next |
//! | `latch`, `backoff` | latches of nodes, and pauses after failed attempts |
//! | `leaf` | lookups and changes in a leaf |
//! | `directory`, `rebuild_directory` | an index of one level, where searches begin |
//! | `range` | ranges, successors, predecessors and counts; `sink` and `staging` write their pairs |
//! | `sorted_pairs`, `split_plan` | the pairs of a node in key order, and which of them a split moves |
//! | `bulk_build` | construction from sorted pairs |
//! | `append` | sorted pairs behind all others |
//! | `scan`, `inspect` | scans of all leaves, and checks of the invariants |
//! | `access` | policies: what may run concurrently, and the memory orders that it needs |
//! | `types` | slots, pool and policy as one parameter |
//! | `versioning` | what leaves need of versions; `mvbtree` has the versions themselves |
//! | `view`, `kernels` | the view that kernels take, and the entry points |
//!
//! The size of a tree, and the words of its nodes:
//!
//! ```
//! use phalanx_kernels::keyed::{Packed, Slot};
//! use phalanx_kernels::ordered::{Level, Meta, Node, PIN, Time, directory_entries, directory_words, nodes};
//!
//! let leaves = Level::leaves(1000, 10);
//! let above = leaves.above(10);
//! assert_eq!((leaves.nodes, above.nodes, above.is_root()), (100, 10, false));
//! assert!(above.above(10).is_root());
//! assert_eq!(nodes(1000, 10), 100 + 10 + 2); // and the root, and the leaf of the reserved key
//! assert_eq!(directory_entries(1000), 512);
//! assert!(directory_words::<Packed>(512) > 2 * 512);
//! assert_eq!(Time::of(3 * PIN + 5), Time { stamp: 5, pins: 3 });
//!
//! let meta = Meta::free(2);
//! assert!(meta.is_node() && !meta.is_leaf() && !meta.is_old() && !meta.is_latched() && meta.level() == 2);
//! assert_eq!((meta.unlatched(), meta.after() == meta), (meta, false)); // the next version
//! type Own = Node<Packed, 4, 4>;
//! let word = Own::header_word(7, meta);
//! assert_eq!((Packed::key(word), Meta::read(Packed::value(word))), (7, meta));
//! assert!(Own::is_slot(0, 0) && Own::position(1, 2) == 6);
//! ```
//!
//! Nodes and views in kernels:
//!
//! ```
//! use phalanx_kernels::keyed::{Kind, Packed, Slot};
//! use phalanx_kernels::ordered::{Append, Collect, Concurrent, Config, Directory, Input, LATEST, Meta, Node};
//! use phalanx_kernels::ordered::{RawVersions, Sink, Span, TreeView, Versions, directory_entries};
//! use phalanx_kernels::slab::{Handle, Pool};
//! use simt::{Global, GlobalSlice, Order, Scope};
//!
//! /// Changes the first word of a leaf under its latch, by one lane. Returns its link and its version word.
//! ///
//! /// # Safety
//! /// - As for `Node::at`.
//! unsafe fn change_first(slab: Global<u64>, word: u64) -> Option<[u64; 2]> {
//!     // SAFETY: the caller's obligation.
//!     let node = unsafe { Node::<Packed, 4, 4>::at(slab) };
//!     if !node.try_latch(Order::Acquire) {
//!         return None;
//!     }
//!     node.word(0).store(word, Order::Relaxed, Scope::Device);
//!     let meta = Meta::read(Packed::value(node.header().load(Order::Relaxed, Scope::Device)));
//!     match meta.is_leaf() {
//!         true => node.release_as(meta.after(), Order::Release),
//!         false => node.release(meta.level(), Order::Release),
//!     }
//!     Some([node.tail(), node.version()].map(|place| place.load(Order::Relaxed, Scope::Device)))
//! }
//!
//! /// Copies the pairs from 10 to 20 as of a snapshot of the kernel, by the lanes of a warp.
//! fn copy_range<M: Config<Key = u32>>(tree: TreeView<M>, sink: Sink<u32, M::Value>) -> u64 {
//!     M::enter(tree);
//!     let stamp = M::snapshot(tree);
//!     let span = Span { from: 10, to: 20, offset: 0, room: 100 };
//!     let answer = M::seek::<Collect>(tree.at(stamp), true, span, sink);
//!     tree.repin(); // lets memory be freed before the next round
//!     M::leave(tree);
//!     answer.count
//! }
//!
//! /// Makes a view of a tree in a pool of 1000 nodes.
//! ///
//! /// # Safety
//! /// - As for `TreeView::new`, `Directory::at` and `TreeView::raw_pool`.
//! unsafe fn view_of<M: Config>(counters: *mut u64, pool: M::Pool, words: *mut u64) -> TreeView<M> {
//!     let entries = directory_entries(1000);
//!     // SAFETY: the caller's obligation; the pool is only asked for its size.
//!     unsafe {
//!         let tree = TreeView::<M>::new(counters, pool, words, entries, RawVersions::NOTHING);
//!         assert_eq!(tree.raw_pool().units(), tree.units());
//!         let directory = Directory::<M::Slot>::at(Global::new(words), entries);
//!         let _start = directory.find::<Concurrent>(M::Slot::key(M::Slot::EMPTY));
//!         tree
//!     }
//! }
//!
//! /// Builds node `number` of a tree from sorted pairs, ten in a node: the body of an entry point.
//! fn build_node<M: Config>(tree: TreeView<M>, pairs: Sink<M::Key, M::Value>, number: u64) {
//!     let (count, fill) = (pairs.keys.len() as u64, 10);
//!     if count == 0 {
//!         return M::build_empty(tree, number as u32);
//!     }
//!     M::begin(tree, number, phalanx_kernels::ordered::nodes(count, fill), count);
//!     M::build(tree, number, Input::new(pairs.keys, pairs.values, count, fill));
//! }
//!
//! /// Lists the spine of a tree by the lanes of a warp, or, in a later launch, appends a tile's share of new
//! /// pairs behind it. In between, the host allocates the new nodes.
//! fn append_share<M: Config>(tree: TreeView<M>, input: Append<M::Slot>, share: Option<u64>) {
//!     match share {
//!         None => M::find_spine(tree, input.spine),
//!         Some(number) => M::append(tree, number, input),
//!     }
//! }
//!
//! /// Executes one of the steps that the host launches one after the other while nothing else runs.
//! fn maintain<M: Config>(tree: TreeView<M>, step: u32, number: u32, pins: GlobalSlice<u32>) {
//!     match step {
//!         0 => M::mark_version(tree, number),
//!         1 => M::sweep(tree, number, pins),
//!         2 => M::clear_marked(tree, number),
//!         3 => assert_eq!(M::examine(tree, number).latched, 0),
//!         4 => M::free_node(tree, number as usize),
//!         _ => M::rebuild_directory(tree),
//!     }
//! }
//!
//! /// Takes a snapshot, and retires an old version of a leaf, by one lane between `enter` and `leave`.
//! ///
//! /// # Safety
//! /// - As for `Versions::new`, and for `Versions::retire` of `old`.
//! unsafe fn replace<V: Versions, P: Pool>(parts: RawVersions, pool: P, old: Handle) -> u32 {
//!     // SAFETY: the caller's obligation.
//!     unsafe {
//!         let versions = V::new(parts);
//!         versions.enter(pool);
//!         let time = versions.time();
//!         let _moved = versions.advance_clock(u64::from(time.stamp));
//!         if versions.protected_below() <= time.stamp && versions.read_timestamp() == LATEST {
//!             versions.retire(pool, old);
//!         }
//!         versions.repin(pool);
//!         versions.leave(pool);
//!         versions.at_timestamp(time.stamp).read_timestamp()
//!     }
//! }
//! ```
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | [`Config::seek`] | a search of the directory, at most 5 steps of 8 keys; a node per level below it; then a leaf, and its tail, per 14 × fill pairs |
//! | [`Config::snapshot`], [`Versions::advance_clock`] | one compare-and-swap on the clock per attempt, if the clock moves |
//! | [`Versions::read_timestamp`], [`Versions::time`] | a register, or one load |
//! | [`Versions::enter`], [`Versions::leave`], [`Versions::repin`], [`Versions::retire`] | those of [`crate::reclaim`], for versions that are freed while kernels run; otherwise nothing |
//! | [`Config::build`] | reads the node's share of the input, writes the node once |
//! | [`Config::append`], [`Config::find_spine`] | as a bulk build of the new pairs; a node per level |
//! | [`Config::examine`] | reads a node and those that it points to |
//! | [`Config::rebuild_directory`] | one block reads nodes of the upper levels and writes the entries |
//! | [`Config::mark_version`], [`Config::sweep`], [`Config::clear_marked`] | a slab's header; for a leaf each of its versions; 128 bytes or 256 for a marked one |
//! | [`Config::free_node`] | reads a header; clears the node and executes an atomic on the bitmap if it is freed |
//! | [`Directory::find`] | a load of 8 keys per step |
//! | [`Node::try_latch`] | one atomic; [`Node::release`] and [`Node::release_as`] one store |
//! | [`nodes`], [`Level::above`], [`directory_entries`] | arithmetic, O(levels) |
//!
//! The methods of [`Meta`], [`Time`], [`Level`], and the addresses that a [`Node`] returns, are arithmetic in
//! registers.
pub(crate) mod access;
pub(crate) mod append;
pub(crate) mod backoff;
pub(crate) mod bulk_build;
pub(crate) mod directory;
pub(crate) mod fixed_nodes;
pub(crate) mod inspect;
pub mod kernels;
pub(crate) mod latch;
pub(crate) mod leaf;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod range;
mod rebuild_directory;
mod scan;
pub(crate) mod search;
pub(crate) mod share;
pub(crate) mod sink;
mod sorted_pairs;
pub(crate) mod split_plan;
mod staging;
pub(crate) mod types;
pub(crate) mod versioning;
pub(crate) mod view;

pub use access::{Access, Concurrent, Coupled, Grouped, Phased};
pub use append::{Append, AppendPlan, SPINE_LEVELS, SPINE_WORDS};
pub use bulk_build::{Input, Level, nodes};
pub use directory::{
    COUNTERS, Directory, HEAD, THREADS as DIRECTORY_THREADS, directory_entries, directory_words,
};
pub use fixed_nodes::{EMPTY_TREE_NODES, FIRST_LEAF, RESERVED_LEAF, ROOT};
pub use inspect::Findings;
pub use meta::Meta;
pub use node::Node;
pub use range::{Answer, Collect, CollectWide, Count, Highest, Lowest, Seek, Span, Trace};
pub use sink::Sink;
pub use types::Types;
pub use versioning::{FROM_PIN, LATEST, PIN, RawVersions, Time, Unversioned, Versions};
pub use view::{Config, TreeView};

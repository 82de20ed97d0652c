//! The view of an ordered structure that kernels take, and the interface of its kinds.
use super::access::Access;
use super::append::Append;
use super::bulk_build::Input;
use super::directory::Directory;
use super::inspect::Findings;
use super::nodes::Nodes;
use super::range::{Answer, Seek, Span};
use super::sink::Sink;
use super::types::Types;
use super::versioning::{LATEST, RawVersions, Versions};
use crate::keyed::{Counters, Kind, View};
use crate::slab::Pool;
use core::fmt;
use simt::{Global, GlobalSlice, device};

/// Interface of a kind of tree, beyond [`Kind`]. The default methods are those of kinds without versions:
/// they do nothing.
pub trait Config: Kind<View = TreeView<Self>> {
    /// Pool of the nodes.
    type Pool: Pool;
    /// Versioning of leaves.
    type Versions: Versions;
    /// Number of pairs in a leaf.
    const SLOTS: u32;
    /// Whether writers may run concurrently with its kernels.
    const CONCURRENT: bool;
    /// Registers of a kernel that collects pairs. Measured: with concurrent writers the kernel waits for
    /// memory most of the time, so more warps are worth a few spills at the start of each operation. Where
    /// the clock moves, the spills would be many.
    const COLLECTS_IN: u32 =
        Self::REGISTERS + if Self::CONCURRENT && !<Self::Versions as Versions>::CLOCK_MOVES { 8 } else { 16 };

    /// Builds the node in slab number `number` of a tree from sorted pairs. See
    /// [`super::kernels::bulk_build`].
    fn build(tree: TreeView<Self>, number: u64, input: Input<Self::Slot>);

    /// Builds the node in slab number `number` of an empty tree. See [`super::kernels::build_empty`].
    fn build_empty(tree: TreeView<Self>, number: u32);

    /// Writes the last nodes of all levels to `spine`, by the lanes of a warp. See
    /// [`super::kernels::find_spine`].
    fn find_spine(tree: TreeView<Self>, spine: GlobalSlice<u64>);

    /// Executes share `number` of an append. See [`super::kernels::append_pairs`].
    fn append(tree: TreeView<Self>, number: u64, input: Append<Self::Slot>);

    /// Initializes thread `index`'s share of the other state of a new tree of `nodes` nodes and `pairs`
    /// pairs. See [`super::kernels::bulk_build`].
    fn begin(tree: TreeView<Self>, index: u64, nodes: u64, pairs: u64);

    /// Executes the query of each lane that is `pending`. See [`TreeView::seek`].
    fn seek<Q: Seek>(
        tree: TreeView<Self>,
        pending: bool,
        span: Span<Self::Key>,
        sink: Sink<Self::Key, Self::Value>,
    ) -> Answer<Self::Key, Self::Value>;

    /// Takes a snapshot, one for all lanes of a tile. See [`TreeView::snapshot`].
    fn snapshot(tree: TreeView<Self>) -> u32 {
        let _ = tree;
        LATEST
    }

    /// Examines the node in slab number `number`, by the calling lane alone.
    fn examine(tree: TreeView<Self>, number: u32) -> Findings;

    /// Rebuilds the directory, by the calling block.
    fn rebuild_directory(tree: TreeView<Self>);

    /// Marks slab `number` as retired, if it is a version. See [`crate::mvbtree::kernels::mark_versions`].
    fn mark_version(tree: TreeView<Self>, number: u32) {
        let _ = (tree, number);
    }

    /// Removes the marks of the versions behind slab `number` that snapshots with the stamps `pins` need, and
    /// unlinks the others.
    fn sweep(tree: TreeView<Self>, number: u32, pins: GlobalSlice<u32>) {
        let _ = (tree, number, pins);
    }

    /// Makes slab `number` blank, if it is marked.
    fn clear_marked(tree: TreeView<Self>, number: u32) {
        let _ = (tree, number);
    }

    /// Frees slab number `number` if it is a node that an empty tree does not have, by the lanes of the
    /// calling thread's tile.
    fn free_node(tree: TreeView<Self>, number: usize);
}

/// A tree as a kernel sees it: all of it lies in slabs of a pool.
///
/// ```
/// use phalanx_kernels::btree::{Count, Sink, Span, Tree, TreeView};
/// use phalanx_kernels::keyed::{Get, Kind, Outcome, Packed};
/// use phalanx_kernels::mvbtree::{OutOfPlace, Versioned};
/// use phalanx_kernels::slab::Spread;
/// use simt::Tile;
///
/// type Own = Tree<Versioned<Packed>, Spread<128>, OutOfPlace, 4, 4>;
///
/// /// Returns whether a key was in the tree at a time, and how many were below it. A tile calls it between
/// /// `Own::enter` and `Own::leave`.
/// fn rank_of(tree: TreeView<Own>, key: u32, sink: Sink<u32, u32>) -> (bool, u64) {
///     let tile = Tile::<4>::lockstep();
///     let then = tree.at(tree.snapshot(tile));
///     let (outcome, _) = then.share(tile, true, Get, key, 0);
///     let span = Span { from: 0, to: key.saturating_sub(1), offset: 0, room: 0 };
///     (outcome == Outcome::Found, then.seek::<Count>(tile, key > 0, span, sink).count)
/// }
/// ```
#[repr(C)]
pub struct TreeView<M: Config> {
    counters: Counters,
    pool: M::Pool,
    directory: Directory<M::Slot>,
    versions: M::Versions,
}

impl<M: Config> Clone for TreeView<M> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for TreeView<M> {}

impl<M: Config> fmt::Debug for TreeView<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeView").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl<M: Config> View for TreeView<M> {
    type Kind = M;
}

impl<M: Config> TreeView<M> {
    /// Returns a view of the tree in the slabs of a pool.
    ///
    /// # Safety
    /// - `counters` points to `COUNTER_SHARDS * SHARD_WORDS` words of device memory that live as long as the
    ///   view is used.
    /// - `directory` points to [`super::directory_words`] words for `entries`, a result of
    ///   [`super::directory_entries`]: device memory, aligned to 256 bytes, that lives as long. Before any
    ///   kernel accessed them, the first [`super::HEAD`] were 0, and each byte of the others was 0 or each
    ///   was 0xFF. Whenever nodes were freed by other means than [`super::kernels::free_nodes`] and
    ///   [`crate::skiplist::kernels::sweep`], which clear it, the others have this state again before other
    ///   kernels run.
    /// - The pool is used by this tree alone. Every byte of its free slabs is `0xFF`, and its first
    ///   [`super::EMPTY_TREE_NODES`] slabs are live and were made a tree by
    ///   [`super::kernels::build_empty`] or [`super::kernels::bulk_build`].
    /// - `history` meets the requirements of [`Versions::new`], where versions are kept.
    pub unsafe fn new(
        counters: *mut u64,
        pool: M::Pool,
        directory: *mut u64,
        entries: u32,
        history: RawVersions,
    ) -> Self {
        // SAFETY: the caller's promise; kernels make only relaxed accesses.
        let (counters, directory) =
            unsafe { (Counters::new(Global::new(counters)), Directory::at(Global::new(directory), entries)) };
        // SAFETY: the caller's promise.
        Self { counters, pool, directory, versions: unsafe { M::Versions::new(history) } }
    }

    /// Returns the nodes, which tiles of `W` lanes read.
    #[device]
    pub(crate) fn nodes_of<T, const W: u32, const L: usize>(self) -> Nodes<T, W, L>
    where
        T: Types<Slot = M::Slot, Pool = M::Pool, Access: Access<Versions = M::Versions>>,
    {
        let Self { counters, pool, directory, versions } = self;
        Nodes { counters, pool, directory, versions }
    }

    /// Returns the tree at a snapshot's timestamp, for reading only. With [`LATEST`] it is the current state.
    #[device(caller)]
    pub fn at(self, timestamp: u32) -> Self {
        Self { versions: self.versions.at_timestamp(timestamp), ..self }
    }

    /// Enters an epoch, by all threads of the block. See [`Kind::enter`].
    #[device(caller)]
    pub(crate) fn enter(self) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { self.versions.enter(self.pool) };
    }

    /// Leaves the epoch that [`Self::enter`] has entered.
    #[device(caller)]
    pub(crate) fn leave(self) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { self.versions.leave(self.pool) };
    }

    /// Leaves the epoch that [`Kind::enter`] has entered, and enters another one, by all threads of the
    /// block. Persistent kernels call it between two rounds, so that memory can be freed.
    #[device(caller)]
    pub fn repin(self) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { self.versions.repin(self.pool) };
    }

    /// Returns the directory.
    #[device]
    pub(crate) fn directory(self) -> Directory<M::Slot> {
        self.directory
    }

    /// Returns the counters.
    #[device]
    pub(crate) fn counters(self) -> Counters {
        self.counters
    }

    /// Returns the pool that the nodes come from.
    ///
    /// # Safety
    /// - The caller frees, retires and writes no slab that it has not allocated itself.
    #[device]
    pub unsafe fn raw_pool(self) -> M::Pool {
        self.pool
    }

    /// Returns the number of slabs in the pool, free ones included.
    #[device]
    pub fn units(self) -> usize {
        self.pool.units()
    }
}

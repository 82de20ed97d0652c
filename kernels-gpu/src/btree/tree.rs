//! The view of a tree that kernels take, and the interface of a kind of tree.
use super::super::slab::{Handle, Pool};
use super::access::{Access, Concurrent, Phased};
use super::bulk::Input;
use super::directory::Directory;
use super::history::{LATEST, RawVersions as HistoryParts, Versions};
use super::inspect::Findings;
use super::node::Node;
use super::seek::{Answer, Seek, Span};
use super::sink::Sink;
use super::walk::Walk;
use crate::keyed::{Counters, EntryRef, Kind, Operation, Outcome, Request, Scalar, Slot, TileKind, View};
use core::fmt;
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Independent, Instance, Order, Queue, Scope, Tile, device};

/// Handle of the root. It never changes: a split of the root moves its pairs into two new nodes below it.
pub const ROOT: Handle = Handle::from_word(0);
/// Handle of the leaf for the one key that looks like an empty slot. It is the last leaf.
pub const RESERVED_LEAF: Handle = Handle::from_word(1);
/// Handle of the first of the other leaves.
pub const FIRST_LEAF: Handle = Handle::from_word(2);
/// Number of slabs of an empty tree.
pub const EMPTY_TREE_NODES: usize = 3;

/// A kind of tree: slots `S`, slabs of the pool `P`, access policy `A`, nodes read by tiles of `W` lanes with
/// `L` words per lane.
#[derive(Clone, Copy, Debug)]
pub struct Tree<S, P, A, const W: u32, const L: usize>(PhantomData<(S, P, A)>);

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

    /// Leaves the epoch that [`Kind::enter`] has entered, and enters another one, by all threads of the
    /// block. Persistent kernels call it between two rounds, so that memory can be freed.
    fn repin(tree: TreeView<Self>) {
        let _ = tree;
    }

    /// Takes a snapshot, one for all lanes of a tile. See [`TreeView::snapshot`].
    fn snapshot(tree: TreeView<Self>) -> u32 {
        let _ = tree;
        LATEST
    }

    /// Returns the tree at a snapshot's timestamp. See [`TreeView::at`].
    fn at(tree: TreeView<Self>, stamp: u32) -> TreeView<Self> {
        let _ = stamp;
        tree
    }

    /// Examines the node in slab number `number`, by the calling lane alone.
    fn examine(tree: TreeView<Self>, number: u32) -> Findings;

    /// Rebuilds the directory, by the calling block.
    fn rebuild_directory(tree: TreeView<Self>);

    /// Marks slab `number` as retired, if it is a version. See [`super::kernels::mark_versions`].
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

/// Visitor that [`super::visit`] calls with the kind of tree of a given name.
pub trait Visitor {
    /// Result of the visit.
    type Output;
    /// Visits the kind `M`.
    fn visit<M: Config + Instance>(self) -> Self::Output;
}

/// A kind of tree whose kernels only read, while nothing writes.
pub trait ReadOnly: Config {
    /// The kind of tree that it reads.
    type Writers: Config<Key = Self::Key, Value = Self::Value>;
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> ReadOnly for Tree<S, P, Phased, W, L> {
    type Writers = Tree<S, P, Concurrent, W, L>;
}

/// Visitor that [`super::phased::visit`] calls with the read-only kind of tree of a given name.
pub trait ReadOnlyVisitor {
    /// Result of the visit.
    type Output;
    /// Visits the kind `M`.
    fn visit<M: ReadOnly + Instance>(self) -> Self::Output;
}

/// A tree as a kernel sees it: all of it lies in slabs of a pool.
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
    ///   [`super::directory_entries`]: device memory, aligned to 256 bytes, that lives as long. The first
    ///   [`super::HEAD`] were 0 before any kernel accessed them, and [`super::kernels::rebuild_directory`]
    ///   runs before other kernels whenever nodes were freed.
    /// - The pool is used by this tree alone. Every byte of its free slabs is `0xFF`, and its first
    ///   [`EMPTY_TREE_NODES`] slabs are live and were made a tree by [`super::kernels::bulk_build`].
    /// - `history` meets the requirements of [`Versions::new`], where versions are kept.
    pub unsafe fn new(
        counters: *mut u64,
        pool: M::Pool,
        directory: *mut u64,
        entries: u32,
        history: HistoryParts,
    ) -> Self {
        // SAFETY: the caller's promise; kernels make only relaxed accesses.
        let (counters, directory) =
            unsafe { (Counters::new(Global::new(counters)), Directory::at(Global::new(directory), entries)) };
        // SAFETY: the caller's promise.
        Self { counters, pool, directory, versions: unsafe { M::Versions::new(history) } }
    }

    /// Returns the view of the versions.
    #[device]
    pub(crate) fn versions(self) -> M::Versions {
        self.versions
    }

    /// Returns the same tree with another view of the versions.
    #[device]
    pub(super) fn with_versions(self, versions: M::Versions) -> Self {
        Self { versions, ..self }
    }

    /// Returns the same memory as a tree of another kind, whose nodes have the same layout.
    #[device]
    pub(crate) fn seen_as<N>(self) -> TreeView<N>
    where
        N: Config<Pool = M::Pool, Versions = M::Versions> + Kind<Slot = M::Slot>,
    {
        TreeView {
            counters: self.counters,
            pool: self.pool,
            directory: self.directory,
            versions: self.versions,
        }
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

    /// Returns the pool.
    #[device]
    pub(crate) fn pool(self) -> M::Pool {
        self.pool
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

/// Node where the traversal for a key begins, and the key as it is stored there.
#[derive(Clone, Copy, Debug)]
pub struct Start<S: Slot> {
    /// The key as it is stored.
    pub key: S::Stored,
    /// The first node.
    pub node: Handle,
}

#[device]
impl<S: Slot> Start<S> {
    /// Returns the start for a key. The one key that looks like an empty slot is stored as 0 in a leaf of its
    /// own; all others start at the root.
    pub fn of(key: S::Stored) -> Self {
        if key == S::key(S::EMPTY) {
            return Self { key: S::Stored::from_u64(0), node: RESERVED_LEAF };
        }
        Self { key, node: ROOT }
    }

    /// Whether the key is in the reserved leaf.
    pub fn is_reserved(&self) -> bool {
        self.node == RESERVED_LEAF
    }
}

/// Returns the largest key that the ordered leaves hold; the key above it is in the reserved leaf.
#[device]
pub fn largest<S: Slot>() -> S::Stored {
    S::Stored::from_u64(S::key(S::EMPTY).to_u64() - 1)
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Returns the node of a handle, which was read in a node of this tree or just allocated from its pool.
    pub(crate) fn node(self, handle: Handle) -> Node<S, W, L> {
        const { assert!(Node::<S, W, L>::BYTES == P::BYTES, "a node is a slab") };
        // SAFETY: the handles that callers pass name live slabs of the pool, which are nodes or blank.
        unsafe { Node::at(self.pool.slab(handle)) }
    }

    /// Executes the operations of all lanes that are `pending`, each by its tile, and returns to each lane
    /// its own result.
    pub fn share<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let tree = self.at(self.versions().read_timestamp());
        let key = S::Stored::from_u64(key.to_u64());
        let start = if A::COUPLED { Start::of(key) } else { self.start(key, pending) };
        let mut walk = Walk::new(tree, start.node, Request { operation, key: start.key, argument });
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.next_op() {
            let finished = walk.round(turn, queue.waiting());
            queue.finish_all(finished);
        }
        walk.result()
    }
}

// SAFETY: nodes are found by handles in live nodes, which are the pool's, and words lie within them.
unsafe impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Kind for Tree<S, P, A, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = TreeView<Self>;
    const TILE: u32 = W;
    const REGISTERS: u32 = if size_of::<S::Word>() == 16 { 72 } else { 56 };
    /// Measured: in a frozen tree of 16-byte pairs lookups are 9 % faster with 40 registers than with the 48
    /// that the assembler takes.
    const READS_IN: u32 = if A::CONCURRENT { Self::REGISTERS } else { 40 };

    #[device(caller)]
    fn execute<O: Operation>(
        tree: TreeView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        tree.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[device(caller)]
    fn enter(tree: TreeView<Self>) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { tree.versions().enter(tree.pool()) };
    }

    #[device(caller)]
    fn leave(tree: TreeView<Self>) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { tree.versions().leave(tree.pool()) };
    }

    #[device]
    fn counters(tree: TreeView<Self>) -> Counters {
        tree.counters()
    }

    fn scan_threads(tree: TreeView<Self>) -> usize {
        tree.pool.units() * W as usize
    }

    /// Scans one slab of the pool per tile.
    #[device(caller)]
    fn scan(tree: TreeView<Self>, thread: usize, mut see: impl FnMut(Option<EntryRef<Self>>)) {
        let tile = Tile::<W>::lockstep();
        let number = thread / W as usize;
        let exists = number < tree.pool.units() && tree.pool.bitmaps().is_live(number as u32);
        let handle = tree.pool.handle(if exists { number as u32 } else { 0 });
        let node = tree.node(handle);
        let read = node.read(tile.rank(), exists, Order::Relaxed);
        let ((low, meta), (high, _)) = (read.header(tile), read.tail(tile));
        let is_leaf = exists && meta.is_leaf();
        let read = if A::Versions::VERSIONED { tree.as_of(tile, node, is_leaf, read).0 } else { read };
        let mut j = 0;
        while j < L {
            let (word, position) = (read.words()[j], Node::<S, W, L>::position(tile.rank(), j));
            let is_within = S::key(word) <= high && (!A::Versions::VERSIONED || S::key(word) >= low);
            let is_pair = is_leaf && position < Node::<S, W, L>::SLOTS && is_within;
            see(is_pair.then(|| {
                let key = S::unalias(S::key(word), handle == RESERVED_LEAF);
                EntryRef::new(node.word(position), key, S::value(word))
            }));
            j += 1;
        }
    }

    #[device(caller)]
    fn erase(slot: Global<S::Word>) -> bool {
        slot.store(S::EMPTY, Order::Relaxed, Scope::Device);
        true
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Config for Tree<S, P, A, W, L> {
    type Pool = P;
    type Versions = A::Versions;
    const SLOTS: u32 = Node::<S, W, L>::SLOTS;
    const CONCURRENT: bool = A::CONCURRENT;

    fn build(tree: TreeView<Self>, number: u64, input: Input<S>) {
        tree.build(number, input);
    }

    fn begin(tree: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        tree.begin(index, nodes, pairs);
    }

    fn seek<Q: Seek>(
        tree: TreeView<Self>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        tree.seek::<Q, _>(Tile::<W>::lockstep(), pending, span, sink)
    }

    fn repin(tree: TreeView<Self>) {
        // SAFETY: copies of leaves are allocated in the tree's pool.
        unsafe { tree.versions().repin(tree.pool()) };
    }

    fn snapshot(tree: TreeView<Self>) -> u32 {
        tree.snapshot(Tile::<W>::lockstep())
    }

    #[device]
    fn at(tree: TreeView<Self>, stamp: u32) -> TreeView<Self> {
        tree.at(stamp)
    }

    fn examine(tree: TreeView<Self>, number: u32) -> Findings {
        tree.examine(number)
    }

    fn rebuild_directory(tree: TreeView<Self>) {
        tree.rebuild_directory();
    }

    fn mark_version(tree: TreeView<Self>, number: u32) {
        tree.mark_version(number);
    }

    fn sweep(tree: TreeView<Self>, number: u32, pins: GlobalSlice<u32>) {
        tree.sweep(number, pins);
    }

    fn clear_marked(tree: TreeView<Self>, number: u32) {
        tree.clear_marked(number);
    }

    fn free_node(tree: TreeView<Self>, number: usize) {
        let pool = tree.pool;
        if number < EMPTY_TREE_NODES || number >= pool.units() || !pool.bitmaps().is_live(number as u32) {
            return;
        }
        let tile = Tile::<W, Independent>::this();
        let handle = pool.handle(number as u32);
        tree.node(handle).blank(tile.rank());
        tile.sync();
        if tile.rank() == 0 {
            pool.free(handle);
        }
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TileKind<W> for Tree<S, P, A, W, L> {
    #[device(caller)]
    fn share<O: Operation, C: Convergence>(
        tree: TreeView<Self>,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        tree.share(tile, pending, operation, key, argument)
    }
}

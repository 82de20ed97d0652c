//! A kind of B-link tree.
use super::walk::Walk;
use crate::keyed::{Counters, EntryRef, Kind, Operation, Outcome, Request, Scalar, Slot, TileKind};
use crate::ordered::access::{Access, Concurrent, Phased};
use crate::ordered::append::Append;
use crate::ordered::bulk_build::Input;
use crate::ordered::fixed_nodes::Start;
use crate::ordered::inspect::Findings;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::range::{Answer, Seek, Span};
use crate::ordered::sink::Sink;
use crate::ordered::types::{Key, Stored, Types, Value, VersionsOf, WordOf, name};
use crate::ordered::versioning::Versions;
use crate::ordered::view::{Config, TreeView};
use crate::slab::Pool;
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Instance, Queue, Tile, device};

/// A kind of tree: slots `S`, slabs of the pool `P`, access policy `A`, nodes read by tiles of `W` lanes with
/// `L` words per lane.
pub type Tree<S, P, A, const W: u32, const L: usize> = TreeOf<(S, P, A), W, L>;

/// A kind of tree with the types `T`: see [`Tree`].
#[derive(Clone, Copy, Debug)]
pub struct TreeOf<T, const W: u32, const L: usize>(PhantomData<T>);

impl<T: Types, const W: u32, const L: usize> Instance for TreeOf<T, W, L> {
    const NAME: &'static str = const { &name::<T>(W, L) }.as_str();
}

/// A kind of tree whose kernels only read, while nothing writes.
pub trait ReadOnly: Config {
    /// The kind of tree that it reads.
    type Writers: Config<Key = Self::Key, Value = Self::Value>;
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> ReadOnly for Tree<S, P, Phased, W, L> {
    type Writers = Tree<S, P, Concurrent, W, L>;
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> TreeView<TreeOf<T, W, L>> {
    /// Returns the tree's nodes.
    #[device]
    fn nodes(self) -> Nodes<T, W, L> {
        self.nodes_of()
    }

    /// Executes the operations of all lanes that are `pending`, each by its tile, and returns to each lane
    /// its own result.
    pub fn share<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
        let nodes = self.nodes();
        let nodes = nodes.at(nodes.versions.read_timestamp());
        let key = Stored::<T>::from_u64(key.to_u64());
        let start = if T::Access::COUPLED { Start::of(key) } else { nodes.start(key, pending) };
        let mut walk = Walk::new(nodes, start.node, Request { operation, key: start.key, argument });
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.next_op() {
            let finished = walk.round(turn, queue.waiting());
            queue.finish_all(finished);
        }
        walk.result()
    }

    /// Executes the query of each lane that is `pending`. See [`TreeView::seek`].
    pub fn seek<Q: Seek>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        span: Span<Key<T>>,
        sink: Sink<Key<T>, Value<T>>,
    ) -> Answer<Key<T>, Value<T>> {
        self.nodes().seek::<Q>(tile, pending, span, sink)
    }

    /// Takes a snapshot for the tile. See [`TreeView::snapshot`].
    pub fn snapshot(self, tile: Tile<W, impl Convergence>) -> u32 {
        self.nodes().snapshot(tile)
    }
}

// SAFETY: nodes are found by handles in live nodes, which are the pool's, and words lie within them.
#[device(caller)]
unsafe impl<T: Types, const W: u32, const L: usize> Kind for TreeOf<T, W, L> {
    type Key = Key<T>;
    type Value = Value<T>;
    type Slot = T::Slot;
    type View = TreeView<Self>;
    const TILE: u32 = W;
    const REGISTERS: u32 = if size_of::<WordOf<T>>() == 16 { 72 } else { 56 };
    /// Measured: in a frozen tree of 16-byte pairs lookups are 9 % faster with 40 registers than with the 48
    /// that the assembler takes.
    const READS_IN: u32 = if T::Access::CONCURRENT { Self::REGISTERS } else { 40 };

    fn execute<O: Operation>(
        tree: TreeView<Self>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
        tree.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    fn enter(tree: TreeView<Self>) {
        tree.enter();
    }

    fn leave(tree: TreeView<Self>) {
        tree.leave();
    }

    #[device]
    fn counters(tree: TreeView<Self>) -> Counters {
        tree.counters()
    }

    fn scan_threads(tree: TreeView<Self>) -> usize {
        tree.units() * W as usize
    }

    fn scan(tree: TreeView<Self>, thread: usize, see: impl FnMut(Option<EntryRef<Self>>)) {
        tree.nodes().scan(thread, see);
    }

    fn erase(slot: Global<WordOf<T>>) -> bool {
        Nodes::<T, W, L>::erase(slot)
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Config for TreeOf<T, W, L> {
    type Pool = T::Pool;
    type Versions = VersionsOf<T>;
    const SLOTS: u32 = Node::<T::Slot, W, L>::SLOTS;
    const CONCURRENT: bool = T::Access::CONCURRENT;

    fn build(tree: TreeView<Self>, number: u64, input: Input<T::Slot>) {
        tree.nodes().build(number, input);
    }

    fn build_empty(tree: TreeView<Self>, number: u32) {
        tree.nodes().build_empty(number);
    }

    fn find_spine(tree: TreeView<Self>, spine: GlobalSlice<u64>) {
        tree.nodes().find_spine(spine);
    }

    fn append(tree: TreeView<Self>, number: u64, input: Append<T::Slot>) {
        tree.nodes().append(number, input);
    }

    fn begin(tree: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        tree.nodes().begin(index, nodes, pairs);
    }

    fn seek<Q: Seek>(
        tree: TreeView<Self>,
        pending: bool,
        span: Span<Key<T>>,
        sink: Sink<Key<T>, Value<T>>,
    ) -> Answer<Key<T>, Value<T>> {
        tree.nodes().seek::<Q>(Tile::<W>::lockstep(), pending, span, sink)
    }

    fn snapshot(tree: TreeView<Self>) -> u32 {
        tree.nodes().snapshot(Tile::<W>::lockstep())
    }

    fn examine(tree: TreeView<Self>, number: u32) -> Findings {
        tree.nodes().examine(number)
    }

    fn rebuild_directory(tree: TreeView<Self>) {
        tree.nodes().rebuild_directory();
    }

    fn mark_version(tree: TreeView<Self>, number: u32) {
        tree.nodes().mark_version(number);
    }

    fn sweep(tree: TreeView<Self>, number: u32, pins: GlobalSlice<u32>) {
        tree.nodes().sweep(number, pins);
    }

    fn clear_marked(tree: TreeView<Self>, number: u32) {
        tree.nodes().clear_marked(number);
    }

    fn free_node(tree: TreeView<Self>, number: usize) {
        tree.nodes().free_node(number);
    }
}

impl<T: Types, const W: u32, const L: usize> TileKind<W> for TreeOf<T, W, L> {
    #[device(caller)]
    fn share<O: Operation>(
        tree: TreeView<Self>,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
        tree.share(tile, pending, operation, key, argument)
    }
}

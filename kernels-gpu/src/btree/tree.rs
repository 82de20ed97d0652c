//! A kind of B-link tree.
use super::walk::Walk;
use crate::keyed::{Counters, EntryRef, Kind, Operation, Outcome, Request, Scalar, Slot, TileKind};
use crate::ordered::access::{Access, Concurrent, Phased};
use crate::ordered::bulk_build::Input;
use crate::ordered::fixed_nodes::Start;
use crate::ordered::inspect::Findings;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::range::{Answer, Seek, Span};
use crate::ordered::sink::Sink;
use crate::ordered::versioning::Versions;
use crate::ordered::view::{Config, TreeView};
use crate::slab::Pool;
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Instance, Queue, Tile, device};

/// A kind of tree: slots `S`, slabs of the pool `P`, access policy `A`, nodes read by tiles of `W` lanes with
/// `L` words per lane.
#[derive(Clone, Copy, Debug)]
pub struct Tree<S, P, A, const W: u32, const L: usize>(PhantomData<(S, P, A)>);

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

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Returns the tree's nodes.
    #[device]
    fn nodes(self) -> Nodes<S, P, A, W, L> {
        self.nodes_of()
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
        let nodes = self.nodes();
        let nodes = nodes.at(nodes.versions.read_timestamp());
        let key = S::Stored::from_u64(key.to_u64());
        let start = if A::COUPLED { Start::of(key) } else { nodes.start(key, pending) };
        let mut walk = Walk::new(nodes, start.node, Request { operation, key: start.key, argument });
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.next_op() {
            let finished = walk.round(turn, queue.waiting());
            queue.finish_all(finished);
        }
        walk.result()
    }

    /// Executes the query of each lane that is `pending`. See [`Nodes::seek`].
    pub fn seek<Q: Seek, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        self.nodes().seek::<Q, _>(tile, pending, span, sink)
    }

    /// Takes a snapshot for the tile. See [`Nodes::snapshot`].
    pub fn snapshot<C: Convergence>(self, tile: Tile<W, C>) -> u32 {
        self.nodes().snapshot(tile)
    }
}

// SAFETY: nodes are found by handles in live nodes, which are the pool's, and words lie within them.
#[device(caller)]
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

    fn execute<O: Operation>(
        tree: TreeView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
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

    fn erase(slot: Global<S::Word>) -> bool {
        Nodes::<S, P, A, W, L>::erase(slot)
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Config for Tree<S, P, A, W, L> {
    type Pool = P;
    type Versions = A::Versions;
    const SLOTS: u32 = Node::<S, W, L>::SLOTS;
    const CONCURRENT: bool = A::CONCURRENT;

    fn build(tree: TreeView<Self>, number: u64, input: Input<S>) {
        tree.nodes().build(number, input);
    }

    fn begin(tree: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        tree.nodes().begin(index, nodes, pairs);
    }

    fn seek<Q: Seek>(
        tree: TreeView<Self>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        tree.nodes().seek::<Q, _>(Tile::<W>::lockstep(), pending, span, sink)
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

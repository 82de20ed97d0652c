//! A kind of skip list.
use super::compact::{NodeArray, SlabReservation};
use super::policy::Policy;
use super::walk::Walk;
use crate::keyed::{Counters, EntryRef, Kind, Operation, Outcome, Request, Scalar, Slot, TileKind};
use crate::ordered::bulk_build::Input;
use crate::ordered::fixed_nodes::EMPTY_TREE_NODES;
use crate::ordered::inspect::Findings;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::range::{Answer, Seek, Span};
use crate::ordered::sink::Sink;
use crate::ordered::view::{Config, TreeView};
use crate::slab::Pool;
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Instance, Queue, Tile, device};

/// A kind of skip list: slots `S`, slabs of the pool `P`, policy `A`, nodes read by tiles of `W` lanes with
/// `L` words per lane.
#[derive(Clone, Copy, Debug)]
pub struct List<S, P, A, const W: u32, const L: usize>(PhantomData<(S, P, A)>);

#[device]
impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> TreeView<List<S, P, A, W, L>> {
    /// Returns the list's nodes.
    pub(super) fn nodes(self) -> Nodes<S, P, A, W, L> {
        self.nodes_of()
    }

    /// Executes the operations of all lanes that are `pending`, each by its tile, and returns to each lane
    /// its own result.
    #[device(caller)]
    pub fn share<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let nodes = self.nodes();
        let start = nodes.start(S::Stored::from_u64(key.to_u64()), pending);
        let mut walk = Walk::new(nodes, start.node, Request { operation, key: start.key, argument });
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.next_op() {
            let finished = walk.round(turn, queue.waiting());
            queue.finish_all(finished);
        }
        walk.result()
    }
}

// SAFETY: nodes are found by handles in live nodes, which are the pool's, and words lie within them.
unsafe impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Kind for List<S, P, A, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = TreeView<Self>;
    const TILE: u32 = W;
    const REGISTERS: u32 = if size_of::<S::Word>() == 16 { 72 } else { 56 };

    #[device(caller)]
    fn execute<O: Operation>(
        list: TreeView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        list.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[device]
    fn counters(list: TreeView<Self>) -> Counters {
        TreeView::counters(list)
    }

    fn scan_threads(list: TreeView<Self>) -> usize {
        list.units() * W as usize
    }

    #[device(caller)]
    fn scan(list: TreeView<Self>, thread: usize, see: impl FnMut(Option<EntryRef<Self>>)) {
        list.nodes().scan(thread, see);
    }

    #[device(caller)]
    fn erase(slot: Global<S::Word>) -> bool {
        Nodes::<S, P, A, W, L>::erase(slot)
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Config for List<S, P, A, W, L> {
    type Pool = P;
    type Versions = A::Versions;
    const SLOTS: u32 = Node::<S, W, L>::SLOTS;
    const CONCURRENT: bool = A::CONCURRENT;

    fn build(list: TreeView<Self>, number: u64, input: Input<S>) {
        list.nodes().build(number, input);
    }

    fn begin(list: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        list.nodes().begin(index, nodes, pairs);
    }

    fn seek<Q: Seek>(
        list: TreeView<Self>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        list.nodes().seek::<Q, _>(Tile::<W>::lockstep(), pending, span, sink)
    }

    fn examine(list: TreeView<Self>, number: u32) -> Findings {
        super::inspect::examine(list.nodes(), number)
    }

    fn rebuild_directory(list: TreeView<Self>) {
        list.nodes().rebuild_directory();
    }

    fn free_node(list: TreeView<Self>, number: usize) {
        list.nodes().free_node(number);
    }
}

impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> TileKind<W> for List<S, P, A, W, L> {
    #[device(caller)]
    fn share<O: Operation, C: Convergence>(
        list: TreeView<Self>,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        list.share(tile, pending, operation, key, argument)
    }
}

/// Interface of a kind of skip list, beyond that of a tree: the steps that compact a list while nothing else
/// runs. See the module `compact`.
pub trait Layers: Config {
    /// Executes one thread's part of [`super::kernels::gather`].
    fn gather(
        list: TreeView<Self>,
        number: usize,
        lows: GlobalSlice<Self::Key>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    );

    /// Executes one tile's part of [`super::kernels::sweep`].
    fn sweep_nodes(list: TreeView<Self>, number: usize);

    /// Executes one tile's part of [`super::kernels::relink`].
    fn relink(list: TreeView<Self>, index: usize, data: NodeArray<Self::Key>);

    /// Executes one thread's part of [`super::kernels::claim`].
    fn claim(list: TreeView<Self>, number: usize, claims: SlabReservation);

    /// Executes one tile's part of [`super::kernels::index()`].
    fn index(list: TreeView<Self>, number: u64, data: NodeArray<Self::Key>);
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Layers for List<S, P, A, W, L> {
    fn gather(
        list: TreeView<Self>,
        number: usize,
        lows: GlobalSlice<S::Key>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    ) {
        list.nodes().gather(number, lows, handles, count);
    }

    fn sweep_nodes(list: TreeView<Self>, number: usize) {
        list.nodes().sweep_nodes(number);
    }

    fn relink(list: TreeView<Self>, index: usize, data: NodeArray<S::Key>) {
        list.nodes().relink_data(index, data);
    }

    fn claim(list: TreeView<Self>, number: usize, claims: SlabReservation) {
        list.nodes().claim(number, claims);
    }

    fn index(list: TreeView<Self>, number: u64, data: NodeArray<S::Key>) {
        list.nodes().index(number, data);
    }
}

/// Visitor that [`super::visit`] calls with the kind of list of a given name.
pub trait Visitor {
    /// Result of the visit.
    type Output;
    /// Visits the kind `M`.
    fn visit<M: Layers + Instance>(self) -> Self::Output;
}

const _: () = assert!(EMPTY_TREE_NODES == 3, "root, annex and first data node");

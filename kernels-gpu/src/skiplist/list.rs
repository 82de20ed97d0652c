//! A kind of skip list.
use super::compact::{NodeArray, SlabReservation};
use super::policy::Policy;
use super::walk::Walk;
use crate::keyed::{Counters, EntryRef, Kind, Operation, Outcome, Request, Scalar, TileKind};
use crate::ordered::access::Access;
use crate::ordered::append::Append;
use crate::ordered::bulk_build::Input;
use crate::ordered::fixed_nodes::EMPTY_TREE_NODES;
use crate::ordered::inspect::Findings;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::range::{Answer, Seek, Span};
use crate::ordered::sink::Sink;
use crate::ordered::types::{Key, Stored, Types, Value, VersionsOf, WordOf, name};
use crate::ordered::view::{Config, TreeView};
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Instance, Queue, Tile, device};

/// A kind of skip list: slots `S`, slabs of the pool `P`, policy `A`, nodes read by tiles of `W` lanes with
/// `L` words per lane.
pub type List<S, P, A, const W: u32, const L: usize> = ListOf<(S, P, A), W, L>;

/// A kind of skip list with the types `T`: see [`List`].
#[derive(Clone, Copy, Debug)]
pub struct ListOf<T, const W: u32, const L: usize>(PhantomData<T>);

impl<T: Types<Access: Policy>, const W: u32, const L: usize> Instance for ListOf<T, W, L> {
    const NAME: &'static str = const { &name::<T>(W, L) }.as_str();
}

#[device]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> TreeView<ListOf<T, W, L>> {
    /// Returns the list's nodes.
    pub(super) fn nodes(self) -> Nodes<T, W, L> {
        self.nodes_of()
    }

    /// Executes the operations of all lanes that are `pending`, each by its tile, and returns to each lane
    /// its own result.
    #[device(caller)]
    pub fn share<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
        let nodes = self.nodes();
        let start = nodes.start(Stored::<T>::from_u64(key.to_u64()), pending);
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
unsafe impl<T: Types<Access: Policy>, const W: u32, const L: usize> Kind for ListOf<T, W, L> {
    type Key = Key<T>;
    type Value = Value<T>;
    type Slot = T::Slot;
    type View = TreeView<Self>;
    const TILE: u32 = W;
    const REGISTERS: u32 = if size_of::<WordOf<T>>() == 16 { 72 } else { 56 };

    #[device(caller)]
    fn execute<O: Operation>(
        list: TreeView<Self>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
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
    fn erase(slot: Global<WordOf<T>>) -> bool {
        Nodes::<T, W, L>::erase(slot)
    }
}

#[device(caller)]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Config for ListOf<T, W, L> {
    type Pool = T::Pool;
    type Versions = VersionsOf<T>;
    const SLOTS: u32 = Node::<T::Slot, W, L>::SLOTS;
    const CONCURRENT: bool = T::Access::CONCURRENT;

    fn build(list: TreeView<Self>, number: u64, input: Input<T::Slot>) {
        list.nodes().build(number, input);
    }

    fn build_empty(list: TreeView<Self>, number: u32) {
        list.nodes().build_empty(number);
    }

    fn find_spine(list: TreeView<Self>, spine: GlobalSlice<u64>) {
        list.nodes().find_spine(spine);
    }

    fn append(list: TreeView<Self>, number: u64, input: Append<T::Slot>) {
        list.nodes().append(number, input);
    }

    fn begin(list: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        list.nodes().begin(index, nodes, pairs);
    }

    fn seek<Q: Seek>(
        list: TreeView<Self>,
        pending: bool,
        span: Span<Key<T>>,
        sink: Sink<Key<T>, Value<T>>,
    ) -> Answer<Key<T>, Value<T>> {
        list.nodes().seek::<Q>(Tile::<W>::lockstep(), pending, span, sink)
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

impl<T: Types<Access: Policy>, const W: u32, const L: usize> TileKind<W> for ListOf<T, W, L> {
    #[device(caller)]
    fn share<O: Operation>(
        list: TreeView<Self>,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: Key<T>,
        argument: Value<T>,
    ) -> (Outcome, Value<T>) {
        list.share(tile, pending, operation, key, argument)
    }
}

/// Interface of a kind of skip list, beyond that of a tree: the steps that compact a list while nothing else
/// runs. See the module `compact`.
pub trait Layers: Config {
    /// Maximum number of registers per thread of a pass of operations of several kinds.
    const CODED_IN: u32;

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
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Layers for ListOf<T, W, L> {
    /// Measured on half insertions and half lookups: with 64 registers, 64-bit pairs are 3 % faster than with
    /// the 72 of insertions, and lanes of four slots 1 % faster than with 56.
    const CODED_IN: u32 = if size_of::<WordOf<T>>() == 16 || L >= 4 { 64 } else { Self::REGISTERS };

    fn gather(
        list: TreeView<Self>,
        number: usize,
        lows: GlobalSlice<Key<T>>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    ) {
        list.nodes().gather(number, lows, handles, count);
    }

    fn sweep_nodes(list: TreeView<Self>, number: usize) {
        list.nodes().sweep_nodes(number);
    }

    fn relink(list: TreeView<Self>, index: usize, data: NodeArray<Key<T>>) {
        list.nodes().relink_data(index, data);
    }

    fn claim(list: TreeView<Self>, number: usize, claims: SlabReservation) {
        list.nodes().claim(number, claims);
    }

    fn index(list: TreeView<Self>, number: u64, data: NodeArray<Key<T>>) {
        list.nodes().index(number, data);
    }
}

const _: () = assert!(EMPTY_TREE_NODES == 3, "root, annex and first data node");

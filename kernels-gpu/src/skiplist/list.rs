//! What is known of a kind of skip list.
use super::policy::Policy;
use super::tidy::{Claims, Ground};
use super::walk::Walk;
use crate::btree::tree::{Config, LEAST, Tree, TreeView};
use crate::btree::{Answer, Findings, Input, Seek, Sink, Span};
use crate::keyed::{Kind, Operation, Outcome, Place, Question, Scalar, Slot, Tallies, TileKind};
use crate::slab::Pool;
use core::marker::PhantomData;
use simt::{Convergence, Global, GlobalSlice, Instance, Queue, Tile};

/// A kind of skip list: slots `S`, slabs of the pool `P`, layers kept as `A` says, nodes read by tiles of `W`
/// lanes, `L` words a lane.
#[derive(Clone, Copy, Debug)]
pub struct List<S, P, A, const W: u32, const L: usize>(PhantomData<(S, P, A)>);

/// Its nodes, which are laid out as those of trees.
pub(super) type Nodes<S, P, A, const W: u32, const L: usize> = TreeView<Tree<S, P, A, W, L>>;

impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> TreeView<List<S, P, A, W, L>> {
    /// The list's nodes.
    #[inline(always)]
    pub(super) fn nodes(self) -> Nodes<S, P, A, W, L> {
        self.seen_as()
    }

    /// Executes the operations of all lanes that say `pending`, each by its tile, and gives each lane its own
    /// result.
    #[inline(always)]
    #[track_caller]
    pub fn share<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let start = self.nodes().start(S::Stored::from_u64(key.to_u64()), pending);
        let mut walk = Walk::new(self.nodes(), start.node, Question { operation, key: start.key, argument });
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.turn() {
            let finished = walk.round(turn, queue.waiting());
            queue.finish_all(finished);
        }
        walk.result()
    }
}

// SAFETY: nodes by handles in live nodes, which are the pool's, and words within them.
unsafe impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Kind for List<S, P, A, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = TreeView<Self>;
    const TILE: u32 = W;
    const REGISTERS: u32 = <Tree<S, P, A, W, L> as Kind>::REGISTERS;
    const READS_IN: u32 = <Tree<S, P, A, W, L> as Kind>::READS_IN;

    #[inline(always)]
    #[track_caller]
    fn execute<O: Operation>(
        list: TreeView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        list.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[inline(always)]
    fn tallies(list: TreeView<Self>) -> Tallies {
        TreeView::tallies(list)
    }

    fn scan_threads(list: TreeView<Self>) -> usize {
        Tree::<S, P, A, W, L>::scan_threads(list.nodes())
    }

    #[inline(always)]
    #[track_caller]
    fn scan(list: TreeView<Self>, thread: usize, mut see: impl FnMut(Option<Place<Self>>)) {
        Tree::<S, P, A, W, L>::scan(list.nodes(), thread, |place| see(place.map(Place::of)));
    }

    #[inline(always)]
    #[track_caller]
    fn erase(slot: Global<S::Word>) -> bool {
        Tree::<S, P, A, W, L>::erase(slot)
    }
}

impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Config for List<S, P, A, W, L> {
    type Pool = P;
    type Versions = A::Versions;
    const SLOTS: u32 = <Tree<S, P, A, W, L> as Config>::SLOTS;
    const CONCURRENT: bool = A::CONCURRENT;

    #[inline(always)]
    #[track_caller]
    fn build(list: TreeView<Self>, number: u64, input: Input<S>) {
        list.nodes().build(number, input);
    }

    #[inline(always)]
    #[track_caller]
    fn begin(list: TreeView<Self>, index: u64, nodes: u64, pairs: u64) {
        list.nodes().begin(index, nodes, pairs);
    }

    #[inline(always)]
    #[track_caller]
    fn seek<Q: Seek>(
        list: TreeView<Self>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        list.nodes().seek::<Q, _>(Tile::<W>::lockstep(), pending, span, sink)
    }

    #[inline(always)]
    #[track_caller]
    fn examine(list: TreeView<Self>, number: u32) -> Findings {
        super::inspect::examine(list.nodes(), number)
    }

    #[inline(always)]
    #[track_caller]
    fn list(list: TreeView<Self>) {
        list.nodes().list();
    }

    #[inline(always)]
    #[track_caller]
    fn prune(list: TreeView<Self>, number: usize) {
        Tree::<S, P, A, W, L>::prune(list.nodes(), number);
    }
}

impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> TileKind<W> for List<S, P, A, W, L> {
    #[inline(always)]
    #[track_caller]
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

/// What skip lists have beside what trees have: being put in order, while nothing runs. See `tidy`.
pub trait Layers: Config {
    /// See [`super::kernels::gather`].
    fn gather(
        list: TreeView<Self>,
        number: usize,
        lows: GlobalSlice<Self::Key>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    );

    /// See [`super::kernels::sweep`].
    fn sweep_nodes(list: TreeView<Self>, number: usize);

    /// See [`super::kernels::relink`].
    fn relink(list: TreeView<Self>, index: usize, data: Ground<Self::Key>);

    /// See [`super::kernels::claim`].
    fn claim(list: TreeView<Self>, number: usize, claims: Claims);

    /// See [`super::kernels::index()`].
    fn index(list: TreeView<Self>, number: u64, data: Ground<Self::Key>);
}

impl<S: Slot, P: Pool, A: Policy, const W: u32, const L: usize> Layers for List<S, P, A, W, L> {
    #[inline(always)]
    #[track_caller]
    fn gather(
        list: TreeView<Self>,
        number: usize,
        lows: GlobalSlice<S::Key>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    ) {
        list.nodes().gather(number, lows, handles, count);
    }

    #[inline(always)]
    #[track_caller]
    fn sweep_nodes(list: TreeView<Self>, number: usize) {
        list.nodes().sweep_nodes(number);
    }

    #[inline(always)]
    #[track_caller]
    fn relink(list: TreeView<Self>, index: usize, data: Ground<S::Key>) {
        list.nodes().relink_data(index, data);
    }

    #[inline(always)]
    #[track_caller]
    fn claim(list: TreeView<Self>, number: usize, claims: Claims) {
        list.nodes().claim(number, claims);
    }

    #[inline(always)]
    #[track_caller]
    fn index(list: TreeView<Self>, number: u64, data: Ground<S::Key>) {
        list.nodes().index(number, data);
    }
}

/// Whom [`super::visit`] shows the kind of list that a name means.
pub trait Visitor {
    /// What it makes of it.
    type Output;
    /// Sees the kind.
    fn visit<M: Layers + Instance>(self) -> Self::Output;
}

const _: () = assert!(LEAST == 3, "root, annex and first data node");

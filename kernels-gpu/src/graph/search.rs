//! Operations on one edge: a lane or two read the record, and tiles of four lanes search slabs.
//!
//! The search of a chain is that of slab lists: see `docs/structures/slab-hash.md`. What differs is the end
//! of a chain: in the first pass of a batch an insertion that would lengthen it may be deferred.
use super::kind::Edges;
use super::link::Link;
use super::record::{Record, Table, removed};
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::{BucketProbe, Operation, Outcome, Request, Scalar, Slot};
use crate::slab::list::{LONG, Node};
use crate::slab::{Handle, Pool};
use simt::{
    Convergence, CurrentOp, Global, Order, Scope, Thread, Tile, black_box, bound, device, share_work,
};

/// An edge as its source stores it, with an argument of the operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half<D> {
    /// Index of the record that stores the edge: that of a vertex. If edges are also stored at their targets,
    /// the index of those halves is the target plus the number of vertices.
    pub source: u32,
    /// The other vertex.
    pub target: u32,
    /// Word of the edge's data, or the argument by which it changes.
    pub data: D,
}

/// End of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was executed, or the edge cannot exist.
    Done,
    /// The vertex must grow first: nothing has changed.
    Deferred,
    /// The pool has no slab for it: nothing has changed.
    NoSlab,
    /// The chain has its maximum length, so the vertex needs a larger table: nothing has changed.
    LongChain,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Executed<D> {
    /// End of the operation.
    pub fate: Fate,
    /// The outcome if it is done; otherwise [`Outcome::Refused`].
    pub outcome: Outcome,
    /// Whether the vertex has a table.
    pub in_table: bool,
    /// The data that the operation returns, if any; otherwise the argument.
    pub data: D,
}

/// Number of slabs from which on the first pass of a batch no longer lengthens a chain: of a small vertex,
/// and of a bucket.
const FIRST_PASS: [u32; 2] = [1, 4];

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Executes an operation of each lane of the warp that passes `pending`. All lanes call it together. If
    /// `DEFERS`, insertions for which a vertex must grow are deferred.
    ///
    /// If a vertex does not exist, an insertion is refused, and other operations find no edge.
    pub fn execute<O: Operation, const DEFERS: bool>(
        self,
        pending: bool,
        operation: O,
        half: Half<S::Value>,
    ) -> Executed<S::Value> {
        // A source that was removed has a record without a vertex.
        let is_gone = O::WRITES && !O::REMOVES && pending && self.is_removed(half.target);
        let pending = pending && self.has(half.source, half.target) && !is_gone;
        let request =
            Request { operation, key: S::Stored::from_u64(half.target as u64), argument: half.data };
        let mut probe = RecordProbe::new(self, half.source, request);
        share_work(Tile::<W>::lockstep(), pending, |turn| probe.round(turn));
        let mut chain = probe.follow::<DEFERS>(pending);
        share_work(Tile::<SLAB_TILE>::lockstep(), chain.is_pending, |turn| chain.round::<DEFERS>(turn));
        chain.executed
    }

    /// Returns whether the lane's target, if it has one, is in a table. All lanes of the warp call it
    /// together. Nothing writes the table meanwhile, so loads are weak.
    ///
    /// # Safety
    /// - If the lane has a target, the table is one of the arena, and has buckets.
    pub(super) unsafe fn is_in_table(self, table: Table, target: Option<u32>) -> bool {
        let (tile, wanted) = (Tile::<SLAB_TILE>::lockstep(), target.unwrap_or(0));
        let start = Start::bucket(table.base, table.buckets, wanted);
        let (mut at, mut is_found) = (None, false);
        // `black_box`: otherwise the compiler makes two loops, one for lanes with a target and one for the
        // others. The warp then executes both, and the lanes of one wait for those of the other at each vote.
        let is_pending = black_box(target.is_some() as u32) != 0;
        share_work(tile, is_pending, |turn| {
            let (target, index) = turn.from_owner((wanted, start.index));
            // SAFETY: a bucket of the table.
            let bucket = unsafe { self.first_node(Start { index, is_bucket: true }) };
            let read = at.unwrap_or(bucket).read(tile.rank(), turn.is_active(), Order::Weak);
            let key = S::Stored::from_u64(target as u64);
            let is_here = tile.any(read.lane.first(|_, word| S::key(word) == key).exists);
            let next = tile.shuffle(read.link, SLAB_TILE - 1);
            let continues = turn.is_active() && !is_here && !next.is_none();
            // SAFETY: the link was read in a node.
            at = continues.then(|| unsafe { self.node(next) });
            is_found |= is_here && turn.is_mine();
            !continues
        });
        is_found
    }

    /// Appends an edge of each lane of the warp that passes `pending` to the slabs behind a bucket of a table
    /// of `buckets` buckets at `base`, all slots of which are or will be taken. All lanes call it together.
    /// Returns whether there was room.
    ///
    /// # Safety
    /// - The table is one of the arena.
    pub(super) unsafe fn insert_moved(
        self,
        pending: bool,
        (base, buckets): (u32, u32),
        (target, data): (u32, S::Value),
    ) -> bool {
        let operation = crate::keyed::Append;
        let request = Request { operation, key: S::Stored::from_u64(target as u64), argument: data };
        let mut chain = ChainSearch::new(self, request);
        if pending {
            // SAFETY: the caller's obligation.
            let node = unsafe { self.first_node(Start::bucket(base, buckets, target)) };
            chain.begin_behind(node.link(), target);
        }
        share_work(Tile::<SLAB_TILE>::lockstep(), chain.is_pending, |turn| chain.round::<false>(turn));
        chain.executed.fate == Fate::Done
    }
}

/// Step of an operation after its record was read.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// It is done.
    Done,
    /// The record is full, and the link is this one.
    Link { link: Link, has_tombstone: bool },
    /// The vertex has a table.
    Table(Table),
}

/// One lane's operation on the record of its source, as the work-sharing loop executes it.
struct RecordProbe<S: Slot<Key = u32>, P: Pool, O, const W: u32, const L: usize> {
    graph: GraphView<Edges<S, P, W, L>>,
    source: u32,
    /// The lane's request. Its argument becomes the data that the operation returns.
    request: Request<S, O>,
    outcome: Outcome,
    next: Next,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, O: Operation, const W: u32, const L: usize> RecordProbe<S, P, O, W, L> {
    fn new(graph: GraphView<Edges<S, P, W, L>>, source: u32, request: Request<S, O>) -> Self {
        let outcome = request.conclude(false, false);
        Self { graph, source, request, outcome, next: Next::Done }
    }

    /// Reads the record of the current operation's source, and acts on a slot if that suffices. Returns
    /// whether the tile is done with the record.
    fn round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let (tile, rank) = (turn.tile(), turn.tile().rank());
        let request = self.request.from_owner(turn);
        // SAFETY: operations are pending only if their vertices exist.
        let record = unsafe { self.graph.record(turn.from_owner(self.source)) };
        let read = record.read(rank, turn.is_active(), Order::Relaxed);
        let link = Link::from_word(tile.shuffle(read.link, W - 1));
        // The words of a record without edges must not look like slots.
        let lane = read.lane.with(removed::<S>(), |_| link.is_closed());
        let probe = BucketProbe::new(tile, record.bucket(), &lane, &request, |_, word| S::is_empty(word));
        let (done, value) = probe.act(tile, turn.is_active(), &request);
        let table = Record::table(tile, &read);
        let has_tombstone = Self::has_tombstone(tile, rank, &read.lane);
        if turn.is_mine() {
            self.outcome = request.conclude(probe.result.found, done);
            if O::RETURNS {
                self.request.argument = value;
            }
            self.next = match probe.result.continues() && !done {
                true if link == Link::TABLE => Next::Table(table),
                true => Next::Link { link, has_tombstone },
                false => Next::Done,
            };
        }
        if S::PUBLISHES && probe.result.waits && !done {
            simt::spin_hint();
        }
        done || probe.result.is_decided()
    }

    /// Returns whether a slot of the record has a tombstone, if the operation may insert.
    fn has_tombstone(tile: Tile<W, impl Convergence>, rank: u32, lane: &crate::keyed::Lane<S, L>) -> bool {
        if !O::WRITES || O::REMOVES {
            return false;
        }
        let is_slot = |j: u32| rank != W - 1 || j as usize != L - 1;
        tile.any(lane.first(|j, word| S::key(word) == S::tombstone() && is_slot(j)).exists)
    }

    /// Returns the search of the chain behind the record, by the calling lane alone. Links a slab to a full
    /// record, or defers the insertion.
    fn follow<const DEFERS: bool>(self, pending: bool) -> ChainSearch<S, P, O, W, L> {
        let mut chain = ChainSearch::new(self.graph, self.request);
        chain.executed.outcome = self.outcome;
        chain.executed.data = self.request.argument;
        if !pending {
            return chain;
        }
        match self.next {
            Next::Done => {}
            Next::Table(Table { base, buckets, taken }) => {
                let slots = buckets * super::kind::slab_slots::<S, L>();
                chain.executed.in_table = true;
                // mutation: less more half performance, because the second pass inserts what the first one
                // defers.
                if DEFERS && self.request.places() && taken > bound(slots) {
                    chain.executed.fate = Fate::Deferred;
                } else {
                    chain.begin(Start::bucket(base, buckets, self.request.key.to_u64() as u32));
                }
            }
            Next::Link { link, has_tombstone } => match link.slab() {
                Some(slab) if DEFERS && self.request.places() && self.has_pressure(slab) => {
                    chain.executed.fate = Fate::Deferred;
                }
                Some(slab) => chain.begin(Start::slab(slab)),
                None if self.request.places() && link != Link::NO_VERTEX => {
                    let waits = DEFERS && (has_tombstone || link != Link::NONE);
                    self.lengthen(&mut chain, waits);
                }
                None => {}
            },
        }
        chain
    }

    /// Returns whether insertions into the slabs of a small vertex are deferred.
    fn has_pressure(&self, slab: Handle) -> bool {
        // SAFETY: the handle was read in the link of a record.
        let word = GraphView::<Edges<S, P, W, L>>::slab_pressure(unsafe { self.graph.node(slab) });
        // mutation: early equivalent, because a relaxed load may return an older word, too: an insertion that
        // is not deferred here is executed.
        word.load(Order::Relaxed, Scope::Device) != u32::MAX
    }

    /// Links a slab to the full record, unless the insertion waits for the vertex to grow.
    fn lengthen(&self, chain: &mut ChainSearch<S, P, O, W, L>, waits: bool) {
        if waits {
            chain.executed.fate = Fate::Deferred;
            return;
        }
        // SAFETY: operations are pending only if their vertices exist.
        let link = unsafe { self.graph.record(self.source) }.link();
        chain.begin_behind(link, self.request.key.to_u64() as u32);
    }
}

/// Flag in [`ChainSearch::depth`], above the length of any chain: the pool refused a slab.
const REFUSED: u32 = 1 << 31;

/// One lane's operation during its search through a chain of slabs, as the work-sharing loop executes it.
struct ChainSearch<S: Slot<Key = u32>, P: Pool, O, const W: u32, const L: usize> {
    graph: GraphView<Edges<S, P, W, L>>,
    start: Start,
    request: Request<S, O>,
    is_pending: bool,
    executed: Executed<S::Value>,
    /// Current node of the tile, or `None` for the first one.
    at: Option<Node<S, SLAB_TILE, L>>,
    /// Number of nodes that the tile has passed in the current operation, and [`REFUSED`] if the pool had no
    /// slab for it at the last probe.
    depth: u32,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, O: Operation, const W: u32, const L: usize> ChainSearch<S, P, O, W, L> {
    fn new(graph: GraphView<Edges<S, P, W, L>>, request: Request<S, O>) -> Self {
        let outcome = request.conclude(false, false);
        let data = request.argument;
        let executed = Executed { fate: Fate::Done, outcome, in_table: false, data };
        let start = Start { index: 0, is_bucket: false };
        Self { graph, start, request, is_pending: false, executed, at: None, depth: 0 }
    }

    fn begin(&mut self, start: Start) {
        self.start = start;
        self.is_pending = true;
    }

    /// Begins at the slab to which a link leads, which is allocated if there is none, by the calling lane
    /// alone.
    fn begin_behind(&mut self, link: Global<u32>, target: u32) {
        // The seed uses no address: an explored schedule must replay identically.
        let seed = Thread::index() as u32 ^ target.rotate_right(7);
        // mutation: early equivalent, because a relaxed load may return an older word, too: the edge is then
        // refused as if the slab had been linked later.
        let load = || Link::from_word(link.load(Order::Relaxed, Scope::Device));
        let mut found = load();
        if found.slab().is_none() {
            // mutation: early equivalent, because a relaxed load may return an older word, too: slabs are
            // taken and linked by read-modify-writes.
            found = Link::from_word(self.graph.pool().extend(link, seed).to_word());
        }
        if found.slab().is_none() {
            // Another lane may have linked the pool's last slab here.
            found = load();
        }
        match found.slab() {
            Some(slab) => self.begin(Start::slab(slab)),
            None => self.executed.fate = Fate::NoSlab,
        }
    }

    /// Executes one round of the current operation: one probe, then the advance to the next node. Returns
    /// whether the operation is finished.
    fn round<const DEFERS: bool>(&mut self, turn: CurrentOp<SLAB_TILE, impl Convergence>) -> bool {
        let (tile, rank) = (turn.tile(), turn.tile().rank());
        let request = self.request.from_owner(turn);
        let (index, is_bucket) = turn.from_owner((self.start.index, self.start.is_bucket));
        // SAFETY: the chain begins at a bucket of the table, or at a slab that a link names.
        let node = self.at.unwrap_or(unsafe { self.graph.first_node(Start { index, is_bucket }) });
        let read = node.read(rank, turn.is_active(), Order::Relaxed);
        let probe = BucketProbe::new(tile, node.bucket(), &read.lane, &request, |_, word| S::is_empty(word));
        let (done, value) = probe.act(tile, turn.is_active(), &request);

        let through = turn.is_active() && probe.result.continues();
        let is_long = self.depth % REFUSED + 1 >= Self::most::<DEFERS>(is_bucket);
        let asked = through && rank == SLAB_TILE - 1 && !is_long;
        let next = tile.shuffle(self.next(&request, node, asked, read.link), SLAB_TILE - 1);
        let onward = through && !next.is_none();
        // After a refusal the tile probes once more: another tile may have linked the last slab here.
        let again = through && !onward && !is_long && request.places() && self.depth < REFUSED;
        let finished = done || (probe.result.is_decided() && !onward && !again);
        if turn.is_mine() && finished {
            self.executed.outcome = request.conclude(probe.result.found, done);
            if O::RETURNS {
                self.executed.data = value;
            }
            if through && request.places() {
                self.executed.fate = Self::fate_at_end::<DEFERS>(is_long);
            }
        }
        if S::PUBLISHES && probe.result.waits && !done {
            simt::spin_hint();
        }
        self.advance(finished, again, onward.then_some(next));
        finished
    }

    /// Returns the number of slabs up to which a chain is lengthened.
    fn most<const DEFERS: bool>(is_bucket: bool) -> u32 {
        if !DEFERS {
            // mutation: less more half unreached, because no explorer has a chain of so many slabs. Those of
            // `too_many_parallel_edges_are_refused` have.
            return bound(LONG);
        }
        // mutation: less more half performance, because the second pass inserts what the first one defers.
        if is_bucket { bound(FIRST_PASS[1]) } else { bound(FIRST_PASS[0]) }
    }

    /// Returns what becomes of an insertion that found no room in its chain.
    fn fate_at_end<const DEFERS: bool>(is_long: bool) -> Fate {
        match is_long {
            false => Fate::NoSlab,
            true if DEFERS => Fate::Deferred,
            true => Fate::LongChain,
        }
    }

    /// Sets node and depth for the next round of the tile.
    fn advance(&mut self, finished: bool, again: bool, next: Option<Handle>) {
        self.depth = match (finished, again) {
            (true, _) => 0,
            (_, true) => self.depth | REFUSED,
            _ if next.is_some() => self.depth % REFUSED + 1,
            _ => self.depth,
        };
        self.at = match next {
            // SAFETY: the link was read in a node, or names a slab that the pool has just allocated.
            Some(next) => Some(unsafe { self.graph.node(next) }),
            None if finished => None,
            None => self.at,
        };
    }

    /// Returns the link of a full node, by the lane that has read it. If the chain ends there and the
    /// operation inserts an absent edge, links a new slab first, if `asked`.
    fn next(
        &self,
        request: &Request<S, O>,
        node: Node<S, SLAB_TILE, L>,
        asked: bool,
        link: Handle,
    ) -> Handle {
        if !(asked && request.places() && link.is_none()) {
            return link;
        }
        // The seed uses no address: an explored schedule must replay identically.
        let seed = Thread::index() as u32 ^ (request.key.to_u64() as u32).rotate_right(7) ^ self.depth << 24;
        // mutation: early equivalent, because a relaxed load may return an older word, too: slabs are taken
        // and linked by read-modify-writes.
        self.graph.pool().extend(node.link(), seed)
    }
}

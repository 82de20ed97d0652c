//! The search of an operation through its bucket's list.
use super::super::handle::Handle;
use super::super::pool::Pool;
use super::lists::{Lists, ListsView};
use super::node::{Node, Read};
use crate::keyed::{BucketProbe, Operation, Outcome, Request, Scalar, Slot};
use simt::{Convergence, CurrentOp, Order, Thread, Tile, device, share_work};

/// Number of nodes from which on a growing list counts as long.
pub const LONG: u32 = 64;

/// Flag in [`Walk::depth`], above the length of any list: the pool refused a slab.
const REFUSED: u32 = 1 << 31;

/// Flag in [`Walk::depth`], above the length of any list: the lane has read a tombstone. Only where a key may
/// have several pairs.
const REMOVED: u32 = 1 << 30;

/// One lane's operation during its search through a list, as the work-sharing loop executes it: the one
/// search loop of all operations on one key (slab-hash paper, section IV-C).
pub struct Walk<S: Slot, P: Pool, O, const W: u32, const L: usize> {
    lists: ListsView<Lists<S, P, W, L>>,
    bucket: u32,
    /// The lane's request. Its argument becomes the value that the operation returns, if any: until the
    /// operation is done, that is the argument.
    request: Request<S, O>,
    /// Current node of the tile, or `None` for a head. The tile works on one operation until that is
    /// finished, so every lane can keep the node.
    at: Option<Node<S, W, L>>,
    /// Number of nodes that the tile has passed in the current operation, [`REMOVED`], and [`REFUSED`] if the
    /// pool had no slab for the operation at the last probe.
    depth: u32,
    outcome: Outcome,
}

#[device(caller)]
impl<S: Slot, P: Pool, const W: u32, const L: usize> ListsView<Lists<S, P, W, L>> {
    /// Executes the operations of all lanes that pass `pending`, each by the lane's tile, and returns to each
    /// lane its own result.
    pub fn share<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let (key, bucket) = self.start(key);
        let mut walk = Walk::new(self, bucket, Request { operation, key, argument });
        share_work(tile, pending, |turn| walk.round(turn));
        walk.result()
    }
}

#[device]
impl<S: Slot, P: Pool, O: Operation, const W: u32, const L: usize> Walk<S, P, O, W, L> {
    /// Order of the loads of nodes.
    const LOADS: Order = {
        assert!(!(P::FROZEN && O::WRITES), "`Phased` is for lookups");
        if P::FROZEN { Order::Weak } else { Order::Relaxed }
    };

    /// Returns a search that begins at the head of `bucket`, which is the bucket of a key.
    pub(super) fn new(lists: ListsView<Lists<S, P, W, L>>, bucket: u32, request: Request<S, O>) -> Self {
        Self { lists, bucket, request, at: None, depth: 0, outcome: Outcome::Absent }
    }

    /// Returns the result of the lane's operation.
    pub fn result(self) -> (Outcome, S::Value) {
        (self.outcome, self.request.argument)
    }

    /// Executes one round of the current operation: one probe, then the advance to the next node. Returns
    /// whether the operation is finished.
    #[device(caller)]
    pub fn round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let (tile, rank) = (turn.tile(), turn.tile().rank());
        let request = self.request.from_owner(turn);
        let head = turn.from_owner(self.bucket);
        // SAFETY: the bucket is that of a key.
        let node = self.at.unwrap_or(unsafe { self.lists.head(head) });
        let read = node.read(rank, turn.is_active(), Self::LOADS);
        let mut probe =
            BucketProbe::new(tile, node.bucket(), &read.lane, &request, |_, word| S::is_empty(word));
        let repeats = const { O::OF_MANY && !P::FROZEN };
        if repeats {
            self.look_for_changes(turn, &read, &mut probe);
        }
        let (done, value) = probe.act(tile, turn.is_active(), &request);

        let through = turn.is_active() && probe.result.continues();
        let next = tile.shuffle(self.next(&request, node, through && rank == W - 1, read.link), W - 1);
        let onward = through && !next.is_none();
        if turn.is_mine() {
            self.outcome = request.conclude(probe.result.found, done);
            if O::RETURNS {
                self.request.argument = value;
            }
        }
        if S::PUBLISHES && probe.result.waits && !done {
            simt::spin_hint();
        }
        // After a refusal the tile probes once more: another tile may have linked the last slab here.
        let again = through && !onward && request.places() && self.depth < REFUSED;
        let ends = probe.result.is_decided() && !onward && !again;
        let searched = turn.is_active() && ends && !request.places();
        let missed = repeats && self.may_have_missed(turn, node, &probe, searched);
        let finished = done || (ends && !missed);
        self.depth = match (finished, again) {
            (true, _) => 0,
            (_, true) => self.depth | REFUSED,
            _ if onward => (self.depth & !REFUSED) + 1,
            _ => self.depth,
        };
        self.at = if onward {
            // SAFETY: the link was read in a node, or names a slab that the pool has just allocated.
            Some(unsafe { self.lists.node(next) })
        } else if finished {
            None
        } else {
            self.at
        };
        finished
    }

    /// Where a key may have several pairs: remembers whether the lane has read a tombstone, and makes the
    /// tile wait for pairs that others are publishing.
    #[device(caller)]
    fn look_for_changes(
        &mut self,
        turn: CurrentOp<W, impl Convergence>,
        read: &Read<S, L>,
        probe: &mut BucketProbe<S, W, L>,
    ) {
        if S::PUBLISHES {
            probe.result.waits |= turn.tile().any(read.lane.first(|_, word| S::is_busy(word)).exists);
        }
        let rank = turn.tile().rank();
        let removed =
            |j: u32, word| !Node::<S, W, L>::is_link(rank, j as usize) && S::key(word) == S::tombstone();
        self.depth |= if turn.is_active() && read.lane.first(removed).exists { REMOVED } else { 0 };
    }

    /// Returns whether a tile that has read a list up to its end without finding the key may have missed a
    /// pair, because a key may have several. Then it reads the node again.
    ///
    /// It may have if it has read a tombstone: it does not read slots in order, so another tile may have
    /// appended a pair after the end was read, and then removed the one in the tombstone's slot. It has not
    /// if the list still ends there now, after all reads.
    #[device(caller)]
    fn may_have_missed(
        &self,
        turn: CurrentOp<W, impl Convergence>,
        node: Node<S, W, L>,
        probe: &BucketProbe<S, W, L>,
        ends: bool,
    ) -> bool {
        let (tile, removed) = (turn.tile(), self.depth & REMOVED != 0);
        if !tile.any_converged(ends && removed) {
            return false;
        }
        let doubtful = tile.any(ends && removed);
        let empties = tile.ballot(probe.open.exists);
        let last = if empties == 0 { W - 1 } else { empties.trailing_zeros() };
        let rank = tile.rank();
        let moved = doubtful && rank == last && !node.still_ends(rank, &probe.open);
        tile.any(moved)
    }

    /// Returns the link of a full node, by the lane that has read it. If the list ends there and the
    /// operation inserts an absent key, links a new slab first.
    #[device(caller)]
    fn next(&self, request: &Request<S, O>, node: Node<S, W, L>, asked: bool, link: Handle) -> Handle {
        if !(asked && request.places() && link.is_none()) {
            return link;
        }
        if self.depth % REMOVED >= LONG {
            self.lists.counters().record_long();
        }
        // The seed uses no address: an explored schedule must replay identically.
        let seed = Thread::index() as u32 ^ (request.key.to_u64() as u32).rotate_right(7) ^ self.depth << 24;
        self.lists.pool().extend(node.link(), seed)
    }
}

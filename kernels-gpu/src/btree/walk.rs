//! The traversal of an operation on one key: a descent by lock-free reads, then a read of the leaf, or a
//! change under its latch.
use super::split::SplitResult;
use crate::keyed::{Change, Operation, Outcome, Request, Slot};
use crate::ordered::access::Access;
use crate::ordered::backoff::{FIRST_BACKOFF_NS, back_off};
use crate::ordered::fixed_nodes::{RESERVED_LEAF, ROOT};
use crate::ordered::leaf::OperationResult;
use crate::ordered::meta::handle_of;
use crate::ordered::nodes::Nodes;
use crate::ordered::search::SearchStep;
use crate::ordered::share::{Attempt, LOSSES_BEFORE_SHARING};
use crate::ordered::types::{Types, Value};
use crate::slab::Handle;
use simt::{Convergence, CurrentOp, Order, Thread, Tile, device, recheck};

/// Maximum number of doublings of a pause: 1 to 2 µs. Of 3 to 9, 5 is the best by 3 % for random keys in an
/// empty tree; with 9 these insertions run at half the rate.
const MOST_DOUBLINGS: u32 = 6;

/// Next action of a tile at its current node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Read it and go on from it.
    Descend,
    /// Latch it, a leaf, and change it.
    Write,
    /// Latch it, a full inner node, and split it.
    Split,
    /// Share it, a leaf, and change a value in it.
    Share,
}

/// Treatment of full inner nodes on the way.
///
/// A tile that skips such a node may come to its latch again from below, find the node full, and so keep the
/// latch from a tile that would split it. Two tiles that alternate like this could go on forever. So a tile
/// that has met a full parent once must split full nodes from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FullNodes {
    /// Splits it.
    Split,
    /// Does not try again to split the current node, but splits those below.
    SkipCurrent,
    /// Splits it, until the operation is done: the tile has met a full parent.
    MustSplit,
    /// Leaves it full: the pool had no slab for an inner node.
    OutOfSlabs,
}

/// The operation of one lane on its way through the tree, as the work-sharing loop executes it.
///
/// The tile works on one operation until that is finished, so every lane holds its position.
pub struct Walk<T: Types, O, const W: u32, const L: usize> {
    pub(super) tree: Nodes<T, W, L>,
    pub(super) request: Request<T::Slot, O>,
    /// The node where the traversal of the lane's own operation begins.
    pub(super) start: Handle,
    pub(super) stage: Stage,
    /// The next node, or none before the traversal begins.
    pub(super) at: Handle,
    /// The inner node that led to it, if known. In a coupled traversal the tile holds its latch.
    pub(super) parent: Handle,
    pub(super) full_nodes: FullNodes,
    /// Number of failed latch attempts.
    pub(super) losses: u32,
    result: (Outcome, Value<T>),
}

#[device]
impl<T: Types, O: Operation, const W: u32, const L: usize> Walk<T, O, W, L> {
    /// Starts a traversal.
    pub fn new(tree: Nodes<T, W, L>, start: Handle, request: Request<T::Slot, O>) -> Self {
        Self {
            tree,
            request,
            start,
            stage: Stage::Descend,
            at: Handle::NONE,
            parent: Handle::NONE,
            full_nodes: FullNodes::Split,
            losses: 0,
            result: (Outcome::Absent, request.argument),
        }
    }

    /// Returns the result of the lane's operation.
    pub fn result(self) -> (Outcome, Value<T>) {
        self.result
    }

    /// Executes one round of the current operation: the descent to the node where it ends or writes, and then
    /// the write. Returns the ranks whose operations it finished: the current one, and those of the `waiting`
    /// ones that could be executed under the same latch.
    ///
    /// The tiles of a warp descend together and write together, because a warp executes divergent tiles one
    /// after the other. A tile that failed to get a latch descends again while its neighbours descend for
    /// their next operations.
    pub fn round(&mut self, turn: CurrentOp<W, impl Convergence>, waiting: u32) -> u32 {
        let own = waiting & waiting.wrapping_neg();
        if T::Access::COUPLED {
            return if self.coupled_round(turn) { own } else { 0 };
        }
        let (tile, request) = (turn.tile(), self.request.from_owner(turn));
        let writes = request.places() || (O::WRITES && request.operation.change() != Change::Keep);
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
            self.stage = if start == RESERVED_LEAF && writes { Stage::Write } else { Stage::Descend };
        }
        // One by one: a selection between structures may go through local memory.
        let (mut done, mut outcome, mut value) = (!turn.is_active(), Outcome::Absent, request.argument);
        loop {
            let looks = !done && self.stage == Stage::Descend;
            if !tile.any_converged(looks) {
                break;
            }
            let seen = self.descend(tile, looks, writes, &request);
            done |= looks && seen.done;
            outcome = if looks { seen.outcome } else { outcome };
            value = if looks { seen.value } else { value };
        }
        let acts = !done;
        let (mut end, mut others) = (OperationResult { done, outcome, value }, 0);
        if O::WRITES && tile.any_converged(acts) {
            let (mut holds, shares) = (false, acts && self.stage == Stage::Share);
            if T::Access::SHARES && tile.any_converged(shares) {
                (end, holds) = self.share(tile.rematerialize(), shares, end, &request);
            }
            let acts = acts && (!shares || holds);
            let (written, besides) = self.write(tile.rematerialize(), acts, holds, waiting ^ own, &request);
            end = if acts { written } else { end };
            others = besides;
        }
        others | if self.finish(turn, end) { own } else { 0 }
    }

    /// Stores the result of an operation that is done, and resets the traversal for the next one. Returns
    /// whether the operation is done.
    pub(super) fn finish(
        &mut self,
        turn: CurrentOp<W, impl Convergence>,
        end: OperationResult<Value<T>>,
    ) -> bool {
        if end.done {
            if turn.is_mine() {
                self.result = (end.outcome, end.value);
            }
            (self.at, self.parent) = (Handle::NONE, Handle::NONE);
            (self.full_nodes, self.losses) = (FullNodes::Split, 0);
        }
        end.done
    }

    /// Restarts at the root, from where full nodes can be split on the way.
    fn restart(&mut self) {
        (self.at, self.parent, self.stage) = (ROOT, Handle::NONE, Stage::Descend);
    }

    /// Returns to the node that led here, whose own parent is then unknown; if none is known, begins again.
    fn return_to_parent(&mut self) {
        (self.at, self.parent, self.stage) = (self.parent, Handle::NONE, Stage::Descend);
    }

    /// Reads a node and goes on from it, if `looks`.
    fn descend(
        &mut self,
        tile: Tile<W, impl Convergence>,
        looks: bool,
        writes: bool,
        request: &Request<T::Slot, O>,
    ) -> OperationResult<Value<T>> {
        let node = self.tree.node(self.at);
        let read = node.read(tile.rank(), looks, T::Access::READ);
        let step = SearchStep::of(tile, &read, request.key);
        let full = O::WRITES && read.is_full(tile) && request.places();
        let ends = looks && step.meta.is_leaf() && !step.beyond && !writes;
        let hit = request.hit(ends, &step);
        if looks && !ends {
            self.follow(&step, writes, full);
        }
        self.tree.look_up(tile, node, ends, hit, request)
    }

    /// Chooses the next node or action from a node that was read.
    fn follow(&mut self, step: &SearchStep<T::Slot>, writes: bool, full: bool) {
        let knows_parent = self.at == ROOT || !self.parent.is_none();
        if step.beyond {
            self.at = handle_of(step.value);
        } else if step.meta.is_leaf() {
            self.stage = if writes { Stage::Write } else { self.stage };
        } else if !step.found {
            self.restart();
        } else if full && matches!(self.full_nodes, FullNodes::Split | FullNodes::MustSplit) {
            // A tile that did not come through the parent restarts from the root: a full node is split on the
            // way down, before a split below needs space in it.
            if knows_parent {
                self.stage = Stage::Split;
            } else {
                self.restart();
            }
        } else {
            (self.parent, self.at) = (self.at, handle_of(step.value));
            if self.full_nodes == FullNodes::SkipCurrent {
                self.full_nodes = FullNodes::Split;
            }
            if writes && step.meta.level() == 1 {
                self.stage = Stage::Write;
            }
        }
    }

    /// Executes the operation on the current node as a sharer, if the tile `shares` it. Returns the result,
    /// or `end`, and whether the tile holds the leaf alone now.
    fn share(
        &mut self,
        tile: Tile<W, impl Convergence>,
        shares: bool,
        end: OperationResult<Value<T>>,
        request: &Request<T::Slot, O>,
    ) -> (OperationResult<Value<T>>, bool) {
        let (shared, holds, _) = self.tree.share_leaf(tile, self.at, shares, request);
        if shares {
            self.stage = Stage::Write;
            if !shared.done && !holds {
                self.lose_latch();
            }
        }
        (if shares { shared } else { end }, holds)
    }

    /// Tries the latch of the current node, unless the tile `holds` it, and executes the pending action under
    /// it, if the tile `acts`. Also returns which of the `others`' operations it finished.
    fn write(
        &mut self,
        tile: Tile<W, impl Convergence>,
        acts: bool,
        holds: bool,
        others: u32,
        request: &Request<T::Slot, O>,
    ) -> (OperationResult<Value<T>>, u32) {
        let Attempt { mut held, has_latch, is_shared } = self.tree.try_hold(tile, self.at, acts, holds);
        if is_shared {
            self.stage = Stage::Share;
        }
        let here = has_latch && recheck(request.key <= held.high);
        let on_leaf = here && self.stage == Stage::Write && held.meta.is_leaf();
        let (tree, mut read) = (self.tree, held.read);
        let (mut end, _) = tree.update_leaf(tile, on_leaf, &held, &mut read, request);
        let (full_leaf, mut besides) = (on_leaf && !end.done, 0);
        if T::Access::GROUPS {
            let (own, mut result) = (self.request, self.result);
            let group = own.lanes_on_leaf(tile, on_leaf && !full_leaf, others, &held, self.start);
            besides = own.update_for_lanes(tile, group, &mut result, |wanted, request| {
                tree.update_leaf(tile, wanted, &held, &mut read, request).0
            });
            (self.result, held.read) = (result, read);
        }
        let full_inner = held.read.is_full(tile);
        // The constant spares the kernels of removals the code of splits.
        let full_inner =
            !O::REMOVES && here && self.stage == Stage::Split && !held.meta.is_leaf() && full_inner;
        let (splits, mut split) = (full_leaf || full_inner, SplitResult::Contended);
        tile.sync();
        if has_latch && !splits && tile.rank() == 0 {
            let waited = !O::REMOVES && self.losses >= LOSSES_BEFORE_SHARING;
            let makes_shared = waited && end.done && end.outcome.is_update();
            tree.release_node(&held, 0, makes_shared, Order::Release);
        }
        if tile.any_converged(splits) {
            let pair = full_leaf.then(|| (request.key, T::Slot::pack(request.key, request.argument)));
            split = self.tree.split(tile.rematerialize(), splits, &held, self.parent, pair);
        }
        // Without this barrier, a warp may execute the tiles that back off, and sleep, before those that
        // release latches.
        // mutation: skip barrier performance, because it only changes the order in which tiles run.
        tile.sync();
        if full_leaf {
            let outcome = self.after_leaf(split);
            end = OperationResult {
                done: outcome.is_some(),
                outcome: outcome.unwrap_or(Outcome::Absent),
                value: end.value,
            };
        } else if acts && !has_latch {
            if !T::Access::SHARES || self.stage != Stage::Share {
                self.lose_latch();
            }
        } else if acts && !on_leaf {
            self.leave_node(here, held.link, full_inner.then_some(split));
        }
        (end, besides)
    }

    /// Continues after a latched node that was no leaf to change: to the right if the key is not `here`,
    /// else down. `split` is the result if the node was to be split.
    fn leave_node(&mut self, here: bool, link: Handle, split: Option<SplitResult>) {
        if !here {
            self.at = link;
            self.stage = if self.stage == Stage::Split { Stage::Descend } else { self.stage };
            return;
        }
        self.stage = Stage::Descend;
        if let Some(split) = split {
            self.after_inner(split);
        }
    }

    /// Handles the result of a leaf split: returns the operation's outcome, or prepares another attempt.
    pub(super) fn after_leaf(&mut self, split: SplitResult) -> Option<Outcome> {
        match split {
            SplitResult::Done => return Some(Outcome::Inserted),
            SplitResult::OutOfSlabs => return Some(Outcome::Refused),
            SplitResult::ParentFull if self.full_nodes == FullNodes::OutOfSlabs => {
                return Some(Outcome::Refused);
            }
            SplitResult::ParentFull => {
                self.full_nodes = FullNodes::MustSplit;
                self.restart();
            }
            SplitResult::Contended => self.back_off_to_parent(),
        }
        None
    }

    /// Handles the result of an inner node's split: the node is read again, and skipped if it is still full,
    /// unless it must be split.
    fn after_inner(&mut self, split: SplitResult) {
        match (split, self.full_nodes) {
            (SplitResult::OutOfSlabs, _) => self.full_nodes = FullNodes::OutOfSlabs,
            (SplitResult::Done, _) => {}
            // From the root: the parent may have changed.
            (SplitResult::ParentFull, FullNodes::MustSplit) => self.restart(),
            (SplitResult::Contended, FullNodes::MustSplit) => {
                self.restart();
                self.back_off();
            }
            _ => self.full_nodes = FullNodes::SkipCurrent,
        }
    }

    /// Handles a failed latch attempt. If the tile wanted to split an inner node, another tile is already
    /// splitting or changing that node, and the split may be unnecessary.
    fn lose_latch(&mut self) {
        if self.stage == Stage::Split && self.full_nodes != FullNodes::MustSplit {
            (self.stage, self.full_nodes) = (Stage::Descend, FullNodes::SkipCurrent);
        } else {
            self.back_off_to_parent();
        }
    }

    /// Backs off and retries from the parent, after a pause that grows with each failure. It does not wait
    /// for the latch.
    fn back_off_to_parent(&mut self) {
        self.return_to_parent();
        self.back_off();
    }

    /// Pauses, longer each time, and other tiles for another time.
    pub(super) fn back_off(&mut self) {
        back_off(&mut self.losses, Thread::index() as u32 / W % FIRST_BACKOFF_NS, MOST_DOUBLINGS);
    }
}

//! The traversal of an operation on one key: a descent by lock-free reads, then a read of the leaf, or a
//! change under its latch.
use super::split::SplitResult;
use crate::keyed::{Change, Operation, Outcome, Request, Slot};
use crate::ordered::access::Access;
use crate::ordered::backoff::{FIRST_BACKOFF_NS, back_off};
use crate::ordered::fixed_nodes::{RESERVED_LEAF, ROOT};
use crate::ordered::latch::LatchedNode;
use crate::ordered::leaf::{Latched, OperationResult};
use crate::ordered::meta::handle_of;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::search::SearchStep;
use crate::ordered::versioning::Versions;
use crate::slab::{Handle, Pool};
use simt::{Convergence, CurrentOp, Thread, Tile, device};

/// Next action of a tile at its current node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Read it and go on from it.
    Descend,
    /// Latch it, a leaf, and change it.
    Write,
    /// Latch it, a full inner node, and split it.
    Split,
}

/// The operation of one lane on its way through the tree, as the work-sharing loop executes it.
///
/// The tile works on one operation until that is finished, so every lane holds its position.
pub struct Walk<S: Slot, P: Pool, A: Access, O, const W: u32, const L: usize> {
    pub(super) tree: Nodes<S, P, A, W, L>,
    pub(super) request: Request<S, O>,
    /// The node where the traversal of the lane's own operation begins.
    pub(super) start: Handle,
    /// The next node, or none before the traversal begins.
    pub(super) at: Handle,
    /// The inner node that led to it, if known. In a coupled traversal the tile holds its latch.
    pub(super) parent: Handle,
    stage: Stage,
    /// Does not try again to split the current node.
    skips_full: bool,
    /// The pool had no slab for an inner node.
    pub(super) out_of_slabs: bool,
    /// Has met a full parent, and skips no full node from then on until the operation is done.
    must_split: bool,
    /// Number of failed latch attempts.
    pub(super) losses: u32,
    outcome: Outcome,
    value: S::Value,
}

#[device]
impl<S: Slot, P: Pool, A: Access, O: Operation, const W: u32, const L: usize> Walk<S, P, A, O, W, L> {
    /// Starts a traversal.
    pub fn new(tree: Nodes<S, P, A, W, L>, start: Handle, request: Request<S, O>) -> Self {
        let value = request.argument;
        Self {
            tree,
            request,
            start,
            at: Handle::NONE,
            parent: Handle::NONE,
            stage: Stage::Descend,
            skips_full: false,
            out_of_slabs: false,
            must_split: false,
            losses: 0,
            outcome: Outcome::Absent,
            value,
        }
    }

    /// Returns the result of the lane's operation.
    pub fn result(self) -> (Outcome, S::Value) {
        (self.outcome, self.value)
    }

    /// Executes one round of the current operation: the descent to the node where it ends or writes, and then
    /// the write. Returns the ranks whose operations it finished: the current one, and those of the `waiting`
    /// ones that could be executed under the same latch.
    ///
    /// The tiles of a warp descend together and write together, because a warp executes divergent tiles one
    /// after the other. A tile that failed to get a latch descends again while its neighbours descend for
    /// their next operations.
    pub fn round<C: Convergence>(&mut self, turn: CurrentOp<W, C>, waiting: u32) -> u32 {
        let own = waiting & waiting.wrapping_neg();
        if A::COUPLED {
            return if self.coupled_round(turn) { own } else { 0 };
        }
        let (tile, request) = (turn.tile(), self.request.from_owner(turn));
        let writes = request.places() || (O::WRITES && request.operation.change() != Change::Keep);
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
            self.stage = if start == RESERVED_LEAF && writes { Stage::Write } else { Stage::Descend };
        }
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
            let (written, besides) = self.write(tile.rematerialize(), acts, waiting ^ own, &request);
            end = if acts { written } else { end };
            others = besides;
        }
        others | if self.finish(turn, end) { own } else { 0 }
    }

    /// Stores the result of an operation that is done, and resets the traversal for the next one. Returns
    /// whether the operation is done.
    pub(super) fn finish<C: Convergence>(
        &mut self,
        turn: CurrentOp<W, C>,
        end: OperationResult<S::Value>,
    ) -> bool {
        if end.done {
            if turn.is_mine() {
                (self.outcome, self.value) = (end.outcome, end.value);
            }
            (self.at, self.parent) = (Handle::NONE, Handle::NONE);
            (self.skips_full, self.out_of_slabs, self.must_split, self.losses) = (false, false, false, 0);
        }
        end.done
    }

    /// Restarts at the root, from where full nodes can be split on the way.
    fn restart(&mut self) {
        (self.at, self.parent, self.stage) = (ROOT, Handle::NONE, Stage::Descend);
    }

    /// Returns to the node that led here, whose own parent is then unknown.
    fn return_to_parent(&mut self) {
        (self.at, self.parent, self.stage) = (self.parent, Handle::NONE, Stage::Descend);
    }

    /// Reads a node and goes on from it, if `looks`.
    fn descend<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        looks: bool,
        writes: bool,
        request: &Request<S, O>,
    ) -> OperationResult<S::Value> {
        let node = self.tree.node(self.at);
        let read = node.read(tile.rank(), looks, A::READ);
        let step = SearchStep::of(tile, &read, request.key);
        let full = O::WRITES && read.is_full(tile) && request.places();
        let ends = looks && step.meta.is_leaf() && !step.beyond && !writes;
        let mut end = OperationResult {
            done: ends && step.found,
            outcome: request.operation.outcome(),
            value: step.value,
        };
        if looks && !ends {
            self.follow(&step, writes, full);
        }
        let misses = ends && (!step.found || self.tree.may_read_other_version());
        if !A::CONFIRMS_MISSES {
            let value = if misses { request.argument } else { end.value };
            end = OperationResult {
                done: ends,
                outcome: if misses { Outcome::Absent } else { end.outcome },
                value,
            };
        } else if tile.any_converged(misses) {
            let again = self.tree.confirm_miss(tile.rematerialize(), node, misses, request);
            end = if misses { again } else { end };
        }
        end
    }

    /// Chooses the next node or action from a node that was read.
    fn follow(&mut self, step: &SearchStep<S>, writes: bool, full: bool) {
        let knows_parent = self.at == ROOT || !self.parent.is_none();
        if step.beyond {
            self.at = handle_of(step.value);
        } else if step.meta.is_leaf() {
            self.stage = if writes { Stage::Write } else { self.stage };
        } else if !step.found {
            self.restart();
        } else if full && !self.skips_full && !self.out_of_slabs {
            // A tile that did not come through the parent restarts from the root: a full node is split on the
            // way down, before a split below needs space in it.
            if knows_parent {
                self.stage = Stage::Split;
            } else {
                self.restart();
            }
        } else {
            (self.parent, self.at, self.skips_full) = (self.at, handle_of(step.value), false);
            if writes && step.meta.level() == 1 {
                self.stage = Stage::Write;
            }
        }
    }

    /// Tries the latch of the current node and executes the pending action under it, if the tile `acts`. Also
    /// returns which of the `others`' operations it finished.
    fn write<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        acts: bool,
        others: u32,
        request: &Request<S, O>,
    ) -> (OperationResult<S::Value>, u32) {
        let (mut held, has_latch) = self.tree.try_latch(tile, self.at, acts);
        let here = has_latch && request.key <= held.high;
        let on_leaf = here && self.stage == Stage::Write && held.meta.is_leaf();
        let (mut end, full_leaf) = self.update_leaf(tile, on_leaf, &mut held, request);
        let others = if A::GROUPS {
            self.update_leaf_for_others(tile, on_leaf && !full_leaf, others, &mut held)
        } else {
            0
        };
        let full_inner = held.read.is_full(tile);
        let full_inner = here && self.stage == Stage::Split && !held.meta.is_leaf() && full_inner;
        let (splits, mut split) = (full_leaf || full_inner, SplitResult::Contended);
        tile.sync();
        if has_latch && !splits && tile.rank() == 0 {
            held.node.release(held.meta.level(), A::GIVE);
        }
        if tile.any_converged(splits) {
            let pair = full_leaf.then(|| (request.key, S::pack(request.key, request.argument)));
            split = self.tree.split(tile.rematerialize(), splits, &held, self.parent, pair);
        }
        // Without this barrier, a warp may execute the tiles that back off, and sleep, before those that
        // release latches.
        tile.sync();
        if acts && !has_latch {
            self.lose_latch();
        } else if acts && !here {
            self.at = held.link;
            self.stage = if self.stage == Stage::Split { Stage::Descend } else { self.stage };
        } else if full_leaf {
            let outcome = self.after_leaf(split);
            end = OperationResult {
                done: outcome.is_some(),
                outcome: outcome.unwrap_or(Outcome::Absent),
                value: end.value,
            };
        } else if acts && !on_leaf {
            self.stage = Stage::Descend;
            if full_inner {
                self.after_inner(split);
            }
        }
        (end, others)
    }

    /// Executes the operations of the `others` on a leaf that the tile has latched, if `on_leaf`, as long as
    /// the leaf has free slots. Returns which of them are done.
    fn update_leaf_for_others<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        on_leaf: bool,
        others: u32,
        held: &mut LatchedNode<S, W, L>,
    ) -> u32 {
        let (own, rank) = (self.request, tile.rank());
        let belongs = held.low <= own.key && own.key <= held.high;
        let wants = others >> rank & 1 != 0
            && belongs
            && (self.start == RESERVED_LEAF) == (held.handle == RESERVED_LEAF);
        let (mut group, mut finished) = (tile.ballot(on_leaf && wants), 0);
        while tile.any_converged(group != 0) {
            let turn = group.trailing_zeros() % W;
            let request = Request {
                operation: tile.shuffle(own.operation, turn),
                key: tile.shuffle(own.key, turn),
                argument: tile.shuffle(own.argument, turn),
            };
            let (end, _) = self.update_leaf(tile, group != 0, held, &request);
            if end.done && rank == turn {
                (self.outcome, self.value) = (end.outcome, end.value);
            }
            finished |= if end.done { 1 << turn } else { 0 };
            group = if end.done { group & group.wrapping_sub(1) } else { 0 };
        }
        finished
    }

    /// Handles the result of a leaf split: returns the operation's outcome, or prepares another attempt.
    pub(super) fn after_leaf(&mut self, split: SplitResult) -> Option<Outcome> {
        match split {
            SplitResult::Done => return Some(Outcome::Inserted),
            SplitResult::OutOfSlabs => return Some(Outcome::Refused),
            SplitResult::ParentFull if self.out_of_slabs => return Some(Outcome::Refused),
            SplitResult::ParentFull => {
                self.must_split = true;
                self.restart();
            }
            SplitResult::Contended => self.back_off_to_parent(),
        }
        None
    }

    /// Handles the result of an inner node's split: the node is read again, and skipped if it is still full,
    /// unless it must be split.
    ///
    /// A tile that skips the node may come to its latch again from below, find the node full, and so keep the
    /// latch from a tile that would split it. Two tiles that alternate like this could go on forever. So a
    /// tile that has met a full parent once must split full nodes from then on.
    fn after_inner(&mut self, split: SplitResult) {
        self.out_of_slabs |= split == SplitResult::OutOfSlabs;
        self.skips_full = split != SplitResult::Done && !self.must_split;
        // From the root: the parent may have changed.
        match split {
            SplitResult::Contended if self.must_split => {
                self.restart();
                self.back_off();
            }
            SplitResult::ParentFull if self.must_split => self.restart(),
            _ => {}
        }
    }

    /// Handles a failed latch attempt. If the tile wanted to split an inner node, another tile is already
    /// splitting or changing that node, and the split may be unnecessary.
    fn lose_latch(&mut self) {
        if self.stage == Stage::Split && !self.must_split {
            (self.stage, self.skips_full) = (Stage::Descend, true);
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
        back_off(&mut self.losses, Thread::index() as u32 / W % FIRST_BACKOFF_NS);
    }

    /// Changes a leaf that the tile has latched, if `on_leaf`. Returns the result of the operation, and
    /// whether the leaf lacks a free slot for it.
    pub(super) fn update_leaf<C: Convergence>(
        &self,
        tile: Tile<W, C>,
        on_leaf: bool,
        held: &mut LatchedNode<S, W, L>,
        request: &Request<S, O>,
    ) -> (OperationResult<S::Value>, bool) {
        let (read, rank) = (held.read, tile.rank());
        let is_slot = |position| position < Node::<S, W, L>::SLOTS;
        let hit = read.last(rank, |position, word| is_slot(position) && S::key(word) == request.key);
        let free = read.last(rank, |position, word| is_slot(position) && S::key(word) > held.high);
        let (hits, frees) = (tile.ballot(hit.exists), tile.ballot(free.exists));
        let (found, places) = (hits != 0, request.places());
        let actor = (if found { hits } else { frees }).trailing_zeros();
        let mut value = request.argument;
        let changes = if found { request.operation.change() != Change::Keep } else { places && frees != 0 };
        let saved = self.tree.save_version(tile, on_leaf && changes, held.node, &read);
        let refused = A::Versions::VERSIONED && on_leaf && changes && !saved.ready;
        if on_leaf && rank == actor && (found || places) && !refused {
            let chosen = if found { hit } else { free };
            let (place, order) = (held.node.word(chosen.index), self.tree.pair_order());
            if found {
                value = request.change::<A>(place, chosen.word, order);
            } else {
                request.place::<A>(place, chosen.word, order);
            }
            if A::GROUPS {
                let placed = S::pack(request.key, request.argument);
                held.read.put(rank, chosen.index, if found { request.changed(chosen.word) } else { placed });
            }
        }
        self.tree.stamp_leaf(tile, &saved, held.node, Handle::NONE);
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let absent = if places { Outcome::Inserted } else { Outcome::Absent };
        let outcome = if found { request.operation.outcome() } else { absent };
        let outcome = if refused { Outcome::Refused } else { outcome };
        let done = on_leaf && (found || !places || frees != 0);
        let value = if found { value } else { request.argument };
        (OperationResult { done, outcome, value }, on_leaf && !done)
    }
}

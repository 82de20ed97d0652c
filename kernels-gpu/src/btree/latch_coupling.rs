//! The traversal of trees that are [`Coupled`](super::access::Coupled): a baseline that shows the cost which
//! the other trees avoid.
//!
//! Each operation, lookups included, latches the root, and then each node of its path before it releases the
//! one above. So no operation meets a node during a change, and no link is needed; but all operations go
//! through one latch, and through those below it. Full nodes are split on the way, while the latch of the
//! node above is still held.
use super::split::SplitResult;
use super::walk::{FullNodes, Walk};
use crate::keyed::{Operation, Outcome, Request, Slot};
use crate::ordered::fixed_nodes::ROOT;
use crate::ordered::latch::LatchedNode;
use crate::ordered::leaf::OperationResult;
use crate::ordered::meta::handle_of;
use crate::ordered::search::SearchStep;
use crate::ordered::types::Types;
use crate::slab::Handle;
use simt::{Convergence, CurrentOp, Order, Tile, device};

#[device]
impl<T: Types, O: Operation, const W: u32, const L: usize> Walk<T, O, W, L> {
    /// Executes one round of the current operation: tries the latch of the next node and executes the pending
    /// action there. Returns whether the operation is finished.
    pub(super) fn coupled_round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let (tile, request) = (turn.tile(), self.request.from_owner(turn));
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
        }
        let acts = turn.is_active();
        let (held, has_latch) = self.tree.try_latch(tile, self.at, acts);
        let on_leaf = has_latch && held.meta.is_leaf();
        let (mut end, _) = self.tree.update_leaf(tile, on_leaf, &held, &mut { held.read }, &request);
        let full_leaf = on_leaf && !end.done;
        let full = held.read.is_full(tile) && request.places() && self.full_nodes != FullNodes::OutOfSlabs;
        let splits = full_leaf || (has_latch && !held.meta.is_leaf() && full);
        let step = SearchStep::of(tile, &held.read, request.key);
        tile.sync();
        if has_latch && !splits {
            self.hand_over_latch(tile, &held, &step);
        }
        let mut split = SplitResult::Contended;
        if tile.any_converged(splits) {
            split = self.split_below(tile.rematerialize(), splits, &held, full_leaf.then_some(&request));
        }
        // mutation: skip barrier performance, because a warp may then execute the tiles that back off before
        // those that release latches.
        tile.sync();
        if acts && !has_latch {
            self.back_off();
        } else if full_leaf {
            let outcome = self.after_leaf(split);
            let done = outcome.is_some();
            end = OperationResult { done, outcome: outcome.unwrap_or(Outcome::Absent), value: end.value };
        }
        end.done |= !acts;
        self.finish(turn, end)
    }

    /// Releases the latch above, or at a leaf both latches, and goes on to the child.
    fn hand_over_latch(
        &mut self,
        tile: Tile<W, impl Convergence>,
        held: &LatchedNode<T::Slot, W, L>,
        step: &SearchStep<T::Slot>,
    ) {
        let above = self.parent;
        if tile.rank() == 0 && !above.is_none() {
            // mutation: late performance, because the node above is only latched longer.
            self.tree.node(above).release(held.meta.level() + 1, Order::Release);
        }
        if !held.meta.is_leaf() {
            (self.parent, self.at) = (self.at, handle_of(step.value));
            self.losses = 0;
        } else if tile.rank() == 0 {
            // mutation: relaxed unreached, because another tile comes to the leaf by the latch of its parent,
            // which was released before. Plans seldom change the reserved leaf, which has none.
            held.node.release(0, Order::Release);
        }
    }

    /// Splits the node, and restarts at the root without a latch.
    fn split_below(
        &mut self,
        tile: Tile<W, impl Convergence>,
        splits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        request: Option<&Request<T::Slot, O>>,
    ) -> SplitResult {
        let pair = request.map(|request| (request.key, T::Slot::pack(request.key, request.argument)));
        let split = self.tree.split(tile, splits, held, self.parent, pair);
        // A split releases both latches, except if there is no slab: then it does not reach the parent's.
        if splits && split == SplitResult::OutOfSlabs && !self.parent.is_none() && tile.rank() == 0 {
            // mutation: relaxed unreached, because plans seldom refuse an insertion into a coupled tree.
            self.tree.node(self.parent).release(held.meta.level() + 1, Order::Release);
        }
        if splits {
            (self.at, self.parent) = (ROOT, Handle::NONE);
            if split == SplitResult::OutOfSlabs {
                self.full_nodes = FullNodes::OutOfSlabs;
            }
        }
        split
    }
}

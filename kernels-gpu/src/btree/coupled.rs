//! The walk of trees that are [`Coupled`](super::access::Coupled): a baseline, which shows what the others do
//! without.
//!
//! Each operation, a lookup too, latches the root, and then each node of its way before it gives the one
//! above back. So nobody meets a node amid a change and no link is needed, but all come through one latch,
//! and through those below it. Full nodes are split on the way, while the latch of the node above is there
//! still.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::node::{Lead, handle_of};
use super::split::Cut;
use super::tree::ROOT;
use super::walk::{End, Held, Walk};
use crate::keyed::{Operation, Outcome, Question, Slot};
use simt::{Convergence, Tile, Turn};

impl<S: Slot, P: Pool, A: Access, O: Operation, const W: u32, const L: usize> Walk<S, P, A, O, W, L> {
    /// One round of the operation whose turn it is: a try for the latch of the node that is next, and what is
    /// to be done there. Returns whether the operation is finished.
    #[inline(always)]
    pub(super) fn coupled_round<C: Convergence>(&mut self, turn: Turn<W, C>) -> bool {
        let (tile, question) = (turn.tile(), self.question.from_owner(turn));
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
        }
        let acts = turn.is_active();
        let (mut held, has_latch) = self.tree.hold(tile, self.at, acts);
        let on_leaf = has_latch && held.meta.is_leaf();
        let (mut end, full_leaf) = self.act(tile, on_leaf, &mut held, &question);
        let full = held.read.is_full(tile) && question.places() && !self.starved;
        let splits = full_leaf || (has_latch && !held.meta.is_leaf() && full);
        let lead = Lead::of(tile, &held.read, question.key);
        tile.sync();
        if has_latch && !splits {
            self.pass_on(tile, &held, &lead);
        }
        let mut cut = Cut::Lost;
        if tile.any_converged(splits) {
            cut = self.split_below(tile.afresh(), splits, &held, full_leaf.then_some(&question));
        }
        tile.sync();
        if acts && !has_latch {
            self.rest();
        } else if full_leaf {
            let outcome = self.after_leaf(cut);
            let done = outcome.is_some();
            end = End { done, outcome: outcome.unwrap_or(Outcome::Absent), value: end.value };
        }
        end.done |= !acts;
        self.finish(turn, end)
    }

    /// Gives the latch above back, or at a leaf both, and goes on to the child.
    #[inline(always)]
    fn pass_on<C: Convergence>(&mut self, tile: Tile<W, C>, held: &Held<S, W, L>, lead: &Lead<S>) {
        let above = self.parent;
        if tile.rank() == 0 && !above.is_none() {
            self.tree.node(above).release(held.meta.level() + 1, A::GIVE);
        }
        if !held.meta.is_leaf() {
            (self.parent, self.at) = (self.at, handle_of(lead.value));
            self.losses = 0;
        } else if tile.rank() == 0 {
            held.node.release(0, A::GIVE);
        }
    }

    /// Splits the node, and begins at the root again, with no latch.
    #[inline(always)]
    fn split_below<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        splits: bool,
        held: &Held<S, W, L>,
        question: Option<&Question<S, O>>,
    ) -> Cut {
        let pair = question.map(|question| (question.key, S::pack(question.key, question.argument)));
        let cut = self.tree.split(tile, splits, held, self.parent, pair);
        // A split gives both latches back, but one that has no slab does not come to the parent's.
        if splits && cut == Cut::Starved && !self.parent.is_none() && tile.rank() == 0 {
            self.tree.node(self.parent).release(held.meta.level() + 1, A::GIVE);
        }
        if splits {
            (self.at, self.parent) = (ROOT, Handle::NONE);
            self.starved |= cut == Cut::Starved;
        }
        cut
    }
}

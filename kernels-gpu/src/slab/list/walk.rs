//! The walk of an operation along its bucket's list.
use super::super::handle::Handle;
use super::super::pool::Pool;
use super::lists::{Lists, ListsView};
use super::node::Node;
use crate::keyed::{Look, Operation, Outcome, Question, Scalar, Slot};
use simt::{Convergence, Thread, Turn};

/// From so many nodes on a list that grows is long.
pub const LONG: u32 = 64;

/// The bit of [`Walk::depth`] that no list is long enough for.
const REFUSED: u32 = 1 << 31;

/// The operation of one lane on its way along a list, as the work-sharing loop executes it: the one search
/// loop of all operations on one key (slab-hash paper, section IV-C).
pub struct Walk<S: Slot, P: Pool, O, const W: u32, const L: usize> {
    lists: ListsView<Lists<S, P, W, L>>,
    bucket: u32,
    question: Question<S, O>,
    /// Where the tile stands, if not at a head. It works on one operation until that is finished, so every
    /// lane can keep it.
    at: Option<Node<S, W, L>>,
    /// Nodes behind the tile, of the operation at work; and [`REFUSED`], if the pool had no slab for it a
    /// look ago.
    depth: u32,
    outcome: Outcome,
    value: S::Value,
}

impl<S: Slot, P: Pool, O: Operation, const W: u32, const L: usize> Walk<S, P, O, W, L> {
    /// A walk that begins at the head of `bucket`, which is that of a key.
    #[inline(always)]
    pub(super) fn new(lists: ListsView<Lists<S, P, W, L>>, bucket: u32, question: Question<S, O>) -> Self {
        let value = question.argument;
        Self { lists, bucket, question, at: None, depth: 0, outcome: Outcome::Absent, value }
    }

    /// What has become of the lane's operation.
    #[inline(always)]
    pub fn result(self) -> (Outcome, S::Value) {
        (self.outcome, self.value)
    }

    /// One round of the operation whose turn it is: one look, and on. Returns whether the operation is
    /// finished.
    #[inline(always)]
    #[track_caller]
    pub fn round<C: Convergence>(&mut self, turn: Turn<W, C>) -> bool {
        let (tile, rank) = (turn.tile(), turn.tile().rank());
        let question = self.question.from_owner(turn);
        let head = turn.from_owner(self.bucket);
        // SAFETY: the bucket of a key.
        let node = self.at.unwrap_or(unsafe { self.lists.head(head) });
        let read = node.read(rank, turn.is_active());
        let look = Look::at(tile, node.bucket(), &read.lane, &question, |_| true);
        let (done, value) = look.act(tile, turn.is_active(), &question);

        let through = turn.is_active() && look.verdict.leads_on();
        let next = tile.shuffle(self.next(&question, node, through && rank == W - 1, read.link), W - 1);
        let onward = through && !next.is_none();
        if turn.is_mine() {
            (self.outcome, self.value) = (question.conclude(look.verdict.found, done), value);
        }
        if S::PUBLISHES && look.verdict.waits && !done {
            simt::spin_hint();
        }
        // Who was refused a slab looks once more: another tile may have hung the last one here.
        let again = through && !onward && question.places() && self.depth < REFUSED;
        let finished = done || (look.verdict.is_over() && !onward && !again);
        self.depth = match (finished, again) {
            (true, _) => 0,
            (_, true) => self.depth | REFUSED,
            _ if onward => self.depth % REFUSED + 1,
            _ => self.depth,
        };
        self.at = if onward {
            // SAFETY: a link that was read in a node, or of a slab that the pool gave.
            Some(unsafe { self.lists.node(next) })
        } else if finished {
            None
        } else {
            self.at
        };
        finished
    }

    /// The link of a full node, by the lane that has read it: a new slab is hung there first where the list
    /// ends and the key is to be placed.
    #[inline(always)]
    #[track_caller]
    fn next(&self, question: &Question<S, O>, node: Node<S, W, L>, asked: bool, link: Handle) -> Handle {
        if !(asked && question.places() && link.is_none()) {
            return link;
        }
        if self.depth % REFUSED >= LONG {
            self.lists.tallies().record_long();
        }
        // Nothing of an address: what was explored must replay.
        let seed = Thread::index() as u32 ^ (question.key.to_u64() as u32).rotate_right(7) ^ self.depth << 24;
        self.lists.pool().extend(node.link(), seed)
    }
}

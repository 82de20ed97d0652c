//! Operations on a leaf: what a miss needs to be valid, and the changes of a slot under the leaf's latch.
use super::access::Access;
use super::node::Node;
use super::nodes::Nodes;
use super::versioning::Versions;
use crate::keyed::{Change, Operation, Outcome, Request, Slot};
use crate::slab::Pool;
use simt::{Convergence, Order, Scope, Tile, device};

/// Result of an operation, once it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationResult<V> {
    pub(crate) done: bool,
    pub(crate) outcome: Outcome,
    pub(crate) value: V,
}

#[device]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Nodes<S, P, A, W, L> {
    /// Reads a leaf again after a miss. The miss is valid only if the key is still ≤ `high` when the tail is
    /// read *after* the pairs: since the leaf's high key was first read, a split may have moved the key away,
    /// and another pair may have taken its slot.
    ///
    /// With versions, the pairs are those of the version at the tree's read timestamp.
    pub(crate) fn confirm_miss<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        node: Node<S, W, L>,
        misses: bool,
        request: &Request<S, O>,
    ) -> OperationResult<S::Value> {
        let mut read = node.read_rarely(tile.rank(), misses, Order::Acquire);
        let tail = if misses { node.tail().load(Order::Relaxed, Scope::Device) } else { S::EMPTY };
        let mut covered = tile.all(request.key <= S::key(tail));
        if A::Versions::VERSIONED {
            let (then, is_leaf) = self.as_of(tile, node, misses && covered, read);
            (read, covered) = (then, covered && is_leaf);
        }
        let hit = read.last(tile.rank(), |position, word| {
            position < Node::<S, W, L>::SLOTS && S::key(word) == request.key
        });
        let hits = tile.ballot(hit.exists);
        let value = tile.shuffle(S::value(hit.word), hits.trailing_zeros());
        if hits == 0 {
            return OperationResult { done: covered, outcome: Outcome::Absent, value: request.argument };
        }
        OperationResult { done: covered, outcome: request.operation.outcome(), value }
    }
}

/// Changes of a slot under its leaf's latch.
pub(crate) trait Latched<S: Slot> {
    /// Changes the pair in a slot that holds `word`, by one update with at least `order`. Returns the
    /// previous value; for a removal, the argument.
    fn change(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) -> S::Value;

    /// Places the pair in a free slot that holds `word`.
    fn place(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order);
}

/// Replaces `before`, the slot's current word. No other thread changes it, because the leaf's latch is held.
/// It is a read-modify-write, not a store, so an acquiring load that reads the new word still synchronizes
/// with the last releasing store to the slot.
#[device]
fn overwrite<T: simt::Word>(slot: simt::Global<T>, before: T, after: T, order: Order) {
    let found = slot.compare_exchange(before, after, order, Scope::Device);
    debug_assert!(found.is_ok(), "the latch is held");
}

#[device]
impl<S: Slot, O: Operation> Latched<S> for Request<S, O> {
    fn change(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) -> S::Value {
        let change = self.operation.change();
        if change != Change::Keep {
            overwrite(slot, word, self.changed(word), order);
        }
        if change == Change::Erase { self.argument } else { S::value(word) }
    }

    /// The store releases if it overwrites a pair that a split has moved: a reader that sees the new pair
    /// must also see the link to the node that now holds the old one.
    fn place(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) {
        let pair = S::pack(self.key, self.argument);
        if S::key(word) == S::key(S::EMPTY) {
            overwrite(slot, word, pair, order);
        } else {
            slot.store(pair, Order::Release, Scope::Device);
        }
    }
}

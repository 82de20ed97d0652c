//! How a full node is divided: the lower half of its pairs stays, the upper half moves.
use super::latch::LatchedNode;
use super::meta::{Meta, entry};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Stored, Types, WordOf};
use crate::keyed::{Lane, Scalar, Slot};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Order, Scope, Thread, Tile, device};

/// How a node is divided, as one lane sees it.
pub(crate) struct SplitPlan<S: Slot, const W: u32, const L: usize> {
    /// The pairs, sorted.
    pub(crate) pairs: Lane<S, L>,
    /// Lowest key that moves.
    pub(crate) separator: S::Stored,
    /// Position of its pair.
    pub(crate) middle: u32,
}

#[device]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Number of pairs that stay in the lower half.
    pub(crate) const HALF: u32 = Node::<T::Slot, W, L>::SLOTS / 2;

    /// Allocates a slab for a node of the same level as `held`, by the calling lane alone.
    pub(crate) fn allocate_beside(self, held: &LatchedNode<T::Slot, W, L>, salt: u32) -> Handle {
        // The seed depends on no address, so that explored schedules replay.
        let seed = Thread::index() as u32 ^ (held.low.to_u64() as u32).rotate_right(7) ^ salt;
        // mutation: early load unreached, because plans refuse few insertions while slabs are freed:
        // `slab_explore` tests the look at the bitmap.
        self.pool.allocate_in(held.meta.level(), seed).unwrap_or(Handle::NONE)
    }

    /// Sorts the pairs of a full node and determines which of them move.
    pub(crate) fn plan_split(
        tile: Tile<W, impl Convergence>,
        held: &LatchedNode<T::Slot, W, L>,
    ) -> SplitPlan<T::Slot, W, L> {
        let pairs = held.read.sorted(tile, |_| true);
        let first = pairs.words()[Self::HALF as usize % L];
        let separator = tile.shuffle(T::Slot::key(first), Self::HALF / L as u32);
        let middle = held.read.last(tile.rank(), |position, word| {
            position < Node::<T::Slot, W, L>::SLOTS && T::Slot::key(word) == separator
        });
        let owner = tile.ballot(middle.exists).trailing_zeros();
        SplitPlan { pairs, separator, middle: tile.shuffle(middle.index, owner) }
    }

    /// Whether the pair at index `place` in key order moves.
    fn is_upper(place: u32) -> bool {
        Self::HALF <= place && place < Node::<T::Slot, W, L>::SLOTS
    }

    /// Writes the new nodes of a split except for their headers, and the new `pair` into the upper one if it
    /// covers its key. There is a `left` one if the root is split.
    pub(crate) fn write_new_nodes(
        self,
        rank: u32,
        held: &LatchedNode<T::Slot, W, L>,
        (left, right): (Handle, Handle),
        plan: &SplitPlan<T::Slot, W, L>,
        pair: Option<(Stored<T>, WordOf<T>)>,
    ) {
        let (order, scope, target) = (Order::Relaxed, Scope::Device, self.node(right));
        let mut j = 0;
        while j < L {
            let (word, place) = (plan.pairs.words()[j], Node::<T::Slot, W, L>::position(rank, j));
            if Self::is_upper(place) {
                target.word(place - Self::HALF).store(word, order, scope);
            } else if place < Self::HALF && !left.is_none() {
                // mutation: late equivalent, because a search that lacks an entry of an inner node goes on
                // from an earlier one by links, or begins again at the root.
                self.node(left).word(place).store(word, order, scope);
            }
            j += 1;
        }
        if rank == 0 {
            target.tail().store(entry::<T::Slot>(held.high, held.link), order, scope);
            if let Some((_, word)) = pair.filter(|pair| pair.0 > plan.separator) {
                target.word(Node::<T::Slot, W, L>::SLOTS - Self::HALF).store(word, order, scope);
            }
            if !left.is_none() {
                // mutation: late equivalent, because searches that come to the left half want keys below its
                // high key.
                self.node(left).tail().store(entry::<T::Slot>(before(plan.separator), right), order, scope);
            }
        }
    }

    /// Writes the headers of the new nodes of a split, and links the old node to them, by the calling lane
    /// alone. The keys from `separator` on have moved to the `right` one; if the root is split, the others to
    /// the `left` one.
    pub(crate) fn link_new_nodes(
        self,
        held: &LatchedNode<T::Slot, W, L>,
        (left, right): (Handle, Handle),
        separator: Stored<T>,
    ) {
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let header = |low| Node::<T::Slot, W, L>::header_word(low, Meta::free(held.meta.level()));
        // mutation: late equivalent, because both stores are relaxed: readers wait for a header that they see
        // late.
        self.node(right).header().store(header(separator), order, scope);
        if left.is_none() {
            held.node.tail().store(entry::<T::Slot>(before(separator), right), order, scope);
        } else {
            // mutation: late equivalent, because readers wait for a header that they see late.
            self.node(left).header().store(header(held.low), order, scope);
            // mutation: late equivalent, because the root's old entries stay valid.
            held.node.word(0).store(entry::<T::Slot>(held.low, left), order, scope);
            // mutation: late equivalent, because the root's old entries stay valid.
            held.node.word(1).store(entry::<T::Slot>(separator, right), order, scope);
        }
    }
}

/// Returns the key before one that is not 0.
#[device]
pub(crate) fn before<K: Scalar>(key: K) -> K {
    K::from_u64(key.to_u64().wrapping_sub(1))
}

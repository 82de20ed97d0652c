//! How a full node is divided: the lower half of its pairs stays, the upper half moves.
use super::latch::LatchedNode;
use super::node::Node;
use super::nodes::Nodes;
use super::types::Types;
use crate::keyed::{Lane, Scalar, Slot};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Thread, Tile, device};

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
    pub(crate) fn is_upper(place: u32) -> bool {
        Self::HALF <= place && place < Node::<T::Slot, W, L>::SLOTS
    }
}

impl<S: Slot, const W: u32, const L: usize> SplitPlan<S, W, L> {
    /// Returns the highest key that stays.
    #[device]
    pub(crate) fn high(&self) -> S::Stored {
        S::Stored::from_u64(self.separator.to_u64().wrapping_sub(1))
    }
}

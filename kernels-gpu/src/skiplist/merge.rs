//! Merges: the pairs of a thin data node move to the next one.
//!
//! ```text
//! the tile holds the latch of the thin node
//! 1. try the next node's latch; check that the pairs fit   on failure: nothing has happened, and a later
//!                                                          removal retries
//! 2. next node: the pairs, in free slots
//! 3. fence
//! 4. thin node: tail (0, next), one word                   now it is a zombie: every key is beyond it
//! 5. next node: the thin one's low key; release its latch
//! ```
//!
//! The next node's latch is refused if that node is shared. To hold a shared node, the tile would have to
//! wait for its sharers while it holds a latch.
//!
//! The low key of a thin node is above 0, because the first node of the layer never merges. So a high key of
//! 0 in the tail marks a zombie, and a traversal that reaches it goes to the right, as from any node whose
//! keys have moved. A zombie is unlinked only when it is passed: a tile that holds the latch of the node
//! before it removes it from the chain.
use super::policy::Policy;
use super::walk::may_merge;
use crate::keyed::{Lane, Scalar, Slot};
use crate::ordered::access::Access;
use crate::ordered::fixed_nodes::FIRST_LEAF;
use crate::ordered::latch::LatchedNode;
use crate::ordered::meta::{Meta, entry};
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Stored, Types};
use simt::{Convergence, Order, Scope, Tile, device, fence};

#[device]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Merges a data node that the tile has latched with the next one, if pairs were `removed` and have left
    /// it thin. `read` is its current content.
    pub(super) fn thin_out(
        self,
        tile: Tile<W, impl Convergence>,
        removed: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &Lane<T::Slot, L>,
    ) {
        let count = read.count(tile, |word| T::Slot::key(word) <= held.high);
        let is_thin = count <= Node::<T::Slot, W, L>::SLOTS / T::Access::THIN;
        let merges = removed && is_thin && may_merge::<T::Slot>(held.handle, held.high);
        if tile.any_converged(merges) {
            self.merge(tile.rematerialize(), merges, held, read, count);
        }
    }

    fn merge(
        self,
        tile: Tile<W, impl Convergence>,
        merges: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &Lane<T::Slot, L>,
        count: u32,
    ) {
        let (next, has_latch) = self.try_latch(tile, if merges { held.link } else { FIRST_LEAF }, merges);
        let is_zombie = next.high == Stored::<T>::from_u64(0);
        let free = next.read.count(tile, |word| T::Slot::key(word) > next.high);
        let fits = has_latch && !is_zombie && count <= free;
        let (order, scope, nothing) = (Order::Relaxed, Scope::Device, Stored::<T>::from_u64(0));
        if T::Access::SORTED {
            Self::push_pairs(tile, fits, held, read, &next);
        } else {
            Self::move_pairs(tile, fits, held, read, &next);
        }
        tile.sync();
        fence(Scope::Device);
        if fits && tile.rank() == 0 {
            // mutation: late store equivalent, because until the latches are released the pairs are the same
            // in both nodes.
            held.node.tail().store(entry::<T::Slot>(nothing, held.link), order, scope);
            // mutation: tear skip performance, because the count only tells the host when to compact the
            // list.
            self.counters.record_long();
        } else if has_latch && is_zombie && tile.rank() == W - 1 {
            // Stored by the lane that has read the zombie's link; that lane's fence lies between.
            // mutation: skip store performance, because it only makes a chain of zombies shorter.
            held.node.tail().store(entry::<T::Slot>(held.high, next.link), order, scope);
        }
        // mutation: skip barrier equivalent, because the pairs were stored before the barrier above, and
        // `Walk::release` has one before it releases the thin node.
        tile.sync();
        if has_latch && tile.rank() == 0 {
            let low = if fits { held.low } else { next.low };
            if T::Access::SHARES {
                // Downward queries read it without the latch.
                // mutation: relaxed store Release equivalent, because the fence above releases the pairs as
                // well.
                // mutation: late store Release unreached, because the next write of the lane follows at once.
                T::Slot::key_part(next.node.header()).store(low, Order::Release, scope);
                self.release_node(&next, 0, false, Order::Release);
            } else {
                let meta = if T::Access::SORTED { next.meta.after() } else { Meta::free(0) };
                let header = Node::<T::Slot, W, L>::header_word(low, meta);
                // mutation: relaxed equivalent, because the fence above releases the pairs as well.
                // mutation: late equivalent, because the lane's next write releases the thin node, and a tile
                // that latches that node before this store at most fails to merge it with the next one.
                next.node.header().store(header, Order::Release, scope);
            }
        }
    }

    /// Stores the pairs of `read` before those of the next node, which is latched, if it `fits`: the highest
    /// first.
    fn push_pairs(
        tile: Tile<W, impl Convergence>,
        fits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &Lane<T::Slot, L>,
        next: &LatchedNode<T::Slot, W, L>,
    ) {
        let mut to = next.read;
        let mut last = next.read.count(tile, |word| T::Slot::key(word) <= next.high);
        let mut left = read.count(tile, |word| T::Slot::key(word) <= held.high);
        // A reader that sees a moved pair must also see the next node's latch: see `Walk::show_latch`.
        fence(Scope::Device);
        // Otherwise pairs would lie behind position `last`.
        Self::close_gaps(tile, fits, next, &mut to, last);
        while tile.any_converged(fits && left > 0) {
            let moves = fits && left > 0;
            let at = left.wrapping_sub(1) % (W * L as u32);
            let own = read.last(tile.rank(), |position, _| position == at);
            let word = tile.shuffle(own.word, at / L as u32);
            Self::shift(tile, moves, next.node, &mut to, (0, last), word);
            (left, last) = if moves { (left - 1, last + 1) } else { (left, last) };
        }
    }

    /// Copies the pairs of `read` to free slots of the next node, which is latched, if it `fits`.
    fn move_pairs(
        tile: Tile<W, impl Convergence>,
        fits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &Lane<T::Slot, L>,
        next: &LatchedNode<T::Slot, W, L>,
    ) {
        let (rank, is_slot) = (tile.rank(), |position| position < Node::<T::Slot, W, L>::SLOTS);
        let (mut from, mut to) = (*read, next.read);
        loop {
            let pair = from.last(rank, |position, word| is_slot(position) && T::Slot::key(word) <= held.high);
            let free = to.last(rank, |position, word| is_slot(position) && T::Slot::key(word) > next.high);
            let (pairs, frees) = (tile.ballot(fits && pair.exists), tile.ballot(fits && free.exists));
            if !tile.any_converged(pairs != 0) {
                return;
            }
            let word = tile.shuffle(pair.word, pairs.trailing_zeros() % W);
            if pairs != 0 && rank == pairs.trailing_zeros() {
                from.put(rank, pair.index, T::Slot::EMPTY);
            }
            if pairs != 0 && rank == frees.trailing_zeros() {
                // This slot's pair may have moved: see `write_slot`.
                next.node.word(free.index).store(word, Order::Release, Scope::Device);
                to.put(rank, free.index, word);
            }
        }
    }
}

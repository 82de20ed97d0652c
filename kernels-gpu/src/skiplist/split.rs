//! Splits, and how their keys are raised.
//!
//! A split needs only the latch of the full node: the new node is entered into the layer above later, by an
//! insertion of its own.
//!
//! ```text
//! 1. allocate a slab for the new node                        on failure: nothing has happened
//! 2. new node: the upper half, tail                          not reachable yet
//! 3. fence
//! 4. new node: header. old node: tail, one word              from here on the keys above have moved
//! 5. the pair to be inserted, into its half; release the latch
//! 6. the layer above: (lowest key of the new node, the node), under the latch of the node for that key
//! ```
//!
//! Until step 6 happens, or if it never does because the pool has no slab for an index node, the new node is
//! found by the old one's link.
//!
//! The root is the topmost layer. When it is full, it moves all its entries into two new nodes and becomes
//! the layer above them.
use super::policy::Policy;
use crate::keyed::{Lane, Slot};
use crate::ordered::access::Access;
use crate::ordered::fixed_nodes::ROOT;
use crate::ordered::latch::LatchedNode;
use crate::ordered::meta::entry;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::split_plan::before;
use crate::ordered::types::{Stored, Types, WordOf};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Order, Scope, Tile, device, fence};

/// An entry of a new node to be raised to the layer above, and whether a new node was made.
pub(super) type IndexEntry<S> = ((<S as Slot>::Stored, Handle), bool);

/// Returns `one` if it is `wanted`, otherwise `other`: field by field, because a selection between structures
/// copies their padding through local memory.
#[device]
pub(super) fn choose_entry<S: Slot>(wanted: bool, one: IndexEntry<S>, other: IndexEntry<S>) -> IndexEntry<S> {
    let key = if wanted { one.0.0 } else { other.0.0 };
    let node = if wanted { one.0.1 } else { other.0.1 };
    let is_made = if wanted { one.1 } else { other.1 };
    ((key, node), is_made)
}

/// Division of a full node with sorted words, and a new word, between two nodes, as every lane knows it.
#[derive(Clone, Copy)]
struct SplitPlanSorted<S: Slot> {
    /// The new word.
    word: S::Word,
    /// Number of words below it.
    place: u32,
    /// Lowest key that moves.
    separator: S::Stored,
    /// Slabs for the lower half, if the root is split, and for the upper one.
    left: Handle,
    right: Handle,
}

#[device]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Number of words, of a full sorted node and the new one, that stay in the lower half.
    const KEPT: u32 = Node::<T::Slot, W, L>::SLOTS.div_ceil(2);

    /// Allocates a slab, if `wanted`, and returns it to every lane.
    fn slab(
        self,
        tile: Tile<W, impl Convergence>,
        wanted: bool,
        of: &LatchedNode<T::Slot, W, L>,
        salt: u32,
    ) -> Handle {
        let mut mine = Handle::NONE;
        if wanted && tile.rank() == 0 {
            mine = self.allocate_beside(of, salt);
        }
        tile.shuffle(mine, 0)
    }

    /// Splits a full data node that the tile has latched, if it `splits`, and adds a pair to the half that
    /// covers its key. Returns the entry to raise.
    pub(super) fn split_data(
        self,
        tile: Tile<W, impl Convergence>,
        splits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        pair: (Stored<T>, WordOf<T>),
    ) -> IndexEntry<T::Slot> {
        if T::Access::SORTED {
            let place = held.read.count(tile, |word| T::Slot::key(word) < pair.0);
            return self.split_sorted(tile, splits, held, place, pair.1);
        }
        let right = self.slab(tile, splits, held, 0);
        // `&`, because after `&&` the compiler duplicates the collectives below for each outcome.
        let goes = splits & !right.is_none();
        let plan = Self::plan_split(tile, held);
        if goes {
            self.write_new_nodes(tile.rank(), held, (Handle::NONE, right), &plan, Some(pair));
        }
        tile.sync();
        fence(Scope::Device);
        if goes && tile.rank() == 0 {
            self.link_new_nodes(held, (Handle::NONE, right), plan.separator);
        }
        tile.sync();
        let mut j = 0;
        while j < L {
            let is_middle = Node::<T::Slot, W, L>::position(tile.rank(), j) == plan.middle;
            if goes && is_middle && pair.0 < plan.separator {
                // This slot's pair has moved: see `write_slot`.
                held.node.own(tile.rank(), j).store(pair.1, Order::Release, Scope::Device);
            }
            j += 1;
        }
        ((plan.separator, right), goes)
    }

    /// Inserts an entry into an index node that the tile has latched, if it `enters`, and splits the node if
    /// it is full. Returns the entry to raise in that case.
    ///
    /// Each entry is one word, and every entry in the node is valid at any moment. So a tile that reads
    /// during the shift may be led too far left, never too far right. If there is an entry with the same key,
    /// the new one replaces it: the old one leads to a node that has merged since.
    pub(super) fn insert_index_entry(
        self,
        tile: Tile<W, impl Convergence>,
        enters: bool,
        held: &LatchedNode<T::Slot, W, L>,
        (key, node): (Stored<T>, Handle),
    ) -> IndexEntry<T::Slot> {
        let word = entry::<T::Slot>(key, node);
        let empty = T::Slot::key(T::Slot::EMPTY);
        let count = held.read.count(tile, |word| T::Slot::key(word) != empty);
        let place = held.read.count(tile, |word| T::Slot::key(word) < key);
        let same = held.read.count(tile, |word| T::Slot::key(word) == key) > 0;
        let splits = enters && !same && count == Node::<T::Slot, W, L>::SLOTS;
        let last = if same { place } else { count };
        let mut read = held.read;
        Self::shift(tile, enters && !splits, held.node, &mut read, (place, last), word);
        let mut raised = ((key, node), false);
        if tile.any_converged(splits) {
            let cut = self.split_sorted(tile.rematerialize(), splits, held, place, word);
            raised = choose_entry::<T::Slot>(splits, cut, raised);
        }
        raised
    }

    /// Writes a word at `place`, and shifts the words from there up to `last` by one position to the right.
    /// `read` is the node before and after.
    pub(super) fn shift(
        tile: Tile<W, impl Convergence>,
        shifts: bool,
        node: Node<T::Slot, W, L>,
        read: &mut Lane<T::Slot, L>,
        (place, last): (u32, u32),
        word: WordOf<T>,
    ) {
        let (words, rank) = (read.words(), tile.rank());
        let mut before = tile.shuffle_up(words[L - 1], 1);
        let mut j = 0;
        while j < L {
            let position = Node::<T::Slot, W, L>::position(rank, j);
            if shifts && position >= place && position <= last {
                let word = if position == place { word } else { before };
                node.own(rank, j).store(word, Order::Relaxed, Scope::Device);
                read.put(rank, position, word);
            }
            before = words[j];
            j += 1;
        }
    }

    /// Shifts the words behind `place`, up to `last`, by one position to the left; position `last` becomes
    /// empty. `read` is the node before and after.
    pub(super) fn close(
        tile: Tile<W, impl Convergence>,
        closes: bool,
        node: Node<T::Slot, W, L>,
        read: &mut Lane<T::Slot, L>,
        (place, last): (u32, u32),
    ) {
        let (words, rank) = (read.words(), tile.rank());
        let mut after = tile.shuffle_down(words[0], 1);
        let mut j = L;
        while j > 0 {
            j -= 1;
            let position = Node::<T::Slot, W, L>::position(rank, j);
            if closes && position >= place && position <= last {
                let word = if position == last { T::Slot::EMPTY } else { after };
                node.own(rank, j).store(word, Order::Relaxed, Scope::Device);
                read.put(rank, position, word);
            }
            after = words[j];
        }
    }

    /// Makes `count` sorted pairs contiguous again, after scans have removed some between them. `read` is the
    /// node before and after.
    pub(super) fn close_gaps(
        tile: Tile<W, impl Convergence>,
        closes: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &mut Lane<T::Slot, L>,
        count: u32,
    ) {
        loop {
            let gap =
                read.last(tile.rank(), |position, word| position < count && T::Slot::key(word) > held.high);
            let gaps = tile.ballot(closes && gap.exists);
            if !tile.any_converged(gaps != 0) {
                return;
            }
            let place = tile.shuffle(gap.index, 31 - (gaps | 1).leading_zeros());
            let ends = (place, Node::<T::Slot, W, L>::SLOTS - 1);
            Self::close(tile, gaps != 0, held.node, read, ends);
        }
    }

    /// Splits a full node with sorted words, and puts the new word into the half that covers it.
    fn split_sorted(
        self,
        tile: Tile<W, impl Convergence>,
        splits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        place: u32,
        word: WordOf<T>,
    ) -> IndexEntry<T::Slot> {
        let is_root = held.handle == ROOT;
        let right = self.slab(tile, splits, held, 1);
        let left = self.slab(tile, splits && is_root && !right.is_none(), held, 2);
        let goes = splits && !right.is_none() && (!is_root || !left.is_none());
        if splits && !goes && !right.is_none() && tile.rank() == 0 {
            // mutation: tear unreached, because plans seldom free two slabs at a time: `slab_explore` tests
            // this.
            self.pool.free(right);
        }
        let at = Self::KEPT - (place < Self::KEPT) as u32;
        let own = held.read.last(tile.rank(), |position, _| position == at);
        let kept = tile.shuffle(T::Slot::key(own.word), at / L as u32);
        let separator = if place == Self::KEPT { T::Slot::key(word) } else { kept };
        let share = SplitPlanSorted { word, place, separator, left, right };
        if goes {
            self.fill_sorted(tile.rank(), held, &share);
        }
        tile.sync();
        fence(Scope::Device);
        if goes && tile.rank() == 0 {
            self.link_new_nodes(held, (share.left, share.right), share.separator);
        }
        // mutation: skip barrier performance, because readers do not believe a latched data node, and go on
        // from an earlier entry of an index node that lacks one.
        tile.sync();
        Self::settle_sorted(tile, goes, held, &share);
        ((separator, right), goes)
    }

    /// Writes new nodes except for their headers.
    fn fill_sorted(self, rank: u32, held: &LatchedNode<T::Slot, W, L>, share: &SplitPlanSorted<T::Slot>) {
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let (left, right) = (self.node(share.left), self.node(share.right));
        let put = |to: u32, word: WordOf<T>| {
            if to >= Self::KEPT {
                right.word(to - Self::KEPT).store(word, order, scope);
            } else if !share.left.is_none() {
                // mutation: late performance, because the first lane stores the lowest entry before the tail,
                // and a search that lacks another entry goes on from an earlier one by links.
                left.word(to).store(word, order, scope);
            }
        };
        let mut j = 0;
        while j < L {
            let position = Node::<T::Slot, W, L>::position(rank, j);
            if position < Node::<T::Slot, W, L>::SLOTS {
                put(position + (position >= share.place) as u32, held.read.words()[j]);
            }
            j += 1;
        }
        if rank == 0 {
            put(share.place, share.word);
            // mutation: late unreached, because a look-up comes to a new node for a key behind it only if the
            // next node has no entry, and a range follows no link of a latched node.
            right.tail().store(entry::<T::Slot>(held.high, held.link), order, scope);
            if !share.left.is_none() {
                // mutation: late equivalent, because searches that come to the left half want keys below its
                // high key.
                left.tail().store(entry::<T::Slot>(before(share.separator), share.right), order, scope);
            }
        }
    }

    /// Updates the old node's words once it is linked to the new one: inserts the new word if it belongs
    /// there, and clears those that have moved.
    fn settle_sorted(
        tile: Tile<W, impl Convergence>,
        goes: bool,
        held: &LatchedNode<T::Slot, W, L>,
        share: &SplitPlanSorted<T::Slot>,
    ) {
        let is_root = !share.left.is_none();
        let stays = goes && !is_root && share.place < Self::KEPT;
        let mut read = held.read;
        Self::shift(tile, stays, held.node, &mut read, (share.place, Self::KEPT - 1), share.word);
        let from = if is_root { 2 } else { Self::KEPT };
        let mut j = 0;
        while j < L {
            let position = Node::<T::Slot, W, L>::position(tile.rank(), j);
            if goes && position >= from && position < Node::<T::Slot, W, L>::SLOTS {
                held.node.own(tile.rank(), j).store(T::Slot::EMPTY, Order::Relaxed, Scope::Device);
            }
            j += 1;
        }
    }
}

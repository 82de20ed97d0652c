//! Splits: the upper half of a full node moves into a new one, and the parent learns of it.
//!
//! The tile has the node's latch and takes the parent's, from the leaves up, so that nobody waits in a
//! circle; and it does not wait at all.
//!
//! ```text
//! 1. a slab for the new node                                     else: nothing has happened
//! 2. the parent's latch; is it the parent, and has it room?      else: the slab goes back untouched
//!    a slab for a leaf's version                                 else: nothing has happened
//! 3. new node: pairs, tail                                       nobody knows it
//! 4. fence
//! 5. new node: header. old node: tail (high key, link), one word   from here on the keys beyond have moved
//! 6. parent: its pairs behind the place shift, the new one is put there
//! 7. latches back
//! ```
//!
//! The root has no parent: it moves all it holds into two new nodes, and becomes their parent.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::history::{Kept, Version, Versions};
use super::node::{Meta, Node, Read, entry, handle_of};
use super::tree::{ROOT, Tree, TreeView};
use super::walk::Held;
use crate::keyed::{Scalar, Slot};
use simt::{Convergence, Order, Scope, Thread, Tile, fence};

/// What became of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It is done.
    Done,
    /// The parent is not known, or another's latch is on it.
    Lost,
    /// The parent is full.
    Crowded,
    /// The pool has no slab.
    Starved,
}

/// How a node is cut, as one lane sees it.
pub(crate) struct Halves<S: Slot, const W: u32, const L: usize> {
    /// The pairs in order.
    pub(crate) pairs: Read<S, W, L>,
    /// The lowest key that moves.
    pub(crate) separator: S::Stored,
    /// The place of its pair.
    pub(crate) middle: u32,
}

/// The parent of a node that is split, latched or not.
struct Above<S: Slot, const W: u32, const L: usize> {
    held: Held<S, W, L>,
    has_latch: bool,
    /// It has the node among its children.
    is_true: bool,
    /// The place of the node's pair in it.
    place: u32,
    /// Its pairs.
    count: u32,
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Pairs that stay in the lower half.
    pub(crate) const HALF: u32 = Node::<S, W, L>::SLOTS / 2;

    /// Splits a full node that the tile has latched, where it `splits`, and adds a pair to the half where it
    /// belongs. All lanes of the tile (in lockstep: of the warp) call it together. It gives the node's latch
    /// back.
    #[inline(always)]
    pub(super) fn split<C: Convergence>(
        self,
        tile: Tile<W, C>,
        splits: bool,
        held: &Held<S, W, L>,
        parent: Handle,
        pair: Option<(S::Stored, S::Word)>,
    ) -> Cut {
        let is_root = held.handle == ROOT;
        let (left, right) = self.slabs(tile, splits, is_root, held);
        let has_slabs = splits && !right.is_none();
        let above = self.above(tile, has_slabs && !is_root, held, parent);
        let fits = above.is_true && above.count < Node::<S, W, L>::SLOTS;
        let goes = has_slabs && (is_root || fits);
        if has_slabs && !goes && tile.rank() == 0 {
            self.pool().free(right);
        }
        let (kept, goes_on) = self.keep_split(tile, goes, right, held);
        let halves = Self::halves(tile.afresh(), held);
        self.fill(tile.afresh(), goes_on, held, (left, right), &halves, pair);
        self.found(tile, goes_on, (left, right), &kept, held);
        tile.sync();
        if A::FENCED {
            fence(Scope::Device);
        }
        self.show(tile, goes_on, held, (left, right), &halves);
        tile.sync();
        Self::settle(tile.afresh(), goes_on, held, left, &halves, pair);
        self.date(tile.afresh(), &kept, held.node, right);
        Self::enter(tile.afresh(), goes_on && !is_root, &above, &halves, right);
        tile.sync();
        if splits && tile.rank() == 0 {
            self.part(held, &above, goes_on && is_root);
        }
        match (goes_on, has_slabs && !goes, above.is_true) {
            (true, ..) => Cut::Done,
            (_, false, _) => Cut::Starved,
            (.., true) => Cut::Crowded,
            _ => Cut::Lost,
        }
    }

    /// Gives both latches back, by the calling lane alone: of the node, a level higher where it is the root
    /// that was `raised`, and of the parent. One fence releases both.
    #[inline(always)]
    fn part(self, held: &Held<S, W, L>, above: &Above<S, W, L>, raised: bool) {
        if A::GIVE == Order::Release {
            fence(Scope::Device);
        }
        if above.has_latch {
            above.held.node.release(above.held.meta.level(), Order::Relaxed);
        }
        held.node.release(held.meta.level() + raised as u32, Order::Relaxed);
    }

    /// Latches the parent, unless the walk has done so, and looks whether it is one.
    #[inline(always)]
    fn above<C: Convergence>(
        self,
        tile: Tile<W, C>,
        wanted: bool,
        child: &Held<S, W, L>,
        parent: Handle,
    ) -> Above<S, W, L> {
        let wanted = wanted && !parent.is_none();
        let parent = if wanted { parent } else { ROOT };
        let (held, has_latch) = match A::COUPLED {
            true => (self.held(tile, parent, wanted), wanted),
            false => self.hold(tile, parent, wanted),
        };
        let own = held.read.last(tile.rank(), |position, word| {
            position < Node::<S, W, L>::SLOTS && handle_of(S::value(word)) == child.handle
        });
        let owners = tile.ballot(own.exists);
        let place = tile.shuffle(own.position, owners.trailing_zeros());
        let count = held.read.count(tile, |word| !S::is_empty(word));
        let is_above = held.meta.level() == child.meta.level() + 1;
        Above { held, has_latch, is_true: has_latch && is_above && owners != 0, place, count }
    }

    /// Slabs for the right half, and for the left where the root is split: both, or none.
    #[inline(always)]
    fn slabs<C: Convergence>(
        self,
        tile: Tile<W, C>,
        wanted: bool,
        both: bool,
        held: &Held<S, W, L>,
    ) -> (Handle, Handle) {
        let mut mine = Handle::NONE;
        let takes = wanted && (tile.rank() == 0 || (both && tile.rank() == 1));
        if takes {
            // Nothing of an address: what was explored must replay.
            let seed =
                Thread::index() as u32 ^ (held.low.to_u64() as u32).rotate_right(7) ^ held.meta.level();
            mine = self.pool().allocate(seed).unwrap_or(Handle::NONE);
        }
        let (right, left) = (tile.shuffle(mine, 0), tile.shuffle(mine, 1));
        if both && (right.is_none() || left.is_none()) {
            if takes && !mine.is_none() {
                self.pool().free(mine);
            }
            return (Handle::NONE, Handle::NONE);
        }
        (left, right)
    }

    /// Keeps the version of a leaf before it is split, where the split `goes` on: there is a slab for its
    /// `right` half, which goes back untouched if there is none for the version. Gives too whether the split
    /// goes on.
    #[inline(always)]
    fn keep_split<C: Convergence>(
        self,
        tile: Tile<W, C>,
        goes: bool,
        right: Handle,
        held: &Held<S, W, L>,
    ) -> (Kept, bool) {
        let is_leaf = held.meta.is_leaf();
        if A::Versions::MOVES {
            // The slabs were made blank before they were freed in this launch. The lanes that have allocated
            // them acquire that, and pass it on by the barrier to the lanes that write the new nodes.
            fence(Scope::Device);
            tile.sync();
        }
        let kept = self.keep(tile, goes && is_leaf, held.node, &held.read);
        if !A::Versions::KEEPS {
            return (kept, goes);
        }
        let lacks = goes && is_leaf && !kept.ready;
        if lacks && tile.rank() == 0 {
            self.pool().free(right);
        }
        (kept, goes && !lacks)
    }

    /// Writes what the new nodes say of their time.
    #[inline(always)]
    fn found<C: Convergence>(
        self,
        tile: Tile<W, C>,
        goes_on: bool,
        (left, right): (Handle, Handle),
        kept: &Kept,
        held: &Held<S, W, L>,
    ) {
        if !A::Versions::KEEPS || !goes_on || tile.rank() != 0 {
            return;
        }
        let version = kept.heir::<A::Versions>(self.versions().time().stamp);
        let version = if held.meta.is_leaf() { version } else { Version::FIRST };
        let (order, scope) = (Order::Relaxed, Scope::Device);
        self.node(right).version().store(version.word::<S>(), order, scope);
        if !left.is_none() {
            self.node(left).version().store(version.word::<S>(), order, scope);
        }
    }

    /// Puts the pairs of a full node in order.
    #[inline(always)]
    pub(crate) fn halves<C: Convergence>(tile: Tile<W, C>, held: &Held<S, W, L>) -> Halves<S, W, L> {
        let pairs = held.read.sorted(tile, |_| true);
        let first = pairs.words()[Self::HALF as usize % L];
        let separator = tile.shuffle(S::key(first), Self::HALF / L as u32);
        let middle = held.read.last(tile.rank(), |position, word| {
            position < Node::<S, W, L>::SLOTS && S::key(word) == separator
        });
        let owner = tile.ballot(middle.exists).trailing_zeros();
        Halves { pairs, separator, middle: tile.shuffle(middle.position, owner) }
    }

    /// Whether a pair's place, in order, is of those that move.
    #[inline(always)]
    pub(crate) fn is_upper(place: u32) -> bool {
        Self::HALF <= place && place < Node::<S, W, L>::SLOTS
    }

    /// Writes the new nodes but for their headers.
    #[inline(always)]
    fn fill<C: Convergence>(
        self,
        tile: Tile<W, C>,
        goes_on: bool,
        held: &Held<S, W, L>,
        (left, right): (Handle, Handle),
        halves: &Halves<S, W, L>,
        pair: Option<(S::Stored, S::Word)>,
    ) {
        if !goes_on {
            return;
        }
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let (rank, target) = (tile.rank(), self.node(right));
        let mut j = 0;
        while j < L {
            let (word, place) = (halves.pairs.words()[j], Node::<S, W, L>::position(rank, j));
            if Self::is_upper(place) {
                target.word(place - Self::HALF).store(word, order, scope);
            } else if place < Self::HALF && !left.is_none() {
                self.node(left).word(place).store(word, order, scope);
            }
            j += 1;
        }
        if rank == 0 {
            target.tail().store(entry::<S>(held.high, held.link), order, scope);
            if let Some((_, word)) = pair.filter(|pair| pair.0 > halves.separator) {
                target.word(Node::<S, W, L>::SLOTS - Self::HALF).store(word, order, scope);
            }
            if !left.is_none() {
                self.node(left).tail().store(entry::<S>(halves.high(), right), order, scope);
            }
        }
    }

    /// Makes the new nodes ones, and the old one lead to them.
    #[inline(always)]
    fn show<C: Convergence>(
        self,
        tile: Tile<W, C>,
        goes_on: bool,
        held: &Held<S, W, L>,
        (left, right): (Handle, Handle),
        halves: &Halves<S, W, L>,
    ) {
        if !goes_on || tile.rank() != 0 {
            return;
        }
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let meta = Meta::free(held.meta.level());
        let header = |low| Node::<S, W, L>::header_word(low, meta);
        self.node(right).header().store(header(halves.separator), order, scope);
        if left.is_none() {
            held.node.tail().store(entry::<S>(halves.high(), right), order, scope);
        } else {
            self.node(left).header().store(header(held.low), order, scope);
            held.node.word(0).store(entry::<S>(held.low, left), order, scope);
            held.node.word(1).store(entry::<S>(halves.separator, right), order, scope);
        }
    }

    /// What the old node holds besides, once it leads to the new one: an inner node nothing where pairs have
    /// moved, a leaf the pair that is to be placed, if it belongs there.
    #[inline(always)]
    fn settle<C: Convergence>(
        tile: Tile<W, C>,
        goes_on: bool,
        held: &Held<S, W, L>,
        left: Handle,
        halves: &Halves<S, W, L>,
        pair: Option<(S::Stored, S::Word)>,
    ) {
        let scope = Scope::Device;
        let mut j = 0;
        while j < L {
            let position = Node::<S, W, L>::position(tile.rank(), j);
            let place = held.node.own(tile.rank(), j);
            let is_slot = goes_on && position < Node::<S, W, L>::SLOTS;
            // Pairs of inner nodes stand in order.
            let moved = position >= if left.is_none() { Self::HALF } else { 2 };
            if is_slot && moved && !held.meta.is_leaf() {
                place.store(S::EMPTY, Order::Relaxed, scope);
            }
            if let Some((key, word)) = pair
                && goes_on
                && position == halves.middle
                && key < halves.separator
            {
                // A slot whose pair has moved: see `Latched::place`.
                place.store(word, Order::Release, scope);
            }
            j += 1;
        }
    }

    /// Enters the new node into the parent, behind the old one. Each pair is one word, and all that stand in
    /// a node at any moment are true: so whoever reads amid the shift may be led too far left, and no
    /// further.
    #[inline(always)]
    fn enter<C: Convergence>(
        tile: Tile<W, C>,
        enters: bool,
        above: &Above<S, W, L>,
        halves: &Halves<S, W, L>,
        right: Handle,
    ) {
        // Read again, from the L1 cache: to keep it through the split would take registers.
        let words = above.held.node.read_latched(tile.rank(), enters).words();
        let mut before = tile.shuffle_up(words[L - 1], 1);
        let mut j = 0;
        while j < L {
            let position = Node::<S, W, L>::position(tile.rank(), j);
            if enters && position > above.place && position <= above.count {
                let is_new = position == above.place + 1;
                let word = if is_new { entry::<S>(halves.separator, right) } else { before };
                above.held.node.own(tile.rank(), j).store(word, Order::Relaxed, Scope::Device);
            }
            before = words[j];
            j += 1;
        }
    }
}

impl<S: Slot, const W: u32, const L: usize> Halves<S, W, L> {
    /// The highest key that stays.
    #[inline(always)]
    pub(crate) fn high(&self) -> S::Stored {
        S::Stored::from_u64(self.separator.to_u64().wrapping_sub(1))
    }
}

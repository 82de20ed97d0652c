//! Splits: the upper half of a full node moves into a new one, which is entered into the parent.
//!
//! The tile holds the node's latch and tries the parent's. Latches are taken from the leaves up, so there is
//! no circular wait; and a tile that fails to get the parent's latch does not wait at all.
//!
//! ```text
//! 1. allocate a slab for the new node                              on failure: nothing has happened
//! 2. try the parent's latch; check that it is the parent           on failure: the slab is freed untouched
//!    and is not full
//!    allocate a slab for a leaf's version                          on failure: nothing has happened
//! 3. new node: pairs, tail                                         not reachable yet
//! 4. fence
//! 5. new node: header. old node: tail (high key, link), one word   from here on the keys above have moved
//! 6. parent: pairs behind the position shift, the new one is stored there
//! 7. release the latches
//! ```
//!
//! The root has no parent: it moves all its pairs into two new nodes and becomes their parent.
use crate::keyed::Slot;
use crate::mvbtree::version::Version;
use crate::mvbtree::versions::SavedVersion;
use crate::ordered::access::Access;
use crate::ordered::fixed_nodes::ROOT;
use crate::ordered::latch::LatchedNode;
use crate::ordered::meta::{entry, handle_of};
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::split_plan::SplitPlan;
use crate::ordered::types::{Stored, Types, VersionsOf, WordOf};
use crate::ordered::versioning::Versions;
use crate::slab::{Handle, Pool};
use simt::{Convergence, Order, Scope, Tile, device, fence, recheck};

/// Result of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitResult {
    /// The node was split.
    Done,
    /// The parent is not known, or another tile holds its latch.
    Contended,
    /// The parent is full.
    ParentFull,
    /// The pool has no slab.
    OutOfSlabs,
}

/// The parent of a node that is split, latched or not.
struct LatchedParent<S: Slot, const W: u32, const L: usize> {
    held: LatchedNode<S, W, L>,
    has_latch: bool,
    /// Whether it has the node among its children.
    is_true: bool,
    /// Position of the node's pair in it.
    place: u32,
    /// Number of its pairs.
    count: u32,
}

#[device]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Splits a full node that the tile has latched, if it `splits`, and adds a pair to the half that covers
    /// its key. Releases the node's latch. All lanes of the tile (in lockstep: of the warp) call it together.
    pub(super) fn split(
        self,
        tile: Tile<W, impl Convergence>,
        splits: bool,
        held: &LatchedNode<T::Slot, W, L>,
        parent: Handle,
        pair: Option<(Stored<T>, WordOf<T>)>,
    ) -> SplitResult {
        let is_root = held.handle == ROOT;
        let (left, right) = self.allocate_nodes(tile, splits, is_root, held);
        let has_slabs = splits && !right.is_none();
        let parent_node = self.latch_parent(tile, has_slabs && !is_root, held, parent);
        let fits = parent_node.is_true && parent_node.count < Node::<T::Slot, W, L>::SLOTS;
        let goes = has_slabs && (is_root || fits);
        if has_slabs && !goes && tile.rank() == 0 {
            // mutation: tear unreached, because plans seldom free two slabs at a time: `slab_explore` tests
            // this.
            self.pool.free(right);
        }
        let (saved, goes_on) = self.save_before_split(tile, goes, right, held);
        let plan = Self::plan_split(tile.rematerialize(), held);
        if goes_on {
            self.write_new_nodes(tile.rematerialize().rank(), held, (left, right), &plan, pair);
        }
        self.write_versions(tile, goes_on, (left, right), &saved, held);
        tile.sync();
        fence(Scope::Device);
        if goes_on && tile.rank() == 0 {
            self.link_new_nodes(held, (left, right), plan.separator);
        }
        tile.sync();
        Self::clear_moved(tile.rematerialize(), goes_on, held, left, &plan, pair);
        // mutation: block weak late store 4 equivalent, because items of a bag are read by the participant
        // that has put them there, at a later entry, or by a later one of its slot, which has acquired the
        // slot.
        // mutation: relaxed release Acquire AcqRel equivalent, because a fence follows before what it
        // acquires is needed: the clock, which is read again for its pins.
        // mutation: early load Relaxed 4 equivalent, because the tile has allocated the slab that it retires:
        // its bit is set.
        // mutation: acquire update AcqRel unreached, because no host takes or drops snapshots while
        // explorers' kernels run, and the order is for its number of pins.
        // mutation: early load Acquire equivalent, because the compare-and-swap that follows returns the
        // newer word.
        // mutation: skip tear update Relaxed 4 performance, because a sweep finds versions that are not
        // marked as retired.
        // mutation: tear update AcqRel unreached, because two tiles seldom stamp a new leaf at a time.
        // mutation: skip barrier unreached, because snapshots seldom read a leaf while it is split for a key
        // of its lower half.
        self.stamp_leaf(tile.rematerialize(), &saved, held.node, right);
        Self::insert_into_parent(tile.rematerialize(), goes_on && !is_root, &parent_node, &plan, right);
        tile.sync();
        if splits && tile.rank() == 0 {
            self.release_both(held, &parent_node, goes_on && is_root);
        }
        match (goes_on, has_slabs && !goes, parent_node.is_true) {
            (true, ..) => SplitResult::Done,
            (_, false, _) => SplitResult::OutOfSlabs,
            (.., true) => SplitResult::ParentFull,
            _ => SplitResult::Contended,
        }
    }

    /// Releases both latches, by the calling lane alone: the parent's, and the node's, one level higher if it
    /// is the root that was `raised`. One fence releases both.
    fn release_both(
        self,
        held: &LatchedNode<T::Slot, W, L>,
        parent_node: &LatchedParent<T::Slot, W, L>,
        raised: bool,
    ) {
        fence(Scope::Device);
        if parent_node.has_latch {
            // mutation: late equivalent, because the fence orders both releases, and nothing orders one
            // before the other.
            parent_node.held.node.release(parent_node.held.meta.level(), Order::Relaxed);
        }
        self.release_node(held, raised as u32, false, Order::Relaxed);
    }

    /// Latches the parent, unless a coupled traversal holds its latch already, and checks that it is the
    /// node's parent.
    fn latch_parent(
        self,
        tile: Tile<W, impl Convergence>,
        wanted: bool,
        child: &LatchedNode<T::Slot, W, L>,
        parent: Handle,
    ) -> LatchedParent<T::Slot, W, L> {
        let wanted = wanted && !parent.is_none();
        let parent = if wanted { parent } else { ROOT };
        let (held, has_latch) = match T::Access::COUPLED {
            true => (self.read_latched(tile, parent, wanted), wanted),
            false => self.try_latch(tile, parent, wanted),
        };
        let own = held.read.last(tile.rank(), |position, word| {
            position < Node::<T::Slot, W, L>::SLOTS && handle_of(T::Slot::value(word)) == child.handle
        });
        let owners = tile.ballot(own.exists);
        let place = tile.shuffle(own.index, owners.trailing_zeros());
        let count = held.read.count(tile, |word| !T::Slot::is_empty(word));
        // mutation: skip recheck equivalent, because an inner node that has the node's handle is one level
        // above it, and a parent that is known is an inner node: it stays one.
        let is_above = recheck(held.meta.level() == child.meta.level() + 1);
        let is_parent = is_above && recheck(owners != 0);
        LatchedParent { held, has_latch, is_true: has_latch && is_parent, place, count }
    }

    /// Allocates slabs for the right half and, if the root is split, for the left: both, or none.
    fn allocate_nodes(
        self,
        tile: Tile<W, impl Convergence>,
        wanted: bool,
        both: bool,
        held: &LatchedNode<T::Slot, W, L>,
    ) -> (Handle, Handle) {
        let mut mine = Handle::NONE;
        let takes = wanted && (tile.rank() == 0 || (both && tile.rank() == 1));
        if takes {
            mine = self.allocate_beside(held, held.meta.level());
        }
        let (right, left) = (tile.shuffle(mine, 0), tile.shuffle(mine, 1));
        if both && (right.is_none() || left.is_none()) {
            if takes && !mine.is_none() {
                // mutation: tear block unreached, because plans seldom free two slabs at a time:
                // `slab_explore` tests this.
                self.pool.free(mine);
            }
            return (Handle::NONE, Handle::NONE);
        }
        (left, right)
    }

    /// Saves the version of a leaf before it is split, if the split `goes` on, i.e. has a slab for its
    /// `right` half. That slab is freed untouched if there is none for the version. Also returns whether the
    /// split goes on.
    fn save_before_split(
        self,
        tile: Tile<W, impl Convergence>,
        goes: bool,
        right: Handle,
        held: &LatchedNode<T::Slot, W, L>,
    ) -> (SavedVersion, bool) {
        let is_leaf = held.meta.is_leaf();
        if VersionsOf::<T>::CLOCK_MOVES {
            // The slabs were made blank before they were freed in this launch. The lanes that have allocated
            // them acquire those writes; the fence and the barrier pass them on to the lanes that write the
            // new nodes.
            fence(Scope::Device);
            tile.sync();
        }
        // mutation: early load 4 unreached, because plans refuse few changes while slabs are freed:
        // `slab_explore` tests the look at the bitmap.
        // mutation: relaxed block weak early release acquire tear load update Acquire AcqRel Relaxed 8 16
        // unreached, because plans seldom split a leaf that was split off and is not stamped yet.
        let saved = self.save_version(tile, goes && is_leaf, held.node, &held.read);
        if !VersionsOf::<T>::VERSIONED {
            return (saved, goes);
        }
        let lacks = goes && is_leaf && !saved.ready;
        if lacks && tile.rank() == 0 {
            // mutation: tear unreached, because plans seldom free two slabs at a time: `slab_explore` tests
            // this.
            self.pool.free(right);
        }
        (saved, goes && !lacks)
    }

    /// Writes the versions of the new nodes.
    fn write_versions(
        self,
        tile: Tile<W, impl Convergence>,
        goes_on: bool,
        (left, right): (Handle, Handle),
        saved: &SavedVersion,
        held: &LatchedNode<T::Slot, W, L>,
    ) {
        if !VersionsOf::<T>::VERSIONED || !goes_on || tile.rank() != 0 {
            return;
        }
        // mutation: early equivalent, because where the clock moves, the new leaf is unstamped: the time is
        // not used.
        let version = saved.sibling_version::<VersionsOf<T>>(self.versions.time().stamp);
        let version = if held.meta.is_leaf() { version } else { Version::FIRST };
        let (order, scope) = (Order::Relaxed, Scope::Device);
        // mutation: late equivalent, because readers take a node with a blank version for no leaf yet, and
        // read it again.
        self.node(right).version().store(version.word::<T::Slot>(), order, scope);
        if !left.is_none() {
            // mutation: late skip equivalent, because the node is no leaf, and only leaves' versions are
            // read.
            self.node(left).version().store(version.word::<T::Slot>(), order, scope);
        }
    }

    /// Updates the old node's pairs once it is linked to the new one: clears those of an inner node that have
    /// moved, and places the new pair in a leaf that covers its key.
    fn clear_moved(
        tile: Tile<W, impl Convergence>,
        goes_on: bool,
        held: &LatchedNode<T::Slot, W, L>,
        left: Handle,
        plan: &SplitPlan<T::Slot, W, L>,
        pair: Option<(Stored<T>, WordOf<T>)>,
    ) {
        let scope = Scope::Device;
        let mut j = 0;
        while j < L {
            let position = Node::<T::Slot, W, L>::position(tile.rank(), j);
            let place = held.node.own(tile.rank(), j);
            let is_slot = goes_on && position < Node::<T::Slot, W, L>::SLOTS;
            // Pairs of inner nodes are sorted.
            let moved = position >= if left.is_none() { Self::HALF } else { 2 };
            if is_slot && moved && !held.meta.is_leaf() {
                place.store(T::Slot::EMPTY, Order::Relaxed, scope);
            }
            if let Some((key, word)) = pair
                && goes_on
                && position == plan.middle
                && key < plan.separator
            {
                // This slot's pair has moved: see `write_slot`.
                // mutation: relaxed 16 unreached, because the test that reads tails weakly has pairs of 8
                // bytes.
                place.store(word, Order::Release, scope);
            }
            j += 1;
        }
    }

    /// Enters the new node into the parent, behind the old one. Each pair is one word, and every pair in the
    /// node is valid at any moment. So a tile that reads during the shift may be led too far left, never too
    /// far right.
    fn insert_into_parent(
        tile: Tile<W, impl Convergence>,
        enters: bool,
        parent_node: &LatchedParent<T::Slot, W, L>,
        plan: &SplitPlan<T::Slot, W, L>,
        right: Handle,
    ) {
        // Read again, from the L1 cache: to keep it through the split would take registers.
        // mutation: early equivalent, because no other tile changes the entries of a latched node.
        let words = parent_node.held.node.read_latched(tile.rank(), enters).words();
        let mut before = tile.shuffle_up(words[L - 1], 1);
        let mut j = 0;
        while j < L {
            let position = Node::<T::Slot, W, L>::position(tile.rank(), j);
            if enters && position > parent_node.place && position <= parent_node.count {
                let is_new = position == parent_node.place + 1;
                let word = if is_new { entry::<T::Slot>(plan.separator, right) } else { before };
                parent_node.held.node.own(tile.rank(), j).store(word, Order::Relaxed, Scope::Device);
            }
            before = words[j];
            j += 1;
        }
    }
}

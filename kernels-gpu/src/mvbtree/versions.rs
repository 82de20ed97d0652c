//! Versions of leaves: the version word of a node, and the clock that advances while kernels run. See
//! `docs/structures/multiversion-b-tree.md`.
use super::version::{Stamp, Version};
use crate::keyed::{Lane, Slot};
use crate::ordered::access::Access;
use crate::ordered::meta::Meta;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Types, VersionsOf};
use crate::ordered::versioning::{LATEST, Versions};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Order, Scope, Tile, device};

/// A leaf whose version has been saved, so that the leaf may change.
#[derive(Clone, Copy, Debug)]
pub struct SavedVersion {
    /// Whether the leaf may change.
    pub ready: bool,
    /// The copy, or none.
    copy: Handle,
    /// Version of the leaf before the change.
    before: Version,
}

impl SavedVersion {
    /// Returns the version of a leaf that is split off: its previous version is the copy of the leaf from
    /// which it was split.
    #[device]
    pub fn sibling_version<V: Versions>(self, now: u32) -> Version {
        let stamp = if V::CLOCK_MOVES { Stamp::UNSTAMPED } else { Stamp(now) };
        if self.copy.is_none() { self.before } else { Version { stamp, old: self.copy } }
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Whether the words read from a leaf may be of another version than the one at the read timestamp.
    #[device]
    pub(crate) fn may_read_other_version(self) -> bool {
        VersionsOf::<T>::CLOCK_MOVES
            || (VersionsOf::<T>::VERSIONED && self.versions.read_timestamp() != LATEST)
    }

    /// Returns the order in which pairs are stored: a reader of the past that sees a pair must see that the
    /// leaf has a new version.
    #[device]
    pub(crate) fn pair_order(self) -> Order {
        let is_read = VersionsOf::<T>::VERSIONED && self.versions.protected_below() > 0;
        if is_read { Order::Release } else { Order::Relaxed }
    }

    /// Takes a timestamp, by the calling lane alone: the stamp from which it advances the clock. If another
    /// thread advances the clock first, the stamp that the lane had read is valid as well, because it was
    /// current during this call.
    #[device]
    fn take_timestamp(self) -> u32 {
        let versions = self.versions;
        let time = versions.time();
        let mut word = time.stamp as u64 | (time.pins as u64) << 32;
        loop {
            // mutation: release equivalent, because a fence follows before leaves are read.
            match versions.advance_clock(word) {
                Ok(from) => return from as u32,
                Err(found) if found as u32 == word as u32 => word = found,
                Err(_) => return word as u32,
            }
        }
    }

    /// Takes a snapshot for the tile, inside an epoch. Returns its stamp, at which [`Self::at`] reads until
    /// the participant leaves the epoch. Returns [`LATEST`] if the clock does not move while kernels run.
    pub fn snapshot(self, tile: Tile<W, impl Convergence>) -> u32 {
        let mut stamp = 0;
        // A lane that arrives later may have seen newer state: the timestamp must lie within its call too.
        tile.sync();
        if tile.rank() == 0 {
            stamp = self.take_timestamp();
            // The reader's fence: see `order_clock`.
            Self::order_clock();
        }
        // After this barrier, each lane reads after the clock has moved.
        tile.sync();
        tile.shuffle(stamp, 0)
    }

    /// Orders what the calling lane knows of a leaf's change before its read of the clock, and a snapshot's
    /// advance of the clock before its reads of leaves.
    ///
    /// A writer stores a pair and then reads the clock; a snapshot advances the clock and then reads pairs.
    /// If the writer reads the clock's old value, the snapshot must see the pair. This is the store-buffering
    /// pattern: each side writes one word and then reads the other side's word. Only sequentially consistent
    /// fences between the two accesses of both sides forbid the bad result. A third thread that has seen the
    /// writer's change and reads the clock in the writer's stead needs such a fence as well. Release and
    /// acquire do not suffice, and neither does waiting for the results of read-modify-writes.
    fn order_clock() {
        if VersionsOf::<T>::CLOCK_MOVES {
            simt::fence_sc(Scope::Device);
        }
    }

    /// Returns a leaf's version, by the calling lane alone, and stamps it first if it is unstamped.
    fn stamped_version(self, node: Node<T::Slot, W, L>) -> Version {
        let mut word = node.version().load(Order::Acquire, Scope::Device);
        loop {
            let version = Version::of::<T::Slot>(word);
            if !VersionsOf::<T>::CLOCK_MOVES || version.stamp != Stamp::UNSTAMPED {
                return version;
            }
            Self::order_clock();
            let fixed = Version { stamp: Stamp(self.versions.time().stamp), ..version };
            // Releases the read of the clock: the writer may read the clock again, for its pins, and must not
            // find an older value.
            match node.version().compare_exchange(word, fixed.word::<T::Slot>(), Order::AcqRel, Scope::Device)
            {
                Ok(_) => return fixed,
                Err(found) => word = found,
            }
        }
    }

    /// Returns the pairs of a leaf at the tree's read timestamp, for a tile that has `read` its newest
    /// version and `wants` them, and whether the node is a leaf yet. The version word is read after the pairs
    /// of all lanes.
    #[device]
    pub(crate) fn as_of(
        self,
        tile: Tile<W, impl Convergence>,
        node: Node<T::Slot, W, L>,
        wants: bool,
        read: Lane<T::Slot, L>,
    ) -> (Lane<T::Slot, L>, bool) {
        let at = self.versions.read_timestamp();
        // mutation: skip barrier unreached, because explorers order reads after those of other lanes that
        // have voted before.
        tile.sync();
        let mut version = Version::FIRST;
        if wants && tile.rank() == 0 {
            // mutation: block skip fence unreached, because the effect needs a writer that is delayed before
            // its own fence, and a second reader whose snapshot the clock's old value does not precede.
            // mutation: relaxed release load update Acquire AcqRel unreached, because explorers order a
            // lane's reads as if the address of each depended on those before it, and copies are found by the
            // address in this word.
            // mutation: acquire update AcqRel unreached, because no host takes or drops snapshots while
            // explorers' kernels run, and the order is for its number of pins.
            version = self.stamped_version(node);
        }
        version = version.from(tile, 0);
        let is_leaf = version.stamp != Stamp::BLANK;
        let mut source = Handle::NONE;
        while tile.any_converged(wants && version.is_newer_than(at)) {
            if wants && version.is_newer_than(at) {
                source = version.old;
                if tile.rank() == 0 {
                    // mutation: block relaxed equivalent, because the load of the leaf's version has acquired
                    // all older ones: a writer has acquired them before it saves the next.
                    version = Version::of::<T::Slot>(
                        self.node(source).version().load(Order::Acquire, Scope::Device),
                    );
                }
            }
            version = version.from(tile, 0);
        }
        if !tile.any_converged(!source.is_none()) {
            return (read, is_leaf);
        }
        let older = self.node(source).read_rarely(tile.rank(), !source.is_none(), Order::Relaxed);
        (if source.is_none() { read } else { older }, is_leaf)
    }

    /// Saves the version of a leaf that the tile has latched and is about to change, if it `changes`: copies
    /// the leaf if a snapshot may read that version. All lanes of the tile (in lockstep: of the warp) call it
    /// together.
    pub(crate) fn save_version(
        self,
        tile: Tile<W, impl Convergence>,
        changes: bool,
        node: Node<T::Slot, W, L>,
        read: &Lane<T::Slot, L>,
    ) -> SavedVersion {
        let none = SavedVersion { ready: changes, copy: Handle::NONE, before: Version::FIRST };
        if !VersionsOf::<T>::VERSIONED {
            return none;
        }
        let mut before = Version::of_leaf(tile, read);
        let copies = changes && before.is_protected(self.versions.protected_below());
        if !tile.any_converged(copies) {
            return SavedVersion { before, ..none };
        }
        let (mut copy, tile) = (Handle::NONE, tile.rematerialize());
        if copies && tile.rank() == 0 {
            // A leaf that was split off may still be unstamped.
            before = self.stamped_version(node);
            copy = self.pool.allocate(Self::seed(before)).unwrap_or(Handle::NONE);
        }
        (before, copy) = (before.from(tile, 0), tile.shuffle(copy, 0));
        if VersionsOf::<T>::CLOCK_MOVES {
            // The slab was made blank before it was freed. The lane that has allocated the slab acquires that
            // write; the fence and the barrier pass it on to the lanes that write the copy.
            simt::fence(Scope::Device);
            tile.sync();
        }
        if !copy.is_none() {
            self.write_copy(self.node(copy), tile.rank(), read, before);
        }
        tile.sync();
        if T::Access::CONCURRENT {
            // Readers that follow the link must see the copy.
            simt::fence(Scope::Device);
        }
        if !copy.is_none() && tile.rank() == 0 {
            let now = || Stamp(self.versions.time().stamp);
            let stamp = if VersionsOf::<T>::CLOCK_MOVES { Stamp::PENDING } else { now() };
            let marked = Version { stamp, old: copy }.word::<T::Slot>();
            // Ordered by the fence of all lanes above.
            node.version().store(marked, Order::Relaxed, Scope::Device);
        }
        tile.sync();
        SavedVersion { ready: changes && !(copies && copy.is_none()), copy, before }
    }

    /// Returns the seed of the slab search. It depends on no address, so that explored schedules replay.
    #[device]
    fn seed(before: Version) -> u32 {
        simt::Thread::index() as u32 ^ before.stamp.0.rotate_right(9) ^ before.old.to_word()
    }

    /// Writes a lane's words of a copy.
    fn write_copy(self, copy: Node<T::Slot, W, L>, rank: u32, read: &Lane<T::Slot, L>, before: Version) {
        let mut j = 0;
        while j < L {
            let (mut word, position) = (read.words()[j], Node::<T::Slot, W, L>::position(rank, j));
            if position == Node::<T::Slot, W, L>::HEADER {
                word = Node::<T::Slot, W, L>::header_word(T::Slot::key(word), Meta::OLD);
            } else if position == Node::<T::Slot, W, L>::VERSION {
                word = before.word::<T::Slot>();
            }
            copy.own(rank, j).store(word, Order::Relaxed, Scope::Device);
            j += 1;
        }
    }

    /// Stamps a leaf whose change is complete, and the leaf that was split off from it, if it was split. All
    /// lanes of the tile (in lockstep: of the warp) call it together.
    pub(crate) fn stamp_leaf(
        self,
        tile: Tile<W, impl Convergence>,
        saved: &SavedVersion,
        node: Node<T::Slot, W, L>,
        right: Handle,
    ) {
        if !VersionsOf::<T>::CLOCK_MOVES || !tile.any_converged(!saved.copy.is_none()) {
            return;
        }
        tile.sync();
        if !saved.copy.is_none() && tile.rank() == 0 {
            self.stamp_leaf_by_one_lane(saved, node, right);
        }
    }

    fn stamp_leaf_by_one_lane(self, saved: &SavedVersion, node: Node<T::Slot, W, L>, right: Handle) {
        let (place, versions) = (node.version(), self.versions);
        let word = |stamp| Version { stamp, old: saved.copy }.word::<T::Slot>();
        // mutation: tear update Release equivalent, because no other tile changes the version of a leaf that
        // is pending: the tile holds its latch, and others stamp only unstamped leaves.
        // mutation: relaxed update Release unreached, because the effect needs a third tile that stamps the
        // leaf before the writer's fence, and two snapshots that then disagree about the pair.
        // mutation: tear update Relaxed 16 unreached, because plans for pairs of 16 bytes have fewer seeds.
        let swap = |old, new, order| place.compare_exchange(old, new, order, Scope::Device).is_ok();
        // Only the latch holder changes a pending leaf. The release publishes the pair; the clock is read
        // after it.
        swap(word(Stamp::PENDING), word(Stamp::UNSTAMPED), Order::Release);
        Self::order_clock();
        let mut time = versions.time();
        // No snapshot can read the state between two changes with the same stamp.
        let unlinks = right.is_none() && Stamp(time.stamp) == saved.before.stamp;
        let fixed = if unlinks { saved.before.word::<T::Slot>() } else { word(Stamp(time.stamp)) };
        let is_own = swap(word(Stamp::UNSTAMPED), fixed, Order::Relaxed);
        if !right.is_none() {
            self.stamped_version(self.node(right));
        }
        if !is_own || !right.is_none() {
            // Acquires, from the thread that stamped the leaf instead, what that thread had read of the
            // clock.
            simt::fence(Scope::Device);
            time = versions.time();
        }
        // Host snapshots taken from now on are not older than the leaf's current version.
        if time.pins == 0 || (is_own && unlinks) {
            // SAFETY: this tree's pool, in which `save_version` has allocated the copy for this change; no
            // reader that starts later needs it.
            unsafe { versions.retire(self.pool, saved.copy) };
        }
    }
}

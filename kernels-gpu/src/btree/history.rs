//! Versions of leaves: the version word of a node, and the clock that advances while kernels run. See
//! `docs/structures/multiversion-b-tree.md`.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::node::{Node, Read, entry, handle_of};
use super::tree::{Tree, TreeView};
use crate::keyed::{Scalar, Slot};
use crate::reclaim::{Blocks, Epochs, FaultPolicy, Group, NoFaults, Participant, Slabs};
use core::marker::PhantomData;
use simt::{Convergence, Global, Order, Scope, Shuffle, Tile, device};

/// Stamp of a blank slab.
const BLANK: u32 = u32::MAX;
/// Stamp of a leaf that a writer is changing.
const PENDING: u32 = u32::MAX - 1;
/// Stamp of a leaf whose change is complete but has no timestamp yet.
const UNSTAMPED: u32 = u32::MAX - 2;
/// Largest timestamp. A read at this timestamp returns the current state.
pub const LATEST: u32 = u32::MAX - 3;

/// Slots of the kind `S` in nodes that have a version word.
#[derive(Clone, Copy, Debug)]
pub struct Versioned<S>(PhantomData<S>);

// SAFETY: every method delegates to `S`.
#[device]
unsafe impl<S: Slot> Slot for Versioned<S> {
    type Key = S::Key;
    type Value = S::Value;
    type Stored = S::Stored;
    type Word = S::Word;
    type Chunk = S::Chunk;
    const EMPTY: S::Word = S::EMPTY;
    const RESERVED: u32 = S::RESERVED;
    const PUBLISHES: bool = S::PUBLISHES;
    const HAS_VALUE: bool = S::HAS_VALUE;
    const BESIDE: u32 = 1;

    fn pack(key: S::Stored, value: S::Value) -> S::Word {
        S::pack(key, value)
    }

    fn key(word: S::Word) -> S::Stored {
        S::key(word)
    }

    fn value(word: S::Word) -> S::Value {
        S::value(word)
    }

    fn claim(slot: Global<S::Word>, pair: S::Word) -> bool {
        S::claim(slot, pair)
    }

    fn erase(slot: Global<S::Word>, key: S::Stored) -> bool {
        S::erase(slot, key)
    }

    fn value_part(slot: Global<S::Word>) -> Global<S::Value> {
        S::value_part(slot)
    }

    fn read_value(slot: Global<S::Word>, word: S::Word) -> S::Value {
        S::read_value(slot, word)
    }
}

/// Version word of a leaf: the timestamp since which the leaf has its current content, and a handle of the
/// previous version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    stamp: u32,
    /// The previous version, or none.
    pub old: Handle,
}

#[device]
impl Version {
    /// A version that has existed since the beginning, with no previous one.
    pub const FIRST: Self = Self { stamp: 0, old: Handle::NONE };

    /// Decodes a version word.
    pub fn of<S: Slot>(word: S::Word) -> Self {
        Self { stamp: S::key(word).to_u64() as u32, old: handle_of(S::value(word)) }
    }

    /// Encodes the version as a word.
    pub fn word<S: Slot>(self) -> S::Word {
        entry::<S>(S::Stored::from_u64(self.stamp as u64), self.old)
    }

    /// Returns this version with `old` as its previous version.
    pub fn before(self, old: Handle) -> Self {
        Self { old, ..self }
    }

    /// Broadcasts the version that `lane` holds to the whole tile.
    #[device(caller)]
    pub fn from<const W: u32, C: Convergence>(self, tile: Tile<W, C>, lane: u32) -> Self {
        Self { stamp: tile.shuffle(self.stamp, lane), old: tile.shuffle(self.old, lane) }
    }

    /// Whether a reader at timestamp `at` needs an older version, and there is one.
    pub fn is_newer_than(self, at: u32) -> bool {
        self.stamp > at && !self.old.is_none()
    }

    /// Whether a snapshot with a stamp below `since` may read this version.
    pub fn is_protected(self, since: u32) -> bool {
        self.stamp < since
    }

    /// Returns the timestamp, if the leaf is stamped.
    pub fn stamp(self) -> Option<u32> {
        if self.stamp <= LATEST { Some(self.stamp) } else { None }
    }
}

/// Value of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Number of snapshots taken so far.
    pub stamp: u32,
    /// Number of live host snapshots.
    pub pins: u32,
}

impl Time {
    /// Decodes the clock's word.
    #[device]
    pub const fn of(word: u64) -> Self {
        Self { stamp: word as u32, pins: (word >> 32) as u32 }
    }
}

/// Increment of the clock's word that counts one more live host snapshot.
pub const PIN: u64 = 1 << 32;

/// Raw parts of a [`Versions`] view.
#[derive(Clone, Copy, Debug)]
pub struct RawVersions {
    /// The clock's word: see [`Time`].
    pub clock: *mut u64,
    /// Value of the clock, where it does not move while kernels run.
    pub now: u32,
    /// One more than the stamp of the newest live host snapshot; 0 if there is none.
    pub since: u32,
    /// Timestamp at which kernels read: [`LATEST`], a snapshot's stamp, or [`FROM_PIN`].
    pub at: u32,
    /// Location of the read timestamp if `at` is [`FROM_PIN`].
    pub pin: *mut u32,
    /// Memory of the epochs.
    pub epochs: *mut u64,
    /// Number of participant slots of the epochs.
    pub places: u32,
    /// Capacity of each bag of the epochs, in items.
    pub room: u32,
}

impl RawVersions {
    /// The parts of a tree without versions.
    pub const NOTHING: Self = Self {
        clock: core::ptr::null_mut(),
        now: 0,
        since: 0,
        at: LATEST,
        pin: core::ptr::null_mut(),
        epochs: core::ptr::null_mut(),
        places: 0,
        room: 0,
    };
}

/// Value of [`RawVersions::at`] that makes kernels read at the timestamp in a pin's word in device memory.
pub const FROM_PIN: u32 = u32::MAX;

/// Versioning of leaves.
#[device]
pub trait Versions: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Whether leaves have versions.
    const VERSIONED: bool;
    /// Whether snapshots are taken while kernels run.
    const CLOCK_MOVES: bool;

    /// Creates the view that kernels take.
    ///
    /// # Safety
    /// - The pointers lead to words of device memory that live as long as the view is used: the clock's, the
    ///   pin's, and those of [`Epochs::new`], which states its own requirements.
    unsafe fn new(parts: RawVersions) -> Self;

    /// Returns the timestamp at which the view reads.
    fn read_timestamp(self) -> u32;

    /// Returns the same view, reading at another timestamp.
    fn at_timestamp(self, at: u32) -> Self;

    /// Returns the stamp below which versions must not be changed in place.
    fn protected_below(self) -> u32;

    /// Reads the clock.
    fn time(self) -> Time;

    /// Advances the clock if it still has the value `from`, and returns that value. Otherwise returns the
    /// current value as the error.
    fn advance_clock(self, from: u64) -> Result<u64, u64>;

    /// Enters an epoch, by all threads of the participant (see [`Group`]).
    ///
    /// # Safety
    /// - `pool` is the one from which the versions' copies are allocated.
    unsafe fn enter<P: Pool>(self, _pool: P) {}

    /// Leaves the epoch.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    unsafe fn leave<P: Pool>(self, _pool: P) {}

    /// Leaves the epoch and enters another one. Persistent kernels do so between two rounds.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    unsafe fn repin<P: Pool>(self, _pool: P) {}

    /// Retires a copy, by the calling lane alone: it is freed when no participant can hold it any more. A
    /// copy that is not retired stays linked behind its leaf until a sweep finds that no snapshot can read
    /// it.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    /// - `copy` is a live copy of these versions. A reader that starts later does not need it. It is retired
    ///   once.
    unsafe fn retire<P: Pool>(self, _pool: P, _copy: Handle) {}
}

/// No versions: the plain tree.
#[derive(Clone, Copy, Debug)]
pub struct Unversioned;

#[device]
impl Versions for Unversioned {
    const VERSIONED: bool = false;
    const CLOCK_MOVES: bool = false;

    unsafe fn new(_parts: RawVersions) -> Self {
        Self
    }

    fn read_timestamp(self) -> u32 {
        LATEST
    }

    fn at_timestamp(self, _at: u32) -> Self {
        self
    }

    fn protected_below(self) -> u32 {
        0
    }

    fn time(self) -> Time {
        Time::of(0)
    }

    fn advance_clock(self, from: u64) -> Result<u64, u64> {
        Ok(from)
    }
}

/// In place: the clock does not move while kernels run, and its value is passed with the launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FixedClock {
    now: u32,
    since: u32,
    at: u32,
}

#[device]
impl Versions for FixedClock {
    const VERSIONED: bool = true;
    const CLOCK_MOVES: bool = false;

    unsafe fn new(parts: RawVersions) -> Self {
        Self { now: parts.now, since: parts.since, at: parts.at }
    }

    fn read_timestamp(self) -> u32 {
        self.at
    }

    fn at_timestamp(self, at: u32) -> Self {
        Self { at, ..self }
    }

    fn protected_below(self) -> u32 {
        self.since
    }

    fn time(self) -> Time {
        Time { stamp: self.now, pins: (self.since > 0) as u32 }
    }

    /// The clock stands still while kernels run: a read at [`LATEST`] returns what a snapshot taken after the
    /// kernel will contain.
    fn advance_clock(self, _from: u64) -> Result<u64, u64> {
        Ok(LATEST as u64)
    }
}

/// Out of place: the clock is a word of device memory, which hosts and kernels advance while others run.
/// Copies are reclaimed by epochs, whose participants are groups of type `G`.
#[repr(C)]
#[derive(Debug)]
pub struct MovingClock<G = Blocks, R = NoFaults> {
    clock: Global<u64>,
    pin: Global<u32>,
    epochs: Epochs,
    at: u32,
    of: PhantomData<(G, R)>,
}

impl<G, R> Clone for MovingClock<G, R> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<G, R> Copy for MovingClock<G, R> {}

// SAFETY: pointers to device memory, and marker types without values.
unsafe impl<G, R> Send for MovingClock<G, R> {}
// SAFETY: as above.
unsafe impl<G, R> Sync for MovingClock<G, R> {}

impl<G: Group + core::fmt::Debug, R: FaultPolicy + core::fmt::Debug> MovingClock<G, R> {
    /// Returns the calling group's participant.
    ///
    /// # Safety
    /// - As for [`Versions::enter`].
    #[device]
    unsafe fn participant<P: Pool>(self, pool: P) -> Participant<G, Slabs<P>, R> {
        // SAFETY: by the caller's promise, all participants of these epochs retire copies, which are slabs of
        // the pool.
        unsafe { Participant::opened(self.epochs, Slabs(pool)) }
    }
}

#[device(caller)]
impl<G: Group + core::fmt::Debug, R: FaultPolicy + core::fmt::Debug> Versions for MovingClock<G, R> {
    const VERSIONED: bool = true;
    const CLOCK_MOVES: bool = true;

    #[device]
    unsafe fn new(parts: RawVersions) -> Self {
        let RawVersions { clock, pin, epochs, places, room, at, .. } = parts;
        // SAFETY: the caller's promise; all accesses of words that kernels share are atomic.
        unsafe {
            let (clock, pin) = (Global::new(clock), Global::new(pin));
            Self { clock, pin, epochs: Epochs::new(epochs, places, room), at, of: PhantomData }
        }
    }

    fn read_timestamp(self) -> u32 {
        if self.at == FROM_PIN { self.pin.load(Order::Acquire, Scope::Device) } else { self.at }
    }

    #[device]
    fn at_timestamp(self, at: u32) -> Self {
        Self { at, ..self }
    }

    /// Every version is copied.
    #[device]
    fn protected_below(self) -> u32 {
        u32::MAX
    }

    fn time(self) -> Time {
        // The caller's fence orders this load, where what the caller has seen of a leaf must be older than
        // the clock's value.
        Time::of(self.clock.load(Order::Relaxed, Scope::Device))
    }

    fn advance_clock(self, from: u64) -> Result<u64, u64> {
        if from as u32 >= LATEST {
            return Ok(from);
        }
        self.clock.compare_exchange(from, from + 1, Order::AcqRel, Scope::Device)
    }

    unsafe fn enter<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        unsafe { self.participant(pool) }.begun().enter();
    }

    unsafe fn leave<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        let process = unsafe { self.participant(pool) };
        process.leave();
        process.close();
    }

    unsafe fn repin<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        let process = unsafe { self.participant(pool) };
        process.leave();
        process.enter();
    }

    unsafe fn retire<P: Pool>(self, pool: P, copy: Handle) {
        // SAFETY: the caller's promise.
        unsafe { self.participant(pool).retire(copy.to_word()) };
    }
}

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
        let stamp = if V::CLOCK_MOVES { UNSTAMPED } else { now };
        if self.copy.is_none() { self.before } else { Version { stamp, old: self.copy } }
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Returns the tree at a snapshot's timestamp, for reading only. With [`LATEST`] it is the current state.
    pub fn at(self, at: u32) -> Self {
        self.with_versions(self.versions().at_timestamp(at))
    }

    /// Whether the words read from a leaf may be of another version than the one at the read timestamp.
    #[device]
    pub(super) fn may_read_other_version(self) -> bool {
        A::Versions::CLOCK_MOVES || (A::Versions::VERSIONED && self.versions().read_timestamp() != LATEST)
    }

    /// Returns the order in which pairs are stored: a reader of the past that sees a pair must see that the
    /// leaf has a new version.
    #[device]
    pub(super) fn pair_order(self) -> Order {
        let is_read = A::Versions::VERSIONED && self.versions().protected_below() > 0;
        if is_read { Order::Release } else { Order::Relaxed }
    }

    /// Takes a timestamp, by the calling lane alone: the stamp from which it advances the clock. If another
    /// thread advances the clock first, the stamp that the lane had read is valid as well, because it was
    /// current during this call.
    #[device]
    fn take_timestamp(self) -> u32 {
        let versions = self.versions();
        let time = versions.time();
        let mut word = time.stamp as u64 | (time.pins as u64) << 32;
        loop {
            match versions.advance_clock(word) {
                Ok(from) => return from as u32,
                Err(found) if found as u32 == word as u32 => word = found,
                Err(found) => return if A::TRUE_MOMENTS { word as u32 } else { found as u32 },
            }
        }
    }

    /// Takes a snapshot for the tile, inside an epoch. Returns its stamp, at which [`Self::at`] reads until
    /// the participant leaves the epoch. Returns [`LATEST`] if the clock does not move while kernels run.
    pub fn snapshot<C: Convergence>(self, tile: Tile<W, C>) -> u32 {
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
        if A::Versions::CLOCK_MOVES {
            simt::fence_sc(Scope::Device);
        }
    }

    /// Returns a leaf's version, by the calling lane alone, and stamps it first if it is unstamped. Without
    /// `helps` it does not stamp the leaf, and an unstamped version counts as old.
    fn stamped_version(self, node: Node<S, W, L>, helps: bool) -> Version {
        let mut word = node.version().load(Order::Acquire, Scope::Device);
        loop {
            let version = Version::of::<S>(word);
            if !A::Versions::CLOCK_MOVES || version.stamp != UNSTAMPED {
                return version;
            }
            if !helps {
                return Version { stamp: 0, ..version };
            }
            Self::order_clock();
            let fixed = Version { stamp: self.versions().time().stamp, ..version };
            // Releases the read of the clock: the writer may read the clock again, for its pins, and must not
            // find an older value.
            match node.version().compare_exchange(word, fixed.word::<S>(), Order::AcqRel, Scope::Device) {
                Ok(_) => return fixed,
                Err(found) => word = found,
            }
        }
    }

    /// Returns the pairs of a leaf at the tree's read timestamp, for a tile that has `read` its newest
    /// version and `wants` them, and whether the node is a leaf yet. The version word is read after the pairs
    /// of all lanes.
    #[device]
    pub(super) fn as_of<C: Convergence>(
        self,
        tile: Tile<W, C>,
        node: Node<S, W, L>,
        wants: bool,
        read: Read<S, W, L>,
    ) -> (Read<S, W, L>, bool) {
        let at = self.versions().read_timestamp();
        tile.sync();
        let mut version = Version::FIRST;
        if wants && tile.rank() == 0 {
            version = self.stamped_version(node, A::STAMPS);
        }
        version = version.from(tile, 0);
        let is_leaf = version.stamp != BLANK;
        let mut source = Handle::NONE;
        while tile.any_converged(wants && version.is_newer_than(at)) {
            if wants && version.is_newer_than(at) {
                source = version.old;
                if tile.rank() == 0 {
                    version =
                        Version::of::<S>(self.node(source).version().load(Order::Acquire, Scope::Device));
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
    pub(super) fn save_version<C: Convergence>(
        self,
        tile: Tile<W, C>,
        changes: bool,
        node: Node<S, W, L>,
        read: &Read<S, W, L>,
    ) -> SavedVersion {
        let none = SavedVersion { ready: changes, copy: Handle::NONE, before: Version::FIRST };
        if !A::Versions::VERSIONED {
            return none;
        }
        let mut before = read.version(tile);
        let copies = changes && before.is_protected(self.versions().protected_below());
        if !tile.any_converged(copies) {
            return SavedVersion { before, ..none };
        }
        let (mut copy, tile) = (Handle::NONE, tile.rematerialize());
        if copies && tile.rank() == 0 {
            // A leaf that was split off may still be unstamped.
            before = self.stamped_version(node, true);
            copy = self.pool().allocate(Self::seed(before)).unwrap_or(Handle::NONE);
        }
        (before, copy) = (before.from(tile, 0), tile.shuffle(copy, 0));
        if A::Versions::CLOCK_MOVES {
            // The slab was made blank before it was freed. The lane that has allocated the slab acquires that
            // write; the fence and the barrier pass it on to the lanes that write the copy.
            simt::fence(Scope::Device);
            tile.sync();
        }
        if !copy.is_none() {
            self.write_copy(self.node(copy), tile.rank(), read, before);
        }
        tile.sync();
        if A::FENCED {
            simt::fence(Scope::Device);
        }
        if !copy.is_none() && tile.rank() == 0 {
            let stamp = if A::Versions::CLOCK_MOVES { PENDING } else { self.versions().time().stamp };
            let marked = Version { stamp, old: copy }.word::<S>();
            // Ordered by the fence of all lanes above.
            node.version().store(marked, Order::Relaxed, Scope::Device);
        }
        tile.sync();
        SavedVersion { ready: changes && !(copies && copy.is_none()), copy, before }
    }

    /// Returns the seed of the slab search. It depends on no address, so that explored schedules replay.
    #[device]
    fn seed(before: Version) -> u32 {
        simt::Thread::index() as u32 ^ before.stamp.rotate_right(9) ^ before.old.to_word()
    }

    /// Writes a lane's words of a copy.
    fn write_copy(self, copy: Node<S, W, L>, rank: u32, read: &Read<S, W, L>, before: Version) {
        let mut j = 0;
        while j < L {
            let (mut word, position) = (read.words()[j], Node::<S, W, L>::position(rank, j));
            if position == Node::<S, W, L>::HEADER {
                word = Node::<S, W, L>::header_word(S::key(word), super::node::Meta::OLD);
            } else if position == Node::<S, W, L>::VERSION {
                word = before.word::<S>();
            }
            copy.own(rank, j).store(word, Order::Relaxed, Scope::Device);
            j += 1;
        }
    }

    /// Stamps a leaf whose change is complete, and the leaf that was split off from it, if it was split. All
    /// lanes of the tile (in lockstep: of the warp) call it together.
    pub(super) fn stamp_leaf<C: Convergence>(
        self,
        tile: Tile<W, C>,
        saved: &SavedVersion,
        node: Node<S, W, L>,
        right: Handle,
    ) {
        if !A::Versions::CLOCK_MOVES || !tile.any_converged(!saved.copy.is_none()) {
            return;
        }
        tile.sync();
        if !saved.copy.is_none() && tile.rank() == 0 {
            self.stamp_leaf_by_one_lane(saved, node, right);
        }
    }

    fn stamp_leaf_by_one_lane(self, saved: &SavedVersion, node: Node<S, W, L>, right: Handle) {
        let (place, versions) = (node.version(), self.versions());
        let word = |stamp| Version { stamp, old: saved.copy }.word::<S>();
        let swap = |old, new, order| place.compare_exchange(old, new, order, Scope::Device).is_ok();
        // Only the latch holder changes a pending leaf. The release publishes the pair; the clock is read
        // after it.
        swap(word(PENDING), word(UNSTAMPED), Order::Release);
        Self::order_clock();
        let mut time = versions.time();
        // No snapshot can read the state between two changes with the same stamp.
        let unlinks = right.is_none() && time.stamp == saved.before.stamp;
        let fixed = if unlinks { saved.before.word::<S>() } else { word(time.stamp) };
        let is_own = swap(word(UNSTAMPED), fixed, Order::Relaxed);
        if !right.is_none() {
            self.stamped_version(self.node(right), true);
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
            unsafe { versions.retire(self.pool(), saved.copy) };
        }
    }
}

impl Shuffle for Version {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self { stamp: word(self.stamp), old: self.old.map_words(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::{Packed, Wide};

    #[test]
    fn words_say_what_they_were_made_of() {
        let version = Version { stamp: 7, old: Handle::from_word(9) };
        assert_eq!(Version::of::<Packed>(version.word::<Packed>()), version);
        assert_eq!(Version::of::<Wide<u64, u32>>(version.word::<Wide<u64, u32>>()), version);
        assert_eq!(Version::of::<Wide<u64, u64>>(Wide::<u64, u64>::EMPTY).stamp, BLANK);
        assert_eq!(Version::of::<Packed>(Packed::EMPTY).stamp(), None);
    }

    #[test]
    fn what_has_no_stamp_is_newer_than_everything() {
        for stamp in [PENDING, UNSTAMPED] {
            assert!(Version { stamp, old: Handle::from_word(0) }.is_newer_than(LATEST));
        }
        assert!(!Version::FIRST.is_newer_than(0), "there is none before");
        assert_eq!(Time::of(3 * PIN + 5), Time { stamp: 5, pins: 3 });
    }
}

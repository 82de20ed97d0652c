//! Versions of leaves: what a node says of its time, and how time goes on while kernels run. See
//! `docs/structures/multiversion-b-tree.md`.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::node::{Node, Read, entry, handle_of};
use super::tree::{Tree, TreeView};
use crate::keyed::{Scalar, Slot};
use crate::reclaim::{Blocks, Epochs, Group, Process, Rules, Slabs, Sound};
use core::marker::PhantomData;
use simt::{Convergence, Global, Order, Scope, Shuffle, Tile};

/// The stamp of a blank slab.
const BLANK: u32 = u32::MAX;
/// A writer is at the leaf.
const PENDING: u32 = u32::MAX - 1;
/// A writer is done, and the time is not fixed yet.
const UNSTAMPED: u32 = u32::MAX - 2;
/// The last moment there is: who reads as of it reads what is there now.
pub const LATEST: u32 = u32::MAX - 3;

/// Slots of the kind `S` in nodes that have a word for their version.
#[derive(Clone, Copy, Debug)]
pub struct Dated<S>(PhantomData<S>);

// SAFETY: all of it is what `S` does.
unsafe impl<S: Slot> Slot for Dated<S> {
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

    #[inline(always)]
    fn pack(key: S::Stored, value: S::Value) -> S::Word {
        S::pack(key, value)
    }

    #[inline(always)]
    fn key(word: S::Word) -> S::Stored {
        S::key(word)
    }

    #[inline(always)]
    fn value(word: S::Word) -> S::Value {
        S::value(word)
    }

    #[inline(always)]
    fn claim(slot: Global<S::Word>, pair: S::Word) -> bool {
        S::claim(slot, pair)
    }

    #[inline(always)]
    fn erase(slot: Global<S::Word>, key: S::Stored) -> bool {
        S::erase(slot, key)
    }

    #[inline(always)]
    fn value_place(slot: Global<S::Word>) -> Global<S::Value> {
        S::value_place(slot)
    }

    #[inline(always)]
    fn settle(slot: Global<S::Word>, word: S::Word) -> S::Value {
        S::settle(slot, word)
    }
}

/// What a leaf says of its time: since when it is as it is, and where it is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    stamp: u32,
    /// The version before, or none.
    pub old: Handle,
}

impl Version {
    /// Since ever.
    pub const FIRST: Self = Self { stamp: 0, old: Handle::NONE };

    /// What a word says.
    #[inline(always)]
    pub fn of<S: Slot>(word: S::Word) -> Self {
        Self { stamp: S::key(word).to_u64() as u32, old: handle_of(S::value(word)) }
    }

    /// As a word.
    #[inline(always)]
    pub fn word<S: Slot>(self) -> S::Word {
        entry::<S>(S::Stored::from_u64(self.stamp as u64), self.old)
    }

    /// Of the same time, behind which lies `old`.
    #[inline(always)]
    pub fn before(self, old: Handle) -> Self {
        Self { old, ..self }
    }

    /// What a lane knows, in all.
    #[inline(always)]
    #[track_caller]
    pub fn from<const W: u32, C: Convergence>(self, tile: Tile<W, C>, lane: u32) -> Self {
        Self { stamp: tile.shuffle(self.stamp, lane), old: tile.shuffle(self.old, lane) }
    }

    /// Whether who reads as of `at` finds an older version behind it, and needs that one.
    #[inline(always)]
    pub fn is_newer_than(self, at: u32) -> bool {
        self.stamp > at && !self.old.is_none()
    }

    /// Whether a snapshot up to `since` less one may read it as it is.
    #[inline(always)]
    pub fn is_before(self, since: u32) -> bool {
        self.stamp < since
    }

    /// The stamp, if it is one.
    #[inline(always)]
    pub fn stamp(self) -> Option<u32> {
        if self.stamp <= LATEST { Some(self.stamp) } else { None }
    }
}

/// What the clock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Snapshots that were taken before.
    pub stamp: u32,
    /// Those of hosts that live.
    pub pins: u32,
}

impl Time {
    /// What the clock's word says.
    #[inline(always)]
    pub const fn of(word: u64) -> Self {
        Self { stamp: word as u32, pins: (word >> 32) as u32 }
    }
}

/// A clock, a snapshot more: how far the word of the clock goes on where a host takes one.
pub const PIN: u64 = 1 << 32;

/// What views of versions are made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// A word: see [`Time`].
    pub clock: *mut u64,
    /// What the clock says, where it stands still.
    pub now: u32,
    /// The newest live snapshot of a host, and one more; 0: there is none.
    pub since: u32,
    /// As of when kernels read: [`LATEST`], a snapshot's stamp, or [`FROM_PIN`].
    pub at: u32,
    /// Where the stamp lies, where it is [`FROM_PIN`]: as of when kernels read.
    pub pin: *mut u32,
    /// The memory of epochs.
    pub epochs: *mut u64,
    /// Their places.
    pub places: u32,
    /// Their room.
    pub room: u32,
}

impl Parts {
    /// Those of trees without versions.
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

/// As of the stamp that a pin's word in device memory says.
pub const FROM_PIN: u32 = u32::MAX;

/// How versions are kept.
pub trait Versions: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Whether leaves have versions.
    const KEEPS: bool;
    /// Whether snapshots are taken while kernels run.
    const MOVES: bool;

    /// The view that kernels take.
    ///
    /// # Safety
    /// - The pointers lead to words of device memory that live as long as it is used: the clock's, the pin's,
    ///   and those of [`Epochs::new`], which says what it asks.
    unsafe fn new(parts: Parts) -> Self;

    /// As of when is read.
    fn at(self) -> u32;

    /// The same, of which is read as of another moment.
    fn as_of(self, at: u32) -> Self;

    /// What must not change where it is: versions of stamps below it.
    fn since(self) -> u32;

    /// What the clock says.
    fn time(self) -> Time;

    /// Moves the clock on from what it says, if it still does. Returns what it says otherwise.
    fn tick(self, from: u64) -> Result<u64, u64>;

    /// Enters an epoch, by all threads of the process (see [`Group`]).
    ///
    /// # Safety
    /// - `pool` is the one from which the versions' copies are allocated.
    #[inline(always)]
    unsafe fn enter<P: Pool>(self, _pool: P) {}

    /// Leaves it.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    #[inline(always)]
    unsafe fn leave<P: Pool>(self, _pool: P) {}

    /// Leaves it, and enters another one: what kernels that stay do between two of their rounds.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    #[inline(always)]
    unsafe fn breathe<P: Pool>(self, _pool: P) {}

    /// Lets a copy be freed when nobody can have it any more, by the calling lane alone. Where that is not
    /// done, what hangs behind a leaf stays until a sweep finds that nobody can ask for it.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    /// - `copy` is a live copy of these versions. Who does not read it yet needs it no more. It is retired
    ///   once.
    #[inline(always)]
    unsafe fn retire<P: Pool>(self, _pool: P, _copy: Handle) {}
}

/// No versions: the plain tree.
#[derive(Clone, Copy, Debug)]
pub struct Unversioned;

impl Versions for Unversioned {
    const KEEPS: bool = false;
    const MOVES: bool = false;

    #[inline(always)]
    unsafe fn new(_parts: Parts) -> Self {
        Self
    }

    #[inline(always)]
    fn at(self) -> u32 {
        LATEST
    }

    #[inline(always)]
    fn as_of(self, _at: u32) -> Self {
        self
    }

    #[inline(always)]
    fn since(self) -> u32 {
        0
    }

    #[inline(always)]
    fn time(self) -> Time {
        Time::of(0)
    }

    #[inline(always)]
    fn tick(self, from: u64) -> Result<u64, u64> {
        Ok(from)
    }
}

/// In place: the clock stands still while kernels run, and what they must know of it comes with the launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    now: u32,
    since: u32,
    at: u32,
}

impl Versions for Fixed {
    const KEEPS: bool = true;
    const MOVES: bool = false;

    #[inline(always)]
    unsafe fn new(parts: Parts) -> Self {
        Self { now: parts.now, since: parts.since, at: parts.at }
    }

    #[inline(always)]
    fn at(self) -> u32 {
        self.at
    }

    #[inline(always)]
    fn as_of(self, at: u32) -> Self {
        Self { at, ..self }
    }

    #[inline(always)]
    fn since(self) -> u32 {
        self.since
    }

    #[inline(always)]
    fn time(self) -> Time {
        Time { stamp: self.now, pins: (self.since > 0) as u32 }
    }

    /// It stands still: who reads now reads what will be there when it is moved next.
    #[inline(always)]
    fn tick(self, _from: u64) -> Result<u64, u64> {
        Ok(LATEST as u64)
    }
}

/// Out of place: the clock is a word of device memory, which hosts and kernels move while others run. Copies
/// go by epochs of processes of the group `G`.
#[repr(C)]
#[derive(Debug)]
pub struct Moving<G = Blocks, R = Sound> {
    clock: Global<u64>,
    pin: Global<u32>,
    epochs: Epochs,
    at: u32,
    of: PhantomData<(G, R)>,
}

impl<G, R> Clone for Moving<G, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<G, R> Copy for Moving<G, R> {}

// SAFETY: pointers to device memory, and types that are none.
unsafe impl<G, R> Send for Moving<G, R> {}
// SAFETY: as above.
unsafe impl<G, R> Sync for Moving<G, R> {}

impl<G: Group + core::fmt::Debug, R: Rules + core::fmt::Debug> Moving<G, R> {
    /// # Safety
    /// - As for [`Versions::enter`].
    #[inline(always)]
    unsafe fn process<P: Pool>(self, pool: P) -> Process<G, Slabs<P>, R> {
        // SAFETY: the caller's: all processes of these epochs retire copies, which are slabs of the pool.
        unsafe { Process::opened(self.epochs, Slabs(pool)) }
    }
}

impl<G: Group + core::fmt::Debug, R: Rules + core::fmt::Debug> Versions for Moving<G, R> {
    const KEEPS: bool = true;
    const MOVES: bool = true;

    #[inline(always)]
    unsafe fn new(parts: Parts) -> Self {
        let Parts { clock, pin, epochs, places, room, at, .. } = parts;
        // SAFETY: the caller's promise; all accesses of words that kernels share are atomic.
        unsafe {
            let (clock, pin) = (Global::new(clock), Global::new(pin));
            Self { clock, pin, epochs: Epochs::new(epochs, places, room), at, of: PhantomData }
        }
    }

    #[inline(always)]
    #[track_caller]
    fn at(self) -> u32 {
        if self.at == FROM_PIN { self.pin.load(Order::Acquire, Scope::Device) } else { self.at }
    }

    #[inline(always)]
    fn as_of(self, at: u32) -> Self {
        Self { at, ..self }
    }

    /// Everything is copied.
    #[inline(always)]
    fn since(self) -> u32 {
        u32::MAX
    }

    #[inline(always)]
    #[track_caller]
    fn time(self) -> Time {
        // Ordered by the caller's fence, where what it has seen of a leaf must be older than what it reads
        // here.
        Time::of(self.clock.load(Order::Relaxed, Scope::Device))
    }

    #[inline(always)]
    #[track_caller]
    fn tick(self, from: u64) -> Result<u64, u64> {
        if from as u32 >= LATEST {
            return Ok(from);
        }
        self.clock.compare_exchange(from, from + 1, Order::AcqRel, Scope::Device)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn enter<P: Pool>(self, pool: P) {
        // SAFETY: the caller's.
        unsafe { self.process(pool) }.begun().enter();
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn leave<P: Pool>(self, pool: P) {
        // SAFETY: the caller's.
        let process = unsafe { self.process(pool) };
        process.leave();
        process.close();
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn breathe<P: Pool>(self, pool: P) {
        // SAFETY: the caller's.
        let process = unsafe { self.process(pool) };
        process.leave();
        process.enter();
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn retire<P: Pool>(self, pool: P, copy: Handle) {
        // SAFETY: the caller's.
        unsafe { self.process(pool).retire(copy.to_word()) };
    }
}

/// A leaf whose version is kept, so that it may change.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// It may.
    pub ready: bool,
    /// The copy, or none.
    copy: Handle,
    /// What the leaf said of its time.
    before: Version,
}

impl Kept {
    /// What a leaf that is split off hangs on to: what it was split from.
    #[inline(always)]
    pub fn heir<V: Versions>(self, now: u32) -> Version {
        let stamp = if V::MOVES { UNSTAMPED } else { now };
        if self.copy.is_none() { self.before } else { Version { stamp, old: self.copy } }
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// The tree as of a snapshot's moment, for those who only read. [`LATEST`]: as it is now.
    #[inline(always)]
    #[track_caller]
    pub fn at(self, at: u32) -> Self {
        self.with_versions(self.versions().as_of(at))
    }

    /// Whether what is read of a leaf may be of another version than the one that is asked for.
    #[inline(always)]
    pub(super) fn doubts(self) -> bool {
        A::Versions::MOVES || (A::Versions::KEEPS && self.versions().at() != LATEST)
    }

    /// The order in which pairs are stored: who reads the past and sees a pair must see that the leaf has a
    /// new version.
    #[inline(always)]
    pub(super) fn pair_order(self) -> Order {
        let is_read = A::Versions::KEEPS && self.versions().since() > 0;
        if is_read { Order::Release } else { Order::Relaxed }
    }

    /// A moment, by the calling lane alone: that when the clock moves. Where somebody else moves it
    /// meanwhile, that is one of this call's too.
    #[inline(always)]
    #[track_caller]
    fn moment(self) -> u32 {
        let versions = self.versions();
        let time = versions.time();
        let mut word = time.stamp as u64 | (time.pins as u64) << 32;
        loop {
            match versions.tick(word) {
                Ok(from) => return from as u32,
                Err(found) if found as u32 == word as u32 => word = found,
                Err(found) => return if A::TRUE_MOMENTS { word as u32 } else { found as u32 },
            }
        }
    }

    /// Takes a snapshot for the tile, inside of an epoch: its stamp, as of which [`Self::at`] reads until the
    /// process leaves. Where the clock stands still while kernels run it is [`LATEST`].
    #[inline(always)]
    #[track_caller]
    pub fn snapshot<C: Convergence>(self, tile: Tile<W, C>) -> u32 {
        let mut stamp = 0;
        // A lane that comes later may have seen more than there is now: the moment is one of its call too.
        tile.sync();
        if tile.rank() == 0 {
            stamp = self.moment();
            // The reader's half: see `order_clock`.
            Self::order_clock();
        }
        // What a lane reads from here on it reads after the clock has moved.
        tile.sync();
        tile.shuffle(stamp, 0)
    }

    /// Orders what the calling lane knows of a leaf's change before its look at the clock; and a snapshot's
    /// move of the clock before its reads of leaves.
    ///
    /// A writer stores a pair and then reads the clock; a snapshot moves the clock and then reads pairs. If
    /// the writer reads the clock as it was before, the snapshot must see the pair. Two accesses that are
    /// each followed by a read of the other's word ("store buffering") are so ordered only by sequentially
    /// consistent fences between the two accesses of both sides; and by one in whoever has learnt of the
    /// change from the writer and reads the clock in its place. Releases and acquires do not suffice, and
    /// awaiting the results of read-modify-writes does not either.
    #[inline(always)]
    #[track_caller]
    fn order_clock() {
        if A::Versions::MOVES {
            simt::fence_sc(Scope::Device);
        }
    }

    /// What a leaf says of its time, which is fixed if it was not, by the calling lane alone. Who does not
    /// help takes it for old.
    #[inline(always)]
    #[track_caller]
    fn fixed(self, node: Node<S, W, L>, helps: bool) -> Version {
        let mut word = node.version().load(Order::Acquire, Scope::Device);
        loop {
            let version = Version::of::<S>(word);
            if !A::Versions::MOVES || version.stamp != UNSTAMPED {
                return version;
            }
            if !helps {
                return Version { stamp: 0, ..version };
            }
            Self::order_clock();
            let fixed = Version { stamp: self.versions().time().stamp, ..version };
            // Releases the look at the clock: the writer may look again, for pins, and must not find less.
            match node.version().compare_exchange(word, fixed.word::<S>(), Order::AcqRel, Scope::Device) {
                Ok(_) => return fixed,
                Err(found) => word = found,
            }
        }
    }

    /// The pairs of a leaf as of the tree's moment, for a tile that has `read` its newest version and `wants`
    /// them. Its version is read after the pairs of all lanes. Gives too whether it is a leaf yet.
    #[inline(always)]
    #[track_caller]
    pub(super) fn as_of<C: Convergence>(
        self,
        tile: Tile<W, C>,
        node: Node<S, W, L>,
        wants: bool,
        read: Read<S, W, L>,
    ) -> (Read<S, W, L>, bool) {
        let at = self.versions().at();
        tile.sync();
        let mut version = Version::FIRST;
        if wants && tile.rank() == 0 {
            version = self.fixed(node, A::STAMPS);
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

    /// Keeps the version of a leaf that the tile has latched and is about to change, where it `changes` it:
    /// copies it, if somebody may ask for it. All lanes of the tile (in lockstep: of the warp) call it
    /// together.
    #[inline(always)]
    #[track_caller]
    pub(super) fn keep<C: Convergence>(
        self,
        tile: Tile<W, C>,
        changes: bool,
        node: Node<S, W, L>,
        read: &Read<S, W, L>,
    ) -> Kept {
        let none = Kept { ready: changes, copy: Handle::NONE, before: Version::FIRST };
        if !A::Versions::KEEPS {
            return none;
        }
        let mut before = read.version(tile);
        let copies = changes && before.is_before(self.versions().since());
        if !tile.any_converged(copies) {
            return Kept { before, ..none };
        }
        let (mut copy, tile) = (Handle::NONE, tile.afresh());
        if copies && tile.rank() == 0 {
            // A node that was split off may not have its stamp yet.
            before = self.fixed(node, true);
            copy = self.pool().allocate(Self::seed(before)).unwrap_or(Handle::NONE);
        }
        (before, copy) = (before.from(tile, 0), tile.shuffle(copy, 0));
        if A::Versions::MOVES {
            // The slab was made blank before it was freed. The lane that has allocated it acquires that, and
            // passes it on by the barrier to the lanes that write the copy.
            simt::fence(Scope::Device);
            tile.sync();
        }
        if !copy.is_none() {
            self.copy_into(self.node(copy), tile.rank(), read, before);
        }
        tile.sync();
        if A::FENCED {
            simt::fence(Scope::Device);
        }
        if !copy.is_none() && tile.rank() == 0 {
            let stamp = if A::Versions::MOVES { PENDING } else { self.versions().time().stamp };
            let marked = Version { stamp, old: copy }.word::<S>();
            // Behind the fence of all lanes.
            node.version().store(marked, Order::Relaxed, Scope::Device);
        }
        tile.sync();
        Kept { ready: changes && !(copies && copy.is_none()), copy, before }
    }

    /// Where the search for a slab begins. Nothing of an address: what was explored must replay.
    #[inline(always)]
    fn seed(before: Version) -> u32 {
        simt::Thread::index() as u32 ^ before.stamp.rotate_right(9) ^ before.old.to_word()
    }

    /// Writes a lane's words of a copy.
    #[inline(always)]
    #[track_caller]
    fn copy_into(self, copy: Node<S, W, L>, rank: u32, read: &Read<S, W, L>, before: Version) {
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

    /// Fixes the time of a leaf's change, which is complete; and of the node that was split off from it,
    /// where it was split. All lanes of the tile (in lockstep: of the warp) call it together.
    #[inline(always)]
    #[track_caller]
    pub(super) fn date<C: Convergence>(
        self,
        tile: Tile<W, C>,
        kept: &Kept,
        node: Node<S, W, L>,
        right: Handle,
    ) {
        if !A::Versions::MOVES || !tile.any_converged(!kept.copy.is_none()) {
            return;
        }
        tile.sync();
        if !kept.copy.is_none() && tile.rank() == 0 {
            self.date_alone(kept, node, right);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn date_alone(self, kept: &Kept, node: Node<S, W, L>, right: Handle) {
        let (place, versions) = (node.version(), self.versions());
        let word = |stamp| Version { stamp, old: kept.copy }.word::<S>();
        let swap = |old, new, order| place.compare_exchange(old, new, order, Scope::Device).is_ok();
        // Nobody but who has the latch changes a leaf that is pending. The release shows the pair before, and
        // the clock is read after.
        swap(word(PENDING), word(UNSTAMPED), Order::Release);
        Self::order_clock();
        let mut time = versions.time();
        // Nobody can ask for what was between two changes at one stamp.
        let unlinks = right.is_none() && time.stamp == kept.before.stamp;
        let fixed = if unlinks { kept.before.word::<S>() } else { word(time.stamp) };
        let is_own = swap(word(UNSTAMPED), fixed, Order::Relaxed);
        if !right.is_none() {
            self.fixed(self.node(right), true);
        }
        if !is_own || !right.is_none() {
            // Acquires from whoever has fixed the time instead what it had read of the clock.
            simt::fence(Scope::Device);
            time = versions.time();
        }
        // Snapshots of hosts from now on are not older than the leaf is now.
        if time.pins == 0 || (is_own && unlinks) {
            // SAFETY: this tree's pool, in which `keep` has allocated the copy for this change; nobody who
            // begins to read later needs it.
            unsafe { versions.retire(self.pool(), kept.copy) };
        }
    }
}

impl Shuffle for Version {
    #[inline(always)]
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

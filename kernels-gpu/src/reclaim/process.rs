//! A process: enters, leaves, retires, frees, looks.
use super::super::slab::{Handle, Pool};
use super::epochs::{Announcement, Epochs};
use super::group::Group;
use core::marker::PhantomData;
use simt::{Global, Order, Scope, Shared, SharedShape, fence, pause};

/// Who owns what is retired: items are 32 bits.
pub trait Owner: Copy {
    /// Makes an item ready to be had by others, by the calling lane alone. A fence follows before [`Self::free`].
    fn clear(self, item: u32);

    /// Gives it back.
    fn free(self, item: u32);

    /// Takes an item that no bag has room for: it is freed when no kernel runs.
    fn shelve(self, item: u32);
}

/// The slabs of a pool, blank when they are free. Items are [`Handle`]s. In the emulator a freed slab is poisoned until it is allocated again.
#[derive(Clone, Copy, Debug)]
pub struct Slabs<P>(pub P);

impl<P: Pool> Owner for Slabs<P> {
    #[inline(always)]
    #[track_caller]
    fn clear(self, item: u32) {
        let handle = Handle::from_word(item);
        if self.0.number(handle).is_none() {
            simt::trap();
        }
        // SAFETY: the pool has the slab, and nothing but it is written below.
        let slab = unsafe { self.0.slab(handle) };
        let mut word = 0;
        while word < P::BYTES / 8 {
            // SAFETY: two words of a slab, whose first is aligned to 16 bytes.
            unsafe { slab.offset(word).store_vec([u64::MAX; 2], Order::Relaxed, Scope::Device) };
            word += 2;
        }
    }

    #[inline(always)]
    #[track_caller]
    fn free(self, item: u32) {
        let handle = Handle::from_word(item);
        // SAFETY: nothing is accessed.
        simt::poison(|| unsafe { self.0.slab(handle) }, P::BYTES, item);
        self.0.free(handle);
    }

    #[inline(always)]
    #[track_caller]
    fn shelve(self, item: u32) {
        self.0.retire(Handle::from_word(item));
    }
}

/// What a process does, so that tests can take it away.
pub trait Rules: Copy + Send + Sync + 'static {
    /// Whether it looks for others before it ends an epoch.
    const LOOKS: bool = true;
    /// It looks in one of so many entries.
    const SELDOM: u32 = 2;
}

/// What is right.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Rules for Sound {}

/// Words of a process in shared memory before its bags.
const PLACE: usize = 0;
const CURRENT: usize = 1;
const EPOCH: usize = 2;
const LATE: usize = 3;
const ENTRIES: usize = 4;
/// Counts of the bags: of all that was put in, since the bag was empty.
const COUNTS: usize = 5;
/// The epoch that is entered.
const NEXT: usize = 8;
/// Items retired and freed that are not told yet.
const RETIRED: usize = 9;
const FREED: usize = 10;
const HEAD: usize = 11;

/// Among the words that a place keeps, behind the epoch, the bag in use and three counts: entries.
const KEPT_ENTRIES: usize = 5;

/// The shared memory of a block's processes.
struct Bags<G>(PhantomData<G>);

impl<G: Group> SharedShape for Bags<G> {
    type Word = u32;
    const LEN: usize = G::A_BLOCK * (HEAD + 3 * G::BAG);
}

/// A process of the group `G` that keeps the rules `R`: the calling thread's.
///
/// All its threads open it, enter, leave and close together. Between, any of its lanes may retire.
///
/// ```
/// use phalanx_kernels::reclaim::{Blocks, Epochs, Owner, Process};
///
/// /// Takes items out of a list, which others may still read, and lets them be freed when nobody does.
/// fn take_out<O: Owner>(epochs: Epochs, owner: O, rounds: u32, take: impl Fn(u32) -> Option<u32>) {
///     let process = Process::<Blocks, _>::open(epochs, owner);
///     for round in 0..rounds {
///         process.enter();
///         if let Some(item) = take(round) {
///             process.retire(item);
///         }
///         process.leave();
///     }
///     process.close();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Process<G, O, R = Sound> {
    epochs: Epochs,
    owner: O,
    of: PhantomData<(G, R)>,
}

impl<G: Group, O: Owner> Process<G, O> {
    /// Takes a place for the process. As many can be open as there are places; who finds none waits until one is closed.
    #[inline(always)]
    #[track_caller]
    pub fn open(epochs: Epochs, owner: O) -> Self {
        Self::opened(epochs, owner).begun()
    }
}

impl<G: Group, O: Owner, R: Rules> Process<G, O, R> {
    /// The process that the calling thread has opened already.
    #[inline(always)]
    pub fn opened(epochs: Epochs, owner: O) -> Self {
        Self { epochs, owner, of: PhantomData }
    }

    #[inline(always)]
    #[track_caller]
    fn words(self) -> Shared<u32> {
        Shared::of::<Bags<G>>()
    }

    /// Where a word of the process lies.
    #[inline(always)]
    fn at(self, word: usize) -> usize {
        let number = if G::A_BLOCK == 1 { 0 } else { G::number() as usize };
        number * (HEAD + 3 * G::BAG) + word
    }

    #[inline(always)]
    #[track_caller]
    fn get(self, word: usize) -> u32 {
        self.words().load(self.at(word))
    }

    #[inline(always)]
    #[track_caller]
    fn set(self, word: usize, value: u32) {
        self.words().store(self.at(word), value);
    }

    /// [`Process::open`], by these rules.
    #[inline(always)]
    #[track_caller]
    pub fn begun(self) -> Self {
        if G::rank() == 0 {
            let place = self.claim();
            self.set(PLACE, place);
            self.set(EPOCH, self.epochs.kept(place, 0).load(Order::Relaxed, Scope::Device));
            self.set(CURRENT, self.epochs.kept(place, 1).load(Order::Relaxed, Scope::Device) % 3);
            // Those who come and go look as often as those who stay: not all at once, and one that is alone in its grid, which is always the first, too.
            let entries = self.epochs.kept(place, KEPT_ENTRIES).load(Order::Relaxed, Scope::Device);
            self.set(ENTRIES, entries.wrapping_add(G::index()));
            self.set(RETIRED, 0);
            self.set(FREED, 0);
            let mut bag = 0;
            while bag < 3 {
                let kept = self.epochs.kept(place, 2 + bag).load(Order::Relaxed, Scope::Device);
                // What is kept lies in device memory: behind what shared memory has room for.
                self.set(COUNTS + bag, if kept > 0 { G::BAG as u32 + kept } else { 0 });
                bag += 1;
            }
        }
        G::sync();
        self.hollow();
        self
    }

    /// Items that were kept begin behind the bag's part in shared memory, which is then empty: marks it so.
    #[inline(always)]
    #[track_caller]
    fn hollow(self) {
        let mut index = G::rank() as usize;
        while index < 3 * G::BAG {
            self.set(HEAD + index, NOTHING);
            index += G::size() as usize;
        }
        G::sync();
    }

    /// A free place, from the one on that is likely to be.
    #[inline(always)]
    #[track_caller]
    fn claim(self) -> u32 {
        let mut place = G::index() % self.epochs.places();
        loop {
            let (free, quiet) = (Announcement::FREE.word(), Announcement::QUIET.word());
            let announcement = self.epochs.announcement(place);
            if announcement.compare_exchange(free, quiet, Order::Acquire, Scope::Device).is_ok() {
                return place;
            }
            place = if place + 1 == self.epochs.places() { 0 } else { place + 1 };
            pause(20);
        }
    }

    /// Enters: what is reached from now on stays until the process leaves.
    #[inline(always)]
    #[track_caller]
    pub fn enter(self) {
        G::sync();
        if G::rank() == 0 {
            let (epoch, place) = (self.epochs.now(), self.get(PLACE));
            let word = Announcement::within(epoch).word();
            self.epochs.announcement(place).exchange(word, Order::AcqRel, Scope::Device);
            fence(Scope::Device);
            let entries = self.get(ENTRIES).wrapping_add(1);
            self.set(ENTRIES, entries);
            self.set(NEXT, epoch);
            self.set(LATE, if entries.is_multiple_of(R::SELDOM) { 0 } else { 1 });
        }
        G::sync();
        let (place, epoch) = (self.get(PLACE), self.get(NEXT));
        let behind = epoch.wrapping_sub(self.get(EPOCH)) & (u32::MAX >> 2);
        let turns = if behind < 3 { behind } else { 3 };
        self.look(epoch);
        let mut turn = 0;
        while turn < turns {
            self.turn(place);
            turn += 1;
        }
        G::sync();
        if G::rank() == 0 {
            self.set(EPOCH, epoch);
            if turns > 0 {
                self.tell();
            }
        }
        G::sync();
    }

    /// Adds what was retired and freed to the counters, by one thread.
    #[inline(always)]
    #[track_caller]
    fn tell(self) {
        let (retired, freed) = (self.get(RETIRED), self.get(FREED));
        if retired > 0 {
            self.epochs.count_retired(retired);
            self.set(RETIRED, 0);
        }
        if freed > 0 {
            self.epochs.count_reclaimed(freed);
            self.set(FREED, 0);
        }
    }

    /// Ends the epoch if no process is in an older one: now and then, together.
    #[inline(always)]
    #[track_caller]
    fn look(self, epoch: u32) {
        if self.get(LATE) != 0 {
            return;
        }
        let (mut place, mut late) = (G::rank(), 0);
        while R::LOOKS && place < self.epochs.places() {
            late += self.epochs.heard(place).holds(epoch) as u32;
            place += G::size();
        }
        G::sync();
        if late > 0 {
            self.words().fetch_add(self.at(LATE), late);
        }
        G::sync();
        if G::rank() == 0 && self.get(LATE) == 0 {
            fence(Scope::Device);
            self.epochs.advance(epoch);
        }
    }

    /// Turns to the next bag, after it has freed what is in it.
    #[inline(always)]
    #[track_caller]
    fn turn(self, place: u32) {
        G::sync();
        let bag = (self.get(CURRENT) + 1) % 3;
        let count = self.get(COUNTS + bag as usize);
        self.each(place, bag, count, |item| self.owner.clear(item));
        fence(Scope::Device);
        G::sync();
        let mut freed = 0;
        self.each(place, bag, count, |item| {
            self.owner.free(item);
            freed += 1;
        });
        if freed > 0 {
            self.words().fetch_add(self.at(FREED), freed);
        }
        G::sync();
        let mut index = G::rank() as usize;
        while index < G::BAG && index < count as usize {
            self.set(HEAD + bag as usize * G::BAG + index, NOTHING);
            index += G::size() as usize;
        }
        if G::rank() == 0 {
            self.set(CURRENT, bag);
            self.set(COUNTS + bag as usize, 0);
        }
        G::sync();
    }

    /// Shows each item of a bag to one of the threads.
    #[inline(always)]
    #[track_caller]
    fn each(self, place: u32, bag: u32, count: u32, mut see: impl FnMut(u32)) {
        let mut index = G::rank();
        while index < self.held(count) {
            let item = self.item(place, bag, index);
            if item != NOTHING {
                see(item);
            }
            index += G::size();
        }
    }

    /// Items of a bag into which so many were put.
    #[inline(always)]
    fn held(self, count: u32) -> u32 {
        let most = G::BAG as u32 + self.epochs.room();
        if count < most { count } else { most }
    }

    #[inline(always)]
    #[track_caller]
    fn item(self, place: u32, bag: u32, index: u32) -> u32 {
        if (index as usize) < G::BAG {
            return self.get(HEAD + bag as usize * G::BAG + index as usize);
        }
        self.overflow(place, bag, index).load(Order::Relaxed, Scope::Device)
    }

    #[inline(always)]
    fn overflow(self, place: u32, bag: u32, index: u32) -> Global<u32> {
        self.epochs.item(place, bag, index - G::BAG as u32)
    }

    /// Lets an item be freed when nobody can have it any more, by the calling lane alone. Others cannot reach it anew from now on. Inside of an epoch.
    #[inline(always)]
    #[track_caller]
    pub fn retire(self, item: u32) {
        let (place, bag) = (self.get(PLACE), self.get(CURRENT));
        let index = self.words().fetch_add(self.at(COUNTS + bag as usize), 1);
        self.words().fetch_add(self.at(RETIRED), 1);
        if (index as usize) < G::BAG {
            self.set(HEAD + bag as usize * G::BAG + index as usize, item);
        } else if index < G::BAG as u32 + self.epochs.room() {
            self.overflow(place, bag, index).store(item, Order::Relaxed, Scope::Device);
        } else {
            self.epochs.count_shelved();
            self.owner.shelve(item);
        }
    }

    /// Leaves: holds nothing any more.
    #[inline(always)]
    #[track_caller]
    pub fn leave(self) {
        G::sync();
        if G::rank() == 0 {
            let quiet = Announcement::QUIET.word();
            self.epochs.announcement(self.get(PLACE)).store(quiet, Order::Release, Scope::Device);
        }
    }

    /// Gives the place to others, and leaves them what could not be freed yet.
    #[inline(always)]
    #[track_caller]
    pub fn close(self) {
        G::sync();
        let place = self.get(PLACE);
        let mut bag = 0;
        while bag < 3 {
            self.keep(place, bag);
            bag += 1;
        }
        fence(Scope::Device);
        G::sync();
        if G::rank() == 0 {
            let (order, scope) = (Order::Relaxed, Scope::Device);
            self.epochs.kept(place, 0).store(self.get(EPOCH), order, scope);
            self.epochs.kept(place, 1).store(self.get(CURRENT), order, scope);
            let entries = self.get(ENTRIES).wrapping_sub(G::index());
            self.epochs.kept(place, KEPT_ENTRIES).store(entries, order, scope);
            self.tell();
            let free = Announcement::FREE.word();
            self.epochs.announcement(place).store(free, Order::Release, Scope::Device);
        }
    }

    /// Brings a bag's items from shared memory to device memory, behind those that are there; what finds no room is shelved.
    #[inline(always)]
    #[track_caller]
    fn keep(self, place: u32, bag: u32) {
        let counts = self.at(COUNTS + bag as usize);
        let count = self.get(COUNTS + bag as usize);
        let most = G::BAG as u32 + self.epochs.room();
        G::sync();
        if G::rank() == 0 {
            let beyond = if count > G::BAG as u32 { self.held(count) } else { G::BAG as u32 };
            self.set(COUNTS + bag as usize, beyond);
        }
        G::sync();
        let mut index = G::rank();
        while index < count && (index as usize) < G::BAG {
            let item = self.get(HEAD + bag as usize * G::BAG + index as usize);
            if item != NOTHING {
                let to = self.words().fetch_add(counts, 1);
                if to < most {
                    self.overflow(place, bag, to).store(item, Order::Relaxed, Scope::Device);
                } else {
                    self.epochs.count_shelved();
                    self.owner.shelve(item);
                }
            }
            index += G::size();
        }
        G::sync();
        if G::rank() == 0 {
            let kept = self.held(self.get(COUNTS + bag as usize)) - G::BAG as u32;
            self.epochs.kept(place, 2 + bag as usize).store(kept, Order::Relaxed, Scope::Device);
        }
    }
}

/// No item: where a bag's part in shared memory is empty and that in device memory is not.
const NOTHING: u32 = u32::MAX;

//! A process: enters, leaves, retires, frees, looks.
use super::super::slab::{Handle, Pool};
use super::epochs::{Announcement, BAGS, Epochs};
use super::group::Group;
use super::table::{
    COUNTS, CURRENT, ENTERED, EPOCH, Entry, FREED, INSIDE, LATE, NEXT, OPENS, PLACE, RETIRED, Table,
};
use core::marker::PhantomData;
use simt::{Global, Order, Scope, fault, fence, fence_sc, pause};

/// Who owns what is retired: items are 32 bits.
pub trait Owner: Copy {
    /// Makes an item ready to be had by others, by the calling lane alone. A fence follows before
    /// [`Self::free`].
    ///
    /// # Safety
    /// - The item was [retired](Process::retire) to this owner, and nobody can reach it any more.
    unsafe fn clear(self, item: u32);

    /// Gives an item back.
    ///
    /// # Safety
    /// - As for [`Self::clear`], and the item was cleared. It is given back once.
    unsafe fn free(self, item: u32);

    /// Takes an item that no bag has room for: it is freed when no kernel runs.
    ///
    /// # Safety
    /// - The item was retired to this owner. It is neither cleared nor given back besides.
    unsafe fn shelve(self, item: u32);
}

/// The slabs of a pool, blank when they are free. Items are [`Handle`]s. In the emulator a freed slab is
/// poisoned until it is allocated again.
#[derive(Clone, Copy, Debug)]
pub struct Slabs<P>(pub P);

impl<P: Pool> Owner for Slabs<P> {
    #[inline(always)]
    #[track_caller]
    unsafe fn clear(self, item: u32) {
        // SAFETY: the item was retired to this owner: it is a slab of the pool, which nobody else reaches.
        let slab = unsafe { self.0.slab(Handle::from_word(item)) };
        let mut word = 0;
        while word < P::BYTES / 8 {
            // SAFETY: two words of a slab, whose first is aligned to 16 bytes.
            unsafe { slab.offset(word).store_vec([u64::MAX; 2], Order::Relaxed, Scope::Device) };
            word += 2;
        }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn free(self, item: u32) {
        let handle = Handle::from_word(item);
        // SAFETY: nothing is accessed.
        simt::poison(|| unsafe { self.0.slab(handle) }, P::BYTES, item);
        self.0.free(handle);
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn shelve(self, item: u32) {
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

/// Among the words that a place keeps, behind the epoch, the bag in use and three counts: entries into
/// epochs.
const KEPT_ENTERED: usize = 5;

/// A process of the group `G` that keeps the rules `R`: the calling thread's.
///
/// All its threads open it, enter, leave and close together. Between, any of its lanes may retire.
///
/// A process may have any number of structures open at a time, and enter and leave them in any order. The
/// first four ([`super::ENTRIES`]) have their state in shared memory. In a further one the process takes no
/// place: a counter says that it is inside, which keeps all epochs of that structure from ending meanwhile,
/// and what it retires there is shelved. Where a structure is opened or entered anew while it is open or
/// entered, only the last close or leave counts.
///
/// ```
/// use phalanx_kernels::reclaim::{Blocks, Epochs, Owner, Process};
///
/// /// Takes items out of a list, which others may still read, and lets them be freed when nobody does.
/// ///
/// /// # Safety
/// /// - The items of all processes of these epochs are this owner's.
/// /// - `take` unlinks an item, which nobody else retires.
/// unsafe fn take_out<O: Owner>(epochs: Epochs, owner: O, rounds: u32, take: impl Fn(u32) -> Option<u32>) {
///     // SAFETY: the caller's.
///     let process = unsafe { Process::<Blocks, _>::open(epochs, owner) };
///     for round in 0..rounds {
///         process.enter();
///         if let Some(item) = take(round) {
///             // SAFETY: unlinked by this lane, inside of an epoch.
///             unsafe { process.retire(item) };
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
    /// Takes a place for the process. As many can be open as there are places; a process that finds none
    /// waits until one is closed.
    ///
    /// # Safety
    /// - As for [`Process::opened`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn open(epochs: Epochs, owner: O) -> Self {
        // SAFETY: the caller's.
        unsafe { Self::opened(epochs, owner) }.begun()
    }
}

impl<G: Group, O: Owner, R: Rules> Process<G, O, R> {
    /// The process that the calling thread has opened already.
    ///
    /// # Safety
    /// - All processes of these epochs have the same owner of items: what one retires is freed by another.
    #[inline(always)]
    pub unsafe fn opened(epochs: Epochs, owner: O) -> Self {
        Self { epochs, owner, of: PhantomData }
    }

    /// The process's state in the structure, if it has it open and a table has room for it.
    #[inline(always)]
    #[track_caller]
    fn entry(self) -> Option<Entry> {
        Table::<G>::find(self.epochs.key())
    }

    /// [`Process::open`], by these rules.
    #[inline(always)]
    #[track_caller]
    pub fn begun(self) -> Self {
        // Lanes may still look for entries of other structures.
        G::sync();
        if G::rank() == 0 {
            let key = self.epochs.key();
            if let Some(entry) = Table::<G>::find_open(key) {
                entry.set(OPENS, entry.get(OPENS) + 1);
            } else if let Some(index) = Table::<G>::free() {
                let place = self.claim();
                self.load(Table::<G>::take(index, key, place), place);
            }
        }
        G::sync();
        self
    }

    /// Reads what the last process has left at a place, by one thread.
    #[inline(always)]
    #[track_caller]
    fn load(self, entry: Entry, place: u32) {
        let kept = |word| self.epochs.kept(place, word).load(Order::Relaxed, Scope::Device);
        entry.set(OPENS, 1);
        entry.set(INSIDE, 0);
        entry.set(EPOCH, kept(0));
        entry.set(CURRENT, kept(1) % BAGS);
        // Those who come and go look as often as those who stay: not all at once, and one that is alone in
        // its grid, which is always the first, too.
        entry.set(ENTERED, kept(KEPT_ENTERED).wrapping_add(G::index()));
        entry.set(RETIRED, 0);
        entry.set(FREED, 0);
        let mut bag = 0;
        while bag < BAGS as usize {
            entry.set(COUNTS + bag, kept(2 + bag));
            bag += 1;
        }
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
            match self.entry() {
                Some(entry) => self.announce(entry),
                None => self.announce_without_place(),
            }
        }
        G::sync();
        // All lanes see the same: only the first of them changes these words, between two barriers.
        if let Some(entry) = self.entry()
            && entry.get(INSIDE) == 1
        {
            self.advance(entry);
        }
    }

    /// Announces the epoch, by one thread, unless the process is inside already.
    #[inline(always)]
    #[track_caller]
    fn announce(self, entry: Entry) {
        let inside = entry.get(INSIDE) + 1;
        entry.set(INSIDE, inside);
        if inside > 1 {
            return;
        }
        let epoch = self.epochs.now();
        let word = Announcement::within(epoch).word();
        // Released: who finds the new epoch here finds done what the process did inside of an older one.
        self.epochs.announcement(entry.get(PLACE)).store(word, Order::Release, Scope::Device);
        Self::order_announcement();
        let entered = entry.get(ENTERED).wrapping_add(1);
        entry.set(ENTERED, entered);
        entry.set(NEXT, epoch);
        entry.set(LATE, if entered.is_multiple_of(R::SELDOM) { 0 } else { 1 });
    }

    /// Says that a process without a place is inside, by one thread.
    #[inline(always)]
    #[track_caller]
    fn announce_without_place(self) {
        self.epochs.placeless().fetch_add(1, Order::Relaxed, Scope::Device);
        Self::order_announcement();
    }

    /// Orders a process's announcement before all that it reads inside, and before its look at the
    /// announcements of others.
    ///
    /// A process announces its epoch and then reads the structure; another one unlinks an item and then reads
    /// announcements: one of the two must see what the other wrote ("store buffering"). Only sequentially
    /// consistent fences between the two accesses of both give that. The one here serves both sides, as a
    /// process looks at others only behind its own announcement. It costs a turn of memory in each entry into
    /// an epoch, that is one a block.
    #[inline(always)]
    #[track_caller]
    fn order_announcement() {
        fence_sc(Scope::Device);
    }

    /// Ends the epoch now and then, and rotates the bags as far as epochs have begun.
    #[inline(always)]
    #[track_caller]
    fn advance(self, entry: Entry) {
        let (place, epoch) = (entry.get(PLACE), entry.get(NEXT));
        let behind = epoch.wrapping_sub(entry.get(EPOCH)) & (u32::MAX >> 2);
        let turns = if behind < BAGS { behind } else { BAGS };
        self.look(entry, epoch);
        let mut turn = 0;
        while turn < turns {
            self.turn(entry, place);
            turn += 1;
        }
        G::sync();
        if G::rank() == 0 {
            entry.set(EPOCH, epoch);
            if turns > 0 {
                self.tell(entry);
            }
        }
        G::sync();
    }

    /// Adds what was retired and freed to the counters, by one thread.
    #[inline(always)]
    #[track_caller]
    fn tell(self, entry: Entry) {
        let (retired, freed) = (entry.get(RETIRED), entry.get(FREED));
        if retired > 0 {
            self.epochs.count_retired(retired);
            entry.set(RETIRED, 0);
        }
        if freed > 0 {
            self.epochs.count_reclaimed(freed);
            entry.set(FREED, 0);
        }
    }

    /// Ends the epoch if no process is in an older one: now and then, together.
    #[inline(always)]
    #[track_caller]
    fn look(self, entry: Entry, epoch: u32) {
        if entry.get(LATE) != 0 {
            return;
        }
        let (mut place, mut late) = (G::rank(), 0);
        if R::LOOKS && place == 0 {
            late += (self.epochs.placeless().load(Order::Relaxed, Scope::Device) != 0) as u32;
        }
        while R::LOOKS && place < self.epochs.places() {
            late += self.epochs.heard(place).holds(epoch) as u32;
            place += G::size();
        }
        // Each lane's: what a process did before it left, or before it announced this epoch, is ordered
        // before the next epoch.
        fence(Scope::Device);
        G::sync();
        if late > 0 {
            entry.add(LATE, late);
        }
        G::sync();
        if G::rank() == 0 && entry.get(LATE) == 0 {
            self.epochs.advance(epoch);
        }
    }

    /// Turns to the next bag, after it has freed what is in it.
    #[inline(always)]
    #[track_caller]
    fn turn(self, entry: Entry, place: u32) {
        G::sync();
        let bag = (entry.get(CURRENT) + 1) % BAGS;
        let count = self.held(entry.get(COUNTS + bag as usize));
        // SAFETY: retired to this owner three epochs ago, so nobody can reach it; it is in this bag alone,
        // which is empty then.
        self.each(place, bag, count, |item| unsafe { self.owner.clear(item) });
        fence(Scope::Device);
        G::sync();
        // SAFETY: as above, and cleared.
        self.each(place, bag, count, |item| unsafe { self.owner.free(item) });
        if G::rank() == 0 {
            entry.set(FREED, entry.get(FREED) + count);
            entry.set(CURRENT, bag);
            entry.set(COUNTS + bag as usize, 0);
        }
        G::sync();
    }

    /// Shows each of a bag's `count` items to one of the threads.
    #[inline(always)]
    #[track_caller]
    fn each(self, place: u32, bag: u32, count: u32, see: impl Fn(u32)) {
        let mut index = G::rank();
        while index < count {
            see(self.item(place, bag, index).load(Order::Relaxed, Scope::Device));
            index += G::size();
        }
    }

    /// Items of a bag into which so many were put.
    #[inline(always)]
    fn held(self, count: u32) -> u32 {
        let most = self.epochs.room();
        if count < most { count } else { most }
    }

    #[inline(always)]
    #[track_caller]
    fn item(self, place: u32, bag: u32, index: u32) -> Global<u32> {
        self.epochs.item(place, bag, index)
    }

    /// Lets an item be freed when nobody can have it any more, by the calling lane alone. Where the process
    /// has not opened the structure, or has no entry for it, the item is shelved.
    ///
    /// # Safety
    /// - The item is the owner's, and live. It is unlinked: nobody can reach it anew from now on.
    /// - It is retired once.
    /// - The process is inside of an epoch since before the item was unlinked, and until the call returns.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn retire(self, item: u32) {
        if let Some(entry) = self.entry() {
            let (place, bag) = (entry.get(PLACE), entry.get(CURRENT));
            let index = entry.add(COUNTS + bag as usize, 1);
            if index < self.epochs.room() {
                entry.add(RETIRED, 1);
                return self.item(place, bag, index).store(item, Order::Relaxed, Scope::Device);
            }
        }
        self.epochs.count_retired(1);
        self.epochs.count_shelved();
        // SAFETY: the caller's.
        unsafe { self.owner.shelve(item) };
    }

    /// Leaves: holds nothing any more.
    #[inline(always)]
    #[track_caller]
    pub fn leave(self) {
        G::sync();
        if G::rank() == 0 {
            let entry = self.entry();
            match entry.filter(|entry| entry.get(INSIDE) > 0) {
                Some(entry) => self.withdraw(entry),
                None => self.withdraw_without_place(),
            }
        }
    }

    /// Takes an announcement back, by one thread, unless the process is inside still.
    #[inline(always)]
    #[track_caller]
    fn withdraw(self, entry: Entry) {
        let inside = entry.get(INSIDE) - 1;
        entry.set(INSIDE, inside);
        if inside == 0 {
            let quiet = Announcement::QUIET.word();
            self.epochs.announcement(entry.get(PLACE)).store(quiet, Order::Release, Scope::Device);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn withdraw_without_place(self) {
        // Released, as an announcement is.
        if self.epochs.placeless().fetch_add(u32::MAX, Order::Release, Scope::Device) == 0 {
            fault("a structure was left that was not entered");
        }
    }

    /// Gives the place to others, and leaves them what could not be freed yet.
    #[inline(always)]
    #[track_caller]
    pub fn close(self) {
        let mut last = None;
        G::sync();
        if G::rank() == 0 {
            last = self.closed();
        }
        // No lane looks for an entry while it is freed; and lanes need not wait for what follows.
        G::sync();
        if let Some(entry) = last {
            self.keep(entry);
        }
    }

    /// Closes the structure once, by one thread. Returns its entry, which is free, if it is not open any
    /// more.
    #[inline(always)]
    #[track_caller]
    fn closed(self) -> Option<Entry> {
        let entry = self.entry()?;
        let opens = entry.get(OPENS) - 1;
        entry.set(OPENS, opens);
        if opens > 0 {
            return None;
        }
        Table::<G>::release(entry);
        Some(entry)
    }

    /// Leaves a place, and what there is to know of its bags, to the next process, by one thread.
    #[inline(always)]
    #[track_caller]
    fn keep(self, entry: Entry) {
        let place = entry.get(PLACE);
        let keep = |word, value| self.epochs.kept(place, word).store(value, Order::Relaxed, Scope::Device);
        keep(0, entry.get(EPOCH));
        keep(1, entry.get(CURRENT));
        keep(KEPT_ENTERED, entry.get(ENTERED).wrapping_sub(G::index()));
        let mut bag = 0;
        while bag < BAGS as usize {
            keep(2 + bag, self.held(entry.get(COUNTS + bag)));
            bag += 1;
        }
        self.tell(entry);
        let free = Announcement::FREE.word();
        // Releases what all lanes have put into bags, too: a barrier is between.
        self.epochs.announcement(place).store(free, Order::Release, Scope::Device);
    }
}

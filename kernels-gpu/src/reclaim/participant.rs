//! Participants: enter, leave, retire, free, and advance the epoch.
use super::super::slab::{Handle, Pool};
use super::epochs::{Announcement, BAGS, Epochs};
use super::group::Group;
use super::table::{
    COUNTS, CURRENT, ENTERED, EPOCH, Entry, INSIDE, LATE, NEXT, OPENS, PLACE, RETIRED, Table,
};
use core::marker::PhantomData;
use simt::{Global, Order, Scope, device, fault, fence, fence_sc, pause};

/// The owner of retired items. Items are 32 bits.
pub trait ItemPool: Copy {
    /// Prepares an item for reuse, by the calling lane alone. A fence follows before [`Self::free`].
    ///
    /// # Safety
    /// - The item was [retired](Participant::retire) to this owner, and no thread can reach it any more.
    unsafe fn clear(self, item: u32);

    /// Frees an item.
    ///
    /// # Safety
    /// - As for [`Self::clear`], and the item has been cleared. It is freed once.
    unsafe fn free(self, item: u32);

    /// Takes an item that does not fit into any bag. The host frees it when no kernel runs.
    ///
    /// # Safety
    /// - The item was retired to this owner. It is neither cleared nor freed by kernels.
    unsafe fn defer_to_host(self, item: u32);
}

/// The slabs of a pool whose free slabs are blank. Items are [`Handle`]s. In the emulator a freed slab is
/// poisoned until it is allocated again.
#[derive(Clone, Copy, Debug)]
pub struct Slabs<P>(pub P);

#[device(caller)]
impl<P: Pool> ItemPool for Slabs<P> {
    unsafe fn clear(self, item: u32) {
        // SAFETY: the item was retired to this owner: it is a slab of the pool that no other thread can
        // reach.
        let slab = unsafe { self.0.slab(Handle::from_word(item)) };
        let mut word = 0;
        while word < P::BYTES / 8 {
            // SAFETY: two words of a slab, the first of which is aligned to 16 bytes.
            unsafe { slab.offset(word).store_vec([u64::MAX; 2], Order::Relaxed, Scope::Device) };
            word += 2;
        }
    }

    unsafe fn free(self, item: u32) {
        let handle = Handle::from_word(item);
        // SAFETY: nothing is accessed.
        simt::poison(|| unsafe { self.0.slab(handle) }, P::BYTES, item);
        self.0.free(handle);
    }

    unsafe fn defer_to_host(self, item: u32) {
        self.0.retire(Handle::from_word(item));
    }
}

/// A participant tries to advance the epoch at one in this many entries.
const SELDOM: u32 = 2;

/// Index of the entry count among the words that a participant slot saves, after the epoch, the current bag
/// and the bags' counts.
const KEPT_ENTERED: usize = 2 + BAGS as usize;

/// The participant of group `G` to which the calling thread belongs.
///
/// All its threads open it, enter, leave and close together. In between, any of its lanes may retire.
///
/// A participant may have any number of structures open at a time, and enter and leave them in any order. The
/// states of four at a time ([`super::ENTRIES`]) are in shared memory. In a structure that it opens while no
/// entry is free, the participant takes no participant slot: a counter records that it is inside, which keeps
/// all epochs of that structure from ending meanwhile, and items that it retires there are deferred to the
/// host. Opening and entering nest: only the last close or leave takes effect.
///
/// ```
/// use phalanx_kernels::reclaim::{Blocks, Epochs, ItemPool, Participant};
///
/// /// Unlinks items of a list that others may still read, and retires them.
/// ///
/// /// # Safety
/// /// - The items of all participants of these epochs belong to this pool.
/// /// - `take` unlinks an item, which no other thread retires.
/// unsafe fn take_out<O: ItemPool>(epochs: Epochs, pool: O, rounds: u32, take: impl Fn(u32) -> Option<u32>) {
///     // SAFETY: the caller's obligation.
///     let participant = unsafe { Participant::<Blocks, _>::open(epochs, pool) };
///     for round in 0..rounds {
///         participant.enter();
///         if let Some(item) = take(round) {
///             // SAFETY: unlinked by this lane, inside an epoch.
///             unsafe { participant.retire(item) };
///         }
///         participant.leave();
///     }
///     participant.close();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Participant<G, O> {
    epochs: Epochs,
    owner: O,
    of: PhantomData<G>,
}

#[device(caller)]
impl<G: Group, O: ItemPool> Participant<G, O> {
    /// Takes a participant slot. As many participants can be open as there are slots; a participant that
    /// finds no free slot waits until one is closed.
    ///
    /// # Safety
    /// - As for [`Participant::opened`].
    pub unsafe fn open(epochs: Epochs, owner: O) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { Self::opened(epochs, owner) }.begun()
    }

    /// Returns the participant that the calling thread has already opened.
    ///
    /// # Safety
    /// - All participants of these epochs have the same owner of items: an item that one of them retires may
    ///   be freed by another.
    #[device]
    pub unsafe fn opened(epochs: Epochs, owner: O) -> Self {
        Self { epochs, owner, of: PhantomData }
    }

    /// Returns the participant's state in the structure, if it has the structure open and the table has an
    /// entry for it.
    fn entry(self) -> Option<Entry> {
        Table::<G>::find(self.epochs.key())
    }

    /// As [`Participant::open`], for a participant that [`Participant::opened`] has returned.
    pub fn begun(self) -> Self {
        // Lanes may still be searching for entries of other structures.
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

    /// Loads the state that the previous participant saved in a slot, by one thread.
    fn load(self, entry: Entry, place: u32) {
        // mutation: block weak equivalent, because the claim of the slot has acquired what was saved there.
        let kept = |word| self.epochs.kept(place, word).load(Order::Relaxed, Scope::Device);
        entry.set(OPENS, 1);
        entry.set(INSIDE, 0);
        entry.set(EPOCH, kept(0));
        entry.set(CURRENT, kept(1) % BAGS);
        // Short-lived participants must try to advance as often as long-lived ones: not all of them at once,
        // but also one that is alone in its grid, whose index is always 0.
        entry.set(ENTERED, kept(KEPT_ENTERED).wrapping_add(G::index()));
        entry.set(RETIRED, 0);
        let mut bag = 0;
        while bag < BAGS as usize {
            entry.set(COUNTS + bag, kept(2 + bag));
            bag += 1;
        }
    }

    /// Claims a free participant slot; starts at the one that is most likely free.
    fn claim(self) -> u32 {
        let mut place = G::index() % self.epochs.places();
        loop {
            let (free, quiet) = (Announcement::FREE.word(), Announcement::UNPINNED.word());
            let announcement = self.epochs.announcement(place);
            if announcement.compare_exchange(free, quiet, Order::Acquire, Scope::Device).is_ok() {
                return place;
            }
            place = if place + 1 == self.epochs.places() { 0 } else { place + 1 };
            pause(20);
        }
    }

    /// Enters: memory that the participant reaches from now on is not freed until it leaves.
    pub fn enter(self) {
        G::sync();
        if G::rank() == 0 {
            match self.entry() {
                Some(entry) => self.announce(entry),
                None => self.announce_without_place(),
            }
        }
        G::sync();
        // All lanes read the same value: only the first lane changes these words, between two barriers.
        if let Some(entry) = self.entry()
            && entry.get(INSIDE) == 1
        {
            self.advance(entry);
        }
    }

    /// Announces the epoch, by one thread, unless the participant is already inside.
    #[device]
    fn announce(self, entry: Entry) {
        let inside = entry.get(INSIDE) + 1;
        entry.set(INSIDE, inside);
        if inside > 1 {
            return;
        }
        // mutation: relaxed equivalent, because the fence below acquires as well, before anything is read.
        let epoch = self.epochs.now();
        let word = Announcement::within(epoch).word();
        // Release: a thread that reads the new epoch here observes everything that the participant did in
        // older epochs.
        // mutation: relaxed equivalent, because the withdrawal before has released at the same word. After a
        // claim of the slot, two more epochs begin before an item is freed, and the second waits for a
        // withdrawal.
        self.epochs.announcement(entry.get(PLACE)).store(word, Order::Release, Scope::Device);
        Self::order_announcement();
        let entered = entry.get(ENTERED).wrapping_add(1);
        // mutation: skip late store performance, because it only says at which entries the participant tries
        // to advance the epoch.
        entry.set(ENTERED, entered);
        // mutation: late equivalent, because the participant reads the word after a barrier.
        entry.set(NEXT, epoch);
        entry.set(LATE, if entered.is_multiple_of(SELDOM) { 0 } else { 1 });
    }

    /// Records that a participant without a slot is inside, by one thread.
    fn announce_without_place(self) {
        self.epochs.placeless().fetch_add(1, Order::Relaxed, Scope::Device);
        Self::order_announcement();
    }

    /// Orders a participant's announcement before all its reads inside the epoch, and before its reads of the
    /// announcements of others.
    ///
    /// A participant announces its epoch and then reads the structure; another unlinks an item and then reads
    /// announcements: at least one of the two must see the other's write ("store buffering"). That requires
    /// sequentially consistent fences between the two accesses of both. The fence here serves both sides,
    /// because a participant reads the announcements of others only after its own. It costs one memory round
    /// trip per entry into an epoch, that is, one per block.
    fn order_announcement() {
        fence_sc(Scope::Device);
    }

    /// Tries to advance the epoch at some of the entries. If epochs have begun since the bags were last
    /// rotated, frees the items of as many bags, the oldest first, and rotates the bags once.
    ///
    /// What is retired belongs to the epoch that the participant reads when it enters the next time, not to
    /// the one that it had announced: it may have been delayed before the announcement, for many epochs. So
    /// the bag that was current until the last rotation belongs to that rotation's epoch at the latest, and
    /// each older one to an epoch before. The current bag is never freed.
    fn advance(self, entry: Entry) {
        let (epoch, last) = (entry.get(NEXT), entry.get(EPOCH));
        let begun = epoch.wrapping_sub(last) & (u32::MAX >> 2);
        let old = if begun < BAGS { begun } else { BAGS - 1 };
        self.try_advance(entry, epoch);
        let (current, mut bag) = (entry.get(CURRENT), 0);
        while bag < old {
            bag += 1;
            self.free_bag(entry, (current + bag) % BAGS);
        }
        if old == 0 {
            return;
        }
        if G::rank() == 0 {
            entry.set(CURRENT, (current + 1) % BAGS);
            entry.set(EPOCH, epoch);
            self.flush_retired(entry);
        }
        G::sync();
    }

    /// Adds the number of retired items to the counter, by one thread.
    fn flush_retired(self, entry: Entry) {
        let retired = entry.get(RETIRED);
        if retired > 0 {
            self.epochs.count_retired(retired);
            entry.set(RETIRED, 0);
        }
    }

    /// Advances the epoch if no participant is in an older one, at some of the entries. All lanes call it
    /// together.
    #[device]
    fn try_advance(self, entry: Entry, epoch: u32) {
        if entry.get(LATE) != 0 {
            return;
        }
        let (mut place, mut late) = (G::rank(), 0);
        if place == 0 {
            // mutation: early unreached, because no explorer reads inside a structure without a slot while
            // others free its versions. `reclaim::tests` counts the epochs.
            late += (self.epochs.placeless().load(Order::Relaxed, Scope::Device) != 0) as u32;
        }
        while place < simt::bound(self.epochs.places()) {
            late += self.epochs.heard(place).holds(epoch) as u32;
            place += G::size();
        }
        // Every lane fences: accesses that a participant made before it left, or before it announced this
        // epoch, happen before the next epoch.
        fence(Scope::Device);
        G::sync();
        if late > 0 {
            entry.add(LATE, late);
        }
        G::sync();
        if G::rank() == 0 && entry.get(LATE) == 0 {
            // mutation: release update equivalent, because the participant has acquired this epoch at its
            // entry.
            // mutation: early block weak skip late load store unreached, because explorers do not read the
            // log of epochs.
            self.epochs.advance(epoch);
        }
    }

    /// Frees the items in a bag.
    fn free_bag(self, entry: Entry, bag: u32) {
        let (place, count) = (entry.get(PLACE), self.held(entry.get(COUNTS + bag as usize)));
        // SAFETY: three epochs have begun since an entry after the one in which the items were retired to
        // this owner, so no thread can reach them; they are in this bag alone, which is emptied.
        self.each(place, bag, count, |item| unsafe { self.owner.clear(item) });
        fence(Scope::Device);
        G::sync();
        // SAFETY: as above, and the items have been cleared.
        self.each(place, bag, count, |item| unsafe { self.owner.free(item) });
        if G::rank() == 0 {
            entry.set(COUNTS + bag as usize, 0);
            // Readers retire nothing: they would all add 0 to one word.
            if count > 0 {
                self.epochs.count_reclaimed(count);
            }
        }
    }

    /// Calls `see` for each of a bag's `count` items, in one of the threads.
    fn each(self, place: u32, bag: u32, count: u32, see: impl Fn(u32)) {
        let mut index = G::rank();
        while index < count {
            see(self.item(place, bag, index).load(Order::Relaxed, Scope::Device));
            index += G::size();
        }
    }

    /// Returns the number of items in a bag into which `count` were put; the excess went to the host.
    #[device]
    fn held(self, count: u32) -> u32 {
        let most = self.epochs.room();
        if count < most { count } else { most }
    }

    fn item(self, place: u32, bag: u32, index: u32) -> Global<u32> {
        self.epochs.item(place, bag, index)
    }

    /// Retires an item, so that it is freed when no thread can reach it any more; by the calling lane alone.
    /// If the participant has not opened the structure, or has no entry for it, the item is deferred to the
    /// host.
    ///
    /// # Safety
    /// - The item belongs to the owner and is live. It is unlinked: no thread can reach it anew from now on.
    /// - It is retired once.
    /// - The participant has been inside an epoch since before the item was unlinked, and stays inside until
    ///   the call returns.
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
        self.epochs.count_deferred();
        // SAFETY: the caller's obligation.
        unsafe { self.owner.defer_to_host(item) };
    }

    /// Leaves: the participant holds no reference to items of the structure any more.
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

    /// Withdraws the announcement, by one thread, unless the participant is still inside.
    fn withdraw(self, entry: Entry) {
        let inside = entry.get(INSIDE) - 1;
        entry.set(INSIDE, inside);
        if inside == 0 {
            let quiet = Announcement::UNPINNED.word();
            self.epochs.announcement(entry.get(PLACE)).store(quiet, Order::Release, Scope::Device);
        }
    }

    fn withdraw_without_place(self) {
        // Release, as for an announcement.
        if self.epochs.placeless().fetch_add(u32::MAX, Order::Release, Scope::Device) == 0 {
            fault("a structure was left that was not entered");
        }
    }

    /// Frees the participant slot, and leaves the items that could not be freed yet to its next participant.
    ///
    /// If a participant does not close before its kernel ends, its slot stays taken, and the numbers of items
    /// that [`drain_slabs`](super::kernels::drain_slabs) reads are out of date: it may miss items or free
    /// items twice.
    pub fn close(self) {
        let mut last = None;
        G::sync();
        if G::rank() == 0 {
            last = self.closed();
        }
        // No lane may be searching for an entry while it is released; lanes need not wait for the rest.
        G::sync();
        if let Some(entry) = last {
            self.keep(entry);
        }
    }

    /// Closes the structure once, by one thread. Returns its entry, which has been released, if the structure
    /// is not open any more.
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

    /// Saves the state of the bags in the participant slot for its next participant, and frees the slot; by
    /// one thread.
    fn keep(self, entry: Entry) {
        let place = entry.get(PLACE);
        // mutation: block weak equivalent, because the announcement below releases it.
        let keep = |word, value| self.epochs.kept(place, word).store(value, Order::Relaxed, Scope::Device);
        keep(0, entry.get(EPOCH));
        keep(1, entry.get(CURRENT));
        keep(KEPT_ENTERED, entry.get(ENTERED).wrapping_sub(G::index()));
        let mut bag = 0;
        while bag < BAGS as usize {
            keep(2 + bag, self.held(entry.get(COUNTS + bag)));
            bag += 1;
        }
        self.flush_retired(entry);
        let free = Announcement::FREE.word();
        // Also releases the items that all lanes have put into bags: a barrier lies in between.
        self.epochs.announcement(place).store(free, Order::Release, Scope::Device);
    }
}

//! State that all participants share: the epoch, announcements, counters, and the saved states of participant
//! slots.
use simt::{Global, Order, Scope, device, timer};

/// Number of epochs in the log.
pub const LOG: usize = 4096;
/// Number of 8-byte counters: epoch, retired, reclaimed, deferred.
const COUNTERS: usize = 4;
/// Number of 8-byte words in a line of the log: retired, reclaimed, time.
const LINE: usize = 3;
/// Number of 4-byte words that a participant slot saves, of which seven are used: the epoch, the current bag,
/// the bags' counts, the number of entries.
const KEPT: usize = 8;
/// Number of bags of a participant slot: the current one, and one for each epoch that must begin before its
/// items are freed.
pub(super) const BAGS: u32 = 4;

/// Word of a participant slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Announcement(u32);

#[device]
impl Announcement {
    /// The slot is free.
    pub const FREE: Self = Self(0);
    /// The participant is outside: it reads nothing.
    pub const UNPINNED: Self = Self(1);

    /// Returns the announcement of a participant in `epoch`.
    pub const fn within(epoch: u32) -> Self {
        Self(epoch << 2 | 2)
    }

    /// Returns the announcement's representation in memory.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Returns whether the participant keeps `epoch` from ending.
    pub const fn holds(self, epoch: u32) -> bool {
        self.0 & 2 != 0 && self.0 != Self::within(epoch).0
    }
}

/// The memory of epochs, as kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    words: Global<u64>,
    /// Number of participant slots: participants that can be open at a time.
    places: u32,
    /// Capacity of each bag of a participant slot.
    room: u32,
}

/// Returns the number of 8-byte words for `places` participant slots whose bags hold `room` items each.
pub const fn epoch_words(places: u32, room: u32) -> usize {
    let small = 1 + places as usize * (1 + KEPT + BAGS as usize * room as usize);
    COUNTERS + LOG * LINE + small.div_ceil(2) + 1
}

#[device(caller)]
impl Epochs {
    /// Returns the epochs in `words`.
    ///
    /// # Safety
    /// - `words` points to [`epoch_words`]`(places, room)` words of device memory that were 0 before any
    ///   kernel accessed them and outlive all uses of the view.
    /// - There are at least as many participant slots as participants that run concurrently on the device.
    #[device]
    pub unsafe fn new(words: *mut u64, places: u32, room: u32) -> Self {
        // SAFETY: the caller's obligation; participants access non-atomic words one after the other.
        Self { words: unsafe { Global::new(words) }, places, room }
    }

    /// Returns the number of participant slots.
    #[device]
    pub fn places(self) -> u32 {
        self.places
    }

    /// Returns the key that distinguishes these epochs from those of other structures: their address.
    #[device]
    pub(super) fn key(self) -> u64 {
        self.words.as_ptr().addr() as u64
    }

    /// Returns the capacity of each bag.
    #[device]
    pub(super) fn room(self) -> u32 {
        self.room
    }

    #[device]
    fn counter(self, index: usize) -> Global<u64> {
        // SAFETY: the index is that of a counter or of a word of the log.
        unsafe { self.words.offset(index) }
    }

    /// Returns the count of participants that are inside without a slot. They announce no epoch, so no epoch
    /// ends while there is one.
    #[device]
    pub(super) fn placeless(self) -> Global<u32> {
        self.small(0)
    }

    #[device]
    fn small(self, index: usize) -> Global<u32> {
        // SAFETY: within the words that the caller of `new` promised.
        unsafe { self.words.offset(COUNTERS + LOG * LINE).cast::<u32>().offset(index) }
    }

    /// Returns the current epoch.
    pub fn now(self) -> u32 {
        self.counter(0).load(Order::Acquire, Scope::Device) as u32
    }

    /// Returns the location of a slot's announcement.
    pub(super) fn announcement(self, place: u32) -> Global<u32> {
        assert!(place < self.places, "there is no such place");
        self.small(1 + place as usize)
    }

    /// Loads a slot's announcement.
    pub(super) fn heard(self, place: u32) -> Announcement {
        Announcement(self.announcement(place).load(Order::Relaxed, Scope::Device))
    }

    /// Returns the location of a word that a participant slot saves for its next participant.
    pub(super) fn kept(self, place: u32, word: usize) -> Global<u32> {
        assert!(place < self.places && word < KEPT, "there is no such word of a place");
        self.small(1 + self.places as usize + place as usize * KEPT + word)
    }

    /// Returns the location of an item of a bag.
    pub(super) fn item(self, place: u32, bag: u32, index: u32) -> Global<u32> {
        assert!(place < self.places && bag < BAGS && index < self.room, "there is no such item of a place");
        let bags = 1 + self.places as usize * (1 + KEPT);
        let bag = place as usize * BAGS as usize + bag as usize;
        self.small(bags + bag * self.room as usize + index as usize)
    }

    /// Starts the epoch after `epoch`, and writes the counters to the log.
    pub(super) fn advance(self, epoch: u32) {
        let next = (epoch as u64 + 1) & (u32::MAX >> 2) as u64;
        if self.counter(0).compare_exchange(epoch as u64, next, Order::AcqRel, Scope::Device).is_ok() {
            let line = COUNTERS + epoch as usize % LOG * LINE;
            let words = [self.count(1), self.count(2), timer()];
            for (place, word) in words.into_iter().enumerate() {
                self.counter(line + place).store(word, Order::Relaxed, Scope::Device);
            }
        }
    }

    fn count(self, index: usize) -> u64 {
        self.counter(index).load(Order::Relaxed, Scope::Device)
    }

    /// Counts retired items.
    pub(super) fn count_retired(self, many: u32) {
        self.counter(1).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }

    /// Counts freed items.
    pub(super) fn count_reclaimed(self, many: u32) {
        self.counter(2).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }

    /// Counts an item that did not fit into any bag.
    pub(super) fn count_deferred(self) {
        self.counter(3).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_in_an_older_epoch_holds_it() {
        assert!(!Announcement::FREE.holds(3) && !Announcement::UNPINNED.holds(3));
        assert!(!Announcement::within(3).holds(3) && Announcement::within(2).holds(3));
        assert!(Announcement::within(0).holds(1), "epoch 0 is one like others");
    }
}

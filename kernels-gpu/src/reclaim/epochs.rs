//! What all processes share: the epoch, announcements, counters, and what is kept for those to come.
use simt::{Global, Order, Scope, timer};

/// Epochs that the log has room for.
pub const LOG: usize = 4096;
/// Words of 8 bytes of the counters: epoch, retired, reclaimed, shelved.
const COUNTERS: usize = 4;
/// Words of 8 bytes a line of the log has: retired, reclaimed, when.
const LINE: usize = 3;
/// Words of 4 bytes that a place keeps: the epoch, the bag in use, three counts, how often it was entered.
const KEPT: usize = 8;
/// Bags of a place.
pub(super) const BAGS: u32 = 3;

/// What a place's word says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Announcement(u32);

impl Announcement {
    /// Nobody has the place.
    pub const FREE: Self = Self(0);
    /// Its process reads nothing.
    pub const QUIET: Self = Self(1);

    /// Its process is in an epoch.
    #[inline(always)]
    pub const fn within(epoch: u32) -> Self {
        Self(epoch << 2 | 2)
    }

    /// As it stands in memory.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Whether its process keeps the epoch from ending.
    #[inline(always)]
    pub const fn holds(self, epoch: u32) -> bool {
        self.0 & 2 != 0 && self.0 != Self::within(epoch).0
    }
}

/// The memory of epochs, as kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    words: Global<u64>,
    /// Places: processes that can run side by side.
    places: u32,
    /// Items that each bag of a place holds.
    room: u32,
}

/// Words of 8 bytes of so many places, each of whose bags holds `room` items.
pub const fn epoch_words(places: u32, room: u32) -> usize {
    let small = 1 + places as usize * (1 + KEPT + BAGS as usize * room as usize);
    COUNTERS + LOG * LINE + small.div_ceil(2) + 1
}

impl Epochs {
    /// Those in memory.
    ///
    /// # Safety
    /// - `words` are [`epoch_words`] of these numbers, of device memory, which were 0 before any kernel saw
    ///   them and live as long as the view is used.
    /// - There are at least as many places as processes run side by side on the device.
    #[inline(always)]
    pub unsafe fn new(words: *mut u64, places: u32, room: u32) -> Self {
        // SAFETY: the caller's promise; processes take turns in what is not atomic.
        Self { words: unsafe { Global::new(words) }, places, room }
    }

    /// Places.
    #[inline(always)]
    pub fn places(self) -> u32 {
        self.places
    }

    /// What tells these epochs from those of other structures: their address.
    #[inline(always)]
    pub(super) fn key(self) -> u64 {
        self.words.as_ptr().addr() as u64
    }

    /// Items that each bag holds.
    #[inline(always)]
    pub(super) fn room(self) -> u32 {
        self.room
    }

    #[inline(always)]
    fn counter(self, index: usize) -> Global<u64> {
        // SAFETY: one of the counters.
        unsafe { self.words.offset(index) }
    }

    /// Counts processes that are inside without a place: none of them says in which epoch, so none ends while
    /// there is one.
    #[inline(always)]
    pub(super) fn placeless(self) -> Global<u32> {
        self.small(0)
    }

    #[inline(always)]
    fn small(self, index: usize) -> Global<u32> {
        // SAFETY: within the words that `new` was promised.
        unsafe { self.words.offset(COUNTERS + LOG * LINE).cast::<u32>().offset(index) }
    }

    /// The epoch.
    #[inline(always)]
    #[track_caller]
    pub fn now(self) -> u32 {
        self.counter(0).load(Order::Acquire, Scope::Device) as u32
    }

    /// What the process in a place says.
    #[inline(always)]
    #[track_caller]
    pub(super) fn announcement(self, place: u32) -> Global<u32> {
        assert!(place < self.places, "there is no such place");
        self.small(1 + place as usize)
    }

    /// What the process in a place says now.
    #[inline(always)]
    #[track_caller]
    pub(super) fn heard(self, place: u32) -> Announcement {
        Announcement(self.announcement(place).load(Order::Relaxed, Scope::Device))
    }

    /// A word of what a place keeps for who has it next.
    #[inline(always)]
    #[track_caller]
    pub(super) fn kept(self, place: u32, word: usize) -> Global<u32> {
        assert!(place < self.places && word < KEPT, "there is no such word of a place");
        self.small(1 + self.places as usize + place as usize * KEPT + word)
    }

    /// An item of a bag.
    #[inline(always)]
    #[track_caller]
    pub(super) fn item(self, place: u32, bag: u32, index: u32) -> Global<u32> {
        assert!(place < self.places && bag < BAGS && index < self.room, "there is no such item of a place");
        let bags = 1 + self.places as usize * (1 + KEPT);
        let bag = place as usize * BAGS as usize + bag as usize;
        self.small(bags + bag * self.room as usize + index as usize)
    }

    /// Lets the epoch after `epoch` begin, and notes in the log what there was.
    #[inline(always)]
    #[track_caller]
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

    #[inline(always)]
    #[track_caller]
    fn count(self, index: usize) -> u64 {
        self.counter(index).load(Order::Relaxed, Scope::Device)
    }

    /// Counts items that were retired.
    #[inline(always)]
    #[track_caller]
    pub(super) fn count_retired(self, many: u32) {
        self.counter(1).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }

    /// Counts items that were freed.
    #[inline(always)]
    #[track_caller]
    pub(super) fn count_reclaimed(self, many: u32) {
        self.counter(2).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }

    /// Counts an item that no bag had room for.
    #[inline(always)]
    #[track_caller]
    pub(super) fn count_shelved(self) {
        self.counter(3).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_an_older_epoch_holds_it() {
        assert!(!Announcement::FREE.holds(3) && !Announcement::QUIET.holds(3));
        assert!(!Announcement::within(3).holds(3) && Announcement::within(2).holds(3));
        assert!(Announcement::within(0).holds(1), "epoch 0 is one like others");
    }
}

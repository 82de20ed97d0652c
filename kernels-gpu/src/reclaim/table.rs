//! The structures that a process is inside: a table in shared memory.
//!
//! A process may be inside several structures at a time, of equal or different type, and enter and leave them
//! in any order. Its state in a structure lies in an *entry* of its table, which is found by the address of
//! the structure's epochs. The first [`ENTRIES`] structures have one; what the others do is said in
//! [`super::process`].
//!
//! Shared memory has no contents at first, or those of an earlier block, and nothing runs before the first
//! entry is needed. So entries are made to tell by themselves whether they are in use: an entry is
//! *certified* if a word of it is the hash of its key, its participant slot, its own place and its process.
//! Only the process itself certifies entries, and it takes that back. Thus an entry in use is never taken for
//! a free one. A free one is taken for one in use if 32 arbitrary bits happen to fit, or if an earlier block
//! ended inside a structure: then it is not used, which is slower and changes nothing else.
use super::group::Group;
use core::marker::PhantomData;
use simt::{Shared, SharedShape};

/// Structures whose state a process keeps in shared memory.
pub const ENTRIES: usize = 4;

/// Words of an entry: the address of the structure's epochs, in two words.
const KEY: usize = 0;
/// The hash that certifies the entry.
const CHECK: usize = 2;
/// The place: the process's participant slot among the structure's.
pub const PLACE: usize = 3;
/// How often the process has opened the structure and not closed it.
pub const OPENS: usize = 4;
/// How often it has entered and not left.
pub const INSIDE: usize = 5;
/// The bag in use.
pub const CURRENT: usize = 6;
/// The epoch in which the bags were rotated last.
pub const EPOCH: usize = 7;
/// The epoch that is entered.
pub const NEXT: usize = 8;
/// Processes found in an older epoch; not 0 where nobody looks for them.
pub const LATE: usize = 9;
/// Entries into epochs at this place.
pub const ENTERED: usize = 10;
/// Counts of the bags: all that was put in since the bag was empty.
pub const COUNTS: usize = 11;
/// Items retired and freed that are not added to the counters yet.
pub const RETIRED: usize = 14;
pub const FREED: usize = 15;
const WORDS: usize = 16;

/// The tables of a block's processes.
struct Tables<G>(PhantomData<G>);

impl<G: Group> SharedShape for Tables<G> {
    type Word = u32;
    const LEN: usize = G::A_BLOCK * ENTRIES * WORDS;
}

/// A process's state in a structure.
#[derive(Clone, Copy)]
pub struct Entry(Shared<u32>);

impl Entry {
    /// A word.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, word: usize) -> u32 {
        self.0.load(word)
    }

    /// Writes a word.
    #[inline(always)]
    #[track_caller]
    pub fn set(self, word: usize, value: u32) {
        self.0.store(word, value);
    }

    /// Adds to a word, beside other lanes. Returns what it was.
    #[inline(always)]
    #[track_caller]
    pub fn add(self, word: usize, value: u32) -> u32 {
        self.0.fetch_add(word, value)
    }

    #[inline(always)]
    #[track_caller]
    fn key(self) -> u64 {
        self.0.load_uninit(KEY) as u64 | (self.0.load_uninit(KEY + 1) as u64) << 32
    }

    #[inline(always)]
    #[track_caller]
    fn write_key(self, key: u64, check: u32) {
        self.set(KEY, key as u32);
        self.set(KEY + 1, (key >> 32) as u32);
        self.set(CHECK, check);
    }
}

/// The table of the calling thread's process.
pub struct Table<G>(PhantomData<G>);

impl<G: Group> Table<G> {
    /// The entry `index`.
    #[inline(always)]
    #[track_caller]
    fn entry(index: usize) -> Entry {
        let process = if G::A_BLOCK == 1 { 0 } else { G::number() as usize };
        assert!(process < G::A_BLOCK, "more processes in a block than its group has");
        // SAFETY: one of the entries of one of the block's tables.
        Entry(unsafe { Shared::of::<Tables<G>>().part(((process * ENTRIES + index) * WORDS) as u32, WORDS) })
    }

    /// Returns the entry of a structure that the process has open, if it has one. By any lane between two
    /// barriers of the process.
    #[inline(always)]
    #[track_caller]
    pub fn find(key: u64) -> Option<Entry> {
        let mut index = 0;
        while index < ENTRIES {
            let entry = Self::entry(index);
            if entry.key() == key {
                return Some(entry);
            }
            index += 1;
        }
        None
    }

    /// As [`Self::find`], where the process may not have opened the structure: by one thread.
    #[inline(always)]
    #[track_caller]
    pub fn find_open(key: u64) -> Option<Entry> {
        let mut index = 0;
        while index < ENTRIES {
            if Self::entry(index).key() == key && Self::is_certified(index) {
                return Some(Self::entry(index));
            }
            index += 1;
        }
        None
    }

    /// Returns a free entry, by one thread.
    #[inline(always)]
    #[track_caller]
    pub fn free() -> Option<usize> {
        let mut index = 0;
        while index < ENTRIES {
            if !Self::is_certified(index) {
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// Gives a free entry to a structure in which the process has the participant slot `place`, by one
    /// thread.
    #[inline(always)]
    #[track_caller]
    pub fn take(index: usize, key: u64, place: u32) -> Entry {
        let entry = Self::entry(index);
        entry.set(PLACE, place);
        entry.write_key(key, Self::check(index, key, place));
        entry
    }

    /// Frees an entry, by one thread. Its other words stay until it is taken again.
    #[inline(always)]
    #[track_caller]
    pub fn release(entry: Entry) {
        entry.write_key(0, 0);
    }

    #[inline(always)]
    #[track_caller]
    fn is_certified(index: usize) -> bool {
        let entry = Self::entry(index);
        let (key, place) = (entry.key(), entry.0.load_uninit(PLACE));
        key != 0 && entry.0.load_uninit(CHECK) == Self::check(index, key, place)
    }

    #[inline(always)]
    fn check(index: usize, key: u64, place: u32) -> u32 {
        let process = G::index().wrapping_mul(ENTRIES as u32).wrapping_add(index as u32);
        let words = [key as u32, (key >> 32) as u32, place, process];
        let (mut hash, mut word) = (0x9e37_79b9, 0);
        while word < words.len() {
            hash = (hash ^ words[word]).wrapping_mul(0x85eb_ca6b);
            hash ^= hash >> 15;
            word += 1;
        }
        hash
    }
}

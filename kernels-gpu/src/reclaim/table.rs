//! Table of the structures that a participant is inside, in shared memory.
//!
//! A participant may be inside several structures at a time, of equal or different type, and enter and leave
//! them in any order. Its state in a structure is an *entry* of its table, found by the address of the
//! structure's epochs. There are [`ENTRIES`]: each structure that is opened gets a free one, if there is one;
//! [`super::Participant`] describes the treatment of the others.
//!
//! Shared memory is uninitialized at first, or has the contents of an earlier block, and no code runs before
//! the first entry is needed. So an entry itself shows whether it is in use: it is *certified* if one of its
//! words is the hash of its key, its participant slot, its index and its participant. Only the participant
//! itself certifies its entries and revokes that. Thus an entry in use is never mistaken for a free one. A
//! free entry is mistaken for one in use if 32 arbitrary bits happen to match, or if an earlier block ended
//! inside a structure: then it stays unused, which is slower and has no other effect.
use super::group::Group;
use core::marker::PhantomData;
use simt::{Shared, SharedShape, device};

/// Number of structures whose state a participant keeps in shared memory.
pub const ENTRIES: usize = 4;

/// Word index in an entry of the address of the structure's epochs, which takes two words.
const KEY: usize = 0;
/// Word index of the hash that certifies the entry.
const CHECK: usize = 2;
/// Word index of the participant slot in the structure.
pub const PLACE: usize = 3;
/// Word index of the nesting depth of opens.
pub const OPENS: usize = 4;
/// Word index of the nesting depth of entries.
pub const INSIDE: usize = 5;
/// Word index of the current bag.
pub const CURRENT: usize = 6;
/// Word index of the epoch that had been read when the bags were last rotated.
pub const EPOCH: usize = 7;
/// Word index of the epoch that was read before the last announcement.
pub const NEXT: usize = 8;
/// Word index of the number of participants found in an older epoch; not 0 if this entry skips the check.
pub const LATE: usize = 9;
/// Word index of the number of entries into epochs with this participant slot.
pub const ENTERED: usize = 10;
/// Word index of the bags' counts: items put in since each bag was empty, including those that did not fit.
pub const COUNTS: usize = 11;
/// Word index of the number of retired items that are not yet added to the counter.
pub const RETIRED: usize = 15;
const WORDS: usize = 16;

/// The tables of a block's participants.
struct Tables<G>(PhantomData<G>);

impl<G: Group> SharedShape for Tables<G> {
    type Word = u32;
    const LEN: usize = G::A_BLOCK * ENTRIES * WORDS;
}

/// A participant's state in a structure.
#[derive(Clone, Copy)]
pub struct Entry(Shared<u32>);

#[device(caller)]
impl Entry {
    /// Loads a word.
    pub fn get(self, word: usize) -> u32 {
        self.0.load(word)
    }

    /// Stores a word.
    pub fn set(self, word: usize, value: u32) {
        self.0.store(word, value);
    }

    /// Adds to a word, atomically. Returns its previous value.
    pub fn add(self, word: usize, value: u32) -> u32 {
        self.0.fetch_add(word, value)
    }

    fn key(self) -> u64 {
        self.0.load_uninit(KEY) as u64 | (self.0.load_uninit(KEY + 1) as u64) << 32
    }

    fn write_key(self, key: u64, check: u32) {
        self.set(KEY, key as u32);
        self.set(KEY + 1, (key >> 32) as u32);
        self.set(CHECK, check);
    }
}

/// The table of the calling thread's participant.
pub struct Table<G>(PhantomData<G>);

#[device(caller)]
impl<G: Group> Table<G> {
    /// Returns entry `index`.
    fn entry(index: usize) -> Entry {
        let process = if G::A_BLOCK == 1 { 0 } else { G::number() as usize };
        assert!(process < G::A_BLOCK, "more processes in a block than its group has");
        // SAFETY: the part is an entry of one of the block's tables.
        Entry(unsafe { Shared::of::<Tables<G>>().part(((process * ENTRIES + index) * WORDS) as u32, WORDS) })
    }

    /// Returns the entry of a structure, if the participant has it open and it has one. Any lane may call it
    /// between two barriers of the participant.
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

    /// As [`Self::find`], for structures that the participant may not have opened; by one thread.
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

    /// Returns the index of a free entry, by one thread.
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

    /// Assigns a free entry to a structure in which the participant has the participant slot `place`, by one
    /// thread.
    pub fn take(index: usize, key: u64, place: u32) -> Entry {
        let entry = Self::entry(index);
        entry.set(PLACE, place);
        entry.write_key(key, Self::check(index, key, place));
        entry
    }

    /// Releases an entry, by one thread. Its other words stay until it is taken again.
    pub fn release(entry: Entry) {
        entry.write_key(0, 0);
    }

    fn is_certified(index: usize) -> bool {
        let entry = Self::entry(index);
        let (key, place) = (entry.key(), entry.0.load_uninit(PLACE));
        key != 0 && entry.0.load_uninit(CHECK) == Self::check(index, key, place)
    }

    #[device]
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

//! A hash set of words in device memory, with linear probing: the edges of a batch, or the vertices of
//! groups.
//!
//! One launch inserts, and later ones look up. No key is removed, so a probe ends at the first empty word.
use simt::hash::mix32;
use simt::{GlobalSlice, Order, Scope, device};

/// Returns the key of an undirected edge: the smaller end in the high half, the larger one in the low half.
#[device]
pub(super) fn edge_key(one: u32, other: u32) -> u64 {
    (one.min(other) as u64) << 32 | one.max(other) as u64
}

/// A word that is no key: an empty place of a set. As a key, it would be an edge from the vertex 0 to itself.
pub(super) const NO_EDGE: u64 = 0;

/// A set of keys, which are not [`NO_EDGE`]. The number of words is a power of two; all are [`NO_EDGE`] at
/// first.
#[derive(Clone, Copy)]
pub(super) struct KeySet(pub GlobalSlice<u64>);

#[device]
impl KeySet {
    /// Returns the place at which the search for a key begins.
    fn first(self, key: u64) -> usize {
        // The first end is mixed by itself: ids that are multiples of a power of two then spread, too.
        self.clamped(mix32(mix32((key >> 32) as u32) ^ key as u32) as usize)
    }

    /// Returns the place within the set for a number, below the length of the set if there is any.
    fn clamped(self, number: usize) -> usize {
        number & self.0.len().wrapping_sub(1)
    }

    /// Inserts a key if it is absent. Returns its place, and whether it was inserted, or `None` if the set
    /// has no room.
    ///
    /// Relaxed: a word has its whole state, and lookups are in later launches.
    #[cfg_attr(not(feature = "dynamic-graph"), allow(dead_code))] // other families share the folder
    pub fn insert(self, key: u64) -> Option<(usize, bool)> {
        let (mut place, mut probes) = (self.first(key), 0);
        while probes < self.0.len() {
            match self.0.at(place).compare_exchange(NO_EDGE, key, Order::Relaxed, Scope::Device) {
                Ok(_) => return Some((place, true)),
                Err(found) if found == key => return Some((place, false)),
                Err(_) => place = self.clamped(place + 1),
            }
            probes += 1;
        }
        None
    }

    /// Returns how many of two keys are in the set. Nothing is inserted meanwhile. The first words of both
    /// searches are read before any is compared, so that neither load waits for the other.
    pub fn count(self, keys: [u64; 2]) -> u32 {
        let words = keys.map(|key| self.0.read(self.first(key)));
        self.has(keys[0], words[0]) as u32 + self.has(keys[1], words[1]) as u32
    }

    /// Returns whether the set has a key, given the first word of its search.
    fn has(self, key: u64, mut word: u64) -> bool {
        let (mut place, mut probes) = (self.first(key), 1);
        while word != key && word != NO_EDGE && probes < self.0.len() {
            place = self.clamped(place + 1);
            word = self.0.read(place);
            probes += 1;
        }
        word == key
    }
}

//! The version word of a leaf, and slots in nodes that have one.
use crate::keyed::{Lane, Scalar, Slot};
use crate::ordered::meta::{entry, handle_of};
use crate::ordered::node::Node;
use crate::ordered::versioning::LATEST;
use crate::slab::Handle;
use core::marker::PhantomData;
use simt::{Convergence, Global, Shuffle, Tile, device};

/// Stamp of a blank slab.
pub(super) const BLANK: u32 = u32::MAX;
/// Stamp of a leaf that a writer is changing.
pub(super) const PENDING: u32 = u32::MAX - 1;
/// Stamp of a leaf whose change is complete but has no timestamp yet.
pub(super) const UNSTAMPED: u32 = u32::MAX - 2;
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
    pub(super) stamp: u32,
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

    /// Returns the version of a leaf that a tile has read, for the whole tile.
    #[device(caller)]
    pub fn of_leaf<S: Slot, const W: u32, const L: usize>(
        tile: Tile<W, impl Convergence>,
        read: &Lane<S, L>,
    ) -> Self {
        let word = read.words()[Node::<S, W, L>::VERSION as usize % L];
        Self::of::<S>(word).from(tile, Node::<S, W, L>::VERSION / L as u32)
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
    pub fn from<const W: u32>(self, tile: Tile<W, impl Convergence>, lane: u32) -> Self {
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
    }
}

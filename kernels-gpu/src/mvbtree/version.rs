//! The version word of a leaf, and slots in nodes that have one.
use crate::keyed::{Lane, Scalar, Slot};
use crate::ordered::meta::{entry, handle_of};
use crate::ordered::node::Node;
use crate::ordered::versioning::LATEST;
use crate::slab::Handle;
use core::fmt;
use core::marker::PhantomData;
use simt::{Convergence, Global, Shuffle, Tile, bound, device};

/// Stamp of a leaf: a timestamp, or a state that is newer than every timestamp.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub(super) u32);

impl Stamp {
    /// Stamp of a blank slab.
    pub const BLANK: Self = Self(u32::MAX);
    /// Stamp of a leaf that a writer is changing.
    pub const PENDING: Self = Self(u32::MAX - 1);
    /// Stamp of a leaf whose change is complete but has no timestamp yet.
    pub const UNSTAMPED: Self = Self(u32::MAX - 2);
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BLANK => f.write_str("blank"),
            Self::PENDING => f.write_str("pending"),
            Self::UNSTAMPED => f.write_str("unstamped"),
            Self(timestamp) => write!(f, "{timestamp}"),
        }
    }
}

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
    const NAME: &'static str = S::NAME;
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

    fn take(slot: Global<S::Word>, word: S::Word) -> Option<S::Value> {
        S::take(slot, word)
    }

    fn replace(slot: Global<S::Word>, word: S::Word, value: S::Value) -> Option<S::Value> {
        S::replace(slot, word, value)
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
///
/// ```
/// use phalanx_kernels::keyed::Packed;
/// use phalanx_kernels::mvbtree::Version;
/// use phalanx_kernels::slab::Handle;
/// use simt::Tile;
///
/// let version = Version::FIRST.before(Handle::from_word(9)); // slab 9 has the content before
/// assert_eq!(Version::of::<Packed>(version.word::<Packed>()), version);
/// assert_eq!((version.stamp(), version.is_protected(1), version.is_protected(0)), (Some(0), true, false));
/// assert!(!version.is_newer_than(0)); // a reader at any timestamp needs no older one
///
/// /// Returns the version that the first lane of a tile has read, to all its lanes.
/// fn of_first_lane(tile: Tile<4>, word: u64) -> Version {
///     Version::of::<Packed>(word).from(tile, 0) // `Version::of_leaf` does so for a leaf
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub(super) stamp: Stamp,
    /// The previous version, or none.
    pub old: Handle,
}

#[device]
impl Version {
    /// A version that has existed since the beginning, with no previous one.
    pub const FIRST: Self = Self { stamp: Stamp(0), old: Handle::NONE };

    /// Decodes a version word.
    pub fn of<S: Slot>(word: S::Word) -> Self {
        Self { stamp: Stamp(S::key(word).to_u64() as u32), old: handle_of(S::value(word)) }
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
        entry::<S>(S::Stored::from_u64(self.stamp.0 as u64), self.old)
    }

    /// Returns this version with `old` as its previous version.
    pub fn before(self, old: Handle) -> Self {
        Self { old, ..self }
    }

    /// Broadcasts the version that `lane` holds to the whole tile.
    #[device(caller)]
    pub fn from<const W: u32>(self, tile: Tile<W, impl Convergence>, lane: u32) -> Self {
        Self { stamp: Stamp(tile.shuffle(self.stamp.0, lane)), old: tile.shuffle(self.old, lane) }
    }

    /// Whether a reader at timestamp `at` needs an older version, and there is one.
    pub fn is_newer_than(self, at: u32) -> bool {
        self.stamp.0 > bound(at) && !self.old.is_none()
    }

    /// Whether a snapshot with a stamp below `since` may read this version.
    pub fn is_protected(self, since: u32) -> bool {
        // mutation: more performance, because a version that no snapshot reads is saved as well.
        self.stamp.0 < bound(since)
    }

    /// Returns the timestamp, if the leaf is stamped.
    pub fn stamp(self) -> Option<u32> {
        if self.stamp.0 <= LATEST { Some(self.stamp.0) } else { None }
    }
}

impl Shuffle for Version {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self { stamp: Stamp(word(self.stamp.0)), old: self.old.map_words(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::{Packed, Wide};

    #[test]
    fn words_say_what_they_were_made_of() {
        let version = Version { stamp: Stamp(7), old: Handle::from_word(9) };
        assert_eq!(Version::of::<Packed>(version.word::<Packed>()), version);
        assert_eq!(Version::of::<Wide<u64, u32>>(version.word::<Wide<u64, u32>>()), version);
        assert_eq!(Version::of::<Wide<u64, u64>>(Wide::<u64, u64>::EMPTY).stamp, Stamp::BLANK);
        assert_eq!(Version::of::<Packed>(Packed::EMPTY).stamp(), None);
    }

    #[test]
    fn stamps_print_their_meaning() {
        let stamps = [Stamp::BLANK, Stamp::PENDING, Stamp::UNSTAMPED, Stamp(7)];
        assert_eq!(format!("{stamps:?}"), "[blank, pending, unstamped, 7]");
    }

    #[test]
    fn what_has_no_stamp_is_newer_than_everything() {
        for stamp in [Stamp::PENDING, Stamp::UNSTAMPED] {
            assert!(Version { stamp, old: Handle::from_word(0) }.is_newer_than(LATEST));
        }
        assert!(!Version::FIRST.is_newer_than(0), "there is none before");
    }
}

//! Layout of a table: its slots, and the places of their keys, scores and versions in memory.
use crate::keyed::Scalar;
use simt::device;

/// Number of slots in a bucket.
pub const SLOTS: u32 = 128;

/// Number of words of digests in a bucket: one line of 128 bytes.
pub const DIGEST_WORDS: u32 = SLOTS / 4;

/// Maximum number of buckets: positions of slots are numbers of 32 bits, and the last one stands for none.
pub const MOST_BUCKETS: u32 = u32::MAX / SLOTS;

/// The slot of no key.
pub const NOWHERE: u32 = u32::MAX;

/// Returns the number of keys in a block of an [interleaved](super::CacheView::interleaved) table: a sector
/// of 32 bytes has a block of keys and scores if they have the same size.
///
/// ```
/// use phalanx_kernels::cache::block;
///
/// assert_eq!((block::<u32, u32>(), block::<u64, u32>(), block::<u64, u64>()), (4, 4, 2));
/// ```
#[device]
pub fn block<K: Scalar, S: Scalar>() -> u32 {
    if K::BITS + S::BITS == 128 { 2 } else { 4 }
}

/// Layout of the record of a slot whose key, score and version are neighbours, in words of four bytes. It
/// begins with the key.
///
/// ```
/// use phalanx_kernels::cache::Record;
///
/// // Key and version fill the first 8 bytes, the score the second.
/// assert_eq!(Record::of::<u32, u64>(), Record { words: 4, version: 1, score: 2 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of words: a sector of 32 bytes has whole records.
    pub words: u32,
    /// Index of the score's first word.
    pub score: u32,
    /// Index of the version.
    pub version: u32,
}

#[device]
impl Record {
    /// Returns the layout for keys and scores of these types.
    pub fn of<K: Scalar, S: Scalar>() -> Self {
        let (key, score) = (K::BITS / 32, S::BITS / 32);
        // The version fills the gap that a score's alignment leaves behind a shorter key.
        let (score_at, version_at) = if score > key { (score, key) } else { (key, key + score) };
        Self { words: (key + score + 1).next_power_of_two(), score: score_at, version: version_at }
    }
}

/// The places of keys, scores and versions: blocks of `1 << shift` neighbouring keys, and of as many scores.
/// A block begins `key_pitch` keys, or `score_pitch` scores, behind the one before, and the version of a slot
/// `version_pitch` words behind that of the slot before.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) shift: u32,
    pub(super) key_pitch: u32,
    pub(super) score_pitch: u32,
    pub(super) version_pitch: u32,
}

#[device]
impl Blocks {
    /// Keys, scores and versions in an array each.
    pub(super) const SEPARATE: Self =
        Self { shift: SLOTS.trailing_zeros(), key_pitch: SLOTS, score_pitch: SLOTS, version_pitch: 1 };

    /// Returns the index of a slot's element among elements of this pitch.
    pub(super) fn index(self, position: u32, pitch: u32) -> usize {
        let within = position & ((1 << self.shift) - 1);
        (position >> self.shift) as usize * pitch as usize + within as usize
    }
}

/// Returns the index of lane `rank`'s `j`-th word among those that `width` lanes read together: lanes read
/// neighbouring chunks of 16 bytes.
#[device]
pub(super) fn word_of(rank: u32, width: u32, j: u32) -> u32 {
    (j / 4 * width + rank) * 4 + j % 4
}

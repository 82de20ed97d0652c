//! Fingerprints: 16 bits per slot in device memory, which say whether the slot is taken, by which operation,
//! and, by 14 bits of a hash, by which keys it may be taken.
use core::fmt;
use simt::device;

/// State of a slot. Two of them fill a word.
///
/// ```text
/// bits  15 14   13 .. 0
///        0  0   0           FREE: the slot has no item
///        0  0   hash        an aborted claim: another insertion of a key with this hash goes first
///        0  1   hash        claimed: an insertion is about to write its item
///        0  1   0           claimed by an update, or retired: the slot's owner has not freed it yet
///        1  0   hash        live: the slot has an item
///        1  1   hash        locked: as live; an operation is about to change or remove the item
/// ```
///
/// ```
/// use phalanx_kernels::persistent::{Fingerprint, Hashed};
///
/// let live = Fingerprint::live(Hashed::of(&[7], 0).fingerprint());
/// assert!(live.has_item() && live.is_live() && !live.is_in_progress());
/// assert!(live.locked().has_item() && live.locked().is_locked());
/// let claimed = Fingerprint::claimed(live.hash());
/// assert!(claimed.is_in_progress() && !claimed.has_item() && claimed.aborted().is_in_progress());
/// let word = live.put_in(0, 1); // the second fingerprint of a word
/// assert_eq!((Fingerprint::in_word(word, 1), Fingerprint::in_word(word, 0)), (live, Fingerprint::FREE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u32);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 & Self::STATE {
            0 if self.0 == 0 => return f.write_str("FREE"),
            0 => "ABORTED",
            Self::CLAIM => "CLAIMED",
            Self::ITEM => "LIVE",
            _ => "LOCKED",
        };
        write!(f, "{state}({:#x})", self.hash())
    }
}

#[device]
impl Fingerprint {
    /// The slot has no item, and no operation is about to place one.
    pub const FREE: Self = Self(0);
    /// Bits of the state.
    const STATE: u32 = 0xc000;
    /// Bits of the hash.
    const HASH: u32 = 0x3fff;
    /// State of a claimed slot.
    const CLAIM: u32 = 0x4000;
    /// State of a live slot.
    const ITEM: u32 = 0x8000;

    /// Returns the fingerprint of an item with this hash.
    pub fn live(hash: u32) -> Self {
        Self(Self::ITEM | hash & Self::HASH)
    }

    /// Returns the fingerprint of a claim by an insertion of a key with this hash, or by an update if it is
    /// 0.
    pub fn claimed(hash: u32) -> Self {
        Self(Self::CLAIM | hash & Self::HASH)
    }

    /// Returns the fingerprint of this live slot after an operation has locked it.
    pub fn locked(self) -> Self {
        Self(self.0 | Self::CLAIM)
    }

    /// Returns the fingerprint of this claimed slot after another operation has aborted the claim.
    pub fn aborted(self) -> Self {
        Self(self.0 & !Self::CLAIM)
    }

    /// Returns the 14 bits of the hash.
    pub fn hash(self) -> u32 {
        self.0 & Self::HASH
    }

    /// Returns whether the slot has an item: it is live or locked.
    pub fn has_item(self) -> bool {
        self.0 & Self::ITEM != 0
    }

    /// Returns whether the slot is live.
    pub fn is_live(self) -> bool {
        self.0 & Self::STATE == Self::ITEM
    }

    /// Returns whether the slot is locked.
    pub fn is_locked(self) -> bool {
        self.0 & Self::STATE == Self::STATE
    }

    /// Returns whether the slot has no item, but an operation has claimed it.
    pub fn is_in_progress(self) -> bool {
        self.0 != 0 && !self.has_item()
    }

    /// Returns fingerprint `half`, 0 or 1, of a word.
    pub fn in_word(word: u32, half: u32) -> Self {
        Self(word >> (16 * half) & 0xffff)
    }

    /// Returns a word whose fingerprint `half`, 0 or 1, is replaced by this one.
    pub fn put_in(self, word: u32, half: u32) -> u32 {
        word & !(0xffff << (16 * half)) | self.0 << (16 * half)
    }

    /// Returns whether the slot has an item whose key may have this hash.
    pub(super) fn may_have(self, hash: u32) -> bool {
        self.0 & !Self::CLAIM == Self::ITEM | hash
    }
}

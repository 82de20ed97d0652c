//! Digests: one byte per slot that tells whether the slot is taken and, by eight bits of a hash, by which
//! keys it may be taken. The digests of a bucket fill one line of 128 bytes.
use core::fmt;
use simt::device;

/// State of a slot: one byte of its bucket's line.
///
/// ```
/// use phalanx_kernels::cache::{Digest, Hashed};
///
/// let hashed = Hashed::of(7u64, 0);
/// let digest = hashed.digest();
/// assert!(digest.has_key() && !digest.is_free() && Digest::ERASED.is_free());
/// assert_eq!(digest, Digest::from_byte(digest.byte()));
/// assert_eq!(Digest::of_hash(0).byte(), 3);
/// let word = digest.put_in(0, 2); // a word of digests: that of slot 2 of four
/// assert_eq!((Digest::in_word(word, 2), Digest::in_word(word, 1)), (digest, Digest::EMPTY));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(u32);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EMPTY => write!(f, "EMPTY"),
            Self::BUSY => write!(f, "BUSY"),
            Self::ERASED => write!(f, "ERASED"),
            Self(byte) => write!(f, "TAKEN({byte:#04x})"),
        }
    }
}

#[device]
impl Digest {
    /// The slot has never been taken since the table was cleared. No search goes beyond a sector with such a
    /// slot.
    pub const EMPTY: Self = Self(0);
    /// A tile has locked the slot: it alone may access the slot's key, score and row.
    pub const BUSY: Self = Self(1);
    /// The slot's key was removed.
    pub const ERASED: Self = Self(2);
    /// Number of digests that are states without a key.
    const STATES: u32 = 3;

    /// Returns the digest of a key from the low eight bits of its hash.
    pub fn of_hash(hash: u64) -> Self {
        let byte = hash as u32 & 0xff;
        Self(Self::STATES + ((byte * (256 - Self::STATES)) >> 8))
    }

    /// Returns the digest with this byte.
    pub fn from_byte(byte: u32) -> Self {
        Self(byte & 0xff)
    }

    /// Returns the byte.
    pub fn byte(self) -> u32 {
        self.0
    }

    /// Returns whether the slot has a key.
    pub fn has_key(self) -> bool {
        self.0 >= Self::STATES
    }

    /// Returns whether a key may be placed in the slot.
    pub fn is_free(self) -> bool {
        self == Self::EMPTY || self == Self::ERASED
    }

    /// Returns the `byte`-th digest of a word.
    pub fn in_word(word: u32, byte: u32) -> Self {
        Self::from_byte(word >> (8 * byte))
    }

    /// Returns a word whose `byte`-th digest is replaced by this one.
    pub fn put_in(self, word: u32, byte: u32) -> u32 {
        let shift = 8 * byte;
        word & !(0xff << shift) | self.0 << shift
    }
}

/// Returns a word with the bit `0x80` set in each byte in which `word` has the byte, and no other bits.
#[device]
pub(super) fn equal_bytes(word: u32, byte: u32) -> u32 {
    const LOW: u32 = 0x7f7f_7f7f;
    let differences = word ^ byte.wrapping_mul(0x0101_0101);
    // The sum sets the top bit of each byte with another bit set below. Bytes do not carry into each other.
    !(((differences & LOW) + LOW) | differences | LOW)
}

/// Returns a word with the bit `0x80` set in each byte of `word` that is the digest of a free slot, and no
/// other bits.
#[device]
pub(super) fn free_bytes(word: u32) -> u32 {
    const { assert!(Digest::EMPTY.0 == 0 && Digest::ERASED.0.is_power_of_two()) };
    equal_bytes(word & !(Digest::ERASED.0 * 0x0101_0101), 0)
}

/// Returns a word with the bit `0x80` set in each byte of `word` that is the digest of a key, and no other
/// bits.
#[device]
pub(super) fn taken_bytes(word: u32) -> u32 {
    (free_bytes(word) | equal_bytes(word, Digest::BUSY.0)) ^ 0x8080_8080
}

/// A set of digests among the words that a lane has read, at most eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet(u32);

#[device]
impl ByteSet {
    /// The set of no digest.
    pub const NOTHING: Self = Self(0);

    /// Returns whether the set has no digest.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of digests.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the set's first digest as the index of its word and of its byte in the word, in an order of
    /// the set's own. Arbitrary if the set is empty.
    pub fn first(self) -> (u32, u32) {
        let bit = self.0.trailing_zeros();
        (bit % 8, bit / 8 % 4)
    }

    /// Returns the set without its first digest.
    pub fn without_first(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }
}

/// Words of digests that a lane has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digests<const N: usize> {
    pub words: [u32; N],
}

#[device]
impl<const N: usize> Digests<N> {
    /// Returns the digests that equal this one.
    pub fn equal_to(&self, digest: Digest) -> ByteSet {
        self.set_of(|word| equal_bytes(word, digest.byte()))
    }

    /// Returns the digests of slots that have keys.
    pub fn taken(&self) -> ByteSet {
        self.set_of(taken_bytes)
    }

    /// Returns the digests of slots in which a key may be placed.
    pub fn free(&self) -> ByteSet {
        self.set_of(free_bytes)
    }

    /// Returns the digests for which `bytes` sets the bit `0x80` of their bytes, given a word of them.
    fn set_of(&self, bytes: impl Fn(u32) -> u32) -> ByteSet {
        const { assert!(N <= 8, "a set has a bit per digest of eight words") };
        let (mut set, mut word) = (0, 0);
        while word < N {
            set |= (bytes(self.words[word]) >> 7) << word;
            word += 1;
        }
        ByteSet(set)
    }

    /// Returns the word of this index.
    pub fn word(&self, index: u32) -> u32 {
        selected(&self.words, index)
    }
}

/// Returns the word of this index. Written as a chain of selections, because the compiler would place an
/// indexed array in local memory.
#[device]
pub(super) fn selected<const N: usize>(words: &[u32; N], index: u32) -> u32 {
    let (mut chosen, mut word) = (words[0], 1);
    while word < N {
        chosen = if index == word as u32 { words[word] } else { chosen };
        word += 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_keys_are_no_states_and_spread() {
        let mut counts = [0; 256];
        (0..256).for_each(|hash| counts[Digest::of_hash(hash).byte() as usize] += 1);
        assert_eq!(counts[..3], [0; 3]);
        assert!(counts[3..].iter().all(|count| (1..=2).contains(count)), "{counts:?}");
        assert!(Digest::of_hash(0xff).has_key() && !Digest::BUSY.has_key());
    }

    #[test]
    fn equal_bytes_are_found_in_every_word() {
        let mut state = 1u32;
        for _ in 0..10_000 {
            let words = [0; 8].map(|_: u32| {
                state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
                // Few distinct bytes, among them those whose neighbours could carry.
                u32::from_le_bytes(
                    state
                        .to_le_bytes()
                        .map(|byte| [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff][byte as usize % 8]),
                )
            });
            for byte in [0, 1, 2, 0x7f, 0x80, 0x81, 0xff] {
                let (digests, digest) = (Digests { words }, Digest::from_byte(byte));
                let mut set = digests.equal_to(digest);
                let expected = (0..32).filter(|at| Digest::in_word(words[at / 4], *at as u32 % 4) == digest);
                let mut found = Vec::new();
                while !set.is_empty() {
                    let (word, byte) = set.first();
                    assert_eq!(digests.word(word), words[word as usize]);
                    found.push(word as usize * 4 + byte as usize);
                    set = set.without_first();
                }
                found.sort_unstable();
                assert!(found.into_iter().eq(expected), "{words:x?} {byte:x}");
            }
            let taken = (0..32).filter(|at| Digest::in_word(words[at / 4], *at as u32 % 4).has_key());
            assert_eq!(Digests { words }.taken().len() as usize, taken.count(), "{words:x?}");
            let free = (0..32).filter(|at| Digest::in_word(words[at / 4], *at as u32 % 4).is_free());
            assert_eq!(Digests { words }.free().len() as usize, free.count(), "{words:x?}");
        }
    }

    #[test]
    fn a_digest_replaces_its_byte_alone() {
        assert_eq!(Digest::BUSY.put_in(0x4433_2211, 2), 0x4401_2211);
        assert_eq!(Digest::in_word(0x4433_2211, 3), Digest::from_byte(0x44));
        assert_eq!(format!("{:?} {:?}", Digest::ERASED, Digest::from_byte(0x44)), "ERASED TAKEN(0x44)");
    }
}

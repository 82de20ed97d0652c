//! Keys of a sort, their digits, and the payloads that move with them.
use simt::{Shuffle, Word, device};

/// Number of bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Number of values of a digit.
pub const DIGITS: u32 = 1 << DIGIT_BITS;

/// A word type by which arrays are sorted.
pub trait SortKey: Word + Shuffle {
    /// Number of bits.
    const BITS: u32;
    /// Key whose digits all have the largest value.
    const LAST: Self;

    /// Returns the bits from `shift` on, masked by `mask`.
    fn digit(self, shift: u32, mask: u32) -> u32;
}

impl SortKey for u32 {
    const BITS: u32 = 32;
    const LAST: Self = u32::MAX;

    #[device]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        self >> shift & mask
    }
}

impl SortKey for u64 {
    const BITS: u32 = 64;
    const LAST: Self = u64::MAX;

    #[device]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        (self >> shift) as u32 & mask
    }
}

/// Payload that moves with a key: nothing, or a word.
pub trait Payload: Copy + 'static {
    /// Type of the moved word.
    type Word: Word;
    /// Number of bytes of the payload; 0 for nothing.
    const BYTES: u32;
}

impl Payload for () {
    type Word = u8;
    const BYTES: u32 = 0;
}

macro_rules! payloads {
    ($($word:ty)*) => {$(
        impl Payload for $word {
            type Word = $word;
            const BYTES: u32 = size_of::<$word>() as u32;
        }
    )*};
}
payloads!(u32 u64 u128);

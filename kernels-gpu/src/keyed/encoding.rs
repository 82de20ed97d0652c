//! The words that stand for keys and values of other types than `u32` and `u64`.
//!
//! Structures store, compare and order words. [`Encoded`] maps a type to words such that words compare as
//! unsigned numbers in the order of the type, so a structure needs no kernels for that type.
//!
//! | type | word |
//! |---|---|
//! | unsigned integers | the number |
//! | signed integers | the number with its sign bit flipped |
//! | `f32`, `f64` | its bits, all of them flipped if it is negative, else only the sign bit: the order of `total_cmp` |
//! | `bool`, `char` | 0 or 1, the code point |
//! | `[u8; 4]`, `[u8; 8]` | the bytes, the first one highest |
//! | `NonZero` integers | the word of the integer |
use super::slot::Scalar;
use core::num::NonZero;
use simt::device;

/// A type whose values are stored as words. No two values have the same word, and words compare as values do.
///
/// ```
/// use phalanx_kernels::keyed::{Encoded, Kind, Merge, Outcome, Session};
///
/// /// Adds to the float of a key, in a kernel.
/// fn add<M: Kind<Key = u32, Value = u32>>(session: &mut Session<M>, key: i32, value: f32) -> Outcome {
///     session.upsert(Merge::AddFloat, Some((key.encode(), value.encode())))
/// }
///
/// assert!((-1i32).encode() < 1i32.encode() && f64::NEG_INFINITY.encode() < 0.0f64.encode());
/// assert_eq!((i32::decode((-7i32).encode()), bool::decode(2)), (Some(-7), None));
/// ```
pub trait Encoded: Copy + Send + Sync + 'static {
    /// Type of the words.
    type Word: Scalar;

    /// Returns the word that stands for the value.
    fn encode(self) -> Self::Word;

    /// Returns the value for which the word stands, or `None` if it stands for none.
    fn decode(word: Self::Word) -> Option<Self>;
}

/// Implements [`Encoded`] for types by expressions for both directions.
macro_rules! encoded {
    ($($type:ty as $word:ty: |$value:ident| $encode:expr, |$stored:ident| $decode:expr;)*) => {$(
        #[device]
        impl Encoded for $type {
            type Word = $word;

            fn encode(self) -> $word {
                let $value = self;
                $encode
            }

            fn decode($stored: $word) -> Option<Self> {
                $decode
            }
        }
    )*};
}

encoded! {
    u32 as u32: |value| value, |word| Some(word);
    u64 as u64: |value| value, |word| Some(word);
    i32 as u32: |value| value as u32 ^ u32::SIGN, |word| Some((word ^ u32::SIGN) as i32);
    i64 as u64: |value| value as u64 ^ u64::SIGN, |word| Some((word ^ u64::SIGN) as i64);
    f32 as u32: |value| value.to_bits().float_to_word(), |word| Some(f32::from_bits(word.word_to_float()));
    f64 as u64: |value| value.to_bits().float_to_word(), |word| Some(f64::from_bits(word.word_to_float()));
    u8 as u32: |value| value as u32, |word| u8::try_from(word).ok();
    u16 as u32: |value| value as u32, |word| u16::try_from(word).ok();
    i8 as u32: |value| value as u8 as u32 ^ 0x80, |word| u8::decode(word).map(|word| (word ^ 0x80) as i8);
    i16 as u32: |value| value as u16 as u32 ^ 0x8000,
        |word| u16::decode(word).map(|word| (word ^ 0x8000) as i16);
    bool as u32: |value| value as u32, |word| if word < 2 { Some(word == 1) } else { None };
    char as u32: |value| value as u32, |word| char::from_u32(word);
    [u8; 4] as u32: |value| u32::from_be_bytes(value), |word| Some(word.to_be_bytes());
    [u8; 8] as u64: |value| u64::from_be_bytes(value), |word| Some(word.to_be_bytes());
}

macro_rules! non_zero {
    ($($number:ty)*) => {encoded! {$(
        NonZero<$number> as <$number as Encoded>::Word: |value| value.get().encode(),
            |word| <$number>::decode(word).and_then(NonZero::new);
    )*}};
}
non_zero!(u8 u16 u32 u64 i8 i16 i32 i64);

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    /// Checks that values in ascending order have ascending words, and come back from them.
    fn ascend<T: Encoded + Debug>(values: &[T]) {
        let words: Vec<_> = values.iter().map(|value| value.encode()).collect();
        assert!(words.is_sorted_by(|a, b| a < b), "{values:?} {words:?}");
        // Compared as text, which distinguishes -0.0 from 0.0.
        let back: Vec<_> = words.into_iter().map(|word| T::decode(word).unwrap()).collect();
        assert_eq!(format!("{back:?}"), format!("{values:?}"));
    }

    #[test]
    fn words_have_the_order_of_their_values() {
        ascend(&[0, 1, u32::MAX]);
        ascend(&[0, 1, u64::MAX]);
        ascend(&[i8::MIN, -1, 0, 1, i8::MAX]);
        ascend(&[i16::MIN, -1, 0, 1, i16::MAX]);
        ascend(&[i32::MIN, -1, 0, 1, i32::MAX]);
        ascend(&[i64::MIN, -1, 0, 1, i64::MAX]);
        ascend(&[f32::NEG_INFINITY, f32::MIN, -1e-40, -0.0, 0.0, 1e-40, f32::MAX, f32::INFINITY, f32::NAN]);
        ascend(&[f64::NEG_INFINITY, f64::MIN, -5e-324, -0.0, 0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NAN]);
        ascend(&[0u8, 255]);
        ascend(&[0u16, 65535]);
        ascend(&[false, true]);
        ascend(&['\0', 'a', '\u{d7ff}', '\u{e000}', char::MAX]);
        ascend(&[[0u8, 0, 1, 255], [0, 1, 0, 0], [255, 0, 0, 0]]);
        ascend(&[[0u8, 0, 0, 0, 0, 0, 1, 255], [0, 1, 0, 0, 0, 0, 0, 0], [255, 0, 0, 0, 0, 0, 0, 0]]);
        ascend(&[i32::MIN, -1, 1, i32::MAX].map(|number| NonZero::new(number).unwrap()));
        ascend(&[1, u64::MAX].map(|number| NonZero::new(number).unwrap()));
    }

    #[test]
    fn a_negative_nan_comes_first_and_keeps_its_bits() {
        let nan = f32::from_bits(0xffc0_1234);
        assert!(nan.encode() < f32::NEG_INFINITY.encode());
        assert_eq!(f32::decode(nan.encode()).map(f32::to_bits), Some(0xffc0_1234));
    }

    #[test]
    fn words_of_no_value_are_refused() {
        assert_eq!((u8::decode(256), i8::decode(256), u16::decode(1 << 16)), (None, None, None));
        assert_eq!((i16::decode(1 << 16), bool::decode(2)), (None, None));
        assert_eq!((char::decode(0xd800), char::decode(0x11_0000)), (None, None));
        assert_eq!((NonZero::<u32>::decode(0), NonZero::<i64>::decode(0i64.encode())), (None, None));
    }

    #[test]
    fn sums_of_words_are_words_of_sums() {
        for (a, b) in [(5i32, -7), (i32::MAX, 1), (i32::MIN, -1), (0, 0)] {
            assert_eq!(i32::decode(a.encode().add_signed(b.encode())), Some(a.wrapping_add(b)));
            let (a, b) = (i64::from(a) << 32, i64::from(b) << 32);
            assert_eq!(i64::decode(a.encode().add_signed(b.encode())), Some(a.wrapping_add(b)));
        }
        for (a, b) in [(0.1f64, -7.5), (f64::MAX, f64::MAX), (-0.0, -0.0), (5e-324, 5e-324)] {
            assert_eq!(f64::decode(a.encode().add_float(b.encode())), Some(a + b));
            let (a, b) = (a as f32, b as f32);
            assert_eq!(f32::decode(a.encode().add_float(b.encode())), Some(a + b));
        }
    }
}

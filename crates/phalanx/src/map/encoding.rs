//! Types of keys and values, and the words in which structures store them.
use super::Pairs;
use crate::number::Number;
use crate::{Error, Result};
use phalanx_kernels::keyed::{Encoded, OpCode, Scalar};
use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::num::NonZero;

/// A type of words: `u32` or `u64`, each of which is its own word.
pub trait Word: Scalar + Number + Key<Word = Self> + Value<Word = Self> + Additive {}
impl Word for u32 {}
impl Word for u64 {}

/// Defines a trait of types that have words. Keys and values have the same methods, but a type may be one and
/// not the other.
macro_rules! encoding {
    ($(#[$meta:meta])* $trait:ident) => {
        $(#[$meta])*
        pub trait $trait: Copy + Debug + Send + Sync + 'static {
            /// Type of the words: `u32`, or `u64` for more than 32 bits.
            type Word: Word;

            /// Number of low bits of a word that differ between values. The others are 0.
            const WIDTH: u32;

            /// Returns the name of the encoding, which saved files contain. Types whose words have different
            /// meanings have different names.
            fn name() -> String;

            /// Returns the word that stands for the value. Words compare as values do.
            fn encode(self) -> Self::Word;

            /// Returns the value for which a word stands, or `None` if it stands for none.
            fn decode(word: Self::Word) -> Option<Self>;

            /// Returns the words of several values, for batches on device buffers. O(n) on the host; for
            /// types that are their own words, O(1).
            fn encode_all(values: &[Self]) -> Cow<'_, [Self::Word]> {
                values.iter().map(|&value| Self::encode(value)).collect()
            }

            /// Returns the values for which words stand. Costs what [`Self::encode_all`] costs.
            ///
            /// # Errors
            /// [`Error::Format`] if a word stands for no value.
            fn decode_all(words: Vec<Self::Word>) -> Result<Vec<Self>> {
                words.into_iter().map(|word| decoded(word, Self::decode)).collect()
            }
        }
    };
}

encoding! {
    /// A type of keys: an integer, float, `bool`, `char`, `[u8; 4]`, `[u8; 8]`, `NonZero` integer, or a
    /// struct of such types with `#[derive(Key)]`.
    ///
    /// Structures store a key as a [word](Self::Word). Two keys are equal if their words are, and ordered
    /// maps order keys as their words. For integers, `bool`, `char`, arrays and structs that is the order of
    /// `Ord`. Floats have the order of [`f32::total_cmp`]: -0.0 and 0.0 are two keys, in this order; each NaN
    /// is a key that equals only itself, bit for bit, below all other keys if its sign bit is set, else above
    /// them.
    ///
    /// Blocking calls convert keys while they copy them; `u32` and `u64` are copied as they are. Batches on
    /// device buffers and kernels take words:
    ///
    /// ```
    /// use phalanx::{BTree, Key, Map};
    ///
    /// let tree = BTree::<i32, u32>::with_capacity(100)?;
    /// let (stream, values) = (tree.device().stream()?, tree.device().from_slice(&[1, 2, 3])?);
    /// let keys = tree.device().from_slice(&i32::encode_all(&[-1, 7, i32::MIN]))?;
    /// tree.on(&stream).insert(&keys, &values, None)?;
    /// assert_eq!(tree.range(&[..0])?, [[(i32::MIN, 3), (-1, 1)]]);
    /// assert_eq!(i32::decode_all(keys.read()?)?, [-1, 7, i32::MIN]);
    /// assert_eq!(<i32 as Key>::decode(<i32 as Key>::encode(7)), Some(7));
    /// assert_eq!((<i32 as Key>::WIDTH, <i32 as Key>::name()), (32, "i32".to_owned()));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Kernels encode by [`phalanx_kernels::keyed::Encoded`].
    ///
    /// ```compile_fail,E0277
    /// fn keys(_map: phalanx::HashMap<String, u32>) {} // `String` cannot be a key
    /// ```
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be a key",
        label = "not a type of keys",
        note = "keys are integers of 8 to 64 bits, `f32`, `f64`, `bool`, `char`, `[u8; 4]`, `[u8; 8]`, \
                `NonZero` integers, and structs of these with `#[derive(Key)]`"
    )]
    Key
}

encoding! {
    /// A type of values: an integer, float, `bool`, `char`, `[u8; 4]`, `[u8; 8]`, `NonZero` integer, or a
    /// struct of such types with `#[derive(Value)]`.
    ///
    /// Structures store a value as a [word](Self::Word), which contains all of its bits. Blocking calls
    /// convert values; batches on device buffers and kernels take words. See [`Key`] for the order of values,
    /// which counts for [`Merge::Min`], [`Merge::Max`] and `retain_values`.
    ///
    /// ```
    /// use phalanx::{HashMap, Map, Merge, Value};
    ///
    /// let map = HashMap::<u32, f32>::with_capacity(100)?;
    /// map.insert(&[1, 2], &[0.5, -1.0])?;
    /// map.upsert(Merge::Add, &[1, 2], &[0.25, 0.25])?;
    /// assert_eq!(map.get(&[1, 2])?, [Some(0.75), Some(-0.75)]);
    /// assert_eq!(f32::decode_all(f32::encode_all(&[0.5]).into_owned())?, [0.5]);
    /// assert_eq!(<bool as Value>::decode(2), None);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// ```compile_fail,E0277
    /// fn values(_map: phalanx::HashMap<u32, Vec<u8>>) {} // `Vec<u8>` cannot be a value
    /// ```
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be a value",
        label = "not a type of values",
        note = "values are integers of 8 to 64 bits, `f32`, `f64`, `bool`, `char`, `[u8; 4]`, `[u8; 8]`, \
                `NonZero` integers, and structs of these with `#[derive(Value)]`"
    )]
    Value
}

/// A type of values that [`Merge::Add`] can add.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be added",
    label = "`Merge::Add` is not defined for this type",
    note = "`Merge::Add` adds `u32`, `u64`, `i32`, `i64`, `f32` and `f64`; `Merge::Min` and `Merge::Max` \
            work on all values"
)]
pub trait Additive: Value {
    /// Operation that adds words of the type.
    #[doc(hidden)]
    const ADD: OpCode;
}

/// Function with which an upsert combines the stored value with the argument.
///
/// ```
/// use phalanx::map::OpCode;
/// use phalanx::{HashMap, Map, Merge};
///
/// assert_eq!(Merge::<i32>::Add.operation(), OpCode::ADD_SIGNED);
/// let map = HashMap::<u32, i32>::with_capacity(100)?;
/// map.insert(&[1, 2, 3], &[-5, -5, -5])?;
/// map.upsert(Merge::Add, &[1], &[2])?;
/// map.upsert(Merge::Min, &[2], &[2])?;
/// map.upsert(Merge::Max, &[3], &[2])?;
/// assert_eq!(map.get(&[1, 2, 3])?, [Some(-3), Some(-5), Some(2)]);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Merge<V>(OpCode, PhantomData<fn() -> V>);

#[allow(non_upper_case_globals)] // named as the variants of `kernels::keyed::Merge`
impl<V: Value> Merge<V> {
    /// Minimum, in the order that [`Key`] describes.
    pub const Min: Self = Self(OpCode::MIN, PhantomData);
    /// Maximum, in the order that [`Key`] describes.
    pub const Max: Self = Self(OpCode::MAX, PhantomData);
}

#[allow(non_upper_case_globals)] // as above
impl<V: Additive> Merge<V> {
    /// Sum: of integers, wrapping; of floats, rounded to nearest in an arbitrary order of the additions. The
    /// bits of a sum that is NaN are unspecified.
    pub const Add: Self = Self(V::ADD, PhantomData);
}

impl<V> Merge<V> {
    /// Returns the operation that inserts an absent key and merges into a present one.
    pub fn operation(self) -> OpCode {
        self.0
    }
}

impl<V> Debug for Merge<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            OpCode::MIN => "Min",
            OpCode::MAX => "Max",
            _ => "Add",
        })
    }
}

macro_rules! additive {
    ($($type:ty: $operation:ident),*) => {$(
        impl Additive for $type {
            const ADD: OpCode = OpCode::$operation;
        }
    )*};
}
additive!(u32: ADD, u64: ADD, i32: ADD_SIGNED, i64: ADD_SIGNED, f32: ADD_FLOAT, f64: ADD_FLOAT);

/// Implements [`Key`] and [`Value`] for types that kernels encode; the braces contain methods for both.
macro_rules! standard {
    ($($type:ty: $bits:expr),* ; $own:tt) => {$(
        standard!(Key, $type, $bits, $own);
        standard!(Value, $type, $bits, $own);
    )*};
    ($trait:ident, $type:ty, $bits:expr, { $($own:item)* }) => {
        impl $trait for $type {
            type Word = <$type as Encoded>::Word;

            const WIDTH: u32 = $bits;

            fn name() -> String {
                stringify!($type).to_owned()
            }

            fn encode(self) -> Self::Word {
                Encoded::encode(self)
            }

            fn decode(word: Self::Word) -> Option<Self> {
                Encoded::decode(word)
            }

            $($own)*
        }
    };
}

standard! {
    u32: 32, u64: 64;
    {
        fn encode_all(values: &[Self]) -> Cow<'_, [Self]> {
            Cow::Borrowed(values)
        }

        fn decode_all(words: Vec<Self>) -> Result<Vec<Self>> {
            Ok(words)
        }
    }
}

standard! {
    u8: 8, u16: 16, i8: 8, i16: 16, i32: 32, i64: 64, f32: 32, f64: 64, bool: 1, char: 21, [u8; 4]: 32,
    [u8; 8]: 64, NonZero<u8>: 8, NonZero<u16>: 16, NonZero<u32>: 32, NonZero<u64>: 64, NonZero<i8>: 8,
    NonZero<i16>: 16, NonZero<i32>: 32, NonZero<i64>: 64;
    {}
}

/// Returns the value for which a word stands.
pub(crate) fn decoded<T, W: Scalar>(word: W, decode: impl Fn(W) -> Option<T>) -> Result<T> {
    decode(word).ok_or_else(|| {
        let name = std::any::type_name::<T>();
        Error::Format(format!("the word {:#x} is no value of type `{name}`", word.to_u64()))
    })
}

/// Returns the keys and values for which words stand.
pub(crate) fn decode_pairs<K: Key, V: Value>((keys, values): Pairs<K::Word, V::Word>) -> Result<Pairs<K, V>> {
    Ok((K::decode_all(keys)?, V::decode_all(values)?))
}

/// Returns the words of the ends of a range.
pub(crate) fn ends<T: Copy + Debug, W: Scalar>(
    low: &T,
    high: &T,
    encode: impl Fn(T) -> W,
) -> Result<(u64, u64)> {
    let words = (encode(*low).to_u64(), encode(*high).to_u64());
    if words.0 > words.1 {
        return Err(Error::Range { low: format!("{low:?}"), high: format!("{high:?}") });
    }
    Ok(words)
}

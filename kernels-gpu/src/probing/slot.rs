//! Slots: how a pair lies in memory, and the few ways in which a slot changes.
//!
//! A slot is empty, holds a pair, or holds the tombstone of a removed pair. It never becomes empty again while kernels run;
//! the uniqueness of keys rests on that (see the module's page). The words that mean *empty* and *tombstone* take their patterns from
//! the top of the key space; keys that look like them are stored under another name in the annex (see [`Slot::RESERVED`]).
use core::hash::Hash;
use simt::{Global, Order, Scope, Shuffle, Word};

/// Keys and values: `u32` and `u64`.
pub trait Scalar: Word + Shuffle + Ord + Hash + Send + Sync {
    /// Bits in the type.
    const BITS: u32;
    /// Widened with zeros.
    fn to_u64(self) -> u64;
    /// The low bits.
    fn from_u64(wide: u64) -> Self;
    /// The sum, wrapping.
    fn wrapping_add(self, other: Self) -> Self;
}

macro_rules! scalars {
    ($($scalar:ty)*) => {$(
        impl Scalar for $scalar {
            const BITS: u32 = <$scalar>::BITS;
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_u64(wide: u64) -> Self {
                wide as $scalar
            }
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
scalars!(u32 u64);

/// A kind of slot: its word, its patterns, and its transitions.
///
/// # Safety
/// - [`Self::Word`] has 8 or 16 bytes, [`Self::PER_CHUNK`] is what stands here, and the default methods are kept.
/// - The accesses that are given a slot stay within its word, those that are given a chunk within its 16 bytes.
pub unsafe trait Slot: Copy + Send + Sync + 'static {
    /// The user's key.
    type Key: Scalar;
    /// The user's value.
    type Value: Scalar;
    /// The key as the slot stores it, wide enough for the patterns of the states.
    type Stored: Scalar;
    /// The whole slot.
    type Word: Word + Shuffle;

    /// Slots in 16 bytes.
    const PER_CHUNK: usize = 16 / size_of::<Self::Word>();
    /// The word of an empty slot: all ones, so that filling the table with `0xFF` empties it.
    const EMPTY: Self::Word;
    /// How many keys at the top of [`Self::Stored`] are patterns of a state. Those keys live in the annex.
    const RESERVED: u32;

    /// Whether a pair appears in steps, and others that want the slot must wait for it.
    const PUBLISHES: bool;

    /// A slot that holds a pair.
    fn pack(key: Self::Stored, value: Self::Value) -> Self::Word;
    /// The stored key, or a pattern.
    fn key(word: Self::Word) -> Self::Stored;
    /// The value.
    fn value(word: Self::Word) -> Self::Value;

    /// Reads the 16 bytes at `chunk`, [`Slot::PER_CHUNK`] slots, where `wanted`; else the words are arbitrary.
    ///
    /// # Safety
    /// - `chunk` lies in a bucket and is aligned to 16 bytes.
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> (Self::Word, Self::Word);

    /// Whether the slot was empty and now holds the pair.
    fn claim(slot: Global<Self::Word>, pair: Self::Word) -> bool;
    /// Whether the slot held a pair with this key and is now a tombstone. Swaps the key's half alone: however often the value
    /// changes meanwhile, a removal never starts again for it.
    fn erase(slot: Global<Self::Word>, key: Self::Stored) -> bool;
    /// The value's half of a slot. Values change there by one atomic operation, whatever the key's half becomes meanwhile: a change
    /// that a removal has overtaken counts as made just before it, and nobody sees it.
    fn value_place(slot: Global<Self::Word>) -> Global<Self::Value>;
    /// The value of a slot that was seen to hold `word`; reads it again where the two halves of a word may come apart.
    fn settle(slot: Global<Self::Word>, word: Self::Word) -> Self::Value;

    /// Whether the slot is empty.
    #[inline(always)]
    fn is_empty(word: Self::Word) -> bool {
        Self::key(word) == Self::key(Self::EMPTY)
    }

    /// Whether another tile is between claiming the slot and showing the pair.
    #[inline(always)]
    fn is_busy(_word: Self::Word) -> bool {
        false
    }

    /// The key of a tombstone.
    #[inline(always)]
    fn tombstone() -> Self::Stored {
        Self::Stored::from_u64(Self::key(Self::EMPTY).to_u64() - 1)
    }

    /// Whether the slot holds a pair.
    #[inline(always)]
    fn is_live(word: Self::Word) -> bool {
        Self::key(word).to_u64() <= Self::key(Self::EMPTY).to_u64() - Self::RESERVED as u64
    }
}

/// A 32-bit key and a 32-bit value in a word of 64 bits: key low, value high. A pair appears by one compare-and-swap of the whole.
#[derive(Clone, Copy, Debug)]
pub struct Packed;

// SAFETY: a word of 8 bytes; halves and chunks are accessed within their bounds.
unsafe impl Slot for Packed {
    type Key = u32;
    type Value = u32;
    type Stored = u32;
    type Word = u64;
    const EMPTY: u64 = u64::MAX;
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;

    #[inline(always)]
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> (u64, u64) {
        // SAFETY: the caller's promise.
        let [first, second] = unsafe { chunk.load_vec_if::<2>(wanted, Order::Relaxed, Scope::Device) };
        (first, second)
    }

    #[inline(always)]
    fn pack(key: u32, value: u32) -> u64 {
        key as u64 | (value as u64) << 32
    }

    #[inline(always)]
    fn key(word: u64) -> u32 {
        word as u32
    }

    #[inline(always)]
    fn value(word: u64) -> u32 {
        (word >> 32) as u32
    }

    #[inline(always)]
    fn claim(slot: Global<u64>, pair: u64) -> bool {
        swap(slot, Self::EMPTY, pair)
    }

    #[inline(always)]
    fn erase(slot: Global<u64>, key: u32) -> bool {
        // SAFETY: the low half of a slot is its first four bytes.
        swap(unsafe { slot.cast::<u32>() }, key, Self::tombstone())
    }

    #[inline(always)]
    fn value_place(slot: Global<u64>) -> Global<u32> {
        // SAFETY: the high half of a slot is its last four bytes.
        unsafe { slot.cast::<u32>().offset(1) }
    }

    #[inline(always)]
    fn settle(_slot: Global<u64>, word: u64) -> u32 {
        Self::value(word)
    }
}

#[inline(always)]
fn swap<W: Word>(slot: Global<W>, old: W, new: W) -> bool {
    slot.compare_exchange(old, new, Order::Relaxed, Scope::Device).is_ok()
}

/// A pair in a word of 128 bits: key in the low half, value in the high. A pair appears by one 128-bit
/// compare-and-swap: sm_90 and later.
#[derive(Clone, Copy, Debug)]
pub struct Wide<K, V>(core::marker::PhantomData<(K, V)>);

/// The layout that [`Wide`] and [`Published`] share: two halves of 64 bits.
#[inline(always)]
fn join(key: u64, value: u64) -> u128 {
    key as u128 | (value as u128) << 64
}

#[inline(always)]
fn high(word: u128) -> u64 {
    (word >> 64) as u64
}

#[inline(always)]
fn key_half(slot: Global<u128>) -> Global<u64> {
    // SAFETY: the first half of a slot is eight aligned bytes of it.
    unsafe { slot.cast() }
}

/// The value, which lies at the start of the second half.
#[inline(always)]
fn value_half<V: Scalar>(slot: Global<u128>) -> Global<V> {
    // SAFETY: the second half of a slot begins with as many aligned bytes as a value has.
    unsafe { slot.cast::<u64>().offset(1).cast() }
}

// SAFETY: a word of 16 bytes, which is a chunk; halves are accessed within their bounds.
unsafe impl<K: Scalar, V: Scalar> Slot for Wide<K, V> {
    type Key = K;
    type Value = V;
    type Stored = u64;
    type Word = u128;
    const EMPTY: u128 = u128::MAX;
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;

    #[inline(always)]
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> (u128, u128) {
        // SAFETY: the caller's promise; a chunk is one slot.
        let [word] = unsafe { chunk.cast::<u128>().load_vec_if::<1>(wanted, Order::Relaxed, Scope::Device) };
        (word, Self::EMPTY)
    }

    #[inline(always)]
    fn pack(key: u64, value: V) -> u128 {
        join(key, value.to_u64())
    }

    #[inline(always)]
    fn key(word: u128) -> u64 {
        word as u64
    }

    #[inline(always)]
    fn value(word: u128) -> V {
        V::from_u64(high(word))
    }

    #[inline(always)]
    fn claim(slot: Global<u128>, pair: u128) -> bool {
        swap(slot, Self::EMPTY, pair)
    }

    #[inline(always)]
    fn erase(slot: Global<u128>, key: u64) -> bool {
        swap(key_half(slot), key, Self::tombstone())
    }

    #[inline(always)]
    fn value_place(slot: Global<u128>) -> Global<V> {
        value_half(slot)
    }

    #[inline(always)]
    fn settle(_slot: Global<u128>, word: u128) -> V {
        Self::value(word)
    }
}

/// A pair of two 64-bit halves that appears in two steps, for machines without a 128-bit compare-and-swap.
///
/// The key half is claimed as *busy*, the value written, then the key released: a reader that sees the key by an acquiring load
/// sees the value. From then on the key half says whether the pair is there and the value half changes alone. A tile that wants
/// the slot of a busy neighbour waits for it; readers never wait.
#[derive(Clone, Copy, Debug)]
pub struct Published<K, V>(core::marker::PhantomData<(K, V)>);

impl<K: Scalar, V: Scalar> Published<K, V> {
    const BUSY: u64 = u64::MAX - 2;
}

// SAFETY: a word of 16 bytes, which is a chunk; halves are accessed within their bounds.
unsafe impl<K: Scalar, V: Scalar> Slot for Published<K, V> {
    type Key = K;
    type Value = V;
    type Stored = u64;
    type Word = u128;
    const EMPTY: u128 = u128::MAX;
    const RESERVED: u32 = 3;
    const PUBLISHES: bool = true;

    #[inline(always)]
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> (u128, u128) {
        // SAFETY: the caller's promise.
        let [key, value] = unsafe { chunk.load_vec_if::<2>(wanted, Order::Relaxed, Scope::Device) };
        (join(key, value), Self::EMPTY)
    }

    #[inline(always)]
    fn pack(key: u64, value: V) -> u128 {
        join(key, value.to_u64())
    }

    #[inline(always)]
    fn key(word: u128) -> u64 {
        word as u64
    }

    #[inline(always)]
    fn value(word: u128) -> V {
        V::from_u64(high(word))
    }

    #[inline(always)]
    fn claim(slot: Global<u128>, pair: u128) -> bool {
        if !swap(key_half(slot), Self::EMPTY as u64, Self::BUSY) {
            return false;
        }
        // SAFETY: the second half of a slot is eight aligned bytes of it.
        unsafe { slot.cast::<u64>().offset(1) }.store(high(pair), Order::Relaxed, Scope::Device);
        key_half(slot).store(pair as u64, Order::Release, Scope::Device);
        true
    }

    #[inline(always)]
    fn erase(slot: Global<u128>, key: u64) -> bool {
        swap(key_half(slot), key, Self::tombstone())
    }

    #[inline(always)]
    fn value_place(slot: Global<u128>) -> Global<V> {
        value_half(slot)
    }

    #[inline(always)]
    fn settle(slot: Global<u128>, _word: u128) -> V {
        let _published = key_half(slot).load(Order::Acquire, Scope::Device);
        value_half::<V>(slot).load(Order::Relaxed, Scope::Device)
    }

    #[inline(always)]
    fn is_busy(word: u128) -> bool {
        word as u64 == Self::BUSY
    }
}

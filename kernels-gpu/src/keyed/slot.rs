//! Slots: how a pair lies in memory, and the few ways in which a slot changes.
//!
//! A slot is empty, holds a pair, or holds the tombstone of a removed pair. It never becomes empty again
//! while kernels run; the uniqueness of keys rests on that (see the module's page). The words that mean
//! *empty* and *tombstone* take their patterns from the top of the key space; keys that look like them are
//! stored under another name in the annex (see [`Slot::RESERVED`]).
use core::hash::Hash;
use core::marker::PhantomData;
use simt::{Global, Order, Scope, Shuffle, Word};

/// Keys and values: `u32` and `u64`.
pub trait Scalar: Word + Shuffle + Ord + Hash + Send + Sync {
    /// 16 bytes of them.
    type Chunk: Chunk<Self>;
    /// Bits in the type.
    const BITS: u32;
    /// The largest: all ones.
    const MAX: Self;
    /// Widened with zeros.
    fn to_u64(self) -> u64;
    /// The low bits.
    fn from_u64(wide: u64) -> Self;
    /// The sum, wrapping.
    fn wrapping_add(self, other: Self) -> Self;
}

/// The words of 16 bytes, read by one instruction.
pub trait Chunk<W: Word>: Copy {
    /// Reads them where `wanted`; else they are arbitrary.
    ///
    /// # Safety
    /// - All words lie in one allocation, and the first is aligned to 16 bytes.
    unsafe fn load_if(place: Global<W>, wanted: bool, order: Order) -> Self;

    /// One of them.
    fn word(&self, index: usize) -> W;
}

impl<W: Word, const N: usize> Chunk<W> for [W; N] {
    #[inline(always)]
    #[track_caller]
    unsafe fn load_if(place: Global<W>, wanted: bool, order: Order) -> Self {
        // SAFETY: the caller's promise.
        unsafe { place.load_vec_if::<N>(wanted, order, Scope::Device) }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> W {
        self[index]
    }
}

macro_rules! scalars {
    ($($scalar:ty)*) => {$(
        impl Scalar for $scalar {
            type Chunk = [$scalar; 16 / size_of::<$scalar>()];
            const BITS: u32 = <$scalar>::BITS;
            const MAX: Self = <$scalar>::MAX;
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
/// - [`Self::Word`] has 4, 8 or 16 bytes, [`Self::PER_CHUNK`] and the default methods are what stands here.
/// - The accesses that are given a slot stay within its word, those that are given a chunk within its 16
///   bytes.
pub unsafe trait Slot: Copy + Send + Sync + 'static {
    /// The user's key.
    type Key: Scalar;
    /// The user's value.
    type Value: Scalar;
    /// The key as the slot stores it, wide enough for the patterns of the states.
    type Stored: Scalar;
    /// The whole slot.
    type Word: Word + Shuffle;
    /// [`Slot::PER_CHUNK`] of them.
    type Chunk: Chunk<Self::Word>;

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

    /// Words of a node of such slots that its structure has for itself, beside those that all nodes have.
    const BESIDE: u32 = 0;

    /// Whether a slot has a value. Where not, [`Self::Value`] is ignored and an operation that would change a
    /// value changes nothing.
    const HAS_VALUE: bool = true;

    /// Reads the 16 bytes at `chunk` where `wanted`; else the words are arbitrary.
    ///
    /// # Safety
    /// - `chunk` lies in a bucket and is aligned to 16 bytes.
    #[inline(always)]
    #[track_caller]
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> Self::Chunk {
        // SAFETY: the caller's promise.
        unsafe { Self::Chunk::load_if(chunk.cast(), wanted, Order::Relaxed) }
    }

    /// Whether the slot was empty and now holds the pair.
    fn claim(slot: Global<Self::Word>, pair: Self::Word) -> bool;
    /// Whether the slot held a pair with this key and is now a tombstone. Swaps the key's half alone: however
    /// often the value changes meanwhile, a removal never starts again for it.
    fn erase(slot: Global<Self::Word>, key: Self::Stored) -> bool;
    /// The value's half of a slot. Values change there by one atomic operation, whatever the key's half
    /// becomes meanwhile: a change that a removal has overtaken counts as made just before it, and nobody
    /// sees it.
    fn value_place(slot: Global<Self::Word>) -> Global<Self::Value>;
    /// Orders the pair's first value before what the lane does next to the slot, whose key it has seen by a
    /// relaxed load. Nothing where a pair appears at once.
    #[inline(always)]
    fn acquire_pair(_slot: Global<Self::Word>) {}
    /// The value of a slot that was seen to hold `word`; reads it again where the two halves of a word may
    /// come apart.
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

    /// The name under which a key is stored that looks like a state of a slot.
    #[inline(always)]
    fn alias(key: Self::Key) -> Option<Self::Stored> {
        let from_top = Self::key(Self::EMPTY).to_u64() - key.to_u64();
        if from_top < Self::RESERVED as u64 { Some(Self::Stored::from_u64(from_top)) } else { None }
    }

    /// The key that is stored as `stored`, where keys have their aliases or where they have not.
    #[inline(always)]
    fn unalias(stored: Self::Stored, aliased: bool) -> Self::Key {
        let stored = stored.to_u64();
        Self::Key::from_u64(if aliased { Self::key(Self::EMPTY).to_u64() - stored } else { stored })
    }

    /// Whether the slot holds a pair.
    #[inline(always)]
    fn is_live(word: Self::Word) -> bool {
        Self::key(word).to_u64() <= Self::key(Self::EMPTY).to_u64() - Self::RESERVED as u64
    }
}

/// A 32-bit key and a 32-bit value in a word of 64 bits: key low, value high. A pair appears by one
/// compare-and-swap of the whole.
#[derive(Clone, Copy, Debug)]
pub struct Packed;

// SAFETY: a word of 8 bytes; halves and chunks are accessed within their bounds.
unsafe impl Slot for Packed {
    type Key = u32;
    type Value = u32;
    type Stored = u32;
    type Word = u64;
    type Chunk = [u64; 2];
    const EMPTY: u64 = u64::MAX;
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;

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

/// A pair in a word of 128 bits: key in the low half, value in the high. `A` is the way in which it appears
/// there.
#[derive(Clone, Copy, Debug)]
pub struct Halves<K, V, A>(PhantomData<(K, V, A)>);

/// A pair of 16 bytes that appears by one 128-bit compare-and-swap: sm_90 and later.
pub type Wide<K, V> = Halves<K, V, AtOnce>;

/// A pair of 16 bytes that appears in two steps, for machines without a 128-bit compare-and-swap.
pub type Published<K, V> = Halves<K, V, InSteps>;

/// How a pair of two halves appears in its slot, and what that asks of those who read it.
///
/// # Safety
/// - All accesses stay within the slot.
pub unsafe trait Appearance: Copy + Send + Sync + 'static {
    /// [`Slot::RESERVED`].
    const RESERVED: u32;
    /// [`Slot::PUBLISHES`].
    const PUBLISHES: bool;

    /// Reads a slot, in one piece or in two, where `wanted`; else the word is arbitrary.
    ///
    /// # Safety
    /// - `slot` lies in a bucket and is aligned to 16 bytes.
    unsafe fn load(slot: Global<u128>, wanted: bool) -> u128;
    /// [`Slot::claim`].
    fn claim(slot: Global<u128>, pair: u128) -> bool;
    /// [`Slot::acquire_pair`].
    #[inline(always)]
    fn acquire_pair(_slot: Global<u128>) {}
    /// [`Slot::settle`].
    fn settle<V: Scalar>(slot: Global<u128>, word: u128) -> V;
    /// [`Slot::is_busy`].
    fn is_busy(word: u128) -> bool;
}

/// An empty slot of two halves.
const EMPTY: u128 = u128::MAX;

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

// SAFETY: a word of 16 bytes, which is a chunk; halves are accessed within their bounds, and so `A` promises.
unsafe impl<K: Scalar, V: Scalar, A: Appearance> Slot for Halves<K, V, A> {
    type Key = K;
    type Value = V;
    type Stored = u64;
    type Word = u128;
    type Chunk = [u128; 1];
    const EMPTY: u128 = EMPTY;
    const RESERVED: u32 = A::RESERVED;
    const PUBLISHES: bool = A::PUBLISHES;

    #[inline(always)]
    #[track_caller]
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> [u128; 1] {
        // SAFETY: the caller's promise; a chunk is one slot.
        [unsafe { A::load(chunk.cast(), wanted) }]
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
        A::claim(slot, pair)
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
    fn acquire_pair(slot: Global<u128>) {
        A::acquire_pair(slot);
    }

    #[inline(always)]
    fn settle(slot: Global<u128>, word: u128) -> V {
        A::settle(slot, word)
    }

    #[inline(always)]
    fn is_busy(word: u128) -> bool {
        A::is_busy(word)
    }
}

/// Both halves by one 128-bit compare-and-swap.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

// SAFETY: accesses to the slot alone.
unsafe impl Appearance for AtOnce {
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;

    #[inline(always)]
    #[track_caller]
    unsafe fn load(slot: Global<u128>, wanted: bool) -> u128 {
        // SAFETY: the caller's promise.
        let [word] = unsafe { slot.load_vec_if::<1>(wanted, Order::Relaxed, Scope::Device) };
        word
    }

    #[inline(always)]
    fn claim(slot: Global<u128>, pair: u128) -> bool {
        swap(slot, EMPTY, pair)
    }

    #[inline(always)]
    fn settle<V: Scalar>(_slot: Global<u128>, word: u128) -> V {
        V::from_u64(high(word))
    }

    #[inline(always)]
    fn is_busy(_word: u128) -> bool {
        false
    }
}

/// The key half is claimed as *busy*, the value written, then the key released: a reader that sees the key by
/// an acquiring load sees the value. (A change of the value acquires too: else it might take effect before
/// the value was first written.) From then on the key half says whether the pair is there and the value half
/// changes alone. A tile that wants the slot of a busy neighbour waits for it; readers never wait.
#[derive(Clone, Copy, Debug)]
pub struct InSteps;

impl InSteps {
    const BUSY: u64 = u64::MAX - 2;
}

// SAFETY: accesses to the slot alone.
unsafe impl Appearance for InSteps {
    const RESERVED: u32 = 3;
    const PUBLISHES: bool = true;

    #[inline(always)]
    unsafe fn load(slot: Global<u128>, wanted: bool) -> u128 {
        // SAFETY: the caller's promise.
        let [key, value] = unsafe { key_half(slot).load_vec_if::<2>(wanted, Order::Relaxed, Scope::Device) };
        join(key, value)
    }

    #[inline(always)]
    fn claim(slot: Global<u128>, pair: u128) -> bool {
        if !swap(key_half(slot), EMPTY as u64, Self::BUSY) {
            return false;
        }
        value_half(slot).store(high(pair), Order::Relaxed, Scope::Device);
        key_half(slot).store(pair as u64, Order::Release, Scope::Device);
        true
    }

    #[inline(always)]
    fn acquire_pair(slot: Global<u128>) {
        let _published = key_half(slot).load(Order::Acquire, Scope::Device);
    }

    #[inline(always)]
    fn settle<V: Scalar>(slot: Global<u128>, _word: u128) -> V {
        Self::acquire_pair(slot);
        value_half::<V>(slot).load(Order::Relaxed, Scope::Device)
    }

    #[inline(always)]
    fn is_busy(word: u128) -> bool {
        word as u64 == Self::BUSY
    }
}

/// A key by itself, of 32 or 64 bits: the slot of a set.
#[derive(Clone, Copy, Debug)]
pub struct Bare<K>(PhantomData<K>);

// SAFETY: a word of 4 or 8 bytes, which is the key.
unsafe impl<K: Scalar> Slot for Bare<K> {
    type Key = K;
    type Value = u32;
    type Stored = K;
    type Word = K;
    type Chunk = K::Chunk;
    const EMPTY: K = K::MAX;
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;
    const HAS_VALUE: bool = false;

    #[inline(always)]
    fn pack(key: K, _value: u32) -> K {
        key
    }

    #[inline(always)]
    fn key(word: K) -> K {
        word
    }

    #[inline(always)]
    fn value(_word: K) -> u32 {
        0
    }

    #[inline(always)]
    fn claim(slot: Global<K>, key: K) -> bool {
        swap(slot, Self::EMPTY, key)
    }

    #[inline(always)]
    fn erase(slot: Global<K>, key: K) -> bool {
        swap(slot, key, Self::tombstone())
    }

    /// The key's place: there is no other, and nobody changes what is there ([`Slot::HAS_VALUE`]).
    #[inline(always)]
    fn value_place(slot: Global<K>) -> Global<u32> {
        // SAFETY: a slot has four aligned bytes at least.
        unsafe { slot.cast() }
    }

    #[inline(always)]
    fn settle(_slot: Global<K>, _word: K) -> u32 {
        0
    }
}

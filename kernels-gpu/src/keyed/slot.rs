//! Slots: the layout of a pair in memory, and the transitions of a slot.
//!
//! A slot is empty, contains a pair, or contains the tombstone of a removed pair. It never becomes empty
//! again while kernels run; the uniqueness of keys depends on that (see the module's page). The words for
//! *empty* and *tombstone* are patterns at the top of the key space. Keys equal to such a pattern are stored
//! under an alias in the overflow buckets (see [`Slot::RESERVED`]).
use core::fmt;
use core::hash::Hash;
use core::marker::PhantomData;
use core::ops::{BitAnd, BitXor};
use simt::{Global, Order, Scope, Shuffle, Word, device};

/// Types of the words of keys and values: `u32` and `u64`. Words of other types than these encode their
/// values (see [`Encoded`](super::Encoded)).
#[device]
pub trait Scalar:
    Word + Shuffle + Ord + Hash + Default + Send + Sync + BitAnd<Output = Self> + BitXor<Output = Self>
{
    /// 16 bytes of scalars.
    type Chunk: Chunk<Self>;
    /// Number of bits in the type.
    const BITS: u32;
    /// Largest value: all ones.
    const MAX: Self;
    /// The highest bit.
    const SIGN: Self;
    /// Zero-extends the value to 64 bits.
    fn to_u64(self) -> u64;
    /// Truncates `wide` to the low bits.
    fn from_u64(wide: u64) -> Self;
    /// Returns the wrapping sum.
    fn wrapping_add(self, other: Self) -> Self;
    /// Returns the word of the sum of the floats that the words encode.
    fn add_float(self, other: Self) -> Self;

    /// Returns the word of the float with these bits: words compare as floats do by `total_cmp`.
    fn float_to_word(self) -> Self {
        self ^ if self & Self::SIGN != Self::default() { Self::MAX } else { Self::SIGN }
    }

    /// Returns the bits of the float with this word.
    fn word_to_float(self) -> Self {
        self ^ if self & Self::SIGN != Self::default() { Self::SIGN } else { Self::MAX }
    }

    /// Returns the number that, added to the word of a signed integer, gives the word of its sum with the
    /// signed integer that this word encodes. The word of x is x + 2^(n-1) modulo 2^n, where n is the number
    /// of bits, so the sum of the words of x and y exceeds the word of x + y by 2^(n-1).
    fn signed_addend(self) -> Self {
        self ^ Self::SIGN
    }

    /// Returns the word of the wrapping sum of the signed integers that the words encode.
    fn add_signed(self, other: Self) -> Self {
        self.wrapping_add(other.signed_addend())
    }
}

/// A chunk: the words of 16 bytes, read by one instruction.
pub trait Chunk<W: Word>: Copy {
    /// Reads the chunk if `wanted`; otherwise the words are arbitrary.
    ///
    /// # Safety
    /// - All words lie in one allocation, and the first is aligned to 16 bytes.
    unsafe fn load_if(place: Global<W>, wanted: bool, order: Order) -> Self;

    /// Returns the word at `index`.
    fn word(&self, index: usize) -> W;
}

#[device]
impl<W: Word, const N: usize> Chunk<W> for [W; N] {
    #[device(caller)]
    unsafe fn load_if(place: Global<W>, wanted: bool, order: Order) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { place.load_vec_if::<N>(wanted, order, Scope::Device) }
    }

    fn word(&self, index: usize) -> W {
        self[index]
    }
}

macro_rules! scalars {
    ($($scalar:ty: $float:ty;)*) => {$(
        #[device]
        impl Scalar for $scalar {
            type Chunk = [$scalar; 16 / size_of::<$scalar>()];
            const BITS: u32 = <$scalar>::BITS;
            const MAX: Self = <$scalar>::MAX;
            const SIGN: Self = 1 << (<$scalar>::BITS - 1);
            fn to_u64(self) -> u64 {
                self as u64
            }
            fn from_u64(wide: u64) -> Self {
                wide as $scalar
            }
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn add_float(self, other: Self) -> Self {
                let float = |word: Self| <$float>::from_bits(word.word_to_float());
                (float(self) + float(other)).to_bits().float_to_word()
            }
        }
    )*};
}
scalars!(u32: f32; u64: f64;);

/// A pattern at the top of the key space that is no key: the state of a slot without a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reserved(u32);

#[device]
impl Reserved {
    /// The slot was never taken.
    pub const EMPTY: Self = Self(0);
    /// The pair was removed: a tombstone.
    pub const REMOVED: Self = Self(1);
    /// A tile has claimed the slot and not yet published its pair.
    pub const BUSY: Self = Self(2);

    /// Returns the pattern, as a stored key.
    pub fn pattern<K: Scalar>(self) -> K {
        K::from_u64(K::MAX.to_u64() - self.0 as u64)
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["empty", "tombstone", "busy"].get(self.0 as usize).unwrap_or(&"not reserved"))
    }
}

/// A slot format: its word, its reserved patterns, and its transitions.
///
/// # Safety
/// - [`Self::Word`] has 4, 8 or 16 bytes, the first of which are the stored key. [`Self::PER_CHUNK`] and the
///   default methods are not overridden with anything that behaves differently.
/// - Functions that take a slot access only its word; functions that take a chunk access only its 16 bytes.
#[device]
pub unsafe trait Slot: Copy + Send + Sync + 'static {
    /// Key type of the user.
    type Key: Scalar;
    /// Value type of the user.
    type Value: Scalar;
    /// Stored form of a key, wide enough for the reserved patterns.
    type Stored: Scalar;
    /// Word of a whole slot.
    type Word: Word + Shuffle;
    /// Chunk of [`Slot::PER_CHUNK`] slots.
    type Chunk: Chunk<Self::Word>;

    /// Number of slots in 16 bytes.
    const PER_CHUNK: usize = 16 / size_of::<Self::Word>();
    /// Word of an empty slot: all ones, so that filling the table with `0xFF` empties it.
    const EMPTY: Self::Word;
    /// Number of keys at the top of [`Self::Stored`] that are reserved patterns. Those keys live in the
    /// overflow buckets.
    const RESERVED: u32;

    /// Whether a pair is published in steps, so that other tiles that want the slot must wait.
    const PUBLISHES: bool;

    /// Part of the names of structures with such slots, besides the types of key and value; may be empty.
    const NAME: &'static str = "";

    /// Returns the word of a slot that contains the pair.
    fn pack(key: Self::Stored, value: Self::Value) -> Self::Word;
    /// Returns the stored key, or a reserved pattern.
    fn key(word: Self::Word) -> Self::Stored;
    /// Returns the value.
    fn value(word: Self::Word) -> Self::Value;

    /// Number of words that a structure reserves for itself in a node of such slots, beyond those that all
    /// nodes have.
    const BESIDE: u32 = 0;

    /// Whether a slot has a value. If not, [`Self::Value`] is ignored, and an operation that would change a
    /// value changes nothing.
    const HAS_VALUE: bool = true;

    /// Claims an empty slot for the pair. Returns whether the slot was empty and now contains the pair.
    fn claim(slot: Global<Self::Word>, pair: Self::Word) -> bool;
    /// Replaces a pair with this key by a tombstone. Returns whether the slot contained such a pair. Swaps
    /// only the key half, so concurrent changes of the value never make a removal retry.
    fn erase(slot: Global<Self::Word>, key: Self::Stored) -> bool;
    /// Replaces the pair of a slot that was read as `word` by a tombstone. Returns the value, or `None` if
    /// the slot has changed since. Of several calls on a slot, at most one returns a value.
    ///
    /// Where a pair appears by one swap, the value is the one at the removal. A change of the value part that
    /// follows the removal is lost. Where a pair is published in steps, so is a [`Slot::replace`] that
    /// follows it.
    fn take(slot: Global<Self::Word>, word: Self::Word) -> Option<Self::Value>;
    /// Replaces the value of a slot that was read as `word`. Returns the old value, or `None` if the slot has
    /// changed since. The caller has acquired the pair: see [`Slot::acquire_pair`].
    fn replace(slot: Global<Self::Word>, word: Self::Word, value: Self::Value) -> Option<Self::Value>;
    /// Returns the value half of a slot. A value changes there by one atomic operation, whatever happens to
    /// the key half meanwhile: a change that a removal overtakes counts as made just before the removal, and
    /// no thread observes it.
    fn value_part(slot: Global<Self::Word>) -> Global<Self::Value>;
    /// Returns the key half of a slot.
    fn key_part(slot: Global<Self::Word>) -> Global<Self::Stored> {
        // SAFETY: a word begins with the stored key.
        unsafe { slot.cast() }
    }
    /// Acquires the pair: orders the write of its first value before the lane's later accesses to the slot,
    /// whose key the lane has read by a relaxed load. Does nothing where a pair appears by one swap.
    fn acquire_pair(_slot: Global<Self::Word>) {}
    /// Returns the value of a slot that was read as `word`. Reads the value again where the two halves of a
    /// word may be out of step.
    fn read_value(slot: Global<Self::Word>, word: Self::Word) -> Self::Value;

    /// Returns whether the slot is empty.
    fn is_empty(word: Self::Word) -> bool {
        Self::key(word) == Reserved::EMPTY.pattern()
    }

    /// Returns whether another tile has claimed the slot and not yet published its pair.
    fn is_busy(_word: Self::Word) -> bool {
        false
    }

    /// Returns the key pattern of a tombstone.
    fn tombstone() -> Self::Stored {
        Reserved::REMOVED.pattern()
    }

    /// Returns the alias under which a reserved key is stored, or `None` if the key is not reserved.
    fn alias(key: Self::Key) -> Option<Self::Stored> {
        let from_top = Self::key(Self::EMPTY).to_u64() - key.to_u64();
        if from_top < Self::RESERVED as u64 { Some(Self::Stored::from_u64(from_top)) } else { None }
    }

    /// Returns the key that is stored as `stored`; `aliased` is whether it is stored under an alias.
    fn unalias(stored: Self::Stored, aliased: bool) -> Self::Key {
        let stored = stored.to_u64();
        Self::Key::from_u64(if aliased { Self::key(Self::EMPTY).to_u64() - stored } else { stored })
    }

    /// Returns the state of a slot without a pair, or `None` if it contains one.
    fn reserved(word: Self::Word) -> Option<Reserved> {
        let from_top = Self::key(Self::EMPTY).to_u64() - Self::key(word).to_u64();
        if Self::is_live(word) { None } else { Some(Reserved(from_top as u32)) }
    }

    /// Returns whether the slot contains a pair.
    fn is_live(word: Self::Word) -> bool {
        Self::key(word).to_u64() <= Self::key(Self::EMPTY).to_u64() - Self::RESERVED as u64
    }
}

/// A 32-bit key (low) and a 32-bit value (high) in a 64-bit word. A pair appears by one compare-and-swap of
/// the whole word.
#[derive(Clone, Copy, Debug)]
pub struct Packed;

// SAFETY: a word has 8 bytes; halves and chunks are accessed within their bounds.
#[device]
unsafe impl Slot for Packed {
    type Key = u32;
    type Value = u32;
    type Stored = u32;
    type Word = u64;
    type Chunk = [u64; 2];
    const EMPTY: u64 = u64::MAX;
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;

    fn pack(key: u32, value: u32) -> u64 {
        key as u64 | (value as u64) << 32
    }

    fn key(word: u64) -> u32 {
        word as u32
    }

    fn value(word: u64) -> u32 {
        (word >> 32) as u32
    }

    fn claim(slot: Global<u64>, pair: u64) -> bool {
        swap(slot, Self::EMPTY, pair)
    }

    fn erase(slot: Global<u64>, key: u32) -> bool {
        // SAFETY: the low half of a slot is its first four bytes.
        swap(unsafe { slot.cast::<u32>() }, key, Self::tombstone())
    }

    fn take(slot: Global<u64>, word: u64) -> Option<u32> {
        let value = Self::value(word);
        swap(slot, word, Self::pack(Self::tombstone(), value)).then_some(value)
    }

    fn replace(slot: Global<u64>, word: u64, value: u32) -> Option<u32> {
        swap(slot, word, Self::pack(Self::key(word), value)).then_some(Self::value(word))
    }

    fn value_part(slot: Global<u64>) -> Global<u32> {
        // SAFETY: the high half of a slot is its last four bytes.
        unsafe { slot.cast::<u32>().offset(1) }
    }

    fn read_value(_slot: Global<u64>, word: u64) -> u32 {
        Self::value(word)
    }
}

#[device(caller)]
fn swap<W: Word>(slot: Global<W>, old: W, new: W) -> bool {
    slot.compare_exchange(old, new, Order::Relaxed, Scope::Device).is_ok()
}

/// A pair in a 128-bit word: key in the low half, value in the high half. `A` determines how a pair appears
/// in its slot.
#[derive(Clone, Copy, Debug)]
pub struct SplitWord<K, V, A>(PhantomData<(K, V, A)>);

/// A pair of 16 bytes that appears by one 128-bit compare-and-swap; needs sm_90.
pub type Wide<K, V> = SplitWord<K, V, AtOnce>;

/// A pair of 16 bytes that is published in several steps, for devices without a 128-bit compare-and-swap.
pub type Published<K, V> = SplitWord<K, V, InSteps>;

/// The protocol by which a pair of two halves appears in its slot and is read.
///
/// # Safety
/// - All accesses stay within the slot.
pub unsafe trait Appearance: Copy + Send + Sync + 'static {
    /// A slot, read in one access or in two.
    type Chunk: Chunk<u128>;
    /// As [`Slot::RESERVED`].
    const RESERVED: u32;
    /// As [`Slot::PUBLISHES`].
    const PUBLISHES: bool;
    /// As [`Slot::NAME`].
    const NAME: &'static str;

    /// As [`Slot::claim`].
    fn claim(slot: Global<u128>, pair: u128) -> bool;
    /// As [`Slot::take`].
    fn take<V: Scalar>(slot: Global<u128>, word: u128) -> Option<V>;
    /// As [`Slot::replace`].
    fn replace<V: Scalar>(slot: Global<u128>, word: u128, value: V) -> Option<V>;
    /// As [`Slot::acquire_pair`].
    #[device]
    fn acquire_pair(_slot: Global<u128>) {}
    /// As [`Slot::read_value`].
    fn read_value<V: Scalar>(slot: Global<u128>, word: u128) -> V;
    /// As [`Slot::is_busy`].
    fn is_busy(word: u128) -> bool;
}

/// Word of an empty 128-bit slot.
const EMPTY: u128 = u128::MAX;

#[device]
fn join(key: u64, value: u64) -> u128 {
    key as u128 | (value as u128) << 64
}

#[device]
fn high(word: u128) -> u64 {
    (word >> 64) as u64
}

#[device]
fn key_half(slot: Global<u128>) -> Global<u64> {
    // SAFETY: the first half of a slot is eight aligned bytes of it.
    unsafe { slot.cast() }
}

/// Returns the address of the value, which lies at the start of the second half.
#[device]
fn value_half<V: Scalar>(slot: Global<u128>) -> Global<V> {
    // SAFETY: the second half of a slot begins with as many aligned bytes as a value has.
    unsafe { slot.cast::<u64>().offset(1).cast() }
}

// SAFETY: a word has 16 bytes, which is one chunk; halves are accessed within their bounds, and `A` promises
// the same.
#[device]
unsafe impl<K: Scalar, V: Scalar, A: Appearance> Slot for SplitWord<K, V, A> {
    type Key = K;
    type Value = V;
    type Stored = u64;
    type Word = u128;
    type Chunk = A::Chunk;
    const EMPTY: u128 = EMPTY;
    const RESERVED: u32 = A::RESERVED;
    const PUBLISHES: bool = A::PUBLISHES;
    const NAME: &'static str = A::NAME;

    fn pack(key: u64, value: V) -> u128 {
        join(key, value.to_u64())
    }

    fn key(word: u128) -> u64 {
        word as u64
    }

    fn value(word: u128) -> V {
        V::from_u64(high(word))
    }

    fn claim(slot: Global<u128>, pair: u128) -> bool {
        A::claim(slot, pair)
    }

    fn erase(slot: Global<u128>, key: u64) -> bool {
        swap(key_half(slot), key, Self::tombstone())
    }

    fn take(slot: Global<u128>, word: u128) -> Option<V> {
        A::take(slot, word)
    }

    fn replace(slot: Global<u128>, word: u128, value: V) -> Option<V> {
        A::replace(slot, word, value)
    }

    fn value_part(slot: Global<u128>) -> Global<V> {
        value_half(slot)
    }

    fn acquire_pair(slot: Global<u128>) {
        A::acquire_pair(slot);
    }

    fn read_value(slot: Global<u128>, word: u128) -> V {
        A::read_value(slot, word)
    }

    fn is_busy(word: u128) -> bool {
        A::is_busy(word)
    }
}

/// Both halves appear by one 128-bit compare-and-swap.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

// SAFETY: all accesses stay within the slot.
#[device]
unsafe impl Appearance for AtOnce {
    type Chunk = [u128; 1];
    const RESERVED: u32 = 2;
    const PUBLISHES: bool = false;
    const NAME: &'static str = "";

    fn claim(slot: Global<u128>, pair: u128) -> bool {
        swap(slot, EMPTY, pair)
    }

    fn take<V: Scalar>(slot: Global<u128>, word: u128) -> Option<V> {
        let value = high(word);
        swap(slot, word, join(Reserved::REMOVED.pattern(), value)).then_some(V::from_u64(value))
    }

    fn replace<V: Scalar>(slot: Global<u128>, word: u128, value: V) -> Option<V> {
        swap(slot, word, join(word as u64, value.to_u64())).then_some(V::from_u64(high(word)))
    }

    fn read_value<V: Scalar>(_slot: Global<u128>, word: u128) -> V {
        V::from_u64(high(word))
    }

    fn is_busy(_word: u128) -> bool {
        false
    }
}

/// The pair appears in three steps: the writer claims the key half as *busy*, writes the value, then releases
/// the key. A reader that acquires the key sees the value. (A change of the value acquires the key too;
/// otherwise it might take effect before the first value is written.) From then on the key half determines
/// whether the pair exists, and the value half changes independently. A tile that wants a busy slot waits for
/// it; readers never wait.
#[derive(Clone, Copy, Debug)]
pub struct InSteps;

/// A slot that was read in two accesses: key half and value half.
#[derive(Clone, Copy, Debug)]
pub struct SplitChunk([u64; 2]);

#[device]
impl Chunk<u128> for SplitChunk {
    unsafe fn load_if(place: Global<u128>, wanted: bool, order: Order) -> Self {
        // SAFETY: the caller's obligation; both halves lie in the slot.
        Self(unsafe { key_half(place).load_vec_if::<2>(wanted, order, Scope::Device) })
    }

    fn word(&self, _index: usize) -> u128 {
        join(self.0[0], self.0[1])
    }
}

// SAFETY: all accesses stay within the slot.
#[device]
unsafe impl Appearance for InSteps {
    type Chunk = SplitChunk;
    const RESERVED: u32 = 3;
    const PUBLISHES: bool = true;
    const NAME: &'static str = "published";

    fn claim(slot: Global<u128>, pair: u128) -> bool {
        if !swap(key_half(slot), EMPTY as u64, Reserved::BUSY.pattern()) {
            return false;
        }
        value_half(slot).store(high(pair), Order::Relaxed, Scope::Device);
        key_half(slot).store(pair as u64, Order::Release, Scope::Device);
        true
    }

    /// Removes the key half, then reads the value half by an update that changes nothing: it returns the
    /// newest value, which a load need not.
    fn take<V: Scalar>(slot: Global<u128>, word: u128) -> Option<V> {
        Self::acquire_pair(slot);
        if !swap(key_half(slot), word as u64, Reserved::REMOVED.pattern()) {
            return None;
        }
        // mutation: skip equivalent, because it adds 0.
        // mutation: tear unmodelled, because the emulator's clock orders changes that precede the take before
        // the load, and takes may miss those that overlap. No slot of a removed pair is read again.
        Some(value_half::<V>(slot).fetch_add(V::default(), Order::Relaxed, Scope::Device))
    }

    fn replace<V: Scalar>(slot: Global<u128>, _word: u128, value: V) -> Option<V> {
        Some(value_half::<V>(slot).exchange(value, Order::Relaxed, Scope::Device))
    }

    fn acquire_pair(slot: Global<u128>) {
        let _published = key_half(slot).load(Order::Acquire, Scope::Device);
    }

    fn read_value<V: Scalar>(slot: Global<u128>, _word: u128) -> V {
        Self::acquire_pair(slot);
        value_half::<V>(slot).load(Order::Relaxed, Scope::Device)
    }

    fn is_busy(word: u128) -> bool {
        word as u64 == Reserved::BUSY.pattern()
    }
}

/// A 32-bit or 64-bit key alone: the slot of a set.
#[derive(Clone, Copy, Debug)]
pub struct Bare<K>(PhantomData<K>);

// SAFETY: a word has 4 or 8 bytes and is the key.
#[device]
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

    fn pack(key: K, _value: u32) -> K {
        key
    }

    fn key(word: K) -> K {
        word
    }

    fn value(_word: K) -> u32 {
        0
    }

    fn claim(slot: Global<K>, key: K) -> bool {
        swap(slot, Self::EMPTY, key)
    }

    fn erase(slot: Global<K>, key: K) -> bool {
        swap(slot, key, Self::tombstone())
    }

    fn take(slot: Global<K>, key: K) -> Option<u32> {
        Self::erase(slot, key).then_some(0)
    }

    fn replace(_slot: Global<K>, _key: K, _value: u32) -> Option<u32> {
        Some(0)
    }

    /// Returns the address of the key: a slot has no value half, and no operation changes it
    /// ([`Slot::HAS_VALUE`]).
    fn value_part(slot: Global<K>) -> Global<u32> {
        // SAFETY: a slot has at least four aligned bytes.
        unsafe { slot.cast() }
    }

    fn read_value(_slot: Global<K>, _word: K) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_slots_print_their_meaning() {
        type Halved = Published<u64, u64>;
        let states = [Packed::EMPTY, Packed::pack(Packed::tombstone(), 7), Packed::pack(7, 7)];
        assert_eq!(format!("{:?}", states.map(Packed::reserved)), "[Some(empty), Some(tombstone), None]");
        let busy = Halved::pack(Reserved::BUSY.pattern(), 7);
        assert!(Halved::is_busy(busy) && Halved::reserved(busy) == Some(Reserved::BUSY));
        assert_eq!(format!("{:?}", Reserved::BUSY), "busy");
    }
}

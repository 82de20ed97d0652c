//! A cache of the hot pairs of a structure whose pairs lie in host memory: a lookup of a pair that is in the
//! cache reads no host memory.
//!
//! ```text
//! bucket of 128 bytes
//! state     8 bytes    a score of 3 bits per slot, the hand, a lock: see [`State`]
//! keys      of all slots
//! values    of all slots: 15 pairs of 8 bytes, 10 of 12, or 7 of 16
//! ```
//!
//! A key has one bucket, so a lookup reads one line. A tile of [`LANES`] lanes reads a bucket, a slot per
//! lane. A key that enters a full bucket replaces the pair that the rule of `State::admit` chooses.
//!
//! The host never runs the kernels of one cache concurrently. So lookups race only with the scores that other
//! lookups raise, and tiles that keep pairs race only with each other, which the lock excludes.
pub mod kernels;
mod state;
#[cfg(test)]
mod tests;

use crate::keyed::{Scalar, hash};
use core::marker::PhantomData;
use simt::hash::reduce;
use simt::{Global, GlobalSlice, Instance, Name, Order, Scope, device};
use state::State;

/// Lanes of a tile that reads a bucket.
pub const LANES: u32 = 16;

/// Words of 8 bytes in a bucket.
pub const BUCKET_WORDS: usize = 16;

/// Bytes of a bucket's pairs.
const PAIR_BYTES: u32 = 8 * (BUCKET_WORDS as u32 - 1);

/// Changes the seed of a map into that of the choice of the bucket.
const OF_BUCKETS: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// Types of the pairs of a cache.
pub trait Pair: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: Scalar;
    /// Type of the values.
    type Value: Scalar;
    /// Number of slots in a bucket.
    const SLOTS: u32 = PAIR_BYTES / (Self::Key::BITS / 8 + Self::Value::BITS / 8);
}

/// Pairs of a key `K` and a value `V`.
///
/// ```
/// use phalanx_kernels::tiered::hot::{Hot, Pair};
///
/// assert_eq!((Hot::<u32, u32>::SLOTS, Hot::<u64, u32>::SLOTS, Hot::<u64, u64>::SLOTS), (15, 10, 7));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hot<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Scalar, V: Scalar> Pair for Hot<K, V> {
    type Key = K;
    type Value = V;
}

impl<K: Scalar, V: Scalar> Instance for Hot<K, V> {
    const NAME: &'static str = const { &Name::of("").unsigned::<K>().unsigned::<V>() }.as_str();
}

/// A bucket.
struct Bucket<P> {
    words: Global<u64>,
    of: PhantomData<P>,
}

#[device]
impl<P: Pair> Bucket<P> {
    /// Returns the bucket of a key among those of `words`, which are at least one.
    fn of(words: GlobalSlice<u64>, seed: u64, key: P::Key) -> Self {
        Self::at(words, Self::index((words.len() / BUCKET_WORDS) as u32, seed, key))
    }

    /// Returns the number of the bucket of a key among `many`.
    fn index(many: u32, seed: u64, key: P::Key) -> usize {
        reduce(hash(key, seed ^ OF_BUCKETS).first, many) as usize
    }

    /// Returns a bucket by its number.
    fn at(words: GlobalSlice<u64>, index: usize) -> Self {
        Self { words: words.at(index * BUCKET_WORDS), of: PhantomData }
    }

    /// Reads the state.
    fn state(&self) -> State {
        State::from_word(self.words.load(Order::Relaxed, Scope::Device))
    }

    /// Returns the address of the key of a slot, or of the first one if there is no such slot.
    fn key(&self, slot: u32) -> Global<P::Key> {
        let slot = if slot < P::SLOTS { slot as usize } else { 0 };
        // SAFETY: the keys of all slots follow the state, within the bucket; a multiple of 8 bytes is aligned
        // for a key.
        unsafe { self.words.offset(1).cast::<P::Key>().offset(slot) }
    }

    /// Returns the address of the value of a slot, or of the first one if there is no such slot.
    fn value(&self, slot: u32) -> Global<P::Value> {
        let slot = if slot < P::SLOTS { slot as usize } else { 0 };
        let first = 8 * BUCKET_WORDS - P::SLOTS as usize * (P::Value::BITS / 8) as usize;
        // SAFETY: the values of all slots end with the bucket, and do not overlap the keys, since both have
        // at most `PAIR_BYTES`. The bucket's end is aligned for a value, so each of them is.
        unsafe { self.words.cast::<u32>().offset(first / 4).cast::<P::Value>().offset(slot) }
    }

    /// Raises the score of a slot, unless another lookup changes the state at the same time. Most slots that
    /// are found often have the highest score, and then this reads and writes nothing.
    fn touch(&self, state: State, slot: u32) {
        if state.score(slot) < State::MOST {
            // A lost race loses one of many uses, which only matter by their order of magnitude.
            let raised = state.raised(slot).word();
            let _ = self.words.compare_exchange(state.word(), raised, Order::Relaxed, Scope::Device);
        }
    }

    /// Takes the lock, if no tile has it and the state is still `state`.
    fn try_lock(&self, state: State) -> bool {
        let locked = state.locked().word();
        // Acquire: the pairs that the tile before has written are read afterwards.
        !state.is_locked()
            && self.words.compare_exchange(state.word(), locked, Order::Acquire, Scope::Device).is_ok()
    }

    /// Gives the lock back, with a new state.
    fn unlock(&self, state: State) {
        // Release: the tile that takes the lock next sees the pair that was written.
        self.words.store(state.word(), Order::Release, Scope::Device);
    }
}

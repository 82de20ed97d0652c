//! Slots with one planted bug each, for tables and lists.
#![allow(dead_code)] // each program uses some of these
use phalanx_kernels::keyed::{Chunk, Packed, Published, Slot};
use simt::{Global, Order, Scope};
use std::marker::PhantomData;

pub type WordOf<F> = <<F as Flaw>::Base as Slot>::Word;
pub type StoredOf<F> = <<F as Flaw>::Base as Slot>::Stored;
pub type ValueOf<F> = <<F as Flaw>::Base as Slot>::Value;

/// Operations of a slot. The defaults are those of `Base`; a flaw overrides one of them.
pub trait Flaw: Copy + Send + Sync + 'static {
    type Base: Slot;

    /// Order in which buckets are read, if not the one that is asked for.
    const READ: Option<Order> = None;

    fn claim(slot: Global<WordOf<Self>>, pair: WordOf<Self>) -> bool {
        Self::Base::claim(slot, pair)
    }

    fn erase(slot: Global<WordOf<Self>>, key: StoredOf<Self>) -> bool {
        Self::Base::erase(slot, key)
    }

    fn take(slot: Global<WordOf<Self>>, word: WordOf<Self>) -> Option<ValueOf<Self>> {
        Self::Base::take(slot, word)
    }

    fn replace(slot: Global<WordOf<Self>>, word: WordOf<Self>, new: ValueOf<Self>) -> Option<ValueOf<Self>> {
        Self::Base::replace(slot, word, new)
    }

    fn value_place(slot: Global<WordOf<Self>>) -> Global<ValueOf<Self>> {
        Self::Base::value_part(slot)
    }

    fn settle(slot: Global<WordOf<Self>>, word: WordOf<Self>) -> ValueOf<Self> {
        Self::Base::read_value(slot, word)
    }

    fn is_busy(word: WordOf<Self>) -> bool {
        Self::Base::is_busy(word)
    }
}

/// Chunk of slots with a flaw.
#[derive(Clone, Copy)]
pub struct FlawedChunk<F: Flaw>(<F::Base as Slot>::Chunk);

impl<F: Flaw> Chunk<WordOf<F>> for FlawedChunk<F> {
    unsafe fn load_if(place: Global<WordOf<F>>, wanted: bool, order: Order) -> Self {
        // SAFETY: the caller fulfils the obligations, except for the order.
        Self(unsafe { Chunk::load_if(place, wanted, F::READ.unwrap_or(order)) })
    }

    fn word(&self, index: usize) -> WordOf<F> {
        self.0.word(index)
    }
}

/// Slot with a flaw.
#[derive(Clone, Copy)]
pub struct Flawed<F>(PhantomData<F>);

// SAFETY: the word and its accesses are those of `Base`, or stay within the same word.
unsafe impl<F: Flaw> Slot for Flawed<F> {
    type Key = <F::Base as Slot>::Key;
    type Value = <F::Base as Slot>::Value;
    type Stored = <F::Base as Slot>::Stored;
    type Word = <F::Base as Slot>::Word;
    type Chunk = FlawedChunk<F>;
    const EMPTY: Self::Word = F::Base::EMPTY;
    const RESERVED: u32 = F::Base::RESERVED;
    const PUBLISHES: bool = F::Base::PUBLISHES;
    const HAS_VALUE: bool = F::Base::HAS_VALUE;

    fn pack(key: Self::Stored, value: Self::Value) -> Self::Word {
        F::Base::pack(key, value)
    }

    fn key(word: Self::Word) -> Self::Stored {
        F::Base::key(word)
    }

    fn value(word: Self::Word) -> Self::Value {
        F::Base::value(word)
    }

    fn claim(slot: Global<Self::Word>, pair: Self::Word) -> bool {
        F::claim(slot, pair)
    }

    fn erase(slot: Global<Self::Word>, key: Self::Stored) -> bool {
        F::erase(slot, key)
    }

    fn take(slot: Global<Self::Word>, word: Self::Word) -> Option<Self::Value> {
        F::take(slot, word)
    }

    fn replace(slot: Global<Self::Word>, word: Self::Word, value: Self::Value) -> Option<Self::Value> {
        F::replace(slot, word, value)
    }

    fn value_part(slot: Global<Self::Word>) -> Global<Self::Value> {
        F::value_place(slot)
    }

    fn acquire_pair(slot: Global<Self::Word>) {
        F::Base::acquire_pair(slot);
    }

    fn read_value(slot: Global<Self::Word>, word: Self::Word) -> Self::Value {
        F::settle(slot, word)
    }

    fn is_busy(word: Self::Word) -> bool {
        F::is_busy(word)
    }
}

/// Declares flaws: a type for each, and the operations that it overrides.
macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident of $base:ty { $($item:item)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Flaw for $name {
            type Base = $base;
            $($item)*
        }
    )*};
}

pub type TwoWords = Published<u64, u64>;

fn halves(slot: Global<u128>) -> (Global<u64>, Global<u64>) {
    // SAFETY: a slot is two halves of eight aligned bytes.
    unsafe { (slot.cast(), slot.cast::<u64>().offset(1)) }
}

flaws! {
    /// No flaw: the control.
    AsDesigned of Packed {}

    /// No flaw: the control for pairs that become visible in two steps.
    TwoWordsAsDesigned of TwoWords {}

    /// Claims a slot with a load and a store instead of a compare-and-swap.
    StoringClaim of Packed {
        fn claim(slot: Global<u64>, pair: u64) -> bool {
            let empty = slot.load(Order::Relaxed, Scope::Device) == Packed::EMPTY;
            if empty {
                slot.store(pair, Order::Relaxed, Scope::Device);
            }
            empty
        }
    }

    /// Writes values over the key.
    MisplacedValue of Packed {
        fn value_place(slot: Global<u64>) -> Global<u32> {
            // SAFETY: the first half of a slot is four aligned bytes of it.
            unsafe { slot.cast() }
        }
    }

    /// Empties the slot instead of leaving a tombstone, so that keys behind it are inserted a second time
    /// before them.
    EmptyingErase of Packed {
        fn erase(slot: Global<u64>, key: u32) -> bool {
            let old = slot.load(Order::Relaxed, Scope::Device);
            Packed::key(old) == key
                && slot.compare_exchange(old, Packed::EMPTY, Order::Relaxed, Scope::Device).is_ok()
        }
    }

    /// Reports a removal, whether or not it has removed the key.
    CarelessErase of Packed {
        fn erase(slot: Global<u64>, key: u32) -> bool {
            Packed::erase(slot, key);
            true
        }
    }

    /// Takes the value that the search has read, whatever the slot holds at the removal.
    EarlyTake of Packed {
        fn take(slot: Global<u64>, word: u64) -> Option<u32> {
            Packed::erase(slot, Packed::key(word)).then_some(Packed::value(word))
        }
    }

    /// Replaces the value, whether or not the key is still there.
    CarelessReplace of Packed {
        fn replace(slot: Global<u64>, _word: u64, new: u32) -> Option<u32> {
            Some(Packed::value_part(slot).exchange(new, Order::Relaxed, Scope::Device))
        }
    }

    /// Reads buckets through the L1 cache.
    WeakLoad of Packed {
        const READ: Option<Order> = Some(Order::Weak);
    }

    /// Publishes the key before the value is written.
    EarlyKey of TwoWords {
        fn claim(slot: Global<u128>, pair: u128) -> bool {
            let (key, value) = halves(slot);
            if key.compare_exchange(u64::MAX, pair as u64, Order::Relaxed, Scope::Device).is_err() {
                return false;
            }
            value.store((pair >> 64) as u64, Order::Relaxed, Scope::Device);
            true
        }
    }

    /// Does not wait for an adjacent slot that is between claim and publication of its key.
    Impatient of TwoWords {
        fn is_busy(_word: u128) -> bool {
            false
        }
    }

    /// Claims a slot and never publishes the key.
    Stuck of TwoWords {
        fn claim(slot: Global<u128>, _pair: u128) -> bool {
            halves(slot).0.compare_exchange(u64::MAX, u64::MAX - 2, Order::Relaxed, Scope::Device).is_ok()
        }
    }

    /// Takes the value from the load of the bucket, in which the two halves may not belong together.
    TornValue of TwoWords {
        fn settle(_slot: Global<u128>, word: u128) -> u64 {
            (word >> 64) as u64
        }
    }

    /// Takes the value from the load of the bucket, as [`TornValue`] does.
    TornTake of TwoWords {
        fn take(slot: Global<u128>, word: u128) -> Option<u64> {
            TwoWords::erase(slot, word as u64).then_some((word >> 64) as u64)
        }
    }

    /// Reads the value through the L1 cache.
    WeakSettle of TwoWords {
        fn settle(slot: Global<u128>, _word: u128) -> u64 {
            halves(slot).1.load(Order::Weak, Scope::Device)
        }
    }
}

/// Declares tests that find flaws of `take` and `replace`, each within `SEEDS` seeds.
macro_rules! exchange_mutants {
    ($($test:ident: $of:ty, $is:ident;)*) => {$(
        #[test]
        fn $test() {
            $crate::mutation::is_found_by_exchanges::<$of, ByLanes>(stringify!($test), SEEDS, &[], $is);
        }
    )*};
}
pub(crate) use exchange_mutants;

//! The hunt hunted: tables with one planted bug each, which it must find. A bug is a slot or a probing scheme of our own, given to the
//! product's walk; it is found within the stated number of seeds, and the sound table made the same way passes all of them.
use crate::hunt::{all_are_sound, is_found};
use crate::script::ByLanes;
use crate::world::Finding;
use phalanx_kernels::probing::{
    Cursor, DoubleHash, Hashed, Hinted, Packed, Probe, Published, Slot, Table, TwoChoice,
};
use simt::emulator::FailureKind;
use simt::{Global, Order, Scope, Thread};
use std::marker::PhantomData;

/// Seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

type WordOf<F> = <<F as Flaw>::Base as Slot>::Word;
type ChunkOf<F> = <<F as Flaw>::Base as Slot>::Chunk;
type StoredOf<F> = <<F as Flaw>::Base as Slot>::Stored;
type ValueOf<F> = <<F as Flaw>::Base as Slot>::Value;

/// The steps of a slot, those of `Base` but for the one that has the bug.
trait Flaw: Copy + Send + Sync + 'static {
    type Base: Slot;

    /// # Safety
    /// - As [`Slot::load_chunk`].
    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> ChunkOf<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::Base::load_chunk(chunk, wanted) }
    }

    fn claim(slot: Global<WordOf<Self>>, pair: WordOf<Self>) -> bool {
        Self::Base::claim(slot, pair)
    }

    fn erase(slot: Global<WordOf<Self>>, key: StoredOf<Self>) -> bool {
        Self::Base::erase(slot, key)
    }

    fn value_place(slot: Global<WordOf<Self>>) -> Global<ValueOf<Self>> {
        Self::Base::value_place(slot)
    }

    fn settle(slot: Global<WordOf<Self>>, word: WordOf<Self>) -> ValueOf<Self> {
        Self::Base::settle(slot, word)
    }

    fn is_busy(word: WordOf<Self>) -> bool {
        Self::Base::is_busy(word)
    }
}

/// A slot with a flaw.
#[derive(Clone, Copy)]
struct Flawed<F>(PhantomData<F>);

// SAFETY: the word and its accesses are those of `Base`, or stay within the same word.
unsafe impl<F: Flaw> Slot for Flawed<F> {
    type Key = <F::Base as Slot>::Key;
    type Value = <F::Base as Slot>::Value;
    type Stored = <F::Base as Slot>::Stored;
    type Word = <F::Base as Slot>::Word;
    type Chunk = <F::Base as Slot>::Chunk;
    const EMPTY: Self::Word = F::Base::EMPTY;
    const RESERVED: u32 = F::Base::RESERVED;
    const PUBLISHES: bool = F::Base::PUBLISHES;

    fn pack(key: Self::Stored, value: Self::Value) -> Self::Word {
        F::Base::pack(key, value)
    }

    fn key(word: Self::Word) -> Self::Stored {
        F::Base::key(word)
    }

    fn value(word: Self::Word) -> Self::Value {
        F::Base::value(word)
    }

    unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> Self::Chunk {
        // SAFETY: the caller's promise.
        unsafe { F::load_chunk(chunk, wanted) }
    }

    fn claim(slot: Global<Self::Word>, pair: Self::Word) -> bool {
        F::claim(slot, pair)
    }

    fn erase(slot: Global<Self::Word>, key: Self::Stored) -> bool {
        F::erase(slot, key)
    }

    fn value_place(slot: Global<Self::Word>) -> Global<Self::Value> {
        F::value_place(slot)
    }

    fn settle(slot: Global<Self::Word>, word: Self::Word) -> Self::Value {
        F::settle(slot, word)
    }

    fn is_busy(word: Self::Word) -> bool {
        F::is_busy(word)
    }
}

/// Declares flaws: a type each, and what it does otherwise.
macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident of $base:ty { $($item:item)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl Flaw for $name {
            type Base = $base;
            $($item)*
        }
    )*};
}

type Halves = Published<u64, u64>;

fn halves(slot: Global<u128>) -> (Global<u64>, Global<u64>) {
    // SAFETY: a slot is two halves of eight aligned bytes.
    unsafe { (slot.cast(), slot.cast::<u64>().offset(1)) }
}

flaws! {
    /// None: the control.
    Sound of Packed {}

    /// None: the control for pairs that appear in steps.
    SoundHalves of Halves {}

    /// Claims by a look and a store.
    StoringClaim of Packed {
        fn claim(slot: Global<u64>, pair: u64) -> bool {
            let empty = slot.load(Order::Relaxed, Scope::Device) == Packed::EMPTY;
            if empty {
                slot.store(pair, Order::Relaxed, Scope::Device);
            }
            empty
        }
    }

    /// Writes values where the key is.
    MisplacedValue of Packed {
        fn value_place(slot: Global<u64>) -> Global<u32> {
            // SAFETY: the first half of a slot is four aligned bytes of it.
            unsafe { slot.cast() }
        }
    }

    /// Empties the slot instead of leaving a tombstone: keys behind it are placed once more before them.
    EmptyingErase of Packed {
        fn erase(slot: Global<u64>, key: u32) -> bool {
            let old = slot.load(Order::Relaxed, Scope::Device);
            Packed::key(old) == key
                && slot.compare_exchange(old, Packed::EMPTY, Order::Relaxed, Scope::Device).is_ok()
        }
    }

    /// Says that it has removed, whether or not it has.
    CarelessErase of Packed {
        fn erase(slot: Global<u64>, key: u32) -> bool {
            Packed::erase(slot, key);
            true
        }
    }

    /// Reads buckets through the L1 cache.
    WeakLoad of Packed {
        unsafe fn load_chunk(chunk: Global<u64>, wanted: bool) -> [u64; 2] {
            // SAFETY: the caller's promise, but for the race.
            unsafe { chunk.load_vec_if::<2>(wanted, Order::Weak, Scope::Device) }
        }
    }

    /// Shows the key before the value is written.
    EarlyKey of Halves {
        fn claim(slot: Global<u128>, pair: u128) -> bool {
            let (key, value) = halves(slot);
            if key.compare_exchange(u64::MAX, pair as u64, Order::Relaxed, Scope::Device).is_err() {
                return false;
            }
            value.store((pair >> 64) as u64, Order::Relaxed, Scope::Device);
            true
        }
    }

    /// Does not wait for a neighbour that is between claim and key.
    Impatient of Halves {
        fn is_busy(_word: u128) -> bool {
            false
        }
    }

    /// Claims and never shows the key.
    Stuck of Halves {
        fn claim(slot: Global<u128>, _pair: u128) -> bool {
            halves(slot).0.compare_exchange(u64::MAX, u64::MAX - 2, Order::Relaxed, Scope::Device).is_ok()
        }
    }

    /// Takes the value from the bucket's reading, in which the two halves need not belong together.
    TornValue of Halves {
        fn settle(_slot: Global<u128>, word: u128) -> u64 {
            (word >> 64) as u64
        }
    }

    /// Reads the value through the L1 cache.
    WeakSettle of Halves {
        fn settle(slot: Global<u128>, _word: u128) -> u64 {
            halves(slot).1.load(Order::Weak, Scope::Device)
        }
    }
}

/// A walk that is not the same for two operations on a key.
#[derive(Clone, Copy)]
struct Wandering;

// SAFETY: the remainder is a bucket of the table.
unsafe impl Probe for Wandering {
    const FILTER_BITS: u32 = 0;
    const EXTRA: u32 = 0;

    fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
        let step = 1 + Thread::index() as u32 % (buckets - 1);
        cursor.bucket = (cursor.bucket + step) % buckets;
    }
}

/// A quota that depends on who asks, as that of a two-choice table would which compares how full the buckets are.
#[derive(Clone, Copy)]
struct Moody;

// SAFETY: walks as `TwoChoice` does.
unsafe impl Probe for Moody {
    const FILTER_BITS: u32 = 0;
    const EXTRA: u32 = 2;

    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        TwoChoice::advance(cursor, hash, buckets);
    }

    fn quota(cursor: Cursor, slots: u32) -> u32 {
        if Thread::index().is_multiple_of(2) { slots } else { TwoChoice::quota(cursor, slots) }
    }
}

/// A walk that leaves the table, for a place so far off that no other live buffer can lie there.
#[derive(Clone, Copy)]
struct Leaving;

// SAFETY: none: this is the planted bug, and the emulator must report its access.
unsafe impl Probe for Leaving {
    const FILTER_BITS: u32 = 0;
    const EXTRA: u32 = 0;

    fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
        cursor.bucket = Cursor::BUCKET - buckets;
    }
}

fn is_wrong(finding: &Finding) -> bool {
    !matches!(finding, Finding::Machine(_))
}

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

fn is_outside(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::OutOfBounds { .. }))
}

fn is_hang(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::Hang { .. }))
}

macro_rules! mutants {
    ($($test:ident: $slot:ty, $probe:ty, $is:ident;)*) => {$(
        #[test]
        fn $test() {
            is_found::<Table<$slot, $probe, 2, 2>, ByLanes>(stringify!($test), SEEDS, |setting| setting, $is);
        }
    )*};
}

mutants! {
    a_claim_by_a_store_is_found: Flawed<StoringClaim>, DoubleHash, is_wrong;
    a_value_in_the_keys_place_is_found: Flawed<MisplacedValue>, DoubleHash, is_wrong;
    a_slot_emptied_by_a_removal_is_found: Flawed<EmptyingErase>, Hinted<16>, is_wrong;
    a_removal_that_does_not_look_is_found: Flawed<CarelessErase>, DoubleHash, is_wrong;
    a_weak_read_of_buckets_is_found: Flawed<WeakLoad>, DoubleHash, is_race;
    a_key_shown_too_early_is_found: Flawed<EarlyKey>, DoubleHash, is_wrong;
    a_neighbour_that_is_not_waited_for_is_found: Flawed<Impatient>, DoubleHash, is_wrong;
    a_key_that_is_never_shown_is_found: Flawed<Stuck>, DoubleHash, is_hang;
    a_value_that_is_not_read_again_is_found: Flawed<TornValue>, DoubleHash, is_wrong;
    a_weak_read_of_values_is_found: Flawed<WeakSettle>, DoubleHash, is_race;
    walks_that_differ_are_found: Packed, Wandering, is_wrong;
    quotas_that_differ_are_found: Packed, Moody, is_wrong;
    a_walk_that_leaves_the_table_is_found: Packed, Leaving, is_outside;
}

#[test]
fn a_filter_that_forgets_is_found() {
    is_found::<Table<Packed, Hinted<16>, 2, 2>, ByLanes>(
        "a_filter_that_forgets",
        SEEDS,
        |setting| crate::world::Setting { forget: true, ..setting },
        is_wrong,
    );
}

#[test]
fn tables_without_a_flaw_pass() {
    all_are_sound::<Table<Flawed<Sound>, DoubleHash, 2, 2>, ByLanes>("sound", SEEDS);
    all_are_sound::<Table<Flawed<Sound>, Hinted<16>, 2, 2>, ByLanes>("sound, with a filter", SEEDS);
    all_are_sound::<Table<Flawed<SoundHalves>, DoubleHash, 2, 2>, ByLanes>("sound halves", SEEDS);
}

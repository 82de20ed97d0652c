//! Mutation tests: lists with one planted bug each, which the exploration must find within the given number
//! of seeds, and replay. A bug is a modified slot or pool in the library's search. The unmodified lists,
//! built in the same way, must pass all seeds.
use crate::flaws::{
    AsDesigned, CarelessErase, CarelessReplace, EarlyKey, EarlyTake, EmptyingErase, Flawed, Impatient,
    MisplacedValue, StoringClaim, Stuck, TornTake, TornValue, TwoWordsAsDesigned, WeakLoad, WeakSettle,
    exchange_mutants,
};
use crate::many;
use crate::mutation::{all_are_sound, exchanges_are_sound, is_found};
use crate::pool::{FlawedPool, PoolFlaw};
use crate::script::{ByLanes, ByTiles};
use crate::world::{Finding, is_hang, is_race, is_wrong};
use phalanx_kernels::keyed::{Bare, Packed, Slot};
use phalanx_kernels::slab::list::{Gather, Lists};
use phalanx_kernels::slab::{Handle, Light, Pool};
use simt::{Global, Independent, Order, Scope, Shuffle};

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

fn swap(link: Global<u32>, new: Handle) -> Result<u32, u32> {
    link.compare_exchange(Handle::NONE.to_word(), new.to_word(), Order::Relaxed, Scope::Device)
}

/// Declares flaws: a type for each, and how it links an allocated slab to the list.
macro_rules! hangings {
    ($($(#[$doc:meta])* $name:ident($pool:ident, $link:ident, $new:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl PoolFlaw for $name {
            fn extend($pool: Light<128>, $link: Global<u32>, seed: u32) -> Handle {
                let Some($new) = $pool.allocate(seed) else { return Handle::NONE };
                $body
            }
        }
    )*};
}

hangings! {
    /// No flaw: the control.
    Right(pool, link, new) {
        match swap(link, new) {
            Ok(_) => new,
            Err(other) => {
                pool.free(new);
                Handle::from_word(other)
            }
        }
    }
    /// Links with a load and a store instead of a compare-and-swap.
    TornLink(pool, link, new) {
        match Handle::from_word(link.load(Order::Relaxed, Scope::Device)).some() {
            None => {
                link.store(new.to_word(), Order::Relaxed, Scope::Device);
                new
            }
            Some(other) => {
                pool.free(new);
                other
            }
        }
    }
    /// Does not free its slab after losing the race to link one.
    LeakingLoser(_pool, link, new) {
        swap(link, new).map_or_else(Handle::from_word, |_| new)
    }
    /// Continues in its own slab after losing the race to link one.
    StubbornLoser(_pool, link, new) {
        let _ = swap(link, new);
        new
    }
    /// Continues in the new slab without linking it, if it was the last slab of the pool.
    EarlyFollower(pool, link, new) {
        if pool.number(new) == Some(31) {
            return new;
        }
        swap(link, new).map_or_else(Handle::from_word, |_| new)
    }
    /// Frees the slab that it has linked.
    HastyWinner(pool, link, new) {
        let other = swap(link, new);
        pool.free(new);
        other.map_or_else(Handle::from_word, |_| new)
    }
    /// Replaces the slab that another tile has linked.
    Usurper(_pool, link, new) {
        link.exchange(new.to_word(), Order::Relaxed, Scope::Device);
        new
    }
    /// Reads the link through the L1 cache first.
    WeakLook(pool, link, new) {
        let old = Handle::from_word(link.load(Order::Weak, Scope::Device));
        if let Some(other) = old.some() {
            pool.free(new);
            return other;
        }
        match swap(link, new) {
            Ok(_) => new,
            Err(other) => {
                pool.free(new);
                Handle::from_word(other)
            }
        }
    }
}

/// Slot of a set that a removal empties instead of leaving a tombstone.
#[derive(Clone, Copy)]
struct EmptyingKey;

impl crate::flaws::Flaw for EmptyingKey {
    type Base = Bare<u32>;

    fn erase(slot: Global<u32>, key: u32) -> bool {
        slot.compare_exchange(key, Bare::<u32>::EMPTY, Order::Relaxed, Scope::Device).is_ok()
    }
}

/// Removes all values, and also counts those that others have removed.
#[derive(Clone, Copy, Default)]
pub struct CarelessRemoval;

impl Shuffle for CarelessRemoval {
    fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
        self
    }
}

impl Gather for CarelessRemoval {
    type Slot = Packed;

    fn take(self, slot: Global<u64>, key: u32) -> bool {
        Packed::erase(slot, key);
        true
    }

    fn put(self, _place: u32, _value: u32) {}
}

/// Skips every fourth value.
#[derive(Clone, Copy, Default)]
pub struct SkippingRemoval;

impl Shuffle for SkippingRemoval {
    fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
        self
    }
}

impl Gather for SkippingRemoval {
    type Slot = Packed;

    fn take(self, slot: Global<u64>, key: u32) -> bool {
        let word = slot.load(Order::Relaxed, Scope::Device);
        !Packed::value(word).is_multiple_of(4) && Packed::erase(slot, key)
    }

    fn put(self, _place: u32, _value: u32) {}
}

/// Lists whose slots have a flaw.
type Slots<F> = Lists<Flawed<F>, Light<128>, 4, 4>;
/// Lists whose 16-byte slots have a flaw.
type WideSlots<F> = Lists<Flawed<F>, Light<128>, 4, 2>;
/// Lists whose pool has a flaw.
type Pools<F> = Lists<Packed, FlawedPool<F>, 4, 4>;

fn is_leak(finding: &Finding) -> bool {
    matches!(finding, Finding::Slabs { live, reached } if live > reached)
}

macro_rules! mutants {
    ($($test:ident: $of:ty, $is:ident;)*) => {$(
        #[test]
        fn $test() {
            is_found::<$of, ByLanes>(stringify!($test), SEEDS, |setting| setting, $is);
        }
    )*};
}

mutants! {
    a_link_by_a_store_is_found: Pools<TornLink>, is_wrong;
    a_slab_that_came_second_and_stays_is_found: Pools<LeakingLoser>, is_leak;
    a_slab_that_was_never_linked_is_found: Pools<StubbornLoser>, is_wrong;
    a_slab_that_is_followed_without_a_link_is_found: Pools<EarlyFollower>, is_wrong;
    a_slab_that_is_freed_in_its_list_is_found: Pools<HastyWinner>, is_wrong;
    a_slab_in_anothers_place_is_found: Pools<Usurper>, is_wrong;
    a_weak_look_at_a_link_is_found: Pools<WeakLook>, is_race;
    a_slot_emptied_by_a_removal_is_found: Slots<EmptyingErase>, is_wrong;
    a_key_emptied_by_a_removal_is_found: Lists<Flawed<EmptyingKey>, Light<128>, 4, 8>, is_wrong;
    a_claim_by_a_store_is_found: Slots<StoringClaim>, is_wrong;
    a_value_in_the_keys_place_is_found: Slots<MisplacedValue>, is_wrong;
    a_removal_that_does_not_look_is_found: Slots<CarelessErase>, is_wrong;
    a_weak_read_of_slabs_is_found: Slots<WeakLoad>, is_race;
    a_neighbour_that_is_not_waited_for_is_found: WideSlots<Impatient>, is_wrong;
    a_key_that_is_never_shown_is_found: WideSlots<Stuck>, is_hang;
    a_value_that_is_not_read_again_is_found: Lists<Flawed<TornValue>, Light<128>, 2, 4>, is_wrong;
    a_weak_read_of_values_is_found: WideSlots<WeakSettle>, is_race;
}

exchange_mutants! {
    a_value_that_is_taken_too_early_is_found: Slots<EarlyTake>, is_wrong;
    a_value_that_replaces_a_removed_one_is_found: Slots<CarelessReplace>, is_wrong;
    a_value_that_is_taken_from_the_search_is_found: Lists<Flawed<TornTake>, Light<128>, 2, 4>, is_wrong;
}

/// Rarer than others, because an update reads the key once more first, which gives the writer time.
#[test]
fn a_key_shown_too_early_is_found() {
    is_found::<WideSlots<EarlyKey>, ByLanes>("an early key", 16 * SEEDS, |setting| setting, is_wrong);
}

#[test]
fn a_count_of_what_others_removed_is_found() {
    many::is_found::<Lists<Packed, Light<128>, 4, 4>, CarelessRemoval>("a careless removal", SEEDS, is_wrong);
}

#[test]
fn a_removal_that_leaves_some_is_found() {
    many::is_found::<Lists<Packed, Light<128>, 4, 4>, SkippingRemoval>("a skipping removal", SEEDS, is_wrong);
}

#[test]
fn lists_without_a_flaw_pass() {
    all_are_sound::<Slots<AsDesigned>, ByLanes>("sound", SEEDS);
    all_are_sound::<WideSlots<TwoWordsAsDesigned>, ByLanes>("sound halves", SEEDS);
    exchanges_are_sound::<Slots<AsDesigned>, ByLanes>("exchanges", SEEDS);
    exchanges_are_sound::<WideSlots<TwoWordsAsDesigned>, ByLanes>("exchanges of halves", SEEDS);
    all_are_sound::<Pools<Right>, ByLanes>("a sound pool", SEEDS);
    all_are_sound::<Pools<Right>, ByTiles<Independent, 4>>("a sound pool, by tiles", SEEDS);
}

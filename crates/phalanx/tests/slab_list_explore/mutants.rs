//! The hunt hunted: lists with one planted bug each, which it must find within the stated number of seeds,
//! and replay. A bug is a slot or a pool of our own, given to the product's walk; the sound ones made the
//! same way pass all of them.
use crate::flaws::{
    CarelessErase, EarlyKey, EmptyingErase, Flawed, Impatient, MisplacedValue, Sound, SoundHalves,
    StoringClaim, Stuck, TornValue, WeakLoad, WeakSettle, is_hang, is_race, is_wrong,
};
use crate::hunt::{all_are_sound, is_found};
use crate::many;
use crate::pool::{FlawedPool, PoolFlaw};
use crate::script::{ByLanes, ByTiles};
use crate::world::Finding;
use phalanx_kernels::keyed::{Bare, Packed, Slot};
use phalanx_kernels::slab::list::{Gather, Lists};
use phalanx_kernels::slab::{Handle, Light, Pool};
use simt::{Global, Independent, Order, Scope, Shuffle};

/// Seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

fn swap(link: Global<u32>, new: Handle) -> Result<u32, u32> {
    link.compare_exchange(Handle::NONE.to_word(), new.to_word(), Order::Relaxed, Scope::Device)
}

/// Declares flaws: a type each, and how it hangs a slab that it was given.
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
    /// None: the control.
    Right(pool, link, new) {
        match swap(link, new) {
            Ok(_) => new,
            Err(other) => {
                pool.free(new);
                Handle::from_word(other)
            }
        }
    }
    /// Links by a look and a store.
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
    /// Keeps the slab that came second.
    LeakingLoser(_pool, link, new) {
        swap(link, new).map_or_else(Handle::from_word, |_| new)
    }
    /// Follows its own slab, though another one was faster.
    StubbornLoser(_pool, link, new) {
        let _ = swap(link, new);
        new
    }
    /// Follows the new slab before it is linked, and forgets to link it where the slab was the last one.
    EarlyFollower(pool, link, new) {
        if pool.number(new) == Some(31) {
            return new;
        }
        swap(link, new).map_or_else(Handle::from_word, |_| new)
    }
    /// Frees the slab that it has hung.
    HastyWinner(pool, link, new) {
        let other = swap(link, new);
        pool.free(new);
        other.map_or_else(Handle::from_word, |_| new)
    }
    /// Hangs its slab in the place of another one's.
    Usurper(_pool, link, new) {
        link.exchange(new.to_word(), Order::Relaxed, Scope::Device);
        new
    }
    /// Looks through the L1 cache first.
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

/// A set's slot that empties itself instead of leaving a tombstone.
#[derive(Clone, Copy)]
struct EmptyingKey;

impl crate::flaws::Flaw for EmptyingKey {
    type Base = Bare<u32>;

    fn erase(slot: Global<u32>, key: u32) -> bool {
        slot.compare_exchange(key, Bare::<u32>::EMPTY, Order::Relaxed, Scope::Device).is_ok()
    }
}

/// Removes all, and counts what others have removed too.
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

/// Leaves every fourth value.
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
/// Lists whose slots of 16 bytes have a flaw.
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

/// Rarer than others: who changes a value looks at the key once more before, which gives the writer time.
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
    all_are_sound::<Slots<Sound>, ByLanes>("sound", SEEDS);
    all_are_sound::<WideSlots<SoundHalves>, ByLanes>("sound halves", SEEDS);
    all_are_sound::<Pools<Right>, ByLanes>("a sound pool", SEEDS);
    all_are_sound::<Pools<Right>, ByTiles<Independent>>("a sound pool, by tiles", SEEDS);
}

//! Mutation tests: tables with one planted bug each, which the exploration must find. A bug is a modified
//! slot or probing scheme in the library's search. It must be found within the given number of seeds, and the
//! unmodified table, built in the same way, must pass all of them.
use crate::faults::{assert_effects, site, with};
use crate::flaws::{
    AsDesigned, CarelessErase, CarelessReplace, EarlyKey, EarlyTake, EmptyingErase, Flawed, Impatient,
    MisplacedValue, StoringClaim, Stuck, TornTake, TornValue, TwoWordsAsDesigned, WeakLoad, WeakSettle,
    exchange_mutants,
};
use crate::mutation::{all_are_sound, exchanges_are_sound, is_found, is_found_by_exchanges};
use crate::script::{ByBlocks, ByFlawedLanes, ByLanes, MERGES_NOTHING};
use crate::world::{Setting, is_hang, is_outside, is_race, is_wrong};
use phalanx_kernels::hash_map::{
    Cursor, DefaultTable, DoubleHash, Hashed, Hinted, Packed, Probe, Table, TwoChoice,
};
use phalanx_testing::plan::Choice;
use simt::Thread;
use simt::emulator::Fault;

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

/// Probing scheme whose sequence differs between operations on the same key.
#[derive(Clone, Copy)]
struct Wandering;

// SAFETY: the remainder is a bucket of the table.
unsafe impl Probe for Wandering {
    const NAME: &'static str = "wandering";
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 0;

    fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
        let step = 1 + Thread::index() as u32 % (buckets - 1);
        cursor.bucket = (cursor.bucket + step) % buckets;
    }
}

/// Probing scheme whose quota depends on the thread, like a two-choice table that compares the current fill
/// of buckets.
#[derive(Clone, Copy)]
struct Moody;

// SAFETY: advances as `TwoChoice` does.
unsafe impl Probe for Moody {
    const NAME: &'static str = "moody";
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 2;

    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        TwoChoice::advance(cursor, hash, buckets);
    }

    fn quota(cursor: Cursor, slots: u32) -> u32 {
        if Thread::index().is_multiple_of(2) { slots } else { TwoChoice::quota(cursor, slots) }
    }
}

/// Probing scheme that leaves the table, to a bucket so far off that no other live buffer can contain it.
#[derive(Clone, Copy)]
struct Leaving;

// SAFETY: unsound on purpose: this is the planted bug, and the emulator must report its access.
unsafe impl Probe for Leaving {
    const NAME: &'static str = "leaving";
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 0;

    fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
        cursor.bucket = Cursor::BUCKET - buckets;
    }
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

exchange_mutants! {
    a_value_that_is_taken_too_early_is_found: Table<Flawed<EarlyTake>, DoubleHash, 2, 2>, is_wrong;
    a_value_that_replaces_a_removed_one_is_found: Table<Flawed<CarelessReplace>, DoubleHash, 2, 2>, is_wrong;
    a_value_that_is_taken_from_the_search_is_found: Table<Flawed<TornTake>, DoubleHash, 2, 2>, is_wrong;
}

/// A take reads the slot and then stores the tombstone, whatever the slot holds then.
#[test]
fn a_take_in_two_steps_is_found() {
    let swap = site("keyed/slot.rs", "take", "swap(slot, word, Self::pack");
    let faults = [Fault::tear(swap)];
    is_found_by_exchanges::<DefaultTable, ByLanes>("a torn take", SEEDS, &faults, is_wrong);
}

/// One lane executes the equal operations of a warp, but by a wrong rule.
fn is_found_combined<const FLAW: u8>(name: &str) {
    let changes = |setting| Setting { choice: Choice::EXCHANGES_AND_CHANGES, ..setting };
    is_found::<DefaultTable, ByFlawedLanes<FLAW>>(name, SEEDS, changes, is_wrong);
}

#[test]
fn a_combination_that_merges_nothing_is_found() {
    is_found_combined::<MERGES_NOTHING>("a_combination_that_merges_nothing");
}

/// A block combines equal operations of its warps, but without one of the barriers between its steps.
fn is_found_in_blocks(name: &str, function: &str) {
    let barrier = Fault::skip(site("keyed/combine/block.rs", function, "Block::sync()"));
    let faults = [barrier];
    is_found::<DefaultTable, ByBlocks>(name, SEEDS, with(&faults), |_| true);
    assert_effects(&faults);
}

#[test]
fn groups_that_are_sought_too_early_are_found() {
    is_found_in_blocks("groups_that_are_sought_too_early", "join");
}

#[test]
fn results_that_are_read_too_early_are_found() {
    is_found_in_blocks("results_that_are_read_too_early", "result");
}

/// Lanes wait for the results of one that executes nothing.
#[test]
fn a_leader_that_does_not_act_is_found() {
    let last_lane = |_, first: u128| first | 31;
    let faults =
        [Fault::replace(site("keyed/combine/block.rs", "join", "self.put(FIRST, first)"), last_lane)];
    is_found::<DefaultTable, ByBlocks>("a_leader_that_does_not_act", SEEDS, with(&faults), |_| true);
    assert_effects(&faults);
}

#[test]
fn a_filter_that_forgets_is_found() {
    is_found::<Table<Packed, Hinted<16>, 2, 2>, ByLanes>(
        "a_filter_that_forgets",
        SEEDS,
        |setting| Setting { forget: true, ..setting },
        is_wrong,
    );
}

#[test]
fn tables_without_a_flaw_pass() {
    all_are_sound::<Table<Flawed<AsDesigned>, DoubleHash, 2, 2>, ByLanes>("sound", SEEDS);
    all_are_sound::<Table<Flawed<AsDesigned>, Hinted<16>, 2, 2>, ByLanes>("sound, with a filter", SEEDS);
    all_are_sound::<Table<Flawed<TwoWordsAsDesigned>, DoubleHash, 2, 2>, ByLanes>("sound halves", SEEDS);
    exchanges_are_sound::<Table<Flawed<AsDesigned>, DoubleHash, 2, 2>, ByLanes>("exchanges", SEEDS);
    exchanges_are_sound::<Table<Flawed<TwoWordsAsDesigned>, DoubleHash, 2, 2>, ByLanes>("halves", SEEDS);
}

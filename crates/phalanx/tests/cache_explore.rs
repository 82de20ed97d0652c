//! Explores schedules of the batches of a cache table on the emulator, with every detector, a stale L1 cache
//! and, for a part of the seeds, weak memory. Tables of one or two buckets are almost full; the elements of a
//! batch are spread over warps that run concurrently, many of them with equal digests. After each batch, a
//! lookup and the table's memory are compared with what the outcomes say. `PHALANX_SEED` replays one seed.
//! Without it a quarter of the seeds are explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty
//! times as many.
#![cfg(feature = "cache-table")]
#[path = "cache_explore/check.rs"]
mod check;
mod common;
#[cfg(feature = "variants")]
#[path = "cache_explore/fresh.rs"]
mod fresh;
#[path = "cache_explore/merging.rs"]
mod merging;
#[path = "cache_explore/mutants.rs"]
mod mutants;
#[path = "cache_explore/plan.rs"]
mod plan;
#[path = "cache_explore/world.rs"]
mod world;

use bytemuck::Pod;
use phalanx_kernels::cache::{BuiltIn, Cache, Config};
use plan::{Kind, Plan};
use simt::Instance;
use world::{Played, Setting, play};

/// Number of seeds per kind of batch of the default variant.
const SEEDS: u64 = 180;

/// Number of seeds from which on every rare path is taken.
const FEW: usize = 30;

type Usual = Cache<u64, u64, BuiltIn, 8, 4>;
type Narrow = Cache<u32, u32, BuiltIn, 8, 4>;
type Lane = Cache<u64, u64, BuiltIn, 1, 8>;
type Sector = Cache<u64, u64, BuiltIn, 2, 4>;
type Line = Cache<u64, u64, BuiltIn, 4, 8>;
type Undigested = Cache<u64, u64, BuiltIn, 8, 4, false>;

/// Runs `count` seeds of the kinds, a part of them under weak memory; all must be sound.
fn all_are_sound<C>((kinds, looks_up): (&[Kind], bool), count: u64)
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    let mut sum = Played::default();
    for seed in common::seeds(count) {
        for weak in [false, true].into_iter().take(if seed % 3 == 0 { 2 } else { 1 }) {
            let setting = Setting { looks_up, ..Setting::new(seed, weak) };
            sum += play::<C>(seed, kinds, &setting).unwrap_or_else(|finding| {
                panic!("{}, weak memory {weak}: {finding}\n{}", C::NAME, common::replay(seed))
            });
        }
    }
    println!("{} {kinds:?}: {sum:?}", C::NAME);
    if common::seeds(count).count() >= FEW {
        sum.assert_rare_paths(kinds, looks_up);
    }
}

/// Runs `count` seeds of launches with many elements, which evict one after the other.
fn crowds_are_sound<C>(looks_up: bool, count: u64)
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    for (seed, weak) in common::seeds(count).flat_map(|seed| [(seed, false), (seed, true)]) {
        let setting = Setting { is_crowded: true, looks_up, ..Setting::new(seed, weak) };
        let found = play::<C>(seed, &[Kind::InsertEvict], &setting);
        found.unwrap_or_else(|finding| {
            panic!("{}, weak memory {weak}: {finding}\n{}", C::NAME, common::replay(seed))
        });
    }
}

#[test]
fn crowds_are_evicted_one_after_the_other() {
    crowds_are_sound::<Usual>(false, 2 * SEEDS);
    crowds_are_sound::<Narrow>(false, SEEDS);
    crowds_are_sound::<Usual>(true, SEEDS);
}

/// Runs seeds of duels: a key is placed while others evict it, and may lose its slot between its search and
/// its lock.
fn duels_are_sound<C>(looks_up: bool, count: u64)
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    let mut sum = Played::default();
    for seed in common::seeds(count).filter(|&seed| Plan::new(seed).is_duel) {
        for weak in [false, true] {
            let setting = Setting { looks_up, ..Setting::new(seed, weak) };
            sum += play::<C>(seed, &[Kind::InsertEvict], &setting).unwrap_or_else(|finding| {
                panic!("{}, weak memory {weak}: {finding}\n{}", C::NAME, common::replay(seed))
            });
        }
    }
    println!("{}: {sum:?}", C::NAME);
    sum.assert_lost_races();
}

#[test]
fn duels_about_a_slot_are_sound() {
    duels_are_sound::<Usual>(false, 40 * SEEDS);
    duels_are_sound::<Usual>(true, 40 * SEEDS);
    duels_are_sound::<Narrow>(true, 60 * SEEDS);
}

macro_rules! explore {
    ($($name:ident: $seeds:expr, $kinds:expr, $looks_up:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn usual() {
                all_are_sound::<Usual>((&$kinds, $looks_up), $seeds);
            }

            #[test]
            fn narrow() {
                all_are_sound::<Narrow>((&$kinds, $looks_up), $seeds / 4);
            }

            #[test]
            fn a_lane_a_key() {
                all_are_sound::<Lane>((&$kinds, $looks_up), $seeds / 3);
            }

            #[test]
            fn two_lanes_a_key() {
                all_are_sound::<Sector>((&$kinds, $looks_up), $seeds / 3);
            }

            #[test]
            fn four_lanes_a_key() {
                all_are_sound::<Line>((&$kinds, $looks_up), $seeds / 6);
            }

            #[test]
            fn all_keys_compared() {
                all_are_sound::<Undigested>((&$kinds, $looks_up), $seeds / 6);
            }
        }
    )*};
}

explore! {
    evictions_are_kept: SEEDS, [Kind::InsertEvict], false;
    placements: SEEDS, [Kind::Insert, Kind::GetOrInsert, Kind::Accumulate], false;
    changes_beside_changes: SEEDS, [Kind::Change], false;
    removals_and_placements: SEEDS, [Kind::Remove, Kind::Insert], false;
    lookups_beside_evictions: SEEDS, [Kind::InsertEvict], true;
    lookups_beside_placements: SEEDS, [Kind::Insert, Kind::GetOrInsert, Kind::Accumulate], true;
    lookups_beside_changes: SEEDS, [Kind::Change], true;
    lookups_beside_removals: SEEDS, [Kind::Remove, Kind::Insert], true;
}

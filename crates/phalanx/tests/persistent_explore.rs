//! Explores schedules of batches on persistent maps, with every detector, a stale L1 cache and, for a part of
//! the seeds, weak memory. Tables of a few buckets are almost full, and all launches use the same few keys.
//! The results of each round must be those of some serial order, and the memory must be sound afterwards.
//! Pages that are copied meanwhile must have whole items. `PHALANX_SEED` replays one seed. Without it a
//! quarter of the seeds are explored; `PHALANX_SEEDS=1` explores all.
#![cfg(feature = "persistent-map")]
#[path = "persistent_explore/cache_mutants.rs"]
mod cache_mutants;
mod common;
#[path = "persistent_explore/crashes.rs"]
mod crashes;
#[path = "persistent_explore/mutants.rs"]
mod mutants;
#[path = "persistent_explore/rare.rs"]
mod rare;
#[path = "persistent_explore/reread.rs"]
mod reread;
#[path = "persistent_explore/weak.rs"]
mod weak;
#[path = "persistent_explore/world.rs"]
mod world;

use phalanx_kernels::persistent::{Levels, Search};
use simt::Instance;
use world::{
    Action, Cached, Mix, Played, Setting, copy_alone, copy_bits, ends_beside_aborted_claims, play, read_rows,
    recover_twins, removal_in_order, steps_of_updates, update_in_order,
};

/// Number of seeds for each test.
const SEEDS: u64 = 400;

/// Pairs of 8 bytes; a lane a key.
type Small = Levels<1, 8, 2, 2, 4, 1>;
/// All buckets of a key at once.
type OneShot = Levels<1, 8, 2, 2, 4, 4>;
/// Larger values: updates write new items.
type Rows = Levels<1, 0, 2, 2, 4, 1>;
/// Keys of 16 bytes, and two lanes a key.
type Wide = Levels<2, 0, 2, 2, 4, 2>;
/// One level, and buckets whose fingerprints take two loads.
type Flat = Levels<1, 0, 1, 2, 16, 1>;
/// Buckets that may have a cache.
type SmallCached = Levels<1, 8, 2, 2, 8, 1>;
/// Larger values, and copies of them.
type RowsCached = Levels<1, 0, 2, 2, 8, 1>;

/// Returns the result of a seed. A finding is a failure, and tells how to replay it.
fn sound<C: Search + Instance, T>(seed: u64, result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|finding| panic!("{}: {finding}\n{}", C::NAME, common::replay(seed)))
}

/// Plays rounds with the setting of each seed.
fn many_are_sound<C: Search + Instance>(setting: impl Fn(u64) -> Setting) {
    for seed in common::seeds(8 * SEEDS) {
        sound::<C, _>(seed, play::<C>(seed, &setting(seed)));
    }
}

fn all_are_sound<C: Search + Instance>(copies: bool) {
    let mut sum = Played::default();
    for seed in common::seeds(SEEDS) {
        for weak in [false, true].into_iter().take(if seed % 3 == 0 { 2 } else { 1 }) {
            let mix = [Mix::All, Mix::Hot, Mix::Churn, Mix::Churn, Mix::All][seed as usize % 5];
            let setting = Setting { copies, mix, ..Setting::new(seed, weak) };
            sum += play::<C>(seed, &setting).unwrap_or_else(|finding| {
                panic!("{}, weak memory {weak}: {finding}\n{}", C::NAME, common::replay(seed))
            });
        }
    }
    println!("{}: {sum:?}", C::NAME);
    if common::seeds(SEEDS).count() >= 50 {
        sum.assert_rare_paths(copies);
    }
}

/// Explores tables with a cache.
fn cached_are_sound<C: Search + Instance>(cache: Cached) {
    let mut sum = Played::default();
    for seed in common::seeds(SEEDS) {
        for weak in [false, true].into_iter().take(if seed % 3 == 0 { 2 } else { 1 }) {
            let mix = [Mix::All, Mix::Churn, Mix::Reread, Mix::Reuse][seed as usize % 4];
            let setting = Setting { cache, mix, copies: seed % 5 == 0, ..Setting::new(seed, weak) };
            sum += play::<C>(seed, &setting).unwrap_or_else(|finding| {
                panic!("{}, weak memory {weak}: {finding}\n{}", C::NAME, common::replay(seed))
            });
        }
    }
    println!("{}: {sum:?}", C::NAME);
    assert!(common::seeds(SEEDS).count() < 50 || sum.hits.iter().all(|&count| count > 100), "{sum:?}");
}

mod cached {
    use super::*;

    #[test]
    fn small_items_by_chance() {
        cached_are_sound::<SmallCached>(Cached::Random);
    }

    #[test]
    fn small_items_by_heat() {
        cached_are_sound::<SmallCached>(Cached::Hot);
    }

    #[test]
    fn rows_by_chance() {
        cached_are_sound::<RowsCached>(Cached::Random);
    }

    #[test]
    fn rows_by_heat() {
        cached_are_sound::<RowsCached>(Cached::Hot);
    }

    #[test]
    fn rows_of_one_level() {
        cached_are_sound::<Flat>(Cached::Random);
    }
}

macro_rules! explore {
    ($($name:ident: $kind:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn batches() {
                all_are_sound::<$kind>(false);
            }

            #[test]
            fn batches_beside_copies() {
                all_are_sound::<$kind>(true);
            }
        }
    )*};
}

explore! {
    small: Small;
    one_shot: OneShot;
    rows: Rows;
    wide: Wide;
    flat: Flat;
}

/// An insertion that was aborted marks its page once more, after it has cleared its slot bit.
#[test]
fn pages_are_marked_by_aborted_insertions() {
    let setting = |seed| Setting { copies: true, mix: Mix::Duel, ..Setting::new(seed, seed % 2 == 0) };
    many_are_sound::<Small>(setting);
    many_are_sound::<OneShot>(setting);
    many_are_sound::<Rows>(setting);
}

/// A copy is discarded only if a change has marked the page meanwhile.
#[test]
fn pages_are_copied_at_once_if_nothing_changes() {
    fn check<C: Search + Instance>() {
        for seed in 0..20 {
            sound::<C, _>(seed, copy_alone::<C>(seed, &Setting::new(seed, seed % 2 == 0)));
        }
    }
    check::<Small>();
    check::<Rows>();
}

/// Pages of tiny tables have few slot bits, which the thread copies that clears the mark.
#[test]
fn changes_of_slot_bits_are_in_copies_or_marked() {
    let mut copied = 0;
    for seed in common::seeds(SEEDS) {
        let setting = Setting::new(seed, seed % 2 == 0);
        copied += copy_bits(seed, &setting)
            .map_or_else(|finding| panic!("{finding}\n{}", common::replay(seed)), usize::from);
    }
    println!("{copied} copies have the change");
    assert!(common::seeds(SEEDS).count() < 50 || copied >= 3, "{copied}");
}

/// Recovery keeps one item of each key.
#[test]
fn second_items_of_keys_are_removed() {
    fn are_removed<C: Search + Instance>() {
        let mut twins = 0;
        for seed in common::seeds(4 * SEEDS) {
            let setting = Setting { alike: seed % 3 == 0, ..Setting::new(seed, seed % 2 == 0) };
            twins += sound::<C, _>(seed, recover_twins::<C>(seed, &setting));
        }
        println!("{}: {twins} second items", C::NAME);
        assert!(twins >= common::seeds(4 * SEEDS).count() / 4, "{twins}");
    }
    are_removed::<Small>();
    are_removed::<OneShot>();
    are_removed::<Rows>();
    are_removed::<Wide>();
    are_removed::<Flat>();
}

/// Others may remove the new item of an update that has not freed the old one yet. No lookup that follows
/// returns the old item.
#[test]
fn replaced_items_do_not_come_back() {
    let setting = |seed| Setting { mix: Mix::Updated, ..Setting::new(seed, seed % 4 == 0) };
    many_are_sound::<Rows>(setting);
    many_are_sound::<Wide>(setting);
    many_are_sound::<Flat>(setting);
}

/// Few schedules show the order in which changes of fingerprints and versions take effect.
#[test]
fn versions_advance_when_old_items_are_gone() {
    removal_in_order::<Small>(&[]).unwrap();
    removal_in_order::<Rows>(&[]).unwrap();
    removal_in_order::<Wide>(&[]).unwrap();
    update_in_order::<Rows>(&[]).unwrap();
    update_in_order::<Flat>(&[]).unwrap();
}

/// Explores keys with one fingerprint, which their words alone tell apart.
fn alike_are_sound<C: Search + Instance>() {
    for seed in common::seeds(2 * SEEDS) {
        let mix = [Mix::Churn, Mix::All, Mix::Duel, Mix::Churn][seed as usize % 4];
        let setting =
            Setting { alike: true, copies: seed % 5 == 0, mix, ..Setting::new(seed, seed / 2 % 2 == 0) };
        sound::<C, _>(seed, play::<C>(seed, &setting));
    }
}

#[test]
fn small_items_of_one_fingerprint_are_told_apart() {
    alike_are_sound::<Small>();
    alike_are_sound::<OneShot>();
}

#[test]
fn rows_of_one_fingerprint_are_told_apart() {
    alike_are_sound::<Rows>();
    alike_are_sound::<Wide>();
    alike_are_sound::<Flat>();
}

/// Between a search and its lock, a slot may get another key with the same fingerprint.
#[test]
fn locked_slots_have_the_key_that_was_searched() {
    fn check<C: Search + Instance>() {
        for seed in common::seeds(3 * SEEDS) {
            let setting = Setting::new(seed, seed % 2 == 0);
            let setting = Setting { alike: true, mix: Mix::Supplant, fill: (1, 1), ..setting };
            sound::<C, _>(seed, play::<C>(seed, &setting));
        }
    }
    check::<Small>();
    check::<Rows>();
    check::<Wide>();
}

/// Updates of one key do not take effect one after the other.
#[test]
fn many_updates_of_a_key_cost_as_much_as_those_of_many_keys() {
    fn compare<C: Search + Instance>() {
        let many: Vec<u64> = (0..32).map(|lane| lane % 8).collect();
        let (many, one) = (steps_of_updates::<C>(&many), steps_of_updates::<C>(&[5; 32]));
        println!("{}: {one} steps for one key, {many} for eight", C::NAME);
        assert!(one < 2 * many, "{}: {one} steps for one key, {many} for eight", C::NAME);
    }
    compare::<Small>();
    compare::<Rows>();
}

/// The words of all rows of a warp are copied, a step after the other.
#[test]
fn each_lane_of_a_warp_reads_its_row() {
    read_rows::<Rows>().unwrap();
    read_rows::<Wide>().unwrap();
}

/// An aborted insertion may still have its slot bit: until it has cleared the bit, no item of its key comes
/// behind it, since recovery takes the first one.
#[test]
fn an_item_does_not_come_behind_an_aborted_claim() {
    fn check<C: Search + Instance>() {
        let ends = |changes: &[Action], slot: u32| {
            ends_beside_aborted_claims::<C>(changes, |position| position % C::SLOTS == slot)
        };
        for insert in [Action::Insert, Action::InsertNew] {
            assert!(!ends(&[insert], 0), "{}: {insert:?} does not wait", C::NAME);
            let last = |position| position == 2 * C::SLOTS - 1; // of the lowest bucket
            assert!(ends_beside_aborted_claims::<C>(&[insert], last), "{}: {insert:?} waits", C::NAME);
        }
        assert!(ends(&[Action::Insert, Action::Remove], 0));
        assert!(ends(&[Action::Insert, Action::Update], C::SLOTS - 1));
        // The first update frees slot 0, unless it writes in place.
        let updates = [Action::Insert, Action::Update, Action::Update];
        assert_eq!(ends(&updates, 0), C::VALUE_BYTES > 0, "{}", C::NAME);
    }
    check::<Small>();
    check::<OneShot>();
    check::<Rows>();
    check::<Wide>();
}

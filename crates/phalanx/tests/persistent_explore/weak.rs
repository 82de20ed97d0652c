//! Rounds of one mix each under weak memory: a missing order shows in few schedules of few mixes.
use crate::common::{all_seeds, replay};
use crate::world::{Cached, Mix, Setting, play};
use crate::{Flat, OneShot, Rows, RowsCached, Small, SmallCached};
use phalanx_kernels::persistent::Search;
use simt::Instance;
use simt::emulator::Schedule;

/// Number of seeds for each mix.
const SEEDS: u64 = 1000;

/// Plays rounds of `count` seeds; all must be sound.
fn are_sound<C: Search + Instance>(mix: Mix, cache: &[Cached], copies: bool, count: u64) {
    for seed in all_seeds(count) {
        let cache = cache[seed as usize % cache.len()];
        let setting = Setting { mix, cache, copies, ..Setting::new(seed, true) };
        play::<C>(seed, &setting)
            .unwrap_or_else(|finding| panic!("{}, {mix:?}: {finding}\n{}", C::NAME, replay(seed)));
    }
}

/// As [`are_sound`], for tables with few items, whose slots are soon used again.
fn are_sound_in_small_tables<C: Search + Instance>(mix: Mix, cache: Cached, copies: bool, count: u64) {
    for seed in all_seeds(count) {
        let setting = Setting { mix, cache, copies, fill: (0, 2), ..Setting::new(seed, true) };
        play::<C>(seed, &setting)
            .unwrap_or_else(|finding| panic!("{}, {mix:?}: {finding}\n{}", C::NAME, replay(seed)));
    }
}

/// There is no cache.
const NONE: [Cached; 1] = [Cached::Nothing];
/// Copies of random items, or of those that were read most often.
const BOTH: [Cached; 2] = [Cached::Random, Cached::Hot];

#[test]
fn pages_are_copied_whole() {
    are_sound::<Rows>(Mix::All, &NONE, true, SEEDS);
}

#[test]
fn slots_get_other_rows() {
    are_sound::<Rows>(Mix::Reuse, &NONE, false, SEEDS);
    are_sound::<Rows>(Mix::Churn, &NONE, false, SEEDS);
}

#[test]
fn rows_of_one_level_change() {
    are_sound::<Flat>(Mix::Churn, &NONE, false, SEEDS);
}

#[test]
fn insertions_of_a_key_meet() {
    are_sound::<OneShot>(Mix::Duel, &NONE, false, SEEDS);
    are_sound::<Small>(Mix::Duel, &NONE, false, SEEDS);
}

#[test]
fn slots_get_other_small_items() {
    are_sound::<Small>(Mix::Reuse, &NONE, false, SEEDS);
    are_sound::<Small>(Mix::Hot, &NONE, false, SEEDS);
}

#[test]
fn updates_of_a_key_meet() {
    are_sound::<Rows>(Mix::Hot, &NONE, false, SEEDS);
    are_sound::<SmallCached>(Mix::Hot, &BOTH, false, SEEDS);
}

#[test]
fn small_items_get_copies() {
    are_sound::<SmallCached>(Mix::Crowd, &BOTH, false, SEEDS);
    are_sound::<SmallCached>(Mix::Reread, &BOTH, false, SEEDS);
}

#[test]
fn rows_get_copies() {
    are_sound::<RowsCached>(Mix::Churn, &BOTH, false, SEEDS);
    are_sound::<Flat>(Mix::All, &BOTH, false, SEEDS);
}

#[test]
fn slots_get_rows_of_other_keys() {
    are_sound_in_small_tables::<Rows>(Mix::Displace, Cached::Nothing, false, 2 * SEEDS);
    are_sound_in_small_tables::<Rows>(Mix::Updated, Cached::Nothing, false, SEEDS);
}

#[test]
fn slots_get_small_items_of_other_threads() {
    are_sound::<Small>(Mix::Exchange, &NONE, false, SEEDS);
}

#[test]
fn slots_get_rows_of_other_threads() {
    are_sound::<Rows>(Mix::Exchange, &NONE, false, 2 * SEEDS);
}

#[test]
fn slots_get_small_items_of_other_keys() {
    are_sound_in_small_tables::<Small>(Mix::Displace, Cached::Nothing, false, SEEDS);
}

#[test]
fn items_get_their_first_copies() {
    are_sound_in_small_tables::<SmallCached>(Mix::Reread, Cached::Fresh, false, 2 * SEEDS);
    are_sound_in_small_tables::<RowsCached>(Mix::Reread, Cached::Fresh, false, SEEDS);
}

#[test]
fn copies_that_are_read_twice_do_not_go_back() {
    are_sound_in_small_tables::<SmallCached>(Mix::RereadMany, Cached::Fresh, false, 4 * SEEDS);
}

/// A thread that updates a key, also without a write of its own, then reads its value or a later one.
#[test]
fn threads_read_what_they_have_updated() {
    for seed in all_seeds(4 * SEEDS) {
        let (schedule, mix) = (Schedule::Random { seed }, Mix::ReadOwn);
        // Only the first round gives an item its first copy.
        let setting = Setting { schedule, mix, cache: Cached::Fresh, rounds: 1, ..Setting::new(seed, true) };
        let setting = Setting { fill: (1, 1), ..setting };
        play::<SmallCached>(seed, &setting)
            .unwrap_or_else(|finding| panic!("{}: {finding}\n{}", SmallCached::NAME, replay(seed)));
    }
}

#[test]
fn pages_of_small_items_are_copied_whole() {
    are_sound_in_small_tables::<Small>(Mix::Hot, Cached::Nothing, true, SEEDS);
    are_sound::<Small>(Mix::Churn, &NONE, true, SEEDS);
}

#[test]
fn pages_that_several_launches_change_are_copied_whole() {
    are_sound::<Small>(Mix::Apart, &NONE, true, 2 * SEEDS);
}

#[test]
fn pages_whose_slots_get_other_rows_are_copied_whole() {
    are_sound_in_small_tables::<Rows>(Mix::Displace, Cached::Nothing, true, SEEDS);
}

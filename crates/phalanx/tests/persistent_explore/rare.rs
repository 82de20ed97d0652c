//! Rare paths: operations that only rare states lead to. Plans must reach each several times.
use crate::mutants::site;
use crate::world::{Cached, Mix, Setting, play, recover_twins};
use crate::{Flat, OneShot, Rows, RowsCached, Small, SmallCached, Wide, sound};
use phalanx_kernels::keyed::Outcome;
use phalanx_kernels::persistent::Search;
use simt::emulator::{Fault, SiteId};
use simt::{Instance, Order};

/// Number of seeds of each mix.
const SEEDS: u64 = 60;

/// Counts the updates of a site by a fault that only makes their order stronger.
fn counter(site: SiteId) -> Fault {
    Fault::order(site, Order::AcqRel)
}

/// Plays mixes, and counts by `counters`.
fn count<C: Search + Instance>(counters: &[Fault], mixes: &[Mix], cache: Cached) {
    for (seed, &mix) in (0..SEEDS).flat_map(|seed| mixes.iter().map(move |mix| (seed, mix))) {
        let faults = counters.to_vec();
        let setting = Setting { faults, mix, cache, ..Setting::new(seed, seed % 2 == 0) };
        sound::<C, _>(seed, play::<C>(seed, &setting));
    }
}

/// Requires that each operation was executed at least three times.
#[track_caller]
fn are_taken(counters: &[Fault]) {
    counters.iter().for_each(|counter| println!("{} times: {counter}", counter.effects()));
    assert!(counters.iter().all(|counter| counter.effects() >= 3), "a path is not taken");
}

#[test]
fn small_changes_that_meet_take_all_paths() {
    let counters = [
        // Another insertion of the key goes first, or is aborted; the aborted one clears its slot bit.
        site("change.rs", "give_up", "view.free(slot"),
        site("change.rs", "publish", "word.fetch_and(!bit"),
        // Another update takes effect in place of an update.
        site("change.rs", "change", "settle("),
    ]
    .map(counter);
    count::<Small>(&counters, &[Mix::Duel, Mix::Hot, Mix::All], Cached::Nothing);
    count::<OneShot>(&counters, &[Mix::Duel], Cached::Nothing);
    are_taken(&counters);
}

#[test]
fn changes_of_rows_that_meet_take_all_paths() {
    let counters = [
        // No slot is free for the new item, or it was lost to another operation.
        site("change.rs", "hold_item", "view.unlock(position"),
        site("change.rs", "claim", "view.unreserve(slot"),
        site("change.rs", "give_up", "view.unreserve(slot"),
        site("change.rs", "publish", "word.fetch_and(!bit"),
    ]
    .map(counter);
    count::<Rows>(&counters, &[Mix::Duel, Mix::Hot, Mix::All], Cached::Nothing);
    count::<Flat>(&counters, &[Mix::Duel, Mix::Churn], Cached::Nothing);
    are_taken(&counters);
}

#[test]
fn caches_take_all_paths() {
    let counters = [
        // The item of a line is exchanged for a hotter one.
        site("refresh.rs", "hold", "view.unlock(cold"),
        site("refresh.rs", "publish", "view.set_link("),
    ]
    .map(counter);
    let small =
        [site("change.rs", "write_through", "item.store(")].map(|site| Fault::order(site, Order::Release));
    let all = [&counters[..], &small].concat();
    count::<SmallCached>(&all, &[Mix::Reread, Mix::Hot], Cached::Random);
    count::<SmallCached>(&all, &[Mix::Hot, Mix::All], Cached::Hot);
    are_taken(&all);
    count::<RowsCached>(&counters, &[Mix::Churn], Cached::Random);
}

/// Fingerprints that agree by chance lock slots that are then unlocked, and second items are removed.
#[test]
fn recovery_takes_all_paths() {
    let counters = [
        site("recover.rs", "revive", "view.lock(other"),
        site("recover.rs", "resolve", "view.unlock(position"),
        site("recover.rs", "resolve", "view.unreserve(position"),
    ]
    .map(counter);
    for seed in 0..SEEDS {
        let alike = seed % 3 == 0;
        let setting = Setting { faults: counters.to_vec(), alike, ..Setting::new(seed, seed % 2 == 0) };
        sound::<Rows, _>(seed, recover_twins::<Rows>(seed, &setting));
    }
    are_taken(&counters);
}

#[test]
fn full_tables_refuse_keys() {
    fn refuse<C: Search + Instance>() {
        let mut refused = 0;
        for seed in 0..SEEDS / 2 {
            let setting = Setting { fill: (u64::MAX, u64::MAX), ..Setting::new(seed, seed % 2 == 0) };
            refused += sound::<C, _>(seed, play::<C>(seed, &setting)).outcomes[Outcome::Refused as usize];
        }
        println!("{}: {refused} refusals", C::NAME);
        assert!(refused >= 3, "{}: {refused} refusals", C::NAME);
    }
    refuse::<Small>();
    refuse::<OneShot>();
    refuse::<Rows>();
    refuse::<Wide>();
}

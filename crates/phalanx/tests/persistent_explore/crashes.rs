//! Crashes: the stores of a round to the image are recorded, and each image that a crash may leave is opened
//! again. It has whole items, one for each key, and each key has its value before the round, one that the
//! round has written, or none if the round removes it or it was absent. Rounds that have completed are never
//! lost.
use crate::common::seeds;
use crate::world::{Cached, Finding, Mix, Setting, World, record_round};
use crate::{OneShot, Rows, RowsCached, Small, SmallCached, Wide, sound};
use phalanx_kernels::persistent::Search;
use simt::Instance;
use simt::emulator::{Fault, SiteId};

/// Number of seeds for each kind.
const SEEDS: u64 = 2400;

/// Number of seeded subsets of the pending stores, for each stop.
const SUBSETS: u64 = 8;

/// Opens all images that crashes in a round may leave. Returns their number.
fn explore<C: Search + Instance>(seed: u64, faults: &[Fault], cache: Cached) -> Result<usize, Finding> {
    let mix = [Mix::Churn, Mix::All, Mix::Hot][seed as usize % 3];
    let setting = Setting { faults: faults.to_vec(), mix, cache, ..Setting::new(seed, false) };
    let (log, round) = record_round::<C>(seed, &setting)?;
    let mut opened = World::<C>::for_recovery();
    let (mut states, mut result) = (0, Ok(()));
    log.crashes(0..log.events() + 1, SUBSETS, |crash| {
        if result.is_err() {
            return;
        }
        states += 1;
        let levels: Vec<&[u8]> = (0..C::LEVELS as usize).map(|level| crash.contents(level)).collect();
        let checked = opened.recover(&levels).and_then(|found| {
            let is_complete = crash.stop() == log.events();
            if is_complete && found != round.after {
                let text = format!("{found:?} in place of {:?}", round.after);
                return Err(Finding::Memory(text));
            }
            round.allows(&found).map_err(Finding::Memory)
        });
        let with_crash = |finding| match finding {
            Finding::Memory(text) => Finding::Memory(format!("{text}; {crash}")),
            other => other,
        };
        result = checked.map_err(with_crash);
    });
    result.map(|()| states)
}

fn all_are_sound<C: Search + Instance>(cache: Cached) {
    let mut states = 0;
    for seed in seeds(SEEDS) {
        states += sound::<C, _>(seed, explore::<C>(seed, &[], cache));
    }
    println!("{}: {states} crashes", C::NAME);
    assert!(states > 5 * seeds(SEEDS).count(), "{states}");
}

#[test]
fn small() {
    all_are_sound::<Small>(Cached::Nothing);
}

#[test]
fn one_shot() {
    all_are_sound::<OneShot>(Cached::Nothing);
}

#[test]
fn rows() {
    all_are_sound::<Rows>(Cached::Nothing);
}

#[test]
fn wide() {
    all_are_sound::<Wide>(Cached::Nothing);
}

#[test]
fn small_with_a_cache() {
    all_are_sound::<SmallCached>(Cached::Random);
}

#[test]
fn rows_with_a_cache() {
    all_are_sound::<RowsCached>(Cached::Random);
}

/// Requires that one of the seeds finds an image that must not be.
#[track_caller]
fn is_found<C: Search + Instance>(function: &str, text: &str, nth: usize) {
    let file = "kernels-gpu/src/persistent/change.rs";
    let site = SiteId::find_nth(file, function, text, nth).unwrap_or_else(|error| panic!("{error}"));
    let fault = Fault::skip(site);
    let find = |seed| explore::<C>(seed, std::slice::from_ref(&fault), Cached::Nothing).err();
    let found = (0..400).find_map(|seed| {
        find(seed).filter(|finding| matches!(finding, Finding::Memory(_))).map(|finding| (seed, finding))
    });
    let (seed, finding) = found.unwrap_or_else(|| panic!("not found, {} effects: {fault}", fault.effects()));
    println!("{fault}: found by seed {seed}: {finding}");
}

/// A slot bit survives, and its item does not.
#[test]
fn a_small_item_that_is_not_before_its_bit_is_found() {
    is_found::<Small>("publish", "view.order_image()", 0);
}

#[test]
fn an_item_that_is_not_before_its_bit_is_found() {
    is_found::<Rows>("write_items", "view.order_image()", 0);
}

/// The bit of an item that was removed survives, and so does a part of the slot's next item.
#[test]
fn a_removal_that_is_not_before_the_next_item_is_found() {
    is_found::<Rows>("remove", "view.order_image()", 0);
}

#[test]
fn an_update_that_is_not_before_the_next_item_is_found() {
    is_found::<Rows>("replace", "view.order_image()", 0);
}

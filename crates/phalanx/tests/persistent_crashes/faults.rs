//! Fences and flushes that are left out, one at a time: the exploration must find each. Fences are sites of
//! kernels, flushes are calls of the operating system. `docs/notes/planted-faults.md` lists them.
use crate::common::Rng;
use crate::script::{Setting, Step, Tagged, execute, keys};
use crate::system::Fault as SystemFault;
use crate::{deaths, losses_of_power};
use phalanx::persistent_map::Durability;
use simt::emulator::{Fault, SiteId};

/// Number of scripts within which a fault must be found.
const SCRIPTS: usize = 40;

/// Requires that the script of some seed finds a fault. `explore` returns `None` for a script that does not
/// execute what the fault leaves out, which does not count.
#[track_caller]
fn is_found(fault: &str, explore: impl Fn(u64) -> Option<Result<(), String>>) {
    let explored = (0..10_000).filter_map(|seed| Some((seed, explore(seed)?))).take(SCRIPTS);
    let found = explored.filter_map(|(seed, explored)| Some((seed, explored.err()?))).next();
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{fault} is not found by {SCRIPTS} scripts"));
    println!("{fault}: found by seed {seed}: {}", &wrong[..wrong.len().min(300)]);
}

/// [`is_found`] for a fence of a kernel, by the death of the process in the last one of some steps. Only
/// scripts that execute the fence at least `least` times are explored.
#[track_caller]
fn fence_is_found<V: Tagged>(
    (file, function, nth): (&str, &str, usize),
    (capacity, least): (usize, u64),
    steps: impl Fn(&mut Rng) -> Vec<Step>,
) {
    let file = format!("kernels-gpu/src/persistent/{file}");
    let site = SiteId::find_nth(&file, function, "view.order_image()", nth);
    let fault = Fault::skip(site.unwrap_or_else(|error| panic!("{error}")));
    is_found(&fault.to_string(), |seed| {
        let (faults, before) = (vec![fault.clone()], fault.effects());
        let setting = Setting { faults, capacity, ..Setting::new(seed, Durability::Process) };
        let steps = steps(&mut Rng::new(seed));
        let executed = execute::<V>(&setting, &steps);
        let executes = fault.effects() - before >= least;
        executes.then(|| deaths::<V>(&setting, &executed, steps.len() - 1).map(drop))
    });
    assert!(fault.effects() > 0, "the fault has no effect: {fault}");
}

/// [`is_found`] for a call of the operating system.
#[track_caller]
fn flush_is_found(fault: SystemFault, steps: &[Step]) {
    for durability in [Durability::Machine, Durability::Process] {
        is_found(&format!("{fault:?} of {durability:?}"), |seed| {
            let setting = Setting { system: Some(fault), ..Setting::new(seed, durability) };
            Some(losses_of_power::<u64>(&setting, &execute::<u64>(&setting, steps)).map(drop))
        });
    }
}

/// Inserts a few keys.
fn insertion(rng: &mut Rng) -> Vec<Step> {
    vec![Step::Insert(keys(rng, 6))]
}

/// Fills most of a table, so that a few more keys make others move.
fn overflow(rng: &mut Rng) -> Vec<Step> {
    let (first, more) = (rng.below(40), 4 + rng.below(6));
    let fill = first..first + 60 + rng.below(6);
    let last = fill.end..fill.end + more;
    vec![Step::Insert(fill.collect()), Step::Insert(last.collect())]
}

#[test]
fn an_item_that_is_not_before_its_bit_is_found() {
    fence_is_found::<[u64; 3]>(("change.rs", "write_items", 0), (1, 1), insertion);
}

#[test]
fn a_small_item_that_is_not_before_its_bit_is_found() {
    fence_is_found::<u64>(("change.rs", "publish", 0), (1, 1), insertion);
}

#[test]
fn a_moved_item_that_is_not_before_its_bit_is_found() {
    fence_is_found::<u64>(("make_room.rs", "move_item", 0), (60, 1), overflow);
}

/// The key is in neither slot.
#[test]
fn a_moved_item_that_leaves_before_it_arrives_is_found() {
    fence_is_found::<u64>(("make_room.rs", "move_item", 1), (60, 1), overflow);
}

/// The bit of an item that has moved survives, and so does a part of the slot's next item.
#[test]
fn a_moved_item_that_is_overwritten_is_found() {
    fence_is_found::<u64>(("make_room.rs", "move_item", 2), (60, 2), overflow);
}

fn syncs() -> Vec<Step> {
    let insert = |numbers: std::ops::Range<u64>| Step::Insert(numbers.collect());
    vec![insert(0..5), Step::Sync, insert(3..9), Step::Sync, Step::Sync]
}

fn compaction() -> Vec<Step> {
    vec![Step::Insert((0..9).collect()), Step::Sync, Step::Insert((5..14).collect()), Step::Compact]
}

#[test]
fn a_missing_sync_before_the_superblock_is_found() {
    flush_is_found(SystemFault::Sync(1), &syncs());
}

#[test]
fn a_missing_sync_after_the_superblock_is_found() {
    flush_is_found(SystemFault::Sync(0), &syncs());
}

/// The new file has the name, and not its contents.
#[test]
fn a_compaction_without_syncs_is_found() {
    flush_is_found(SystemFault::LaterFiles, &compaction());
}

/// The file that was created is gone.
#[test]
fn a_creation_whose_name_is_not_synced_is_found() {
    flush_is_found(SystemFault::Folder(0), &[]);
}

/// The file is the old one.
#[test]
fn a_compaction_whose_name_is_not_synced_is_found() {
    flush_is_found(SystemFault::Folder(2), &compaction());
}

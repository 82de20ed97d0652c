//! Mutation tests: faults injected into the kernels of the table, one at a time. The exploration must find
//! each within a given number of seeds, and replay it.
use crate::common::replay;
use crate::plan::Kind;
use crate::world::{Finding, Setting, play};
use crate::{Sector, Usual};
use bytemuck::Pod;
use phalanx_kernels::cache::Config;
use simt::emulator::{FailureKind, Fault, SiteId};
use simt::{Instance, Order};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 2000;

/// Finds the only line with a text in a function of a file of the table's kernels.
#[track_caller]
fn site(file: &str, function: &str, text: &str) -> SiteId {
    let file = format!("kernels-gpu/src/cache/{file}");
    SiteId::find(&file, function, text).unwrap_or_else(|error| panic!("{error}"))
}

fn is_wrong(finding: &Finding) -> bool {
    !matches!(finding, Finding::Machine(_))
}

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

/// Memory model of a hunt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Strong,
    Weak,
}

/// Requires that one of the seeds of batches of these kinds finds the fault, by a finding that satisfies
/// `is`, and replays it.
#[track_caller]
fn is_found_in<C>(kinds: &[Kind], memory: Memory, fault: Fault, is: fn(&Finding) -> bool)
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    let of = |seed| Setting { faults: vec![fault.clone()], ..Setting::new(seed, memory == Memory::Weak) };
    is_found_by(&fault, is, |seed| play::<C>(seed, kinds, &of(seed)).map(|_| ()));
}

/// Requires that one of the seeds finds the fault in lookups beside batches of these kinds.
#[track_caller]
fn is_found_by_lookups(kinds: &[Kind], memory: Memory, fault: Fault, is: fn(&Finding) -> bool) {
    let setting = |seed| Setting {
        faults: vec![fault.clone()],
        looks_up: true,
        ..Setting::new(seed, memory == Memory::Weak)
    };
    is_found_by(&fault, is, |seed| play::<Usual>(seed, kinds, &setting(seed)).map(|_| ()));
}

#[track_caller]
fn is_found_by(fault: &Fault, is: fn(&Finding) -> bool, run: impl Fn(u64) -> Result<(), Finding>) {
    let mut found = (0..SEEDS).filter_map(|seed| run(seed).err().map(|finding| (seed, finding)));
    let (seed, finding) = found
        .find(|(_, finding)| is(finding))
        .unwrap_or_else(|| panic!("not found by {SEEDS} seeds, {} effects: {fault}", fault.effects()));
    let again = run(seed).expect_err("it replays");
    assert!(again.is_same(&finding), "{fault}: {finding} and {again}; {}", replay(seed));
    assert!(fault.effects() > 0, "the fault has no effect: {fault}");
    println!("{fault}: found by seed {seed}: {finding}");
}

#[track_caller]
fn is_found(kinds: &[Kind], memory: Memory, fault: Fault, is: fn(&Finding) -> bool) {
    is_found_in::<Usual>(kinds, memory, fault, is);
}

const CHANGES: [Kind; 1] = [Kind::Change];
const EVICTIONS: [Kind; 1] = [Kind::InsertEvict];

fn lock() -> SiteId {
    site("change.rs", "lock", "view.lock(position")
}

fn release() -> SiteId {
    site("change.rs", "change", "view.release(held.position")
}

/// The warp's barrier before its lanes move rows, and the one after.
fn sync(index: usize) -> SiteId {
    let file = "kernels-gpu/src/cache/change.rs";
    SiteId::find_nth(file, "change", "warp.sync()", index).unwrap_or_else(|error| panic!("{error}"))
}

/// The place where a lane reports its outcome, after the release of its slot.
fn end() -> SiteId {
    site("change.rs", "change", "write_if(batch.outcomes")
}

/// Returns a word of digests in which those of `from` are replaced.
const fn replaced(word: u128, from: u8, to: u8) -> u128 {
    let (mut bytes, mut byte) = (word.to_le_bytes(), 0);
    while byte < bytes.len() {
        if bytes[byte] == from {
            bytes[byte] = to;
        }
        byte += 1;
    }
    u128::from_le_bytes(bytes)
}

/// The score and the row of the slot's previous holder may be invisible.
#[test]
fn a_lock_that_acquires_nothing_is_found() {
    is_found(&CHANGES, Memory::Weak, Fault::order(lock(), Order::Relaxed), is_wrong);
}

/// The evicted row may be older than the one that another tile has placed.
#[test]
fn a_lock_of_an_eviction_that_acquires_nothing_is_found() {
    let lock = site("evict.rs", "take", "view.lock(position");
    is_found(&EVICTIONS, Memory::Weak, Fault::order(lock, Order::Relaxed), is_wrong);
}

/// The slot is released before its score and row are visible.
#[test]
fn a_release_that_releases_nothing_is_found() {
    is_found(&CHANGES, Memory::Weak, Fault::order(release(), Order::Relaxed), is_wrong);
}

/// Two tiles hold the same slot.
#[test]
fn a_lock_in_two_steps_is_found() {
    is_found(&CHANGES, Memory::Strong, Fault::tear(lock()), is_wrong);
}

/// A release overwrites the changes of the neighbouring slots' digests.
#[test]
fn a_release_in_two_steps_is_found() {
    is_found(&CHANGES, Memory::Strong, Fault::tear(release()), |_| true);
}

/// A slot is released while other lanes of the warp still write its row.
#[test]
fn a_release_that_does_not_wait_for_the_warp_is_found() {
    is_found(&CHANGES, Memory::Weak, Fault::skip(sync(1)), is_wrong);
}

/// A lane moves a part of a row that another lane has locked, without the order of that lock.
#[test]
fn a_warp_that_does_not_wait_for_its_locks_is_found() {
    is_found(&CHANGES, Memory::Weak, Fault::skip(sync(0)), is_wrong);
}

/// A slot is released before its row is written.
#[test]
fn a_row_that_is_written_after_the_release_is_found() {
    let store = site("rows.rs", "step", "store::<N>(chunk, load::<N>(self.from");
    is_found(&CHANGES, Memory::Strong, Fault::late(store, end()), is_wrong);
}

/// A slot is released before its score is written.
#[test]
fn a_score_that_is_written_after_the_release_is_found() {
    let store = site("change.rs", "write_key_and_score", "score.store(new");
    is_found(&CHANGES, Memory::Strong, Fault::late(store, end()), is_wrong);
}

/// A slot is released before its key is written.
#[test]
fn a_key_that_is_written_after_the_release_is_found() {
    let store = site("change.rs", "write_key_and_score", "store(element.key");
    is_found(&EVICTIONS, Memory::Strong, Fault::late(store, end()), is_wrong);
}

/// A tile takes a slot in which another key with the same digest was placed after the search.
#[test]
fn a_key_that_is_not_compared_again_is_found() {
    let key = site("change.rs", "lock", "view.key(position).load(");
    let search = site("search.rs", "read", "chosen::<M, W>(tile, End::Present");
    is_found(&EVICTIONS, Memory::Strong, Fault::early(key, search), is_wrong);
}

/// A key is evicted by the score that it had before another tile used it.
#[test]
fn a_score_that_is_not_compared_again_is_found() {
    let score = site("evict.rs", "take", "view.score(position).load(");
    let choice = site("evict.rs", "lowest", "seen.load(");
    is_found(&EVICTIONS, Memory::Strong, Fault::early(score, choice), is_wrong);
}

/// A removal leaves EMPTY, which ends the searches of other keys.
#[test]
fn a_removal_that_leaves_an_empty_slot_is_found() {
    // The addition changes the only byte that is BUSY in memory and not in the sum.
    let forget = |now: u128, sum: u128| {
        let (now, mut sum) = (now.to_le_bytes(), sum.to_le_bytes());
        (0..16)
            .filter(|&byte| now[byte] == 1 && sum[byte] == 2)
            .collect::<Vec<_>>()
            .iter()
            .for_each(|&b| sum[b] = 0);
        u128::from_le_bytes(sum)
    };
    let fault = Fault::replace(release(), forget);
    is_found_in::<Sector>(&[Kind::Remove, Kind::Insert], Memory::Strong, fault, is_wrong);
}

/// A change does not wait for a locked slot, which may have its key.
#[test]
fn a_locked_slot_that_is_ignored_is_found() {
    let read = site("search.rs", "read", "self.view.read::<N>(");
    let ignore = |_, word| replaced(word, 1, 2);
    is_found(&CHANGES, Memory::Strong, Fault::replace(read, ignore), is_wrong);
}

/// Two evicted keys get the same place in the output.
#[test]
fn places_of_evicted_keys_that_are_reserved_in_two_steps_are_found() {
    let reserve = site("action.rs", "keep_evicted", "reserve(warp");
    let fault = Fault::tear(reserve);
    let setting =
        |seed| Setting { faults: vec![fault.clone()], is_crowded: true, ..Setting::new(seed, false) };
    is_found_by(&fault, |_| true, |seed| play::<Usual>(seed, &EVICTIONS, &setting(seed)).map(|_| ()));
}

/// An insertion evicts although slots are free.
#[test]
fn free_slots_that_are_overlooked_are_found() {
    let read = site("search.rs", "read", "self.view.read::<N>(");
    let taken = |_, word| replaced(word, 0, 0xff);
    is_found(&[Kind::Insert], Memory::Strong, Fault::replace(read, taken), is_wrong);
}

/// An insertion does not use the slots of removed keys.
#[test]
fn slots_of_removed_keys_that_are_lost_are_found() {
    let read = site("search.rs", "read", "self.view.read::<N>(");
    let taken = |_, word| replaced(word, 2, 0xff);
    is_found(&[Kind::Remove, Kind::Insert], Memory::Strong, Fault::replace(read, taken), is_wrong);
}

/// An eviction does not look at each fourth slot.
#[test]
fn victims_among_a_part_of_the_slots_are_found() {
    let read = site("evict.rs", "lowest", "seen.load(");
    let hide = |_, word| word & !0xff;
    is_found(&EVICTIONS, Memory::Strong, Fault::replace(read, hide), is_wrong);
}

/// Digests are read through the L1 cache.
#[test]
fn weak_reads_of_digests_are_found() {
    let read = site("search.rs", "read", "self.view.read::<N>(");
    is_found(&CHANGES, Memory::Strong, Fault::order(read, Order::Weak), is_race);
}

/// Scores are read through the L1 cache.
#[test]
fn weak_reads_of_scores_are_found() {
    let read = site("evict.rs", "lowest", "view.four_scores(");
    is_found(&EVICTIONS, Memory::Strong, Fault::order(read, Order::Weak), is_race);
}

/// A lookup copies a row while the slot changes, and does not notice it.
#[test]
fn a_version_that_is_not_compared_is_found() {
    let second = site("versions.rs", "find_and_copy", "version(view, position, Order::Relaxed)");
    let first = site("versions.rs", "find_and_copy", "version(view, sought.position");
    is_found_by_lookups(&CHANGES, Memory::Strong, Fault::early(second, first), is_wrong);
}

/// The slot has another key when its version is read first.
#[test]
fn a_key_that_a_lookup_does_not_compare_again_is_found() {
    let key = site("versions.rs", "find_and_copy", "has_key(view, position");
    let search = site("search.rs", "read", "chosen::<M, W>(tile, End::Present");
    is_found_by_lookups(&EVICTIONS, Memory::Strong, Fault::early(key, search), is_wrong);
}

/// A lookup misses a key whose slot is locked at that moment.
#[test]
fn a_lookup_that_ignores_locked_slots_is_found() {
    let read = site("search.rs", "read", "self.view.read::<N>(");
    let ignore = |_, word| replaced(word, 1, 2);
    is_found_by_lookups(&[Kind::Insert], Memory::Strong, Fault::replace(read, ignore), is_wrong);
}

/// A row is visible before the odd version.
#[test]
fn writes_that_are_not_behind_the_odd_version_are_found() {
    let fence = site("versions.rs", "order_versions", "simt::fence(");
    is_found_by_lookups(&CHANGES, Memory::Weak, Fault::skip(fence), is_wrong);
}

/// A row is visible after the even version.
#[test]
fn an_even_version_that_is_not_released_is_found() {
    let end = site("versions.rs", "end_write", "fetch_add(1");
    is_found_by_lookups(&CHANGES, Memory::Weak, Fault::order(end, Order::Relaxed), is_wrong);
}

/// A lookup reads a row older than the version.
#[test]
fn a_version_that_is_not_acquired_is_found() {
    let first = site("versions.rs", "find_and_copy", "version(view, sought.position");
    is_found_by_lookups(&CHANGES, Memory::Weak, Fault::order(first, Order::Relaxed), is_wrong);
}

/// A lookup reads the version the second time before the row.
#[test]
fn a_row_that_is_not_before_its_version_is_found() {
    let read = site("rows.rs", "step", "load::<N>(chunk, order)");
    is_found_by_lookups(&CHANGES, Memory::Weak, Fault::order(read, Order::Relaxed), is_wrong);
}

/// Lanes read a row before another lane of their warp has read its version, or after it has done so again.
#[test]
fn a_lookup_whose_lanes_do_not_wait_for_each_other_is_found() {
    for index in [0, 1] {
        let file = "kernels-gpu/src/cache/versions.rs";
        let sync = SiteId::find_nth(file, "find_and_copy", "warp.sync()", index);
        let sync = sync.unwrap_or_else(|error| panic!("{error}"));
        is_found_by_lookups(&CHANGES, Memory::Weak, Fault::skip(sync), is_wrong);
    }
}

/// A lookup reads rows through the L1 cache.
#[test]
fn weak_reads_of_rows_are_found() {
    let read = site("rows.rs", "step", "load::<N>(chunk, order)");
    is_found_by_lookups(&CHANGES, Memory::Strong, Fault::order(read, Order::Weak), is_race);
}

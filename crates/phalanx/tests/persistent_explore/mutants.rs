//! Mutation tests: faults injected into the kernels, one at a time. The exploration must find each within a
//! given number of seeds, and replay it.
use crate::common::replay;
use crate::world::{Finding, Mix, Setting, play, removal_in_order, update_in_order};
use crate::{Flat, OneShot, Rows, Small, Wide};
use phalanx_kernels::persistent::Search;
use simt::emulator::{Fault, SiteId};
use simt::{Instance, Order};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 10_000;

/// Finds the `nth` line with a text in a function of a file of the table's kernels.
#[track_caller]
pub fn site_nth(file: &str, function: &str, text: &str, nth: usize) -> SiteId {
    let file = format!("kernels-gpu/src/persistent/{file}");
    SiteId::find_nth(&file, function, text, nth).unwrap_or_else(|error| panic!("{error}"))
}

/// Finds the only line with a text in a function of a file of the table's kernels.
#[track_caller]
pub fn site(file: &str, function: &str, text: &str) -> SiteId {
    let file = format!("kernels-gpu/src/persistent/{file}");
    SiteId::find(&file, function, text).unwrap_or_else(|error| panic!("{error}"))
}

/// Requires that a seed finds the fault, by a finding that satisfies `is`, and replays it.
#[track_caller]
fn is_found<C: Search + Instance>(how: (bool, bool), fault: Fault, is: fn(&Finding) -> bool) {
    is_found_in::<C>(how, Mix::All, fault, is);
}

/// [`is_found`] in rounds of another mix.
#[track_caller]
fn is_found_in<C: Search + Instance>(
    (weak, copies): (bool, bool),
    mix: Mix,
    fault: Fault,
    is: fn(&Finding) -> bool,
) {
    are_found_in::<C>((weak, copies), mix, &[fault], is);
}

/// [`is_found_in`] for faults that are injected together. The first one is named in messages.
#[track_caller]
fn are_found_in<C: Search + Instance>(
    (weak, copies): (bool, bool),
    mix: Mix,
    faults: &[Fault],
    is: fn(&Finding) -> bool,
) {
    let setting = |seed| Setting { faults: faults.to_vec(), copies, mix, ..Setting::new(seed, weak) };
    are_found_with::<C>(&setting, is);
}

/// Requires that a seed finds the faults of its setting.
#[track_caller]
pub fn are_found_with<C: Search + Instance>(setting: &dyn Fn(u64) -> Setting, is: fn(&Finding) -> bool) {
    let fault = setting(0).faults[0].clone();
    let run = |seed| play::<C>(seed, &setting(seed));
    let found = (0..SEEDS).find_map(|seed| run(seed).err().filter(is).map(|finding| (seed, finding)));
    let Some((seed, finding)) = found else {
        panic!("not found by {SEEDS} seeds, {} effects: {fault}", fault.effects())
    };
    let again = run(seed).expect_err("it replays");
    assert!(again.is_same(&finding), "{fault}: {finding} and {again}; {}", replay(seed));
    assert!(fault.effects() > 0, "the fault has no effect: {fault}");
    println!("{fault}: found by seed {seed}: {finding}");
}

pub fn is_wrong(finding: &Finding) -> bool {
    matches!(finding, Finding::Wrong(_) | Finding::Memory(_))
}

fn is_copy(finding: &Finding) -> bool {
    matches!(finding, Finding::Copy(_))
}

pub fn is_any(_: &Finding) -> bool {
    true
}

const STRONG: (bool, bool) = (false, false);
const WEAK: (bool, bool) = (true, false);
const COPIES: (bool, bool) = (false, true);
const WEAK_COPIES: (bool, bool) = (true, true);

/// Two insertions hold the same slot.
#[test]
fn a_claim_in_two_steps_is_found() {
    is_found::<Small>(STRONG, Fault::tear(site("change.rs", "claim", "view.replace(slot")), is_wrong);
}

/// Two operations hold the same item.
#[test]
fn a_lock_in_two_steps_is_found() {
    let lock = site("change.rs", "hold_item", "view.replace(position");
    is_found::<Rows>(STRONG, Fault::tear(lock), is_any);
}

/// Two insertions of a key do not see each other's claims.
#[test]
fn a_confirmation_without_a_fence_is_found() {
    is_found_in::<OneShot>(WEAK, Mix::Duel, Fault::skip(site("change.rs", "confirm", "fence_sc(")), is_wrong);
}

/// The abort overwrites the state to which the other insertion has changed its slot.
#[test]
fn an_abort_in_two_steps_is_found() {
    let abort = site("change.rs", "confirm", "view.replace(found.rival");
    is_found_in::<Small>(STRONG, Mix::Duel, Fault::tear(abort), is_any);
}

/// An insertion whose claim was aborted publishes its item.
#[test]
fn an_insertion_that_does_not_notice_its_abort_is_found() {
    let publish = site("change.rs", "publish", "view.replace(slot");
    is_found::<Small>(STRONG, Fault::tear(publish), is_any);
}

/// A lookup takes the parts of two items.
#[test]
fn a_removal_that_keeps_the_version_is_found() {
    let advance = site("change.rs", "remove", "view.advance_version(");
    is_found_in::<Rows>(STRONG, Mix::Churn, Fault::skip(advance), is_wrong);
}

/// A lookup reads the new slot before, and the old slot after the update.
#[test]
fn an_update_that_keeps_the_version_is_found() {
    let advances =
        [0, 1].map(|nth| Fault::skip(site_nth("change.rs", "replace", "view.advance_version(", nth)));
    are_found_in::<Flat>(STRONG, Mix::Churn, &advances, is_wrong);
}

/// A lookup that has read the new version still sees the item, and then parts of the slot's next one. Few
/// schedules show that, so the test looks at the order of the stores.
#[test]
fn a_version_that_advances_before_the_item_is_gone_is_found() {
    removal_in_order::<Rows>(&[]).unwrap();
    removal_in_order::<Small>(&[]).unwrap();
    let retire = Fault::skip(site("change.rs", "remove", "view.retire("));
    let found = removal_in_order::<Rows>(std::slice::from_ref(&retire));
    println!("{retire}: {}", found.expect_err("it is found"));
}

#[test]
fn an_old_item_that_is_there_after_the_second_advance_is_found() {
    update_in_order::<Rows>(&[]).unwrap();
    let retire = Fault::skip(site("change.rs", "replace", "view.retire("));
    let found = update_in_order::<Rows>(std::slice::from_ref(&retire));
    println!("{retire}: {}", found.expect_err("it is found"));
}

/// A reader of the next item does not see that the version has changed.
#[test]
fn items_that_are_written_without_a_fence_are_found() {
    let fence = site_nth("change.rs", "write_items", "simt::fence(", 1);
    is_found_in::<Rows>(WEAK, Mix::Reuse, Fault::skip(fence), is_wrong);
}

/// A lookup that copies a value does not notice a change between its two reads of the version.
#[test]
fn a_lookup_that_reads_the_version_early_is_found() {
    let again = site("kernels.rs", "find_and_copy", "version.load(");
    let search = site("search.rs", "examine", "version.load(Order::Acquire");
    is_found_in::<Rows>(STRONG, Mix::Churn, Fault::early(again, search), is_wrong);
}

/// Slot bits of other slots in the same word are lost.
#[test]
fn a_slot_bit_that_is_set_in_two_steps_is_found() {
    is_found::<Small>(STRONG, Fault::tear(site("change.rs", "publish", "word.fetch_or(")), is_wrong);
}

#[test]
fn a_slot_bit_that_is_cleared_in_two_steps_is_found() {
    is_found::<Small>(STRONG, Fault::tear(site("change.rs", "remove", "word.fetch_and(")), is_wrong);
}

#[test]
fn slot_bits_that_change_places_in_two_steps_are_found() {
    is_found::<Rows>(STRONG, Fault::tear(site("change.rs", "replace", "word.fetch_add(")), is_wrong);
}

/// A slot stays locked.
#[test]
fn a_slot_that_is_not_unlocked_is_found() {
    let unlock = site("change.rs", "release", "view.unlock(held.slot");
    is_found::<Small>(STRONG, Fault::skip(unlock), is_any);
}

/// An update finds no spare slot, for ever, or the counter differs from the items.
#[test]
fn a_reservation_that_is_not_given_back_is_found() {
    let unreserve = site("change.rs", "remove", "view.unreserve(");
    is_found::<Rows>(STRONG, Fault::skip(unreserve), is_any);
}

#[test]
fn a_reservation_in_two_steps_is_found() {
    is_found::<Wide>(STRONG, Fault::tear(site("change.rs", "claim", "view.reserve(")), is_any);
}

/// A copy has a slot bit and the item of the slot's next owner.
#[test]
fn a_removal_that_does_not_mark_its_page_is_found() {
    let mark = site("change.rs", "remove", "view.mark_dirty(");
    is_found::<Rows>(COPIES, Fault::skip(mark), is_copy);
}

#[test]
fn an_update_that_does_not_mark_its_page_is_found() {
    let mark = site("change.rs", "replace", "view.mark_dirty(");
    is_found_in::<Rows>(COPIES, Mix::Churn, Fault::skip(mark), is_copy);
}

/// A copy has items that are newer than the slot bits, without noticing.
#[test]
fn a_copy_that_looks_at_the_mark_early_is_found() {
    let mark = site("pages.rs", "persistent_copy_pages", "load(Order::Relaxed");
    let clear = site("pages.rs", "persistent_copy_pages", "exchange(0");
    is_found::<Rows>(COPIES, Fault::early(mark, clear), is_copy);
}

/// A copy does not see the mark of a change whose item it has read.
#[test]
fn a_copy_without_a_fence_is_found() {
    let fence = site("pages.rs", "persistent_copy_pages", "fence(Scope::Device)");
    is_found::<Rows>(WEAK_COPIES, Fault::skip(fence), is_copy);
}

/// A copy has a slot bit, and not the item that was written before it.
#[test]
fn a_copy_that_does_not_acquire_the_slot_bits_is_found() {
    let order = site("pages.rs", "copy_words", "load(order");
    is_found::<Rows>(WEAK_COPIES, Fault::order(order, Order::Relaxed), is_copy);
}

/// A lane moves a part of a value to a slot that another lane has claimed, without the order of that claim.
#[test]
fn a_release_that_does_not_wait_for_the_warp_is_found() {
    is_found::<Rows>(WEAK, Fault::skip(site_nth("change.rs", "write_items", "warp.sync()", 1)), is_any);
}

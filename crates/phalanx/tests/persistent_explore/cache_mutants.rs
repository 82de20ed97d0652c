//! Mutation tests of the cache: faults injected into refreshes, and into what changes do with copies.
use crate::mutants::{are_found_with, is_any, is_wrong, site, site_nth};
use crate::world::{Cached, Finding, Mix, Setting};
use crate::{Flat, RowsCached, SmallCached};
use phalanx_kernels::persistent::Search;
use simt::emulator::{Fault, SiteId};
use simt::{Instance, Order};

/// Requires that a seed finds the fault. `weak` is whether memory is weak.
#[track_caller]
fn is_found<C: Search + Instance>(weak: bool, mix: Mix, fault: Fault, is: fn(&Finding) -> bool) {
    are_found::<C>(weak, mix, &[fault], is);
}

/// [`is_found`] for faults that are injected together. The first one is named in messages.
#[track_caller]
fn are_found<C: Search + Instance>(weak: bool, mix: Mix, faults: &[Fault], is: fn(&Finding) -> bool) {
    let cache = |seed: u64| if seed.is_multiple_of(2) { Cached::Random } else { Cached::Hot };
    let setting =
        |seed| Setting { faults: faults.to_vec(), mix, cache: cache(seed), ..Setting::new(seed, weak) };
    are_found_with::<C>(&setting, is);
}

/// Returns whether no order of the elements of a key explains what lookups have read, all of it whole.
fn goes_back(finding: &Finding) -> bool {
    matches!(finding, Finding::Wrong(text) if text.starts_with("key "))
}

fn refresh(function: &str, text: &str) -> SiteId {
    site("refresh.rs", function, text)
}

/// Lookups read the value before the update.
#[test]
fn an_update_that_leaves_the_copy_as_it_is_is_found() {
    let copy = site("change.rs", "write_through", "copy.store(");
    is_found::<SmallCached>(false, Mix::Churn, Fault::skip(copy), is_wrong);
}

/// A thread reads the new value in the image, and then the old one in the copy.
#[test]
fn an_update_that_is_not_after_the_last_version_is_found() {
    let fence = Fault::skip(site("change.rs", "write_through", "simt::fence("));
    let advance = Fault::skip(refresh("hold", "view.advance_version("));
    are_found::<SmallCached>(true, Mix::Reread, &[fence, advance], goes_back);
}

/// The slot's next item has a copy of the last one.
#[test]
fn a_removal_that_keeps_the_copy_is_found() {
    let unlink = || Fault::skip(site("change.rs", "remove", "view.unlink("));
    is_found::<SmallCached>(false, Mix::Reuse, unlink(), is_wrong);
    is_found::<RowsCached>(false, Mix::Churn, unlink(), is_wrong);
}

#[test]
fn an_update_that_keeps_the_copy_is_found() {
    let unlink = site("change.rs", "replace", "view.unlink(");
    is_found::<RowsCached>(false, Mix::Churn, Fault::skip(unlink), is_wrong);
}

/// A change and a refresh hold the same slot.
#[test]
fn a_refresh_that_locks_in_two_steps_is_found() {
    let lock = || Fault::tear(refresh("hold", "view.replace(hot"));
    is_found::<SmallCached>(false, Mix::Churn, lock(), is_any);
    is_found::<RowsCached>(false, Mix::Churn, lock(), is_any);
}

#[test]
fn a_refresh_that_locks_the_cold_slot_in_two_steps_is_found() {
    let lock = refresh("hold", "view.replace(cold");
    is_found::<SmallCached>(false, Mix::Churn, Fault::tear(lock), is_any);
}

/// Two slots have one line.
#[test]
fn a_line_that_keeps_its_last_slot_is_found() {
    let unlink = refresh("hold", "view.unlink(");
    is_found::<SmallCached>(false, Mix::All, Fault::skip(unlink), is_wrong);
}

/// A lookup takes the parts of two items of a line.
#[test]
fn a_line_that_changes_within_a_version_is_found() {
    let advance = refresh("hold", "view.advance_version(");
    is_found::<RowsCached>(false, Mix::Churn, Fault::skip(advance), is_wrong);
}

/// A thread that has missed the copy reads the new value in the image, and then the old one in the copy.
#[test]
fn a_link_that_keeps_the_version_is_found() {
    let advances = ["publish", "hold"].map(|of| Fault::skip(refresh(of, "view.advance_version(")));
    are_found::<SmallCached>(true, Mix::Reread, &advances, goes_back);
}

/// A reader of a line's next item does not see that the version has advanced.
#[test]
fn a_line_that_is_written_without_a_fence_is_found() {
    let fence = refresh("refresh_group", "fence(");
    is_found::<RowsCached>(true, Mix::Churn, Fault::skip(fence), is_wrong);
}

/// A lookup reads the line before its new item is there.
#[test]
fn a_link_that_is_not_after_its_copy_is_found() {
    let link = refresh("publish", "view.set_link(");
    is_found::<SmallCached>(true, Mix::Crowd, Fault::order(link, Order::Relaxed), is_wrong);
}

/// A lane's link is not after the words that other lanes have copied.
#[test]
fn a_link_that_does_not_wait_for_the_warp_is_found() {
    let sync = site_nth("refresh.rs", "refresh_group", "warp.sync()", 1);
    is_found::<Flat>(true, Mix::All, Fault::skip(sync), is_any);
}

/// The slot stays locked.
#[test]
fn a_refresh_that_does_not_unlock_is_found() {
    let unlock = refresh("publish", "view.unlock(");
    is_found::<SmallCached>(false, Mix::All, Fault::skip(unlock), is_any);
}

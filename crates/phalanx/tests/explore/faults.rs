//! Faults that mutation tests inject at sites of the kernels.
use crate::mutation::is_found;
use crate::script::ByLanes;
use crate::world::{HasFixture, Setting, is_race};
use simt::emulator::{Fault, SiteId};

/// Finds the only line with a text in a function of a file of `kernels-gpu/src`.
#[track_caller]
pub fn site(file: &str, function: &str, text: &str) -> SiteId {
    SiteId::find(&format!("kernels-gpu/src/{file}"), function, text).unwrap_or_else(|error| panic!("{error}"))
}

/// Finds the line with the last of `count` occurrences of a text.
#[track_caller]
#[allow(dead_code)] // used by some programs only
pub fn last_site(file: &str, function: &str, text: &str, count: usize) -> SiteId {
    let nth = |index| SiteId::find_nth(&format!("kernels-gpu/src/{file}"), function, text, index);
    assert!(nth(count).is_err(), "`{text}` occurs more than {count} times in {function}");
    nth(count - 1).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the setting, with these faults.
pub fn with(faults: &[Fault]) -> impl Fn(Setting) -> Setting {
    let faults = faults.to_vec();
    move |setting| Setting { faults: faults.clone(), ..setting }
}

/// Fails if one of the faults has changed nothing.
#[track_caller]
pub fn assert_effects(faults: &[Fault]) {
    faults.iter().for_each(|fault| assert!(fault.effects() > 0, "the fault has no effect: {fault}"));
}

/// Requires that `count` seeds of the plans of all maps find a race caused by the fault.
#[track_caller]
#[allow(dead_code)] // used by some programs only
pub fn is_found_as_race<M: HasFixture>(name: &str, count: u64, fault: Fault) {
    let faults = [fault];
    is_found::<M, ByLanes>(name, count, with(&faults), is_race);
    assert_effects(&faults);
}

//! Mutation tests: faults injected into the kernels of trees with versions, which the exploration must find.
//! Without a fault, the same plans must pass.
use crate::faults::site;
use crate::histories::{Plan, all_are_sound_with, is_found, plans_are_sound};
use crate::mutation::is_found_by_exchanges;
use crate::script::ByLanes;
use crate::world::{Finding, is_wrong};
use crate::{Small, eager};
use phalanx_kernels::mvbtree::{Access, InPlace, MovingClock, OutOfPlace, RawVersions, Time, Versions};
use phalanx_kernels::reclaim::Blocks;
use phalanx_kernels::slab::{Handle, Pool};
use simt::Order;
use simt::emulator::{FailureKind, Fault};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 4000;

fn is_order(finding: &Finding) -> bool {
    matches!(finding, Finding::Order(told) if told.contains("not linearizable"))
}

/// Two tiles hold the latch at a time, so both may take the same pair.
#[test]
fn a_latch_in_two_steps_is_found_by_exchanges() {
    let latch = || Fault::tear(site("ordered/latch.rs", "try_latch", "node.set(Meta::LATCH"));
    is_found_by_exchanges::<Small<InPlace>, ByLanes>("in place", SEEDS, &[latch()], is_wrong);
    is_found_by_exchanges::<Small<OutOfPlace>, ByLanes>("out of place", SEEDS, &[latch()], is_wrong);
}

/// A snapshot does not advance the clock, so its stamp is the one of later changes, too.
#[test]
fn a_snapshot_that_returns_the_live_stamp_is_found() {
    let advance = site("mvbtree/versions.rs", "take_timestamp", "versions.advance_clock(");
    assert!(is_found::<Small<OutOfPlace>>(SEEDS, Plan::racing, &[Fault::skip(advance)], is_order));
}

/// Clock that gives the live stamp to the tile that loses the race to advance it.
#[derive(Clone, Copy, Debug)]
struct LiveClock(MovingClock<Blocks>);

impl Versions for LiveClock {
    const VERSIONED: bool = true;
    const CLOCK_MOVES: bool = true;

    unsafe fn new(parts: RawVersions) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { MovingClock::new(parts) })
    }

    fn read_timestamp(self) -> u32 {
        self.0.read_timestamp()
    }

    fn at_timestamp(self, at: u32) -> Self {
        Self(self.0.at_timestamp(at))
    }

    fn protected_below(self) -> u32 {
        self.0.protected_below()
    }

    fn time(self) -> Time {
        self.0.time()
    }

    fn advance_clock(self, from: u64) -> Result<u64, u64> {
        match self.0.advance_clock(from) {
            Err(found) if found as u32 != from as u32 => Ok(found),
            result => result,
        }
    }

    unsafe fn enter<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        unsafe { self.0.enter(pool) }
    }

    unsafe fn leave<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        unsafe { self.0.leave(pool) }
    }

    unsafe fn retire<P: Pool>(self, pool: P, copy: Handle) {
        // SAFETY: the caller's promise.
        unsafe { self.0.retire(pool, copy) }
    }
}

#[derive(Clone, Copy)]
struct LiveStamps;

impl Access for LiveStamps {
    const NAME: &'static str = "live_stamps";
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = LiveClock;
}

#[test]
fn a_snapshot_that_loses_a_race_and_returns_the_live_stamp_is_found() {
    assert!(is_found::<Small<LiveStamps>>(SEEDS, Plan::racing, &[], is_order));
}

/// Readers take unstamped leaves for old ones, and do not stamp them.
#[test]
fn a_reader_that_does_not_fix_a_stamp_is_found() {
    // Version word of a leaf whose change has no stamp yet.
    const UNSTAMPED: u32 = u32::MAX - 2;
    let old = |_, word: u128| if word as u32 == UNSTAMPED { word >> 32 << 32 } else { word };
    let stamp = site("mvbtree/versions.rs", "as_of", "self.stamped_version(");
    assert!(is_found::<Small<OutOfPlace>>(SEEDS, Plan::racing, &[Fault::replace(stamp, old)], is_order));
}

/// The epoch advances whatever its participants have announced.
#[test]
fn an_epoch_that_ends_too_early_is_found() {
    let is_reclaimed = |finding: &Finding| match finding {
        Finding::Machine(failure) => matches!(failure.kind, FailureKind::UseAfterReclaim { .. }),
        _ => false,
    };
    let hasty = Fault::skip(site("reclaim/participant.rs", "try_advance", "entry.add(LATE"));
    assert!(is_found::<Small<OutOfPlace>>(SEEDS, Plan::reclaiming, &[eager(), hasty], is_reclaimed));
}

#[test]
fn trees_without_a_fault_pass() {
    all_are_sound_with::<Small<OutOfPlace>>("sound", SEEDS / 16, &[eager()]);
    plans_are_sound::<Small<OutOfPlace>>(SEEDS / 8, Plan::racing, &[eager()]);
    plans_are_sound::<Small<OutOfPlace>>(SEEDS / 16, Plan::reclaiming, &[eager()]);
}

#[test]
fn a_moment_is_not_before_its_question() {
    plans_are_sound::<Small<OutOfPlace>>(SEEDS / 8, Plan::late, &[eager()]);
}

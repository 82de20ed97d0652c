//! Mutation tests: trees with one planted bug each. Unmodified trees that are built in the same way must
//! pass.
use crate::moments::{Plan, all_are_sound, is_found, plans_are_sound};
use crate::world::Finding;
use crate::{Eager, Ruled, Small};
use phalanx_kernels::mvbtree::{Access, MovingClock};
use phalanx_kernels::reclaim::{Blocks, FaultPolicy};
use simt::Order;
use simt::emulator::FailureKind;

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 4000;

fn is_order(finding: &Finding) -> bool {
    matches!(finding, Finding::Order(told) if told.contains("not linearizable"))
}

/// Returns the live timestamp to the tile that loses the race to take a snapshot.
#[derive(Clone, Copy)]
struct LiveStamps;

impl Access for LiveStamps {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = MovingClock<Blocks>;
    const TRUE_MOMENTS: bool = false;
}

#[test]
fn a_snapshot_that_returns_the_live_stamp_is_found() {
    assert!(is_found::<Small<LiveStamps>>(SEEDS, Plan::racing, is_order));
}

/// Reads unstamped leaves without stamping them.
#[derive(Clone, Copy)]
struct Unhelpful;

impl Access for Unhelpful {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = MovingClock<Blocks>;
    const STAMPS: bool = false;
}

#[test]
fn a_reader_that_does_not_fix_a_stamp_is_found() {
    assert!(is_found::<Small<Unhelpful>>(SEEDS, Plan::racing, is_order));
}

/// Advances the epoch without checking its participants.
#[derive(Clone, Copy, Debug)]
struct Hasty;

impl FaultPolicy for Hasty {
    const LOOKS: bool = false;
    const SELDOM: u32 = 1;
}

#[test]
fn an_epoch_that_ends_too_early_is_found() {
    let is_reclaimed = |finding: &Finding| match finding {
        Finding::Machine(failure) => matches!(failure.kind, FailureKind::UseAfterReclaim { .. }),
        _ => false,
    };
    assert!(is_found::<Small<Ruled<Blocks, Hasty>>>(
        SEEDS,
        Plan::new::<Small<Ruled<Blocks, Hasty>>>,
        is_reclaimed
    ));
}

#[test]
fn trees_without_a_flaw_pass() {
    all_are_sound::<Small<Ruled<Blocks, Eager>>>("sound", SEEDS / 8);
    plans_are_sound::<Small<Ruled<Blocks, Eager>>>(SEEDS / 4, Plan::racing);
}

#[test]
fn a_moment_is_not_before_its_question() {
    plans_are_sound::<Small<Ruled<Blocks, Eager>>>(SEEDS / 8, Plan::late);
}

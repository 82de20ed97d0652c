//! The hunt hunted: trees with one planted bug each. The sound ones that are made the same way pass.
use crate::moments::{Plan, all_are_sound, is_found, plans_are_sound};
use crate::world::Finding;
use crate::{Eager, Ruled, Small};
use phalanx_kernels::btree::{Access, Moving};
use phalanx_kernels::reclaim::{Blocks, Rules};
use simt::Order;
use simt::emulator::FailureKind;

/// Seeds within which a planted bug must be found.
const SEEDS: u64 = 4000;

fn is_order(finding: &Finding) -> bool {
    matches!(finding, Finding::Order(told) if told.contains("not linearizable"))
}

/// Gives a loser of a snapshot's race the stamp that it finds, which is live.
#[derive(Clone, Copy)]
struct LiveStamps;

impl Access for LiveStamps {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Moving<Blocks>;
    const TRUE_MOMENTS: bool = false;
}

#[test]
fn a_snapshot_that_returns_the_live_stamp_is_found() {
    assert!(is_found::<Small<LiveStamps>>(SEEDS, Plan::racing, is_order));
}

/// Reads leaves whose time is not fixed without fixing it.
#[derive(Clone, Copy)]
struct Unhelpful;

impl Access for Unhelpful {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Moving<Blocks>;
    const STAMPS: bool = false;
}

#[test]
fn a_reader_that_does_not_fix_a_stamp_is_found() {
    assert!(is_found::<Small<Unhelpful>>(SEEDS, Plan::racing, is_order));
}

/// Ends epochs without a look at who is in them.
#[derive(Clone, Copy, Debug)]
struct Hasty;

impl Rules for Hasty {
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

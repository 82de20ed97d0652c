//! The hunt hunted: lists with one planted bug each, which it must find, and replay. The sound list that is made the same way passes.
use crate::hunt::{all_are_sound, is_found};
use crate::script::ByLanes;
use crate::thin;
use crate::world::Finding;
use phalanx_kernels::btree::Access;
use phalanx_kernels::keyed::Packed;
use phalanx_kernels::skiplist::{List, Policy};
use phalanx_kernels::slab::Spread;
use simt::Order;
use simt::emulator::FailureKind;

/// Seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

fn is_wrong(finding: &Finding) -> bool {
    !matches!(finding, Finding::Machine(_))
}

/// A list's accesses and its policy, but for what is said.
macro_rules! policy {
    ($name:ident { $($access:item)* } { $($policy:item)* }) => {
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Access for $name {
            const CONCURRENT: bool = true;
            const MERGES: bool = true;
            $($access)*
        }

        impl Policy for $name {
            $($policy)*
        }
    };
}

/// Flaws that the plans of all maps find.
macro_rules! flaws {
    ($($(#[$doc:meta])* $test:ident: $name:ident { $($access:item)* } { $($policy:item)* } $is:ident;)*) => {$(
        policy! { $name { $($access)* } { $($policy)* } }

        $(#[$doc])*
        #[test]
        fn $test() {
            is_found::<List<Packed, Spread<64>, $name, 4, 2>, ByLanes>(
                stringify!($test), SEEDS, |setting| setting, $is,
            );
        }
    )*};
}

/// Flaws that plans of thin nodes find.
macro_rules! thin_flaws {
    ($($(#[$doc:meta])* $test:ident: $name:ident { $($access:item)* } { $($policy:item)* } $is:ident;)*) => {$(
        policy! { $name { $($access)* } { $($policy)* } }

        $(#[$doc])*
        #[test]
        fn $test() {
            assert!(thin::found::<$name>(SEEDS, $is).is_some(), "the planted bug was not found, or does not replay");
        }
    )*};
}

flaws! {
    /// Takes latches without seeing what their last holders wrote.
    a_latch_that_acquires_nothing_is_found: BlindLatch {
        const READ: Order = Order::Relaxed;
        const TAKE: Order = Order::Relaxed;
    } {} is_race;

    /// Gives latches back before what was written under them is seen.
    a_latch_that_releases_nothing_is_found: EarlyRelease {
        const READ: Order = Order::Relaxed;
        const GIVE: Order = Order::Relaxed;
    } {} is_race;

    /// Shows a new node before what is in it is sure to be seen.
    a_split_without_its_fence_is_found: Unfenced {
        const READ: Order = Order::Relaxed;
        const FENCED: bool = false;
    } {} is_race;

    /// Reads nodes through the L1 cache.
    a_weak_read_of_nodes_is_found: WeakReads {
        const READ: Order = Order::Weak;
    } {} is_race;

    /// Links the new node before it has written it: the stores of the split in another order.
    a_split_that_links_before_it_writes_is_found: ShownEarly {
        const READ: Order = Order::Relaxed;
    } {
        const SHOWS_EARLY: bool = true;
    } is_wrong;
}

thin_flaws! {
    /// Makes a zombie of a node before its pairs are where they go to.
    a_merge_that_leaves_before_it_moves_is_found: LeftEarly {
        const READ: Order = Order::Relaxed;
    } {
        const LEAVES_EARLY: bool = true;
    } is_wrong;

    /// Believes a miss without looking again whether the node still has the key.
    a_miss_that_is_not_confirmed_is_found: Rash {
        const READ: Order = Order::Relaxed;
        const CONFIRMS: bool = false;
    } {} is_wrong;
}

#[test]
fn a_range_that_believes_an_old_tail_is_found() {
    assert!(crate::order::is_found::<List<Packed, Spread<64>, Rash, 4, 2>>(SEEDS));
}

policy! { Sound { const READ: Order = Order::Relaxed; } {} }

#[test]
fn lists_without_a_flaw_pass() {
    all_are_sound::<List<Packed, Spread<64>, Sound, 4, 2>, ByLanes>("sound", SEEDS);
    assert_eq!(thin::found::<Sound>(SEEDS, |_| true), None);
}

//! Mutation tests: lists with one planted bug each, which the exploration must find and replay. The
//! unmodified list, built in the same way, must pass.
use crate::mutation::{all_are_sound, is_found, setting};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, explore};
use phalanx_kernels::btree::{Access, Unversioned};
use phalanx_kernels::keyed::{OpCode, Packed};
use phalanx_kernels::skiplist::{List, Policy};
use phalanx_kernels::slab::Spread;
use simt::Order;
use simt::emulator::FailureKind;

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

/// Declares a list's access and its policy, which equal the defaults except for the given items.
macro_rules! policy {
    ($(#[$doc:meta])* $name:ident { $($access:item)* } { $($policy:item)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Access for $name {
            const CONCURRENT: bool = true;
            const MERGES: bool = true;
            type Versions = Unversioned;
            $($access)*
        }

        impl Policy for $name {
            $($policy)*
        }
    };
}

/// Flaws that the plans of all maps find.
macro_rules! flaws {
    ($(
        $(#[$doc:meta])*
        $test:ident: $name:ident { $($access:item)* } { $($policy:item)* } $is:ident;
    )*) => {$(
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

/// Flaws that need their own plan. They are found by a wrong outcome or by a failure of the emulator.
macro_rules! directed_flaws {
    ($(
        $(#[$doc:meta])*
        $test:ident: $plan:ident, $name:ident { $($access:item)* } { $($policy:item)* }
    )*) => {$(
        policy! { $name { $($access)* } { $($policy)* } }

        $(#[$doc])*
        #[test]
        fn $test() {
            assert!(is_found_in::<$name>(&$plan()), "the planted bug was not found, or does not replay");
        }
    )*};
}

/// Number of rounds in a directed plan.
const ROUNDS: usize = 12;

/// Returns a launch whose first lane performs these steps, one per round.
fn part(steps: &[Step]) -> Part {
    let idle = vec![(NOTHING, 0, 0); ROUNDS];
    let mut busy = idle.clone();
    busy[..steps.len()].copy_from_slice(steps);
    let rows = (0..4).map(|row| if row == 0 { busy.clone() } else { idle.clone() }).collect();
    Part { kinds: vec![MIXED; ROUNDS], rows }
}

/// Returns a launch that looks up a key in every round.
fn looks_for(key: u64) -> Part {
    part(&[(OpCode::GET.code() as u8, key, 0); ROUNDS])
}

/// Returns a plan in which a full node of 1 to 5 and 1000 is split by the insertion of 0, which takes the
/// slot of 4, while other launches look up 4.
fn overtaken() -> Plan {
    let (remove, insert) = (OpCode::REMOVE.code() as u8, OpCode::INSERT.code() as u8);
    let writer = part(&[(remove, 0, 0), (insert, 1000, 1), (insert, 0, 2)]);
    Plan { buckets: 16, fill: 6, parts: vec![writer, looks_for(4), looks_for(4)] }
}

/// Returns a plan in which the node of 3 to 5 loses 3 and merges with the next one, while other launches look
/// up the moved keys. Nodes have three pairs because the keys were inserted in ascending order.
fn thinned() -> Plan {
    let writer = part(&[(OpCode::REMOVE.code() as u8, 3, 0)]);
    Plan { buckets: 32, fill: 13, parts: vec![writer, looks_for(4), looks_for(5)] }
}

fn directed<A: Policy>(plan: &Plan, seed: u64) -> Result<(), Finding> {
    type Tiny<A> = List<Packed, Spread<64>, A, 4, 2>;
    explore::<Tiny<A>, ByLanes>(plan, &setting::<Tiny<A>>(seed)).map(drop)
}

/// Returns whether there is a finding that replays.
fn is_found_in<A: Policy>(plan: &Plan) -> bool {
    let found = (0..SEEDS).find_map(|seed| directed::<A>(plan, seed).err().map(|finding| (seed, finding)));
    found.is_some_and(|(seed, finding)| {
        println!("found by seed {seed}: {finding}");
        directed::<A>(plan, seed).is_err_and(|again| again.is_same(&finding))
    })
}

flaws! {
    /// Takes latches without acquire ordering, so the writes of the previous holder may be invisible.
    a_latch_that_acquires_nothing_is_found: BlindLatch {
        const READ: Order = Order::Relaxed;
        const TAKE: Order = Order::Relaxed;
    } {} is_race;

    /// Releases latches without release ordering, before the writes under the latch are visible.
    a_latch_that_releases_nothing_is_found: EarlyRelease {
        const READ: Order = Order::Relaxed;
        const GIVE: Order = Order::Relaxed;
    } {} is_race;

    /// Publishes a new node before its contents are guaranteed to be visible.
    a_split_without_its_fence_is_found: Unfenced {
        const READ: Order = Order::Relaxed;
        const FENCED: bool = false;
    } {} is_race;

    /// Reads nodes through the L1 cache.
    a_weak_read_of_nodes_is_found: WeakReads {
        const READ: Order = Order::Weak;
    } {} is_race;
}

directed_flaws! {
    /// Links the new node before writing it: the stores of the split are in the wrong order.
    a_split_that_links_before_it_writes_is_found: overtaken, ShownEarly {
        const READ: Order = Order::Relaxed;
    } {
        const SHOWS_EARLY: bool = true;
    }

    /// Marks a node as a zombie before its pairs have moved to their destination.
    a_merge_that_leaves_before_it_moves_is_found: thinned, LeftEarly {
        const READ: Order = Order::Relaxed;
    } {
        const LEAVES_EARLY: bool = true;
    }

    /// Accepts a miss without rechecking that the key still belongs to the node.
    a_miss_that_is_not_confirmed_is_found: overtaken, Rash {
        const READ: Order = Order::Relaxed;
        const CONFIRMS: bool = false;
    } {}
}

#[test]
fn a_range_that_believes_an_old_tail_is_found() {
    assert!(crate::order::is_found::<List<Packed, Spread<64>, Rash, 4, 2>>(SEEDS));
}

policy! {
    /// Resets the version of a data node when it only passes through the node.
    Forgetful {
        const READ: Order = Order::Relaxed;
        const SORTED: bool = true;
    } {
        const FORGETS_VERSIONS: bool = true;
    }
}

#[test]
fn a_version_that_who_passes_sets_back_is_found() {
    assert!(crate::order::is_found_where_others_pass::<List<Packed, Spread<64>, Forgetful, 4, 2>>(SEEDS));
}

policy! {
    SoundInOrder {
        const READ: Order = Order::Relaxed;
        const SORTED: bool = true;
    } {}
}

#[test]
fn versions_that_nobody_sets_back_are_true() {
    assert!(!crate::order::is_found_where_others_pass::<List<Packed, Spread<64>, SoundInOrder, 4, 2>>(SEEDS));
}

policy! { AsDesigned { const READ: Order = Order::Relaxed; } {} }

#[test]
fn lists_without_a_flaw_pass() {
    all_are_sound::<List<Packed, Spread<64>, AsDesigned, 4, 2>, ByLanes>("sound", SEEDS);
    for (plan, seed) in
        [overtaken(), thinned()].iter().flat_map(|plan| (0..SEEDS).map(move |seed| (plan, seed)))
    {
        directed::<AsDesigned>(plan, seed).unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
    }
}

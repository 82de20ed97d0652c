//! Mutation tests: trees with one planted bug each. The exploration must find each bug within a given number
//! of seeds, and replay it. The unmodified tree, built in the same way, must pass.
use crate::mutation::{all_are_sound, is_found, setting};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, Played, explore};
use phalanx_kernels::btree::{Access, Tree, Unversioned};
use phalanx_kernels::keyed::{OpCode, Packed};
use phalanx_kernels::slab::Spread;
use simt::Order;
use simt::emulator::FailureKind;

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 1000;

fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

fn is_wrong(finding: &Finding) -> bool {
    !matches!(finding, Finding::Machine(_))
}

/// Declares access policies that equal `Concurrent` except for the given items.
macro_rules! flaws {
    ($($(#[$doc:meta])* $test:ident: $name:ident { $($item:item)* } $is:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Access for $name {
            const CONCURRENT: bool = true;
            type Versions = Unversioned;
            $($item)*
        }

        #[test]
        fn $test() {
            is_found::<Tree<Packed, Spread<64>, $name, 4, 2>, ByLanes>(
                stringify!($test), SEEDS, |setting| setting, $is,
            );
        }
    )*};
}

flaws! {
    /// Takes latches without acquire ordering, so the writes of the previous holder may be invisible.
    a_latch_that_acquires_nothing_is_found: BlindLatch {
        const READ: Order = Order::Relaxed;
        const TAKE: Order = Order::Relaxed;
    } is_race;

    /// Releases latches without release ordering, before the writes under the latch are visible.
    a_latch_that_releases_nothing_is_found: EarlyRelease {
        const READ: Order = Order::Relaxed;
        const GIVE: Order = Order::Relaxed;
    } is_race;

    /// Publishes a new node before its contents are visible.
    a_split_without_its_fence_is_found: Unfenced {
        const READ: Order = Order::Relaxed;
        const FENCED: bool = false;
    } is_race;

    /// Reads nodes through the L1 cache.
    a_weak_read_of_nodes_is_found: WeakReads {
        const READ: Order = Order::Weak;
    } is_race;
}

/// Accepts a miss without rechecking that the key still belongs to the leaf.
#[derive(Clone, Copy)]
struct Rash;

impl Access for Rash {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const CONFIRMS: bool = false;
    type Versions = Unversioned;
}

/// Returns a plan in which a full leaf of 1 to 5 and 1000 is split by the insertion of 0, which takes the
/// slot of 4, while other threads look up 4.
fn overtaken() -> Plan {
    const ROUNDS: usize = 12;
    let idle = vec![(NOTHING, 0, 0); ROUNDS];
    let mut writer = idle.clone();
    writer[0] = (OpCode::REMOVE.code() as u8, 0, 0);
    writer[1] = (OpCode::INSERT.code() as u8, 1000, 1);
    writer[2] = (OpCode::INSERT.code() as u8, 0, 2);
    let reader = vec![(OpCode::GET.code() as u8, 4, 0); ROUNDS];
    let part = |busy: &Vec<Step>| {
        let rows = (0..4).map(|row| if row == 0 { busy.clone() } else { idle.clone() }).collect();
        Part { kinds: vec![MIXED; ROUNDS], rows }
    };
    Plan { buckets: 16, fill: 6, parts: vec![part(&writer), part(&reader), part(&reader)] }
}

fn overtakes<A: Access>(seed: u64) -> Result<Played, Finding> {
    type Tiny<A> = Tree<Packed, Spread<64>, A, 4, 2>;
    explore::<Tiny<A>, ByLanes>(&overtaken(), &setting::<Tiny<A>>(seed))
}

#[test]
fn a_miss_that_is_not_confirmed_is_found() {
    let found = (0..SEEDS).find_map(|seed| overtakes::<Rash>(seed).err().map(|finding| (seed, finding)));
    let (seed, finding) = found.expect("the planted bug is found");
    assert!(is_wrong(&finding), "{finding}");
    assert!(overtakes::<Rash>(seed).expect_err("it replays").is_same(&finding));
    println!("found by seed {seed}: {finding}");
}

#[test]
fn a_range_that_believes_an_old_tail_is_found() {
    assert!(crate::order::is_found::<Tree<Packed, Spread<64>, Rash, 4, 2>>(SEEDS));
}

#[test]
fn ranges_of_a_leaf_that_is_overtaken_are_sound() {
    assert!(!crate::order::is_found::<Tree<Packed, Spread<64>, AsDesigned, 4, 2>>(SEEDS));
}

/// Declares access policies that read tails weakly: the emulator returns any value that the other memory
/// orders permit.
macro_rules! with_weak_tails {
    ($($(#[$doc:meta])* $name:ident { $($item:item)* };)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Access for $name {
            const READ: Order = Order::Relaxed;
            const CONCURRENT: bool = true;
            const TAIL: Order = Order::Weak;
            type Versions = Unversioned;
            $($item)*
        }
    )*};
}

with_weak_tails! {
    /// No flaw.
    Ordered {};

    /// Reads the pairs of a leaf without acquire ordering.
    Unacquired {
        const PAIRS: Order = Order::Relaxed;
    };

    /// Changes pairs by stores that do not continue the release sequence of the store that reused the slot.
    Unchained {
        const CHAINS: bool = false;
    };
}

#[test]
fn pairs_that_acquire_nothing_are_found() {
    assert!(crate::order::is_found_by_an_old_tail::<Tree<Packed, Spread<64>, Unacquired, 4, 2>>(0, SEEDS));
}

#[test]
fn a_store_to_a_slot_that_was_reused_is_found() {
    assert!(crate::order::is_found_by_an_old_tail::<Tree<Packed, Spread<64>, Unchained, 4, 2>>(1, 8 * SEEDS));
}

#[test]
fn tails_are_new_where_slots_are_reused() {
    crate::order::no_tail_is_too_old::<Tree<Packed, Spread<64>, Ordered, 4, 2>>(2 * SEEDS);
}

#[test]
fn a_miss_that_is_confirmed_is_one() {
    for seed in 0..SEEDS {
        assert!(overtakes::<AsDesigned>(seed).is_ok(), "seed {seed}");
    }
}

/// No flaw: the control.
#[derive(Clone, Copy)]
struct AsDesigned;

impl Access for AsDesigned {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Unversioned;
}

#[test]
fn trees_without_a_flaw_pass() {
    all_are_sound::<Tree<Packed, Spread<64>, AsDesigned, 4, 2>, ByLanes>("sound", SEEDS);
}

//! Mutation tests: faults injected into the kernels of the tree, one at a time. The exploration must find
//! each within a given number of seeds, and replay it. Without a fault, the same plans must pass.
use crate::common::seeds;
use crate::faults::{self, assert_effects, site, with};
use crate::hot;
use crate::mutation::{all_are_sound, is_found_by_exchanges, setting};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, Played, explore, is_wrong};
use phalanx_kernels::btree::{Concurrent, Tree};
use phalanx_kernels::keyed::{OpCode, Packed, Wide};
use phalanx_kernels::slab::{Light, Spread};
use simt::Order;
use simt::emulator::{Fault, SiteId};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 1000;

type Small = Tree<Packed, Spread<64>, Concurrent, 4, 2>;
/// As [`Small`], with pairs of 16 bytes.
type Wider = Tree<Wide<u64, u64>, Light<128>, Concurrent, 4, 2>;

/// Requires that the plans of all maps find a race caused by the fault.
fn is_found_as_race(name: &str, fault: Fault) {
    faults::is_found_as_race::<Small>(name, SEEDS, fault);
}

/// The writes of the latch's previous holder may be invisible.
#[test]
fn a_latch_that_acquires_nothing_is_found() {
    let latch = site("ordered/share.rs", "try_hold", "node.set(Meta::LATCH");
    is_found_as_race("no acquire", Fault::order(latch, Order::Relaxed));
}

/// Two tiles hold the latch at a time, so both may take the same pair.
#[test]
fn a_latch_in_two_steps_is_found_by_exchanges() {
    let latch = Fault::tear(site("ordered/share.rs", "try_hold", "node.set(Meta::LATCH"));
    is_found_by_exchanges::<Small, ByLanes>("a torn latch", SEEDS, &[latch], is_wrong);
}

/// The latch is released before the writes under it are visible.
#[test]
fn a_latch_that_releases_nothing_is_found() {
    let release = site("ordered/latch.rs", "release_node", "held.node.add(");
    is_found_as_race("no release", Fault::order(release, Order::Relaxed));
}

/// As above, for the latches of a split, which one fence releases.
#[test]
fn latches_of_a_split_that_release_nothing_are_found() {
    let fence = site("btree/split.rs", "release_both", "fence(Scope::Device)");
    is_found_as_race("no fence of both latches", Fault::skip(fence));
}

/// A new node is linked before its contents are visible.
#[test]
fn a_split_without_its_fence_is_found() {
    is_found_as_race("no fence", Fault::skip(site("btree/split.rs", "split", "fence(Scope::Device)")));
}

hot::sharing_faults!(Small, SEEDS);

/// A search reads nodes through the L1 cache.
#[test]
fn a_weak_read_of_nodes_is_found() {
    let read = site("btree/walk.rs", "descend", "node.read(");
    is_found_as_race("weak reads", Fault::order(read, Order::Weak));
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

fn overtakes<M: HasFixture>(seed: u64, faults: &[Fault]) -> Result<Played, Finding> {
    explore::<M, ByLanes>(&overtaken(), &with(faults)(setting::<M>(seed)))
}

/// A search accepts a miss by a tail that it has read before the pairs.
#[test]
fn a_miss_that_is_not_confirmed_is_found() {
    let tail = site("ordered/leaf.rs", "confirm_miss", "node.tail().load(");
    let before_the_pairs = site("btree/walk.rs", "round", "tile.any_converged(looks)");
    let faults = [Fault::early(tail, before_the_pairs)];
    let find = |seed| overtakes::<Small>(seed, &faults).err().map(|finding| (seed, finding));
    let (seed, finding) = (0..SEEDS).find_map(find).expect("the fault is found");
    assert!(is_wrong(&finding), "{finding}");
    assert!(overtakes::<Small>(seed, &faults).expect_err("it replays").is_same(&finding));
    println!("found by seed {seed}: {finding}");
    assert_effects(&faults);
}

#[test]
fn a_miss_that_is_confirmed_is_one() {
    for seed in seeds(SEEDS) {
        assert!(overtakes::<Small>(seed, &[]).is_ok(), "seed {seed}");
        assert!(overtakes::<Wider>(seed, &[]).is_ok(), "wide, seed {seed}");
    }
}

/// The tail that a range query of a leaf reads after the pairs.
fn tail_of_range() -> SiteId {
    site("ordered/range.rs", "leaf", "node.tail().load_vec_if")
}

/// The pairs that a range query reads.
fn pairs_of_range() -> SiteId {
    site("ordered/range.rs", "leaf", "node.read(tile.rank(), wanted")
}

#[test]
fn a_range_that_believes_an_old_tail_is_found() {
    assert!(crate::order::is_found::<Small>(SEEDS, &[Fault::early(tail_of_range(), pairs_of_range())]));
}

#[test]
fn ranges_of_a_leaf_that_is_overtaken_are_sound() {
    assert!(!crate::order::is_found::<Small>(seeds(SEEDS).end, &[]));
    assert!(!crate::order::is_found::<Wider>(seeds(SEEDS).end, &[]));
}

/// Makes the tail's read weak: it returns any value that the other memory orders permit. This is no fault by
/// itself.
fn weak_tail() -> Fault {
    Fault::order(tail_of_range(), Order::Weak)
}

#[test]
fn pairs_that_acquire_nothing_are_found() {
    let faults = [weak_tail(), Fault::order(pairs_of_range(), Order::Relaxed)];
    assert!(crate::order::is_found_by_an_old_tail::<Small>(0, SEEDS, &faults));
}

/// Pairs are changed by stores that do not continue the release sequence of the store that reused the slot.
#[test]
fn a_store_to_a_slot_that_was_reused_is_found() {
    let faults = [weak_tail(), Fault::tear(site("ordered/leaf.rs", "write_slot", "slot.compare_exchange("))];
    assert!(crate::order::is_found_by_an_old_tail::<Small>(1, 8 * SEEDS, &faults));
}

#[test]
fn tails_are_new_where_slots_are_reused() {
    crate::order::no_tail_is_too_old::<Small>(2 * SEEDS, &[weak_tail()]);
}

/// A reader that sees a pair in the slot of one that has moved must also see that it has moved.
#[test]
fn ranges_are_sound_when_slots_are_reused() {
    crate::order::reused_slots_are_sound::<Small>("reused", 2400);
    crate::order::reused_slots_are_sound::<Wider>("reused, wide", 2400);
}

/// A reader may come to a new leaf as soon as it is linked.
#[test]
fn new_leaves_are_read_as_they_were_written() {
    crate::order::divided_ones_are_sound::<Small>("divided", 2 * SEEDS);
    crate::order::divided_ones_are_sound::<Wider>("divided, wide", SEEDS);
}

#[test]
fn trees_without_a_fault_pass() {
    all_are_sound::<Small, ByLanes>("sound", SEEDS);
}

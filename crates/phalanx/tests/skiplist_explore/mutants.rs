//! Mutation tests: faults injected into the kernels of the list, one at a time, which the exploration must
//! find and replay. Without a fault, the same plans must pass.
use crate::common::seeds;
use crate::faults::{self, assert_effects, last_site, site, with};
use crate::hot;
use crate::mutation::{all_are_sound, is_found_by_exchanges, setting};
use crate::order::is_found_where_others_pass;
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::thin::is_found_by_thin_nodes;
use crate::world::{Finding, HasFixture, explore, is_race, is_wrong};
use phalanx_kernels::keyed::{OpCode, Packed};
use phalanx_kernels::skiplist::{List, Sorted, Unsorted};
use phalanx_kernels::slab::Spread;
use simt::Order;
use simt::emulator::{Fault, SiteId};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 1000;

type Small = List<Packed, Spread<64>, Unsorted, 4, 2>;
type SmallSorted = List<Packed, Spread<64>, Sorted, 4, 2>;

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

/// The latch of lists that share no node.
fn sorted_latch() -> SiteId {
    site("ordered/latch.rs", "try_latch", "node.set(Meta::LATCH")
}

#[test]
fn a_latch_of_a_sorted_list_that_acquires_nothing_is_found() {
    let fault = Fault::order(sorted_latch(), Order::Relaxed);
    faults::is_found_as_race::<SmallSorted>("no acquire, sorted", SEEDS, fault);
}

/// The same site is the latch of the next node, into which an underfull node merges.
#[test]
fn a_latch_of_the_next_node_that_acquires_nothing_is_found() {
    is_found_by_thin_nodes(
        "no acquire of the next node",
        Fault::order(sorted_latch(), Order::Relaxed),
        is_race,
    );
}

/// Two tiles hold the latch at a time, so both may take the same pair.
#[test]
fn a_latch_in_two_steps_is_found_by_exchanges() {
    let latch = Fault::tear(site("ordered/share.rs", "try_hold", "node.set(Meta::LATCH"));
    is_found_by_exchanges::<Small, ByLanes>("a torn latch", SEEDS, &[latch], is_wrong);
}

#[test]
fn a_latch_of_a_sorted_list_in_two_steps_is_found_by_exchanges() {
    let latch = Fault::tear(sorted_latch());
    is_found_by_exchanges::<SmallSorted, ByLanes>("a torn latch, sorted", SEEDS, &[latch], is_wrong);
}

#[test]
fn a_latch_of_the_next_node_in_two_steps_is_found() {
    is_found_by_thin_nodes("a torn latch of the next node", Fault::tear(sorted_latch()), |_| true);
}

/// The latch is released before the writes under it are visible.
#[test]
fn a_latch_that_releases_nothing_is_found() {
    let release = site("ordered/latch.rs", "release_node", "held.node.add(");
    is_found_as_race("no release", Fault::order(release, Order::Relaxed));
}

#[test]
fn a_latch_of_a_sorted_list_that_releases_nothing_is_found() {
    let release = site("skiplist/walk.rs", "release", "held.node.release_as(");
    faults::is_found_as_race::<SmallSorted>(
        "no release, sorted",
        SEEDS,
        Fault::order(release, Order::Relaxed),
    );
}

hot::sharing_faults!(Small, SEEDS);

/// A tile that has latched a shared node, which means nothing, does not give the latch back.
#[test]
fn a_latch_of_a_shared_node_that_stays_is_found() {
    let latch = site("ordered/share.rs", "try_hold", "node.add(Meta::LATCH.wrapping_neg()");
    hot::is_found::<Small>("the latch stays", SEEDS, Fault::skip(latch), |_| true);
}

/// The same, for the next node, into which an underfull node would merge if it were not shared.
#[test]
fn a_latch_of_a_shared_next_node_that_stays_is_found() {
    let latch = site("ordered/latch.rs", "try_latch", "node.add(Meta::LATCH.wrapping_neg()");
    hot::is_found::<Small>("the next node's latch stays", 8 * SEEDS, Fault::skip(latch), |_| true);
}

/// A new node is linked before its contents are guaranteed to be visible.
#[test]
fn a_split_without_its_fence_is_found() {
    let fence = site("skiplist/split.rs", "split_data", "fence(Scope::Device)");
    is_found_as_race("no fence", Fault::skip(fence));
}

/// A search reads nodes through the L1 cache.
#[test]
fn a_weak_read_of_nodes_is_found() {
    let read = site("skiplist/walk.rs", "descend", "node.read(");
    is_found_as_race("weak reads", Fault::order(read, Order::Weak));
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

fn directed<M: HasFixture>(plan: &Plan, seed: u64, faults: &[Fault]) -> Result<(), Finding> {
    explore::<M, ByLanes>(plan, &with(faults)(setting::<M>(seed))).map(drop)
}

/// Requires that a plan finds the fault, by a wrong outcome or by a failure of the emulator, and replays it.
fn is_found_in(plan: &Plan, fault: Fault) {
    let faults = [fault];
    let find = |seed| directed::<Small>(plan, seed, &faults).err().map(|finding| (seed, finding));
    let (seed, finding) = (0..SEEDS).find_map(find).expect("the fault is found");
    assert!(directed::<Small>(plan, seed, &faults).expect_err("it replays").is_same(&finding));
    println!("found by seed {seed}: {finding}");
    assert_effects(&faults);
}

/// The new node is linked before its pairs are written: the stores of the split are in the wrong order.
#[test]
fn a_split_that_links_before_it_writes_is_found() {
    let pairs = site("ordered/split_plan.rs", "write_new_nodes", "target.word(place - Self::HALF).store(");
    let linked = last_site("skiplist/split.rs", "split_data", "tile.sync()", 2);
    is_found_in(&overtaken(), Fault::late(pairs, linked));
}

/// The node becomes a zombie before its pairs have moved to their destination.
#[test]
fn a_merge_that_leaves_before_it_moves_is_found() {
    let pairs = site("skiplist/merge.rs", "move_pairs", "next.node.word(free.index).store(");
    let left = last_site("skiplist/merge.rs", "merge", "tile.sync()", 2);
    is_found_in(&thinned(), Fault::late(pairs, left));
}

/// A search accepts a miss by a tail that it has read before the pairs.
#[test]
fn a_miss_that_is_not_confirmed_is_found() {
    let tail = site("ordered/leaf.rs", "confirm_miss", "node.tail().load(");
    let before_the_pairs = site("skiplist/walk.rs", "round", "turn.from_owner(self.start)");
    is_found_in(&overtaken(), Fault::early(tail, before_the_pairs));
}

#[test]
fn a_range_that_believes_an_old_tail_is_found() {
    let tail = site("ordered/range.rs", "leaf", "node.tail().load_vec_if");
    let pairs = site("ordered/range.rs", "leaf", "node.read(tile.rank(), wanted");
    assert!(crate::order::is_found::<Small>(SEEDS, &[Fault::early(tail, pairs)]));
}

/// A tile that only passes through a sorted node sets the node's version back by one.
#[test]
fn a_version_that_who_passes_sets_back_is_found() {
    // The low eight bits of the meta are the level, the next one is the latch, and the others are the
    // version.
    const VERSION: u32 = 9;
    let set_back = |old: u128, new: u128| {
        let passes = old >> VERSION == new >> VERSION && new >> VERSION > 0;
        if passes { new - (1 << VERSION) } else { new }
    };
    let release = site("skiplist/walk.rs", "release", "held.node.release_as(");
    assert!(is_found_where_others_pass::<SmallSorted>(SEEDS, &[Fault::replace(release, set_back)]));
}

#[test]
fn versions_that_nobody_sets_back_are_true() {
    assert!(!is_found_where_others_pass::<SmallSorted>(seeds(SEEDS).end, &[]));
}

#[test]
fn lists_without_a_fault_pass() {
    all_are_sound::<Small, ByLanes>("sound", SEEDS);
    for (plan, seed) in
        [overtaken(), thinned()].iter().flat_map(|plan| seeds(SEEDS).map(move |seed| (plan, seed)))
    {
        directed::<Small>(plan, seed, &[]).unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
        directed::<SmallSorted>(plan, seed, &[]).unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
    }
}

#[test]
fn ranges_of_a_node_that_is_overtaken_are_sound() {
    assert!(!crate::order::is_found::<Small>(seeds(SEEDS).end, &[]));
    assert!(!crate::order::is_found::<SmallSorted>(seeds(SEEDS).end, &[]));
}

/// The read of the tail is weak: it returns any value that the other memory orders permit.
#[test]
fn tails_are_new_where_slots_are_reused() {
    let tail = site("ordered/range.rs", "leaf", "node.tail().load_vec_if");
    crate::order::no_tail_is_too_old::<Small>(SEEDS, &[Fault::order(tail, Order::Weak)]);
}

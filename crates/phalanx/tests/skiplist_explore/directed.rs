//! Plans that lead to one state of a list: slots that are used again after a split or a merge, pairs that
//! move beside look-ups, and pools with one free slab. Their launches read no clock, so that a lane may read
//! any value that no order excludes.
use crate::common::seeds;
use crate::mutation::{setting, told};
use crate::order::{
    self, FIND, Part, Plan, by_tile, explore_from, explore_soundly, filled, insertion, listing, play, removal,
};
use crate::steps::Step;
use crate::trees::Forest;
use crate::world::{HasFixture, Setting};
use gpu::Device;
use phalanx_kernels::btree::{Config, EMPTY_TREE_NODES};
use phalanx_kernels::keyed::{Packed, Wide};
use phalanx_kernels::skiplist::{List, Sorted, Unsorted};
use phalanx_kernels::slab::{Light, Spread};
use simt::emulator::{Options, Schedule, WeakMemory};

/// Returns a plan of a list of the keys 10, 20, .. `fill`. One launch changes it beside `reads`.
fn beside(fill: u64, changes: &[Step], mut reads: Vec<Part>) -> Plan {
    reads.push(changes.iter().map(|&step| by_tile(&[step])).collect());
    Plan { units: 64, fill: (10..=fill).step_by(10).collect(), parts: reads, races: true }
}

/// A reader that sees a pair in the slot of one that has moved must also see that it has moved.
#[test]
fn ranges_are_sound_when_slots_are_reused() {
    order::reused_slots_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("reused", 1200);
    order::reused_slots_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 4, 2>>("reused, wide", 4400);
}

/// Returns two launches whose lanes look up the keys of one of these nodes.
fn look_up(nodes: [[u64; 3]; 2]) -> Vec<Part> {
    let find = |key| Step { kind: FIND, ..listing(key, key) };
    let part = |[a, b, c]: [u64; 3]| vec![[a, b, c, b].map(find).to_vec(); 2];
    [nodes; 2].concat().into_iter().map(part).collect()
}

/// Returns a plan in which a pair is inserted and removed at the front of a node whose other pairs are looked
/// up.
fn shifted() -> Plan {
    beside(50, &[insertion(5), removal(5)].repeat(3), look_up([[20, 30, 40]; 2]))
}

/// Returns a plan in which the nodes of 50 and 60 and of 110 and 120 merge with the next ones, whose pairs
/// are looked up.
fn pushed() -> Plan {
    beside(190, &[40, 100].map(removal), look_up([[70, 80, 90], [130, 140, 150]]))
}

/// Runs schedules of a plan in the PTX memory model; all must be sound. Without splits no link leads to a new
/// node, so nothing relies on address dependencies. Priorities let a tile stop while it moves pairs.
fn is_sound_in_ptx<M: HasFixture<Memory = Forest> + Config>(name: &str, count: u64, plan: &Plan) {
    let list = filled::<M>(&plan.fill, plan.units);
    for seed in seeds(count) {
        let schedule = Schedule::Pct { seed, depth: 3 + seed as u32 % 3 * 8 };
        let setting = Setting { weak_memory: WeakMemory::Ptx, schedule, ..setting::<M>(seed) };
        explore_from::<M>(plan, &list, &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
}

fn moving_pairs_are_found<M: HasFixture<Memory = Forest> + Config>(name: &str, count: u64) {
    is_sound_in_ptx::<M>(name, count, &shifted());
    is_sound_in_ptx::<M>(name, count, &pushed());
}

/// A node with sorted pairs is a sequence lock. Narrow tiles have fewer lanes, all of which must read old
/// headers.
#[test]
fn pairs_are_found_while_they_move() {
    moving_pairs_are_found::<List<Packed, Spread<64>, Sorted, 2, 4>>("moving", 4800);
    moving_pairs_are_found::<List<Wide<u64, u64>, Spread<128>, Sorted, 2, 4>>("moving, wide", 1200);
}

/// Returns a plan in which two launches split nodes in a pool with few free slabs: the first data node, and
/// the one of `first` and the keys behind it. `nodes` is the number of data nodes before.
fn scarce(nodes: u64, first: u64, free: u32) -> Plan {
    let split = |first: u64| (first + 1..first + 5).map(|key| by_tile(&[insertion(key)])).collect();
    let fill = (10..=30 * nodes + 30 * u64::from(nodes > 2)).step_by(10).collect();
    let units = EMPTY_TREE_NODES as u32 - 1 + nodes as u32 + free;
    Plan { units, fill, parts: vec![split(10), split(first)], races: true }
}

/// Two tiles allocate beside each other.
#[test]
fn two_nodes_are_split_in_a_nearly_full_pool() {
    type Small = List<Packed, Spread<64>, Unsorted, 4, 2>;
    explore_soundly::<Small>("one free slab", 400, |_| scarce(2, 40, 1), |on| on);
    // The root is full. It needs two slabs, and frees the one that it gets.
    explore_soundly::<Small>("a root that is not split", 1600, |_| scarce(6, 160, 3), |on| on);
}

/// A list finds the only free slab of a pool.
#[test]
fn the_last_slab_is_found() {
    type Small = List<Packed, Spread<64>, Unsorted, 4, 2>;
    const UNITS: u32 = 1024;
    let full = filled::<Small>(&(10..=60).step_by(10).collect(), UNITS);
    for word in 0..UNITS as usize / 32 {
        let device = Device::emulator(Options::explore(Schedule::Random { seed: 0 }));
        let mut memory = Small::memory(&device, UNITS).expect("memory");
        Small::copy(&mut memory, &full).expect("memory");
        memory.leave_one_slab(32 * word + 31);
        let told = play::<Small>(&device, &memory, &[vec![by_tile(&[insertion(5)])]]).expect("an insertion");
        assert_eq!(told[0].counts.read().expect("memory")[0], 1, "the free slab is in word {word}");
    }
}

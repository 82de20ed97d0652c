//! Nodes whose pairs move to other slots, or to other nodes, beside look-ups of keys that stay.
use crate::common::{Rng, seeds};
use crate::mutation::{setting, settings, told};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{HasFixture, Setting, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::{OpCode, Packed, Wide};
use phalanx_kernels::skiplist::{List, Sorted, Unsorted};
use phalanx_kernels::slab::{Light, Spread};
use simt::emulator::WeakMemory;
use std::ops::Range;

const NO_STEP: Step = (NOTHING, 0, 0);

fn insert(key: u64) -> Step {
    (OpCode::INSERT.code() as u8, key, 7)
}

fn remove(key: u64) -> Step {
    (OpCode::REMOVE.code() as u8, key, 0)
}

/// Returns a launch of one tile, whose first lane performs these steps.
fn writer<M: Config>(steps: Vec<Step>) -> Part {
    let (rounds, lanes) = (steps.len(), M::TILE as usize);
    let rows = [steps].into_iter().chain(vec![vec![NO_STEP; rounds]; lanes - 1]).collect();
    Part { kinds: vec![MIXED; rounds], rows }
}

/// Returns a launch of one tile, whose lanes look up keys of a range in each round.
fn reader<M: Config>(rng: &mut Rng, rounds: usize, keys: Range<u64>) -> Part {
    let look = |rng: &mut Rng| (OpCode::GET.code() as u8, keys.start + rng.below(keys.end - keys.start), 0);
    let rows = (0..M::TILE).map(|_| (0..rounds).map(|_| look(rng)).collect()).collect();
    Part { kinds: vec![MIXED; rounds], rows }
}

/// Returns a plan of changes beside two launches that look up keys.
fn beside<M: Config>(rng: &mut Rng, fill: u64, changes: Vec<Step>, keys: &Range<u64>) -> Plan {
    let rounds = 1 + changes.len().min(4);
    let mut parts = vec![writer::<M>(changes)];
    (0..2).for_each(|_| parts.push(reader::<M>(rng, rounds, keys.clone())));
    Plan { buckets: 64, fill, parts }
}

/// Lowest key that stays in the plans of [`shifted`].
const STAYS: u64 = 3;

/// Returns a plan that changes keys below those that stay. If it `splits`, it also inserts keys above them,
/// which may split the node.
fn shifted<M: Config>(seed: u64, splits: bool) -> Plan {
    let mut rng = Rng::new(seed);
    let fill = STAYS + 1 + rng.below(u64::from(M::SLOTS) - STAYS);
    let change = |rng: &mut Rng| match rng.below(5) {
        0 if splits => insert(fill + rng.below(3)),
        0..=2 => insert(rng.below(STAYS)),
        _ => remove(rng.below(STAYS)),
    };
    let changes = (0..3 + rng.below(5)).map(|_| change(&mut rng)).collect();
    beside::<M>(&mut rng, fill, changes, &(STAYS..fill))
}

/// Returns a plan in which the node of 4 and 5 merges with that of 6 to 8, whose keys are looked up. Nodes
/// have three pairs because the keys were inserted in ascending order.
fn pushed<M: Config>(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    beside::<M>(&mut rng, 13, vec![remove(3)], &(6..9))
}

/// Returns a plan in which the last node, which is full, is split, and other pairs then take the slots of
/// those that have moved, which are looked up: pairs of an insertion, or of the node before, which merges.
fn reused<M: Config>(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let mut changes = vec![insert(1000)];
    changes.extend(if seed.is_multiple_of(2) { vec![remove(3)] } else { vec![remove(6), insert(6)] });
    beside::<M>(&mut rng, 12, changes, &(9..12))
}

fn is_sound<M: HasFixture + Config>(name: &str, (seed, setting): (u64, Setting), plan: &Plan) {
    let played = explore::<M, ByLanes>(plan, &setting);
    played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
}

/// Returns the settings of seeds in a memory model.
fn weakly<M: HasFixture>(count: u64, weak_memory: WeakMemory) -> impl Iterator<Item = (u64, Setting)> {
    seeds(count).map(move |seed| (seed, Setting { weak_memory, ..setting::<M>(seed) }))
}

fn shifted_ones_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    settings::<M>(count).for_each(|on| is_sound::<M>(name, on.clone(), &shifted::<M>(on.0, true)));
    // Without splits no link leads to a new node, so nothing relies on address dependencies.
    for on in weakly::<M>(count, WeakMemory::Ptx) {
        is_sound::<M>(name, on.clone(), &shifted::<M>(on.0, false));
        is_sound::<M>(name, on.clone(), &pushed::<M>(on.0));
    }
}

#[test]
fn keys_are_found_while_pairs_move() {
    shifted_ones_are_sound::<List<Packed, Spread<64>, Sorted, 4, 2>>("moving", 4000);
}

#[test]
fn keys_of_wide_pairs_are_found_while_pairs_move() {
    shifted_ones_are_sound::<List<Wide<u64, u64>, Spread<128>, Sorted, 4, 2>>("moving, wide", 4000);
}

/// Whoever sees a pair in the slot of one that has moved must see that it has moved.
#[test]
fn moved_keys_are_found_when_their_slots_are_reused() {
    fn are_sound<M: HasFixture + Config>(name: &str) {
        let all = weakly::<M>(4000, M::WEAK);
        all.for_each(|on| is_sound::<M>(name, on.clone(), &reused::<M>(on.0)));
    }
    are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("reused");
    are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 4, 2>>("reused, wide");
}

//! Blocks that have entered several trees at a time, of equal and different types, in any order.
use crate::common::{Rng, replay, seeds};
use crate::mutation::setting;
use crate::script::ask;
use crate::trees::Forest;
use crate::world::{Finding, HasFixture};
use crate::{Small, eager};
use gpu::{Device, Grid};
use phalanx_kernels::keyed::{Insert, PerLane, Remove, Scalar, Session, Wide};
use phalanx_kernels::mvbtree::{Access, Config, OutOfPlace, Tree, TreeView, Versioned};
use phalanx_kernels::reclaim::{Blocks, ENTRIES, Tiles};
use phalanx_kernels::slab::{Light, Spread};
use simt::emulator::{Launch, Options};
use simt::{Kernel, Thread};
use std::collections::HashMap;

/// Trees with four slots of one type.
type Same<A> = Small<A>;
/// Trees with other slots, pools and tiles.
type Other<A> = Tree<Versioned<Wide<u64, u64>>, Light<128>, A, 8, 1>;
/// Trees of a third type.
type Third<A> = Tree<Versioned<phalanx_kernels::keyed::Packed>, Spread<128>, A, 4, 4>;

/// Number of trees: 0, 1, 4 and 5 have one type, 2 and 3 have two others. There are more than a participant
/// has entries for.
const TREES: usize = 6;
const _: () = assert!(TREES > ENTRIES);
/// Number of steps of a block.
const STEPS: usize = 40;
/// Number of steps of a block in any order, before it leaves the trees that it has entered.
const ANYHOW: usize = STEPS - 2 * TREES;
/// Number of slabs of a tree: more than all launches of a seed allocate.
const UNITS: u32 = 1000;
/// Number of launches, each with several concurrent blocks.
const LAUNCHES: u64 = 4;
/// One in this many lanes has an operation.
const APART: u32 = 8;

/// Step of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Enter(usize),
    Leave(usize),
    Breathe(usize),
    /// Insertion or removal.
    Work(usize),
    Nothing,
}

use Step::{Breathe, Enter, Leave, Work};

/// Steps of a block.
type Script = [Step; STEPS];

fn script(steps: impl IntoIterator<Item = Step>) -> Script {
    let mut script = [Step::Nothing; STEPS];
    steps.into_iter().enumerate().for_each(|(place, step)| script[place] = step);
    script
}

/// Returns a script that enters all trees and leaves the last one first.
fn nested(trees: usize) -> Script {
    let all = || 0..trees;
    script(all().map(Enter).chain(all().map(Work)).chain(all().map(Work)).chain(all().rev().map(Leave)))
}

/// Returns a script that enters one tree after the other.
fn one_after_the_other(trees: usize) -> Script {
    script((0..trees).flat_map(|tree| [Enter(tree), Work(tree), Work(tree), Leave(tree)]))
}

/// Returns a script that is inside two trees at a time and leaves the one that it entered first.
fn interleaved(trees: usize) -> Script {
    let next = |tree| [Enter(tree), Work(tree - 1), Work(tree), Leave(tree - 1), Work(tree)];
    script([Enter(0), Work(0)].into_iter().chain((1..trees).flat_map(next)).chain([Leave(trees - 1)]))
}

/// Returns a script that enters any of the trees, up to twice.
fn anyhow(trees: usize, rng: &mut Rng) -> Script {
    let (mut inside, mut steps) = (vec![0; trees], Vec::new());
    while steps.len() < ANYHOW {
        let tree = rng.below(trees as u64) as usize;
        let step = match (rng.below(8), inside[tree]) {
            (0..3, 0..2) | (_, 0) => Enter(tree),
            (3, 1..) => Leave(tree),
            (4, 1..) => Breathe(tree),
            _ => Work(tree),
        };
        inside[tree] = inside[tree] + usize::from(step == Enter(tree)) - usize::from(step == Leave(tree));
        steps.push(step);
    }
    steps.extend(inside.into_iter().enumerate().flat_map(|(tree, many)| vec![Leave(tree); many]));
    script(steps)
}

/// Returns the key and the value of a lane's operation in a step, and whether it is an insertion. Either all
/// lanes of a block insert, or all remove. Each lane has its own keys.
fn operation(block: u64, thread: u64, step: usize) -> (u64, u64, bool) {
    let lane = thread / u64::from(APART);
    (4 * (8 * block + lane) + step as u64 % 3, step as u64, step % 4 != 3)
}

/// Launch of one block.
struct Several<A: Access> {
    same: [TreeView<Same<A>>; 4],
    other: TreeView<Other<A>>,
    third: TreeView<Third<A>>,
    script: Script,
    /// Index of the block among those of its launch.
    number: u64,
}

impl<A: Access> Clone for Several<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Access> Copy for Several<A> {}

/// Performs a step on a tree.
#[inline(never)]
fn play<M: Config>(tree: TreeView<M>, kind: Step, number: u64, step: usize) {
    match kind {
        Enter(_) => M::enter(tree),
        Leave(_) => M::leave(tree),
        Breathe(_) => tree.repin(),
        _ => work::<M>(tree, number, step),
    }
}

fn work<M: Config>(tree: TreeView<M>, number: u64, step: usize) {
    let thread = Thread::index_in_block();
    let (key, value, inserts) = operation(number, thread.into(), step);
    let (key, value) = (M::Key::from_u64(key), M::Value::from_u64(value));
    let (mut session, wanted) = (Session::<M, _>::new(tree, PerLane), thread.is_multiple_of(APART));
    if inserts {
        ask(&mut session, wanted, Insert, key, value);
    } else {
        ask(&mut session, wanted, Remove, key, value);
    }
    session.finish();
}

impl<A: Access> Kernel for Several<A> {
    const PROGRAM: &'static str = "mvbtree_explore";
    const NAME: &'static str = "several";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        for (step, kind) in self.script.into_iter().enumerate() {
            let (Enter(tree) | Leave(tree) | Breathe(tree) | Work(tree)) = kind else { return };
            match tree {
                2 => play(self.other, kind, self.number, step),
                3 => play(self.third, kind, self.number, step),
                _ => play(self.same[if tree < 2 { tree } else { tree - 2 }], kind, self.number, step),
            }
        }
    }
}

/// Updates the expected contents of a tree after the steps of a block.
fn expect(pairs: &mut HashMap<u64, u64>, script: &Script, tree: usize, block: u64, threads: u32) {
    for (step, _) in script.iter().enumerate().filter(|(_, kind)| **kind == Work(tree)) {
        for thread in (0..threads).step_by(APART as usize) {
            let (key, value, inserts) = operation(block, thread.into(), step);
            if inserts {
                pairs.insert(key, value)
            } else {
                pairs.remove(&key)
            };
        }
    }
}

/// Device and memory of the trees.
struct World {
    device: Device,
    trees: [Forest; TREES],
}

impl World {
    fn new<A: Access>(seed: u64) -> Self {
        let schedule = setting::<Same<A>>(seed).schedule;
        let options = Options {
            stale_l1: true,
            faults: vec![eager()],
            step_limit: 1 << 22,
            ..Options::explore(schedule)
        };
        let device = Device::emulator(options);
        let trees = std::array::from_fn(|tree| match tree {
            2 => <Other<A> as HasFixture>::memory(&device, UNITS).expect("memory"),
            3 => <Third<A> as HasFixture>::memory(&device, UNITS).expect("memory"),
            _ => <Same<A> as HasFixture>::memory(&device, UNITS).expect("memory"),
        });
        Self { device, trees }
    }

    /// Launches a block for each script.
    fn launch<A: Access>(&self, scripts: &[Script], threads: u32) -> Result<(), Finding> {
        let trees = &self.trees;
        let launch = |(number, script): (u64, &Script)| {
            let same = [0, 1, 4, 5].map(|tree: usize| trees[tree].view());
            let (other, third) = (trees[2].view(), trees[3].view());
            let several = Several::<A> { same, other, third, script: *script, number };
            Launch::new(Grid::new(1, threads), several)
        };
        let launches = (0..).zip(scripts).map(launch).collect();
        self.device.emulator_handle().expect("an emulator").launch_all(launches).map_err(Finding::Machine)?;
        Ok(())
    }

    fn contents<A: Access>(&self, tree: usize) -> Result<HashMap<u64, u64>, Finding> {
        match tree {
            2 => <Other<A> as HasFixture>::contents(&self.trees[tree], UNITS),
            3 => <Third<A> as HasFixture>::contents(&self.trees[tree], UNITS),
            _ => <Same<A> as HasFixture>::contents(&self.trees[tree], UNITS),
        }
    }
}

/// Runs launches of scripts that `plan` generates for each of three blocks, and checks the contents of the
/// trees after each launch.
fn play_seed<A: Access>(seed: u64, threads: u32, plan: impl Fn(&mut Rng) -> Script) -> Result<(), Finding> {
    let (world, mut rng) = (World::new::<A>(seed), Rng::new(seed ^ 0x5e7e));
    let mut expected: [HashMap<u64, u64>; TREES] = Default::default();
    for _ in 0..LAUNCHES {
        let scripts = [0; 3].map(|_| plan(&mut rng));
        world.launch::<A>(&scripts, threads)?;
        for (tree, expected) in expected.iter_mut().enumerate() {
            (0..).zip(&scripts).for_each(|(block, script)| expect(expected, script, tree, block, threads));
            let found = world.contents::<A>(tree)?;
            if found != *expected {
                return Err(Finding::Order(format!("tree {tree} holds {found:?}, not {expected:?}")));
            }
        }
    }
    Ok(())
}

/// Runs `count` seeds with blocks as participants, and with tiles as participants.
fn are_sound(count: u64, plan: impl Fn(&mut Rng) -> Script) {
    for seed in seeds(count) {
        let blocks = play_seed::<OutOfPlace<Blocks>>(seed, 64, &plan);
        blocks.unwrap_or_else(|finding| panic!("blocks: {finding}\n{}", replay(seed)));
        let tiles = play_seed::<OutOfPlace<Tiles<8, 4>>>(seed, 32, &plan);
        tiles.unwrap_or_else(|finding| panic!("tiles: {finding}\n{}", replay(seed)));
    }
}

/// Number of seeds of each order.
const SEEDS: u64 = 8;

#[test]
fn two_trees_of_one_type_at_once() {
    are_sound(SEEDS, |_| nested(2));
}

#[test]
fn four_trees_at_once() {
    are_sound(SEEDS, |_| nested(4));
}

#[test]
fn four_trees_one_after_the_other() {
    are_sound(SEEDS, |_| one_after_the_other(4));
}

#[test]
fn four_trees_interleaved() {
    are_sound(SEEDS, |_| interleaved(4));
}

#[test]
fn four_trees_anyhow() {
    are_sound(2 * SEEDS, |rng| anyhow(4, rng));
}

#[test]
fn more_trees_than_a_process_has_entries_for() {
    are_sound(SEEDS, |_| nested(TREES));
}

#[test]
fn more_trees_than_a_process_has_entries_for_anyhow() {
    are_sound(2 * SEEDS, |rng| anyhow(TREES, rng));
}

//! Lists of underfull nodes: removals of adjacent keys merge nodes, while other launches look up, insert and
//! list the moved keys.
use crate::common::{Rng, all_seeds, replay, seeds};
use crate::faults::{assert_effects, with};
use crate::mutation::{setting, settings, told};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, Played, Setting, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::{OpCode, Packed, Wide};
use phalanx_kernels::skiplist::{List, Policy, Sorted, Unsorted};
use phalanx_kernels::slab::Spread;
use simt::emulator::{Fault, WeakMemory};

/// Returns a plan with keys inserted in ascending order, so that nodes are half full, and three launches: one
/// removes adjacent keys, the others perform all operations on them.
fn plan<M: HasFixture + Config>(seed: u64) -> Plan {
    plan_of::<M>(seed, &[OpCode::GET, OpCode::GET, OpCode::INSERT, OpCode::REMOVE, OpCode::REMOVE])
}

/// Returns such a plan whose other launches perform the operations `codes`.
fn plan_of<M: HasFixture + Config>(seed: u64, codes: &[OpCode]) -> Plan {
    let mut rng = Rng::new(seed);
    let half = u64::from(M::SLOTS) / 2;
    let fill = half * (3 + rng.below(4)) + rng.below(half);
    let first = rng.below(fill);
    let near = |rng: &mut Rng| (first + rng.below(2 * half)).min(fill);
    let rows = (M::TILE.max(2) * 2).min(32) as usize;
    let rounds = 2 + rng.below(3) as usize;
    let mut part = |removes: bool| {
        let step = |rng: &mut Rng| -> Step {
            let code = if removes { OpCode::REMOVE } else { rng.pick(codes) };
            let idle = rng.below(rows as u64) > 3;
            (if idle { NOTHING } else { code.code() as u8 }, near(rng), 500 + rng.below(100))
        };
        let rows = (0..rows).map(|_| (0..rounds).map(|_| step(&mut rng)).collect()).collect();
        Part { kinds: vec![MIXED; rounds], rows }
    };
    let parts = vec![part(true), part(false), part(false)];
    Plan { buckets: 64, fill, parts }
}

/// Runs the plan of a seed.
fn explore_thin<A: Policy>(seed: u64, faults: &[Fault]) -> Result<(), Finding> {
    type Small<A> = List<Packed, Spread<64>, A, 4, 2>;
    let setting = with(faults)(setting::<Small<A>>(seed));
    explore::<Small<A>, ByLanes>(&plan::<Small<A>>(seed), &setting).map(drop)
}

/// Requires that these plans find the fault, by a finding that satisfies `is`, and replay it.
pub fn is_found_by_thin_nodes(name: &str, fault: Fault, is: fn(&Finding) -> bool) {
    let faults = [fault];
    let (seed, finding) = all_seeds(2000)
        .filter_map(|seed| explore_thin::<Unsorted>(seed, &faults).err().map(|finding| (seed, finding)))
        .find(|(_, finding)| is(finding))
        .unwrap_or_else(|| panic!("{name}: not found, {} effects", faults[0].effects()));
    let again = explore_thin::<Unsorted>(seed, &faults).expect_err("it replays");
    assert!(again.is_same(&finding), "{name}: {finding} and {again}; {}", replay(seed));
    println!("{name}: found by seed {seed}: {finding}");
    assert_effects(&faults);
}

/// Requires that the plans of seeds are sound. Returns what has happened.
fn all_are_sound<M: HasFixture + Config>(count: u64) -> Played {
    let mut sum = Played::default();
    for (seed, setting) in settings::<M>(count) {
        let found = explore::<M, ByLanes>(&plan::<M>(seed), &setting);
        sum += found.unwrap_or_else(|finding| panic!("{}", told("thin nodes", seed, &setting, &finding)));
    }
    // Without insertions no link leads to a new node, so nothing relies on address dependencies.
    for seed in seeds(count) {
        let setting = Setting { weak_memory: WeakMemory::Ptx, ..setting::<M>(seed) };
        let plan = plan_of::<M>(seed, &[OpCode::GET, OpCode::GET, OpCode::REMOVE]);
        let found = explore::<M, ByLanes>(&plan, &setting);
        sum += found.unwrap_or_else(|finding| panic!("{}", told("thin nodes", seed, &setting, &finding)));
    }
    sum
}

/// Requires that nodes have merged in a few plans, and that some have merged with a node that merged, too.
fn assert_merged(played: Played) {
    println!("{played:?}");
    assert!(seeds(600).count() < 100 || played.merged.iter().all(|&count| count >= 3), "{played:?}");
}

#[test]
fn thin_nodes_merge_beside_everything() {
    assert_merged(all_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>(600));
    all_are_sound::<List<Wide<u64, u64>, Spread<128>, Unsorted, 4, 2>>(400);
}

#[test]
fn thin_nodes_merge_in_order() {
    assert_merged(all_are_sound::<List<Packed, Spread<64>, Sorted, 4, 2>>(600));
    all_are_sound::<List<Wide<u64, u64>, Spread<128>, Sorted, 4, 2>>(400);
}

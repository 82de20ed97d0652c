//! Lists of underfull nodes: removals of adjacent keys merge nodes, while other launches look up, insert and
//! list the moved keys.
use crate::common::{Rng, all_seeds, replay, seeds};
use crate::faults::{assert_effects, with};
use crate::mutation::setting;
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::{OpCode, Packed};
use phalanx_kernels::skiplist::{List, Policy, Sorted, Unsorted};
use phalanx_kernels::slab::Spread;
use simt::emulator::Fault;

/// Returns a plan with keys inserted in ascending order, so that nodes are half full, and three launches: one
/// removes adjacent keys, the others perform all operations on them.
fn plan<M: HasFixture + Config>(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let half = u64::from(M::SLOTS) / 2;
    let fill = half * (3 + rng.below(4)) + rng.below(half);
    let first = rng.below(fill);
    let near = |rng: &mut Rng| (first + rng.below(2 * half)).min(fill);
    let codes = [OpCode::GET, OpCode::GET, OpCode::INSERT, OpCode::REMOVE, OpCode::REMOVE];
    let rows = (M::TILE.max(2) * 2).min(32) as usize;
    let rounds = 2 + rng.below(3) as usize;
    let mut part = |removes: bool| {
        let step = |rng: &mut Rng| -> Step {
            let code = if removes { OpCode::REMOVE } else { rng.pick(&codes) };
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

fn all_are_sound<A: Policy>(count: u64) {
    for seed in seeds(count) {
        let found = explore_thin::<A>(seed, &[]);
        found.unwrap_or_else(|finding| panic!("{finding}\n{}", replay(seed)));
    }
}

/// Other tests find a fault in merges by such a plan, which shows that nodes do merge here.
#[test]
fn thin_nodes_merge_beside_everything() {
    all_are_sound::<Unsorted>(600);
}

#[test]
fn thin_nodes_merge_in_order() {
    all_are_sound::<Sorted>(600);
}

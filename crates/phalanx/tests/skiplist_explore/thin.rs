//! Lists of underfull nodes: removals of adjacent keys merge nodes, while other launches look up, insert and
//! list the moved keys.
use crate::common::{Rng, replay, seeds};
use crate::mutation::setting;
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, Execution, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::{OpCode, Packed};
use phalanx_kernels::skiplist::{List, Policy, Sorted, Unsorted};
use phalanx_kernels::slab::Spread;

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
fn explore_thin<M: HasFixture + Config>(seed: u64) -> Result<(), Finding>
where
    ByLanes: Execution<M>,
{
    explore::<M, ByLanes>(&plan::<M>(seed), &setting::<M>(seed)).map(drop)
}

fn all_are_sound<A: Policy>(count: u64) {
    for seed in seeds(count) {
        let found = explore_thin::<List<Packed, Spread<64>, A, 4, 2>>(seed);
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

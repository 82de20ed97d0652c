//! Lists of thin nodes: removals of neighbours merge them, while others look for, insert and list what is
//! moved.
use crate::common::{Dice, replay, seeds};
use crate::hunt::setting;
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, Execution, MIXED, NOTHING};
use crate::world::{Crowded, Finding, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::{Coded, Packed};
use phalanx_kernels::skiplist::{List, Policy, Sorted, Unsorted};
use phalanx_kernels::slab::Spread;

/// Keys that were inserted in their order, so that nodes are half full, and three launches: one removes
/// neighbours, the others do anything with them.
fn plan<M: Crowded + Config>(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let half = u64::from(M::SLOTS) / 2;
    let fill = half * (3 + dice.below(4)) + dice.below(half);
    let first = dice.below(fill);
    let near = |dice: &mut Dice| (first + dice.below(2 * half)).min(fill);
    let codes = [Coded::GET, Coded::GET, Coded::INSERT, Coded::REMOVE, Coded::REMOVE];
    let rows = (M::TILE.max(2) * 2).min(32) as usize;
    let rounds = 2 + dice.below(3) as usize;
    let mut part = |removes: bool| {
        let step = |dice: &mut Dice| -> Step {
            let code = if removes { Coded::REMOVE } else { dice.pick(&codes) };
            let idle = dice.below(rows as u64) > 3;
            (if idle { NOTHING } else { code.code() as u8 }, near(dice), 500 + dice.below(100))
        };
        let rows = (0..rows).map(|_| (0..rounds).map(|_| step(&mut dice)).collect()).collect();
        Part { kinds: vec![MIXED; rounds], rows }
    };
    let parts = vec![part(true), part(false), part(false)];
    Plan { buckets: 64, fill, parts }
}

/// What is found under a seed.
fn hunt<M: Crowded + Config>(seed: u64) -> Result<(), Finding>
where
    ByLanes: Execution<M>,
{
    explore::<M, ByLanes>(&plan::<M>(seed), &setting::<M>(seed)).map(drop)
}

fn all_are_sound<A: Policy>(count: u64) {
    for seed in seeds(count) {
        let found = hunt::<List<Packed, Spread<64>, A, 4, 2>>(seed);
        found.unwrap_or_else(|finding| panic!("{finding}\n{}", replay(crate::PROGRAM, seed)));
    }
}

/// That nodes do merge here is shown by the bug of merges that `mutants` plants, which these plans find.
#[test]
fn thin_nodes_merge_beside_everything() {
    all_are_sound::<Unsorted>(600);
}

#[test]
fn thin_nodes_merge_in_order() {
    all_are_sound::<Sorted>(600);
}

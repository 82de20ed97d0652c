//! Lists that have all slabs of their pool. No link leads to a new slab, so nothing relies on address
//! dependencies: the plans run in the PTX memory model, which also shows missing order between independent
//! reads.
use crate::chains::FREE;
use crate::common::all_seeds;
use crate::mutation::{setting, told};
use crate::plan::{Choice, Plan};
use crate::script::ByLanes;
use crate::world::{Played, Setting, explore};
use phalanx_kernels::keyed::Slot;
use phalanx_kernels::slab::Pool;
use phalanx_kernels::slab::list::{Lists, Node};
use simt::emulator::WeakMemory;

/// Runs plans of `count` seeds on a list whose last slab has one to three empty slots; all must be sound.
pub fn all_are_sound<S: Slot, P: Pool, const W: u32, const L: usize>(name: &str, count: u64) {
    let mut sum = Played::default();
    for seed in all_seeds(count) {
        let choice = [Choice::USUAL, Choice::EXCHANGES_AND_CHANGES][seed as usize / 3 % 2];
        let setting = Setting { choice, weak_memory: WeakMemory::Ptx, ..setting::<Lists<S, P, W, L>>(seed) };
        let plan = Plan::new::<Lists<S, P, W, L>>(seed, W.max(2) * 2, choice);
        let slots = (FREE as u64 + 1) * u64::from(Node::<S, W, L>::SLOTS);
        let plan = Plan { fill: slots - 1 - seed / 6 % 3, ..plan };
        sum += explore::<Lists<S, P, W, L>, ByLanes>(&plan, &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
    println!("{name}: {sum:?}");
    assert!(all_seeds(count).count() < 50 || sum.refused > 0, "{name}: {sum:?}");
}

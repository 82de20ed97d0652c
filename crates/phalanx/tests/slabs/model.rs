//! Random sequences of calls against sets of handles.
use crate::common::{Dice, replay, seed};
use crate::kinds;
use gpu::Device;
use phalanx::slab_alloc::{Handle, SlabAlloc};
use std::collections::HashSet;

/// What must be so.
#[derive(Default)]
struct Model {
    live: Vec<Handle>,
    retired: Vec<Handle>,
}

impl Model {
    /// Takes some of the live handles out, in random order.
    fn some(&mut self, dice: &mut Dice) -> Vec<Handle> {
        let count = dice.below(self.live.len() as u64 + 1);
        (0..count).map(|_| self.live.swap_remove(dice.below(self.live.len() as u64) as usize)).collect()
    }

    /// A call, made to both.
    fn step(&mut self, pool: &mut SlabAlloc, dice: &mut Dice) {
        match dice.below(10) {
            0..5 => {
                let free = pool.capacity() - self.live.len() - self.retired.len();
                let asked = dice.below(pool.capacity() as u64 / 2) as usize;
                let given = pool.allocate(asked).unwrap();
                assert_eq!(given.len(), asked.min(free));
                self.live.extend(given);
            }
            5..7 => pool.free(&self.some(dice)).unwrap(),
            7 => {
                let some = self.some(dice);
                pool.retire(&some).unwrap();
                self.retired.extend(some);
            }
            8 => {
                assert_eq!(pool.reclaim().unwrap(), self.retired.len());
                self.retired.clear();
            }
            _ if pool.capacity() < 1900 => pool.grow(1).unwrap(),
            _ => {}
        }
    }

    fn check(&self, pool: &SlabAlloc) {
        let all: HashSet<_> = self.live.iter().chain(&self.retired).collect();
        assert_eq!(all.len(), self.live.len() + self.retired.len(), "a slab was given twice");
        let stats = pool.stats().unwrap();
        assert_eq!((stats.live, stats.retired, stats.faults), (self.live.len(), self.retired.len(), 0));
        assert_eq!(stats.live + stats.retired + stats.free, pool.capacity());
        let set: u32 = pool.bitmap().unwrap().iter().map(|word| word.count_ones()).sum();
        assert_eq!(set as usize, all.len());
    }
}

/// Pools of up to 2048 slabs, which are searched completely, agree with the model to the slab.
pub fn sequences_agree_with_the_model(device: &Device) {
    for round in 0..24 {
        let seed = seed() + round;
        let mut dice = Dice::new(seed);
        let super_block = dice.pick(&[32, 64, 128]);
        for builder in kinds(device, super_block) {
            println!("{}", replay("slab_alloc", seed));
            let mut pool = builder.capacity(1 + dice.below(700) as usize).build().unwrap();
            let mut model = Model::default();
            for _ in 0..24 {
                model.step(&mut pool, &mut dice);
                model.check(&pool);
            }
            pool.free(&model.live).unwrap();
            pool.close().unwrap();
        }
    }
}

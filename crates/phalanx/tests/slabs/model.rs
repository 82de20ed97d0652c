//! Random sequences of calls, compared with sets of handles.
use crate::common::{Rng, replay, seed};
use crate::kinds;
use gpu::Device;
use phalanx::slab_alloc::{Handle, SlabAlloc};
use std::collections::HashSet;

/// Expected state.
#[derive(Default)]
struct Model {
    live: Vec<Handle>,
    retired: Vec<Handle>,
}

impl Model {
    /// Removes some of the live handles, in random order.
    fn some(&mut self, rng: &mut Rng) -> Vec<Handle> {
        let count = rng.below(self.live.len() as u64 + 1);
        (0..count).map(|_| self.live.swap_remove(rng.below(self.live.len() as u64) as usize)).collect()
    }

    /// Performs a call on the pool and on the model.
    fn step(&mut self, pool: &mut SlabAlloc, rng: &mut Rng) {
        match rng.below(10) {
            0..5 => {
                let free = pool.capacity() - self.live.len() - self.retired.len();
                let asked = rng.below(pool.capacity() as u64 / 2) as usize;
                let given = pool.allocate(asked).unwrap();
                assert_eq!(given.len(), asked.min(free));
                self.live.extend(given);
            }
            5..7 => pool.free(&self.some(rng)).unwrap(),
            7 => {
                let some = self.some(rng);
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

/// Pools of up to 2048 slabs are searched completely, so they agree with the model exactly.
pub fn sequences_agree_with_the_model(device: &Device) {
    for round in 0..24 {
        let seed = seed() + round;
        let mut rng = Rng::new(seed);
        let super_block = rng.pick(&[32, 64, 128]);
        for builder in kinds(device, super_block) {
            println!("{}", replay(seed));
            let mut pool = builder.capacity(1 + rng.below(700) as usize).build().unwrap();
            let mut model = Model::default();
            for _ in 0..24 {
                model.step(&mut pool, &mut rng);
                model.check(&pool);
            }
            pool.free(&model.live).unwrap();
            pool.close().unwrap();
        }
    }
}

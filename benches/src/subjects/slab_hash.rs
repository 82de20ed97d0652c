//! Benchmarks of `phalanx::SlabHash`, with batches on device buffers.
//!
//! The parameter `utilisation` is the fraction of memory that pairs occupy: at the end, or before the
//! operation if the case specifies the number of initial pairs (`initial_n`).
use super::both_widths::{BothWidths, DEFAULT};
use super::driver::{Filled, Prepared, Table};
use super::first_launch;
use super::increments::{self, Incremental};
use super::map_plan::{OPS, Plan};
use crate::engine::benchmark::Benchmark;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::slab_hash::{Builder, Growth, variants};
use phalanx::{Key, SlabHash, Value};
use workloads::Key as Word;

/// Variants of slab hash.
#[derive(Debug)]
pub struct SlabMaps<'a> {
    gpu: &'a Gpu,
}

impl<'a> SlabMaps<'a> {
    /// Returns the maps of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }
}

impl BothWidths for SlabMaps<'_> {
    const NAME: &'static str = "SlabHash";
    const OPS: &'static [&'static [&'static str]] = &[OPS, &[increments::INCREMENTAL, first_launch::OP]];

    fn gpu(&self) -> &Gpu {
        self.gpu
    }

    fn variants<K: Key, V: Value>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: Key + Word, V: Value + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let share = case.number("utilisation")?;
        let builder = builder::<K, V>(self.gpu, case).utilisation(share);
        if case.op == increments::INCREMENTAL {
            let map = builder.capacity(case.n as usize).build()?;
            let filled = Filled { map, share, of: case.n };
            return Ok(Box::new(Incremental::new(self.gpu, case, filled)?));
        }
        let plan = Plan::<K, V>::new(case)?;
        let map = builder.capacity(plan.sized_for as usize).pool_for(plan.keys as usize).build()?;
        let filled = Filled { map, share, of: plan.sized_for };
        Ok(Box::new(Prepared::new(self.gpu, plan, filled)?))
    }
}

/// Returns a builder with the parameters common to all operations.
fn builder<K: Key, V: Value>(gpu: &Gpu, case: &Case) -> Builder<SlabHash<K, V>> {
    let builder = SlabHash::builder().device(&gpu.device).growth(Growth::Fixed);
    if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }
}

impl<K: Key, V: Value> Table for SlabHash<K, V> {
    fn fill(&self) -> Result<f64> {
        Ok(self.utilisation()?)
    }
}

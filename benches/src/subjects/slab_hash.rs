//! Benchmarks of `phalanx::SlabHash`, with batches on device buffers.
//!
//! The parameter `utilisation` is the fraction of memory that pairs occupy: at the end, or before the
//! operation if the case specifies the number of initial pairs (`initial_n`). `frozen` = `true` selects the
//! read-only kernels of frozen maps.
use super::both_widths::{BothWidths, DEFAULT, usual};
use super::driver::{Batch, Get, Prepared, Tested, frozen};
use super::increments::{self, Incremental};
use super::map_plan::{OPS, Plan};
use crate::engine::benchmark::Benchmark;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::SlabHash;
use phalanx::map::Word as MapWord;
use phalanx::slab_hash::{Builder, Growth, variants};
use workloads::Key as Word;

/// Operations that read-only kernels have.
const READS: &[&str] = &["find_hit", "find_miss", "ycsb_c", "batch_get"];

/// Variants of slab hash.
#[derive(Debug)]
pub struct SlabMaps<'a>(pub &'a Gpu);

impl BothWidths for SlabMaps<'_> {
    const NAME: &'static str = "SlabHash";
    const OPS: &'static [&'static [&'static str]] = &[OPS, &[increments::INCREMENTAL]];

    fn gpu(&self) -> &Gpu {
        self.0
    }

    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let made =
            selected::<K, V>(self.0, case).utilisation(case.number_if_given("utilisation")?.unwrap_or(0.6));
        let get: Option<Get<SlabHash<K, V>>> = frozen(case, READS)?.then_some(|map, stream, batch| {
            let Batch { keys, results, outcomes, .. } = batch;
            Ok(map.frozen()?.on(stream).get(&*keys, results, outcomes)?)
        });
        if let Some(prepared) =
            usual(self.0, case, move |capacity| made.clone().capacity(capacity).build(), get, None)?
        {
            return Ok(prepared);
        }
        let share = case.number("utilisation")?;
        let builder = builder::<K, V>(self.0, case).utilisation(share);
        if case.op == increments::INCREMENTAL {
            let map = builder.capacity(case.n as usize).build()?;
            let filled = Tested::filled(map, share, case.n, SlabHash::utilisation);
            return Ok(Box::new(Incremental::new(self.0, case, filled)?));
        }
        let plan = Plan::<K, V>::new(case)?;
        let map = builder.capacity(plan.sized_for as usize).pool_for(plan.keys as usize).build()?;
        let filled = Tested::filled(map, share, plan.sized_for, SlabHash::utilisation);
        Ok(Box::new(Prepared::new(self.0, plan, Tested { get, ..filled })?))
    }
}

/// Returns a builder with the parameters common to all operations.
fn builder<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Builder<SlabHash<K, V>> {
    selected(gpu, case).growth(Growth::Fixed)
}

/// Returns a builder of the case's variant.
fn selected<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Builder<SlabHash<K, V>> {
    let builder = SlabHash::builder().device(&gpu.device);
    if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }
}

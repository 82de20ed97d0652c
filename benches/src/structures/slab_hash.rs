//! `phalanx::SlabHash`, by the batches on device buffers.
//!
//! The parameter `utilisation` is the share of memory that pairs take: in the end, or before the operation where the case says
//! how many pairs are there then (`initial_n`).
use super::driver::{Filled, Prepared, Table};
use super::hash_map::DEFAULT;
use super::increments::{self, Incremental};
use super::map_plan::{OPS, Plan};
use crate::benchmark::{Benchmark, Structure};
use crate::structures::Gpu;
use crate::structures::first_launch::{self, FirstLaunch};
use crate::suite::Case;
use anyhow::{Result, bail};
use phalanx::slab_hash::{Builder, Growth, variants};
use phalanx::{Key, SlabHash, Value};
use workloads::Key as Word;

/// The operations of plans, and what else there is.
const WITH_INCREMENTAL: [&str; OPS.len() + 1] = first_launch::with(increments::INCREMENTAL, OPS);
const ALL_OPS: [&str; OPS.len() + 2] = first_launch::with(first_launch::OP, &WITH_INCREMENTAL);

/// The variants of slab hash.
#[derive(Debug)]
pub struct SlabMaps<'a> {
    gpu: &'a Gpu,
}

impl<'a> SlabMaps<'a> {
    /// The maps of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
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

/// The parameters that cases of all operations have.
fn builder<K: Key, V: Value>(gpu: &Gpu, case: &Case) -> Builder<SlabHash<K, V>> {
    let builder = SlabHash::builder().device(&gpu.device).growth(Growth::Fixed);
    if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }
}

impl<K: Key, V: Value> Table for SlabHash<K, V> {
    fn fill(&self) -> Result<f64> {
        Ok(self.utilisation()?)
    }
}

impl Structure for SlabMaps<'_> {
    fn name(&self) -> &'static str {
        "SlabHash"
    }

    fn variants(&self) -> Vec<String> {
        let named = variants::<u32, u32>().into_iter().chain(variants::<u64, u64>());
        std::iter::once(DEFAULT).chain(named).map(str::to_owned).collect()
    }

    fn ops(&self) -> &'static [&'static str] {
        &ALL_OPS
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        if case.op == first_launch::OP {
            return Ok(Box::new(FirstLaunch::new(self.gpu, case)?));
        }
        match (case.key_bits, case.value_bits) {
            (32, 32) => self.open::<u32, u32>(case),
            (64, 64) => self.open::<u64, u64>(case),
            (key, value) => bail!("slab hash has no instance for {key}-bit keys and {value}-bit values"),
        }
    }
}

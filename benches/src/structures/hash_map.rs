//! `phalanx::HashMap`, by the batches on device buffers.
//!
//! A table is filled to the case's `load_factor`, or to its `utilisation`, where it is compared with a structure that has one: the slots
//! are all of its memory, but for filters of a bit or so a pair.
use super::driver::{Filled, Prepared, Table};
use super::increments::{self, Rebuild};
use super::map_plan::{OPS, Plan};
use crate::benchmark::{Benchmark, Structure};
use crate::structures::Gpu;
use crate::structures::first_launch::{self, FirstLaunch};
use crate::suite::Case;
use anyhow::{Result, bail};
use phalanx::HashMap;
use phalanx::hash_map::{Builder, Growth, Key, Value, variants};
use workloads::Key as Word;

/// The name of the variant that a map takes when none is asked for.
pub const DEFAULT: &str = "default";

/// The operations of plans, and what else there is.
const WITH_REBUILD: [&str; OPS.len() + 1] = first_launch::with(increments::REBUILD, OPS);
const ALL_OPS: [&str; OPS.len() + 2] = first_launch::with(first_launch::OP, &WITH_REBUILD);

/// The hash map's variants.
#[derive(Debug)]
pub struct Maps<'a> {
    gpu: &'a Gpu,
}

impl<'a> Maps<'a> {
    /// The maps of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }

    fn open<K: Key + Word, V: Value + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let share = share(case)?;
        let builder = builder::<K, V>(self.gpu, case).load_factor(share);
        if case.op == increments::REBUILD {
            return Ok(Box::new(Rebuild::new(self.gpu, case, |pairs| {
                Ok(builder.clone().capacity(pairs).build()?)
            })?));
        }
        let plan = Plan::<K, V>::new(case)?;
        let map = builder.capacity(plan.keys as usize).build()?;
        let filled = Filled { map, share, of: plan.keys };
        Ok(Box::new(Prepared::new(self.gpu, plan, filled)?))
    }
}

/// The share of slots that are to be taken.
fn share(case: &Case) -> Result<f64> {
    Ok(match case.number_if_given("utilisation")? {
        Some(utilisation) => utilisation,
        None => case.number("load_factor")?,
    })
}

/// The parameters that cases of all operations have.
fn builder<K: Key, V: Value>(gpu: &Gpu, case: &Case) -> Builder<K, V> {
    let builder = HashMap::builder().device(&gpu.device).growth(Growth::Fixed);
    if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }
}

impl<K: Key, V: Value> Table for HashMap<K, V> {
    fn fill(&self) -> Result<f64> {
        Ok(self.load_factor()?)
    }
}

impl Structure for Maps<'_> {
    fn name(&self) -> &'static str {
        "HashMap"
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
            (key, value) => bail!("the map has no instance for {key}-bit keys and {value}-bit values"),
        }
    }
}

//! Benchmarks of `phalanx::HashMap`, with batches on device buffers.
//!
//! A table is filled to the `load_factor` of the case. In comparisons with structures that have a memory
//! utilisation, it is filled to `utilisation`: slots are all of its memory, apart from filters of about one
//! bit per pair. `frozen` = `true` selects the read-only kernels of frozen maps.
use super::both_widths::{BothWidths, DEFAULT, usual};
use super::driver::{Batch, Get, Prepared, Tested, frozen};
use super::increments::{self, Rebuild};
use super::map_plan::{OPS, Plan};
use crate::engine::benchmark::Benchmark;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::HashMap;
use phalanx::hash_map::{Builder, Growth, variants};
use phalanx::map::Word as MapWord;
use phalanx_kernels::hash_map::Config;
use simt::Instance;
use std::any::Any;
use std::sync::{Mutex, PoisonError};
use workloads::Key as Word;

/// Operations that read-only kernels have.
const READS: &[&str] = &["find_hit", "find_miss", "ycsb_c", "batch_get"];

/// Variants of the hash map.
#[derive(Debug)]
pub struct Maps<'a>(pub &'a Gpu);

impl BothWidths for Maps<'_> {
    const NAME: &'static str = "HashMap";
    const OPS: &'static [&'static [&'static str]] = &[OPS, &[increments::REBUILD]];

    fn gpu(&self) -> &Gpu {
        self.0
    }

    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str> {
        let registered = registered::<K, V>().into_iter().map(|(name, _)| name);
        variants::<K, V>().into_iter().chain(registered).collect()
    }

    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let made =
            selected::<K, V>(self.0, case).load_factor(case.number_if_given("load_factor")?.unwrap_or(0.8));
        let get: Option<Get<HashMap<K, V>>> = frozen(case, READS)?.then_some(|map, stream, batch| {
            let Batch { keys, results, outcomes, .. } = batch;
            Ok(map.frozen()?.on(stream).get(&*keys, results, outcomes)?)
        });
        let make = move |capacity| made.clone().capacity(capacity).build();
        if let Some(prepared) = usual(self.0, case, make, get, None)? {
            return Ok(prepared);
        }
        let share = share(case)?;
        let builder = builder::<K, V>(self.0, case).load_factor(share);
        if case.op == increments::REBUILD {
            return Ok(Box::new(Rebuild::new(self.0, case, |pairs| {
                Ok(builder.clone().capacity(pairs).build()?)
            })?));
        }
        let plan = Plan::<K, V>::new(case)?;
        let map = builder.capacity(plan.keys as usize).build()?;
        let filled = Tested::filled(map, share, plan.keys, HashMap::load_factor);
        Ok(Box::new(Prepared::new(self.0, plan, Tested { get, ..filled })?))
    }
}

/// Returns the fraction of slots to fill.
fn share(case: &Case) -> Result<f64> {
    Ok(match case.number_if_given("utilisation")? {
        Some(utilisation) => utilisation,
        None => case.number("load_factor")?,
    })
}

/// Returns a builder with the parameters common to all operations.
fn builder<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Builder<K, V> {
    selected(gpu, case).growth(Growth::Fixed)
}

/// Returns a builder of the case's variant.
fn selected<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Builder<K, V> {
    let builder = HashMap::builder().device(&gpu.device);
    let selects = registered::<K, V>().into_iter().find(|(name, _)| *name == case.variant);
    match selects {
        Some((_, select)) => select(builder),
        None if case.variant == DEFAULT => builder,
        None => builder.variant(&case.variant),
    }
}

/// Function that selects a variant by its type.
type Select<K, V> = fn(Builder<K, V>) -> Builder<K, V>;

/// Names of the registered variants, and the function of each: a [`Select`].
static REGISTERED: Mutex<Vec<(&str, Box<dyn Any + Send>)>> = Mutex::new(Vec::new());

/// Adds a variant of another package to those that suites can name. [`crate::bench!`] calls it.
pub fn register<M: Config<Key: MapWord, Value: MapWord> + Instance>() {
    let select: Select<M::Key, M::Value> = Builder::variant_of::<M>;
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push((M::NAME, Box::new(select)));
}

/// Returns the registered variants with these types.
fn registered<K: MapWord, V: MapWord>() -> Vec<(&'static str, Select<K, V>)> {
    let variants = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    variants.iter().filter_map(|(name, select)| Some((*name, *select.downcast_ref()?))).collect()
}

//! Benchmarks of a `phalanx::TieredMap` that fits its budget, with batches on device buffers: to compare with
//! `phalanx::HashMap`, whose table and kernels are the same.
//!
//! The table is filled to the `load_factor` of the case.
use super::both_widths::DEFAULT;
use super::driver::{Batch, Prepared, Subject};
use super::map_plan::{Call, Plan};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::Stream;
use phalanx::TieredMap;
use phalanx::map::Word as MapWord;
use phalanx::tiered_map::Growth;
use workloads::Key as Word;

/// Operations that can be timed.
const OPS: &[&str] = &["insert", "find_hit", "find_miss", "remove_half"];

/// Bytes of the budget beside those of the table.
const WORKSPACE: usize = 64 << 20;

/// Tiered maps in device memory.
#[derive(Debug)]
pub struct Residents<'a>(pub &'a Gpu);

impl Structure for Residents<'_> {
    fn name(&self) -> &'static str {
        "ResidentMap"
    }

    fn variants(&self) -> Vec<String> {
        vec![DEFAULT.to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        match (case.key_bits, case.value_bits) {
            (32, 32) => prepare::<u32, u32>(self.0, case),
            (64, 64) => prepare::<u64, u64>(self.0, case),
            (key, value) => bail!("a resident map has no pairs of {key} and {value} bits here"),
        }
    }
}

/// Creates the inputs and the map.
fn prepare<'a, K: MapWord + Word, V: MapWord + Word>(
    gpu: &'a Gpu,
    case: &Case,
) -> Result<Box<dyn Benchmark + 'a>> {
    let (plan, load_factor) = (Plan::<K, V>::new(case)?, case.number("load_factor")?);
    let pairs = plan.keys as usize;
    let bytes = (pairs as f64 / load_factor) as usize * (size_of::<K>() + size_of::<V>());
    let builder = TieredMap::builder().device(&gpu.device).growth(Growth::Fixed).capacity(pairs);
    let map = builder.load_factor(load_factor).budget(2 * bytes + WORKSPACE).build()?;
    ensure!(map.is_resident(), "the map has shards");
    Ok(Box::new(Prepared::new(gpu, plan, Resident(map))?))
}

/// A map in device memory.
struct Resident<K: MapWord, V: MapWord>(TieredMap<K, V>);

impl<K: MapWord, V: MapWord> Subject<K, V> for Resident<K, V> {
    const TELLS: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<K, V>) -> Result<()> {
        let Batch { keys, arguments, results, outcomes, .. } = batch;
        let batches = self.0.on(stream);
        match call {
            Call::Insert => batches.insert(&*keys, &*arguments, Some(outcomes))?,
            Call::Get => batches.get(&*keys, results, outcomes)?,
            Call::Remove => batches.remove(&*keys, outcomes)?,
            Call::Mixed => bail!("a tiered map has no mixed batches on device buffers"),
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.0.clear()?)
    }

    fn memory_usage(&self) -> usize {
        self.0.device_bytes()
    }
}

//! Benchmarks of `phalanx::SlabMultiMap`, with batches on device buffers.
//!
//! The parameter `utilisation` is the fraction of memory that pairs occupy at the end. `find_hit` and
//! `find_miss` are `contains_key`. With `replaced` = `true`, each key of the initial contents is inserted
//! twice, and its first pair removed. So half of the slots in use are tombstones, which count as pairs in
//! `utilisation`.
use super::both_widths::DEFAULT;
use super::driver::{Batch, Prepared, Subject, UNWRITTEN, flag};
use super::map_plan::{Call, Plan};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Stream};
use phalanx::SlabMultiMap;
use phalanx::slab_hash::{Growth, variants};
use phalanx_kernels::keyed::Outcome;

/// Operations that a map with several values per key supports.
const OPS: &[&str] = &["insert", "find_hit", "find_miss", "remove_half"];

/// Variants of maps with several values per key.
#[derive(Debug)]
pub struct MultiMaps<'a>(pub &'a Gpu);

impl Structure for MultiMaps<'_> {
    fn name(&self) -> &'static str {
        "SlabMultiMap"
    }

    fn variants(&self) -> Vec<String> {
        std::iter::once(DEFAULT).chain(variants::<u32, u32>()).map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let (key, value) = (case.key_bits, case.value_bits);
        ensure!((key, value) == (32, 32), "keys and values have 32 bits here, not {key} and {value}");
        let plan = Plan::<u32, u32>::new(case)?;
        let replaced = flag(case, "replaced", &["find_hit", "find_miss", "remove_half"])?;
        let pairs = plan.keys as usize * if replaced { 2 } else { 1 };
        let builder = SlabMultiMap::builder().device(&self.0.device).growth(Growth::Fixed);
        // Lists differ more in length if keys have two pairs, so more of them need a second slab.
        let builder =
            builder.capacity(pairs).pool_for(pairs / 4 * 5).utilisation(case.number("utilisation")?);
        let builder = if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) };
        let outcomes = self.0.device.filled(if replaced { plan.preload.len() } else { 0 }, UNWRITTEN)?;
        Ok(Box::new(Prepared::new(self.0, plan, MultiMap { map: builder.build()?, replaced, outcomes })?))
    }
}

/// A map, and how its initial contents are inserted.
struct MultiMap {
    map: SlabMultiMap<u32, u32>,
    /// Whether each initial pair replaces an earlier one of the key.
    replaced: bool,
    /// Outcomes of the replacement.
    outcomes: Buffer<u8>,
}

impl MultiMap {
    /// Inserts the batch's pairs again, and removes the first pair of each key.
    fn replace(&mut self, stream: &Stream, batch: &Batch<u32, u32>) -> Result<()> {
        self.map.on(stream).insert(&batch.keys, &batch.arguments, Some(&mut self.outcomes))?;
        self.check(stream, Outcome::Inserted)?;
        self.map.on(stream).remove_one(&batch.keys, &mut self.outcomes)?;
        self.check(stream, Outcome::Removed)
    }

    /// Waits for a batch of [`Self::replace`], and checks that all its outcomes are `outcome`.
    fn check(&self, stream: &Stream, outcome: Outcome) -> Result<()> {
        stream.synchronize()?;
        let other = self.outcomes.read()?.into_iter().find(|&code| code != outcome as u8);
        ensure!(other.is_none(), "a pair is {other:?} instead of {outcome:?} before the operation");
        Ok(())
    }
}

impl Subject<u32, u32> for MultiMap {
    const TELLS: bool = false;
    const TAKES_VALUES: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<u32, u32>) -> Result<()> {
        let batches = self.map.on(stream);
        match call {
            Call::Insert => batches.insert(&batch.keys, &batch.arguments, Some(&mut batch.outcomes))?,
            Call::Get => batches.contains_key(&batch.keys, &mut batch.outcomes)?,
            Call::Remove => batches.remove_one(&batch.keys, &mut batch.outcomes)?,
            Call::Mixed => bail!("mixed batches are not measured"),
        }
        if self.replaced && call == Call::Insert {
            self.replace(stream, batch)?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.map.clear()?)
    }

    fn memory_usage(&self) -> usize {
        self.map.memory_usage()
    }
}

//! Benchmarks of `phalanx::SkipList`, with batches on device buffers.
//!
//! | param | of | what |
//! |---|---|---|
//! | `assignment` | all | `spread` (default) or `cyclic`: assignment of the keys of a batch to tiles |
//! | `keys_per_block` | all | number of adjacent keys per tile: the paper's block-cyclic assignment |
//! | `thread_blocks` | with `keys_per_block` | number of blocks of 128 threads; by default each tile has one block of keys |
//! | `range_results` | `range` | pairs in each range, default 16 |
//! | `sequence` | `insert_sequence` | MI, DU, DR, SU, SR, SUR, DUL, ZZ: see `workloads::sequences` |
//! | `block` | `insert_sequence` | keys per block of a sequence, default `n / 8` |
//!
//! `insert_sequence` is `insert` of a sequence of 32-bit keys into an empty list. The variants
//! `list_counted_...` report counters.
use super::both_widths::{BothWidths, DEFAULT, usual};
use super::driver::{self, Batch, Prepared, Tested};
use super::increments::verify_all;
use super::map_plan::{Call, OPS, Plan};
use super::ordered::{Asking, ByOrder, PREDECESSOR, Query, RANGE, SUCCESSOR, large_batches};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::Stream;
use phalanx::SkipList;
use phalanx::map::Word as MapWord;
use phalanx::skiplist::{Assignment, Builder, Counters, Growth, variants};
use phalanx_kernels::keyed::Outcome;
use std::collections::BTreeMap;
use workloads::{Key as Word, Sequence};

/// Insertions of a sequence of the paper.
pub const SEQUENCE: &str = "insert_sequence";

/// Variants of the list.
#[derive(Debug)]
pub struct Lists<'a>(pub &'a Gpu);

impl BothWidths for Lists<'_> {
    const NAME: &'static str = "SkipList";
    const OPS: &'static [&'static [&'static str]] = &[OPS, &[RANGE, SUCCESSOR, PREDECESSOR, SEQUENCE]];

    fn gpu(&self) -> &Gpu {
        self.0
    }

    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let gpu = self.0;
        let made = builder::<K, V>(gpu, case)?.growth(Growth::Pool).large_batches(large_batches(case)?);
        if let Some(prepared) = usual(
            gpu,
            case,
            move |capacity| made.clone().capacity(capacity).build(),
            None,
            Some(|list: &SkipList<K, V>, ranges| list.range(ranges)),
        )? {
            return Ok(prepared);
        }
        let list = |pairs: u64| empty_list::<K, V>(gpu, case, pairs);
        let tested = |pairs: u64| -> Result<_> { Ok(Tested::new(list(pairs)?, |list| Ok(list.validate()?))) };
        Ok(match case.op.as_str() {
            RANGE | SUCCESSOR | PREDECESSOR => Box::new(Asking::new(gpu, case, tested(case.n)?)?),
            SEQUENCE => Box::new(Sequenced::new(gpu, case, list(case.n)?)?),
            _ => {
                let plan = Plan::<K, V>::new(case)?;
                let tested = tested(plan.keys)?;
                Box::new(Prepared::new(gpu, plan, tested)?)
            }
        })
    }
}

fn builder<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Result<Builder<K, V>> {
    let builder = SkipList::builder().device(&gpu.device).growth(Growth::Fixed).assignment(assignment(case)?);
    Ok(if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) })
}

/// Returns the assignment of keys to tiles.
fn assignment(case: &Case) -> Result<Assignment> {
    let whole = |name: &str| -> Result<Option<u32>> {
        let Some(number) = case.number_if_given(name)? else { return Ok(None) };
        let is_right = number >= 1.0 && number <= f64::from(1 << 24) && number.fract() == 0.0;
        ensure!(is_right, "`{name}` is {number}; it can be a whole number from 1 to 2^24");
        Ok(Some(number as u32))
    };
    let named = [("spread", Assignment::Spread), ("cyclic", Assignment::Cyclic)];
    let is_named = case.params.contains_key("assignment");
    match (whole("keys_per_block")?, whole("thread_blocks")?) {
        (Some(keys), thread_blocks) if !is_named => Ok(Assignment::Blocks { keys, thread_blocks }),
        (None, None) => Ok(case.choice("assignment", &named)?),
        _ => bail!("`assignment`, or `keys_per_block` with or without `thread_blocks`: one of them"),
    }
}

/// Creates an empty list with a capacity of `pairs`.
fn empty_list<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case, pairs: u64) -> Result<SkipList<K, V>> {
    Ok(builder(gpu, case)?.capacity(pairs as usize).build()?)
}

impl<K: MapWord + Word, V: MapWord + Word> ByOrder<K, V> for Tested<SkipList<K, V>> {
    fn ask_by_order(&mut self, stream: &Stream, query: &mut Query<K, V>) -> Result<()> {
        query.submit(&self.map.ordered_on(stream))
    }
}

/// Insertions of one of the paper's sequences into an empty list.
struct Sequenced<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    list: SkipList<K, V>,
    batch: Batch<K, V>,
    /// Distinct keys.
    distinct: Vec<K>,
    before: Counters,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> Sequenced<'a, K, V> {
    fn new(gpu: &'a Gpu, case: &Case, list: SkipList<K, V>) -> Result<Self> {
        let Some(name) = case.params.get("sequence").map(ToString::to_string) else {
            bail!("`sequence` is missing: it can be MI, DU, DR, SU, SR, SUR, DUL or ZZ");
        };
        let block = case.number_if_given("block")?.map_or(case.n.div_ceil(8).max(1), |block| block as u64);
        let keys = name.parse::<Sequence>()?.keys_in_blocks(case.n as usize, block, case.seed)?;
        let keys: Vec<K> = keys.into_iter().map(|key| <K as Word>::truncate(u64::from(key))).collect();
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let batch = Batch::inserts(&gpu.device, &keys)?;
        Ok(Self { gpu, list, batch, distinct, before: Counters::default() })
    }

    /// Returns the figures of table 1 of the paper, if the list has counters. The steps include those of the
    /// look-ups that verify the result, as many as there are insertions.
    fn counted(&self) -> Option<BTreeMap<String, f64>> {
        let (now, before) = (self.list.counters().ok()?, self.before);
        if now == Counters::default() {
            return None;
        }
        let part = |now: u64, before: u64| (now - before) as f64;
        let (stats, index) = (self.list.stats().ok()?, self.list.index_nodes().ok()?);
        let attempts = part(now.attempts, before.attempts) / part(now.latches, before.latches);
        let lateral = part(now.lateral, before.lateral) / part(now.down, before.down);
        let data = 100.0 * (1.0 - index as f64 / stats.live as f64);
        let named =
            [("attempts_per_latch", attempts), ("lateral_per_down", lateral), ("data_nodes_percent", data)];
        Some(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Sequenced<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.list.clear()?;
        self.batch.forget()?;
        self.before = self.list.counters()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        driver::ask(&self.list, &self.gpu.stream, Call::Insert, &mut self.batch)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (all, distinct) = (self.batch.keys.len(), self.distinct.len());
        let new = self.batch.count(Outcome::Inserted)?;
        let again = self.batch.count(Outcome::Replaced)?;
        ensure!(new == distinct && new + again == all, "{new} of {distinct} keys were new, {again} were not");
        verify_all(&self.list, &self.distinct)?;
        self.list.validate()?;
        Ok(Verified::all(all))
    }

    fn operations(&self) -> u64 {
        self.batch.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = Metric::TableBytes(self.list.memory_usage() as u64);
        [bytes].into_iter().chain(self.counted().map(Metric::Counted)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;

    #[test]
    fn a_key_that_is_lost_is_seen() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = first_case("gfsl/ops", 0);
        let list = empty_list::<u32, u32>(&gpu, &case, case.n).unwrap();
        let mut benchmark = Sequenced::new(&gpu, &case, list).unwrap();
        benchmark.restore().unwrap();
        benchmark.launch().unwrap();
        assert_eq!(benchmark.verify().unwrap(), Verified { compared: case.n, succeeded: case.n });
        benchmark.list.remove(&benchmark.distinct[3..4]).unwrap();
        assert!(benchmark.verify().unwrap_err().to_string().contains("pairs are there"));
    }

    #[test]
    fn assignments_that_make_no_sense_are_refused() {
        let mut case = first_case("skiplist/table8", 0);
        assert!(matches!(assignment(&case).unwrap(), Assignment::Blocks { .. }));
        case.params.insert("assignment".to_owned(), Param::Text("spread".to_owned()));
        assert!(assignment(&case).unwrap_err().to_string().contains("one of them"));
        case.params.remove("assignment");
        case.params.insert("keys_per_block".to_owned(), Param::Integer(0));
        assert!(assignment(&case).unwrap_err().to_string().contains("whole number"));
    }
}

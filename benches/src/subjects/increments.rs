//! Table that grows batch by batch until it contains `n` pairs (slab-hash paper, section VI-B and figure 6).
//!
//! | op | what is timed |
//! |---|---|
//! | `insert_incremental` | each batch of `batch` pairs is inserted into the table with the previous batches |
//! | `insert_rebuild` | after each batch, a table sized for the current number of pairs is cleared, and all pairs so far are inserted |
//!
//! All launches of a run are queued at once, in one stream or round-robin in several (`streams`). In several
//! streams batches may overlap; their keys are distinct, so no batch depends on another. Memory is allocated
//! beforehand: each rebuild has its own table, and one buffer with all pairs so far. The number of operations
//! is the final number of pairs `n`, so throughputs compare like times.
use super::driver::{Batch, Subject, Tested};
use super::map_plan::Call;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use gpu::Stream;
use phalanx::map::Word as MapWord;
use phalanx::{HashMap, Map};
use phalanx_kernels::keyed::Outcome;
use workloads::parallel;
use workloads::{Key as Word, UniqueKeys, value_of};

/// Operation of a structure that accepts further batches.
pub const INCREMENTAL: &str = "insert_incremental";
/// Operation of a structure that is rebuilt.
pub const REBUILD: &str = "insert_rebuild";

/// Returns the keys of the case, and the batch size.
fn keys_of<K: MapWord + Word>(case: &Case) -> Result<(Vec<K>, usize)> {
    let batch = case.number("batch")? as usize;
    ensure!(
        batch > 0 && case.n > 0,
        "batches of {batch} pairs never make {}: both must be at least 1",
        case.n
    );
    Ok((UniqueKeys::new(case.seed).present(case.n as usize)?, batch))
}

/// Checks that every pair of the batch was new.
///
/// # Errors
/// Returns [`anyhow::Error`] when a pair was not new, and [`gpu::Error`] when the device fails.
pub fn all_inserted<K: MapWord + Word, V: MapWord + Word>(batch: &Batch<K, V>) -> Result<()> {
    let (inserted, asked) = (batch.count(Outcome::Inserted)?, batch.keys.len());
    ensure!(inserted == asked, "only {inserted} of {asked} pairs were inserted as new ones");
    Ok(())
}

/// Streams that launches are distributed over round-robin.
struct Streams {
    first: Stream,
    others: Vec<Stream>,
}

impl Streams {
    /// Creates as many streams as the case specifies, the first of which is the GPU's; one by default.
    fn new(gpu: &Gpu, case: &Case) -> Result<Self> {
        let count = case.number_if_given("streams")?.unwrap_or(1.0) as usize;
        ensure!(count > 0, "params.streams is 0: launches need one");
        let others = (1..count).map(|_| gpu.device.stream()).collect::<Result<_, _>>()?;
        Ok(Self { first: gpu.stream.clone(), others })
    }

    /// Calls `launch` with a stream for each element. The streams start after all earlier work of the first
    /// one, and the first one then waits for them.
    fn in_turn<T>(
        &self,
        elements: &mut [T],
        mut launch: impl FnMut(&Stream, &mut T) -> Result<()>,
    ) -> Result<()> {
        let start = self.first.record()?;
        self.others.iter().try_for_each(|stream| stream.wait(&start))?;
        let streams = std::iter::once(&self.first).chain(&self.others).cycle();
        elements.iter_mut().zip(streams).try_for_each(|(element, stream)| launch(stream, element))?;
        self.others.iter().try_for_each(|stream| Ok(self.first.wait(&stream.record()?)?))
    }
}

/// Checks that the map contains these keys with their values, and nothing else.
///
/// # Errors
/// Returns [`anyhow::Error`] when the contents differ, and [`phalanx::Error`] when the device fails.
pub fn verify_all<M: Map>(map: &M, keys: &[M::Key]) -> Result<Verified>
where
    M::Key: MapWord + Word,
    M::Value: MapWord + Word,
{
    let (found, pairs) = (map.get(keys)?, map.len()?);
    ensure!(pairs == keys.len(), "{pairs} pairs are there, and {} were inserted", keys.len());
    let is_wrong = |index: usize| found[index] != Some(value_of(keys[index]));
    if let Some(index) = parallel::first(keys.len(), is_wrong) {
        anyhow::bail!("key {:?} has the value {:?}", keys[index], found[index]);
    }
    Ok(Verified::all(keys.len()))
}

/// Batches inserted into one table.
pub struct Incremental<'a, M: Map> {
    gpu: &'a Gpu,
    streams: Streams,
    filled: Tested<M>,
    keys: Vec<M::Key>,
    batches: Vec<Batch<M::Key, M::Value>>,
}

impl<'a, M: Map> Incremental<'a, M>
where
    M::Key: MapWord + Word,
    M::Value: MapWord + Word,
{
    /// Copies the batches to the device.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case has no batches, and [`gpu::Error`] when the device runs out of
    /// memory.
    pub fn new(gpu: &'a Gpu, case: &Case, filled: Tested<M>) -> Result<Self> {
        let (keys, batch) = keys_of(case)?;
        let batches = keys.chunks(batch).map(|part| Batch::inserts(&gpu.device, part));
        let batches = batches.collect::<Result<_>>()?;
        Ok(Self { gpu, streams: Streams::new(gpu, case)?, filled, keys, batches })
    }
}

impl<M: Map> Benchmark for Incremental<'_, M>
where
    M::Key: MapWord + Word,
    M::Value: MapWord + Word,
{
    fn restore(&mut self) -> Result<()> {
        self.filled.clear()?;
        self.batches.iter_mut().try_for_each(Batch::forget)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let Self { streams, filled, batches, .. } = self;
        streams.in_turn(batches, |stream, batch| filled.ask(stream, Call::Insert, batch))
    }

    fn verify(&mut self) -> Result<Verified> {
        self.batches.iter().try_for_each(all_inserted)?;
        self.filled.check_fill()?;
        verify_all(&self.filled.map, &self.keys)
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.filled.memory_usage() as u64)]
    }
}

/// Rebuild of the table after each batch.
pub struct Rebuild<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    streams: Streams,
    keys: Vec<K>,
    /// For each batch: a table for the pairs so far, and these pairs.
    steps: Vec<(HashMap<K, V>, Batch<K, V>)>,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> Rebuild<'a, K, V> {
    /// Creates a table for each number of pairs with `table`, and copies the pairs to the device.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case has no batches, and [`gpu::Error`] when the device runs out of
    /// memory.
    pub fn new(gpu: &'a Gpu, case: &Case, table: impl Fn(usize) -> Result<HashMap<K, V>>) -> Result<Self> {
        let (keys, batch) = keys_of::<K>(case)?;
        let ends = (batch..keys.len()).step_by(batch).chain([keys.len()]);
        let steps = ends.map(|end| Ok((table(end)?, Batch::inserts(&gpu.device, &keys[..end])?)));
        let steps = steps.collect::<Result<_>>()?;
        Ok(Self { gpu, streams: Streams::new(gpu, case)?, keys, steps })
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Rebuild<'_, K, V> {
    /// Leaves the tables unchanged, because clearing them is part of a rebuild. If a table were not cleared,
    /// its insertions would replace pairs.
    fn restore(&mut self) -> Result<()> {
        self.steps.iter_mut().try_for_each(|(_, batch)| batch.forget())?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let Self { streams, steps, .. } = self;
        streams.in_turn(steps, |stream, (map, Batch { keys, arguments, outcomes, .. })| {
            // SAFETY: only this stream uses the map until it is verified, and verification waits for the
            // stream.
            unsafe { map.clear_on(stream)? };
            Ok(map.on(stream).insert(keys, arguments, Some(outcomes))?)
        })
    }

    fn verify(&mut self) -> Result<Verified> {
        for (map, batch) in &self.steps {
            let context = || format!("the table for {} pairs", batch.keys.len());
            all_inserted(batch).with_context(context)?;
            verify_all(map, &self.keys[..batch.keys.len()]).with_context(context)?;
        }
        Ok(Verified::all(self.keys.len()))
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Returns the size of the last table, since a rebuilt table needs no other besides.
    fn metrics(&self) -> Vec<Metric> {
        let last = self.steps.last().map(|(map, _)| Metric::TableBytes(map.memory_usage() as u64));
        last.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;
    use phalanx::hash_map::Growth;

    /// Runs two repetitions of rebuilding, with tables of capacity `room(pairs)`.
    fn rebuild(gpu: &Gpu, room: impl Fn(usize) -> usize) -> Result<Verified> {
        let case = first_case("slabhash/fig6", 1);
        let builder = HashMap::<u32, u32>::builder().device(&gpu.device).growth(Growth::Fixed);
        let table = |pairs| Ok(builder.clone().load_factor(0.65).capacity(room(pairs)).build()?);
        let mut benchmark = Rebuild::new(gpu, &case, table)?;
        assert_eq!(benchmark.steps.len(), 8);
        let lens: Vec<_> = benchmark.steps.iter().map(|(_, batch)| batch.keys.len()).collect();
        assert_eq!(lens, [256, 512, 768, 1024, 1280, 1536, 1792, 2048]);
        let mut verified = Err(anyhow::anyhow!("nothing ran"));
        for _ in 0..2 {
            benchmark.restore()?;
            benchmark.launch()?;
            gpu.device.synchronize()?;
            verified = Ok(benchmark.verify()?);
        }
        verified
    }

    #[test]
    fn every_table_is_cleared_filled_and_compared() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        assert_eq!(rebuild(&gpu, |pairs| pairs).unwrap(), Verified { compared: 2048, succeeded: 2048 });
        // One of several tables is too small.
        let error = rebuild(&gpu, |pairs| if pairs == 512 { 200 } else { pairs }).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("the table for 512 pairs") && error.contains("of 512 pairs were"), "{error}");
    }

    #[test]
    fn a_wrong_table_is_seen() {
        let device = gpu::Device::emulator(Default::default());
        let keys: Vec<u32> = UniqueKeys::new(1).present(100).unwrap();
        let values: Vec<u32> = keys.iter().map(|key| value_of(*key)).collect();
        let map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
        assert!(map.insert(&keys[..99], &values[..99]).unwrap().all_placed());
        assert_eq!(verify_all(&map, &keys[..99]).unwrap(), Verified { compared: 99, succeeded: 99 });
        assert!(verify_all(&map, &keys).unwrap_err().to_string().contains("99 pairs are there"));
        assert!(verify_all(&map, &keys[..98]).unwrap_err().to_string().contains("99 pairs are there"));
        assert!(map.insert(&keys[7..8], &[values[7] ^ 1]).unwrap().all_placed());
        let error = verify_all(&map, &keys[..99]).unwrap_err().to_string();
        assert!(error.contains(&format!("key {:?} has the value", keys[7])), "{error}");
    }

    #[test]
    fn batches_of_nothing_are_refused() {
        let mut case = first_case("slabhash/fig6", 0);
        case.params.insert("batch".to_owned(), Param::Integer(0));
        assert!(keys_of::<u32>(&case).unwrap_err().to_string().contains("must be at least 1"));
        case.params.remove("batch");
        assert!(keys_of::<u32>(&case).unwrap_err().to_string().contains("params.batch"));
    }
}

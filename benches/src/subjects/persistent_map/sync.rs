//! Batches beside `sync`.
//!
//! Updates of some keys change pages. With `sync_get`, they precede each `sync`, and other keys are looked up
//! while it runs. With `sync_update`, they go on: small batches of all these keys, which change pages while
//! `sync` copies them. After each repetition the file is opened, and must have the last version of each key.
use super::files::{self, File, pair_count};
use super::items::{Key, Numbered, Value};
use super::run::{check_contents, named, quantile};
use super::table::{self, Elements, Verb, submit};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Context, Result, ensure};
use gpu::{Buffer, Stream};
use phalanx::PersistentMap;
use phalanx_kernels::keyed::Outcome;
use std::collections::BTreeMap;
use std::time::Instant;
use workloads::parallel;
use workloads::random::{Source, below};

/// Batches without `sync`, to compare with.
const ALONE: usize = 64;

/// A batch on a stream of its own.
pub struct Batch<K, V> {
    stream: Stream,
    verb: Verb,
    numbers: Vec<u32>,
    keys: Buffer<K>,
    values: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<K: Key, V: Value> Batch<K, V> {
    /// Creates the batch of the keys with these numbers.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device lacks the memory.
    pub fn new(gpu: &Gpu, numbered: &Numbered, verb: Verb, numbers: Vec<u32>) -> Result<Self> {
        let (device, len) = (&gpu.device, numbers.len());
        let keys = parallel::tabulate(len, |index| K::of(numbered.word(numbers[index])));
        let read = if verb == Verb::Get { len } else { 0 };
        Ok(Self {
            stream: device.stream()?,
            verb,
            keys: device.from_slice(&keys)?,
            values: device.buffer(len - read)?,
            results: device.zeroed(read)?,
            outcomes: device.filled(len, UNWRITTEN)?,
            numbers,
        })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Sets the version that the batch writes.
    fn write(&mut self, numbered: &Numbered, version: u32) -> Result<()> {
        let word = |index: usize| numbered.word(self.numbers[index]);
        Ok(self.values.write(&parallel::tabulate(self.values.len(), |index| V::of(word(index), version)))?)
    }

    /// Submits the batch and waits for it. Returns the milliseconds.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the map or the device fails.
    pub fn run(&mut self, map: &PersistentMap<K, V>) -> Result<f64> {
        let elements = Elements {
            keys: self.keys.slice(..)?,
            values: self.values.slice(..)?,
            results: self.results.slice_mut(..)?,
            outcomes: self.outcomes.slice_mut(..)?,
        };
        let start = Instant::now();
        submit(map, &self.stream, self.verb, elements)?;
        self.stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// Checks the outcomes, and that values that were read are those of version 0.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] with the first wrong element.
    pub fn check(&self, numbered: &Numbered) -> Result<()> {
        let (codes, values) = (self.outcomes.read()?, self.results.read()?);
        let wanted = if self.verb == Verb::Get { Outcome::Found } else { Outcome::Replaced };
        let is_right = |index: usize| {
            let value = values.get(index);
            codes[index] == wanted as u8
                && value.is_none_or(|value| value.is(numbered.word(self.numbers[index]), 0))
        };
        let wrong = parallel::first(codes.len(), |index| !is_right(index));
        ensure!(wrong.is_none(), "element {wrong:?} of a batch beside `sync` is wrong");
        Ok(())
    }
}

/// Prepared case. The keys of `dirty` times as many pairs as there are pages change.
pub struct Beside<'a, K, V> {
    gpu: &'a Gpu,
    case: Case,
    numbered: Numbered,
    map: Option<PersistentMap<K, V>>,
    gets: Batch<K, V>,
    updates: Batch<K, V>,
    /// Number of syncs.
    syncs: usize,
    version: u32,
    measured: Measured,
    // Dropped after the map.
    file: File,
}

/// Milliseconds of batches and of syncs.
#[derive(Default)]
struct Measured {
    alone: Vec<f64>,
    beside: Vec<f64>,
    syncs: Vec<f64>,
    dirty_pages: usize,
    pages: usize,
}

impl<'a, K: Key, V: Value> Beside<'a, K, V> {
    /// Creates the file.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the file does not fit its folder.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (file, numbered, pairs) = (File::new(case)?, Numbered::new(case.seed), pair_count(case)?);
        let map = files::create(gpu, case, &file)?;
        let changed = ((map.stats()?.pages as f64 * case.number("dirty")?) as u32).max(1);
        ensure!(changed < pairs, "{changed} of {pairs} pairs cannot change");
        let source = Source::new(case.seed, "lookups beside sync");
        let others = u64::from(pairs - changed);
        let asked =
            source.generate(case.n as usize, |generator, _| changed + below(generator, others) as u32);
        Ok(Self {
            gets: Batch::new(gpu, &numbered, Verb::Get, asked)?,
            updates: Batch::new(gpu, &numbered, Verb::Update, (0..changed).collect())?,
            syncs: case.number_if_given("syncs")?.map_or(1, |syncs| syncs as usize).max(1),
            gpu,
            case: case.clone(),
            numbered,
            map: Some(map),
            version: 0,
            measured: Measured::default(),
            file,
        })
    }

    /// Measures batches of one kind, alone and beside `sync`.
    fn measure(&mut self) -> Result<()> {
        let Self { map, gets, updates, numbered, measured, version, .. } = self;
        let map = map.as_ref().context("the map is open")?;
        let reads = self.case.op == "sync_get";
        *measured = Measured { pages: map.stats()?.pages, ..Measured::default() };
        *version += 1;
        updates.write(numbered, *version)?;
        updates.run(map)?;
        measured.dirty_pages = map.stats()?.dirty_pages;
        let timed = if reads { &mut *gets } else { &mut *updates };
        for _ in 0..ALONE {
            measured.alone.push(timed.run(map)?);
        }
        for _ in 0..self.syncs {
            if reads {
                updates.run(map)?;
            }
            let timed = if reads { &mut *gets } else { &mut *updates };
            beside(map, timed, measured)?;
        }
        Ok(())
    }

    /// Opens the file again, and checks the version of each key that changed and of others.
    fn reopen(&mut self) -> Result<()> {
        let map = self.map.take().context("the map is open")?;
        map.sync()?;
        drop(map);
        let mut map = table::builder(self.gpu, &self.case, 1)?.open(self.file.path())?;
        let (changed, version) = (self.updates.numbers.len() as u32, self.version);
        let end = pair_count(&self.case)?.min(2 * changed);
        let expected = |number: u32| Some(if number < changed { version } else { 0 });
        check_contents(self.gpu, &mut map, &self.numbered, 0..end, &expected)?;
        self.map = Some(map);
        Ok(())
    }
}

/// Runs a batch again and again while a thread executes `sync`. Batches that end after it do not count.
fn beside<K: Key, V: Value>(
    map: &PersistentMap<K, V>,
    batch: &mut Batch<K, V>,
    measured: &mut Measured,
) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let start = Instant::now();
            map.sync().map(|_| start.elapsed().as_secs_f64() * 1e3)
        });
        let mut batches = Ok(());
        while batches.is_ok() && !thread.is_finished() {
            batches = batch.run(map).map(|ms| measured.beside.push(ms));
        }
        let ms = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        measured.syncs.push(ms?);
        batches
    })
}

impl<K: Key, V: Value> Benchmark for Beside<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.measure()
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.measured.beside.iter().sum())
    }

    fn verify(&mut self) -> Result<Verified> {
        let timed = if self.case.op == "sync_get" { &self.gets } else { &self.updates };
        timed.check(&self.numbered)?;
        self.reopen()?;
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        let each = if self.case.op == "sync_get" { &self.gets.numbers } else { &self.updates.numbers };
        (self.measured.beside.len() * each.len()) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let Measured { alone, beside, syncs, dirty_pages, pages } = &self.measured;
        let mean = |ms: &[f64]| ms.iter().sum::<f64>() / ms.len().max(1) as f64;
        let median = quantile(alone, 0.5);
        let counted = BTreeMap::from([
            // Rate of the batches beside `sync`: the part that is lost.
            ("cost", 1.0 - mean(alone) / mean(beside)),
            ("alone_ms", median),
            ("alone_p99_ms", quantile(alone, 0.99)),
            ("stop_p99_ms", (quantile(beside, 0.99) - median).max(0.0)),
            ("stop_max_ms", (quantile(beside, 1.0) - median).max(0.0)),
            ("sync_ms", quantile(syncs, 0.5)),
            ("dirty_share", *dirty_pages as f64 / (*pages).max(1) as f64),
        ]);
        vec![Metric::P99(quantile(beside, 0.99)), named(counted)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::case_with_op;
    use crate::machine::DeviceChoice;

    fn prepared<'a>(gpu: &'a Gpu, op: &str) -> Beside<'a, [u64; 1], [u64; 1]> {
        let case = case_with_op("gphash/targets", op);
        let mut beside = Beside::new(gpu, &case).unwrap();
        beside.restore().unwrap();
        beside.launch().unwrap();
        beside
    }

    #[test]
    fn batches_beside_syncs_are_checked_with_the_file() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        for op in ["sync_get", "sync_update"] {
            let mut beside = prepared(&gpu, op);
            assert_eq!(beside.measured.syncs.len(), 2);
            assert_eq!(beside.verify().unwrap().succeeded, beside.operations());
            beside.version += 1;
            assert!(format!("{:#}", beside.verify().unwrap_err()).contains("not at version"), "{op}");
        }
    }

    #[test]
    fn a_lookup_of_a_changed_key_is_a_fault() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut beside = prepared(&gpu, "sync_get");
        beside.gets.numbers[0] = 0;
        assert!(beside.verify().unwrap_err().to_string().contains("element Some(0)"));
    }
}

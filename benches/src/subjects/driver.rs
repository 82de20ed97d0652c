//! Execution of a [`Plan`] on the device, for maps, sets and the baselines that they are compared with.
use super::map_plan::{Call, Plan};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::record::Param;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::{Buffer, Device, Stream};
use phalanx::Map;
use phalanx::map::Word as MapWord;
use phalanx_kernels::keyed::{OpCode, Outcome};
use workloads::parallel;
use workloads::{Key as Word, Op, value_of};

/// Initial value of outcomes. It is no valid outcome, so that one that is never written is detected.
pub const UNWRITTEN: u8 = 0xff;

/// Structure that can execute a plan.
pub trait Subject<K, V> {
    /// Whether the structure returns values.
    const TELLS: bool;
    /// Whether insertions need values.
    const TAKES_VALUES: bool = Self::TELLS;

    /// Submits a call to the stream without waiting.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails.
    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<K, V>) -> Result<()>;

    /// Removes all pairs.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails.
    fn clear(&mut self) -> Result<()>;

    /// Returns the device memory usage in bytes.
    fn memory_usage(&self) -> usize;

    /// Transforms the loaded contents into the form that the case requires.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Checks that the structure is as full as the case requires, if it contains the number of keys for which
    /// the case states the fill. Nothing was removed before.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the fill differs.
    fn check_fill(&self) -> Result<()> {
        Ok(())
    }
}

/// Batch on the device. Buffers that the subject does not need are empty.
pub struct Batch<K, V> {
    /// Operation code of each key, for [`Call::Mixed`].
    pub codes: Buffer<u8>,
    /// Keys.
    pub keys: Buffer<K>,
    /// Values to insert or merge.
    pub arguments: Buffer<V>,
    /// Output: values found.
    pub results: Buffer<V>,
    /// Output: outcomes.
    pub outcomes: Buffer<u8>,
}

impl<K: MapWord + Word, V: MapWord + Word> Batch<K, V> {
    /// Creates a batch that inserts keys with their values.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device runs out of memory.
    pub fn inserts(device: &Device, keys: &[K]) -> Result<Self> {
        let values: Vec<V> = parallel::map(keys, |&key| value_of(key));
        Ok(Self {
            codes: device.buffer(0)?,
            keys: device.from_slice(keys)?,
            arguments: device.from_slice(&values)?,
            results: device.buffer(0)?,
            outcomes: device.filled(keys.len(), UNWRITTEN)?,
        })
    }

    /// Creates the batch of a plan.
    fn of<S: Subject<K, V>>(device: &Device, plan: &Plan<K, V>) -> Result<Self> {
        let stream = &plan.stream;
        let codes: Vec<u8> = match plan.call {
            Call::Mixed => stream.ops.iter().map(|op| code(*op)).collect(),
            _ => Vec::new(),
        };
        let arguments = if S::TAKES_VALUES { &stream.values[..] } else { &[] };
        let results = if S::TELLS { stream.len() } else { 0 };
        Ok(Self {
            codes: device.from_slice(&codes)?,
            keys: device.from_slice(&stream.keys)?,
            arguments: device.from_slice(arguments)?,
            results: device.zeroed(results)?,
            outcomes: device.filled(stream.len(), UNWRITTEN)?,
        })
    }

    /// Resets the outputs.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails.
    pub fn forget(&mut self) -> Result<()> {
        self.results.fill_bytes(0)?;
        Ok(self.outcomes.fill_bytes(UNWRITTEN)?)
    }

    /// Returns the number of elements with this outcome.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails.
    pub fn count(&self, outcome: Outcome) -> Result<usize> {
        let codes = self.outcomes.read()?;
        Ok(parallel::count(codes.len(), |index| codes[index] == outcome as u8))
    }
}

/// Returns the operation code in a mixed batch.
fn code(op: Op) -> u8 {
    let coded = match op {
        Op::Insert | Op::Update => OpCode::INSERT,
        Op::ReadModifyWrite => OpCode::ADD,
        Op::Remove => OpCode::REMOVE,
        Op::Read | Op::FindHit | Op::FindMiss | Op::Scan => OpCode::GET,
    };
    coded.code() as u8
}

/// Implements [`Subject::ask`] for a map.
///
/// # Errors
/// Returns [`phalanx::Error`] from the map.
pub fn ask<K: MapWord, V: MapWord>(
    map: &impl Map<Key = K, Value = V>,
    stream: &Stream,
    call: Call,
    batch: &mut Batch<K, V>,
) -> Result<()> {
    let Batch { codes, keys, arguments, results, outcomes } = batch;
    let batches = map.on(stream);
    match call {
        Call::Insert => batches.insert(keys, arguments, Some(outcomes))?,
        Call::Get => batches.get(keys, results, outcomes)?,
        Call::Remove => batches.remove(keys, outcomes)?,
        Call::Mixed => batches.execute(codes, keys, arguments, results, outcomes)?,
    }
    Ok(())
}

/// Inserts the initial pairs, and checks that all of them were inserted.
///
/// # Errors
/// Returns [`anyhow::Error`] when a pair already existed or did not fit, and when the device fails.
pub fn load<K: MapWord + Word, V: MapWord + Word>(
    gpu: &Gpu,
    subject: &mut impl Subject<K, V>,
    preload: &mut Batch<K, V>,
) -> Result<()> {
    preload.forget()?;
    gpu.device.synchronize()?;
    subject.ask(&gpu.stream, Call::Insert, preload)?;
    gpu.stream.synchronize()?;
    let (inserted, asked) = (preload.count(Outcome::Inserted)?, preload.keys.len());
    ensure!(inserted == asked, "only {inserted} of {asked} keys could be loaded beforehand");
    subject.settle()?;
    subject.check_fill()
}

/// Check of a map's contents.
type Check<M> = Box<dyn Fn(&M) -> Result<()>>;

/// Submits a batch of lookups of keys to the stream, in a way of its own.
pub type Get<M> = fn(&mut M, &Stream, &mut Batch<<M as Map>::Key, <M as Map>::Value>) -> Result<()>;

/// Returns whether the case uses the read-only kernels of frozen maps, which have the operations `reads`.
///
/// # Errors
/// Returns [`anyhow::Error`] when the parameter is no flag, or the operation is another one.
pub fn frozen(case: &Case, reads: &[&str]) -> Result<bool> {
    flag(case, "frozen", reads)
}

/// Returns a parameter that is true or false, the default. It can be true for the operations `ops`.
///
/// # Errors
/// Returns [`anyhow::Error`] when the parameter is no flag, or the operation is another one.
pub fn flag(case: &Case, name: &str, ops: &[&str]) -> Result<bool> {
    let is_set = match case.params.get(name) {
        None => false,
        Some(Param::Flag(is_set)) => *is_set,
        Some(other) => bail!("`{name}` is {other}; it can be true or false"),
    };
    let is_right = !is_set || ops.contains(&case.op.as_str());
    ensure!(is_right, "`{name}` is true, and {} is none of {}", case.op, ops.join(", "));
    Ok(is_set)
}

/// Map of `phalanx`, and what the case requires of its contents.
pub struct Tested<M: Map> {
    /// Map.
    pub map: M,
    /// Performs [`Subject::settle`].
    pub settle: fn(&M) -> Result<()>,
    /// Performs [`Subject::check_fill`].
    pub check: Check<M>,
    /// Performs [`Call::Get`], if not by the map's batches.
    pub get: Option<Get<M>>,
}

impl<M: Map + 'static> Tested<M> {
    /// Returns a map that is to pass `check` after insertions.
    pub fn new(map: M, check: impl Fn(&M) -> Result<()> + 'static) -> Self {
        Self { map, settle: |_| Ok(()), check: Box::new(check), get: None }
    }

    /// Returns a map whose `fill` is to be `share` when it contains `of` pairs. `fill` returns the fraction
    /// of memory that pairs occupy, or of slots in use.
    pub fn filled(map: M, share: f64, of: u64, fill: fn(&M) -> phalanx::Result<f64>) -> Self {
        Self::new(map, move |map| {
            let pairs = map.len()? as u64;
            if pairs != of {
                return Ok(());
            }
            let found = fill(map)?;
            let is_right = (found - share).abs() < tolerance(pairs);
            ensure!(is_right, "the table is filled to {found:.3}, and the case says {share}");
            Ok(())
        })
    }
}

/// Returns the permitted deviation of a table's fill: table sizes are quantized, and the distribution of keys
/// is random.
fn tolerance(pairs: u64) -> f64 {
    0.02 + 2.0 / (pairs as f64).sqrt()
}

impl<M: Map<Key: MapWord, Value: MapWord>> Subject<M::Key, M::Value> for Tested<M> {
    const TELLS: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<M::Key, M::Value>) -> Result<()> {
        if let (Some(get), Call::Get) = (self.get, call) {
            return get(&mut self.map, stream, batch);
        }
        ask(&self.map, stream, call, batch)
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.map.clear()?)
    }

    fn memory_usage(&self) -> usize {
        self.map.memory_usage()
    }

    fn settle(&mut self) -> Result<()> {
        (self.settle)(&self.map)
    }

    fn check_fill(&self) -> Result<()> {
        (self.check)(&self.map)
    }
}

/// Prepared case on the device.
pub struct Prepared<'a, K, V, S> {
    gpu: &'a Gpu,
    plan: Plan<K, V>,
    subject: S,
    preload: Option<Batch<K, V>>,
    batch: Batch<K, V>,
    /// Whether the subject has been filled. A new one is empty, and a first launch clears nothing.
    is_loaded: bool,
    measure: Measure<K, S>,
    measured: Vec<Metric>,
}

/// Measurement of the structure and the keys of the timed batch, after the first repetition.
type Measure<K, S> = fn(&S, &Buffer<K>) -> Result<Vec<Metric>>;

impl<'a, K: MapWord + Word, V: MapWord + Word, S: Subject<K, V>> Prepared<'a, K, V, S> {
    /// Copies the inputs of a plan to the device.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device runs out of memory.
    pub fn new(gpu: &'a Gpu, plan: Plan<K, V>, subject: S) -> Result<Self> {
        let batch = Batch::of::<S>(&gpu.device, &plan)?;
        let there = &plan.preload;
        let preload = if there.is_empty() { None } else { Some(Batch::inserts(&gpu.device, there)?) };
        let (measure, measured): (Measure<K, S>, _) = (|_, _| Ok(Vec::new()), Vec::new());
        Ok(Self { gpu, plan, subject, preload, batch, is_loaded: false, measure, measured })
    }

    /// Adds a measurement.
    pub fn measuring(self, measure: Measure<K, S>) -> Self {
        Self { measure, ..self }
    }

    /// Fills the subject with the initial pairs, and checks that all of them were inserted.
    fn load(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_loaded, true) {
            self.subject.clear()?;
        }
        let Some(preload) = &mut self.preload else { return Ok(()) };
        load(self.gpu, &mut self.subject, preload)
    }

    /// Returns the values in the results, if the subject returns values.
    fn told(&self) -> Result<Option<Vec<V>>> {
        if S::TELLS { Ok(Some(self.batch.results.read()?)) } else { Ok(None) }
    }

    /// Checks the contents after the operation.
    fn verify_after(&mut self) -> Result<()> {
        self.batch.forget()?;
        self.gpu.device.synchronize()?;
        self.subject.ask(&self.gpu.stream, Call::Get, &mut self.batch)?;
        self.gpu.stream.synchronize()?;
        self.plan.judge_after(&self.batch.outcomes.read()?, self.told()?.as_deref())
    }
}

impl<K: MapWord + Word, V: MapWord + Word, S: Subject<K, V>> Benchmark for Prepared<'_, K, V, S> {
    fn restore(&mut self) -> Result<()> {
        if self.plan.writes() || !self.is_loaded {
            self.load().context("what is to be there before")?;
        }
        self.batch.forget()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.subject.ask(&self.gpu.stream, self.plan.call, &mut self.batch)
    }

    fn verify(&mut self) -> Result<Verified> {
        let verified = self.plan.judge(&self.batch.outcomes.read()?, self.told()?.as_deref())?;
        if self.plan.writes() {
            self.verify_after()?;
        }
        if self.plan.call == Call::Insert {
            self.subject.check_fill()?;
        }
        if self.measured.is_empty() {
            self.measured = (self.measure)(&self.subject, &self.batch.keys)?;
        }
        Ok(verified)
    }

    fn operations(&self) -> u64 {
        self.batch.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = Metric::TableBytes(self.subject.memory_usage() as u64);
        [&[bytes][..], &self.measured].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;
    use phalanx::SlabHash;

    /// Map that ignores one of the calls.
    struct Mute(Tested<SlabHash<u32, u32>>, Option<Call>);

    impl Subject<u32, u32> for Mute {
        const TELLS: bool = true;

        fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<u32, u32>) -> Result<()> {
            if Some(call) == self.1 { Ok(()) } else { self.0.ask(stream, call, batch) }
        }

        fn clear(&mut self) -> Result<()> {
            self.0.clear()
        }

        fn memory_usage(&self) -> usize {
            self.0.memory_usage()
        }

        fn check_fill(&self) -> Result<()> {
            self.0.check_fill()
        }
    }

    /// Runs one repetition on a table of 0.6 utilisation, with `share` as the expected fill.
    fn repetition(op: &str, share: f64, mute: Option<Call>) -> Result<Verified> {
        let gpu = Gpu::open(DeviceChoice::Emulator)?;
        let case = crate::engine::suite::Case { op: op.to_owned(), ..first_case("slabhash/fig5", 0) };
        let plan = Plan::new(&case)?;
        let builder = SlabHash::builder().device(&gpu.device).capacity(plan.keys as usize);
        let map = builder.utilisation(0.6).build()?;
        let filled = Tested::filled(map, share, plan.keys, SlabHash::utilisation);
        let mut prepared = Prepared::new(&gpu, plan, Mute(filled, mute))?;
        prepared.restore()?;
        prepared.launch()?;
        gpu.device.synchronize()?;
        prepared.verify()
    }

    #[test]
    fn a_table_filled_otherwise_than_the_case_says_is_a_fault() {
        for op in ["insert", "find_hit"] {
            assert_eq!(repetition(op, 0.6, None).unwrap(), Verified { compared: 1024, succeeded: 1024 });
            let error = format!("{:#}", repetition(op, 0.8, None).unwrap_err());
            assert!(error.contains("the table is filled to") && error.contains("says 0.8"), "{error}");
        }
    }

    #[test]
    fn calls_that_do_nothing_are_faults() {
        let fault = |op, call| format!("{:#}", repetition(op, 0.6, Some(call)).unwrap_err());
        assert!(fault("insert", Call::Insert).contains("answered None"));
        assert!(fault("insert", Call::Get).contains("left its key as None"));
        assert!(fault("find_hit", Call::Insert).contains("only 0 of 1024 keys could be loaded"));
        assert!(fault("remove_half", Call::Remove).contains("answered None"));
    }
}

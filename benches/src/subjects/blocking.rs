//! Blocking calls on slices in host memory, as most programs use a map: their times are those of the whole
//! call, by the host's clock.
//!
//! | op | initial pairs | what is timed |
//! |---|---|---|
//! | `host_insert` | none | `insert` of `n` new pairs into an empty map of that capacity |
//! | `host_get`, `host_contains` | `n` | `get` or `contains_key` of all keys, in another order |
//! | `host_get_into`, `host_contains_into` | `n` | the same into slices that were used before |
//! | `pinned_insert`, `pinned_get_into`, `pinned_contains_into` | as above | the same, with all slices in pinned buffers |
//! | `host_export` | `n` | `export` |
//! | `grow` | none | `insert` of `n` new pairs in `calls` calls (default 1), into a map for `capacity` pairs (default 1000) |
//! | `call_get`, `call_get_into`, `call_contains`, `call_insert`, `call_insert_new`, `call_upsert`, `call_replace`, `call_remove`, `call_take` | `n` | calls of `batch` elements; the record's time is the median of `calls` calls (default 10 000), `p99_ms` their 99th percentile. `call_insert` and `call_replace` replace values; `call_remove` and `call_take` ask for absent keys |
//!
//! Every result is compared. `peak_device_bytes` is the largest amount of device memory in use beyond that
//! before the map was created, as far as it is seen between calls.
use super::increments::verify_all;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use phalanx::gpu::Tier;
use phalanx::map::Word as MapWord;
use phalanx::{Map, Merge, Outcome};
use rayon::prelude::*;
use std::ops::RangeInclusive;
use std::time::Instant;
use workloads::parallel;
use workloads::random::{Source, tabulate};
use workloads::{Key as Word, Permutation, UniqueKeys, value_of};

/// Operations of this module.
pub const OPS: &[&str] = &[
    "host_insert", "host_get", "host_contains", "host_get_into", "host_contains_into", "host_export",
    "pinned_insert", "pinned_get_into", "pinned_contains_into", "grow", "call_get", "call_get_into",
    "call_contains", "call_insert", "call_insert_new", "call_upsert", "call_replace", "call_remove",
    "call_take", "call_range",
];
/// Number of pairs of a range of `call_range`.
const RANGE: usize = 16;

/// Returns the pairs of ranges of keys.
pub type Ranges<M> = fn(&M, &[RangeInclusive<KeyOf<M>>]) -> phalanx::Result<Vec<Vec<PairOf<M>>>>;

type KeyOf<M> = <M as Map>::Key;
type PairOf<M> = (KeyOf<M>, <M as Map>::Value);

/// Number of timed calls for a latency, unless the case specifies it.
const CALLS: f64 = 10_000.0;
/// Capacity of a map that grows, unless the case specifies it.
const CAPACITY: f64 = 1000.0;

/// Results of a call, for verification.
enum Answers<K, V> {
    Outcomes(Vec<Outcome>),
    Values(Vec<Option<V>>),
    Flags(Vec<bool>),
    Pairs(Vec<K>, Vec<V>),
    Ranges(Vec<Vec<(K, V)>>),
}

/// Returns the results of a call that writes them to slices.
fn answers_of<K, V: Copy>(values: &[V], found: &[bool]) -> Answers<K, V> {
    Answers::Values(values.iter().zip(found).map(|(&value, &found)| found.then_some(value)).collect())
}

/// Prepared case.
pub struct Blocking<'a, M: Map> {
    gpu: &'a Gpu,
    op: String,
    make: Box<dyn Fn(usize) -> Result<M> + 'a>,
    map: Option<M>,
    /// For `call_range`.
    ranges: Option<Ranges<M>>,
    /// Keys of the map, in the order of their insertion.
    keys: Vec<M::Key>,
    values: Vec<M::Value>,
    /// Keys of the timed call.
    asked: Vec<M::Key>,
    answers: Vec<Answers<M::Key, M::Value>>,
    calls: usize,
    capacity: usize,
    batch: usize,
    ms: Vec<f64>,
    used_before: usize,
    peak: usize,
}

impl<'a, M: Map<Key: MapWord + Word, Value: MapWord + Word>> Blocking<'a, M> {
    /// Generates the inputs. `make` creates an empty map of a capacity.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a parameter is missing or of another type.
    pub fn new(gpu: &'a Gpu, case: &Case, make: impl Fn(usize) -> Result<M> + 'a) -> Result<Self> {
        let (n, unique) = (case.n as usize, UniqueKeys::<M::Key>::new(case.seed));
        let keys = unique.present(n)?;
        let order = Permutation::new(case.n, &Source::new(case.seed, "order of host calls"));
        let asked = match case.op.as_str() {
            "call_remove" | "call_take" => unique.absent(n)?,
            "call_range" => sorted(&keys),
            _ => tabulate(n, |index| unique.at(order.at(index))),
        };
        let is_latency = case.op.starts_with("call_");
        let calls = case.number_if_given("calls")?.unwrap_or(if is_latency { CALLS } else { 1.0 });
        Ok(Self {
            gpu,
            op: case.op.clone(),
            make: Box::new(make),
            map: None,
            ranges: None,
            values: parallel::map(&keys, |&key| value_of(key)),
            keys,
            asked,
            answers: Vec::new(),
            calls: (calls as usize).max(1),
            capacity: case.number_if_given("capacity")?.unwrap_or(CAPACITY) as usize,
            batch: if is_latency { (case.number("batch")? as usize).clamp(1, n) } else { n },
            ms: Vec::new(),
            used_before: 0,
            peak: 0,
        })
    }

    /// Uses `ranges` for `call_range`.
    pub fn with_ranges(mut self, ranges: Option<Ranges<M>>) -> Self {
        self.ranges = ranges;
        self
    }

    /// Creates a map for a capacity, after the last one was dropped.
    fn renew(&mut self, capacity: usize) -> Result<()> {
        self.map = None;
        self.gpu.device.synchronize()?;
        self.used_before = used(self.gpu)?;
        self.map = Some((self.make)(capacity)?);
        Ok(())
    }

    fn map(&self) -> Result<&M> {
        self.map.as_ref().context("the map does not exist yet")
    }

    fn fill(&mut self) -> Result<()> {
        if self.map.is_none() {
            self.renew(self.keys.len())?;
            let placed = self.map()?.insert(&self.keys, &self.values)?.all_placed();
            ensure!(placed, "the initial pairs do not fit");
        }
        Ok(())
    }

    fn timed(&mut self, call: impl FnOnce(&M) -> Result<Answers<M::Key, M::Value>>) -> Result<()> {
        let start = Instant::now();
        let answers = call(self.map()?)?;
        self.took(start);
        self.answers.push(answers);
        Ok(())
    }

    fn took(&mut self, start: Instant) {
        self.ms.push(start.elapsed().as_secs_f64() * 1e3);
    }

    /// Performs call number `number` on `batch` elements.
    fn small_call(&mut self, number: usize) -> Result<()> {
        let first = number * self.batch % (self.asked.len() - self.batch + 1);
        let keys = self.asked[first..first + self.batch].to_vec();
        match self.op.as_str() {
            "call_get" => self.timed(|map| Ok(Answers::Values(map.get(&keys)?))),
            "call_get_into" => self.get_into(&keys),
            "call_contains" => self.timed(|map| Ok(Answers::Flags(map.contains_key(&keys)?))),
            "call_remove" => self.timed(|map| Ok(Answers::Flags(map.remove(&keys)?))),
            "call_take" => self.timed(|map| Ok(Answers::Values(map.take(&keys)?.into_parts().0))),
            "call_range" => {
                let ranges = self.ranges.context("hash tables have no ranges")?;
                let of = |pairs: &[M::Key]| pairs[0]..=pairs[pairs.len() - 1];
                let asked: Vec<_> = self.ranges_of(number).map(of).collect();
                self.timed(|map| Ok(Answers::Ranges(ranges(map, &asked)?)))
            }
            _ => self.small_insertion(&keys),
        }
    }

    /// Returns the keys of the ranges of call number `number`.
    fn ranges_of(&self, number: usize) -> impl Iterator<Item = &[M::Key]> {
        let len = RANGE.min(self.asked.len());
        let first = move |index: usize| (number * self.batch + index) * len % (self.asked.len() - len + 1);
        (0..self.batch).map(move |index| &self.asked[first(index)..first(index) + len])
    }

    /// Performs a call that inserts pairs with these keys, all of which are present.
    fn small_insertion(&mut self, keys: &[M::Key]) -> Result<()> {
        let values: Vec<M::Value> = keys.iter().map(|key| value_of(*key)).collect();
        match self.op.as_str() {
            "call_insert_new" => {
                self.timed(|map| Ok(Answers::Outcomes(map.insert_new(keys, &values)?.into())))
            }
            "call_upsert" => {
                self.timed(|map| Ok(Answers::Outcomes(map.upsert(Merge::Max, keys, &values)?.into())))
            }
            "call_replace" => {
                self.timed(|map| Ok(Answers::Values(map.replace(keys, &values)?.into_parts().0)))
            }
            _ => self.timed(|map| Ok(Answers::Outcomes(map.insert(keys, &values)?.into()))),
        }
    }

    /// Looks keys up, with results in memory that was used before.
    fn get_into(&mut self, keys: &[M::Key]) -> Result<()> {
        let mut values: Vec<M::Value> = keys.iter().map(|_| value_of(keys[0])).collect();
        let mut found = vec![true; keys.len()];
        let start = Instant::now();
        self.map()?.get_into(keys, &mut values, &mut found)?;
        self.took(start);
        self.answers.push(answers_of(&values, &found));
        Ok(())
    }

    /// Tests which keys are present, with results in memory that was used before.
    fn contains_into(&mut self, keys: &[M::Key]) -> Result<()> {
        let mut found = vec![true; keys.len()];
        let start = Instant::now();
        self.map()?.contains_into(keys, &mut found)?;
        self.took(start);
        self.answers.push(Answers::Flags(found));
        Ok(())
    }

    /// Performs a call whose slices are all in pinned buffers.
    fn pinned_call(&mut self) -> Result<()> {
        let (device, len) = (self.gpu.device.clone(), self.keys.len());
        let is_insert = self.op == "pinned_insert";
        let mut keys = device.buffer_on::<M::Key>(Tier::Pinned, len)?;
        let mut values = device.buffer_on::<M::Value>(Tier::Pinned, len)?;
        let mut found = device.buffer_on::<u8>(Tier::Pinned, len)?;
        keys.write(if is_insert { &self.keys } else { &self.asked })?;
        values.write(&self.values)?;
        let (keys, values) = (keys.as_slice()?, values.as_mut_slice()?);
        let found = found.as_mut_slice()?;
        // SAFETY: the bytes are zeros, which are booleans, as are those that the calls write.
        let found = unsafe { std::slice::from_raw_parts_mut(found.as_mut_ptr().cast::<bool>(), len) };
        let start = Instant::now();
        let answers = match self.op.as_str() {
            "pinned_insert" => Answers::Outcomes(self.map()?.insert(keys, values)?.into()),
            "pinned_get_into" => {
                self.map()?.get_into(keys, values, found)?;
                Answers::Flags(Vec::new())
            }
            _ => {
                self.map()?.contains_into(keys, found)?;
                Answers::Flags(Vec::new())
            }
        };
        self.took(start);
        self.answers.push(match self.op.as_str() {
            "pinned_insert" => answers,
            "pinned_get_into" => answers_of(values, found),
            _ => Answers::Flags(found.to_vec()),
        });
        Ok(())
    }

    /// Inserts all pairs in `calls` calls. Returns the milliseconds of the calls alone.
    fn grow(&mut self) -> Result<()> {
        let len = self.keys.len().div_ceil(self.calls);
        for first in (0..self.keys.len()).step_by(len) {
            let part = first..(first + len).min(self.keys.len());
            let (keys, values) = (self.keys[part.clone()].to_vec(), self.values[part].to_vec());
            self.timed(|map| Ok(Answers::Outcomes(map.insert(&keys, &values)?.into())))?;
            self.peak = self.peak.max(used(self.gpu)?.saturating_sub(self.used_before));
        }
        Ok(())
    }

    /// Checks the answers of call number `number`, of `calls` calls on all keys together.
    fn check(&self, number: usize, answers: &Answers<M::Key, M::Value>) -> Result<usize> {
        let first =
            if self.is_latency() { number * self.batch % (self.asked.len() - self.batch + 1) } else { 0 };
        let wanted = match self.op.as_str() {
            "call_insert" | "call_upsert" => Outcome::Replaced,
            "call_insert_new" => Outcome::Found,
            _ => Outcome::Inserted,
        };
        let is_right = match answers {
            Answers::Outcomes(outcomes) => {
                parallel::first(outcomes.len(), |index| outcomes[index] != wanted).is_none()
            }
            Answers::Values(values) => {
                let asked = &self.asked[first..];
                let is_present = self.op != "call_take";
                let expected = |key| is_present.then(|| value_of(key));
                let is_wrong = |index: usize| values[index] != expected(asked[index]);
                values.len() == self.batch && parallel::first(values.len(), is_wrong).is_none()
            }
            Answers::Flags(flags) => {
                flags.len() == self.batch && flags.iter().all(|&flag| flag == (self.op != "call_remove"))
            }
            Answers::Pairs(keys, values) => {
                let is_wrong = |index: usize| value_of::<_, M::Value>(keys[index]) != values[index];
                parallel::first(values.len(), is_wrong).is_none() && sorted(keys) == sorted(&self.keys)
            }
            Answers::Ranges(ranges) => {
                let pair = |&key: &M::Key| (key, value_of::<_, M::Value>(key));
                let expected = self.ranges_of(number).map(|keys| Vec::from_iter(keys.iter().map(pair)));
                expected.eq(ranges.iter().cloned())
            }
        };
        ensure!(is_right, "an answer of call {number} of {} is wrong", self.op);
        Ok(match answers {
            Answers::Outcomes(outcomes) => outcomes.len(),
            Answers::Values(values) => values.len(),
            Answers::Flags(flags) => flags.len(),
            Answers::Pairs(keys, _) => keys.len(),
            Answers::Ranges(ranges) => ranges.len(),
        })
    }

    fn is_latency(&self) -> bool {
        self.op.starts_with("call_")
    }
}

fn sorted<K: Ord + Copy + Send>(keys: &[K]) -> Vec<K> {
    let mut keys = keys.to_vec();
    keys.par_sort_unstable();
    keys
}

/// Returns the bytes of device memory in use, by all programs.
fn used(gpu: &Gpu) -> Result<usize> {
    let (free, total) = gpu.device.memory()?;
    Ok(total - free)
}

/// Returns the value below which a share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(0.0)
}

impl<M: Map<Key: MapWord + Word, Value: MapWord + Word>> Benchmark for Blocking<'_, M> {
    fn restore(&mut self) -> Result<()> {
        (self.answers, self.ms, self.peak) = (Vec::new(), Vec::new(), 0);
        match self.op.as_str() {
            "grow" => self.renew(self.capacity)?,
            "host_insert" | "pinned_insert" => match &mut self.map {
                Some(map) => map.clear()?,
                None => self.renew(self.keys.len())?,
            },
            _ => self.fill()?,
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let (keys, values, asked) = (self.keys.clone(), self.values.clone(), self.asked.clone());
        match self.op.as_str() {
            "host_insert" => self.timed(|map| Ok(Answers::Outcomes(map.insert(&keys, &values)?.into()))),
            "host_get" => self.timed(|map| Ok(Answers::Values(map.get(&asked)?))),
            "host_contains" => self.timed(|map| Ok(Answers::Flags(map.contains_key(&asked)?))),
            "host_get_into" => self.get_into(&asked),
            "host_contains_into" => self.contains_into(&asked),
            "pinned_insert" | "pinned_get_into" | "pinned_contains_into" => self.pinned_call(),
            "host_export" => self.timed(|map| {
                let (keys, values) = map.export()?;
                Ok(Answers::Pairs(keys, values))
            }),
            "grow" => self.grow(),
            _ if self.is_latency() => (0..self.calls).try_for_each(|number| self.small_call(number)),
            op => bail!("'{op}' is no call on host slices"),
        }
    }

    fn own_ms(&self) -> Option<f64> {
        if !self.is_latency() {
            return Some(self.ms.iter().sum());
        }
        let mut sorted = self.ms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(quantile(&sorted, 0.5))
    }

    fn verify(&mut self) -> Result<Verified> {
        let numbered = self.answers.iter().enumerate();
        let checked: Result<Vec<usize>> =
            numbered.map(|(number, answers)| self.check(number, answers)).collect();
        let compared: usize = checked?.iter().sum();
        if matches!(self.op.as_str(), "host_insert" | "pinned_insert" | "grow") {
            verify_all(self.map()?, &self.keys)?;
            ensure!(compared == self.keys.len(), "{compared} of {} pairs have outcomes", self.keys.len());
        }
        Ok(Verified::all(if self.is_latency() { self.batch } else { compared }))
    }

    fn operations(&self) -> u64 {
        self.batch as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.map.as_ref().map_or(0, Map::memory_usage);
        let mut metrics = vec![Metric::TableBytes(bytes as u64)];
        if self.is_latency() {
            let mut sorted = self.ms.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            metrics.push(Metric::P99(quantile(&sorted, 0.99)));
        }
        if self.op == "grow" {
            metrics.push(Metric::PeakBytes(self.peak as u64));
        }
        metrics
    }
}

//! Batches whose keys are not uniformly random: skewed, or in an order.
//!
//! | param | what |
//! |---|---|
//! | `pattern` | `random` (distinct keys), `ascending` (0, 1, ..), `descending`, `sorted` (sorted random keys), `narrow` (random keys of a range of 2 n), `runs` (1024 ascending runs), `interleaved` (two), `zigzag` (from both ends to the middle), `nearly` (sorted, but 1 % exchanged), `append` (ascending, above all initial keys), `zipf` (with `theta`), `one` (one key), `repeated` (each key `copies` times, by default 10, in random order; the map is made for the distinct ones) |
//! | `initial_n` | number of initial pairs, of random keys (for `append`: of 0, 1, ..); default 0 |
//! | `calls` | `buffers` (default): a batch on device buffers, timed on the device; `slices`: a blocking call, timed on the host |
//!
//! Trees and lists have the parameter `large_batches`, too: `default`, `rebuild` or `concurrent`.
//!
//! The operations are `batch_insert`, `batch_insert_new`, `batch_add`, `batch_get`, `batch_get_or_insert` and
//! `batch_remove`, of `n` elements each. Before `batch_get` and `batch_remove` the keys of the batch are
//! present. Every outcome and value is compared with those of all serial orders: each key has exactly one
//! element that is `Inserted` (or `Removed`), and sums are exact.
use super::driver::{Batch, Get, UNWRITTEN};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::record::Param;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use phalanx::map::Word as MapWord;
use phalanx::{Map, Merge, Outcome};
use rayon::prelude::*;
use std::time::Instant;
use workloads::parallel;
use workloads::random::{Source, tabulate};
use workloads::{Key as Word, Permutation, ScrambledZipf, UniqueKeys, value_of};

/// Operations of this module.
pub const OPS: &[&str] =
    &["batch_insert", "batch_insert_new", "batch_add", "batch_get", "batch_get_or_insert", "batch_remove"];

/// Returns the name of the case's pattern.
fn pattern(case: &Case) -> String {
    case.params.get("pattern").map_or_else(|| "random".to_owned(), Param::to_string)
}

/// Returns the keys of a batch of `n`, by the case's pattern.
fn keys<K: Word>(case: &Case, initial: u64) -> Result<Vec<K>> {
    let (n, unique) = (case.n, UniqueKeys::<K>::new(case.seed));
    let random = || -> Result<Vec<K>> { Ok(unique.present(n as usize)?) };
    let sorted = || -> Result<Vec<K>> {
        let mut keys = random()?;
        keys.par_sort_unstable();
        Ok(keys)
    };
    let counted = |of: &(dyn Fn(u64) -> u64 + Sync)| tabulate(n as usize, |index| K::truncate(of(index)));
    Ok(match pattern(case).as_str() {
        "random" => random()?,
        "ascending" => counted(&|index| index),
        "append" => counted(&|index| initial + index),
        "descending" => counted(&|index| n - 1 - index),
        "zigzag" => counted(&|index| if index % 2 == 0 { index / 2 } else { n - 1 - index / 2 }),
        "interleaved" => counted(&|index| index % 2 * (n << 4) + index / 2),
        "sorted" => sorted()?,
        "runs" => {
            let mut keys = random()?;
            keys.par_chunks_mut((n as usize).div_ceil(1024)).for_each(<[K]>::sort_unstable);
            keys
        }
        "nearly" => {
            let (mut keys, order) = (sorted()?, Permutation::new(n, &Source::new(case.seed, "displaced")));
            (0..n / 200)
                .for_each(|pair| keys.swap(order.at(2 * pair) as usize, order.at(2 * pair + 1) as usize));
            keys
        }
        "narrow" => {
            let order = Permutation::new(2 * n, &Source::new(case.seed, "narrow"));
            counted(&|index| (1 << 30) + order.at(index))
        }
        "zipf" => {
            let zipf = ScrambledZipf::new(n, case.number("theta")?, case.seed)?;
            let source = Source::new(case.seed, "keys of a batch");
            source.generate(n as usize, |generator, _| unique.at(zipf.item(generator)))
        }
        "one" => vec![unique.at(0); n as usize],
        "repeated" => {
            let (copies, order) = (copies(case)?, Permutation::new(n, &Source::new(case.seed, "repeated")));
            tabulate(n as usize, |index| unique.at(order.at(index) / copies))
        }
        other => bail!(
            "`pattern` is '{other}', which is none of those that `benches/src/subjects/patterns.rs` lists"
        ),
    })
}

/// Returns the number of elements of each key of the pattern `repeated`.
fn copies(case: &Case) -> Result<u64> {
    Ok((case.number_if_given("copies")?.unwrap_or(10.0) as u64).max(1))
}

/// Returns the number of pairs for which the map is made.
fn capacity(case: &Case, initial: usize) -> Result<usize> {
    Ok(initial + if pattern(case) == "repeated" { case.n.div_ceil(copies(case)?) } else { case.n } as usize)
}

/// Prepared case.
pub struct Patterned<'a, M: Map> {
    gpu: &'a Gpu,
    op: String,
    map: M,
    initial: Batch<M::Key, M::Value>,
    initial_keys: usize,
    keys: Vec<M::Key>,
    sorted: Vec<M::Key>,
    arguments: Vec<M::Value>,
    batch: Batch<M::Key, M::Value>,
    is_blocking: bool,
    /// Performs `batch_get`, if not by the map's batches.
    get: Option<Get<M>>,
    /// Outcomes of the blocking call.
    answers: Option<Vec<u8>>,
    ms: Option<f64>,
}

impl<'a, M: Map<Key: MapWord + Word, Value: MapWord + Word>> Patterned<'a, M> {
    /// Generates the inputs. `make` creates an empty map of a capacity.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a parameter is missing or of another type.
    pub fn new(gpu: &'a Gpu, case: &Case, make: impl Fn(usize) -> Result<M>) -> Result<Self> {
        let initial = case.number_if_given("initial_n")?.unwrap_or(0.0) as u64;
        let keys = keys::<M::Key>(case, initial)?;
        let is_append = pattern(case) == "append";
        let others: Vec<M::Key> = match is_append {
            true => tabulate(initial as usize, <M::Key as Word>::truncate),
            false => UniqueKeys::<M::Key>::new(case.seed).absent(initial as usize)?,
        };
        let mut sorted = keys.clone();
        sorted.par_sort_unstable();
        let others: Vec<M::Key> =
            others.into_par_iter().filter(|key| sorted.binary_search(key).is_err()).collect();
        let batch = Batch { results: gpu.device.zeroed(keys.len())?, ..Batch::inserts(&gpu.device, &keys)? };
        Ok(Self {
            gpu,
            op: case.op.clone(),
            map: make(capacity(case, initial as usize)?)?,
            initial: Batch::inserts(&gpu.device, &others)?,
            initial_keys: others.len(),
            arguments: parallel::map(&keys, |&key| value_of(key)),
            keys,
            sorted,
            batch,
            is_blocking: case.choice("calls", &[("buffers", false), ("slices", true)])?,
            get: None,
            answers: None,
            ms: None,
        })
    }

    /// Returns the case with another way to submit `batch_get`.
    pub fn with_get(self, get: Option<Get<M>>) -> Self {
        Self { get, ..self }
    }

    /// Whether the keys of the batch are present before it.
    fn reads(&self) -> bool {
        matches!(self.op.as_str(), "batch_get" | "batch_remove")
    }

    fn submit(&mut self) -> Result<()> {
        if let (Some(get), "batch_get") = (self.get, self.op.as_str()) {
            return get(&mut self.map, &self.gpu.stream, &mut self.batch);
        }
        let Batch { keys, arguments, results, outcomes, .. } = &mut self.batch;
        let batches = self.map.on(&self.gpu.stream);
        match self.op.as_str() {
            "batch_insert" => batches.insert(&*keys, &*arguments, Some(outcomes))?,
            "batch_insert_new" => batches.insert_new(&*keys, &*arguments, Some(outcomes))?,
            "batch_add" => batches.upsert(Merge::Add, &*keys, &*arguments, Some(outcomes))?,
            "batch_get" => batches.get(&*keys, results, outcomes)?,
            "batch_get_or_insert" => batches.get_or_insert(&*keys, &*arguments, results, outcomes)?,
            "batch_remove" => batches.remove(&*keys, outcomes)?,
            op => bail!("'{op}' is no operation of a batch"),
        }
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (keys, arguments, map) = (&self.keys, &self.arguments, &self.map);
        let codes = |outcomes: phalanx::Outcomes| outcomes.iter().map(|&outcome| outcome as u8).collect();
        let start = Instant::now();
        let answers: Vec<u8> = match self.op.as_str() {
            "batch_insert" => codes(map.insert(keys, arguments)?),
            "batch_insert_new" => codes(map.insert_new(keys, arguments)?),
            "batch_add" => codes(map.upsert(Merge::Add, keys, arguments)?),
            "batch_remove" => {
                let code = |&removed: &bool| if removed { Outcome::Removed } else { Outcome::Absent } as u8;
                map.remove(keys)?.iter().map(code).collect()
            }
            op => bail!("'{op}' has no blocking call here"),
        };
        self.ms = Some(start.elapsed().as_secs_f64() * 1e3);
        self.answers = Some(answers);
        Ok(())
    }

    /// Checks the outcomes, and the values that were returned.
    fn check(&self, outcomes: &[u8], results: Option<&[M::Value]>) -> Result<()> {
        let (first, other) = match self.op.as_str() {
            "batch_get" => (Outcome::Found, Outcome::Found),
            "batch_remove" => (Outcome::Removed, Outcome::Absent),
            "batch_insert" | "batch_add" => (Outcome::Inserted, Outcome::Replaced),
            _ => (Outcome::Inserted, Outcome::Found),
        };
        ensure!(outcomes.len() == self.keys.len(), "{} outcomes", outcomes.len());
        let is_known = |code: u8| code == first as u8 || code == other as u8;
        ensure!(
            parallel::first(outcomes.len(), |index| !is_known(outcomes[index])).is_none(),
            "an outcome is neither {first:?} nor {other:?}"
        );
        if self.op != "batch_get" {
            let elements = self.keys.iter().zip(outcomes);
            let mut firsts: Vec<M::Key> =
                elements.filter(|(_, code)| **code == first as u8).map(|(key, _)| *key).collect();
            firsts.par_sort_unstable();
            let mut distinct = self.sorted.clone();
            distinct.dedup();
            ensure!(firsts == distinct, "not every key has exactly one element that is {first:?}");
        }
        let keys = &self.keys;
        let is_wrong = |told: &[M::Value], index: usize| told[index] != value_of(keys[index]);
        let told = results.filter(|_| self.op.contains("get"));
        ensure!(
            told.is_none_or(|told| parallel::first(told.len(), |index| is_wrong(told, index)).is_none()),
            "a returned value is wrong"
        );
        Ok(())
    }

    /// Checks the contents after the operation.
    fn check_contents(&self) -> Result<()> {
        let found = self.map.get(&self.keys)?;
        let (op, keys, sorted) = (self.op.as_str(), &self.keys, &self.sorted);
        let times = |key: M::Key| {
            let below = sorted.partition_point(|other| *other < key);
            sorted[below..].partition_point(|other| *other == key) as u64
        };
        let expected = |key: M::Key| match op {
            "batch_remove" => None,
            "batch_add" => {
                let once: M::Value = value_of(key);
                Some(<M::Value as Word>::truncate(once.widen().wrapping_mul(times(key))))
            }
            _ => Some(value_of(key)),
        };
        let wrong = parallel::first(found.len(), |index| found[index] != expected(keys[index]));
        let wrong = wrong.map(|index| (keys[index], found[index]));
        ensure!(wrong.is_none(), "a key, and its value: {wrong:?}");
        let mut distinct = self.sorted.clone();
        distinct.dedup();
        let left = if self.op == "batch_remove" { 0 } else { distinct.len() };
        let (pairs, wanted) = (self.map.len()?, self.initial_keys + left);
        ensure!(pairs == wanted, "{pairs} pairs are there instead of {wanted}");
        Ok(())
    }
}

impl<M: Map<Key: MapWord + Word, Value: MapWord + Word>> Benchmark for Patterned<'_, M> {
    fn restore(&mut self) -> Result<()> {
        self.map.clear()?;
        (self.answers, self.ms) = (None, None);
        let others = self.initial.keys.read()?;
        let values: Vec<M::Value> = parallel::map(&others, |&key| value_of(key));
        ensure!(self.map.insert(&others, &values)?.all_placed(), "the initial pairs do not fit");
        if self.reads() {
            ensure!(self.map.insert(&self.keys, &self.arguments)?.all_placed(), "the keys do not fit");
        }
        self.batch.forget()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        if self.is_blocking { self.call() } else { self.submit() }
    }

    fn own_ms(&self) -> Option<f64> {
        self.ms
    }

    fn verify(&mut self) -> Result<Verified> {
        if self.is_blocking {
            let outcomes = self.answers.as_ref().context("nothing was launched")?;
            self.check(outcomes, None)?;
        } else {
            let outcomes = self.batch.outcomes.read()?;
            ensure!(!outcomes.contains(&UNWRITTEN), "an outcome was not written");
            self.check(&outcomes, Some(&self.batch.results.read()?))?;
        }
        self.check_contents()?;
        Ok(Verified::all(self.keys.len()))
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.map.memory_usage() as u64)]
    }
}

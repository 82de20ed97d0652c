//! A table that is filled to the load of a case, and can be filled again.
use super::inputs::{Inputs, RowOf};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::CacheTable;
use phalanx::cache_table::{HostRows, Lock, MergeBy, Rule, Victims};
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use workloads::Permutation;
use workloads::random::Source;

/// Table of the benchmarks.
pub type Table = CacheTable<u64, f32>;

/// Variant that uses the default kernels.
pub const DEFAULT: &str = "default";

/// Initial value of outcomes. It is no valid outcome, so that one that is never written is detected.
pub const UNWRITTEN: u8 = 0xff;

/// Rules by their names in suites, the default first.
const RULES: &[(&str, Rule)] = &[
    ("Lru", Rule::Lru),
    ("Lfu", Rule::Lfu),
    ("EpochLru", Rule::EpochLru),
    ("EpochLfu", Rule::EpochLfu),
    ("Custom", Rule::Custom),
    ("LfuThenLru", Rule::LfuThenLru),
];

/// Locks by their names in suites, the default first.
const LOCKS: &[(&str, Lock)] =
    &[("groups", Lock::Groups), ("plain", Lock::Plain), ("concurrent", Lock::Concurrent)];

/// Returns the rule that the parameter `rule` names.
pub fn rule(case: &Case) -> Result<Rule> {
    Ok(case.choice("rule", RULES)?)
}

/// Returns a required parameter that is a whole number of at least 1.
pub fn count(case: &Case, name: &str) -> Result<usize> {
    let number = case.number(name)?;
    ensure!(number >= 1.0 && number.fract() == 0.0, "`{name}` is {number}; it must be 1, 2, 3, ...");
    Ok(number as usize)
}

/// Builds the empty table of a case: its `capacity`, `dim`, `buckets`, `rule`, `on_device`, `host_rows`,
/// `lock`, `victims` and `merge_by`.
pub fn build(gpu: &Gpu, case: &Case) -> Result<Table> {
    let two = case.choice("buckets", &[("single", false), ("dual", true)])?;
    let builder = Table::builder().device(&gpu.device).capacity(count(case, "capacity")?).seed(case.seed);
    let builder = builder.dim(count(case, "dim")?).two_buckets(two).rule(rule(case)?);
    let builder = builder.rows_on_device(case.number_if_given("on_device")?.unwrap_or(1.0));
    let builder = builder.lock(case.choice("lock", LOCKS)?);
    let orders = [("auto", HostRows::Auto), ("direct", HostRows::Direct), ("sorted", HostRows::Sorted)];
    let builder = builder.host_rows(case.choice("host_rows", &orders)?);
    let victims = [("summary", Victims::Summary), ("exact", Victims::Exact)];
    let builder = builder.victims(case.choice("victims", &victims)?);
    let ways = [("auto", MergeBy::Auto), ("sort", MergeBy::Sort), ("hash", MergeBy::Hash)];
    let builder = builder.merge_by(case.choice("merge_by", &ways)?);
    let is_default = case.variant == DEFAULT;
    Ok(if is_default { builder } else { builder.variant(&case.variant) }.build()?)
}

/// Deviation of the load at which filling stops, as a fraction of the capacity.
const TOLERANCE: f64 = 0.001;

/// Batches after which a table that does not fill is a fault, as a multiple of the capacity.
const MOST_FILLS: u64 = 8;

/// Table, and the batches of distinct keys that fill it.
pub struct Loaded<'a> {
    pub gpu: &'a Gpu,
    pub table: Table,
    pub inputs: Inputs,
    /// Keys of each batch, in the order of their numbers.
    chunks: Vec<Buffer<u64>>,
    /// Rows of the keys of a batch.
    rows: Buffer<f32>,
    batch: usize,
    /// Number of keys that were inserted: their numbers are below it.
    pub numbers: u64,
    load: f64,
}

impl<'a> Loaded<'a> {
    /// Builds a table, and inserts distinct keys in batches of the case's size until the table is filled to
    /// the fraction `load`.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or the table does not fill.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (table, batch, load) = (build(gpu, case)?, case.n as usize, case.number("load")?);
        ensure!((0.0..=1.0).contains(&load), "`load` is {load}; it must lie in 0..=1");
        ensure!(4 * batch <= table.capacity(), "a batch has at most a quarter of the capacity");
        let inputs = Inputs::new(case.seed, table.dim(), batch);
        let rows = gpu.device.from_slice(&inputs.rows(batch, RowOf::Loaded))?;
        let mut loaded = Self { gpu, table, inputs, chunks: Vec::new(), rows, batch, numbers: 0, load };
        loaded.fill()?;
        Ok(loaded)
    }

    /// Inserts batches until the load is reached. Below the full load, batches have no more keys than are
    /// missing.
    fn fill(&mut self) -> Result<()> {
        let capacity = self.table.capacity();
        let target = (capacity as f64 * self.load) as usize;
        let near = if self.load < 1.0 { (capacity as f64 * TOLERANCE) as usize } else { 0 };
        loop {
            let missing = target.saturating_sub(self.keys_for(target)?);
            if missing <= near {
                return Ok(());
            }
            let tries = self.numbers / capacity as u64;
            ensure!(tries < MOST_FILLS, "the table lacks {missing} of {target} keys after {tries} fillings");
            let len = if self.load < 1.0 { missing.min(self.batch) } else { self.batch };
            let first = self.numbers;
            let keys: Vec<_> =
                (first..first + len as u64).into_par_iter().map(|number| self.inputs.key(number)).collect();
            self.chunks.push(self.gpu.device.from_slice(&keys)?);
            self.insert(self.chunks.len() - 1, first)?;
            self.numbers += len as u64;
        }
    }

    /// Returns the number of keys in the table; that of inserted keys while it is below the target.
    fn keys_for(&self, target: usize) -> Result<usize> {
        let most = self.numbers as usize;
        if most < target { Ok(most) } else { Ok(self.table.len()?) }
    }

    /// Inserts a batch whose first key has the number `first`.
    fn insert(&self, chunk: usize, first: u64) -> Result<()> {
        let (keys, place, dim) = (&self.chunks[chunk], first as usize % self.batch, self.table.dim());
        let before_wrap = (self.batch - place).min(keys.len());
        let batches = self.table.on(&self.gpu.stream).distinct();
        let rows = self.rows.slice(place * dim..(place + before_wrap) * dim)?;
        batches.insert(keys.slice(..before_wrap)?, rows, None)?;
        if before_wrap < keys.len() {
            let rest = keys.len() - before_wrap;
            batches.insert(keys.slice(before_wrap..)?, self.rows.slice(..rest * dim)?, None)?;
        }
        Ok(())
    }

    /// Returns the number of keys in a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Empties the table and fills it with the same batches again.
    pub fn refill(&mut self) -> Result<()> {
        self.table.clear()?;
        let mut first = 0;
        for chunk in 0..self.chunks.len() {
            self.insert(chunk, first)?;
            first += self.chunks[chunk].len() as u64;
        }
        Ok(())
    }

    /// Returns which keys are present, by their numbers.
    fn presence(&self) -> Result<Vec<u8>> {
        let mut codes = vec![UNWRITTEN; self.numbers as usize];
        let (mut outcomes, mut first) = (self.gpu.device.filled(self.batch, UNWRITTEN)?, 0);
        for keys in &self.chunks {
            self.table.on(&self.gpu.stream).contains_key(keys, outcomes.slice_mut(..keys.len())?)?;
            outcomes.read_into(0, &mut codes[first..first + keys.len()])?;
            first += keys.len();
        }
        Ok(codes)
    }

    /// Returns the numbers of `len` keys that are present, spread over the table. Checks that the table has
    /// as many keys as it says.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when it has not, or when it has fewer than `len` keys.
    pub fn present(&self, len: usize, seed: u64) -> Result<Vec<u64>> {
        let (codes, len_of_table) = (self.presence()?, self.table.len()?);
        let is_present = |number: u64| codes[number as usize] == Outcome::Found as u8;
        let all = (0..self.numbers).into_par_iter().filter(|number| is_present(*number)).count();
        ensure!(all == len_of_table, "the table has {all} of its keys, but says {len_of_table}");
        ensure!(len <= all, "a batch of {len} keys that are present needs more than the {all} of the table");
        let order = Permutation::new(self.numbers, &Source::new(seed, "present cache keys"));
        let (mut chosen, mut place) = (Vec::with_capacity(len), 0);
        while chosen.len() < len {
            let end = (place + 2 * len as u64).min(self.numbers);
            let numbers = (place..end).into_par_iter().map(|place| order.at(place));
            chosen.par_extend(numbers.filter(|number| is_present(*number)));
            place = end;
        }
        chosen.truncate(len);
        Ok(chosen)
    }
}

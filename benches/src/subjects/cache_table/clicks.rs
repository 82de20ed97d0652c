//! A stream of lookups with a Zipf distribution, each batch of which is looked up and then inserted: the hit
//! rate, and which keys a table retains.
use super::inputs::{Inputs, RowOf};
use super::loaded::{Table, UNWRITTEN, build, count, rule};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::cache_table::Rule;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use simt::hash::mix64;
use workloads::Zipf;
use workloads::parallel;
use workloads::random::Source;

/// Result of the check of a part of the stream.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    draws: u64,
    hits: u64,
    refused: u64,
}

impl Seen {
    fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.draws as f64
    }

    fn and(self, other: Self) -> Self {
        let (hits, refused) = (self.hits + other.hits, self.refused + other.refused);
        Self { draws: self.draws + other.draws, hits, refused }
    }
}

/// Prepared case: an empty table and the stream.
pub struct Clicks<'a> {
    gpu: &'a Gpu,
    table: Table,
    inputs: Inputs,
    zipf: Zipf,
    seed: u64,
    /// Number of the last batch.
    now: u64,
    keys: Buffer<u64>,
    /// Rows of the keys.
    rows: Buffer<f32>,
    /// Scores of the elements, for the rule `Custom`.
    scores: Buffer<u64>,
    /// Exponent of the keys' frequencies, if these are the scores; otherwise the scores are the batches.
    frequencies: Option<f64>,
    /// Output: rows found.
    found: Buffer<f32>,
    outcomes: Buffer<u8>,
    /// Number of batches before the measured ones.
    warmup: u64,
    /// Number of measured batches.
    measured: u64,
    /// The last batch of each key, if retention is measured.
    last: Option<Vec<u32>>,
    ms: f64,
    seen: Seen,
    retained: Option<f64>,
}

impl<'a> Clicks<'a> {
    /// Prepares the stream of a case. `retention` is whether the keys of the full table are compared with
    /// the most recently used ones.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing.
    pub fn new(gpu: &'a Gpu, case: &Case, retention: bool) -> Result<Self> {
        let (table, n) = (build(gpu, case)?, case.n as usize);
        let (capacity, device) = (table.capacity() as u64, &gpu.device);
        let batches = |name| Ok::<_, anyhow::Error>((capacity * count(case, name)? as u64).div_ceil(case.n));
        let items = capacity * count(case, "universe")? as u64;
        ensure!(!retention || rule(case)? == Rule::Lru, "retention is measured with the rule Lru");
        let (row_len, theta) = (n * table.dim(), case.number("theta")?);
        let by_frequency = case.choice("scores", &[("batches", false), ("frequencies", true)])?;
        let frequencies = by_frequency.then_some(theta);
        let is_custom = table.rule() == Some(Rule::Custom);
        ensure!(frequencies.is_none() || is_custom, "frequencies are scores of the rule Custom only");
        Ok(Self {
            gpu,
            inputs: Inputs::new(case.seed, table.dim(), items as usize),
            zipf: Zipf::new(items, theta)?,
            frequencies,
            seed: case.seed,
            now: 0,
            keys: device.zeroed(n)?,
            rows: device.zeroed(row_len)?,
            scores: device.zeroed(if is_custom { n } else { 0 })?,
            found: device.zeroed(row_len)?,
            outcomes: device.zeroed(n)?,
            warmup: batches("warmup_fills")?,
            measured: batches("measured_fills")?,
            last: retention.then(|| vec![0; items as usize]),
            ms: 0.0,
            seen: Seen::default(),
            retained: None,
            table,
        })
    }

    /// Draws the next batch and copies it to the device. Returns the numbers of its keys.
    fn draw(&mut self) -> Result<Vec<u64>> {
        self.now += 1;
        let source = Source::new(self.seed ^ mix64(self.now), "cache clicks");
        let numbers = source.generate(self.keys.len(), |generator, _| self.zipf.rank(generator));
        self.keys.write(&self.inputs.keys(&numbers))?;
        self.rows.write(&self.inputs.rows(numbers.len(), |index| RowOf::Loaded(numbers[index as usize])))?;
        if !self.scores.is_empty() {
            self.scores.write(&self.scores_of(&numbers))?;
        }
        let now = self.now as u32;
        if let Some(last) = &mut self.last {
            numbers.iter().for_each(|number| last[*number as usize] = now);
        }
        self.found.fill_bytes(0xff)?;
        self.forget_outcomes()?;
        Ok(numbers)
    }

    /// Returns the scores of a batch.
    fn scores_of(&self, numbers: &[u64]) -> Vec<u64> {
        let score = |rank: u64| match self.frequencies {
            Some(theta) => (2f64.powi(50) / (rank as f64 + 1.0).powf(theta)) as u64,
            None => self.now,
        };
        numbers.par_iter().map(|number| score(*number)).collect()
    }

    fn forget_outcomes(&mut self) -> Result<()> {
        self.outcomes.fill_bytes(UNWRITTEN)?;
        Ok(self.gpu.device.synchronize()?)
    }

    /// Looks a batch up and inserts it. Checks every result.
    fn step(&mut self) -> Result<Seen> {
        let numbers = self.draw()?;
        let start = self.gpu.stream.record()?;
        self.table.on(&self.gpu.stream).get(&self.keys, &mut self.found, &mut self.outcomes)?;
        let middle = self.gpu.stream.record()?;
        middle.synchronize()?;
        let before = self.check_lookups(&numbers)?;
        self.forget_outcomes()?;
        if matches!(self.table.rule(), Some(Rule::EpochLru | Rule::EpochLfu)) {
            self.table.set_epoch(self.now as u32)?;
        }
        let again = self.gpu.stream.record()?;
        let batches = self.table.on(&self.gpu.stream);
        let batches = if self.scores.is_empty() { batches } else { batches.scores(&self.scores) };
        batches.insert(&self.keys, &self.rows, &mut self.outcomes)?;
        let end = self.gpu.stream.record()?;
        end.synchronize()?;
        self.ms += middle.elapsed_ms(&start)? + end.elapsed_ms(&again)?;
        let refused = self.check_insertions()?;
        Ok(Seen { draws: numbers.len() as u64, hits: before, refused })
    }

    /// Checks that each lookup found the row of its key, or wrote nothing. Returns the number of hits.
    fn check_lookups(&self, numbers: &[u64]) -> Result<u64> {
        let (codes, rows, dim) = (self.outcomes.read()?, self.found.read()?, self.table.dim());
        let is_right = |index: usize| {
            let of = match Outcome::from_code(codes[index]) {
                Some(Outcome::Found) => RowOf::Loaded(numbers[index]),
                Some(Outcome::Absent) => RowOf::Unwritten,
                _ => return false,
            };
            self.inputs.is_row(of, &rows[index * dim..(index + 1) * dim])
        };
        let wrong = parallel::first(codes.len(), |index| !is_right(index));
        ensure!(wrong.is_none(), "batch {}: the lookup {wrong:?} is wrong", self.now);
        Ok(number_of(&codes, Outcome::Found))
    }

    /// Checks the outcomes of an insertion. Returns the number of refusals, of which rules by time have none.
    fn check_insertions(&self) -> Result<u64> {
        let codes = self.outcomes.read()?;
        let of = |outcome| number_of(&codes, outcome);
        let (placed, refused) = (of(Outcome::Inserted) + of(Outcome::Replaced), of(Outcome::Refused));
        let all = codes.len() as u64;
        ensure!(placed + refused == all, "batch {}: {placed} placed, {refused} refused of {all}", self.now);
        let by_uses = matches!(self.table.rule(), Some(Rule::Lfu | Rule::EpochLfu | Rule::LfuThenLru));
        ensure!(
            by_uses || self.frequencies.is_some() || refused == 0,
            "batch {}: {refused} of the newest keys were refused",
            self.now
        );
        Ok(refused)
    }

    fn steps(&mut self, batches: u64) -> Result<Seen> {
        (0..batches).try_fold(Seen::default(), |seen, _| Ok(seen.and(self.step()?)))
    }

    /// Returns the percentage of the most recently used keys that the table has. They are at most as many as
    /// the table has slots, and all keys of a batch or none are among them.
    fn retention(&self, last: &[u32]) -> Result<f64> {
        let mut keys_of = vec![0u64; self.now as usize + 1];
        last.iter().for_each(|batch| keys_of[*batch as usize] += 1);
        let (mut oldest, mut ideal) = (self.now as usize + 1, 0);
        while oldest > 1 && ideal + keys_of[oldest - 1] <= self.table.capacity() as u64 {
            oldest -= 1;
            ideal += keys_of[oldest];
        }
        ensure!(ideal > 0, "a batch has more keys than the table has slots");
        let is_ideal = |number: &u64| last[*number as usize] as usize >= oldest;
        let numbers: Vec<u64> = (0..last.len() as u64).into_par_iter().filter(is_ideal).collect();
        ensure!(numbers.len() as u64 == ideal, "{} keys are not {ideal}", numbers.len());
        let mut present = 0;
        for numbers in numbers.chunks(self.keys.len()) {
            let keys = self.gpu.device.from_slice(&self.inputs.keys(numbers))?;
            let mut outcomes = self.gpu.device.filled(numbers.len(), UNWRITTEN)?;
            self.table.on(&self.gpu.stream).contains_key(&keys, &mut outcomes)?;
            present += number_of(&outcomes.read()?, Outcome::Found);
        }
        Ok(100.0 * present as f64 / ideal as f64)
    }
}

/// Returns the number of codes of an outcome.
fn number_of(codes: &[u8], outcome: Outcome) -> u64 {
    parallel::count(codes.len(), |index| codes[index] == outcome as u8) as u64
}

impl Benchmark for Clicks<'_> {
    fn restore(&mut self) -> Result<()> {
        self.table.clear()?;
        if let Some(last) = &mut self.last {
            last.fill(0);
        }
        self.steps(self.warmup)?;
        self.ms = 0.0;
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        self.seen = self.steps(self.measured)?;
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (len, capacity) = (self.table.len()?, self.table.capacity());
        ensure!(len <= capacity, "the table has {len} keys in {capacity} slots");
        if let Some(last) = &self.last {
            self.retained = Some(self.retention(last)?);
        }
        Ok(Verified { compared: self.seen.draws, succeeded: self.seen.hits })
    }

    fn operations(&self) -> u64 {
        self.measured * self.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let refused = 100.0 * self.seen.refused as f64 / self.seen.draws as f64;
        let mut counted = vec![("hit_rate".to_owned(), self.seen.percent()), ("refused".to_owned(), refused)];
        counted.extend(self.retained.map(|retained| ("retention".to_owned(), retained)));
        vec![
            Metric::TableBytes(self.table.memory_usage() as u64),
            Metric::Counted(counted.into_iter().collect()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn wrong_lookups_and_refused_new_keys_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut clicks = Clicks::new(&gpu, &first_case("hkv/table8", 0), false).unwrap();
        clicks.step().unwrap();
        let numbers = clicks.draw().unwrap();
        assert!(clicks.check_lookups(&numbers).unwrap_err().to_string().contains("Some(0) is wrong"));
        clicks.table.on(&gpu.stream).get(&clicks.keys, &mut clicks.found, &mut clicks.outcomes).unwrap();
        let hits = clicks.check_lookups(&numbers).unwrap();
        assert!(hits > 0 && hits < 128, "{hits}");
        let mut others = numbers;
        others.iter_mut().for_each(|number| *number ^= 1);
        assert!(clicks.check_lookups(&others).is_err());
        assert!(clicks.check_insertions().is_err());
        clicks.outcomes.fill_bytes(Outcome::Refused as u8).unwrap();
        assert!(clicks.check_insertions().unwrap_err().to_string().contains("128 of the newest keys"));
    }

    #[test]
    fn retention_counts_the_newest_keys() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut clicks = Clicks::new(&gpu, &first_case("hkv/table11", 0), true).unwrap();
        clicks.restore().unwrap();
        clicks.launch().unwrap();
        clicks.verify().unwrap();
        let kept = clicks.retained.unwrap();
        assert!((60.0..=100.0).contains(&kept), "{kept}");
        clicks.table.clear().unwrap();
        clicks.verify().unwrap();
        assert_eq!(clicks.retained, Some(0.0));
    }
}

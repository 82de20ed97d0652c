//! Tables that are filled once: the load at the first eviction, and the effect of a burst of new keys with
//! low or high scores.
use super::evictions::Evictions;
use super::inputs::{Inputs, RowOf};
use super::loaded::{Table, UNWRITTEN, build};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::cache_table::Rule;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;

/// Score of the keys that fill a table before a burst.
const SCORE: u64 = 1000;

/// Table, and the buffers of a batch of new keys.
struct Filler<'a> {
    gpu: &'a Gpu,
    table: Table,
    inputs: Inputs,
    keys: Buffer<u64>,
    rows: Buffer<f32>,
    found: Buffer<f32>,
    outcomes: Buffer<u8>,
}

impl<'a> Filler<'a> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (table, n, device) = (build(gpu, case)?, case.n as usize, &gpu.device);
        let (inputs, row_len) = (Inputs::new(case.seed, table.dim(), n), n * table.dim());
        let rows = device.from_slice(&inputs.rows(n, RowOf::Loaded))?;
        let (keys, found, outcomes) = (device.zeroed(n)?, device.zeroed(row_len)?, device.zeroed(n)?);
        Ok(Self { gpu, table, inputs, keys, rows, found, outcomes })
    }

    /// Copies the keys of the numbers from `first` on, a multiple of the batch's length, to the device.
    fn choose(&mut self, first: u64) -> Result<()> {
        let numbers: Vec<u64> = (first..first + self.keys.len() as u64).collect();
        self.keys.write(&self.inputs.keys(&numbers))?;
        self.found.fill_bytes(0xff)?;
        self.outcomes.fill_bytes(UNWRITTEN)?;
        Ok(self.gpu.device.synchronize()?)
    }

    /// Returns the number of keys, of `len` keys from a number on, that are present. Checks their rows.
    fn present(&mut self, numbers: std::ops::Range<u64>) -> Result<u64> {
        let (n, dim) = (self.keys.len() as u64, self.table.dim());
        let mut present = 0;
        for first in numbers.step_by(n as usize) {
            self.choose(first)?;
            self.table.on(&self.gpu.stream).get(&self.keys, &mut self.found, &mut self.outcomes)?;
            let (codes, rows) = (self.outcomes.read()?, self.found.read()?);
            let is_right = |(index, row): (usize, &[f32])| match Outcome::from_code(codes[index]) {
                Some(Outcome::Found) => self.inputs.is_row(RowOf::Loaded(first + index as u64), row),
                Some(Outcome::Absent) => self.inputs.is_row(RowOf::Unwritten, row),
                _ => false,
            };
            let is_right = rows.par_chunks(dim).enumerate().all(is_right);
            ensure!(is_right, "a lookup of the {n} keys from number {first} on is wrong");
            present += codes.iter().filter(|code| **code == Outcome::Found as u8).count() as u64;
        }
        Ok(present)
    }
}

/// Prepared case of the first eviction.
pub struct FirstEviction<'a> {
    filler: Filler<'a>,
    evictions: Evictions,
    /// Number of keys that were inserted without an eviction.
    placed: u64,
}

impl<'a> FirstEviction<'a> {
    /// Prepares an empty table.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let filler = Filler::new(gpu, case)?;
        let evictions = Evictions::new(gpu, case.n as usize, filler.table.dim())?;
        Ok(Self { filler, evictions, placed: 0 })
    }

    /// Inserts batches until one evicts a key.
    fn fill(&mut self) -> Result<()> {
        let (n, capacity) = (self.filler.keys.len() as u64, self.filler.table.capacity() as u64);
        while self.placed < capacity {
            self.filler.choose(self.placed)?;
            let Filler { table, gpu, keys, rows, outcomes, .. } = &mut self.filler;
            let batches = table.on(&gpu.stream).distinct();
            batches.insert_evict(&*keys, &*rows, self.evictions.buffers(), &mut *outcomes)?;
            let is_inserted = outcomes.read()?.iter().all(|code| *code == Outcome::Inserted as u8);
            ensure!(is_inserted, "a new key was not inserted after {} others", self.placed);
            if self.evictions.count()? > 0 {
                break;
            }
            self.placed += n;
        }
        Ok(())
    }
}

impl Benchmark for FirstEviction<'_> {
    fn restore(&mut self) -> Result<()> {
        self.placed = 0;
        Ok(self.filler.table.clear()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.fill()
    }

    fn verify(&mut self) -> Result<Verified> {
        let (len, n) = (self.filler.table.len()? as u64, self.filler.keys.len() as u64);
        let (evicted, last) = (self.evictions.count()?, self.placed..self.placed + n);
        ensure!(len + evicted == last.end, "{len} keys, {evicted} evicted: {} were inserted", last.end);
        let (before, present) = (self.placed, self.filler.present(0..last.end)?);
        ensure!(present == len, "{present} keys were found, but the table has {len}");
        ensure!(present >= before + n - evicted, "keys are lost");
        Ok(Verified { compared: last.end, succeeded: last.end })
    }

    fn operations(&self) -> u64 {
        self.placed + self.filler.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let load = self.placed as f64 / self.filler.table.capacity() as f64;
        let counted = [("first_eviction".to_owned(), load)];
        vec![Metric::TableBytes(self.filler.table.memory_usage() as u64), Metric::Counted(counted.into())]
    }
}

/// Prepared case of a burst.
pub struct Burst<'a> {
    filler: Filler<'a>,
    /// Fraction of the slots that are filled before the burst.
    load: f64,
    score: u64,
    /// Number of keys in the burst.
    len: u64,
    /// Number of keys that were inserted before the burst.
    numbers: u64,
    /// Number of keys in the table before the burst.
    before: u64,
    /// Number of keys of the burst that were not refused.
    admitted: u64,
    /// Number of earlier keys that are still in the table.
    left: u64,
}

impl<'a> Burst<'a> {
    /// Prepares an empty table.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (filler, load) = (Filler::new(gpu, case)?, case.number("load")?);
        ensure!(filler.table.rule() == Some(Rule::Custom), "a burst is measured with the rule Custom");
        ensure!((0.0..1.0).contains(&load), "`load` is {load}; it must lie in 0..1");
        let len = (filler.table.capacity() as f64 * case.number("burst")?) as u64;
        let len = len.next_multiple_of(case.n);
        let score = super::loaded::count(case, "score")? as u64;
        Ok(Self { filler, load, score, len, numbers: 0, before: 0, admitted: 0, left: 0 })
    }

    /// Inserts the batch of keys from `first` on with a score. Returns the number that was placed.
    fn insert(&mut self, first: u64, score: u64) -> Result<u64> {
        self.filler.choose(first)?;
        let Filler { table, gpu, keys, rows, outcomes, .. } = &mut self.filler;
        let scores = gpu.device.from_slice(&vec![score; keys.len()])?;
        table.on(&gpu.stream).distinct().scores(&scores).insert(&*keys, &*rows, &mut *outcomes)?;
        let codes = outcomes.read()?;
        let of = |outcome| codes.iter().filter(|code| **code == outcome as u8).count() as u64;
        let (placed, refused) = (of(Outcome::Inserted), of(Outcome::Refused));
        ensure!(placed + refused == codes.len() as u64, "new keys were neither inserted nor refused");
        Ok(placed)
    }
}

impl Benchmark for Burst<'_> {
    fn restore(&mut self) -> Result<()> {
        self.filler.table.clear()?;
        let (n, capacity) = (self.filler.keys.len() as u64, self.filler.table.capacity() as u64);
        (self.numbers, self.admitted) = (0, 0);
        while (self.filler.table.len()? as f64) < self.load * capacity as f64 {
            ensure!(self.numbers < 8 * capacity, "the table does not fill to {}", self.load);
            // Later keys have higher scores.
            self.insert(self.numbers, SCORE + self.numbers / n)?;
            self.numbers += n;
        }
        self.before = self.filler.table.len()? as u64;
        let present = self.filler.present(0..self.numbers)?;
        ensure!(present == self.before, "{present} keys were found, but the table has {}", self.before);
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        for first in (self.numbers..self.numbers + self.len).step_by(self.filler.keys.len()) {
            self.admitted += self.insert(first, self.score)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let end = self.numbers + self.len;
        self.left = self.filler.present(0..self.numbers)?;
        let (of_burst, len) = (self.filler.present(self.numbers..end)?, self.filler.table.len()? as u64);
        ensure!(self.left + of_burst == len, "{} and {of_burst} keys are not {len}", self.left);
        if self.score < SCORE {
            ensure!(self.left == self.before, "lower scores displaced {} keys", self.before - self.left);
        } else {
            ensure!(self.admitted == self.len, "{} of {} higher scores were placed", self.admitted, self.len);
        }
        Ok(Verified { compared: self.len, succeeded: self.admitted })
    }

    fn operations(&self) -> u64 {
        self.len
    }

    fn metrics(&self) -> Vec<Metric> {
        let change = 100.0 * (self.left as f64 / self.before as f64 - 1.0);
        let capacity = self.filler.table.capacity() as f64;
        let counted = [
            ("admitted".to_owned(), 100.0 * self.admitted as f64 / self.len as f64),
            ("hit_rate_change".to_owned(), change),
            ("load_before".to_owned(), self.before as f64 / capacity),
        ];
        vec![Metric::TableBytes(self.filler.table.memory_usage() as u64), Metric::Counted(counted.into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn keys_that_are_lost_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut first = FirstEviction::new(&gpu, &first_case("hkv/table11", 1)).unwrap();
        first.restore().unwrap();
        first.launch().unwrap();
        first.verify().unwrap();
        assert!(first.placed > 0 && first.placed < 1024, "{}", first.placed);
        first.filler.table.clear().unwrap();
        assert!(first.verify().unwrap_err().to_string().contains("0 keys"));
    }

    #[test]
    fn a_burst_that_displaces_higher_scores_is_a_fault() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut burst = Burst::new(&gpu, &first_case("hkv/table9", 0)).unwrap();
        burst.score = 2 * SCORE;
        burst.restore().unwrap();
        burst.launch().unwrap();
        burst.verify().unwrap();
        burst.score = 1;
        let error = burst.verify().unwrap_err().to_string();
        assert!(error.contains("lower scores displaced"), "{error}");
        burst.admitted -= 1;
        burst.score = 2 * SCORE;
        assert!(burst.verify().unwrap_err().to_string().contains("higher scores were placed"));
    }
}

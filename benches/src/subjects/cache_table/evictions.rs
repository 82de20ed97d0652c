//! Output of `insert_evict`, and its check.
use super::batch::Batch;
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN};
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::Buffer;
use phalanx::cache_table::EvictedBuffers;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use std::collections::HashSet;
use workloads::parallel;

/// Device buffers for evicted keys.
pub struct Evictions {
    keys: Buffer<u64>,
    rows: Buffer<f32>,
    scores: Buffer<u64>,
    count: Buffer<u32>,
}

/// Key that was evicted.
struct Evicted {
    /// Number of the key.
    number: u64,
    score: u64,
    /// Index in the output.
    index: usize,
}

impl Evictions {
    /// Allocates room for `len` keys.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device runs out of memory.
    pub fn new(gpu: &Gpu, len: usize, dim: usize) -> Result<Self> {
        let (device, rows) = (&gpu.device, len * dim);
        let (keys, rows) = (device.zeroed(len)?, device.zeroed(rows)?);
        Ok(Self { keys, rows, scores: device.zeroed(len)?, count: device.zeroed(1)? })
    }

    /// Resets the buffers.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails.
    pub fn forget(&mut self) -> Result<()> {
        self.keys.fill_bytes(0xff)?;
        self.rows.fill_bytes(0xff)?;
        self.scores.fill_bytes(0xff)?;
        Ok(self.count.fill_bytes(0xff)?)
    }

    /// Returns the buffers as the output of a call.
    pub fn buffers(&mut self) -> EvictedBuffers<'_, u64, f32, u64> {
        EvictedBuffers {
            keys: (&mut self.keys).into(),
            rows: (&mut self.rows).into(),
            scores: (&mut self.scores).into(),
            count: (&mut self.count).into(),
        }
    }

    /// Returns the number of evicted keys.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails.
    pub fn count(&self) -> Result<u64> {
        Ok(u64::from(self.count.read()?[0]))
    }

    /// Checks the output of a batch with the rule `Lru` that evicted `expected` keys: distinct loaded keys
    /// with their rows, the older the lower the score, and none of them in the table unless the batch has
    /// inserted it again.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] that describes what is wrong.
    pub fn verify(&self, loaded: &Loaded<'_>, batch: &Batch, expected: u64) -> Result<()> {
        let count = self.count()?;
        ensure!(count == expected, "{count} keys are in the output, but {expected} were evicted");
        let (keys, scores) = (self.keys.read()?, self.scores.read()?);
        let evicted =
            |index: usize| Evicted { number: loaded.inputs.number(keys[index]), score: scores[index], index };
        let mut all: Vec<_> = parallel::tabulate(count as usize, evicted);
        self.check_rows(loaded, &all)?;
        all.par_sort_unstable_by_key(|evicted| evicted.number);
        for pair in all.windows(2) {
            ensure!(pair[0].number < pair[1].number, "key {} was evicted twice", pair[0].number);
            let is_ordered = pair[0].score <= pair[1].score;
            ensure!(
                is_ordered,
                "key {} is older than {}, but has a higher score",
                pair[0].number,
                pair[1].number
            );
        }
        self.check_absence(loaded, batch, &all)
    }

    fn check_rows(&self, loaded: &Loaded<'_>, all: &[Evicted]) -> Result<()> {
        let (rows, dim) = (self.rows.read()?, loaded.table.dim());
        let is_right = |evicted: &Evicted| {
            let row = &rows[evicted.index * dim..(evicted.index + 1) * dim];
            evicted.number < loaded.numbers && loaded.inputs.is_row(RowOf::Loaded(evicted.number), row)
        };
        let wrong = all.par_iter().find_first(|evicted| !is_right(evicted));
        wrong.map_or(Ok(()), |wrong| {
            bail!("evicted element {}: no loaded key has number {} and this row", wrong.index, wrong.number)
        })
    }

    fn check_absence(&self, loaded: &Loaded<'_>, batch: &Batch, all: &[Evicted]) -> Result<()> {
        let (device, stream) = (&loaded.gpu.device, &loaded.gpu.stream);
        let numbers: Vec<u64> = all.iter().map(|evicted| evicted.number).collect();
        let keys = device.from_slice(&loaded.inputs.keys(&numbers))?;
        let mut outcomes = device.filled(numbers.len(), UNWRITTEN)?;
        loaded.table.on(stream).contains_key(&keys, &mut outcomes)?;
        let hits: HashSet<u64> =
            batch.numbers.iter().copied().filter(|number| *number < loaded.numbers).collect();
        for (number, code) in numbers.iter().zip(outcomes.read()?) {
            let expected = if hits.contains(number) { Outcome::Found } else { Outcome::Absent };
            ensure!(code == expected as u8, "key {number} was evicted and is {:?}", Outcome::from_code(code));
        }
        Ok(())
    }
}

#[cfg(test)]
impl Evictions {
    /// Exchanges the first two keys, but not their rows.
    pub fn swap_keys(&mut self) {
        let mut keys = self.keys.read().unwrap();
        keys.swap(0, 1);
        self.keys.write(&keys).unwrap();
    }

    /// Replaces the second key and its row by the first.
    pub fn repeat(&mut self) {
        let (mut keys, mut rows) = (self.keys.read().unwrap(), self.rows.read().unwrap());
        let dim = rows.len() / keys.len();
        keys[1] = keys[0];
        rows.copy_within(..dim, dim);
        self.keys.write(&keys).unwrap();
        self.rows.write(&rows).unwrap();
    }

    /// Replaces each score by its index.
    pub fn number_scores(&mut self) {
        let scores: Vec<_> = (0..self.scores.len() as u64).collect();
        self.scores.write(&scores).unwrap();
    }
}

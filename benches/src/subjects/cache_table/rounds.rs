//! Lookups in several tables, by a batch for each table or by one call for all of them.
use super::inputs::{Inputs, RowOf};
use super::loaded::{Loaded, UNWRITTEN, count};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::cache_table::{CacheTables, MissedBuffers};
use phalanx_kernels::keyed::Outcome;
use std::ops::Range;
use workloads::Zipf;
use workloads::parallel;
use workloads::random::Source;

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// A batch of `get` for each table.
    Get,
    /// A batch of `get_or_insert` for each table.
    GetOrInsert,
    /// One call of `get`.
    CallGet,
    /// One call of `get_missed`. All keys are present.
    CallGetMissed,
    /// One call of `get_or_insert`.
    CallGetOrInsert,
}

/// Operations by their names.
pub const ROUNDS: &[(&str, Round)] = &[
    ("round_get", Round::Get),
    ("round_get_or_insert", Round::GetOrInsert),
    ("call_get", Round::CallGet),
    ("call_get_missed", Round::CallGetMissed),
    ("call_get_or_insert", Round::CallGetOrInsert),
];

impl Round {
    fn places(self) -> bool {
        matches!(self, Self::GetOrInsert | Self::CallGetOrInsert)
    }
}

/// Batch of a table.
struct Member {
    inputs: Inputs,
    numbers: Vec<u64>,
}

/// Buffers of keys that are absent.
struct Missed {
    keys: Buffer<u64>,
    tables: Buffer<u32>,
    indices: Buffer<u32>,
    count: Buffer<u32>,
}

/// Prepared case: the parameter `tables` is the number of tables, and the batches have `n` elements in all.
pub struct Rounds<'a> {
    gpu: &'a Gpu,
    round: Round,
    tables: CacheTables<u64, f32>,
    members: Vec<Member>,
    lens: Vec<usize>,
    keys: Buffer<u64>,
    /// Rows to place, for `get_or_insert`. All keys are present, so none is.
    given: Buffer<f32>,
    found: Buffer<f32>,
    outcomes: Buffer<u8>,
    missed: Missed,
}

impl<'a> Rounds<'a> {
    /// Fills the tables, and draws a Zipf batch of present keys for each.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or a table does not fill.
    pub fn new(gpu: &'a Gpu, case: &Case, round: Round) -> Result<Self> {
        let number = count(case, "tables")?;
        let each = (case.n as usize).div_ceil(number);
        let (mut tables, mut members, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for table in 0..number as u64 {
            let case = Case { seed: case.seed.wrapping_add(table), n: each as u64, ..case.clone() };
            let loaded = Loaded::new(gpu, &case)?;
            let candidates = loaded.present(loaded.table.len()?, case.seed)?;
            let zipf = Zipf::new(candidates.len() as u64, case.number("theta")?)?;
            let source = Source::new(case.seed, "cache rounds");
            let numbers = source.generate(each, |generator, _| candidates[zipf.rank(generator) as usize]);
            let Loaded { table, inputs, .. } = loaded;
            keys.extend(inputs.keys(&numbers));
            members.push(Member { inputs, numbers });
            tables.push(table);
        }
        let (device, len, tables) = (&gpu.device, keys.len(), CacheTables::new(tables)?);
        let dim = tables[0].dim();
        let missed = if round == Round::CallGetMissed { len } else { 0 };
        Ok(Self {
            gpu,
            round,
            members,
            lens: vec![each; number],
            keys: device.from_slice(&keys)?,
            given: device.zeroed(if round.places() { len * dim } else { 0 })?,
            found: device.zeroed(len * dim)?,
            outcomes: device.filled(len, UNWRITTEN)?,
            missed: Missed {
                keys: device.zeroed(missed)?,
                tables: device.zeroed(missed)?,
                indices: device.zeroed(missed)?,
                count: device.zeroed(1)?,
            },
            tables,
        })
    }

    /// Returns the places of a table's elements.
    fn range(&self, table: usize) -> Range<usize> {
        let first = self.lens[..table].iter().sum();
        first..first + self.lens[table]
    }

    /// Submits the batch of one table.
    fn launch_one(&mut self, table: usize) -> Result<()> {
        let (range, dim) = (self.range(table), self.tables[0].dim());
        let rows = range.start * dim..range.end * dim;
        let batches = self.tables[table].on(&self.gpu.stream);
        let (keys, outcomes) = (self.keys.slice(range.clone())?, self.outcomes.slice_mut(range)?);
        let found = self.found.slice_mut(rows.clone())?;
        match self.round.places() {
            true => batches.get_or_insert(keys, self.given.slice(rows)?, found, outcomes)?,
            false => batches.get(keys, found, outcomes)?,
        }
        Ok(())
    }

    /// Submits the one call.
    fn launch_call(&mut self) -> Result<()> {
        let Self { lens, keys, given, found, outcomes, missed, .. } = self;
        let batches = self.tables.on(&self.gpu.stream);
        match self.round {
            Round::CallGetOrInsert => batches.get_or_insert(&*keys, lens, &*given, found, outcomes)?,
            Round::CallGetMissed => {
                let buffers = MissedBuffers {
                    keys: (&mut missed.keys).into(),
                    tables: (&mut missed.tables).into(),
                    indices: (&mut missed.indices).into(),
                    count: (&mut missed.count).into(),
                };
                batches.get_missed(&*keys, lens, found, outcomes, buffers)?
            }
            _ => batches.get(&*keys, lens, found, outcomes)?,
        }
        Ok(())
    }

    /// Checks that each lookup in a table found the row of its key.
    fn verify_one(&self, table: usize, codes: &[u8], rows: &[f32]) -> Result<()> {
        let (Member { inputs, numbers }, dim) = (&self.members[table], self.tables[0].dim());
        let is_wrong = |index: usize| {
            let row = &rows[index * dim..(index + 1) * dim];
            codes[index] != Outcome::Found as u8 || !inputs.is_row(RowOf::Loaded(numbers[index]), row)
        };
        let wrong = parallel::first(codes.len(), is_wrong);
        ensure!(wrong.is_none(), "table {table}: the lookup {wrong:?} is wrong");
        Ok(())
    }
}

impl Benchmark for Rounds<'_> {
    fn restore(&mut self) -> Result<()> {
        self.found.fill_bytes(0xff)?;
        self.outcomes.fill_bytes(UNWRITTEN)?;
        self.missed.count.fill_bytes(0)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        match self.round {
            Round::Get | Round::GetOrInsert => {
                (0..self.lens.len()).try_for_each(|table| self.launch_one(table))
            }
            _ => self.launch_call(),
        }
    }

    fn verify(&mut self) -> Result<Verified> {
        let (codes, rows, dim) = (self.outcomes.read()?, self.found.read()?, self.tables[0].dim());
        for table in 0..self.lens.len() {
            let range = self.range(table);
            self.verify_one(table, &codes[range.clone()], &rows[range.start * dim..range.end * dim])?;
        }
        let missed = self.missed.count.read()?[0];
        ensure!(missed == 0, "{missed} keys are said to be absent");
        Ok(Verified::all(codes.len()))
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.tables.memory_usage() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn lookups_that_are_missing_or_wrong_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = first_case("hkv/ten-tables", 0);
        for (_, round) in ROUNDS {
            let mut rounds = Rounds::new(&gpu, &case, *round).unwrap();
            rounds.restore().unwrap();
            assert!(rounds.verify().unwrap_err().to_string().contains("table 0"));
            rounds.launch().unwrap();
            assert_eq!(rounds.verify().unwrap().succeeded, rounds.operations());
            let last = rounds.members.len() - 1;
            rounds.members[last].numbers[1] ^= 1;
            assert!(rounds.verify().unwrap_err().to_string().contains("lookup Some(1) is wrong"));
        }
    }
}

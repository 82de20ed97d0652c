//! A round of lookups: a batch with duplicate keys for each of several tables, submitted to one stream.
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN, count};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use workloads::Zipf;
use workloads::random::Source;

/// A table with its batch.
struct Member<'a> {
    loaded: Loaded<'a>,
    numbers: Vec<u64>,
    keys: Buffer<u64>,
    /// Rows to place, for `get_or_insert`. All keys are present, so none is.
    given: Buffer<f32>,
    found: Buffer<f32>,
    outcomes: Buffer<u8>,
}

impl<'a> Member<'a> {
    fn new(gpu: &'a Gpu, case: &Case, len: usize, places: bool) -> Result<Self> {
        let loaded = Loaded::new(gpu, case)?;
        let (device, dim) = (&gpu.device, loaded.table.dim());
        let candidates = loaded.present(loaded.table.len()?, case.seed)?;
        let zipf = Zipf::new(candidates.len() as u64, case.number("theta")?)?;
        let source = Source::new(case.seed, "cache rounds");
        let numbers = source.generate(len, |generator, _| candidates[zipf.rank(generator) as usize]);
        Ok(Self {
            keys: device.from_slice(&loaded.inputs.keys(&numbers))?,
            given: device.zeroed(if places { len * dim } else { 0 })?,
            found: device.zeroed(len * dim)?,
            outcomes: device.filled(len, UNWRITTEN)?,
            numbers,
            loaded,
        })
    }

    fn launch(&mut self) -> Result<()> {
        let batches = self.loaded.table.on(&self.loaded.gpu.stream);
        if self.given.is_empty() {
            return Ok(batches.get(&self.keys, &mut self.found, &mut self.outcomes)?);
        }
        Ok(batches.get_or_insert(&self.keys, &self.given, &mut self.found, &mut self.outcomes)?)
    }

    /// Checks that each lookup found the row of its key.
    fn verify(&self, table: usize) -> Result<()> {
        let (codes, rows, dim) = (self.outcomes.read()?, self.found.read()?, self.loaded.table.dim());
        let is_wrong = |index: &usize| {
            let row = &rows[index * dim..(index + 1) * dim];
            codes[*index] != Outcome::Found as u8
                || !self.loaded.inputs.is_row(RowOf::Loaded(self.numbers[*index]), row)
        };
        let wrong = (0..codes.len()).into_par_iter().find_first(is_wrong);
        ensure!(wrong.is_none(), "table {table}: the lookup {wrong:?} is wrong");
        Ok(())
    }
}

/// Prepared case: the parameter `tables` is the number of tables, and the batches have `n` elements in all.
pub struct Rounds<'a> {
    gpu: &'a Gpu,
    members: Vec<Member<'a>>,
}

impl<'a> Rounds<'a> {
    /// Fills the tables, and draws a Zipf batch of present keys for each. `places` selects `get_or_insert`,
    /// which merges duplicates, instead of `get`.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or a table does not fill.
    pub fn new(gpu: &'a Gpu, case: &Case, places: bool) -> Result<Self> {
        let tables = count(case, "tables")?;
        let len = (case.n as usize).div_ceil(tables);
        let member = |table: usize| {
            let seed = case.seed.wrapping_add(table as u64);
            Member::new(gpu, &Case { seed, n: len as u64, ..case.clone() }, len, places)
        };
        Ok(Self { gpu, members: (0..tables).map(member).collect::<Result<_>>()? })
    }
}

impl Benchmark for Rounds<'_> {
    fn restore(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.found.fill_bytes(0xff)?;
            member.outcomes.fill_bytes(UNWRITTEN)?;
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Member::launch)
    }

    fn verify(&mut self) -> Result<Verified> {
        for (table, member) in self.members.iter().enumerate() {
            member.verify(table)?;
        }
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        self.members.iter().map(|member| member.numbers.len() as u64).sum()
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.members.iter().map(|member| member.loaded.table.memory_usage() as u64).sum();
        vec![Metric::TableBytes(bytes)]
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
        for places in [false, true] {
            let mut rounds = Rounds::new(&gpu, &case, places).unwrap();
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

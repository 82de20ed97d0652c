//! Lookups of a Zipf stream on a table with few rows on the device, while hot rows move there, and after the
//! hot set has moved.
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN, count};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::cache_table::Rule;
use phalanx_kernels::keyed::Outcome;
use simt::hash::mix64;
use std::time::Instant;
use workloads::Zipf;
use workloads::parallel;
use workloads::random::Source;

/// Times of a batch in ms, and what moved after it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    get_ms: f64,
    promote_ms: f64,
    promoted: u64,
}

/// Prepared case: a full table and its keys by rank. `batches` batches follow the first placement, which does
/// not depend on the keys' ranks, and as many the change of all ranks.
pub struct Promotion<'a> {
    loaded: Loaded<'a>,
    candidates: Vec<u64>,
    zipf: Zipf,
    theta: f64,
    seed: u64,
    batches: u64,
    /// Maximum number of keys that each bucket moves at once.
    most: u32,
    /// Number of uses, in the current epoch if the rule has epochs, below which a key does not move.
    least_uses: u64,
    /// Number of batches in an epoch.
    epoch: u64,
    /// Number of batches between promotions.
    every: u64,
    keys: Buffer<u64>,
    found: Buffer<f32>,
    outcomes: Buffer<u8>,
    steps: Vec<Step>,
}

impl<'a> Promotion<'a> {
    /// Fills a table.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or the table does not fill.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (loaded, n, device) = (Loaded::new(gpu, case)?, case.n as usize, &gpu.device);
        let candidates = loaded.present(loaded.table.len()?, case.seed)?;
        Ok(Self {
            zipf: Zipf::new(candidates.len() as u64, case.number("theta")?)?,
            theta: case.number("theta")?,
            candidates,
            seed: case.seed,
            batches: count(case, "batches")? as u64,
            most: count(case, "most")? as u32,
            least_uses: count(case, "least_uses")? as u64,
            epoch: count(case, "epoch")? as u64,
            every: count(case, "every")? as u64,
            keys: device.zeroed(n)?,
            found: device.zeroed(n * loaded.table.dim())?,
            outcomes: device.filled(n, UNWRITTEN)?,
            steps: Vec::new(),
            loaded,
        })
    }

    /// Draws a batch. In the second half of the batches, each rank has another key.
    fn draw(&mut self, now: u64) -> Result<Vec<u64>> {
        let len = self.candidates.len() as u64;
        let shift = if now < self.batches { 0 } else { len / 2 };
        let candidate = |rank: u64| self.candidates[((rank + shift) % len) as usize];
        let source = Source::new(self.seed ^ mix64(now), "cache promotion");
        let numbers = source.generate(self.keys.len(), |generator, _| candidate(self.zipf.rank(generator)));
        self.keys.write(&self.loaded.inputs.keys(&numbers))?;
        self.found.fill_bytes(0xff)?;
        self.outcomes.fill_bytes(UNWRITTEN)?;
        self.loaded.gpu.device.synchronize()?;
        Ok(numbers)
    }

    /// Looks a batch up, checks every row, notes the uses, and promotes.
    fn step(&mut self, now: u64) -> Result<Step> {
        let numbers = self.draw(now)?;
        let (table, stream) = (&self.loaded.table, &self.loaded.gpu.stream);
        if matches!(table.rule(), Some(Rule::EpochLru | Rule::EpochLfu)) {
            table.set_epoch((now / self.epoch) as u32)?;
        }
        let start = stream.record()?;
        table.on(stream).get(&self.keys, &mut self.found, &mut self.outcomes)?;
        let end = stream.record()?;
        end.synchronize()?;
        let get_ms = end.elapsed_ms(&start)?;
        self.check(now, &numbers)?;
        table.on(stream).assign_scores(&self.keys, None)?;
        stream.synchronize()?;
        if !(now + 1).is_multiple_of(self.every) {
            return Ok(Step { get_ms, ..Step::default() });
        }
        let least = match table.rule() {
            Some(Rule::EpochLfu) => (now / self.epoch) << 32 | self.least_uses,
            Some(Rule::Lfu) => 1 + self.least_uses, // the insertion counts, too
            _ => 0,
        };
        let start = Instant::now();
        let promoted = table.promote_scored(self.most, least..)? as u64;
        Ok(Step { get_ms, promote_ms: start.elapsed().as_secs_f64() * 1e3, promoted })
    }

    fn check(&self, now: u64, numbers: &[u64]) -> Result<()> {
        let (codes, rows, dim) = (self.outcomes.read()?, self.found.read()?, self.loaded.table.dim());
        let is_wrong = |index: usize| {
            let row = &rows[index * dim..(index + 1) * dim];
            codes[index] != Outcome::Found as u8
                || !self.loaded.inputs.is_row(RowOf::Loaded(numbers[index]), row)
        };
        let wrong = parallel::first(codes.len(), is_wrong);
        ensure!(wrong.is_none(), "batch {now}: the lookup {wrong:?} is wrong");
        Ok(())
    }

    /// Returns the throughput of the lookups of a batch in millions of rows a second.
    fn rate(&self, batch: u64) -> f64 {
        self.keys.len() as f64 / self.steps[batch as usize].get_ms.max(1e-9) / 1e3
    }
}

impl Benchmark for Promotion<'_> {
    fn restore(&mut self) -> Result<()> {
        self.steps.clear();
        self.loaded.refill()?;
        // Which keys a fill leaves in the table depends on the order of its evictions.
        self.candidates = self.loaded.present(self.loaded.table.len()?, self.seed)?;
        self.zipf = Zipf::new(self.candidates.len() as u64, self.theta)?;
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        for now in 0..2 * self.batches {
            let step = self.step(now)?;
            self.steps.push(step);
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.steps.iter().map(|step| step.get_ms).sum())
    }

    fn verify(&mut self) -> Result<Verified> {
        let (len, expected) = (self.loaded.table.len()?, self.candidates.len());
        ensure!(len == expected, "the table has {len} keys after promotions, not {expected}");
        let promoted: u64 = self.steps.iter().map(|step| step.promoted).sum();
        ensure!(promoted > 0, "no row moved");
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        2 * self.batches * self.keys.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let (gets, promotions): (f64, f64) =
            self.steps.iter().fold((0.0, 0.0), |sums, step| (sums.0 + step.get_ms, sums.1 + step.promote_ms));
        let promoted: u64 = self.steps.iter().map(|step| step.promoted).sum();
        let counted = [
            ("first_rate", self.rate(0)),
            ("last_rate", self.rate(self.batches - 1)),
            ("moved_first_rate", self.rate(self.batches)),
            ("moved_last_rate", self.rate(2 * self.batches - 1)),
            ("promotion_percent", 100.0 * promotions / gets.max(1e-9)),
            ("promoted", promoted as f64),
        ];
        vec![
            Metric::TableBytes(self.loaded.table.memory_usage() as u64),
            Metric::Counted(counted.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn rows_move_and_tables_without_far_rows_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut case = first_case("hkv/promotion", 0);
        let mut run = |share: f64| {
            case.params.insert("on_device".to_owned(), crate::engine::record::Param::Number(share));
            let mut promotion = Promotion::new(&gpu, &case).unwrap();
            promotion.restore().unwrap();
            promotion.launch().unwrap();
            promotion.verify().map(|verified| verified.succeeded)
        };
        assert!(run(0.25).unwrap() > 0);
        assert!(run(1.0).unwrap_err().to_string().contains("no row moved"));
    }

    #[test]
    fn lookups_that_are_wrong_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut promotion = Promotion::new(&gpu, &first_case("hkv/promotion", 0)).unwrap();
        promotion.restore().unwrap();
        let numbers = promotion.draw(0).unwrap();
        assert!(promotion.check(0, &numbers).unwrap_err().to_string().contains("is wrong"));
        promotion.loaded.table.clear().unwrap();
        assert!(promotion.launch().unwrap_err().to_string().contains("batch 0"));
    }
}

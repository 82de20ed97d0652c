//! Baselines of the B-Tree's figure 3.2, for pairs of 32 bits: a sorted array and a log-structured merge
//! tree.
//!
//! The parameter `levels` of the merge tree is the final number of runs. Pairs arrive in 2^levels - 1 pieces.
//! Each piece is sorted, and runs of equal numbers of pieces are merged, which leaves runs of 1, 2, 4, ..
//! pieces. Sorting and merging use the primitives.
use super::driver::{Batch, Prepared, Subject};
use super::map_plan::{Call, Plan};
use super::ordered::{Asking, ByOrder, Neighbours, Query, RANGE, Ranges, SUCCESSOR};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Grid, Stream};
use phalanx::primitives::{Bits, Workspace, merge_bytes, sort_bytes};
use phalanx_kernels::baseline::runs::{self, ROW, RunsBounds, RunsGet, RunsRange, RunsSuccessor};
use phalanx_kernels::keyed::Outcome;
use simt::GlobalSlice;

/// Threads per block, the same as in the structures.
const THREADS: u32 = 128;

/// Supported operations.
const OPS: &[&str] = &["find_hit", "find_miss", SUCCESSOR, RANGE];

/// Maximum number of levels, because each look-up searches all of them.
const MOST_LEVELS: f64 = 20.0;

/// Baseline as a structure.
#[derive(Debug)]
pub struct Baseline<'a> {
    gpu: &'a Gpu,
    name: &'static str,
    variant: &'static str,
    has_levels: bool,
}

impl<'a> Baseline<'a> {
    /// Returns the sorted array.
    pub fn array(gpu: &'a Gpu) -> Self {
        Self { gpu, name: "SortedArray", variant: "binary_search", has_levels: false }
    }

    /// Returns the log-structured merge tree.
    pub fn merge_tree(gpu: &'a Gpu) -> Self {
        Self { gpu, name: "MergeTree", variant: "doubling", has_levels: true }
    }

    /// Returns the number of pairs per piece.
    fn piece(&self, case: &Case) -> Result<usize> {
        if !self.has_levels {
            return Ok(case.n as usize);
        }
        let levels = case.number("levels")?;
        let is_right = (1.0..=MOST_LEVELS).contains(&levels) && levels.fract() == 0.0;
        ensure!(is_right, "`levels` is {levels}; it can be a whole number from 1 to {MOST_LEVELS}");
        Ok((case.n as usize).div_ceil((1 << levels as u32) - 1))
    }
}

impl Structure for Baseline<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variants(&self) -> Vec<String> {
        vec![self.variant.to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let (key, value) = (case.key_bits, case.value_bits);
        ensure!((key, value) == (32, 32), "runs are of pairs of 32 bits here, not {key} and {value}");
        let runs = Runs::new(self.gpu, case.n as usize, self.piece(case)?)?;
        Ok(match case.op.as_str() {
            RANGE | SUCCESSOR => Box::new(Asking::new(self.gpu, case, runs)?),
            _ => Box::new(Prepared::new(self.gpu, Plan::new(case)?, runs)?),
        })
    }
}

/// Sorted run of `pieces` pieces.
struct Run {
    pieces: usize,
    keys: Buffer<u32>,
    values: Buffer<u32>,
}

/// Runs on a device, the newest and shortest last.
struct Runs<'a> {
    gpu: &'a Gpu,
    work: Workspace,
    /// Number of pairs per piece.
    piece: usize,
    runs: Vec<Run>,
    table: Buffer<u64>,
    /// Bounds of ranges, for the kernel that writes their pairs.
    bounds: Buffer<u64>,
}

impl<'a> Runs<'a> {
    /// Creates an empty list of runs, with workspace to sort a piece and to merge `pairs` pairs.
    fn new(gpu: &'a Gpu, pairs: usize, piece: usize) -> Result<Self> {
        let work = Workspace::new(&gpu.stream, sort_bytes::<u32, u32>(piece).max(merge_bytes(pairs)))?;
        let (table, bounds) = (gpu.device.buffer(0)?, gpu.device.buffer(0)?);
        Ok(Self { gpu, work, piece, runs: Vec::new(), table, bounds })
    }

    /// Sorts a piece, and merges it with the last run as long as that is no longer than the new one.
    fn insert(&mut self, keys: &[u32], values: &[u32]) -> Result<()> {
        let device = &self.gpu.device;
        let (mut keys, mut values) = (device.from_slice(keys)?, device.from_slice(values)?);
        self.work.sort_pairs_in_place(&mut keys, &mut values, Bits::ALL)?;
        let mut run = Run { pieces: 1, keys, values };
        while let Some(older) = self.runs.pop_if(|last| last.pieces <= run.pieces) {
            run = self.merged(&older, &run)?;
        }
        self.runs.push(run);
        Ok(())
    }

    fn merged(&mut self, older: &Run, newer: &Run) -> Result<Run> {
        let (device, len) = (&self.gpu.device, older.keys.len() + newer.keys.len());
        let (mut keys, mut values) = (device.buffer(len)?, device.buffer(len)?);
        let sources = ((&older.keys, &older.values), (&newer.keys, &newer.values));
        self.work.merge_pairs(sources.0, sources.1, (&mut keys, &mut values))?;
        Ok(Run { pieces: older.pieces + newer.pieces, keys, values })
    }

    /// Writes the table of runs, the newest first.
    fn index(&mut self) -> Result<()> {
        let row = |run: &Run| -> [u64; ROW] {
            let (keys, values) = (run.keys.pointer().expose_provenance(), run.values.pointer());
            [keys as u64, values.expose_provenance() as u64, run.keys.len() as u64]
        };
        self.table = self.gpu.device.from_slice(&self.runs.iter().rev().flat_map(row).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Returns the kernel view.
    fn view(&self) -> runs::Runs {
        // SAFETY: the table refers to buffers that live as long as it does; dropping one waits for launches.
        unsafe { runs::Runs::new(self.table.global()) }
    }
}

/// Insertions compute no outcomes: they report every key as new.
impl Subject<u32, u32> for Runs<'_> {
    const TELLS: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<u32, u32>) -> Result<()> {
        let Batch { keys, arguments, results, outcomes, .. } = batch;
        match call {
            Call::Insert => {
                let (all, pairs) = (keys.read()?, arguments.read()?);
                let mut pieces = all.chunks(self.piece).zip(pairs.chunks(self.piece));
                pieces.try_for_each(|(keys, values)| self.insert(keys, values))?;
                self.index()?;
                Ok(outcomes.fill_bytes(Outcome::Inserted as u8)?)
            }
            Call::Get => {
                let (keys, values, outcomes) = (keys.global(), results.global(), outcomes.global());
                let launch = RunsGet { runs: self.view(), keys, values, outcomes };
                // SAFETY: dropping a buffer waits for the launch, which writes only its outputs, each thread
                // its own.
                unsafe { stream.launch(Grid::for_items(keys.len(), THREADS), launch)? };
                Ok(())
            }
            Call::Remove | Call::Mixed => bail!("runs only grow"),
        }
    }

    fn clear(&mut self) -> Result<()> {
        self.runs.clear();
        self.index()
    }

    fn memory_usage(&self) -> usize {
        self.runs.iter().map(|run| run.keys.byte_len() + run.values.byte_len()).sum()
    }
}

impl ByOrder<u32, u32> for Runs<'_> {
    fn ask_by_order(&mut self, stream: &Stream, query: &mut Query<u32, u32>) -> Result<()> {
        match query {
            Query::Neighbours(asked) => self.successor(stream, asked),
            Query::Ranges(asked) => self.range(stream, asked),
        }
    }
}

impl Runs<'_> {
    fn successor(&mut self, stream: &Stream, asked: &mut Neighbours<u32, u32>) -> Result<()> {
        ensure!(asked.up, "there is no predecessor here");
        let Neighbours { keys, found, values, outcomes, .. } = asked;
        let (keys, runs) = (keys.global(), self.view());
        let (found, values, outcomes) = (found.global(), values.global(), outcomes.global());
        let launch = RunsSuccessor { runs, keys, found, values, outcomes };
        // SAFETY: as for look-ups.
        unsafe { stream.launch(Grid::for_items(keys.len(), THREADS), launch)? };
        Ok(())
    }

    fn range(&mut self, stream: &Stream, asked: &mut Ranges<u32, u32>) -> Result<()> {
        let (room, runs, parts) = (asked.room(), self.view(), asked.lows.len() * self.runs.len());
        if self.bounds.len() != parts {
            self.bounds = self.gpu.device.buffer(parts)?;
        }
        let (grid, bounds) = (Grid::for_items(parts, THREADS), self.bounds.global());
        let (lows, highs) = (asked.lows.global(), asked.highs.global());
        let (keys, values): (GlobalSlice<u32>, _) = (asked.keys.global(), asked.values.global());
        let counts = asked.counts.global();
        // SAFETY: dropping a buffer waits for the work of the stream. Counts are updated by atomic additions,
        // and each thread of the last kernel writes its own elements.
        unsafe {
            asked.counts.fill_bytes_on(stream, 0)?;
            stream.launch(grid, RunsBounds { runs, lows, highs, bounds })?;
            stream.launch(grid, RunsRange { runs, bounds, room, keys, values, counts })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DeviceChoice;

    /// Returns the runs' lengths in pieces after `count` pieces of 10 pairs.
    fn pieces(gpu: &Gpu, count: u32) -> Vec<usize> {
        let mut runs = Runs::new(gpu, 10 * count as usize, 10).unwrap();
        for piece in 0..count {
            let keys: Vec<u32> = (0..10).map(|n| (n * 37 + piece).wrapping_mul(0x9e37_79b1)).collect();
            runs.insert(&keys, &keys).unwrap();
        }
        for run in &runs.runs {
            let keys = run.keys.read().unwrap();
            assert!(keys.is_sorted() && keys == run.values.read().unwrap() && keys.len() == 10 * run.pieces);
        }
        runs.runs.iter().map(|run| run.pieces).collect()
    }

    #[test]
    fn runs_of_equal_lengths_are_merged() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let expected: [&[usize]; 5] = [&[1], &[2], &[2, 1], &[4], &[4, 2, 1]];
        assert_eq!([1, 2, 3, 4, 7].map(|count| pieces(&gpu, count)), expected.map(<[usize]>::to_vec));
    }
}

//! Litmus tests of the memory model: which outcomes the device shows, beside those that PTX allows.
//!
//! | op | threads of a run |
//! |---|---|
//! | `several_blocks` | each in a block of its own |
//! | `one_block` | warps of one block |
//!
//! | param | what |
//! |---|---|
//! | `test` | name of a test in `litmus::TESTS`, which is run in all 48 styles, or of one in `litmus::patterns` |
//! | `stress` | percentage of the blocks which only send atomics to a few lines meanwhile; 0 if missing |
//! | `blocks` | blocks of each multiprocessor, 1 to 8; 4 if missing |
//! | `spread` | words of each location per run, a power of two; 1 if missing. With many, address translations miss |
//!
//! `n` is the number of runs of each program. A run whose outcome the axioms of PTX forbid is an error,
//! unless the program has a race. `counted` has the numbers of programs, of outcomes that are allowed and of
//! those that were shown, and of runs with an outcome that no interleaving has (`weak`, also for each style).
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use gpu::{Buffer, Grid};
use litmus::axioms::{allowed, is_free_of_races};
use litmus::{EMPTY, Op, Outcome, REGISTERS, Style, TESTS, patterns, sequential};
use phalanx_kernels::litmus::{
    Code, LINE, LOCATIONS, Litmus, LitmusCount, LitmusRun, OPS, OUTCOME_BITS, READS, THREADS,
};
use simt::{Order, Scope};
use std::collections::BTreeMap;

/// Number of runs of a launch.
const AT_ONCE: usize = 1 << 21;

/// Number of looks at the other warps before a round.
const PATIENCE: u32 = 2000;

/// Number of lines of which some are under stress.
const LINES: u32 = 1 << 12;

/// Maximum number of accesses of a thread that causes stress: enough for a launch of 2^21 runs.
const STRESS: u32 = 1 << 16;

/// Litmus tests as a structure.
#[derive(Debug)]
pub struct LitmusTests<'a>(pub &'a Gpu);

impl Structure for LitmusTests<'_> {
    fn name(&self) -> &'static str {
        "Litmus"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["several_blocks", "one_block"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::new(self.0, case)?))
    }
}

/// A program, and what was counted.
struct Program {
    /// Style, or the name of the pattern.
    name: String,
    ops: Vec<Vec<Op>>,
    /// Number of runs of each outcome that was shown.
    shown: BTreeMap<u32, u64>,
}

impl Program {
    /// Returns the programs of a test.
    fn all(test: &str) -> Result<Vec<Self>> {
        let new = |name: String, ops| Self { name, ops, shown: BTreeMap::new() };
        if let Some((_, threads)) = TESTS.iter().find(|(name, _)| *name == test) {
            let styles = Style::all().into_iter();
            return Ok(styles.map(|style| new(style.to_string(), style.program(threads))).collect());
        }
        let found = patterns().into_iter().find(|(name, _)| *name == test);
        let (name, ops) = found.with_context(|| format!("no litmus test is called '{test}'"))?;
        Ok(vec![new(name.to_owned(), ops)])
    }

    /// Returns the operations as the kernel reads them.
    fn codes(&self) -> Vec<u32> {
        let mut codes = vec![0; (THREADS * OPS) as usize];
        for (thread, ops) in self.ops.iter().enumerate() {
            let own = codes[thread * OPS as usize..].iter_mut();
            own.zip(ops).for_each(|(code, &op)| *code = code_of(op).to_word());
        }
        codes
    }

    /// Returns the places of the operations that read, as the kernel counts them.
    fn reads(&self) -> Vec<u32> {
        let mut reads = Vec::new();
        for (thread, ops) in self.ops.iter().enumerate() {
            let own = (0..).zip(ops).filter(|(_, op)| op.reads());
            reads.extend(own.map(|(op, _)| thread as u32 * OPS + op));
        }
        reads.resize(READS as usize, u32::MAX);
        reads
    }

    /// Returns the outcome that a number stands for.
    fn outcome(&self, number: u32) -> Outcome {
        let field = |place: u32| number >> (2 * place) & 3;
        let mut registers = vec![EMPTY; self.ops.len() * REGISTERS];
        let mut next = vec![0; self.ops.len()];
        for (read, place) in (0..).zip(self.reads()).filter(|(_, place)| *place != u32::MAX) {
            let thread = (place / OPS) as usize;
            registers[thread * REGISTERS + next[thread]] = field(read);
            next[thread] += 1;
        }
        let memory = std::iter::once(0).chain((0..LOCATIONS).map(|location| field(READS + location)));
        (registers, memory.collect())
    }

    /// Checks the outcomes that were shown, and returns what is counted.
    fn check(&self, one_block: bool, expected: u64) -> Result<BTreeMap<&'static str, f64>> {
        let (allowed, interleaved) = (allowed(&self.ops, one_block, false), sequential::outcomes(&self.ops));
        let (name, has_race) = (&self.name, !is_free_of_races(&self.ops, one_block));
        let (mut runs, mut weak) = (0, 0);
        for (&number, &count) in &self.shown {
            let outcome = self.outcome(number);
            let is_allowed = has_race || allowed.contains(&outcome);
            ensure!(is_allowed, "{name}: {count} runs had the forbidden outcome {outcome:?}");
            runs += count;
            weak += if interleaved.contains(&outcome) { 0 } else { count };
        }
        ensure!(runs == expected, "{name}: {runs} outcomes of {expected} runs");
        let (allowed, shown) = (allowed.len() as f64, self.shown.len() as f64);
        let races = f64::from(u8::from(has_race));
        let counted = [("allowed", allowed), ("shown", shown), ("programs", 1.0), ("races", races)];
        Ok(counted.into_iter().chain([("weak", weak as f64)]).collect())
    }
}

/// Returns an operation as the kernel reads it.
fn code_of(op: Op) -> Code {
    let (kind, location, value, order, scope) = match op {
        Op::Store(at, value, order, scope) => (Code::STORE, at, value, order, scope),
        Op::Load(at, order, scope) => (Code::LOAD, at, 0, order, scope),
        Op::Exchange(at, value, order, scope) => (Code::EXCHANGE, at, value, order, scope),
        Op::Fence(scope) => (Code::FENCE, 0, 0, Order::AcqRel, scope),
        Op::FenceSc(scope) => (Code::FENCE_SC, 0, 0, Order::AcqRel, scope),
        Op::LoadThere(order) => (Code::LOAD_THERE, 0, 0, order, Scope::Device),
        Op::StoreRead(at, order) => (Code::STORE_READ, at, 0, order, Scope::Device),
    };
    let order = match order {
        Order::Acquire => 1,
        Order::Release => 2,
        Order::AcqRel => 3,
        _ => 0,
    };
    Code { kind, location: location as u32, value, order, in_block: u32::from(scope == Scope::Block) }
}

/// Returns the number of blocks that cause stress. At least one per thread of a program remains.
fn stressing(case: &Case, blocks: u32) -> Result<u32> {
    let percent = case.number_if_given("stress")?.unwrap_or(0.0).clamp(0.0, 100.0);
    Ok((blocks * percent as u32 / 100).min(blocks.saturating_sub(THREADS)))
}

/// Prepared case.
struct Prepared<'a> {
    gpu: &'a Gpu,
    one_block: bool,
    runs: usize,
    seed: u32,
    programs: Vec<Program>,
    grid: Grid,
    ops: Buffer<u32>,
    reads: Buffer<u32>,
    words: Buffer<u32>,
    results: Buffer<u32>,
    arrived: Buffer<u32>,
    /// Lines under stress, and the number of blocks that cause it.
    lines: Buffer<u32>,
    stressing: u32,
    done: Buffer<u32>,
    counts: Buffer<u64>,
    counted: BTreeMap<String, f64>,
}

impl<'a> Prepared<'a> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (device, runs) = (&gpu.device, case.n as usize);
        let at_once = runs.min(AT_ONCE);
        let programs = Program::all(&case.text("test")?)?;
        let threads = programs.iter().map(|program| program.ops.len()).max().unwrap_or(0);
        // With up to 4, all are resident. A warp that waits for one that is not gives up.
        let per_sm = case.number_if_given("blocks")?.unwrap_or(4.0).clamp(1.0, 8.0) as u32;
        let (blocks, size) =
            if device.is_emulator() { (8, 128) } else { (device.resident_threads() / 2048 * per_sm, 256) };
        let spread =
            (case.number_if_given("spread")?.unwrap_or(1.0) as usize).clamp(1, 2048).next_power_of_two();
        Ok(Self {
            gpu,
            one_block: case.op == "one_block",
            runs,
            seed: case.seed as u32,
            programs,
            grid: Grid::new(blocks, size),
            ops: device.buffer((THREADS * OPS) as usize)?,
            reads: device.buffer(READS as usize)?,
            words: device.buffer((LOCATIONS as usize + 1) * at_once.next_power_of_two() * spread)?,
            results: device.buffer(threads * at_once)?,
            arrived: device.buffer((blocks * size / 32) as usize)?,
            lines: device.zeroed((LINES * LINE) as usize)?,
            stressing: stressing(case, blocks)?,
            done: device.buffer(1)?,
            counts: device.buffer(1 << OUTCOME_BITS)?,
            counted: BTreeMap::new(),
        })
    }

    /// Runs a program, and counts its outcomes.
    fn run(&mut self, index: usize) -> Result<()> {
        let program = &self.programs[index];
        self.ops.write(&program.codes())?;
        self.reads.write(&program.reads())?;
        self.counts.fill_bytes(0)?;
        let job = Litmus {
            ops: self.ops.global(),
            words: self.words.global(),
            results: self.results.global(),
            arrived: self.arrived.global(),
            runs: 0,
            threads: program.ops.len() as u32,
            one_block: u32::from(self.one_block),
            patience: if self.gpu.device.is_emulator() { 0 } else { PATIENCE },
            seed: 0,
            lines: self.lines.global(),
            stressing: self.stressing,
            stress: if self.gpu.device.is_emulator() { 4 } else { STRESS },
            done: self.done.global(),
        };
        self.words.fill_bytes(0)?;
        for first in (0..self.runs).step_by(AT_ONCE) {
            self.arrived.fill_bytes(0)?;
            self.done.fill_bytes(0)?;
            let seed = self.seed ^ (first as u32).wrapping_mul(0x9e37_79b9);
            let job = Litmus { runs: (self.runs - first).min(AT_ONCE) as u32, seed, ..job };
            let (reads, counts) = (self.reads.global(), self.counts.global());
            // SAFETY: the buffers outlive the launches, which are waited for, and have room for the runs.
            unsafe {
                self.gpu.stream.launch(self.grid, LitmusRun { job })?;
                self.gpu.stream.launch(self.grid, LitmusCount { job, reads, counts })?;
            }
            self.gpu.stream.synchronize()?;
        }
        let counts = (0..).zip(self.counts.read()?).filter(|(_, count)| *count > 0);
        self.programs[index].shown = counts.collect();
        Ok(())
    }

    /// Checks the outcomes of a program, and adds them to what is counted.
    fn check(&mut self, index: usize) -> Result<()> {
        let program = &self.programs[index];
        let numbers = program.check(self.one_block, self.runs as u64)?;
        let weak = numbers["weak"];
        let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), number));
        for (name, number) in numbers.chain([(format!("weak: {}", program.name), weak)]) {
            *self.counted.entry(name).or_default() += number;
        }
        Ok(())
    }
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        (0..self.programs.len()).try_for_each(|index| self.run(index))
    }

    fn verify(&mut self) -> Result<Verified> {
        self.counted.clear();
        (0..self.programs.len()).try_for_each(|index| self.check(index))?;
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        (self.programs.len() * self.runs) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.words.byte_len() + self.results.byte_len() + self.counts.byte_len();
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litmus::GPU;

    /// Message passing whose reader saw these values, the flag first.
    fn message_passing(store: Order, load: Order, read: [u32; 2]) -> Program {
        let between = litmus::Between::Nothing;
        let style = Style { store, load, scope: GPU, between, exchanges: false };
        let ops = style.program(TESTS[0].1);
        // Both locations have the value 1 at last.
        let outcome = read[0] | read[1] << 2 | 1 << (2 * READS) | 1 << (2 * READS + 2);
        Program { name: "MP".to_owned(), ops, shown: [(outcome, 7)].into() }
    }

    #[test]
    fn outcomes_are_decoded_and_judged() {
        let (none, [x, y]) = (EMPTY, [1, 1]);
        let weak = message_passing(Order::Relaxed, Order::Relaxed, [1, 0]);
        let (number, _) = weak.shown.first_key_value().unwrap();
        let registers = vec![none, none, none, none, 1, 0, none, none];
        assert_eq!(weak.outcome(*number), (registers, vec![0, x, y, 0]));
        assert_eq!(weak.check(false, 7).unwrap()["weak"], 7.0);
        assert!(weak.check(false, 8).is_err());
        assert_eq!(
            message_passing(Order::Relaxed, Order::Relaxed, [0, 1]).check(false, 7).unwrap()["weak"],
            0.0
        );
        assert!(message_passing(Order::Release, Order::Acquire, [1, 0]).check(false, 7).is_err());
        assert!(message_passing(Order::Release, Order::Acquire, [1, 1]).check(true, 7).is_ok());
    }

    /// No program has more operations, threads, reads or values than a number has room for.
    #[test]
    fn programs_fit() {
        let names = TESTS.iter().map(|test| test.0).chain(patterns().into_iter().map(|pattern| pattern.0));
        for program in names.flat_map(|name| Program::all(name).unwrap()) {
            assert!(program.ops.len() <= THREADS as usize);
            assert!(program.ops.iter().all(|ops| ops.len() <= OPS as usize));
            let reads = program.ops.iter().flatten().filter(|op| op.reads()).count();
            assert!(reads <= READS as usize, "{}", program.name);
            assert!(program.codes().into_iter().all(|code| Code::from_word(code).value <= 3));
        }
        assert!(Program::all("none").is_err());
    }
}

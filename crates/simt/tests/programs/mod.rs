//! The kernel that runs litmus programs, on emulated devices that explore.
#![allow(dead_code)] // each test program uses a part

use crate::common::Buffer;
use simt::emulator::{Detect, Emulator, Options, Schedule, Trace, WeakMemory};
use simt::{GlobalSlice, Grid, Kernel, Thread, fence, fence_sc};

pub use litmus::Op::*;
pub use litmus::*;
pub use simt::Order::*;

/// Words between locations, so that each lies in a separate granule.
pub const STRIDE: usize = 4;

/// Operations of each thread.
pub type Program<'a> = &'a [&'a [Op]];

/// An owned program, for kernels, which cannot borrow.
pub type OwnedProgram = &'static [Vec<Op>];

#[derive(Clone, Copy)]
pub struct Run {
    program: OwnedProgram,
    memory: GlobalSlice<u32>,
    registers: GlobalSlice<u32>,
}

impl Kernel for Run {
    const PROGRAM: &'static str = "litmus";
    const NAME: &'static str = "run";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let (mut registers, mut read) = ([u32::MAX; REGISTERS], 0);
        for op in &self.program[Thread::index()] {
            let last = registers[read.max(1) - 1];
            if let Some(value) = self.execute(*op, last) {
                registers[read] = value;
                read += 1;
            }
        }
        for (i, register) in registers.into_iter().enumerate() {
            self.registers.write(Thread::index() * REGISTERS + i, register);
        }
    }
}

impl Run {
    fn execute(&self, op: Op, last: u32) -> Option<u32> {
        let at = |location: usize| self.memory.at(location * STRIDE);
        match op {
            Store(location, value, order, scope) => at(location).store(value, order, scope),
            StoreRead(location, order) => at(location).store(last, order, GPU),
            Load(location, order, scope) => return Some(at(location).load(order, scope)),
            LoadThere(order) => return Some(at(last as usize).load(order, GPU)),
            Exchange(location, value, order, scope) => {
                return Some(at(location).exchange(value, order, scope));
            }
            Fence(scope) => fence(scope),
            FenceSc(scope) => fence_sc(scope),
        }
        None
    }
}

pub fn owned(program: Program) -> OwnedProgram {
    program.iter().map(|ops| ops.to_vec()).collect::<Vec<_>>().leak()
}

/// Returns a device that explores a schedule, with early writes.
pub fn device(weak_memory: WeakMemory, schedule: Schedule) -> Emulator {
    let detect = Detect { races: false, ..Detect::ALL };
    Emulator::new(Options { weak_memory, detect, early_writes: true, ..Options::explore(schedule) })
}

/// Returns the schedule of a seed: uniformly random and by priorities in turn.
pub fn schedule(seed: u64) -> Schedule {
    if seed.is_multiple_of(2) { Schedule::Random { seed } } else { Schedule::Pct { seed, depth: 3 } }
}

/// Runs the program with each thread in a separate block, or all in one block. Returns the registers, the
/// memory and the trace.
pub fn run(device: &Emulator, program: OwnedProgram, one_block: bool) -> (Vec<u32>, Vec<u32>, Trace) {
    let threads = program.len();
    let memory = Buffer::zeroed(device, LOCATIONS * STRIDE);
    let registers = Buffer::zeroed(device, threads * REGISTERS);
    let grid = if one_block { Grid::new(1, threads as u32) } else { Grid::new(threads as u32, 1) };
    let kernel = Run { program, memory: memory.slice(), registers: registers.slice() };
    let report = device.launch(grid, kernel).unwrap();
    (registers.read(), memory.read(), report.trace.unwrap())
}

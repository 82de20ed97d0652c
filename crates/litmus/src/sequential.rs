//! Outcomes under sequential consistency, by enumeration of all interleavings.
use crate::{EMPTY, LOCATIONS, Op, Outcome, REGISTERS};
use std::collections::BTreeSet;

/// The state of a program between two operations.
#[derive(Clone)]
struct State {
    /// Number of operations that each thread has executed.
    done: Vec<usize>,
    registers: Vec<u32>,
    memory: Vec<u32>,
}

impl State {
    /// Executes the next operation of a thread.
    fn step(&mut self, thread: usize, op: Op) {
        let own = &mut self.registers[thread * REGISTERS..(thread + 1) * REGISTERS];
        let read = own.iter().take_while(|&&value| value != EMPTY).count();
        let last = own[read.max(1) - 1];
        match op {
            Op::Store(at, value, ..) => self.memory[at] = value,
            Op::StoreRead(at, _) => self.memory[at] = last,
            Op::Load(at, ..) => own[read] = self.memory[at],
            Op::LoadThere(_) => own[read] = self.memory[last as usize],
            Op::Exchange(at, value, ..) => own[read] = std::mem::replace(&mut self.memory[at], value),
            Op::Fence(_) | Op::FenceSc(_) => {}
        }
        self.done[thread] += 1;
    }
}

/// Returns the outcomes of all interleavings of the threads' operations.
pub fn outcomes(program: &[Vec<Op>]) -> BTreeSet<Outcome> {
    let mut found = BTreeSet::new();
    let registers = vec![EMPTY; program.len() * REGISTERS];
    let mut open = vec![State { done: vec![0; program.len()], registers, memory: vec![0; LOCATIONS] }];
    while let Some(state) = open.pop() {
        let before = open.len();
        for (thread, ops) in program.iter().enumerate() {
            if let Some(&op) = ops.get(state.done[thread]) {
                let mut next = state.clone();
                next.step(thread, op);
                open.push(next);
            }
        }
        if open.len() == before {
            found.insert((state.registers, state.memory));
        }
    }
    found
}

//! The exploring mode against the axioms of PTX, for litmus programs of up to eight accesses: it shows no
//! outcome that the axioms forbid, and of listed programs every outcome that they allow.
mod common;
mod programs;

use programs::axioms::{self, Outcome};
use programs::*;
use simt::emulator::WeakMemory;
use simt::{Order, Scope};
use std::collections::BTreeSet;

/// Seeds within which each allowed outcome of a listed program is shown.
const SEEDS: u64 = 10_000;

/// Seeds within which a listed program shows nothing forbidden.
const FEW_SEEDS: u64 = 200;

/// Runs a program under the seed.
fn outcome(weak_memory: WeakMemory, program: OwnedProgram, one_block: bool, seed: u64) -> Outcome {
    let device = device(weak_memory, schedule(seed));
    let (registers, memory, _) = run(&device, program, one_block);
    (registers, memory.into_iter().step_by(STRIDE).collect())
}

/// Checks that the program shows all that is allowed within the seeds, and nothing else.
fn check(name: &str, program: OwnedProgram, one_block: bool, weak_memory: WeakMemory) {
    let context = |seed| format!("{name}: {program:?}, one block {one_block}, {weak_memory:?}, seed {seed}");
    let mut missing = axioms::allowed(program, one_block, weak_memory == WeakMemory::Hardware);
    let allowed = missing.clone();
    if !axioms::is_free_of_races(program, one_block) {
        missing.clear();
    }
    for seed in 0..SEEDS {
        if seed >= FEW_SEEDS && missing.is_empty() {
            break;
        }
        let shown = outcome(weak_memory, program, one_block, seed);
        assert!(allowed.contains(&shown), "forbidden: {}: {shown:?}", context(seed));
        missing.remove(&shown);
    }
    assert!(missing.is_empty(), "not shown: {}: {missing:?}", context(SEEDS));
}

/// Checks the program in all ways.
fn check_all(name: &str, program: &[Vec<Op>]) {
    let program: OwnedProgram = program.to_vec().leak();
    for one_block in [false, true] {
        check(name, program, one_block, WeakMemory::Ptx);
        check(name, program, one_block, WeakMemory::Hardware);
    }
}

/// An access of a litmus test, without its order.
#[derive(Clone, Copy)]
enum Access {
    W(usize, u32),
    R(usize),
}
use Access::*;

/// How the accesses of a test are executed.
#[derive(Clone, Copy, Debug)]
struct Style {
    store: Order,
    load: Order,
    scope: Scope,
    /// Fence between the accesses of each thread.
    fence: Option<fn(Scope) -> Op>,
    /// Whether writes are exchanges.
    exchanges: bool,
}

impl Style {
    fn all() -> Vec<Self> {
        let mut styles = Vec::new();
        let orders = [(Relaxed, Relaxed), (Release, Relaxed), (Relaxed, Acquire), (Release, Acquire)];
        for (store, load) in orders {
            for fence in [None, Some(Op::Fence as fn(Scope) -> Op), Some(Op::FenceSc)] {
                for (scope, exchanges) in [(GPU, false), (GPU, true), (BLOCK, false), (BLOCK, true)] {
                    styles.push(Self { store, load, scope, fence, exchanges });
                }
            }
        }
        styles
    }

    fn op(self, access: Access) -> Op {
        match access {
            W(at, value) if self.exchanges => Exchange(at, value, self.store, self.scope),
            W(at, value) => Store(at, value, self.store, self.scope),
            R(at) => Load(at, self.load, self.scope),
        }
    }

    fn thread(self, accesses: &[Access]) -> Vec<Op> {
        let mut ops = Vec::new();
        for (i, access) in accesses.iter().enumerate() {
            ops.extend(self.fence.filter(|_| i > 0).map(|fence| fence(self.scope)));
            ops.push(self.op(*access));
        }
        ops
    }
}

/// Checks a test in all styles.
fn check_styles(name: &str, threads: &[&[Access]]) {
    for style in Style::all() {
        let program: Vec<_> = threads.iter().map(|accesses| style.thread(accesses)).collect();
        check_all(name, &program);
    }
}

#[test]
fn message_passing_and_buffering() {
    check_styles("MP", &[&[W(X, 1), W(Y, 1)], &[R(Y), R(X)]]);
    check_styles("SB", &[&[W(X, 1), R(Y)], &[W(Y, 1), R(X)]]);
    check_styles("LB", &[&[R(X), W(Y, 1)], &[R(Y), W(X, 1)]]);
}

#[test]
fn writes_that_are_overtaken() {
    check_styles("R", &[&[W(X, 1), W(Y, 1)], &[W(Y, 2), R(X)]]);
    check_styles("S", &[&[W(X, 2), W(Y, 1)], &[R(Y), W(X, 1)]]);
    check_styles("2+2W", &[&[W(X, 1), W(Y, 2)], &[W(Y, 1), W(X, 2)]]);
}

#[test]
fn several_readers() {
    check_styles("WRC", &[&[W(X, 1)], &[R(X), W(Y, 1)], &[R(Y), R(X)]]);
    check_styles("IRIW", &[&[W(X, 1)], &[W(Y, 1)], &[R(X), R(Y)], &[R(Y), R(X)]]);
}

#[test]
fn coherence() {
    check_styles("CoRR", &[&[W(X, 1)], &[R(X), R(X)]]);
    check_styles("CoWR", &[&[W(X, 1), R(X)], &[W(X, 2)]]);
    check_styles("CoRW", &[&[R(X), W(X, 1)], &[W(X, 2)]]);
    check_styles("CoWW", &[&[W(X, 1), W(X, 2)], &[R(X)]]);
}

/// Releases and acquires of the second patterns of PTX, release sequences, and dependencies.
#[test]
fn patterns_and_dependencies() {
    let released = vec![st(X, 1), Store(Y, 1, Release, GPU), st(Y, 2)];
    let acquired = vec![ld(Y), Load(Y, Acquire, GPU), ld(X)];
    check_all("both second patterns", &[released.clone(), acquired.clone()]);
    check_all("a second release pattern", &[released.clone(), vec![Load(Y, Acquire, GPU), ld(X)]]);
    check_all("a second acquire pattern", &[vec![st(X, 1), Store(Y, 1, Release, GPU)], acquired]);
    check_all(
        "of two scopes",
        &[vec![st(X, 1), Store(Y, 1, Release, BLOCK), st(Y, 2)], vec![Load(Y, Acquire, GPU), ld(X)]],
    );
    let update = vec![Exchange(Y, 3, Relaxed, GPU)];
    check_all("a release sequence", &[released, vec![Load(Y, Acquire, GPU), ld(X)], update]);
    let copy = vec![ld(X), StoreRead(Y, Relaxed)];
    check_all("LB, one dependency", &[copy.clone(), vec![ld(Y), st(X, 1)]]);
    check_all("LB, two dependencies", &[copy, vec![ld(Y), StoreRead(X, Relaxed)]]);
    let writer = vec![st(X, 1), Fence(GPU), st(Y, X as u32)];
    check_all("MP, an address", &[writer, vec![ld(Y), LoadThere(Relaxed)]]);
}

/// A simple random number generator for tests.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * range) >> 31
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    fn op(&mut self, value: u32) -> Op {
        let at = self.pick(&[X, X, X, Y, Y, Y, Z]);
        let scope = self.pick(&[GPU, GPU, GPU, BLOCK]);
        match self.below(16) {
            0..=4 => Store(at, value, self.pick(&[Relaxed, Relaxed, Relaxed, Release]), scope),
            5..=9 => Load(at, self.pick(&[Relaxed, Relaxed, Relaxed, Acquire]), scope),
            10 => Exchange(at, value, self.pick(&[Relaxed, Acquire, Release, AcqRel]), scope),
            11 => StoreRead(at, self.pick(&[Relaxed, Release])),
            12 => LoadThere(self.pick(&[Relaxed, Acquire])),
            13 | 14 => Fence(scope),
            _ => FenceSc(scope),
        }
    }

    fn program(&mut self) -> Vec<Vec<Op>> {
        let threads = 2 + self.below(2);
        let mut value = 0;
        let mut ops = |numbers: &mut Self| {
            let count = 2 + numbers.below(if threads == 2 { 3 } else { 2 });
            let mut ops: Vec<_> = (0..count)
                .map(|_| {
                    value = value % 3 + 1;
                    numbers.op(value)
                })
                .collect();
            // A dependency needs a read before it.
            if let Some(first) = ops.iter().position(|op| matches!(op, StoreRead(..) | LoadThere(_)))
                && !ops[..first].iter().any(|op| matches!(op, Load(..) | Exchange(..)))
            {
                ops[first] = ld(Y);
            }
            ops
        };
        (0..threads).map(|_| ops(self)).collect()
    }
}

#[test]
fn generated_programs_show_nothing_forbidden() {
    const PROGRAMS: usize = 400;
    let (mut numbers, mut shown, mut allowed) = (Numbers(1), 0, 0);
    for index in 0..PROGRAMS {
        let program: OwnedProgram = numbers.program().leak();
        let one_block = numbers.below(2) == 1;
        for weak_memory in [WeakMemory::Ptx, WeakMemory::Hardware] {
            let may = axioms::allowed(program, one_block, weak_memory == WeakMemory::Hardware);
            let mut seen = BTreeSet::new();
            for seed in 0..FEW_SEEDS {
                let is = outcome(weak_memory, program, one_block, seed);
                let context = (index, program, one_block, weak_memory, seed);
                assert!(may.contains(&is), "forbidden: {context:?}: {is:?}");
                seen.insert(is);
            }
            shown += seen.len();
            allowed += may.len();
        }
    }
    assert!(allowed > 3_000 && 10 * shown > 9 * allowed, "{shown} of {allowed} outcomes");
}

//! The exploring mode against the axioms of PTX, for litmus programs of up to eight accesses: it shows no
//! outcome that the axioms forbid, and of listed programs every outcome that they allow.
mod common;
mod programs;

use litmus::axioms;
use programs::*;
use simt::emulator::WeakMemory;
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

/// Checks the tests with these names in all styles.
fn check_styles(names: &[&str]) {
    for name in names {
        let (_, threads) = TESTS.iter().find(|(other, _)| other == name).expect("a test has the name");
        Style::all().into_iter().for_each(|style| check_all(name, &style.program(threads)));
    }
}

#[test]
fn message_passing_and_buffering() {
    check_styles(&["MP", "SB", "LB"]);
}

#[test]
fn writes_that_are_overtaken() {
    check_styles(&["R", "S", "2+2W"]);
}

#[test]
fn several_readers() {
    check_styles(&["WRC", "IRIW"]);
}

#[test]
fn coherence() {
    check_styles(&["CoRR", "CoWR", "CoRW", "CoWW"]);
}

/// Releases and acquires of the second patterns of PTX, release sequences, and dependencies.
#[test]
fn patterns_and_dependencies() {
    patterns().into_iter().for_each(|(name, program)| check_all(name, &program));
}

/// Every sequentially consistent outcome is allowed.
#[test]
fn interleavings_are_allowed() {
    for (name, threads) in TESTS {
        for program in Style::all().into_iter().map(|style| style.program(threads)) {
            let allowed = axioms::allowed(&program, false, true);
            assert!(sequential::outcomes(&program).is_subset(&allowed), "{name}: {program:?}");
        }
    }
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

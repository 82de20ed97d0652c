//! Litmus tests: the weak outcomes that the exploring mode shows, and those that it never shows, for each
//! `Options::weak_memory`.
//!
//! An outcome that PTX forbids is never shown. Under `Ptx`, each outcome that PTX allows is shown. `Off` is
//! sequentially consistent and shows none. `Hardware` also forbids what a GPU never does when an address
//! depends on an earlier read; it treats each access as dependent on all reads before it. The axioms of
//! `litmus::axioms` must agree with each expected result.
mod common;
mod programs;

use common::{Buffer, on_zeros};
use programs::*;
use simt::emulator::{FailureKind, Schedule, WeakMemory};
use simt::{GlobalSlice, Grid, Kernel, Thread, Tile, fence, kernel, spin_hint, timer};

/// Seeds within which an outcome is not shown.
const SEEDS: u64 = 400;

/// Seeds within which an outcome is shown.
const MOST_SEEDS: u64 = 10_000;

/// A condition of an outcome.
#[derive(Clone, Copy)]
enum Is {
    /// The thread's register has this value.
    Reg(usize, usize, u32),
    /// The location has this final value.
    Mem(usize, u32),
}
use Is::*;

type Outcome<'a> = &'a [Is];

const MP: Outcome = &[Reg(1, 0, 1), Reg(1, 1, 0)];
const SB: Outcome = &[Reg(0, 0, 0), Reg(1, 0, 0)];
const LB: Outcome = &[Reg(0, 0, 1), Reg(1, 0, 1)];
const WRC: Outcome = &[Reg(1, 0, 1), Reg(2, 0, 1), Reg(2, 1, 0)];
const IRIW: Outcome = &[Reg(2, 0, 1), Reg(2, 1, 0), Reg(3, 0, 1), Reg(3, 1, 0)];

/// Models among `Ptx` and `Hardware` under which an outcome is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Neither, because it is forbidden.
    Never,
    Both,
    /// A dependency that PTX does not respect, or that `Hardware` assumes, forbids it.
    PtxOnly,
}
use Shown::*;

impl Is {
    /// Returns `true` if it holds in these registers, and in memory with this distance between locations.
    fn is_in(self, registers: &[u32], memory: &[u32], stride: usize) -> bool {
        match self {
            Reg(thread, register, value) => registers[thread * REGISTERS + register] == value,
            Mem(location, value) => memory[location * stride] == value,
        }
    }
}

fn holds(outcome: Outcome, registers: &[u32], memory: &[u32]) -> bool {
    outcome.iter().all(|part| part.is_in(registers, memory, STRIDE))
}

/// Returns `true` if some of the seeds shows the outcome.
fn shows(
    weak_memory: WeakMemory,
    program: OwnedProgram,
    outcome: Outcome,
    (one_block, seeds): (bool, u64),
) -> bool {
    (0..seeds).any(|seed| {
        let device = device(weak_memory, schedule(seed));
        let (registers, memory, _) = run(&device, program, one_block);
        holds(outcome, &registers, &memory)
    })
}

fn check_in(name: &str, expected: Shown, program: Program, outcome: Outcome, one_block: bool) {
    let program = owned(program);
    let wanted = match expected {
        Never => [false, false, false],
        Both => [false, true, true],
        PtxOnly => [false, true, false],
    };
    let models = [WeakMemory::Off, WeakMemory::Ptx, WeakMemory::Hardware];
    let seen = [0, 1, 2].map(|i| {
        let seeds = if wanted[i] { MOST_SEEDS } else { SEEDS };
        shows(models[i], program, outcome, (one_block, seeds))
    });
    assert_eq!(seen, wanted, "{name}: expected {expected:?}; shown under Off, Ptx and Hardware:");
    let allows = |hardware| {
        let all = axioms::allowed(program, one_block, hardware);
        all.iter().any(|(registers, memory)| outcome.iter().all(|part| part.is_in(registers, memory, 1)))
    };
    assert_eq!([allows(false), allows(true)], wanted[1..], "{name}: the axioms disagree");
}

/// Checks a program with each thread in a separate block.
fn check(name: &str, expected: Shown, program: Program, outcome: Outcome) {
    check_in(name, expected, program, outcome, false);
}

/// Checks a program with all threads in one block.
fn check_in_block(name: &str, expected: Shown, program: Program, outcome: Outcome) {
    check_in(name, expected, program, outcome, true);
}

const ST_RELEASE: Op = Store(Y, 1, Release, GPU);
const LD_ACQUIRE: Op = Load(Y, Acquire, GPU);

#[test]
fn message_passing() {
    check("relaxed", Both, &[&[st(X, 1), st(Y, 1)], &[ld(Y), ld(X)]], MP);
    check("release and acquire", Never, &[&[st(X, 1), ST_RELEASE], &[LD_ACQUIRE, ld(X)]], MP);
    check("release, relaxed reader", PtxOnly, &[&[st(X, 1), ST_RELEASE], &[ld(Y), ld(X)]], MP);
    check("relaxed writer, acquire", Both, &[&[st(X, 1), st(Y, 1)], &[LD_ACQUIRE, ld(X)]], MP);
    let exchange = Exchange(Y, 1, Release, GPU);
    check(
        "by exchange",
        Never,
        &[&[st(X, 1), exchange], &[LD_ACQUIRE, ld(X)]],
        &[Reg(1, 0, 1), Reg(1, 1, 0)],
    );
}

#[test]
fn message_passing_by_fences() {
    const WRITER: &[Op] = &[st(X, 1), Fence(GPU), st(Y, 1)];
    const READER: &[Op] = &[ld(Y), Fence(GPU), ld(X)];
    check("both", Never, &[WRITER, READER], MP);
    check("the writer's alone", PtxOnly, &[WRITER, &[ld(Y), ld(X)]], MP);
    check("the reader's alone", Both, &[&[st(X, 1), st(Y, 1)], READER], MP);
    check("and acquire", Never, &[WRITER, &[LD_ACQUIRE, ld(X)]], MP);
    check("and release", Never, &[&[st(X, 1), ST_RELEASE], READER], MP);
    check("sequentially consistent", Never, &[&[st(X, 1), FenceSc(GPU), st(Y, 1)], READER], MP);
}

#[test]
fn message_passing_in_scopes() {
    const BY_FENCES: Program = &[&[st(X, 1), Fence(BLOCK), st(Y, 1)], &[ld(Y), Fence(BLOCK), ld(X)]];
    const BY_ORDERS: Program = &[&[st(X, 1), Store(Y, 1, Release, BLOCK)], &[Load(Y, Acquire, BLOCK), ld(X)]];
    check("fences of block scope", Both, BY_FENCES, MP);
    check("orders of block scope", Both, BY_ORDERS, MP);
    check_in_block("fences of block scope", Never, BY_FENCES, MP);
    check_in_block("orders of block scope", Never, BY_ORDERS, MP);
    check_in_block("relaxed", Both, &[&[st(X, 1), st(Y, 1)], &[ld(Y), ld(X)]], MP);
}

/// The message is the location of the written word.
#[test]
fn message_passing_with_an_address_dependency() {
    const POINTER: u32 = X as u32;
    const STALE: Outcome = &[Reg(1, 0, POINTER), Reg(1, 1, 0)];
    const FENCED: &[Op] = &[st(X, 1), Fence(GPU), st(Y, POINTER)];
    check("the writer fences", PtxOnly, &[FENCED, &[ld(Y), LoadThere(Relaxed)]], STALE);
    check("an acquire after the fact", PtxOnly, &[FENCED, &[ld(Y), LoadThere(Acquire)]], STALE);
    check("nobody fences", Both, &[&[st(X, 1), st(Y, POINTER)], &[ld(Y), LoadThere(Relaxed)]], STALE);
}

#[test]
fn message_passing_through_others() {
    const WRITER: &[Op] = &[st(X, 1), ST_RELEASE];
    const READER: &[Op] = &[LD_ACQUIRE, ld(X)];
    // The exchange continues the release chain; a store breaks it.
    const PASSED_ON: Outcome = &[Reg(1, 0, 2), Reg(1, 1, 0), Reg(2, 0, 1)];
    check("a relaxed exchange", Never, &[WRITER, READER, &[Exchange(Y, 2, Relaxed, GPU)]], PASSED_ON);
    check("a relaxed store", Both, &[WRITER, READER, &[ld(Y), st(Y, 2)]], PASSED_ON);
    const ISA2: Program =
        &[WRITER, &[LD_ACQUIRE, Store(Z, 1, Release, GPU)], &[Load(Z, Acquire, GPU), ld(X)]];
    check("another thread's release", Never, ISA2, WRC);
}

#[test]
fn store_buffering() {
    check("relaxed", Both, &[&[st(X, 1), ld(Y)], &[st(Y, 1), ld(X)]], SB);
    const BY_ORDERS: Program =
        &[&[Store(X, 1, Release, GPU), LD_ACQUIRE], &[ST_RELEASE, Load(X, Acquire, GPU)]];
    check("release and acquire", Both, BY_ORDERS, SB);
    check("fences", Both, &[&[st(X, 1), Fence(GPU), ld(Y)], &[st(Y, 1), Fence(GPU), ld(X)]], SB);
}

/// This outcome needs the fence between the write and the read, in both threads, with a scope that includes
/// both.
#[test]
fn store_buffering_by_sequentially_consistent_fences() {
    const GPU_WIDE: &[Op] = &[st(X, 1), FenceSc(GPU), ld(Y)];
    const IN_BLOCK: &[Op] = &[st(X, 1), FenceSc(BLOCK), ld(Y)];
    const OTHER: &[Op] = &[st(Y, 1), FenceSc(GPU), ld(X)];
    check("both", Never, &[GPU_WIDE, OTHER], SB);
    check("one, and a fence", Both, &[GPU_WIDE, &[st(Y, 1), Fence(GPU), ld(X)]], SB);
    check("one, and none", Both, &[GPU_WIDE, &[st(Y, 1), ld(X)]], SB);
    check("one of block scope", Both, &[IN_BLOCK, OTHER], SB);
    check_in_block("one of block scope", Never, &[IN_BLOCK, OTHER], SB);
    check_in_block("both of block scope", Never, &[IN_BLOCK, &[st(Y, 1), FenceSc(BLOCK), ld(X)]], SB);
    check("before the writes", Both, &[&[FenceSc(GPU), st(X, 1), ld(Y)], OTHER], SB);
}

/// Awaiting the result of a read-modify-write does not make it visible to all threads. (On an H200, relaxed
/// ones showed this outcome, and acquire-release ones did not; PTX allows both.)
#[test]
fn store_buffering_by_read_modify_writes() {
    const MISSED: Outcome = &[Reg(0, 1, 0), Reg(1, 1, 0)];
    const RELAXED: Program =
        &[&[Exchange(X, 1, Relaxed, GPU), ld(Y)], &[Exchange(Y, 1, Relaxed, GPU), ld(X)]];
    const ACQ_REL: Program = &[&[Exchange(X, 1, AcqRel, GPU), ld(Y)], &[Exchange(Y, 1, AcqRel, GPU), ld(X)]];
    const FENCED: Program = &[
        &[Exchange(X, 1, Relaxed, GPU), FenceSc(GPU), ld(Y)],
        &[Exchange(Y, 1, Relaxed, GPU), FenceSc(GPU), ld(X)],
    ];
    check("relaxed", Both, RELAXED, MISSED);
    check("acquire-release", Both, ACQ_REL, MISSED);
    check("with fences", Never, FENCED, MISSED);
}

/// The test R: one of the reads of store buffering is replaced by a write, whose position in the modification
/// order of its location is observed.
#[test]
fn a_write_and_a_read_beside_two_writes() {
    const WEAK: Outcome = &[Reg(1, 0, 0), Mem(Y, 2)];
    check("relaxed", Both, &[&[st(X, 1), st(Y, 1)], &[st(Y, 2), ld(X)]], WEAK);
    check("fences", Both, &[&[st(X, 1), Fence(GPU), st(Y, 1)], &[st(Y, 2), Fence(GPU), ld(X)]], WEAK);
    const BY_SC: Program = &[&[st(X, 1), FenceSc(GPU), st(Y, 1)], &[st(Y, 2), FenceSc(GPU), ld(X)]];
    check("sequentially consistent fences", Never, BY_SC, WEAK);
}

/// Two readers disagree on which of two writes was first. (`Hardware` shows more than a GPU does, whose
/// writes become visible to all threads at once.)
#[test]
fn independent_reads_of_independent_writes() {
    const WRITERS: [&[Op]; 2] = [&[st(X, 1)], &[st(Y, 1)]];
    const RELAXED: Program = &[WRITERS[0], WRITERS[1], &[ld(X), ld(Y)], &[ld(Y), ld(X)]];
    const BY_ORDERS: Program = &[
        &[Store(X, 1, Release, GPU)],
        &[ST_RELEASE],
        &[Load(X, Acquire, GPU), LD_ACQUIRE],
        &[LD_ACQUIRE, Load(X, Acquire, GPU)],
    ];
    const FENCED: Program =
        &[WRITERS[0], WRITERS[1], &[ld(X), FenceSc(GPU), ld(Y)], &[ld(Y), FenceSc(GPU), ld(X)]];
    check("relaxed", Both, RELAXED, IRIW);
    check("release and acquire", Both, BY_ORDERS, IRIW);
    check("sequentially consistent fences", Never, FENCED, IRIW);
}

#[test]
fn write_to_read_causality() {
    const WRITER: &[Op] = &[st(X, 1)];
    check("relaxed", Both, &[WRITER, &[ld(X), st(Y, 1)], &[ld(Y), ld(X)]], WRC);
    check("release and acquire", Never, &[WRITER, &[ld(X), ST_RELEASE], &[LD_ACQUIRE, ld(X)]], WRC);
    const FENCED: &[Op] = &[ld(X), Fence(GPU), st(Y, 1)];
    check("fences", Never, &[WRITER, FENCED, &[ld(Y), Fence(GPU), ld(X)]], WRC);
    check("a fence, relaxed reader", PtxOnly, &[WRITER, FENCED, &[ld(Y), ld(X)]], WRC);
}

/// Each location has one modification order, whatever the memory orders of the accesses.
#[test]
fn coherence() {
    check("two reads", Never, &[&[st(X, 1)], &[ld(X), ld(X)]], MP);
    check("two writes", Never, &[&[st(X, 1), st(X, 2)], &[]], &[Mem(X, 1)]);
    check("a read behind a write", Never, &[&[st(X, 1), ld(X)], &[st(X, 2)]], &[Reg(0, 0, 0)]);
    let overwritten: Outcome = &[Reg(0, 0, 2), Mem(X, 2)];
    check("a write behind a read", Never, &[&[ld(X), st(X, 1)], &[st(X, 2)]], overwritten);
    let backwards: Outcome = &[Reg(1, 0, 2), Reg(1, 1, 1)];
    check("two reads of two writes", Never, &[&[st(X, 1), st(X, 2)], &[ld(X), ld(X)]], backwards);
    let both_first: Outcome = &[Reg(0, 0, 0), Reg(1, 0, 0)];
    let exchanges: Program = &[&[Exchange(X, 1, Relaxed, GPU)], &[Exchange(X, 2, Relaxed, GPU)]];
    check("two exchanges", Never, exchanges, both_first);
}

/// Two writes that later writes of the other thread overtake.
#[test]
fn writes_are_overtaken() {
    const WEAK: Outcome = &[Mem(X, 1), Mem(Y, 1)];
    check("2+2W", Both, &[&[st(X, 1), st(Y, 2)], &[st(Y, 1), st(X, 2)]], WEAK);
    const RELEASED: Program = &[
        &[Store(X, 1, Release, GPU), Store(Y, 2, Release, GPU)],
        &[Store(Y, 1, Release, GPU), Store(X, 2, Release, GPU)],
    ];
    check("2+2W of releases", Both, RELEASED, WEAK);
    const FENCED: Program = &[&[st(X, 1), Fence(GPU), st(Y, 2)], &[st(Y, 1), Fence(GPU), st(X, 2)]];
    check("2+2W with fences", Both, FENCED, WEAK);
    const BY_SC: Program = &[&[st(X, 1), FenceSc(GPU), st(Y, 2)], &[st(Y, 1), FenceSc(GPU), st(X, 2)]];
    check("2+2W with sequentially consistent fences", Never, BY_SC, WEAK);
}

/// The test S: a write that was observed comes to lie before one that preceded it.
#[test]
fn a_write_that_is_observed_too_early() {
    const WEAK: Outcome = &[Reg(1, 0, 1), Mem(X, 2)];
    const WRITER: &[Op] = &[st(X, 2), ST_RELEASE];
    check("S", Both, &[&[st(X, 2), st(Y, 1)], &[ld(Y), st(X, 1)]], WEAK);
    check("S, release", PtxOnly, &[WRITER, &[ld(Y), st(X, 1)]], WEAK);
    check("S, release and acquire", Never, &[WRITER, &[LD_ACQUIRE, st(X, 1)]], WEAK);
    check("S, by exchange", Both, &[&[st(X, 2), st(Y, 1)], &[ld(Y), Exchange(X, 1, Relaxed, GPU)]], WEAK);
}

#[test]
fn load_buffering() {
    check("LB", Both, &[&[ld(X), st(Y, 1)], &[ld(Y), st(X, 1)]], LB);
    check_in_block("LB", Both, &[&[ld(X), st(Y, 1)], &[ld(Y), st(X, 1)]], LB);
    check("acquire", Both, &[&[Load(X, Acquire, GPU), st(Y, 1)], &[LD_ACQUIRE, st(X, 1)]], LB);
    check("release", PtxOnly, &[&[ld(X), ST_RELEASE], &[ld(Y), Store(X, 1, Release, GPU)]], LB);
    check("a fence", PtxOnly, &[&[ld(X), Fence(GPU), st(Y, 1)], &[ld(Y), st(X, 1)]], LB);
    const BOTH: Program = &[&[Load(X, Acquire, GPU), ST_RELEASE], &[LD_ACQUIRE, st(X, 1)]];
    check("release and acquire", Never, BOTH, LB);
    check("fences", Never, &[&[ld(X), Fence(GPU), st(Y, 1)], &[ld(Y), Fence(GPU), st(X, 1)]], LB);
    const EXCHANGES: Program = &[
        &[Exchange(X, 1, Relaxed, GPU), Exchange(Y, 2, Relaxed, GPU)],
        &[Exchange(Y, 1, Relaxed, GPU), Exchange(X, 2, Relaxed, GPU)],
    ];
    check("exchanges", Both, EXCHANGES, &[Reg(0, 0, 2), Reg(1, 0, 2)]);
}

/// No value comes out of thin air.
#[test]
fn load_buffering_with_dependencies() {
    const COPY: &[Op] = &[ld(X), StoreRead(Y, Relaxed)];
    check("both", Never, &[COPY, &[ld(Y), StoreRead(X, Relaxed)]], LB);
    check("one", Both, &[COPY, &[ld(Y), st(X, 1)]], LB);
}

#[test]
fn a_weak_outcome_is_replayed_from_its_seed_and_from_its_trace() {
    is_replayed(&[&[st(X, 1), ld(Y)], &[st(Y, 1), ld(X)]], SB);
    is_replayed(&[&[ld(X), st(Y, 1)], &[ld(Y), st(X, 1)]], LB);
    is_replayed(&[&[st(X, 1), st(Y, 2)], &[st(Y, 1), st(X, 2)]], &[Mem(X, 1), Mem(Y, 1)]);
}

fn is_replayed(program: Program, outcome: Outcome) {
    let program = owned(program);
    let results = |schedule| {
        let (registers, memory, trace) = run(&device(WeakMemory::Ptx, schedule), program, false);
        (holds(outcome, &registers, &memory), trace)
    };
    let seed = (0..SEEDS).find(|&seed| results(schedule(seed)).0).expect("some seed shows it");
    let (_, trace) = results(schedule(seed));
    assert_eq!(results(schedule(seed)), (true, trace.clone()));
    let text = Schedule::Replay(trace.clone()).to_string();
    assert_eq!(results(text.parse().unwrap()), (true, trace));
}

// Words of other sizes.

#[kernel]
fn write_and_read_whole(word: GlobalSlice<u128>, out: GlobalSlice<u128>) {
    if Thread::block_index() == 0 {
        (1..4).for_each(|value| word.at(0).store(value << 64 | value, Relaxed, GPU));
    } else {
        (0..3).for_each(|i| out.write(i, word.at(0).load(Relaxed, GPU)));
    }
}

#[test]
fn sixteen_bytes_are_read_whole_and_forwards() {
    let mut seen = [false; 4];
    for seed in 0..SEEDS {
        let device = device(WeakMemory::Ptx, schedule(seed));
        let kernel = |[word, out]: [_; 2]| WriteAndReadWhole { word, out };
        let [_, out] = on_zeros(&device, [1, 3], Grid::new(2, 1), kernel).unwrap();
        let values: Vec<_> = out.iter().map(|value| (*value >> 64, *value & u64::MAX as u128)).collect();
        assert!(values.iter().all(|(high, low)| high == low), "{values:?}");
        assert!(values.is_sorted(), "{values:?}");
        values.iter().for_each(|(high, _)| seen[*high as usize] = true);
    }
    assert_eq!(seen, [true; 4]);
}

#[kernel]
fn write_and_read_halves(words: GlobalSlice<u32>, bytes: GlobalSlice<u8>, out: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        words.at(1).store(7, Relaxed, GPU);
        bytes.at(5).store(9, Relaxed, GPU);
    } else {
        out.write(0, words.at(0).load(Relaxed, GPU));
        out.write(1, words.at(1).load(Relaxed, GPU));
        out.write(2, bytes.at(6).load(Relaxed, GPU).into());
    }
}

#[test]
fn parts_of_a_granule_are_read_where_they_lie() {
    let mut seen = Vec::new();
    for seed in 0..SEEDS {
        let device = device(WeakMemory::Ptx, schedule(seed));
        let (words, bytes) = (Buffer::from_slice(&device, &[3, 4]), Buffer::from_slice(&device, &[1u8; 8]));
        let out = Buffer::zeroed(&device, 3);
        let kernel = WriteAndReadHalves { words: words.slice(), bytes: bytes.slice(), out: out.slice() };
        device.launch(Grid::new(2, 1), kernel).unwrap();
        seen.push(out.read());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [[3, 4, 1], [3, 7, 1]]);
}

// Lanes that act for each other.

const SHUFFLE: u32 = 0;
const SYNC: u32 = 1;

/// Lane 1 writes, lane 0 releases.
#[kernel]
fn publish_for_another(memory: GlobalSlice<u32>, out: GlobalSlice<u32>, how: u32) {
    let (flag, data) = (memory.at(0), memory.at(STRIDE));
    let warp = Tile::<32>::lockstep();
    if Thread::block_index() == 0 {
        if warp.rank() == 1 {
            data.store(1, Relaxed, GPU);
        }
        let told = warp.shuffle(warp.rank(), 1);
        if how == SYNC {
            warp.sync();
        }
        if warp.rank() == 0 {
            flag.store(told, Release, GPU);
        }
    } else if warp.rank() == 0 {
        out.write(0, flag.load(Acquire, GPU));
        out.write(1, data.load(Relaxed, GPU));
    }
}

/// Lane 1 reads the flag, lane 0 then reads the released data.
#[kernel]
fn look_for_another(memory: GlobalSlice<u32>, out: GlobalSlice<u32>, how: u32) {
    let (flag, data) = (memory.at(0), memory.at(STRIDE));
    let warp = Tile::<32>::lockstep();
    if Thread::block_index() == 0 {
        if warp.rank() == 0 {
            data.store(1, Relaxed, GPU);
            flag.store(1, Release, GPU);
        }
        return;
    }
    let mine = if warp.rank() == 1 { flag.load(Acquire, GPU) } else { 0 };
    let told = warp.shuffle(mine, 1);
    if how == SYNC {
        warp.sync();
    }
    if warp.rank() == 0 {
        out.write(0, told);
        out.write(1, data.load(Relaxed, GPU));
    }
}

/// Returns `true` if under some seed the reader observes the flag but not the data.
fn shows_stale<K: Kernel + Send + Sync + 'static>(
    weak_memory: WeakMemory,
    kernel: impl Fn([GlobalSlice<u32>; 2]) -> K,
) -> bool {
    (0..SEEDS).any(|seed| {
        let device = device(weak_memory, schedule(seed));
        let [_, out] = on_zeros(&device, [2 * STRIDE, 2], Grid::new(2, 32), &kernel).unwrap();
        out == [1, 0]
    })
}

#[test]
fn a_shuffle_publishes_nothing_and_a_barrier_of_the_tile_does() {
    for weak_memory in [WeakMemory::Ptx, WeakMemory::Hardware] {
        let shown = |how| shows_stale(weak_memory, |[memory, out]| PublishForAnother { memory, out, how });
        assert!(shown(SHUFFLE), "{weak_memory:?}");
        assert!(!shown(SYNC), "{weak_memory:?}");
    }
}

/// On hardware, a lane that receives a value read by another lane reads after that lane.
#[test]
fn a_shuffle_acquires_nothing_under_ptx() {
    for (weak_memory, stale) in [(WeakMemory::Ptx, true), (WeakMemory::Hardware, false)] {
        let shown = |how| shows_stale(weak_memory, |[memory, out]| LookForAnother { memory, out, how });
        assert_eq!(shown(SHUFFLE), stale, "{weak_memory:?}");
        assert!(!shown(SYNC), "{weak_memory:?}");
    }
}

// The device clock.

/// Each thread writes its word and reads the other's, and reads the clock before and after.
#[kernel]
fn write_and_look(memory: GlobalSlice<u32>, out: GlobalSlice<u64>) {
    let me = Thread::block_index() as usize;
    let before = timer();
    let seen = memory.at((1 - me) * STRIDE).load(Relaxed, GPU);
    memory.at(me * STRIDE).store(1, Relaxed, GPU);
    out.write(3 * me, before);
    out.write(3 * me + 1, timer());
    out.write(3 * me + 2, seen.into());
    spin_hint();
}

#[test]
fn what_ended_by_the_clock_is_seen_by_what_began_later() {
    for seed in 0..SEEDS {
        let device = device(WeakMemory::Ptx, schedule(seed));
        let (memory, out) = (Buffer::zeroed(&device, 2 * STRIDE), Buffer::zeroed(&device, 6));
        device.launch(Grid::new(2, 1), WriteAndLook { memory: memory.slice(), out: out.slice() }).unwrap();
        let out = out.read();
        for (mine, other) in [(&out[..3], &out[3..]), (&out[3..], &out[..3])] {
            assert!(mine[0] < other[1] || mine[2] == 1, "seed {seed}: {out:?}");
        }
    }
}

// Memory that kernels free and allocate again.

/// The first block writes to a word and frees it; the second allocates it again and writes.
#[kernel]
fn free_and_reuse(word: GlobalSlice<u32>, freed: GlobalSlice<u32>, fences: u32) {
    if Thread::block_index() == 0 {
        word.at(0).store(1, Relaxed, GPU);
        fence(GPU);
        simt::poison(|| word.at(0), 4, 7);
        freed.at(0).store(1, Relaxed, GPU);
        return;
    }
    while freed.at(0).load(Relaxed, GPU) == 0 {
        spin_hint();
    }
    simt::unpoison(|| word.at(0));
    if fences == 1 {
        fence(GPU);
    }
    word.at(0).store(2, Relaxed, GPU);
}

#[test]
fn reused_memory_is_written_after_what_was_written_before() {
    let reuse = |weak_memory, fences| {
        (0..SEEDS).find_map(|seed| {
            let device = device(weak_memory, schedule(seed));
            let kernel = |[word, freed]: [_; 2]| FreeAndReuse { word, freed, fences };
            let failure = on_zeros(&device, [1, 1], Grid::new(2, 1), kernel).err();
            failure.map(|failure| failure.kind.clone())
        })
    };
    assert_eq!(reuse(WeakMemory::Off, 0), None, "told where memory is weak");
    assert_eq!(reuse(WeakMemory::Ptx, 1), None);
    let found = reuse(WeakMemory::Ptx, 0);
    assert!(matches!(found, Some(FailureKind::UnorderedReuse { bytes: 4, .. })), "{found:?}");
}

/// Message passing with an address dependency, where the pointer is read weakly.
#[kernel]
fn follow_weakly(pointer: GlobalSlice<u32>, memory: GlobalSlice<u32>, out: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        memory.at(X * STRIDE).store(1, Relaxed, GPU);
        fence(GPU);
        pointer.at(0).store(X as u32, Relaxed, GPU);
    } else {
        let at = pointer.at(0).load(Weak, GPU);
        out.write(0, at);
        out.write(1, memory.at(at as usize * STRIDE).load(Relaxed, GPU));
    }
}

#[test]
fn an_address_that_was_read_weakly_is_a_dependency_too() {
    for (weak_memory, stale) in [(WeakMemory::Ptx, true), (WeakMemory::Hardware, false)] {
        let shown = (0..SEEDS).any(|seed| {
            let device = device(weak_memory, schedule(seed));
            let kernel = |[pointer, memory, out]: [_; 3]| FollowWeakly { pointer, memory, out };
            let lens = [1, LOCATIONS * STRIDE, 2];
            let [.., out] = on_zeros(&device, lens, Grid::new(2, 1), kernel).unwrap();
            out == [X as u32, 0]
        });
        assert_eq!(shown, stale, "{weak_memory:?}");
    }
}

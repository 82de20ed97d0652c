//! Tests the exploring mode: barriers and fences are proved necessary by omitting them, a planted bug is
//! found and replayed, and stale values occur where they may.
mod common;

use common::{Buffer, on_zeros};
use simt::emulator::{Detect, Emulator, Failure, FailureKind, Options, Schedule, Trace};
use simt::{
    Global, GlobalSlice, Grid, Independent, Order, Scope, Thread, Tile, fence, fence_sc, kernel, shared,
    spin_hint,
};

const SEEDS: u64 = 40;

/// Launches under many seeds of both policies, until one fails.
fn explore<T>(launch: impl Fn(&Emulator) -> Result<T, Failure>) -> Result<(), Failure> {
    for seed in 0..SEEDS {
        for schedule in [Schedule::Random { seed }, Schedule::Pct { seed, depth: 3 }] {
            launch(&Emulator::new(Options::explore(schedule)))?;
        }
    }
    Ok(())
}

fn is_race(result: Result<(), Failure>) -> bool {
    matches!(result, Err(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

// Message passing, with one part omitted.

/// Step of the sender or of the receiver of a message.
#[derive(Clone, Copy)]
enum Step {
    Fence(Scope),
    FenceSc(Scope),
    /// Writes the flag.
    Store(u32, Order, Scope),
    /// Sets bits of the flag.
    Set(u32, Order),
    /// Waits for the flag.
    Wait(Order, Scope),
}
use Order::{Acquire, Relaxed, Release};
use Scope::{Block, Device};
use Step::*;

impl Step {
    fn execute(self, flag: Global<u32>) {
        match self {
            Fence(scope) => fence(scope),
            FenceSc(scope) => fence_sc(scope),
            Store(value, order, scope) => flag.store(value, order, scope),
            Set(bits, order) => drop(flag.fetch_or(bits, order, Device)),
            Wait(order, scope) => {
                while flag.load(order, scope) & 1 == 0 {
                    spin_hint();
                }
            }
        }
    }
}

const STORE: Step = Store(1, Relaxed, Device);
const RELEASE: Step = Store(1, Release, Device);
const WAIT: Step = Wait(Relaxed, Device);
const ACQUIRE: Step = Wait(Acquire, Device);

/// Name of a protocol, the steps of the sender after it writes the data, and those of the receiver before it
/// reads the data.
type Protocol = (&'static str, &'static [Step], &'static [Step]);

/// The first five are right.
const RIGHT: usize = 5;
const PROTOCOLS: [Protocol; 14] = [
    ("fences", &[Fence(Device), STORE], &[WAIT, Fence(Device)]),
    ("release and acquire", &[RELEASE], &[ACQUIRE]),
    ("a chain of updates", &[Set(2, Release), Set(1, Relaxed)], &[ACQUIRE]),
    ("sequentially consistent fences", &[FenceSc(Device), STORE], &[WAIT, FenceSc(Device)]),
    ("a release continued by the same lane", &[Store(2, Release, Device), STORE], &[ACQUIRE]),
    ("no fence of the sender", &[STORE], &[WAIT, Fence(Device)]),
    ("no fence of the receiver", &[Fence(Device), STORE], &[WAIT]),
    ("a fence of block scope", &[Fence(Block), STORE], &[WAIT, Fence(Device)]),
    ("release and relaxed", &[RELEASE], &[WAIT]),
    ("relaxed and acquire", &[STORE], &[ACQUIRE]),
    ("a release of block scope", &[Store(1, Release, Block)], &[ACQUIRE]),
    ("the sender's fence in its block", &[FenceSc(Block), STORE], &[WAIT, FenceSc(Device)]),
    ("the receiver's fence in its block", &[FenceSc(Device), STORE], &[WAIT, FenceSc(Block)]),
    ("block scope", &[Fence(Block), Store(1, Relaxed, Block)], &[Wait(Relaxed, Block), Fence(Block)]),
];
const BLOCK_SCOPE: usize = 13;

/// Passes a message from the first thread to the second.
#[kernel]
fn pass_message(flag: GlobalSlice<u32>, data: GlobalSlice<u32>, protocol: usize) {
    let (_, send, receive) = PROTOCOLS[protocol];
    if Thread::index() == 0 {
        data.write(0, 42);
        send.iter().for_each(|step| step.execute(flag.at(0)));
    } else {
        receive.iter().for_each(|step| step.execute(flag.at(0)));
        data.write(1, data.read(0));
    }
}

fn try_protocol(protocol: usize, grid: Grid) -> Result<(), Failure> {
    explore(|device| {
        let [_, data] = on_zeros(device, [1, 2], grid, |[flag, data]| PassMessage { flag, data, protocol })?;
        assert_eq!(data, [42, 42]);
        Ok(())
    })
}

#[test]
fn a_message_needs_both_fences_or_release_and_acquire() {
    for (protocol, (name, ..)) in PROTOCOLS.iter().enumerate() {
        match try_protocol(protocol, Grid::new(2, 1)) {
            Ok(()) => assert!(protocol < RIGHT, "{name} is enough"),
            Err(failure) if protocol < RIGHT => panic!("{name}: {failure}"),
            failed => assert!(is_race(failed), "{name}"),
        }
    }
}

#[test]
fn in_a_block_block_scope_is_enough() {
    try_protocol(BLOCK_SCOPE, Grid::new(1, 2)).unwrap();
}

#[kernel]
fn write_after_release(flags: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    let (released, written) = (flags.at(0), flags.at(1));
    if Thread::block_index() == 0 {
        released.store(1, Order::Release, Scope::Device);
        data.write(0, 42);
        written.store(1, Order::Relaxed, Scope::Device);
    } else {
        while written.load(Order::Relaxed, Scope::Device) == 0 {
            spin_hint();
        }
        assert_eq!(released.load(Order::Acquire, Scope::Device), 1);
        data.read(0);
    }
}

#[test]
fn a_release_orders_only_what_precedes_it() {
    assert!(is_race(explore(|device| {
        on_zeros(device, [2, 1], Grid::new(2, 1), |[flags, data]| WriteAfterRelease { flags, data })
    })));
}

#[kernel]
fn publish_in_turns(turn: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    // Three hops: the last block observes the first block's writes through the second.
    let me = Thread::block_index();
    while turn.at(0).load(Order::Acquire, Scope::Device) != me {
        spin_hint();
    }
    data.write(0, data.read(0) + me);
    turn.at(0).store(me + 1, Order::Release, Scope::Device);
}

#[test]
fn order_passes_on_from_lane_to_lane() {
    explore(|device| {
        let kernel = |[turn, data]: [_; 2]| PublishInTurns { turn, data };
        let [_, data] = on_zeros(device, [1, 1], Grid::new(4, 1), kernel)?;
        assert_eq!(data, [6]);
        Ok(())
    })
    .unwrap();
}

// Barriers.

#[kernel]
fn exchange_in_tile(words: GlobalSlice<u32>, out: GlobalSlice<u32>, sync: u32) {
    let tile = Tile::<4, Independent>::this();
    let i = Thread::index();
    words.write(i, i as u32);
    match sync {
        0 => tile.sync(),
        1 => drop(tile.ballot(true)),
        _ => drop(tile.shuffle(i as u32, 0)),
    }
    out.write(i, words.read(i ^ 3));
}

fn exchange_races(sync: u32) -> bool {
    is_race(explore(|device| {
        let kernel = |[words, out]: [_; 2]| ExchangeInTile { words, out, sync };
        let [_, out] = on_zeros(device, [8, 8], Grid::new(1, 8), kernel)?;
        assert_eq!(out, [3, 2, 1, 0, 7, 6, 5, 4]);
        Ok(())
    }))
}

#[test]
fn tile_sync_orders_memory_and_votes_and_shuffles_do_not() {
    assert!(!exchange_races(0));
    assert!(exchange_races(1));
    assert!(exchange_races(2));
}

#[kernel]
fn exchange_in_block(out: GlobalSlice<u32>, barriers: u32) {
    let words = shared!([u32; 40]);
    let i = Thread::index_in_block() as usize;
    words.store(i, i as u32);
    if barriers & 1 != 0 {
        simt::Block::sync();
    }
    let other = words.load(39 - i);
    if barriers & 2 != 0 {
        simt::Block::sync();
    }
    words.store(i, other);
    out.write(i, words.load(i));
}

#[test]
fn a_block_needs_each_of_its_barriers() {
    let try_barriers = |barriers| {
        explore(|device| {
            let grid = Grid::new(1, 40);
            let [out] = on_zeros(device, [40], grid, |[out]| ExchangeInBlock { out, barriers })?;
            assert_eq!(out, (0..40).rev().collect::<Vec<_>>());
            Ok(())
        })
    };
    try_barriers(3).unwrap();
    for left_out in [0, 1, 2] {
        let failure = try_barriers(left_out).unwrap_err();
        // Without the first barrier, a word may even be uninitialised when it is read.
        let unwritten = matches!(failure.kind, FailureKind::Uninitialized { .. }) && left_out != 1;
        assert!(matches!(failure.kind, FailureKind::DataRace { .. }) || unwritten, "{failure}");
    }
}

// A planted bug: two steps instead of one atomic step.

#[kernel]
fn lose_updates(counter: GlobalSlice<u32>, rounds: u32) {
    let counter = counter.at(0);
    for _ in 0..rounds {
        let old = counter.load(Order::Relaxed, Scope::Device);
        counter.store(old + 1, Order::Relaxed, Scope::Device);
    }
    if counter.load(Order::Relaxed, Scope::Device) < rounds {
        simt::trap();
    }
}

/// Runs the kernel once; returns the final counter, which is too small if an update was lost, and the trace.
fn count_up(schedule: Schedule, grid: Grid) -> (u32, Trace) {
    let device = Emulator::new(Options::explore(schedule));
    let counter = Buffer::zeroed(&device, 1);
    let report = device.launch(grid, LoseUpdates { counter: counter.slice(), rounds: 1 }).unwrap();
    (counter.read()[0], report.trace.unwrap())
}

#[test]
fn a_lost_update_is_found_and_replayed() {
    let grid = Grid::new(2, 1);
    for policy in [|seed| Schedule::Random { seed }, |seed| Schedule::Pct { seed, depth: 3 }] {
        let found = (0..32).map(policy).find(|schedule| count_up(schedule.clone(), grid).0 == 1);
        let schedule = found.expect("32 seeds find it");
        let (count, trace) = count_up(schedule.clone(), grid);
        assert_eq!(count, 1, "the seed replays it");
        let text = Schedule::Replay(trace.clone()).to_string();
        let (count, again) = count_up(text.parse().unwrap(), grid);
        assert_eq!((count, again), (1, trace), "the trace `{text}` replays it");
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
}

#[kernel]
fn lock_badly(lock: GlobalSlice<u32>, inside: GlobalSlice<u32>) {
    // An incorrect lock, acquired in two steps.
    while lock.at(0).load(Order::Acquire, Scope::Device) != 0 {
        spin_hint();
    }
    lock.at(0).store(1, Order::Relaxed, Scope::Device);
    if inside.at(0).fetch_add(1, Order::Relaxed, Scope::Device) != 0 {
        simt::trap();
    }
    inside.at(0).fetch_add(u32::MAX, Order::Relaxed, Scope::Device);
    lock.at(0).store(0, Order::Release, Scope::Device);
}

fn lock_twice(schedule: Schedule) -> Result<(), Failure> {
    let device = Emulator::new(Options::explore(schedule));
    let (lock, inside) = (Buffer::zeroed(&device, 1), Buffer::zeroed(&device, 1));
    // The first launch has a single lane and succeeds. Its choices are part of the trace.
    for blocks in [1, 4] {
        device.launch(Grid::new(blocks, 1), LockBadly { lock: lock.slice(), inside: inside.slice() })?;
    }
    Ok(())
}

#[test]
fn a_failure_is_replayed_exactly_from_its_seed_and_from_its_trace() {
    for policy in [|seed| Schedule::Random { seed }, |seed| Schedule::Pct { seed, depth: 3 }] {
        let failure = (0..32).find_map(|seed| lock_twice(policy(seed)).err()).expect("32 seeds find it");
        assert_eq!(failure.kind, FailureKind::Trap);
        let from_seed = lock_twice(failure.schedule.clone().unwrap()).unwrap_err();
        assert_eq!(from_seed, failure);
        let trace = failure.trace.clone().unwrap();
        assert_eq!(trace.launches(), 2);
        let from_trace = lock_twice(Schedule::Replay(trace)).unwrap_err();
        assert_eq!(from_trace.trace, failure.trace);
        let told = |failure: &Failure| {
            (failure.kind.clone(), failure.location.clone(), failure.block, failure.thread)
        };
        assert_eq!(told(&from_trace), told(&failure));
        let text = failure.to_string();
        assert!(text.contains(&format!("`{}`", failure.schedule.clone().unwrap())), "{text}");
        assert!(text.contains("replay:"), "{text}");
    }
}

#[test]
fn a_trace_of_another_program_is_refused() {
    let trace: Trace = "0,7,0".parse().unwrap();
    let failure = lock_twice(Schedule::Replay(trace)).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::TraceMismatch { .. }), "{failure}");
}

#[test]
fn equal_seeds_make_equal_traces_and_different_ones_do_not() {
    let grid = Grid::new(2, 40);
    for policy in [|seed| Schedule::Random { seed }, |seed| Schedule::Pct { seed, depth: 3 }] {
        assert_eq!(count_up(policy(5), grid), count_up(policy(5), grid));
        assert_ne!(count_up(policy(5), grid).1, count_up(policy(6), grid).1);
    }
}

#[test]
fn texts_that_are_no_schedule_are_refused() {
    for text in ["", "random", "random:x", "pct:1", "pct:1:", "replay:1y2", "replay:v", "else:1"] {
        assert!(text.parse::<Schedule>().is_err(), "{text}");
    }
    for text in ["random:18446744073709551615", "pct:1:2", "replay:", "replay:1x3,0,v2/7"] {
        assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
    }
}

// Stale values.

#[kernel]
fn peek_at_message(flag: GlobalSlice<u32>, data: GlobalSlice<u32>, acquire: u32) {
    if Thread::block_index() == 0 {
        data.write(0, 42);
        flag.at(0).store(1, Order::Release, Scope::Device);
    } else {
        let order = if acquire == 0 { Order::Relaxed } else { Order::Acquire };
        while flag.at(0).load(order, Scope::Device) == 0 {
            spin_hint();
        }
        data.write(1, data.read(0));
    }
}

/// Returns the values that the receiver observes under many seeds.
fn seen(stale_l1: bool, acquire: u32) -> Vec<u32> {
    let mut seen = Vec::new();
    for seed in 0..SEEDS {
        let detect = Detect { races: false, ..Detect::ALL };
        let options = Options { stale_l1, detect, ..Options::explore(Schedule::Random { seed }) };
        let value = receive_with(options.clone(), acquire).0;
        let (replayed, trace) = receive_with(options.clone(), acquire);
        assert_eq!(replayed, value);
        let replay = Options { mode: Options::explore(Schedule::Replay(trace)).mode, ..options };
        assert_eq!(receive_with(replay, acquire).0, value, "the trace holds the values chosen");
        seen.push(value);
    }
    seen.sort_unstable();
    seen.dedup();
    seen
}

fn receive_with(options: Options, acquire: u32) -> (u32, Trace) {
    let device = Emulator::new(options);
    let (flag, data) = (Buffer::zeroed(&device, 1), Buffer::zeroed(&device, 2));
    let kernel = PeekAtMessage { flag: flag.slice(), data: data.slice(), acquire };
    let report = device.launch(Grid::new(2, 1), kernel).unwrap();
    (data.read()[1], report.trace.unwrap())
}

#[test]
fn a_weak_load_may_be_stale_until_an_acquire() {
    assert_eq!(seen(true, 0), [0, 42], "relaxed: both the old and the new value are seen");
    assert_eq!(seen(true, 1), [42], "acquire: the new one only");
    assert_eq!(seen(false, 0), [42], "without the option nothing is stale");
}

#[kernel]
fn read_own_bytes(bytes: GlobalSlice<u8>, out: GlobalSlice<u8>) {
    let i = Thread::index();
    bytes.write(i, 10 + i as u8);
    bytes.write(i, 20 + i as u8);
    out.write(i, bytes.read(i));
}

#[test]
fn a_lane_sees_what_it_wrote_itself() {
    for seed in 0..SEEDS {
        let device = Emulator::new(Options { stale_l1: true, ..Options::explore(Schedule::Random { seed }) });
        let kernel = |[bytes, out]: [_; 2]| ReadOwnBytes { bytes, out };
        let [_, out] = on_zeros(&device, [8, 8], Grid::new(8, 1), kernel).unwrap();
        assert_eq!(out, [20, 21, 22, 23, 24, 25, 26, 27]);
    }
}

/// Runs the blocks one after the other, with no order that the detectors know of. Each block has its own
/// array.
#[kernel]
fn take_turns(turn: GlobalSlice<u32>) {
    while turn.at(0).load(Order::Relaxed, Scope::Device) != Thread::block_index() {
        spin_hint();
    }
    let own = shared!([u32; 64]);
    let lane = Thread::lane() as usize;
    own.store(lane, lane as u32);
    Tile::<32>::lockstep().sync();
    if own.load(31 - lane) + lane as u32 == 31 && lane == 0 {
        turn.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

#[test]
fn memory_of_a_block_that_ended_is_not_that_of_one_that_begins() {
    let result = explore(|device| {
        let [turn] = on_zeros(device, [1], Grid::new(6, 32), |[turn]| TakeTurns { turn })?;
        assert_eq!(turn, [6]);
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

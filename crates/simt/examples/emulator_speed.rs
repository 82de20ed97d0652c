//! Measures the speed of the emulator: collectives and accesses per second, and per worker. The figures say
//! nothing about GPU speed.
use simt::emulator::{Detect, Emulator, Mode, Options, Schedule};
use simt::{GlobalSlice, Grid, Order, Scope, Thread, Tile, kernel};
use std::time::Instant;

#[kernel]
fn vote(rounds: u32, out: GlobalSlice<u32>) {
    let tile = Tile::<32>::lockstep();
    let mut votes = 0u32;
    for round in 0..rounds {
        votes = votes.wrapping_add(tile.ballot(Thread::lane() < round % 32));
    }
    out.write(Thread::index(), votes);
}

#[kernel]
fn count(rounds: u32, out: GlobalSlice<u32>) {
    for _ in 0..rounds {
        out.at(Thread::index()).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

#[kernel]
fn nothing(_rounds: u32, _out: GlobalSlice<u32>) {}

fn measure(what: &str, device: &Emulator, grid: Grid, rounds: u32, launch: impl Fn(GlobalSlice<u32>)) {
    let lanes = grid.blocks as usize * grid.threads as usize;
    let pointer = device.allocate(4 * lanes, 4).cast::<u32>();
    // SAFETY: `lanes` words were allocated.
    let out = unsafe {
        pointer.write_bytes(0, lanes);
        device.mark_initialized(pointer.cast(), 4 * lanes);
        GlobalSlice::from_raw_parts(pointer, lanes)
    };
    launch(out);
    let start = Instant::now();
    launch(out);
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:38} {:8.1} M/s", lanes as f64 * f64::from(rounds) / seconds / 1e6);
    // SAFETY: no launch is running.
    unsafe { device.free(pointer.cast()) };
}

fn measure_all(name: &str, device: &Emulator, blocks: u32, rounds: u32) {
    let grid = Grid { blocks, threads: 128 };
    measure(&format!("{name}: lane-collectives"), device, grid, rounds, |out| {
        device.launch(grid, Vote { rounds, out }).map(drop).unwrap_or_else(|failure| println!("{failure}"));
    });
    measure(&format!("{name}: atomic updates"), device, grid, rounds, |out| {
        device.launch(grid, Count { rounds, out }).map(drop).unwrap_or_else(|failure| println!("{failure}"));
    });
    let grid = Grid { blocks: 8 * blocks, threads: 128 };
    measure(&format!("{name}: lanes started"), device, grid, 1, |out| {
        let kernel = Nothing { _rounds: 0, _out: out };
        device.launch(grid, kernel).map(drop).unwrap_or_else(|failure| println!("{failure}"));
    });
}

/// Measures launches of a few lanes, which dominate the time of a test.
fn measure_launches(workers: usize, blocks: u32) {
    const LAUNCHES: u32 = 2000;
    let device = Emulator::new(Options { mode: Mode::Fast { workers }, ..Options::default() });
    let grid = Grid { blocks, threads: 32 };
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        // SAFETY: no word of the slice is accessed.
        let _out = unsafe { GlobalSlice::from_raw_parts(std::ptr::null_mut(), 0) };
        let kernel = Nothing { _rounds: 0, _out };
        device.launch(grid, kernel).map(drop).unwrap_or_else(|failure| println!("{failure}"));
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(LAUNCHES);
    println!("a launch of {blocks} blocks on {workers} workers: {micros:.1} us");
}

fn main() {
    measure_launches(1, 1);
    measure_launches(2, 8);
    measure_launches(16, 64);

    let fast =
        |detect| Emulator::new(Options { mode: Mode::Fast { workers: 1 }, detect, ..Options::default() });
    measure_all("fast, 1 worker", &fast(Detect::CHEAP), 64, 4000);
    measure_all("fast, 1 worker, uninitialised reads", &fast(Detect::ALL), 64, 4000);
    let explore = Options::explore(Schedule::Random { seed: 1 });
    measure_all("exploring, all detectors", &Emulator::new(explore.clone()), 1, 2000);
    let plain = Options { detect: Detect::CHEAP, ..explore };
    measure_all("exploring, no races", &Emulator::new(plain), 1, 2000);
}

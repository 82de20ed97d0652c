//! Tests every collective of `Tile`, for every width and both convergences, against plain loops over the
//! lanes.
mod common;

use common::{devices, on_zeros};
use simt::emulator::Emulator;
use simt::hash::mix32;
use simt::{Convergence, GlobalSlice, Grid, Independent, Kernel, Lockstep, Thread, Tile, kernel, share_work};
use std::marker::PhantomData;

/// Number of results per lane.
const RESULTS: usize = 17;

/// Returns the operand of a thread.
fn value(thread: usize) -> u32 {
    mix32(thread as u32)
}

fn vote(thread: usize) -> bool {
    value(thread).is_multiple_of(3)
}

fn all_of<const W: u32, C: Convergence>(tile: Tile<W, C>, thread: usize) -> [u32; RESULTS] {
    let mine = value(thread);
    let by = (W / 2).max(1) - 1;
    let wide = (u64::from(mine) << 32 | u64::from(!mine), vote(thread));
    let (moved, moved_vote) = tile.shuffle(wide, 1);
    [
        tile.rank(),
        tile.ballot(vote(thread)),
        tile.any(vote(thread)).into(),
        tile.all(vote(thread)).into(),
        tile.elect(vote(thread)).unwrap_or(99),
        tile.shuffle(mine, mine),
        tile.shuffle_xor(mine, W - 1),
        tile.shuffle_up(mine, by),
        tile.shuffle_down(mine, by),
        tile.match_any(mine % 4),
        tile.reduce_add(mine),
        tile.reduce_min(mine),
        tile.reduce_max(mine),
        (moved >> 32) as u32 ^ moved as u32,
        moved_vote.into(),
        tile.any_converged(vote(thread)).into(),
        tile.match_bits::<3>(mine),
    ]
}

fn expected(width: usize, lockstep: bool, thread: usize) -> [u32; RESULTS] {
    let first = thread - thread % width;
    let rank = thread - first;
    let at = |rank: usize| value(first + rank);
    let mask = |of: &dyn Fn(usize) -> bool| (0..width).fold(0, |m, r| m | u32::from(of(first + r)) << r);
    let votes = mask(&vote);
    let by = (width / 2).max(1) - 1;
    let met = if lockstep && width > 1 {
        thread - thread % 32..thread - thread % 32 + 32
    } else {
        first..first + width
    };
    let all = || (0..width).map(at);
    [
        rank as u32,
        votes,
        u32::from(votes != 0),
        u32::from(votes.count_ones() as usize == width),
        if votes == 0 { 99 } else { votes.trailing_zeros() },
        at(at(rank) as usize % width),
        at(rank ^ (width - 1)),
        at(if rank >= by { rank - by } else { rank }),
        at(if rank + by < width { rank + by } else { rank }),
        mask(&|other| value(other) % 4 == at(rank) % 4),
        all().fold(0, u32::wrapping_add),
        all().min().unwrap_or(0),
        all().max().unwrap_or(0),
        u32::MAX,
        vote(first + 1 % width).into(),
        met.into_iter().any(vote).into(),
        mask(&|other| value(other) % 8 == at(rank) % 8),
    ]
}

#[derive(Clone, Copy)]
struct Collectives<const W: u32, C> {
    out: GlobalSlice<u32>,
    convergence: PhantomData<C>,
}

impl<const W: u32, C: Convergence> Kernel for Collectives<W, C> {
    const PROGRAM: &'static str = "test";
    const NAME: &'static str = "collectives";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let thread = Thread::index();
        let results = all_of(Tile::<W, C>::this(), thread);
        for (i, result) in results.into_iter().enumerate() {
            self.out.write(thread * RESULTS + i, result);
        }
    }
}

fn check_width<const W: u32, C: Convergence + Send + Sync>(device: &Emulator) {
    let kernel = |[out]: [_; 1]| Collectives::<W, C> { out, convergence: PhantomData };
    let [out] = on_zeros(device, [128 * RESULTS], Grid::new(2, 64), kernel).unwrap();
    for (thread, results) in out.chunks(RESULTS).enumerate() {
        let expected = expected(W as usize, C::LOCKSTEP, thread);
        assert_eq!(results, expected, "width {W}, {:?}, thread {thread}", C::default());
    }
}

fn check_convergence<C: Convergence + Send + Sync>() {
    for device in devices() {
        check_width::<1, C>(&device);
        check_width::<2, C>(&device);
        check_width::<4, C>(&device);
        check_width::<8, C>(&device);
        check_width::<16, C>(&device);
        check_width::<32, C>(&device);
    }
}

#[test]
fn lockstep_tiles_of_every_width() {
    check_convergence::<Lockstep>();
}

#[test]
fn independent_tiles_of_every_width() {
    check_convergence::<Independent>();
}

#[kernel]
fn independent_tiles_diverge(out: GlobalSlice<u32>) {
    let tile = Tile::<4, Independent>::this();
    let mut sum = 0;
    for round in 0..1 + Thread::lane() / 4 {
        sum += tile.reduce_add(round);
    }
    out.write(Thread::index(), sum);
}

#[test]
fn independent_tiles_may_call_different_numbers_of_collectives() {
    for device in devices() {
        let kernel = |[out]: [_; 1]| IndependentTilesDiverge { out };
        let [out] = on_zeros(&device, [32], Grid::new(1, 32), kernel).unwrap();
        let expected: Vec<_> = (0..32).map(|lane| (0..1 + lane / 4).sum::<u32>() * 4).collect();
        assert_eq!(out, expected);
    }
}

#[kernel]
fn vote_in_short_warp(out: GlobalSlice<u32>) {
    let tile = Tile::<32>::lockstep();
    out.write(Thread::index(), tile.ballot(true));
}

#[test]
fn the_last_warp_of_a_block_may_be_short() {
    for device in devices() {
        let [out] = on_zeros(&device, [2 * 40], Grid::new(2, 40), |[out]| VoteInShortWarp { out }).unwrap();
        let expected = [[u32::MAX; 32].as_slice(), &[0xff; 8]].concat().repeat(2);
        assert_eq!(out, expected);
    }
}

#[derive(Clone, Copy)]
struct Share<const W: u32, C> {
    done: GlobalSlice<u32>,
    convergence: PhantomData<C>,
}

impl<const W: u32, C: Convergence> Kernel for Share<W, C> {
    const PROGRAM: &'static str = "test";
    const NAME: &'static str = "share";
    const INSTANCE: Option<&'static str> = None;

    /// The operation of thread `t` takes `t % 3 + 1` steps. Each lane of the tile counts the finished
    /// operations of each owner.
    fn run(self) {
        let tile = Tile::<W, C>::this();
        let thread = Thread::index();
        let mut steps = 0;
        share_work(tile, vote(thread), |turn| {
            let owner = turn.from_owner(thread as u64) as usize;
            steps += u32::from(turn.is_mine());
            let steps_done = turn.from_owner(steps); // also called by tiles without an operation
            let finished = turn.is_active() && steps_done == owner as u32 % 3 + 1;
            if finished {
                let row = self.done.at(owner * 32 + tile.rank() as usize);
                row.fetch_add(1, simt::Order::Relaxed, simt::Scope::Device);
            }
            finished
        });
    }
}

fn check_sharing<const W: u32, C: Convergence + Send + Sync>(device: &Emulator) {
    let kernel = |[done]: [_; 1]| Share::<W, C> { done, convergence: PhantomData };
    let [done] = on_zeros(device, [64 * 32], Grid::new(1, 64), kernel).unwrap();
    for (thread, counts) in done.chunks(32).enumerate() {
        for (rank, &count) in counts.iter().enumerate() {
            let once = vote(thread) && rank < W as usize;
            assert_eq!(count, u32::from(once), "width {W}: operation {thread} at rank {rank}");
        }
    }
}

#[test]
fn shared_work_is_done_once_by_every_lane_of_its_tile() {
    for device in devices() {
        check_sharing::<1, Independent>(&device);
        check_sharing::<4, Independent>(&device);
        check_sharing::<32, Independent>(&device);
        check_sharing::<1, Lockstep>(&device);
        check_sharing::<2, Lockstep>(&device);
        check_sharing::<8, Lockstep>(&device);
        check_sharing::<16, Lockstep>(&device);
        check_sharing::<32, Lockstep>(&device);
    }
}

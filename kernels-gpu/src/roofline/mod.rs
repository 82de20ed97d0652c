//! Speed limits of the machine: the memory accesses of hash tables and slab lists, with no other work around
//! them.
//!
//! The positions are a mixed counter, so the host can compute every sum and verify the kernel's; an
//! unverified limit would be worthless. Loads are relaxed, as those of concurrent structures must be.
//!
//! | kernel | one operation |
//! |---|---|
//! | [`limit_sectors`] | a thread reads 8 bytes of a random 32-byte sector |
//! | [`limit_halves`] | two lanes read a random 64-byte half of a line, 2 x 16 bytes each |
//! | [`limit_lines`] | four lanes read a random 128-byte line, 2 x 16 bytes each |
//! | [`limit_rows`] | eight lanes read a random 256-byte row, 2 x 16 bytes each |
//! | [`limit_cas`] | a thread exchanges a random 8-byte word if it is zero |
//! | [`limit_cas_wide`] | a thread exchanges a random 16-byte word if it is zero (sm_90) |
//! | [`limit_exchange`] | a thread exchanges a random 8-byte word |
//! | [`limit_copy`] | a thread copies 16 bytes |
//!
//! The number of accesses in flight differs. Where an access needs a register or two, a thread issues
//! [`BATCH`] of them and then folds the results. A tile that reads a line issues one at a time: a batch would
//! need 64 registers; the assembler allocates half as many, to keep the multiprocessor full, and then waits
//! between the two halves of a line, which reach memory far apart. A full multiprocessor has 64 KiB of lines
//! in flight even so, more than the latency requires.
//!
//! ```
//! use phalanx_kernels::roofline::{content, mark, place};
//!
//! // What the host computes to verify a kernel that reads one word.
//! let sum = content(place(7, 0, 1000));
//! assert!(place(7, 0, 1000) < 1000 && sum == content(place(7, 0, 1000)) && mark(0) == 1);
//! ```
//!
//! # Cost
//!
//! The table states the access of one operation. [`content`], [`place`] and [`mark`] are arithmetic, which
//! the host repeats.
use simt::hash::{mix32, mix64, reduce};
use simt::{GlobalSlice, Order, Scope, Thread, Tile, Word, black_box, device, kernel};

/// Number of small accesses that a thread has in flight at once. The number of accesses of a thread is a
/// multiple of it.
pub const BATCH: u32 = 8;

/// Number of 8-byte words in a sector.
pub const SECTOR: usize = 4;

/// Number of 8-byte words in half a line.
pub const HALF: usize = 8;

/// Number of 8-byte words in a line.
pub const LINE: usize = 16;

/// Number of 8-byte words in a row of 256 bytes.
pub const ROW: usize = 32;

/// Number of 8-byte words of a row, a line or a half that a lane reads, by two loads.
pub const LANE: usize = 4;

/// Number of 16-byte loads that a thread of [`limit_copy`] has in flight.
pub const COPIES: usize = 4;

/// Returns the value that [`limit_fill`] writes to word `index`.
#[device]
pub const fn content(index: usize) -> u64 {
    mix64(index as u64)
}

/// Returns the position, below `places`, that operation `index` accesses.
#[device]
pub const fn place(seed: u32, index: u32, places: u32) -> usize {
    reduce(mix32(index ^ seed), places) as usize
}

/// Returns the value that operation `index` of [`limit_cas`], [`limit_cas_wide`] and [`limit_exchange`]
/// writes; never zero.
#[device]
pub const fn mark(index: u32) -> u64 {
    index as u64 + 1
}

/// Fills a buffer with [`content`].
#[kernel]
pub fn limit_fill(words: GlobalSlice<u64>) {
    let mut index = Thread::index();
    while index < words.len() {
        words.write(index, content(index));
        index += Thread::count();
    }
}

/// Returns the number of pieces of `size` words in a slice.
#[device]
fn places<T: Word>(words: GlobalSlice<T>, size: usize) -> u32 {
    black_box((words.len() / size) as u32)
}

/// As [`place`], but limited to 32 bits: otherwise the compiler would join the product's shift with the
/// address and compute both in 64 bits.
#[device]
fn spot(seed: u32, index: u32, places: u32) -> usize {
    black_box(place(seed, index, places) as u32) as usize
}

/// Calls `access(operation)` for the thread's `per_thread` operations (a multiple of [`BATCH`]), [`BATCH`] at
/// a time, and writes the sum of the results to the thread's element of `sums`.
#[device(caller)]
fn batches(sums: GlobalSlice<u64>, per_thread: u32, access: impl Fn(u32) -> u64) {
    let thread = Thread::index();
    let (mut next, mut sum) = (thread as u32 * per_thread, 0u64);
    for _ in 0..per_thread / BATCH {
        let given: [u64; BATCH as usize] = core::array::from_fn(|turn| access(next + turn as u32));
        sum = given.into_iter().fold(sum, u64::wrapping_add);
        next = next.wrapping_add(BATCH);
    }
    sums.write(thread, sum);
}

/// Reads `per_tile` random pieces of `PIECE` words per tile; a tile has one lane for every [`LANE`] words of
/// a piece. Thread `t` writes the sum of its words to `sums[t]`.
///
/// The warp votes on each iteration, as it does where a structure shares work: the compiler does not unroll
/// an uncounted loop, so both loads of a piece are issued together.
#[device(caller)]
fn pieces<const PIECE: usize>(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_tile: u32, seed: u32) {
    let (thread, lanes, count) = (Thread::index(), PIECE / LANE, places(words, PIECE));
    if count == 0 {
        simt::trap();
    }
    // SAFETY: there is at least one piece; each half of a piece has 2 words for each lane, 16-byte aligned.
    let own = unsafe { words.at(0).offset(thread % lanes * 2) };
    let first = (thread / lanes) as u32 * per_tile;
    let warp = Tile::<32>::lockstep();
    let (mut turn, mut sum) = (0, 0u64);
    while warp.any(turn < per_tile) {
        // SAFETY: `spot` is below the number of pieces.
        let near = unsafe { own.offset(spot(seed, first.wrapping_add(turn), count) * PIECE) };
        // SAFETY: as above, in both halves of the piece.
        let [a, b] = unsafe { near.load_vec::<2>(Order::Relaxed, Scope::Device) };
        // SAFETY: as above.
        let [c, d] = unsafe { near.offset(PIECE / 2).load_vec::<2>(Order::Relaxed, Scope::Device) };
        sum = [a, b, c, d].into_iter().fold(sum, u64::wrapping_add);
        turn += 1;
    }
    sums.write(thread, sum);
}

/// Reads `per_thread` (a multiple of [`BATCH`]) random sectors per thread. Thread `t` writes the sum of its
/// words to `sums[t]`.
#[kernel]
pub fn limit_sectors(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    let (first, sectors) = (words.at(0), places(words, SECTOR));
    batches(sums, per_thread, |index| {
        // SAFETY: `place` is below the number of sectors.
        unsafe { first.offset(spot(seed, index, sectors) * SECTOR) }.load(Order::Relaxed, Scope::Device)
    });
}

/// Reads `per_tile` random half lines per tile of two lanes. Thread `t` writes the sum of its words to
/// `sums[t]`.
#[kernel]
pub fn limit_halves(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_tile: u32, seed: u32) {
    pieces::<HALF>(words, sums, per_tile, seed);
}

/// Reads `per_tile` random lines per tile of four lanes. Thread `t` writes the sum of its words to `sums[t]`.
#[kernel]
pub fn limit_lines(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_tile: u32, seed: u32) {
    pieces::<LINE>(words, sums, per_tile, seed);
}

/// Reads `per_tile` random rows of 256 bytes per tile of eight lanes. Thread `t` writes the sum of its words
/// to `sums[t]`.
#[kernel]
pub fn limit_rows(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_tile: u32, seed: u32) {
    pieces::<ROW>(words, sums, per_tile, seed);
}

/// Exchanges `per_thread` (a multiple of [`BATCH`]) random words per thread for the operation's [`mark`] if
/// they are zero. Thread `t` writes to `sums[t]` how many of its words were zero.
#[kernel]
pub fn limit_cas(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    exchanges_of_zero(words, sums, per_thread, seed);
}

/// As [`limit_cas`], but on 16-byte words. Traps before sm_90.
#[kernel]
pub fn limit_cas_wide(words: GlobalSlice<u128>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    exchanges_of_zero(words, sums, per_thread, seed);
}

#[device(caller)]
fn exchanges_of_zero<T: Word>(words: GlobalSlice<T>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    let (first, count) = (words.at(0), places(words, 1));
    batches(sums, per_thread, |index| {
        // SAFETY: `place` is below the number of words.
        let word = unsafe { first.offset(spot(seed, index, count)) };
        let mark = T::narrow(mark(index).into());
        word.compare_exchange(T::narrow(0), mark, Order::Relaxed, Scope::Device).is_ok().into()
    });
}

/// Exchanges `per_thread` (a multiple of [`BATCH`]) random words per thread for the operation's [`mark`].
/// Thread `t` writes the sum of the previous values to `sums[t]`.
#[kernel]
pub fn limit_exchange(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    let (first, count) = (words.at(0), places(words, 1));
    batches(sums, per_thread, |index| {
        // SAFETY: `place` is below the number of words.
        let word = unsafe { first.offset(spot(seed, index, count)) };
        word.exchange(mark(index), Order::Relaxed, Scope::Device)
    });
}

/// Copies memory: each block copies one contiguous piece, [`COPIES`] times 16 bytes per thread. The grid has
/// one block per piece.
#[kernel]
pub fn limit_copy(from: GlobalSlice<u128>, to: GlobalSlice<u128>) {
    let (block, len) = (Thread::block_size() as usize, from.len().min(to.len()));
    let mut first = Thread::block_index() as usize * block * COPIES + Thread::index_in_block() as usize;
    if first + (COPIES - 1) * block < len {
        let read: [u128; COPIES] = core::array::from_fn(|turn| {
            // SAFETY: the last of these is below the length of both slices.
            unsafe { from.at(0).offset(first + turn * block) }.load(Order::Weak, Scope::Device)
        });
        for (turn, &element) in read.iter().enumerate() {
            // SAFETY: as above.
            unsafe { to.at(0).offset(first + turn * block) }.store(element, Order::Weak, Scope::Device);
        }
        return;
    }
    while first < len {
        to.write(first, from.read(first));
        first += block;
    }
}

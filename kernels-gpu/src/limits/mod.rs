//! What the machine can do at best: the memory accesses of hash tables with nothing around them.
//!
//! Each kernel makes [`BATCH`] independent accesses, then folds them, and so on: enough in flight to hide the latency, as in a
//! structure's best case. The places are a mixed counter, so the host can compute every sum and hold the kernel to it: a
//! limit that was not verified is no limit. Loads are relaxed, as those of concurrent structures must be.
//!
//! | kernel | one operation |
//! |---|---|
//! | [`limit_sectors`] | a thread reads 8 bytes of a random 32-byte sector |
//! | [`limit_lines`] | four lanes read a random 128-byte line, 2 x 16 bytes each |
//! | [`limit_cas`] | a thread exchanges a random 8-byte word if it is zero |
//! | [`limit_copy`] | a thread copies 16 bytes |
use simt::hash::{mix32, mix64, reduce};
use simt::{Global, GlobalSlice, Order, Scope, Thread, kernel};

/// Accesses of a thread that may be in flight together. A thread makes a multiple of this many.
pub const BATCH: u32 = 8;

/// Words of 8 bytes in a sector.
pub const SECTOR: usize = 4;

/// Words of 8 bytes in a line.
pub const LINE: usize = 16;

/// Lanes that read a line together.
pub const LANES: u32 = 4;

/// What [`limit_fill`] writes to a word.
#[inline(always)]
pub const fn content(index: usize) -> u64 {
    mix64(index as u64)
}

/// The place that operation `index` touches, of `places`.
#[inline(always)]
pub const fn place(seed: u32, index: u32, places: u32) -> usize {
    reduce(mix32(index ^ seed), places) as usize
}

/// What operation `index` of [`limit_cas`] writes; never zero.
#[inline(always)]
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

/// The word `index` of a slice that the caller knows to have it: a check would be a part of what is measured.
///
/// # Safety
/// - `index < words.len()`.
#[inline(always)]
unsafe fn word(words: GlobalSlice<u64>, index: usize) -> Global<u64> {
    // SAFETY: passed on to the caller; a slice is one allocation.
    unsafe { words.at(0).offset(index) }
}

/// `per_thread` (a multiple of [`BATCH`]) random sectors a thread; thread `t` writes the sum of its words to `sums[t]`.
#[kernel]
pub fn limit_sectors(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    let (thread, sectors) = (Thread::index(), (words.len() / SECTOR) as u32);
    let mut sum = 0u64;
    for first in (0..per_thread).step_by(BATCH as usize) {
        let loaded: [u64; BATCH as usize] = core::array::from_fn(|turn| {
            let index = thread as u32 * per_thread + first + turn as u32;
            // SAFETY: `place` is below the number of sectors.
            unsafe { word(words, place(seed, index, sectors) * SECTOR) }.load(Order::Relaxed, Scope::Device)
        });
        sum = loaded.into_iter().fold(sum, u64::wrapping_add);
    }
    sums.write(thread, sum);
}

/// `per_tile` (a multiple of [`BATCH`]) random lines a tile of four lanes; thread `t` writes the sum of its words to `sums[t]`.
#[kernel]
pub fn limit_lines(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_tile: u32, seed: u32) {
    let (thread, lines) = (Thread::index(), (words.len() / LINE) as u32);
    let (tile, rank) = (thread as u32 / LANES, thread % LANES as usize);
    let mut sum = 0u64;
    for first in (0..per_tile).step_by(BATCH as usize) {
        let loaded: [[u64; 4]; BATCH as usize] = core::array::from_fn(|turn| {
            let line = place(seed, tile * per_tile + first + turn as u32, lines) * LINE;
            // SAFETY: `place` is below the number of lines; both halves of a line hold 2 words for each rank, 16-byte aligned.
            unsafe {
                let [a, b] = word(words, line + rank * 2).load_vec::<2>(Order::Relaxed, Scope::Device);
                let [c, d] =
                    word(words, line + LINE / 2 + rank * 2).load_vec::<2>(Order::Relaxed, Scope::Device);
                [a, b, c, d]
            }
        });
        sum = loaded.into_iter().flatten().fold(sum, u64::wrapping_add);
    }
    sums.write(thread, sum);
}

/// `per_thread` (a multiple of [`BATCH`]) exchanges a thread of random zero words for the operation's [`mark`]; thread `t` writes to
/// `sums[t]` how many of its words were zero.
#[kernel]
pub fn limit_cas(words: GlobalSlice<u64>, sums: GlobalSlice<u64>, per_thread: u32, seed: u32) {
    let (thread, places) = (Thread::index(), words.len() as u32);
    let mut won = 0u64;
    for first in (0..per_thread).step_by(BATCH as usize) {
        let results: [bool; BATCH as usize] = core::array::from_fn(|turn| {
            let index = thread as u32 * per_thread + first + turn as u32;
            // SAFETY: `place` is below the number of words.
            let word = unsafe { word(words, place(seed, index, places)) };
            word.compare_exchange(0, mark(index), Order::Relaxed, Scope::Device).is_ok()
        });
        won += results.into_iter().map(u64::from).sum::<u64>();
    }
    sums.write(thread, won);
}

/// Copies 16 bytes a turn of a thread.
#[kernel]
pub fn limit_copy(from: GlobalSlice<u128>, to: GlobalSlice<u128>) {
    let mut index = Thread::index();
    while index < from.len() {
        to.write(index, from.read(index));
        index += Thread::count();
    }
}

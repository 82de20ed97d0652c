//! Entry points: batches of allocations and frees, and scans of the bitmaps.
//!
//! Handles are words here. `u32::MAX` ([`Handle::NONE`]) stands for a failed allocation; freeing or retiring
//! it is a fault.
//!
//! # Cost
//!
//! Each kernel reads or writes a handle of 4 bytes per element. Warps with resident blocks allocate 32 slabs
//! by one atomic instruction; [`slab_free`] executes one atomic per run of neighbouring elements whose slabs
//! share a word, the kernels of lone threads one per slab. [`slab_reclaim`] and [`slab_count`] read two words
//! of the bitmaps per thread, and add by an atomic per warp.
use super::allocate::Resident;
use super::bitmaps::Bitmaps;
use super::handle::Handle;
use super::pool::Pool;
use crate::keyed::kernels::add_up;
use simt::hash::mix32;
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Allocates a slab for each element, by warps with resident blocks. `seed` should differ from launch to
/// launch.
#[kernel]
pub fn slab_allocate<P: Pool + Instance>(pool: P, seed: u32, handles: GlobalSlice<u32>) {
    let index = Thread::index();
    let wants = index < handles.len();
    let mut resident = Resident::new(pool, Tile::<32>::lockstep(), seed);
    let handle = resident.allocate(wants).unwrap_or(Handle::NONE);
    if wants {
        handles.write(index, handle.to_word());
    }
}

/// Allocates a slab for each element, by each thread alone.
#[kernel]
pub fn slab_allocate_lone<P: Pool + Instance>(pool: P, seed: u32, handles: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < handles.len() {
        let handle = pool.allocate(mix32(seed).wrapping_add(index as u32)).unwrap_or(Handle::NONE);
        handles.write(index, handle.to_word());
    }
}

/// Frees the slabs. If slabs of neighbouring elements share a word of the bitmap, one atomic operation frees
/// them.
#[kernel]
pub fn slab_free<P: Pool + Instance>(pool: P, handles: GlobalSlice<u32>) {
    let index = Thread::index();
    let asked = index < handles.len();
    let number = if asked { pool.number(Handle::from_word(handles.read(index))) } else { None };
    if asked && number.is_none() {
        pool.bitmaps().fault(1, "a slab was freed that the pool does not have");
    }
    free_together(pool, Tile::<32>::lockstep(), number);
}

/// Frees the slabs, each by a thread alone.
#[kernel]
pub fn slab_free_lone<P: Pool + Instance>(pool: P, handles: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < handles.len() {
        pool.free(Handle::from_word(handles.read(index)));
    }
}

/// Frees the slab of each lane that has one. Neighbouring lanes whose slabs share a word form a run, and the
/// first lane of a run frees for all.
///
/// Detecting runs costs one shuffle and one ballot. In a batch of random handles all runs have length 1, and
/// the rest is skipped.
#[device(caller)]
fn free_together<P: Pool>(pool: P, warp: Tile<32>, number: Option<u32>) {
    let word = number.map_or(u32::MAX, |number| number / 32);
    let mut bits = number.map_or(0, |number| 1 << (number % 32));
    let before = warp.shuffle_up(word, 1);
    let is_first = warp.rank() == 0 || word != before || number.is_none();
    let firsts = warp.ballot(is_first);
    let rest = (firsts >> warp.rank()) >> 1;
    let length = if rest == 0 { 32 - warp.rank() } else { rest.trailing_zeros() + 1 };
    if firsts != u32::MAX {
        bits = gather(warp, bits, length);
    }
    if is_first && bits != 0 {
        // SAFETY: word and bits are those of slabs of the pool; a fault is counted if one was not live.
        let old = unsafe { pool.give(word, bits) };
        pool.bitmaps().check_freed(old, bits, length);
    }
}

/// Combines the bits of the caller and of the `length - 1` lanes after it; the caller is the first lane of
/// its run.
#[device(caller)]
fn gather(warp: Tile<32>, bits: u32, length: u32) -> u32 {
    let (mut all, mut step) = (bits, 1);
    while step < 32 {
        let others = warp.shuffle_down(all, step);
        all |= if step < length { others } else { 0 };
        step *= 2;
    }
    all
}

/// Retires the slabs.
#[kernel]
pub fn slab_retire<P: Pool + Instance>(pool: P, handles: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < handles.len() {
        pool.retire(Handle::from_word(handles.read(index)));
    }
}

/// Frees all retired slabs and adds their number to `count`. One thread per word. Requires exclusive access
/// to the pool.
#[kernel]
pub fn slab_reclaim(bitmaps: Bitmaps, count: GlobalSlice<u64>) {
    let word = Thread::index() as u32;
    let mut reclaimed = 0;
    if word < bitmaps.words() {
        // SAFETY: the word index has been checked.
        let retired = unsafe { bitmaps.retired(word) };
        let bits = retired.load(Order::Relaxed, Scope::Device);
        reclaimed = bits.count_ones();
        if bits != 0 {
            retired.store(0, Order::Relaxed, Scope::Device);
            // SAFETY: the word index has been checked, and nothing uses retired slabs when this kernel runs.
            let old = unsafe { bitmaps.give(word, bits) };
            bitmaps.check_freed(old, bits, reclaimed);
        }
    }
    add_up(count.at(0), reclaimed);
}

/// Adds the number of slabs that are live and not retired to `counts[0]`, and the number of retired slabs to
/// `counts[1]`. One thread per word. Exact only if no other kernel runs.
#[kernel]
pub fn slab_count(bitmaps: Bitmaps, counts: GlobalSlice<u64>) {
    let word = Thread::index() as u32;
    let (mut live, mut retired) = (0, 0);
    if word < bitmaps.words() {
        // SAFETY: the word index has been checked.
        let (live_word, retired_word) = unsafe { (bitmaps.word(word), bitmaps.retired(word)) };
        let taken = live_word.load(Order::Relaxed, Scope::Device) & bitmaps.mask(word);
        let marked = retired_word.load(Order::Relaxed, Scope::Device);
        (live, retired) = ((taken & !marked).count_ones(), (taken & marked).count_ones());
    }
    add_up(counts.at(0), live);
    add_up(counts.at(1), retired);
}

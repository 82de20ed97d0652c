//! Who is running: ids of the calling thread, clocks, and the end of the road.
use crate::backend;

/// The calling thread. All grids and blocks of this project are one-dimensional.
#[derive(Clone, Copy, Debug)]
pub struct Thread;

impl Thread {
    /// Index in the block. PTX: `%tid.x`.
    #[inline(always)]
    pub fn index_in_block() -> u32 {
        backend::thread_index()
    }

    /// Index of the thread's block in the grid. PTX: `%ctaid.x`.
    #[inline(always)]
    pub fn block_index() -> u32 {
        backend::block_index()
    }

    /// Threads a block. PTX: `%ntid.x`.
    #[inline(always)]
    pub fn block_size() -> u32 {
        backend::block_size()
    }

    /// Blocks in the grid. PTX: `%nctaid.x`.
    #[inline(always)]
    pub fn grid_size() -> u32 {
        backend::grid_size()
    }

    /// Index in the warp, 0 to 31. PTX: `%laneid`.
    #[inline(always)]
    pub fn lane() -> u32 {
        backend::lane()
    }

    /// Index in the whole grid.
    #[inline(always)]
    pub fn index() -> usize {
        Self::block_index() as usize * Self::block_size() as usize + Self::index_in_block() as usize
    }

    /// Threads in the whole grid.
    #[inline(always)]
    pub fn count() -> usize {
        Self::grid_size() as usize * Self::block_size() as usize
    }
}

/// A cycle counter of the multiprocessor. PTX: `%clock64`. Emulator: scheduling steps so far.
#[inline(always)]
pub fn clock() -> u64 {
    backend::clock()
}

/// A device-wide clock in nanoseconds. PTX: `%globaltimer` (it ticks coarsely). Emulator: a counter that no
/// two reads share.
#[inline(always)]
pub fn timer() -> u64 {
    backend::timer()
}

/// Says that the thread waits for another one. PTX: `nanosleep.u32 20`. Emulator: lets other lanes run.
#[inline(always)]
#[track_caller]
pub fn spin_hint() {
    backend::spin_hint();
}

/// Waits for about so long, at most a millisecond. As a [`spin_hint`] that leaves the memory alone for
/// longer.
///
/// PTX: `nanosleep.u32`, which may sleep up to twice as long, or not at all. Emulator: a [`spin_hint`].
#[inline(always)]
#[track_caller]
pub fn pause(nanoseconds: u32) {
    backend::pause(nanoseconds);
}

/// Ends the launch with an error. PTX: `trap`. Emulator: a failure with the caller's source line.
#[inline(always)]
#[track_caller]
pub fn trap() -> ! {
    backend::trap()
}

/// Tells of a misuse that the caller survives: it goes on as if nothing had been asked, and counts the misuse
/// where its host looks.
///
/// PTX: nothing. Emulator: ends the launch with a failure of the caller's source line.
#[inline(always)]
#[track_caller]
pub fn fault(message: &'static str) {
    backend::fault(message);
}

/// The same value, which the compiler knows nothing about: what is made of it is computed where it is used,
/// not ahead of it.
///
/// PTX: a `mov` that the assembler removes. Emulator: nothing.
#[inline(always)]
pub fn opaque<T: crate::Shuffle>(value: T) -> T {
    value.map_words(backend::opaque)
}

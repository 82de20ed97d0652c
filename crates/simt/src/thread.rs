//! The calling thread: its ids, clocks, waiting, and ending the launch.
use crate::backend;
use simt_macros::device;

/// The calling thread. All grids and blocks of this project are one-dimensional.
///
/// ```
/// use simt::{GlobalSlice, Grid, Thread, kernel};
///
/// #[kernel]
/// fn ids(words: GlobalSlice<u32>) {
///     let first = Thread::block_index() * Thread::block_size();
///     assert_eq!(Thread::index(), (first + Thread::index_in_block()) as usize);
///     assert_eq!(Thread::count(), (Thread::grid_size() * Thread::block_size()) as usize);
///     words.write(Thread::index(), Thread::lane());
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [0; 80];
/// run(Grid::new(2, 40), &mut words, |words| Ids { words });
/// assert_eq!((words[39], words[40]), (7, 0));
/// ```
///
/// # Cost
///
/// Each id is a read of a register; `index` and `count` multiply two of them. No memory access.
#[derive(Clone, Copy, Debug)]
pub struct Thread;

#[device]
impl Thread {
    /// Returns the thread's index in its block. PTX: `%tid.x`.
    pub fn index_in_block() -> u32 {
        backend::thread_index()
    }

    /// Returns the index of the thread's block in the grid. PTX: `%ctaid.x`.
    pub fn block_index() -> u32 {
        backend::block_index()
    }

    /// Returns the number of threads per block. PTX: `%ntid.x`.
    pub fn block_size() -> u32 {
        backend::block_size()
    }

    /// Returns the number of blocks in the grid. PTX: `%nctaid.x`.
    pub fn grid_size() -> u32 {
        backend::grid_size()
    }

    /// Returns the thread's index in its warp, 0 to 31. PTX: `%laneid`.
    pub fn lane() -> u32 {
        backend::lane()
    }

    /// Returns the thread's index in the grid.
    pub fn index() -> usize {
        Self::block_index() as usize * Self::block_size() as usize + Self::index_in_block() as usize
    }

    /// Returns the number of threads in the grid.
    pub fn count() -> usize {
        Self::grid_size() as usize * Self::block_size() as usize
    }
}

/// Returns the cycle counter of the multiprocessor. PTX: `%clock64`. Emulator: the number of scheduling
/// steps.
#[device]
pub fn clock() -> u64 {
    backend::clock()
}

/// Returns a device-wide clock in nanoseconds. PTX: `%globaltimer` (of coarse resolution). Emulator: a
/// counter; no two reads return the same value.
#[device]
pub fn timer() -> u64 {
    backend::timer()
}

/// Signals that the thread waits for another. PTX: `nanosleep.u32 20`. Emulator: lets other lanes run.
#[device(caller)]
pub fn spin_hint() {
    backend::spin_hint();
}

/// Waits for about `nanoseconds`, at most a millisecond: a [`spin_hint`] that avoids memory accesses for
/// longer.
///
/// PTX: `nanosleep.u32`, which may sleep up to twice as long, or not at all. Emulator: a [`spin_hint`].
#[device(caller)]
pub fn pause(nanoseconds: u32) {
    backend::pause(nanoseconds);
}

/// Ends the launch with an error. PTX: `trap`. Emulator: a failure with the caller's source line.
#[device(caller)]
pub fn trap() -> ! {
    backend::trap()
}

/// Reports a misuse that the caller survives: it continues as if the operation had not been called, and
/// counts the misuse in memory that the host reads.
///
/// PTX: nothing. Emulator: ends the launch with a failure at the caller's source line.
#[device(caller)]
pub fn fault(message: &'static str) {
    backend::fault(message);
}

/// Returns the same value, hidden from the compiler's optimiser: values derived from it are computed where
/// they are used, not earlier.
///
/// PTX: a `mov` that the assembler removes. Emulator: nothing.
#[device]
pub fn black_box<T: crate::Shuffle>(value: T) -> T {
    value.map_words(backend::black_box)
}

/// Returns `count`, a bound of a loop or of an index that mutation tests change.
///
/// Marks a bound that no memory access shows, so that `cargo xtask mutate` tests it: with the mutant `less`,
/// `more` or `half` of the process, exploring mode returns one less, one more or half as much. Without such a
/// mutant, the call is the identity on all back ends. Host code may call it.
///
/// ```
/// use simt::{GlobalSlice, Grid, Thread, bound, kernel};
///
/// const ROUNDS: u32 = 5;
///
/// #[kernel]
/// fn count(words: GlobalSlice<u32>) {
///     for _ in 0..bound(ROUNDS) {
///         words.write(Thread::index(), words.read(Thread::index()) + 1);
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [0; 2];
/// run(Grid::new(1, 2), &mut words, |words| Count { words });
/// assert_eq!(words, [ROUNDS; 2]);
/// ```
///
/// # Cost
///
/// None on the device: the compiler inlines it. On the emulator, a call.
#[device(caller)]
pub fn bound(count: u32) -> u32 {
    backend::bound(count)
}

/// Returns `holds`, the condition of a check that concurrent changes can make fail. Mutation tests skip it.
///
/// Marks a check of what was read before, for example whether a node that was latched still is the parent.
/// `cargo xtask mutate` tests it: with the mutant `skip` of the process, exploring mode returns `true`.
/// Without such a mutant, the call is the identity on all back ends. Host code may call it.
///
/// ```
/// use simt::{GlobalSlice, Grid, Order, Scope, kernel, recheck};
///
/// #[kernel]
/// fn count_stable(words: GlobalSlice<u32>) {
///     let load = || words.at(0).load(Order::Acquire, Scope::Device);
///     let (before, after) = (load(), load());
///     if recheck(before == after) {
///         words.at(1).fetch_add(1, Order::Relaxed, Scope::Device);
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [0; 2];
/// run(Grid::new(1, 2), &mut words, |words| CountStable { words });
/// assert_eq!(words, [0, 2]);
/// ```
///
/// # Cost
///
/// None on the device: the compiler inlines it. On the emulator, a call.
#[device(caller)]
pub fn recheck(holds: bool) -> bool {
    backend::recheck(holds)
}

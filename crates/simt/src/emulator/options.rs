//! Options of an emulated device.
use super::explore::Schedule;
use super::fault::Fault;
use std::sync::LazyLock;
use std::thread::available_parallelism;

/// Number of worker threads by default. Found once: it takes reads of several files of the operating system,
/// and an exploration creates devices by the thousand.
static WORKERS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// Options of an emulated device. [`Options::default`] is the fast mode on all cores.
///
/// ```
/// use simt::emulator::{Detect, Mode, Options, Schedule};
///
/// let options = Options::explore(Schedule::Random { seed: 1 });
/// assert_eq!(options.detect, Detect::ALL);
/// assert!(matches!(Options::default().mode, Mode::Fast { .. }));
/// assert!(options.resident_blocks(128) >= 100);
/// ```
///
/// # Cost
///
/// O(1) on the host. [`Detect`] states what the detectors cost in memory and time: bytes and steps of the
/// host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fast mode or exploring mode.
    pub mode: Mode,
    /// In exploring mode, whether a weak load may return an overwritten value, as it may when it hits the
    /// cache of a multiprocessor, unless fences, acquires or barriers order the overwriting before the load.
    pub stale_l1: bool,
    /// In exploring mode, the values that strong reads may return.
    pub weak_memory: WeakMemory,
    /// In exploring mode with weak memory, whether a write may become visible before earlier reads of its
    /// lane (the litmus test load buffering, LB). Each launch is then run once more for half of the
    /// schedules. Kernels that test a value before they write may show outcomes that no GPU shows: dependent
    /// branches are not tracked. Without effect where [`Self::faults`] are injected or stores are recorded
    /// for crashes. In the second run, reads of memory that only the first has written are not reported as
    /// uninitialised.
    pub early_writes: bool,
    /// Faults injected in exploring mode.
    pub faults: Vec<Fault>,
    /// Enabled detectors.
    pub detect: Detect,
    /// Number of steps after which a launch is reported as hung. Exploring: steps of the launch. Fast:
    /// consecutive steps for which a worker's lanes wait (a spin hint counts as one, 1024 accesses without a
    /// hint as eight) while no worker writes or ends a lane.
    pub step_limit: u64,
    /// Stack size of each thread, in bytes; unused stack takes no memory. An overflow ends the launch. (It
    /// ends the process if the thread recurses without an access to memory, and the host is not Linux on
    /// x86-64 or AArch64, or the host's thread was not started by `std`.) Default: 256 KiB, twice what the
    /// library's kernels need without optimisation.
    pub stack_bytes: usize,
    /// Whether compare-exchange of 128 bits works, as on GPUs from sm_90 on; else it traps, as on older ones.
    pub cas128: bool,
    /// Number of threads per worker (one in exploring mode) that the device reports as resident at a time.
    /// Launches with as many threads as fill a device have so many. Default: 64, so that small batches fill
    /// the device. Such launches have several blocks only if it is larger than a block.
    pub resident_threads: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Fast { workers: *WORKERS },
            stale_l1: false,
            weak_memory: WeakMemory::Off,
            early_writes: false,
            faults: Vec::new(),
            detect: Detect::CHEAP,
            step_limit: 1 << 24,
            stack_bytes: 256 << 10,
            cas128: true,
            resident_threads: 64,
        }
    }
}

impl Options {
    /// Returns options to explore by `schedule`, with every detector on.
    pub fn explore(schedule: Schedule) -> Self {
        Self { mode: Mode::Explore(schedule), detect: Detect::ALL, ..Self::default() }
    }

    /// Returns the number of blocks of `threads` threads that are guaranteed to make progress concurrently
    /// (see the emulator's page).
    pub fn resident_blocks(&self, threads: u32) -> u32 {
        let fit = super::launch::RESIDENT_LANES / threads.clamp(1, 1024);
        match &self.mode {
            Mode::Explore(_) => fit,
            Mode::Fast { workers } => {
                let workers = (*workers).clamp(1, fit as usize) as u32;
                workers * super::launch::resident_per_worker(workers, threads)
            }
        }
    }
}

/// Fast mode or exploring mode.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Worker threads execute blocks; lanes yield at collectives, barriers and spin hints.
    Fast {
        /// Number of worker threads, at least 1.
        workers: usize,
    },
    /// One thread executes all lanes. The schedule decides which lane runs next before every memory access,
    /// collective, barrier and fence.
    Explore(Schedule),
}

/// Values that strong reads may return in exploring mode: only the newest, or also older ones that no order
/// excludes. In the weak models, writes and read-modify-writes may also be overtaken by later writes of other
/// lanes.
///
/// The [`Schedule`] chooses the value, so the seed and the trace reproduce it. Races and stale values of weak
/// reads are the same in all three models ([`Detect::races`], [`Options::stale_l1`]). A read of
/// [`timer`](crate::timer) makes all writes that were visible at earlier reads of it visible to the block's
/// lanes. Therefore histories whose operations are timed by it may be checked for linearizability.
///
/// Not modelled: reads of values not yet written (the litmus test LB), unless [`Options::early_writes`] is
/// set; older values of shared memory; and actual dependencies between reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeakMemory {
    /// Strong reads return the newest value: all orders are sequentially consistent.
    #[default]
    Off,
    /// Strong reads return any value that the PTX memory model allows, which does not order dependent reads.
    Ptx,
    /// As [`Self::Ptx`], but a lane's access is ordered after all its earlier reads, as if its address
    /// depended on them, and after earlier reads of lanes that it met at a collective. Linked structures rely
    /// on this.
    /// Detects missing order between writes; missing order between independent reads is only detected by
    /// [`Self::Ptx`].
    Hardware,
}

/// Detectors of an emulated device. Traps, panics, misaligned accesses and hangs are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detect {
    /// Detects accesses outside every live buffer.
    pub bounds: bool,
    /// Detects accesses to freed buffers.
    pub use_after_free: bool,
    /// Detects lanes that are missing from a collective or a barrier because they ended or wait elsewhere.
    /// When off, ended lanes are not waited for (as PTX specifies), and a deadlock is reported as a hang.
    pub collectives: bool,
    /// Detects reads of uninitialised memory. Costs an eighth of each buffer's size, and half of the speed in
    /// fast mode.
    pub uninitialized: bool,
    /// Detects unordered accesses of which at least one is a write and at least one is weak or of too narrow
    /// a scope. Exploring mode only.
    pub races: bool,
}

impl Detect {
    /// All detectors.
    pub const ALL: Self =
        Self { bounds: true, use_after_free: true, collectives: true, uninitialized: true, races: true };
    /// The detectors of negligible cost: bounds, use after free, and collectives.
    pub const CHEAP: Self = Self { uninitialized: false, races: false, ..Self::ALL };
    /// No detector.
    pub const NONE: Self =
        Self { bounds: false, use_after_free: false, collectives: false, uninitialized: false, races: false };
}

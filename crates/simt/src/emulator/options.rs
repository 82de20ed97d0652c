//! How an emulated device behaves.
use super::explore::Schedule;
use std::thread::available_parallelism;

/// How an emulated device behaves. [`Options::default`] is the fast mode on all cores.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fast, or exploring schedules.
    pub mode: Mode,
    /// In exploring mode, a weak load may return a value that has been overwritten, as it may when it hits
    /// the cache of a multiprocessor, unless the lane passed a fence, an acquire or a barrier since the
    /// overwriting.
    pub stale_l1: bool,
    /// In exploring mode, which values strong reads may return.
    pub weak_memory: WeakMemory,
    /// What is watched for.
    pub detect: Detect,
    /// After how many steps a launch is called hung. Exploring: steps of the launch. Fast: steps that a
    /// worker's lanes wait in a row (a spin hint is one, 1024 accesses without a hint are eight), while no
    /// worker writes or ends a lane.
    pub step_limit: u64,
    /// Bytes of stack for each thread of a block; what is not used takes no memory. An overflow hits a guard
    /// page and ends the process, as a segmentation fault. Default: 256 KiB, twice what the library's kernels
    /// need where nothing is optimised.
    pub stack_bytes: usize,
    /// Whether compare-exchange of 128 bits works, as it does on GPUs from sm_90 on; else it traps, as
    /// before.
    pub cas128: bool,
}

impl Default for Options {
    fn default() -> Self {
        let workers = available_parallelism().map_or(1, usize::from);
        Self {
            mode: Mode::Fast { workers },
            stale_l1: false,
            weak_memory: WeakMemory::Off,
            detect: Detect::CHEAP,
            step_limit: 1 << 24,
            stack_bytes: 256 << 10,
            cas128: true,
        }
    }
}

impl Options {
    /// Exploring by `schedule`, with every detector on.
    pub fn explore(schedule: Schedule) -> Self {
        Self { mode: Mode::Explore(schedule), detect: Detect::ALL, ..Self::default() }
    }

    /// How many blocks of `threads` threads are sure to make progress side by side (see the emulator's page).
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

/// Fast, or exploring schedules.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Worker threads execute blocks; lanes take turns at collectives, barriers and spin hints.
    Fast {
        /// Worker threads, at least 1.
        workers: usize,
    },
    /// One thread executes all lanes, and which lane goes next is decided before every access to memory,
    /// collective, barrier and fence.
    Explore(Schedule),
}

/// Which values strong reads may return in exploring mode: only the newest, or also older ones that no order
/// excludes.
///
/// Which one is returned is a choice of the [`Schedule`], found again by its seed and its trace. The races
/// and the stale values of weak reads are the same in all three ([`Detect::races`], [`Options::stale_l1`]).
/// Reading [`timer`](crate::timer) shows the block's lanes all that was visible at earlier readings, so that
/// histories whose operations are timed by it may be checked for linearizability.
///
/// Not modelled yet: writes that are overtaken by later ones (the litmus tests S and 2+2W), reads of what
/// will be written (LB), and which reads depend on which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeakMemory {
    /// Strong reads return the newest value: all orders are sequentially consistent.
    #[default]
    Off,
    /// Strong reads return any value that the PTX memory model allows, which knows no dependencies between
    /// reads.
    Ptx,
    /// As [`Self::Ptx`], but a read of a lane is ordered after all its reads before, as if its address
    /// depended on them, and after those of lanes with which it met at a collective. Structures of links
    /// count on that. Finds what writers fail to order; what readers fail to order among reads that do not
    /// depend on each other, only [`Self::Ptx`] finds.
    Hardware,
}

/// What an emulated device watches for. Traps, panics, misaligned accesses and hangs are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detect {
    /// Accesses outside every live buffer.
    pub bounds: bool,
    /// Accesses to a buffer that was freed.
    pub use_after_free: bool,
    /// Lanes that are missing from a collective or a barrier because they ended or wait elsewhere. When off,
    /// lanes that ended are not waited for (what PTX says of the instructions), and a deadlock is a hang.
    pub collectives: bool,
    /// Reads of memory that nobody wrote. Costs an eighth of each buffer's size, and half of the speed in
    /// fast mode.
    pub uninitialized: bool,
    /// Pairs of accesses that nothing orders, one of them a write and one of them weak. Exploring mode only.
    pub races: bool,
}

impl Detect {
    /// Everything.
    pub const ALL: Self =
        Self { bounds: true, use_after_free: true, collectives: true, uninitialized: true, races: true };
    /// What costs next to nothing: bounds, use after free, and collectives.
    pub const CHEAP: Self = Self { uninitialized: false, races: false, ..Self::ALL };
    /// Nothing.
    pub const NONE: Self =
        Self { bounds: false, use_after_free: false, collectives: false, uninitialized: false, races: false };
}

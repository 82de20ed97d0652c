//! State of an emulated device.
use super::crash::StoreLog;
use super::explore::Choices;
use super::memory::registry::Registry;
use super::options::Options;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State shared by all launches of a device.
pub struct World {
    pub options: Options,
    pub registry: Registry,
    /// Device-wide clock, advanced by every read.
    pub clock: AtomicU64,
    /// Number of allocations that still succeed: see
    /// [`Emulator::fail_allocations_after`](super::public::Emulator::fail_allocations_after).
    pub allocations_left: AtomicU64,
    /// Number of copies before the one that fails: see
    /// [`Emulator::fail_copy`](super::public::Emulator::fail_copy).
    pub copies_left: AtomicU64,
    /// Bytes of the copy that is left out, and number of copies of so many bytes before it: see
    /// [`Emulator::omit_copy`](super::public::Emulator::omit_copy).
    pub omitted: Mutex<(usize, u64)>,
    /// Whether files are refused: see [`Emulator::refuse_files`](super::public::Emulator::refuse_files).
    pub refuses_files: AtomicBool,
    /// Choices of the launches explored so far. The running launch holds the lock.
    pub explored: Mutex<Vec<Choices>>,
    /// Record of stores: see [`Emulator::record_stores`](super::public::Emulator::record_stores). The running
    /// launch has taken it.
    pub stores: Mutex<Option<StoreLog>>,
}

impl World {
    /// Creates empty memory.
    pub fn new(options: Options) -> Self {
        Self {
            registry: Registry::new(&options),
            options,
            clock: AtomicU64::new(0),
            allocations_left: AtomicU64::new(u64::MAX),
            copies_left: AtomicU64::new(u64::MAX),
            omitted: Mutex::new((0, u64::MAX)),
            refuses_files: AtomicBool::new(false),
            explored: Mutex::default(),
            stores: Mutex::default(),
        }
    }

    /// Returns a time that is unique to the read.
    pub fn next_time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

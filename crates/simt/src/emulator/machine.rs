//! The emulated device: its memory, its launches.
use super::explore::{self, Explorer, Trace};
use super::failure::{Failure, FailureDetails, FailureKind};
use super::launch::{Launch, Run};
use super::memory::registry::Registry;
use super::options::{Mode, Options};
use super::panics;
use super::worker::Worker;
use crate::{Grid, Kernel};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An emulated device: memory, and a way to run kernels on it. Clones are the same device.
///
/// # Concurrency
/// Several threads may allocate and launch at a time. In exploring mode launches from several threads wait
/// for each other; kernels that are to run side by side go into one [`Emulator::launch_all`].
#[derive(Clone)]
pub struct Emulator {
    world: Arc<World>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").field("options", &self.world.options).finish_non_exhaustive()
    }
}

/// What all launches of a device share.
pub struct World {
    pub options: Options,
    pub registry: Registry,
    /// The device-wide clock: every read ticks.
    pub clock: AtomicU64,
    /// Allocations that may still be made, see [`Emulator::ration`].
    ration: AtomicU64,
    /// The launches explored so far. Its lock is held by the one that runs.
    explored: Mutex<Vec<explore::Choices>>,
}

/// What a launch that succeeded has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Steps that the lanes made: accesses, collectives, barriers, fences and spin hints.
    pub steps: u64,
    /// Exploring mode: the choices made since the device was new, which replay its launches.
    pub trace: Option<Trace>,
}

impl Emulator {
    /// A device with empty memory.
    pub fn new(options: Options) -> Self {
        panics::install_hook();
        let registry = Registry::new(&options);
        Self {
            world: Arc::new(World {
                options,
                registry,
                clock: AtomicU64::new(0),
                ration: AtomicU64::new(u64::MAX),
                explored: Mutex::default(),
            }),
        }
    }

    /// How the device behaves.
    pub fn options(&self) -> &Options {
        &self.world.options
    }

    /// Memory of the device: `bytes` bytes at a multiple of `align` (a power of two; at least 16 is given).
    /// Null where the host has no more, or [the ration](Self::ration) is used up. Its contents are arbitrary,
    /// and reading them before they are written can be detected.
    pub fn allocate(&self, bytes: usize, align: usize) -> *mut u8 {
        let take = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        match self.world.ration.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => self.world.registry.allocate(bytes, align),
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// Lets so many allocations more be made, whatever their size, and none beyond them: for tests of what
    /// lacks memory. `u64::MAX`, as at first: as many as are asked for. Returns what is left of the ration
    /// before.
    ///
    /// ```
    /// use simt::emulator::{Emulator, Options};
    ///
    /// let emulator = Emulator::new(Options::default());
    /// emulator.ration(1);
    /// assert!(!emulator.allocate(64, 16).is_null());
    /// assert!(emulator.allocate(64, 16).is_null());
    /// assert_eq!(emulator.ration(u64::MAX), 0);
    /// ```
    pub fn ration(&self, allocations: u64) -> u64 {
        self.world.ration.swap(allocations, Ordering::Relaxed)
    }

    /// Gives memory back. Later accesses of kernels are reported as use after free, until the address is
    /// given out again. A pointer that [`Emulator::allocate`] never gave is ignored.
    ///
    /// # Safety
    /// - The host does not access the memory any more.
    pub unsafe fn free(&self, pointer: *mut u8) {
        self.world.registry.free(pointer as usize);
    }

    /// Lets kernels use memory of the host, which counts as written.
    ///
    /// # Safety
    /// - The `bytes` bytes at `pointer` are valid for reads and writes until [`Emulator::disown`].
    pub unsafe fn adopt(&self, pointer: *mut u8, bytes: usize) {
        self.world.registry.adopt(pointer as usize, bytes);
    }

    /// Takes memory of the host away from kernels.
    ///
    /// # Safety
    /// - No launch that uses it is running.
    pub unsafe fn disown(&self, pointer: *mut u8) {
        self.world.registry.disown(pointer as usize);
    }

    /// Says that the host wrote to memory of the device. Bytes outside every buffer are ignored.
    ///
    /// # Safety
    /// - The `bytes` bytes at `pointer` have been written.
    pub unsafe fn mark_initialized(&self, pointer: *const u8, bytes: usize) {
        self.world.registry.mark_initialized(pointer as usize, bytes);
    }

    /// Runs `kernel` for every thread of `grid`, to the end.
    ///
    /// # Errors
    /// The first failure that was detected. Memory is then as the lanes left it.
    pub fn launch<K: Kernel + Send + Sync + 'static>(
        &self,
        grid: Grid,
        kernel: K,
    ) -> Result<Report, Failure> {
        self.launch_all(vec![Launch::new(grid, kernel)])
    }

    /// Runs several launches side by side, to the end of all.
    ///
    /// # Errors
    /// The first failure that was detected in any of them.
    pub fn launch_all(&self, launches: Vec<Launch>) -> Result<Report, Failure> {
        launches.iter().try_for_each(check)?;
        if launches.is_empty() {
            return Ok(Report { steps: 0, trace: None });
        }
        let _running = self.world.registry.start_launch();
        match &self.world.options.mode {
            Mode::Fast { .. } => self.run_fast(launches),
            Mode::Explore(schedule) => self.explore(launches, schedule),
        }
    }

    fn run_fast(&self, launches: Vec<Launch>) -> Result<Report, Failure> {
        let run = Arc::new(Run::new(self.world.clone(), launches));
        run.execute();
        run.take_failure().map_or(Ok(Report { steps: run.steps(), trace: None }), Err)
    }

    fn explore(&self, launches: Vec<Launch>, schedule: &explore::Schedule) -> Result<Report, Failure> {
        let mut before = self.world.explored.lock().unwrap_or_else(PoisonError::into_inner);
        let run = Arc::new(Run::new(self.world.clone(), launches));
        let worker = Worker::new(run.clone(), Some(Explorer::new(&self.world.options, schedule, &before)));
        let (steps, choices) = explore::execute(&worker);
        before.push(choices);
        let trace = Some(Trace::new(before.clone()));
        run.take_failure().map_or(Ok(Report { steps, trace }), Err)
    }
}

impl World {
    /// A time that no two reads share.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

fn check(launch: &Launch) -> Result<(), Failure> {
    let grid = launch.grid;
    if grid.blocks > 0 && (1..=1024).contains(&grid.threads) {
        return Ok(());
    }
    Err(Failure::from(FailureDetails {
        kind: FailureKind::InvalidGrid { grid },
        kernel: launch.name.clone(),
        location: None,
        block: 0,
        thread: 0,
        other: None,
        schedule: None,
        trace: None,
    }))
}

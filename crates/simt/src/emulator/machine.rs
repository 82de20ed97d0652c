//! The emulated device: its memory and its launches.
use super::crash::StoreLog;
use super::explore::early::Outcome;
use super::explore::{self, Choices, Explorer, Trace};
use super::failure::{Failure, FailureDetails, FailureKind};
use super::lane::Lane;
use super::launch::Launch;
use super::options::{Mode, Options};
use super::panics;
use super::run::Run;
use super::worker::{self, Worker};
use super::world::World;
use crate::{GlobalSlice, Grid, Kernel};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// An emulated device: its memory and its launches. Clones refer to the same device.
///
/// # Concurrency
/// Several threads may allocate and launch at a time. In exploring mode, launches from several threads wait
/// for each other; kernels that must run concurrently go into one [`Emulator::launch_all`].
///
/// ```
/// use simt::emulator::{Emulator, Launch, Options};
/// use simt::{Global, Grid, Order, Scope, kernel};
///
/// #[kernel]
/// fn add(word: Global<u32>, by: u32) {
///     word.fetch_add(by, Order::Relaxed, Scope::Device);
/// }
///
/// let device = Emulator::new(Options::default());
/// assert!(device.options().cas128);
/// let pointer = device.allocate(4, 4).cast::<u32>();
/// let mut own = 0u32; // memory of the host
/// // SAFETY: both words live until the launches have ended, and the host uses them before and after only.
/// unsafe {
///     pointer.write(0);
///     device.mark_initialized(pointer.cast(), 4);
///     device.adopt((&raw mut own).cast(), 4);
///     let (word, own) = (Global::new(pointer), Global::new(&raw mut own));
///     device.launch(Grid::new(2, 32), Add { word, by: 1 })?;
///     let both = [Add { word, by: 10 }, Add { word: own, by: 1 }];
///     device.launch_all(both.map(|kernel| Launch::new(Grid::new(1, 1), kernel)).into())?;
///     assert_eq!(pointer.read(), 74);
///     device.free(pointer.cast());
///     device.disown(own.as_ptr().cast());
/// }
/// assert_eq!(own, 1);
/// # Ok::<(), simt::emulator::Failure>(())
/// ```
///
/// Tests can let allocations and copies fail, and mapped files:
///
/// ```
/// use simt::emulator::{Emulator, Options};
///
/// let device = Emulator::new(Options::default());
/// device.fail_allocations_after(1);
/// assert!(!device.allocate(64, 16).is_null());
/// assert!(device.allocate(64, 16).is_null());
/// assert_eq!(device.fail_allocations_after(u64::MAX), 0);
/// device.fail_copy(1);
/// assert_eq!([(); 3].map(|()| device.copy_fails()), [false, true, false]); // a call before each copy
/// assert_eq!(device.fail_copy(u64::MAX), u64::MAX); // the failure has happened
/// device.omit_copy(8, 1); // the second copy of 8 bytes
/// assert_eq!([8, 4, 8, 8].map(|bytes| device.copy_is_omitted(bytes)), [false, false, true, false]);
/// device.refuse_files(true); // as drivers do on most file systems
/// assert!(device.refuses_files());
/// ```
///
/// and see what a crash leaves of memory that survives the process ([`StoreLog`]):
///
/// ```
/// use simt::emulator::{Emulator, Options, Schedule};
///
/// let device = Emulator::new(Options::explore(Schedule::Random { seed: 1 }));
/// let kept = [7u8; 8];
/// // SAFETY: the array lives until the record has ended, and no kernel runs meanwhile.
/// unsafe { device.record_stores(kept.as_ptr(), 8) };
/// assert_eq!(device.store_events(), 0); // no kernel has stored to it
/// let log = device.take_stores().expect("a record was begun");
/// log.crashes(0..log.events() + 1, 1, |crash| assert_eq!(crash.contents(0), kept));
/// ```
///
/// # Cost
///
/// `new` allocates the state of a device on the host. `launch` and `launch_all` wait for the kernels' end.
///
/// In fast mode, a launch takes stacks for its resident lanes and up to the number of worker threads; each
/// access costs a check of the address, O(log n) for n buffers at worst. In exploring mode, one thread
/// executes everything, and each access also costs a switch of stacks and the detectors' bookkeeping.
/// `allocate`, `free`, `adopt`, `try_adopt`, `disown`, `omit_copy` and `copy_is_omitted` take a lock;
/// `mark_initialized` writes a bit per byte if uninitialised reads are detected.
#[derive(Clone)]
pub struct Emulator {
    world: Arc<World>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").field("options", &self.world.options).finish_non_exhaustive()
    }
}

/// Report of a successful launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Steps of all lanes: accesses, collectives, barriers, fences and spin hints.
    pub steps: u64,
    /// In exploring mode, the choices of all launches of the device so far, which replay them.
    pub trace: Option<Trace>,
}

/// A run of launches.
struct Attempt {
    steps: u64,
    choices: Choices,
    failure: Option<Failure>,
}

impl Emulator {
    /// Creates a device with empty memory.
    pub fn new(options: Options) -> Self {
        panics::install_hook(|| Lane::try_current().is_some());
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        super::overflow::install_handler();
        Self { world: Arc::new(World::new(options)) }
    }

    /// Returns the options of the device.
    pub fn options(&self) -> &Options {
        &self.world.options
    }

    /// Allocates `bytes` bytes of device memory, aligned to `align` (a power of two; at least 16 is used).
    /// Returns null if the host's memory or [the allocation limit](Self::fail_allocations_after) is
    /// exhausted. The contents are arbitrary; reads before writes can be detected.
    pub fn allocate(&self, bytes: usize, align: usize) -> *mut u8 {
        let take = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        match self.world.allocations_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => self.world.registry.allocate(bytes, align),
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// Limits the number of further allocations, whatever their size; later ones fail. Serves to test
    /// allocation failures. `u64::MAX`, the initial value, means no limit. Returns the remainder of the
    /// previous limit.
    pub fn fail_allocations_after(&self, allocations: u64) -> u64 {
        self.world.allocations_left.swap(allocations, Ordering::Relaxed)
    }

    /// Lets one copy or fill of the device's memory by the host fail, after `copies` that succeed. Serves to
    /// test failures of the device. `u64::MAX`, the initial value, means that none fails. Returns the number
    /// of copies that would have succeeded before the failure, or `u64::MAX` if it has happened.
    pub fn fail_copy(&self, copies: u64) -> u64 {
        self.world.copies_left.swap(copies, Ordering::Relaxed)
    }

    /// Returns whether the next copy fails, and counts it. The host runtime calls it before each copy.
    pub fn copy_fails(&self) -> bool {
        let take = |left: u64| Some(if left == u64::MAX { left } else { left.wrapping_sub(1) });
        self.world.copies_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) == Ok(0)
    }

    /// Leaves out one copy of `bytes` bytes, after `copies` of the same size that are executed, and lets the
    /// host believe that it was. Serves to test that tests find such a fault. `u64::MAX`, the initial value,
    /// means that none is left out. Returns the number of copies that would have been executed before it, or
    /// `u64::MAX` if it has happened.
    pub fn omit_copy(&self, bytes: usize, copies: u64) -> u64 {
        let mut omitted = self.world.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *omitted, (bytes, copies)).1
    }

    /// Returns whether the next copy, of `bytes` bytes, is left out, and counts it. The host runtime calls it
    /// before each copy.
    pub fn copy_is_omitted(&self, bytes: usize) -> bool {
        let mut omitted = self.world.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, left) = *omitted;
        if left == u64::MAX || bytes != of {
            return false;
        }
        omitted.1 = left.wrapping_sub(1);
        left == 0
    }

    /// Lets the host runtime refuse mapped files from now on, or accept them again. Serves to test what
    /// depends on the driver and the file system.
    pub fn refuse_files(&self, refuses: bool) {
        self.world.refuses_files.store(refuses, Ordering::Relaxed);
    }

    /// Returns whether mapped files are refused. The host runtime calls it before it registers one.
    pub fn refuses_files(&self) -> bool {
        self.world.refuses_files.load(Ordering::Relaxed)
    }

    fn stores(&self) -> MutexGuard<'_, Option<StoreLog>> {
        self.world.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the stores of kernels to these bytes from now on, in exploring mode, as stores to memory that
    /// survives the process. Further calls add bytes to the record. What the host writes between launches is
    /// part of the record, and settled at once. The example of [`StoreLog`] shows the use.
    ///
    /// # Safety
    /// - The bytes are valid for reads until [`Self::take_stores`], and the host writes them only while no
    ///   kernel runs.
    pub unsafe fn record_stores(&self, pointer: *const u8, bytes: usize) {
        let mut stores = self.stores();
        // SAFETY: the caller's obligation.
        unsafe { stores.get_or_insert_default().add(pointer as usize, bytes) };
    }

    /// Returns the number of events of the record so far, 0 if there is none: what a call has done before is
    /// complete in all crashes at this stop and later.
    pub fn store_events(&self) -> usize {
        self.stores().as_ref().map_or(0, StoreLog::events)
    }

    /// Ends the record and returns it; `None` if there is none.
    pub fn take_stores(&self) -> Option<StoreLog> {
        self.stores().take()
    }

    /// Frees memory. Later accesses of kernels are reported as use after free, until the address is allocated
    /// again. A pointer that did not come from [`Emulator::allocate`] is ignored.
    ///
    /// # Safety
    /// - The host no longer accesses the memory.
    pub unsafe fn free(&self, pointer: *mut u8) {
        self.world.registry.free(pointer as usize);
    }

    /// Makes host memory accessible to kernels. It counts as initialised.
    ///
    /// # Safety
    /// - The `bytes` bytes at `pointer` are valid for reads and writes until [`Emulator::disown`].
    pub unsafe fn adopt(&self, pointer: *mut u8, bytes: usize) {
        self.world.registry.adopt(pointer as usize, bytes);
    }

    /// [`Self::adopt`], unless a buffer of this device already has the bytes, which then stays as it is.
    ///
    /// ```
    /// use simt::emulator::{Emulator, Options};
    ///
    /// let emulator = Emulator::new(Options::default());
    /// let mut words = [0u32; 4];
    /// let start: *mut u8 = (&raw mut words).cast();
    /// // SAFETY: the words outlive the device.
    /// unsafe {
    ///     assert_eq!(emulator.try_adopt(start, 16), Ok(()));
    ///     assert_eq!(emulator.try_adopt(start.add(4), 12), Ok(()));
    ///     assert_eq!(emulator.try_adopt(start.add(4), 16), Err(12));
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Err`] with the number of bytes from `pointer` to the end of a buffer that has the first byte, but
    /// not all of them.
    ///
    /// # Safety
    /// - As for [`Self::adopt`].
    pub unsafe fn try_adopt(&self, pointer: *mut u8, bytes: usize) -> Result<(), usize> {
        self.world.registry.try_adopt(pointer as usize, bytes)
    }

    /// Makes host memory inaccessible to kernels again.
    ///
    /// # Safety
    /// - No running launch uses the memory.
    pub unsafe fn disown(&self, pointer: *mut u8) {
        self.world.registry.disown(pointer as usize);
    }

    /// Lets kernels of this device access the memory of another one. Repeated calls have no effect.
    ///
    /// A buffer of the other device must not be freed while a launch on this one accesses it: such an access
    /// is not always reported, as it would not be on a GPU.
    ///
    /// ```
    /// use simt::emulator::{Emulator, Options};
    ///
    /// let [one, two] = [(), ()].map(|()| Emulator::new(Options::default()));
    /// one.add_peer(&two);
    /// ```
    pub fn add_peer(&self, other: &Emulator) {
        self.world.registry.add_peer(&other.world);
    }

    /// Marks device memory as written by the host. Bytes outside every buffer are ignored.
    ///
    /// # Safety
    /// - The `bytes` bytes at `pointer` have been written.
    pub unsafe fn mark_initialized(&self, pointer: *const u8, bytes: usize) {
        self.world.registry.mark_initialized(pointer as usize, bytes);
    }

    /// Runs `kernel` for every thread of `grid` and waits for its end.
    ///
    /// # Errors
    /// [`Failure`]: the first one detected. Memory is then as the lanes left it.
    pub fn launch<K: Kernel + Send + Sync + 'static>(
        &self,
        grid: Grid,
        kernel: K,
    ) -> Result<Report, Failure> {
        self.launch_all(vec![Launch::new(grid, kernel)])
    }

    /// Runs several launches concurrently and waits for the end of all.
    ///
    /// # Errors
    /// [`Failure`]: the first one detected in any launch.
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
        let run = Arc::new(Run::new(self.world.clone(), launches.into()));
        worker::execute(&run);
        run.take_failure().map_or(Ok(Report { steps: run.steps(), trace: None }), Err)
    }

    fn explore(&self, launches: Vec<Launch>, schedule: &explore::Schedule) -> Result<Report, Failure> {
        let mut before = self.world.explored.lock().unwrap_or_else(PoisonError::into_inner);
        let launches: Arc<[Launch]> = launches.into();
        let stores = self.stores().take().map(|mut stores| {
            // SAFETY: no kernel runs, since this launch holds the lock of the explored ones.
            unsafe { stores.note_host() };
            stores
        });
        let explorer = Explorer::new(&self.world.options, schedule, &before).recording(stores);
        let (mut attempt, explorer) = self.attempt(&launches, explorer);
        *self.stores() = explorer.as_ref().and_then(Explorer::end_record);
        if let Some(explorer) = explorer.filter(|_| attempt.failure.is_none()) {
            self.attempt_again(&launches, explorer, &mut attempt);
        }
        before.push(attempt.choices);
        let trace = Some(Trace::new(before.clone()));
        attempt.failure.map_or(Ok(Report { steps: attempt.steps, trace }), Err)
    }

    /// Runs the launches once.
    fn attempt(&self, launches: &Arc<[Launch]>, explorer: Explorer) -> (Attempt, Option<Explorer>) {
        let run = Arc::new(Run::new(self.world.clone(), launches.clone()));
        let worker = Worker::new(run.clone(), Some(explorer));
        let (steps, choices) = explore::execute(&worker);
        (Attempt { steps, choices, failure: run.take_failure() }, worker.into_explorer())
    }

    /// Runs launches again with early writes, if the scheduler chooses any. Their outcome replaces that of
    /// the first attempt, unless they prove impossible.
    fn attempt_again(&self, launches: &Arc<[Launch]>, explorer: Explorer, first: &mut Attempt) {
        let (options, registry) = (&self.world.options, &self.world.registry);
        let outcome = Outcome::of(&explorer);
        let explorer = match explorer.again(options, registry, &outcome) {
            Ok(explorer) => explorer,
            Err(explorer) => {
                first.choices = explorer.choices();
                return;
            }
        };
        let (second, explorer) = self.attempt(launches, explorer);
        let Some(explorer) = explorer else { return };
        if explorer.is_settled() {
            *first = second;
            return;
        }
        first.choices = second.choices;
        Outcome::of(&explorer).undo(registry);
        outcome.redo();
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
        faults: Vec::new(),
    }))
}

/// Launches a kernel whose argument is a slice of `words`, for the examples of this crate.
#[doc(hidden)]
pub fn run_example<K: Kernel + Send + Sync + 'static>(
    grid: Grid,
    words: &mut [u32],
    kernel: impl FnOnce(GlobalSlice<u32>) -> K,
) {
    let (device, start) = (Emulator::new(Options::default()), words.as_mut_ptr());
    // SAFETY: the words outlive the launch, and nothing else uses them.
    let slice = unsafe {
        device.adopt(start.cast(), size_of_val(words));
        GlobalSlice::from_raw_parts(start, words.len())
    };
    device.launch(grid, kernel(slice)).expect("an example runs");
}

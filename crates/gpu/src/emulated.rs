//! The emulated device.
use crate::launch::AnyLaunch;
use crate::machine::{self, Block, Facts, Mark, Work};
use crate::name::KernelId;
use crate::{Error, Program, Result, Tier};
use simt::emulator::{Emulator, Mode, Options};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// Alignment of `cuMemAlloc`, in bytes.
const ALIGNMENT: usize = 256;

/// Most bytes of an allocation that is made without a look at the available memory of the host, which takes
/// longer than the allocation. The operating system grants more than it has, and ends the process later.
const UNCHECKED: usize = 1 << 20;

#[derive(Debug)]
pub struct Machine {
    facts: Facts,
    shared: Arc<Shared>,
}

/// State shared by the device and its queues.
#[derive(Debug)]
struct Shared {
    emulator: Emulator,
    /// Locked for reading by launches, and for writing by synchronization, which thereby waits for launches.
    running: RwLock<()>,
    work: Mutex<Work>,
}

impl Shared {
    fn run(&self) -> RwLockReadGuard<'_, ()> {
        self.running.read().unwrap_or_else(PoisonError::into_inner)
    }

    // Numbers are valid even after a panic.
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> RwLockWriteGuard<'_, ()> {
        self.work().waits += 1;
        self.running.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a copy or a fill. Returns an error if a test lets it fail.
    fn begin_copy(&self) -> Result<()> {
        self.work().copies += 1;
        match self.emulator.copy_fails() {
            true => Err(Error::Driver { call: "copy", cause: "a test lets this copy fail".to_owned() }),
            false => Ok(()),
        }
    }

    /// # Safety
    /// - As [`machine::Machine::copy`].
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's obligation.
        unsafe { self.copy_to(&self.emulator, to, from, bytes) }
    }

    /// Copies to memory that belongs to `owner`.
    ///
    /// # Safety
    /// - As [`machine::Machine::copy`].
    unsafe fn copy_to(&self, owner: &Emulator, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        self.begin_copy()?;
        if self.emulator.copy_is_omitted(bytes) {
            return Ok(());
        }
        // SAFETY: two ranges of `bytes` bytes that do not overlap (the caller's obligation).
        unsafe {
            to.copy_from_nonoverlapping(from, bytes);
            owner.mark_initialized(to, bytes);
        }
        Ok(())
    }

    /// # Safety
    /// - As [`machine::Machine::fill`].
    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()> {
        self.begin_copy()?;
        // SAFETY: a range of `bytes` bytes (the caller's obligation).
        unsafe {
            to.write_bytes(byte, bytes);
            self.emulator.mark_initialized(to, bytes);
        }
        Ok(())
    }
}

impl Machine {
    pub fn new(options: Options) -> Self {
        let workers = match options.mode {
            Mode::Fast { workers } => workers,
            Mode::Explore(_) => 1,
        };
        let workers = u32::try_from(workers.max(1)).unwrap_or(u32::MAX);
        let name = "SIMT emulator".to_owned();
        let facts = Facts {
            uuid: machine::id_of(&name),
            name,
            driver: "emulator".to_owned(),
            ordinal: 0,
            multiprocessors: workers,
            resident: workers.saturating_mul(options.resident_threads),
            arch: if options.cas128 { 90 } else { 80 },
            cas128: options.cas128,
        };
        let shared =
            Shared { emulator: Emulator::new(options), running: RwLock::new(()), work: Mutex::default() };
        Self { facts, shared: Arc::new(shared) }
    }

    pub fn new_queue(&self) -> Arc<Queue> {
        Arc::new(Queue { shared: self.shared.clone() })
    }
}

impl machine::Machine for Machine {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn memory(&self) -> Result<(usize, usize)> {
        Ok(host_memory())
    }

    fn synchronize(&self) -> Result<()> {
        drop(self.shared.wait());
        Ok(())
    }

    fn allocate(&self, tier: Tier, bytes: usize) -> Result<Block> {
        let fits = bytes <= UNCHECKED || bytes <= host_memory().0;
        let device = if fits { self.shared.emulator.allocate(bytes, ALIGNMENT) } else { null_mut() };
        if device.is_null() {
            let (free, total) = host_memory();
            return Err(Error::OutOfMemory { tier, bytes, free, total });
        }
        if !tier.is_host_visible() {
            return Ok(Block { device, host: null_mut() });
        }
        // SAFETY: just allocated with this size.
        unsafe {
            device.write_bytes(0, bytes);
            self.shared.emulator.mark_initialized(device, bytes);
        }
        Ok(Block { device, host: device })
    }

    unsafe fn free(&self, _tier: Tier, block: Block) {
        let _nothing_runs = self.shared.wait();
        // SAFETY: allocated by this emulator and not used afterwards (the caller's obligation).
        unsafe { self.shared.emulator.free(block.device) }
    }

    unsafe fn adopt(&self, host: *mut u8, bytes: usize) -> Result<*mut u8, String> {
        if self.shared.emulator.refuses_files() {
            return Err("a test refuses files".to_owned());
        }
        // SAFETY: memory that stays mapped until `disown` (the caller's obligation).
        unsafe { self.shared.emulator.adopt(host, bytes) };
        Ok(host)
    }

    unsafe fn disown(&self, host: *mut u8) {
        let _nothing_runs = self.shared.wait();
        // SAFETY: adopted before (the caller's obligation).
        unsafe { self.shared.emulator.disown(host) }
    }

    unsafe fn wrap(&self, pointer: *mut u8, bytes: usize) -> Result<Result<(), String>> {
        // SAFETY: memory that stays allocated until `unwrap` (the caller's obligation).
        Ok(unsafe { self.shared.emulator.try_adopt(pointer, bytes) }
            .map_err(|end| format!("the allocation there has only {end} bytes from the pointer on")))
    }

    unsafe fn unwrap(&self, pointer: *mut u8) {
        // SAFETY: the caller's obligation. Memory of the emulator itself is no adopted memory and stays.
        unsafe { self.disown(pointer) }
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        let _nothing_runs = self.shared.wait();
        // SAFETY: the caller's obligation.
        unsafe { self.shared.copy(to, from, bytes) }
    }

    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()> {
        let _nothing_runs = self.shared.wait();
        // SAFETY: the caller's obligation.
        unsafe { self.shared.fill(to, byte, bytes) }
    }

    fn make_current(&self) -> Result<()> {
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn raw_context(&self) -> *mut c_void {
        null_mut()
    }

    fn enable_peer(&self, other: &dyn machine::Machine) -> Result<bool> {
        if let Some(other) = other.emulator() {
            self.shared.emulator.add_peer(other);
        }
        Ok(true)
    }

    fn set_heap(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn queue(&self, _is_urgent: bool) -> Result<Arc<dyn machine::Queue>> {
        Ok(self.new_queue())
    }

    unsafe fn wrap_queue(&self, handle: *mut c_void) -> Result<Result<Arc<dyn machine::Queue>, String>> {
        let cause = || "the emulator has no streams of other libraries; pass null".to_owned();
        let queue = || -> Arc<dyn machine::Queue> { self.new_queue() };
        Ok(handle.is_null().then(queue).ok_or_else(cause))
    }

    /// Does nothing: the emulator runs the host's code and needs no PTX.
    fn add_program(&self, _program: &'static Program) {}

    fn prepare(&self, _kernel: KernelId, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn resident_blocks(&self, _kernel: KernelId, _bytes: usize, threads: u32) -> Result<u32> {
        Ok(self.shared.emulator.options().resident_blocks(threads))
    }

    fn jit_ms(&self) -> f64 {
        0.0
    }

    fn emulator(&self) -> Option<&Emulator> {
        Some(&self.shared.emulator)
    }

    fn work(&self) -> Option<Work> {
        Some(*self.shared.work())
    }
}

/// A stream of the emulator. Every operation has completed when its call returns.
#[derive(Debug)]
pub struct Queue {
    shared: Arc<Shared>,
}

impl machine::Queue for Queue {
    unsafe fn launch(&self, launch: &dyn AnyLaunch) -> Result<()> {
        self.shared.work().launches += 1;
        let _running = self.shared.run();
        let failed = |failure| Error::Emulator { launch: launch.name(), failure: Box::new(failure) };
        self.shared.emulator.launch_all(vec![launch.emulated()]).map(drop).map_err(failed)
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        let _running = self.shared.run();
        // SAFETY: the caller's obligation.
        unsafe { self.shared.copy(to, from, bytes) }
    }

    unsafe fn copy_peer(
        &self,
        (to, owner): (*mut u8, &dyn machine::Machine),
        (from, _): (*const u8, &dyn machine::Machine),
        bytes: usize,
    ) -> Result<()> {
        let _running = self.shared.run();
        let owner = owner.emulator().unwrap_or(&self.shared.emulator);
        // SAFETY: the caller's obligation.
        unsafe { self.shared.copy_to(owner, to, from, bytes) }
    }

    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()> {
        let _running = self.shared.run();
        // SAFETY: the caller's obligation.
        unsafe { self.shared.fill(to, byte, bytes) }
    }

    fn raw_handle(&self) -> *mut c_void {
        null_mut()
    }

    fn record(&self, _: bool) -> Result<Mark> {
        Ok(Mark::Clock(Instant::now()))
    }

    fn wait(&self, mark: &Mark) -> Result<()> {
        match mark {
            Mark::Clock(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Mark::Cuda(mark) => mark.synchronize(),
        }
    }

    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }

    /// Waits for running operations. Operations submitted through this handle have already completed; other
    /// threads may still submit more.
    fn synchronize(&self) -> Result<()> {
        drop(self.shared.wait());
        Ok(())
    }
}

/// Returns the available and total bytes of the host's memory, or the size of the address space if the
/// operating system does not report them.
fn host_memory() -> (usize, usize) {
    crate::host_memory().unwrap_or((isize::MAX as usize, isize::MAX as usize))
}

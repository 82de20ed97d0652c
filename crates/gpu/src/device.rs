//! Devices: selection, properties and kernels.
use crate::copies::CopyLogs;
use crate::machine::{Machine, Queue, Work};
use crate::name::{KernelId, LaunchName};
use crate::pinned::PinnedRanges;
use crate::stages::Pool;
use crate::submissions::Submissions;
use crate::{Error, Program, Result, launch};
use simt::emulator::Emulator;
#[cfg(feature = "emulator")]
use simt::emulator::Options;
use simt::{Grid, Kernel};
use std::sync::Arc;
#[cfg(any(feature = "cuda", feature = "emulator"))]
use std::sync::Weak;
#[cfg(feature = "emulator")]
use std::sync::{Mutex, PoisonError};

/// Environment variable that selects the device of [`Device::auto`]: `emulator`, `cuda` or `cuda:N`.
pub const DEVICE_VARIABLE: &str = "PHALANX_DEVICE";

/// A CUDA device or an emulated device. Cheap to clone: clones refer to the same device.
///
/// ```
/// use gpu::{Device, Grid, Program, Tier};
/// use simt::{GlobalSlice, Thread, kernel};
///
/// #[kernel]
/// fn count_up(out: GlobalSlice<u32>) {
///     if Thread::index() < out.len() {
///         out.write(Thread::index(), Thread::index() as u32);
///     }
/// }
///
/// static PROGRAM: Program = Program { name: "mine", ptx: &[] }; // PTX for GPUs: by a build script
///
/// let _gpu: Option<Device> = Device::cuda(0).ok(); // `None` without a driver
/// let device = Device::named("emulator")?; // `auto` and `from_environment` look for a GPU
/// assert_eq!((device.name().as_str(), device.driver().as_str()), ("SIMT emulator", "emulator"));
/// assert!(device.is_emulator() && device.emulator_handle().is_some());
/// assert_eq!((device.ordinal(), device.supports_cas128()), (0, device.arch() >= 90));
/// assert_eq!(device.uuid(), Device::named("emulator")?.uuid());
/// assert!(device.resident_threads() > 0 && device.multiprocessors() > 0);
/// let (free, total) = device.memory()?;
/// assert!(free <= total);
///
/// device.add_program(&PROGRAM);
/// device.prepare::<CountUp>()?; // compiles the kernel on a GPU; `jit_ms` sums the time
/// device.set_heap(1 << 20)?;
/// assert_eq!(device.jit_ms(), 0.0);
/// let grid = device.occupancy_grid::<CountUp>(128)?; // for persistent kernels
/// assert!(grid.blocks > 0);
/// let out = device.buffer::<u32>(300)?;
/// // SAFETY: the buffer lives until the kernel has ended, and nothing else accesses it.
/// unsafe { device.default_stream().launch(Grid::for_items(300, 128), CountUp { out: out.global() })? };
/// device.synchronize()?;
/// assert!(device.staging_usage() == (0, 0) && device.emulated_work().is_some());
/// device.release_staging(); // memory kept for calls on slices of the host: see `staging`
/// assert_eq!(out.read()?[299], 299);
/// assert_eq!(device.zeroed::<u32>(2)?.read()?, device.filled::<u32>(2, 0)?.read()?);
/// assert_eq!(device.buffer_on::<u32>(Tier::Pinned, 2)?.read()?, [0, 0]);
/// assert_ne!(device.stream()?, device.default_stream());
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Concurrency
/// May be used from any number of threads at once. Methods that copy wait for all work submitted to the
/// device before.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `auto`, `from_environment`, `named`, `cuda` | the first call for a CUDA device loads the driver and creates its primary context; later calls are O(1) while the device is open |
/// | `emulator` | allocates the state of an emulated device on the host; threads start at the first launch |
/// | `name`, `driver` | copies the text on the host |
/// | `memory` | a call of the driver; no wait |
/// | `prepare` | extracts the kernel from the PTX text and compiles it, unless it is compiled: milliseconds; no launch |
/// | `occupancy_grid` | `prepare`, and a call of the driver if the number of threads is another than the last time |
/// | `set_heap` | a call of the driver, which allocates the bytes |
/// | `synchronize` | waits for all submitted work |
/// | `buffer`, `buffer_on` | allocates the bytes; host-visible tiers also write them once |
/// | `zeroed`, `filled` | `buffer`, waits for the device, and writes each byte once |
/// | `from_slice` | `buffer`, waits for the device, and copies the elements |
/// | `map_file`, `map_file_at` | maps the file or a part of it, and registers its pages with the driver |
/// | `stream` | a call of the driver, which allocates the stream |
/// | `log_copies` | `stream`, an event, and a wait for it |
/// | `wrap_memory`, `wrap_stream` | a few calls of the driver that check the memory or the stream; no wait |
#[derive(Clone)]
pub struct Device(Arc<Inner>);

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name())
            .field("ordinal", &self.ordinal())
            .finish_non_exhaustive()
    }
}

/// A device and its default stream.
#[derive(Debug)]
pub(crate) struct Inner {
    stream: Arc<dyn Queue>,
    submissions: Submissions,
    pinned: PinnedRanges,
    copy_logs: CopyLogs,
    pool: Pool,
    machine: Box<dyn Machine>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pool.release(&*self.machine);
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

/// Selection of a device.
impl Device {
    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub(crate) fn new(machine: Box<dyn Machine>, stream: Arc<dyn Queue>) -> Self {
        let (submissions, pinned, pool) = (Submissions::default(), PinnedRanges::default(), Pool::default());
        let copy_logs = CopyLogs::default();
        Self(Arc::new(Inner { stream, submissions, pinned, copy_logs, pool, machine }))
    }

    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub(crate) fn upgrade(weak: &Weak<Inner>) -> Option<Self> {
        weak.upgrade().map(Self)
    }

    /// As [`Device::from_environment`], but never fails: if the named device is unavailable, it logs a
    /// warning (by `tracing`, level `warn`) and returns the process's emulated device
    /// ([`Device::is_emulator`] distinguishes them). Needs the feature `emulator`.
    #[cfg(feature = "emulator")]
    pub fn auto() -> Self {
        Self::from_environment().unwrap_or_else(|error| {
            tracing::warn!(%error, "{DEVICE_VARIABLE} cannot be followed; using the emulator");
            Self::process_emulator()
        })
    }

    /// Returns the device that the environment variable `PHALANX_DEVICE` names ([`DEVICE_VARIABLE`]), or
    /// `auto` without the variable: see [`Device::named`].
    ///
    /// # Errors
    /// As [`Device::named`].
    pub fn from_environment() -> Result<Self> {
        let Some(name) = std::env::var_os(DEVICE_VARIABLE) else { return Self::named("auto") };
        // No name has the replacement character.
        Self::named(&name.to_string_lossy()).map_err(|error| match error {
            Error::BadDeviceName { text, .. } => Error::BadDeviceName { text, from: "PHALANX_DEVICE=" },
            error => error,
        })
    }

    /// Returns the device with the given name: `auto` (the first CUDA device if the feature `cuda` is enabled
    /// and a driver is available, else the emulator), `emulator`, `cuda` or `cuda:N`.
    ///
    /// A process has one emulated device of this name: while it is open, further calls return the same one.
    /// [`Device::emulator`] creates others.
    ///
    /// ```
    /// use gpu::{Device, emulator::Options};
    ///
    /// let device = Device::named("emulator")?;
    /// assert_eq!(device, Device::named("emulator")?);
    /// assert_ne!(device, Device::emulator(Options::default()));
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadDeviceName`] for other names; [`Error::NotEmulated`] for the emulator without the feature
    /// `emulator`; [`Error::NoDevice`] for `auto` if there is neither a CUDA device nor the feature
    /// `emulator`; otherwise as [`Device::cuda`].
    pub fn named(name: &str) -> Result<Self> {
        let (kind, ordinal) = name.split_once(':').unwrap_or((name, "0"));
        match (kind, ordinal.parse()) {
            ("auto", Ok(0)) => Self::first_cuda_or_emulator(),
            ("emulator", Ok(0)) => Self::emulator_of_process(),
            ("cuda", Ok(ordinal)) => Self::cuda(ordinal),
            _ => Err(Error::BadDeviceName { text: name.to_owned(), from: "" }),
        }
    }

    fn first_cuda_or_emulator() -> Result<Self> {
        Self::cuda(0).or_else(|error| {
            tracing::debug!(%error, "using the emulator");
            Self::emulator_of_process().map_err(|_| Error::NoDevice { cause: Box::new(error) })
        })
    }

    #[cfg(feature = "emulator")]
    fn emulator_of_process() -> Result<Self> {
        Ok(Self::process_emulator())
    }

    #[cfg(not(feature = "emulator"))]
    fn emulator_of_process() -> Result<Self> {
        Err(Error::NotEmulated)
    }

    /// Returns the emulated device of the process; creates it unless it is open.
    #[cfg(feature = "emulator")]
    fn process_emulator() -> Self {
        static OPEN: Mutex<Weak<Inner>> = Mutex::new(Weak::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        Self::upgrade(&open).unwrap_or_else(|| {
            let device = Self::emulator(Options::default());
            *open = device.downgrade();
            device
        })
    }

    /// Returns the CUDA device with the given ordinal, counted from 0. While that device is open, further
    /// calls return the same device.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`] without the feature `cuda`; [`Error::NoDriver`] when no driver is available, or
    /// it is older than CUDA 11; [`Error::NoSuchDevice`] when there are fewer devices.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32) -> Result<Self> {
        crate::cuda::open(ordinal)
    }

    /// Returns the CUDA device with the given ordinal, counted from 0. While that device is open, further
    /// calls return the same device.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`] without the feature `cuda`; [`Error::NoDriver`] when no driver is available, or
    /// it is older than CUDA 11; [`Error::NoSuchDevice`] when there are fewer devices.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_ordinal: u32) -> Result<Self> {
        Err(Error::NotBuiltIn)
    }

    /// Creates a new emulated device. Needs the feature `emulator`.
    #[cfg(feature = "emulator")]
    pub fn emulator(options: Options) -> Self {
        let machine = crate::emulated::Machine::new(options);
        let stream = machine.new_queue();
        Self::new(Box::new(machine), stream)
    }
}

/// Properties.
impl Device {
    /// Returns the product name: `NVIDIA H200`, or `SIMT emulator`.
    pub fn name(&self) -> String {
        self.machine().facts().name.clone()
    }

    /// Returns the driver's version, such as `580.159.04`, or `emulator`.
    pub fn driver(&self) -> String {
        self.machine().facts().driver.clone()
    }

    /// Returns `true` for an emulated device. Timings on the emulator say nothing about GPU speed.
    pub fn is_emulator(&self) -> bool {
        self.emulator_handle().is_some()
    }

    /// Returns the emulator of an emulated device, for access to its options and allocations.
    pub fn emulator_handle(&self) -> Option<&Emulator> {
        self.machine().emulator()
    }

    /// Returns the ordinal that [`Device::cuda`] takes; 0 for an emulated device.
    pub fn ordinal(&self) -> u32 {
        self.machine().facts().ordinal
    }

    /// Returns the driver's UUID of the GPU, or of the MIG instance: the same in all processes, and different
    /// for different GPUs. Emulated devices, and GPUs with a driver older than 11.4, have one made of their
    /// names.
    pub fn uuid(&self) -> [u8; 16] {
        self.machine().facts().uuid
    }

    /// Returns the number of multiprocessors; for an emulated device, the number of worker threads.
    pub fn multiprocessors(&self) -> u32 {
        self.machine().facts().multiprocessors
    }

    /// Returns the maximum number of threads resident on all multiprocessors, reached by kernels that need
    /// few registers. A smaller launch leaves multiprocessors partly idle.
    pub fn resident_threads(&self) -> u32 {
        self.machine().facts().resident
    }

    /// Returns the architecture: 90 for sm_90. For an emulated device, the architecture that its options
    /// correspond to.
    pub fn arch(&self) -> u32 {
        self.machine().facts().arch
    }

    /// Returns `true` if kernels can compare-exchange 128 bits: from sm_90 on, and if the emulator's options
    /// say so.
    pub fn supports_cas128(&self) -> bool {
        self.machine().facts().cas128
    }

    /// Returns the free and total bytes of the device's memory (of the host's memory, for an emulated
    /// device).
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before; [`Error::Driver`] when the driver's call fails.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.machine().memory()
    }
}

/// Operations.
impl Device {
    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.0.machine
    }

    /// Returns the queue of the default stream.
    pub(crate) fn default_queue(&self) -> &Arc<dyn Queue> {
        &self.0.stream
    }

    /// Returns the count of submitted work.
    pub(crate) fn submissions(&self) -> &Submissions {
        &self.0.submissions
    }

    /// Returns the addresses of pinned buffers.
    pub(crate) fn pinned(&self) -> &PinnedRanges {
        &self.0.pinned
    }

    /// Returns the records of copies.
    pub(crate) fn copy_logs(&self) -> &CopyLogs {
        &self.0.copy_logs
    }

    /// Returns the staging memory that no call uses.
    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Waits until all work submitted to streams has completed, if there may be any.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.submissions().may_run() { self.synchronize() } else { Ok(()) }
    }

    /// Registers `program`, so that launches find its kernels. Registering a program again has no effect.
    pub fn add_program(&self, program: &'static Program) {
        self.machine().add_program(program);
    }

    /// Compiles a kernel ahead of its first launch. Does nothing on the emulator.
    ///
    /// # Errors
    /// As [`Stream::launch`](crate::Stream::launch), for failures to find or compile the kernel.
    pub fn prepare<K: Kernel>(&self) -> Result<()> {
        self.machine().prepare(KernelId::of::<K>(), size_of::<K>())
    }

    /// Grows the heap from which kernels allocate ([`simt::heap_allocate`]) to at least `bytes` bytes. Must
    /// be called before the first launch of a kernel that uses the heap; the driver refuses it afterwards.
    /// The emulator's heap is the host's memory.
    ///
    /// # Errors
    /// [`Error::Driver`] when the device lacks the memory, or such a kernel has been launched;
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn set_heap(&self, bytes: usize) -> Result<()> {
        self.machine().set_heap(bytes)
    }

    /// Returns the milliseconds spent on compiling kernels so far.
    pub fn jit_ms(&self) -> f64 {
        self.machine().jit_ms()
    }

    /// Returns the grid of a persistent kernel: as many blocks of `threads` threads as are resident on the
    /// whole device.
    ///
    /// # Errors
    /// [`Error::Grid`] when the device cannot run a block of `threads` threads; otherwise as
    /// [`Device::prepare`].
    pub fn occupancy_grid<K: Kernel>(&self, threads: u32) -> Result<Grid> {
        let launch = LaunchName::of::<K>(Grid { blocks: 1, threads });
        launch::check(launch)?;
        match self.machine().resident_blocks(KernelId::of::<K>(), size_of::<K>(), threads)? {
            0 => Err(Error::Grid { launch }),
            blocks => Ok(Grid { blocks, threads }),
        }
    }

    /// Returns the number of launches, copies and waits of an emulated device so far, by which a test
    /// determines the cost of a call; `None` for a CUDA device.
    ///
    /// Cost: reads three words under a lock.
    ///
    /// ```
    /// let device = gpu::Device::emulator(Default::default());
    /// let words = device.from_slice(&[1u32, 2])?;
    /// let work = device.emulated_work().unwrap();
    /// assert_eq!((work.launches, work.copies, work.waits), (0, 1, 1));
    /// # Ok::<(), gpu::Error>(())
    /// ```
    pub fn emulated_work(&self) -> Option<Work> {
        self.machine().work()
    }

    /// Waits until all submitted work has completed.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        let submitted = self.submissions().begin_wait();
        self.machine().synchronize()?;
        self.submissions().completed(submitted);
        Ok(())
    }
}

//! Devices.
use crate::launch::KernelId;
use crate::machine::{Machine, Queue};
use crate::{Buffer, Error, Grid, Kernel, Program, Result, Stream, Tier, emulator};
use bytemuck::Pod;
use simt::emulator::{Emulator, Options};
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "cuda")]
use std::sync::Weak;

/// The environment variable that chooses what [`Device::auto`] gives: `emulator`, `cuda` or `cuda:N`.
pub const DEVICE_VARIABLE: &str = "PHALANX_DEVICE";

/// A CUDA device, or an emulated one. Cheap to clone: clones are the same device.
///
/// # Concurrency
/// May be used from any number of threads at once. Methods that copy wait for all work that was asked of the
/// device before.
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

/// A device and the stream that it was made with.
#[derive(Debug)]
pub(crate) struct Inner {
    machine: Box<dyn Machine>,
    stream: Arc<dyn Queue>,
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

/// Choosing one.
impl Device {
    pub(crate) fn new(machine: Box<dyn Machine>, stream: Arc<dyn Queue>) -> Self {
        Self(Arc::new(Inner { machine, stream }))
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn upgrade(weak: &Weak<Inner>) -> Option<Self> {
        weak.upgrade().map(Self)
    }

    /// The device that the environment variable `PHALANX_DEVICE` names ([`DEVICE_VARIABLE`]); without it the
    /// first CUDA device, if the feature `cuda` is on and a driver answers, else a new emulated one
    /// ([`Device::is_emulator`] tells).
    ///
    /// Never fails: where the variable's device cannot be had it warns (by `tracing`, level `warn`) and gives
    /// the emulator. A program that would rather stop uses [`Device::from_environment`], or [`Device::cuda`].
    pub fn auto() -> Self {
        Self::from_environment().unwrap_or_else(|error| {
            tracing::warn!(%error, "{DEVICE_VARIABLE} cannot be followed; using the emulator");
            Self::emulator(Options::default())
        })
    }

    /// As [`Device::auto`], but with an error where the device that [`DEVICE_VARIABLE`] names cannot be had.
    ///
    /// # Errors
    /// Those of [`Device::named`].
    pub fn from_environment() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) => Self::named(&name),
            Err(_) => Self::named("auto"),
        }
    }

    /// The device of a name: `auto` (the first CUDA device, if the feature `cuda` is on and a driver answers,
    /// else the emulator), `emulator`, `cuda` or `cuda:N`.
    ///
    /// # Errors
    /// [`Error::BadDeviceName`] for other names; those of [`Device::cuda`].
    pub fn named(name: &str) -> Result<Self> {
        let (kind, ordinal) = name.split_once(':').unwrap_or((name, "0"));
        match (kind, ordinal.parse()) {
            ("auto", Ok(0)) => Ok(Self::first_cuda_or_emulator()),
            ("emulator", Ok(0)) => Ok(Self::emulator(Options::default())),
            ("cuda", Ok(ordinal)) => Self::cuda(ordinal),
            _ => Err(Error::BadDeviceName { text: name.to_owned() }),
        }
    }

    fn first_cuda_or_emulator() -> Self {
        Self::cuda(0).unwrap_or_else(|error| {
            tracing::debug!(%error, "using the emulator");
            Self::emulator(Options::default())
        })
    }

    /// The CUDA device of an ordinal, counted from 0. Asked again while the first one lives, it gives the
    /// same device.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`] without the feature `cuda`; [`Error::NoDriver`]; [`Error::NoSuchDevice`].
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: u32) -> Result<Self> {
        crate::cuda::open(ordinal)
    }

    /// The CUDA device of an ordinal, counted from 0. Asked again while the first one lives, it gives the
    /// same device.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`] without the feature `cuda`; [`Error::NoDriver`]; [`Error::NoSuchDevice`].
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_ordinal: u32) -> Result<Self> {
        Err(Error::NotBuiltIn)
    }

    /// An emulated device of its own.
    pub fn emulator(options: Options) -> Self {
        let machine = emulator::Machine::new(options);
        let stream = machine.new_queue();
        Self::new(Box::new(machine), stream)
    }
}

/// What it is.
impl Device {
    /// The name that its maker gave it: `NVIDIA H200`, or `SIMT emulator`.
    pub fn name(&self) -> String {
        self.machine().facts().name.clone()
    }

    /// The driver's version, such as `580.159.04`, or `emulator`.
    pub fn driver(&self) -> String {
        self.machine().facts().driver.clone()
    }

    /// Whether it is an emulated one. Times measured on those say nothing of a GPU's speed.
    pub fn is_emulator(&self) -> bool {
        self.emulator_handle().is_some()
    }

    /// The emulator below, for its own options and allocations.
    pub fn emulator_handle(&self) -> Option<&Emulator> {
        self.machine().emulator()
    }

    /// The ordinal that [`Device::cuda`] takes; 0 for an emulated device.
    pub fn ordinal(&self) -> u32 {
        self.machine().facts().ordinal
    }

    /// Multiprocessors; worker threads of an emulated device.
    pub fn multiprocessors(&self) -> u32 {
        self.machine().facts().multiprocessors
    }

    /// The most threads that are on all multiprocessors at once, where they need few enough registers. A
    /// launch of fewer leaves some idle.
    pub fn resident_threads(&self) -> u32 {
        self.machine().facts().resident
    }

    /// The architecture: 90 for sm_90. An emulated device has that which its options amount to.
    pub fn arch(&self) -> u32 {
        self.machine().facts().arch
    }

    /// Whether kernels can exchange 128 bits at once: from sm_90 on, and as the emulator's options say.
    pub fn supports_cas128(&self) -> bool {
        self.machine().facts().cas128
    }

    /// Free and total bytes of the device's memory (of the host's, for an emulated device).
    ///
    /// # Errors
    /// [`Error::DeviceLost`] or [`Error::Driver`].
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.machine().memory()
    }
}

/// What it does.
impl Device {
    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.0.machine
    }

    /// Lets the device's launches find the kernels of `program`. Adding one again does nothing.
    pub fn add_program(&self, program: &'static Program) {
        self.machine().add_program(program);
    }

    /// Makes a kernel ready, so that its first launch need not compile it. The emulator has nothing to do.
    ///
    /// # Errors
    /// Those of [`Stream::launch`] that concern finding and compiling the kernel.
    pub fn prepare<K: Kernel>(&self) -> Result<()> {
        self.machine().prepare(KernelId::of::<K>(), size_of::<K>())
    }

    /// Makes the heap from which kernels allocate ([`simt::heap_allocate`]) at least so large. To be asked
    /// before the first launch of a kernel that uses it; the driver refuses it afterwards. The emulator's
    /// heap is the host's memory.
    ///
    /// # Errors
    /// [`Error::Driver`] when the device lacks the memory, or such a kernel has been launched;
    /// [`Error::DeviceLost`].
    pub fn set_heap(&self, bytes: usize) -> Result<()> {
        self.machine().set_heap(bytes)
    }

    /// Milliseconds spent on compiling kernels so far.
    pub fn jit_ms(&self) -> f64 {
        self.machine().jit_ms()
    }

    /// The grid of a persistent kernel: as many blocks of `threads` threads as run side by side on the whole
    /// device.
    ///
    /// # Errors
    /// Those of [`Device::prepare`]; [`Error::Grid`] when the device runs no block of so many threads.
    pub fn occupancy_grid<K: Kernel>(&self, threads: u32) -> Result<Grid> {
        let launch = crate::LaunchName::of::<K>(Grid { blocks: 1, threads });
        launch.check()?;
        match self.machine().resident_blocks(KernelId::of::<K>(), size_of::<K>(), threads)? {
            0 => Err(Error::Grid { launch }),
            blocks => Ok(Grid { blocks, threads }),
        }
    }

    /// Waits until all that was asked of the device is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.machine().synchronize()
    }

    /// A new stream.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] or [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(self.clone(), self.machine().queue()?))
    }

    /// The stream that the device was made with: the same one every time.
    pub fn default_stream(&self) -> Stream {
        Stream::new(self.clone(), self.0.stream.clone())
    }
}

/// Memory.
impl Device {
    /// `len` elements of [`Tier::Device`], uninitialised: a kernel that reads one before it was written gets
    /// anything (and is reported by the emulator).
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::OutOfMemory`]; [`Error::DeviceLost`] when a kernel failed before.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, Tier::Device, len)
    }

    /// As [`Device::buffer`], on a tier. Host-visible tiers start as zeros.
    ///
    /// # Errors
    /// Those of [`Device::buffer`]; [`Error::NeedsPath`] for [`Tier::File`].
    pub fn buffer_on<T: Pod>(&self, tier: Tier, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, tier, len)
    }

    /// `len` elements whose bytes are all zero.
    ///
    /// # Errors
    /// Those of [`Device::buffer`].
    pub fn zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.filled(len, 0)
    }

    /// `len` elements whose bytes are all `byte`.
    ///
    /// # Errors
    /// Those of [`Device::buffer`].
    pub fn filled<T: Pod>(&self, len: usize, byte: u8) -> Result<Buffer<T>> {
        let mut buffer = self.buffer(len)?;
        buffer.fill_bytes(byte)?;
        Ok(buffer)
    }

    /// A copy of `elements`.
    ///
    /// # Errors
    /// Those of [`Device::buffer`].
    #[allow(clippy::wrong_self_convention)] // named like the buffer's constructors beside it
    pub fn from_slice<T: Pod>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.buffer(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// `len` elements of [`Tier::File`]: the file at `path`, mapped. What it holds is kept; it is created,
    /// and grown with zeros to the size needed, where it is not there or shorter.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be opened, grown or mapped; [`Error::Register`] when the CUDA
    /// driver does not take it, which depends on the file system; [`Error::TooLarge`].
    ///
    /// # Safety
    /// - Nobody else, in this process or another, writes to the file or truncates it while the buffer lives.
    pub unsafe fn map_file<T: Pod>(&self, path: impl AsRef<Path>, len: usize) -> Result<Buffer<T>> {
        // SAFETY: passed on to the caller.
        unsafe { Buffer::map(self, path.as_ref(), len) }
    }
}

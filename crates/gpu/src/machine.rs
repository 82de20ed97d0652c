//! The seam between the API and its two back ends.
use crate::event::Mark;
use crate::launch::{AnyLaunch, KernelId};
use crate::{Program, Result, Tier};
use simt::emulator::Emulator;
use std::fmt::Debug;
use std::sync::Arc;

/// What is known of a device from the start.
#[derive(Debug)]
pub struct Facts {
    pub name: String,
    pub driver: String,
    pub ordinal: u32,
    pub multiprocessors: u32,
    pub resident: u32,
    pub arch: u32,
    pub cas128: bool,
}

/// An allocation: where kernels see it, and where the host does (null if it does not).
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub device: *mut u8,
    pub host: *mut u8,
}

/// A device.
pub trait Machine: Send + Sync + Debug {
    fn facts(&self) -> &Facts;

    /// Free and total bytes.
    fn memory(&self) -> Result<(usize, usize)>;

    /// Waits for all queues.
    fn synchronize(&self) -> Result<()>;

    /// Memory of any tier but `File`, at least one byte, aligned to 256. What the host sees of it is zero.
    fn allocate(&self, tier: Tier, bytes: usize) -> Result<Block>;

    /// Waits for what runs and gives the memory back.
    ///
    /// # Safety
    /// - `block` came from `allocate` of this machine with `tier`, and is not used again.
    unsafe fn free(&self, tier: Tier, block: Block);

    /// Lets kernels see memory of the host; gives the address at which they do, or the driver's reason why
    /// not.
    ///
    /// # Safety
    /// - The `bytes` at `host` are mapped memory until `disown`.
    unsafe fn adopt(&self, host: *mut u8, bytes: usize) -> Result<*mut u8, String>;

    /// Waits for what runs and ends `adopt`.
    ///
    /// # Safety
    /// - `host` was adopted by this machine.
    unsafe fn disown(&self, host: *mut u8);

    /// Copies between any two places that host or device see, after all that was asked before, and waits.
    ///
    /// # Safety
    /// - Both places have `bytes` bytes, do not overlap, and nobody else uses them meanwhile.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()>;

    /// Fills memory that the device sees, after all that was asked before, and waits.
    ///
    /// # Safety
    /// - The place has `bytes` bytes and nobody else uses them meanwhile.
    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()>;

    /// Makes the heap that kernels allocate from at least so large.
    fn set_heap(&self, bytes: usize) -> Result<()>;

    fn queue(&self) -> Result<Arc<dyn Queue>>;

    fn add_program(&self, program: &'static Program);

    /// Makes the kernel, whose struct has `bytes` bytes, ready to launch.
    fn prepare(&self, kernel: KernelId, bytes: usize) -> Result<()>;

    /// Blocks of the kernel that run side by side on the whole device.
    fn resident_blocks(&self, kernel: KernelId, bytes: usize, threads: u32) -> Result<u32>;

    /// Time spent compiling, in milliseconds.
    fn jit_ms(&self) -> f64;

    fn emulator(&self) -> Option<&Emulator>;
}

/// A stream of work.
pub trait Queue: Send + Sync + Debug {
    /// Asks for a launch.
    ///
    /// # Safety
    /// - What `Stream::launch` asks holds.
    unsafe fn launch(&self, launch: &dyn AnyLaunch) -> Result<()>;

    /// Asks for a copy.
    ///
    /// # Safety
    /// - Both places have `bytes` bytes, do not overlap, and are not used otherwise until the copy is done.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()>;

    /// Asks to fill memory that the device sees.
    ///
    /// # Safety
    /// - The place has `bytes` bytes, which are not used otherwise until it is done.
    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()>;

    fn record(&self) -> Result<Mark>;

    fn wait(&self, mark: &Mark) -> Result<()>;

    fn synchronize(&self) -> Result<()>;
}

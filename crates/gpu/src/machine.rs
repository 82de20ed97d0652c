//! Interface between the API and its two back ends.
use crate::launch::AnyLaunch;
use crate::name::KernelId;
use crate::{Program, Result, Tier};
use simt::emulator::Emulator;
use std::ffi::c_void;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

/// Fixed properties of a device.
#[derive(Debug)]
pub struct Facts {
    pub name: String,
    pub driver: String,
    pub ordinal: u32,
    pub uuid: [u8; 16],
    pub multiprocessors: u32,
    pub resident: u32,
    pub arch: u32,
    pub cas128: bool,
}

/// Returns an id made of a text, for devices that have none of their own.
#[cfg(any(feature = "emulator", feature = "cuda"))]
pub fn id_of(text: &str) -> [u8; 16] {
    // FNV-1a of 128 bits.
    let add = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, add).to_be_bytes()
}

/// Number of calls that an emulated device has executed, for tests of the cost of calls: see
/// [`Device::emulated_work`](crate::Device::emulated_work).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Launches of kernels.
    pub launches: u64,
    /// Copies and fills.
    pub copies: u64,
    /// Waits for the whole device; copies and fills without a stream include one.
    pub waits: u64,
}

/// An allocation: its device address and its host address (null if the host cannot access it).
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub device: *mut u8,
    pub host: *mut u8,
}

/// Back end of a device.
pub trait Machine: Send + Sync + Debug {
    fn facts(&self) -> &Facts;

    /// Returns the free and total bytes of memory.
    fn memory(&self) -> Result<(usize, usize)>;

    /// Waits for all queues.
    fn synchronize(&self) -> Result<()>;

    /// Allocates memory of any tier except `File`: at least one byte, aligned to 256. Host-visible memory is
    /// zeroed.
    fn allocate(&self, tier: Tier, bytes: usize) -> Result<Block>;

    /// Waits for running work and frees the memory.
    ///
    /// # Safety
    /// - `block` came from `allocate` of this machine with `tier`, and is not used again.
    unsafe fn free(&self, tier: Tier, block: Block);

    /// Makes host memory accessible to kernels; returns its device address, or the driver's reason for
    /// refusing it.
    ///
    /// # Safety
    /// - The `bytes` at `host` are mapped memory until `disown`.
    unsafe fn adopt(&self, host: *mut u8, bytes: usize) -> Result<*mut u8, String>;

    /// Waits for running work and reverts `adopt`.
    ///
    /// # Safety
    /// - `host` was adopted by this machine.
    unsafe fn disown(&self, host: *mut u8);

    /// Makes memory of another library accessible to kernels, or returns the reason why it cannot be.
    ///
    /// # Safety
    /// - The `bytes` at `pointer` are allocated until `unwrap`.
    unsafe fn wrap(&self, pointer: *mut u8, bytes: usize) -> Result<Result<(), String>>;

    /// Waits for running work and reverts `wrap`.
    ///
    /// # Safety
    /// - `pointer` was wrapped by this machine.
    unsafe fn unwrap(&self, pointer: *mut u8);

    /// Copies between any two ranges of host or device memory, after all work submitted before, and waits.
    ///
    /// # Safety
    /// - Both ranges have `bytes` bytes, do not overlap, and are not accessed otherwise meanwhile.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()>;

    /// Fills device-accessible memory, after all work submitted before, and waits.
    ///
    /// # Safety
    /// - The range has `bytes` bytes and is not accessed otherwise meanwhile.
    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()>;

    /// Makes the device current in the calling thread.
    fn make_current(&self) -> Result<()>;

    /// Returns the driver's context; null on the emulator.
    #[cfg(feature = "cuda")]
    fn raw_context(&self) -> *mut c_void;

    /// Lets this device access the memory of another one with the same back end. Returns whether it can.
    fn enable_peer(&self, other: &dyn Machine) -> Result<bool>;

    /// Grows the heap of kernels to at least `bytes` bytes.
    fn set_heap(&self, bytes: usize) -> Result<()>;

    /// Creates a queue. Launches of an urgent one get free multiprocessors before those of others.
    fn queue(&self, is_urgent: bool) -> Result<Arc<dyn Queue>>;

    /// Returns a queue for another library's stream, or the reason why it cannot be used.
    ///
    /// # Safety
    /// - The stream exists as long as the queue.
    unsafe fn wrap_queue(&self, handle: *mut c_void) -> Result<Result<Arc<dyn Queue>, String>>;

    fn add_program(&self, program: &'static Program);

    /// Compiles the kernel, whose argument struct has `bytes` bytes.
    fn prepare(&self, kernel: KernelId, bytes: usize) -> Result<()>;

    /// Returns the number of the kernel's blocks that are resident on the whole device.
    fn resident_blocks(&self, kernel: KernelId, bytes: usize, threads: u32) -> Result<u32>;

    /// Returns the time spent compiling, in milliseconds.
    fn jit_ms(&self) -> f64;

    fn emulator(&self) -> Option<&Emulator>;

    /// Returns what was submitted so far, on the emulator.
    fn work(&self) -> Option<Work> {
        None
    }
}

/// Representation of an event in a back end.
#[derive(Debug)]
pub enum Mark {
    /// Event of the emulator. Work has completed when its call returns, so the event is complete when it is
    /// created.
    #[cfg_attr(not(feature = "emulator"), expect(dead_code, reason = "only the emulator creates it"))]
    Clock(Instant),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::Mark),
}

/// Back end of a stream.
pub trait Queue: Send + Sync + Debug {
    /// Submits a launch.
    ///
    /// # Safety
    /// - The obligations of `Stream::launch` hold.
    unsafe fn launch(&self, launch: &dyn AnyLaunch) -> Result<()>;

    /// Submits a copy.
    ///
    /// # Safety
    /// - Both ranges have `bytes` bytes, do not overlap, and are not accessed otherwise until the copy has
    ///   completed.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()>;

    /// Submits a copy between memory of two devices with the same back end, one of which has this queue.
    ///
    /// # Safety
    /// - As `copy`.
    unsafe fn copy_peer(
        &self,
        to: (*mut u8, &dyn Machine),
        from: (*const u8, &dyn Machine),
        bytes: usize,
    ) -> Result<()>;

    /// Submits a fill of device-accessible memory.
    ///
    /// # Safety
    /// - The range has `bytes` bytes and is not accessed otherwise until the fill has completed.
    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()>;

    /// Returns the handle for other libraries.
    fn raw_handle(&self) -> *mut c_void;

    /// Returns a mark after the work of now, with its time if `has_time`.
    fn record(&self, has_time: bool) -> Result<Mark>;

    fn wait(&self, mark: &Mark) -> Result<()>;

    /// Returns whether all work of the queue has completed. Does not wait.
    fn is_complete(&self) -> Result<bool>;

    fn synchronize(&self) -> Result<()>;
}

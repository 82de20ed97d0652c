//! CUDA implementation of a device.
use super::context::Context;
use super::driver::{Code, OUT_OF_MEMORY, PEER_ACCESS_ENABLED, address, describe, pointer};
use super::foreign;
use super::host_memory::HostMemory;
use super::queue::Queue;
use crate::machine::{self, Block, Facts};
use crate::name::KernelId;
use crate::{Error, Grid, LaunchName, Program, Result, Tier};
use cust::context::{CurrentContext, ResourceLimit};
use cust::sys;
use simt::emulator::Emulator;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// A CUDA device, represented by its context.
#[derive(Debug)]
pub struct Machine {
    context: Arc<Context>,
    host_memory: HostMemory,
}

impl Machine {
    pub fn new(context: Arc<Context>) -> Self {
        Self { context, host_memory: HostMemory::default() }
    }

    fn device_memory(bytes: usize) -> (Block, Code) {
        let mut place = 0;
        // SAFETY: a context is current; the call writes an address on success.
        let code = unsafe { sys::cuMemAlloc_v2(&mut place, bytes) };
        (Block { device: pointer(place), host: null_mut() }, code as Code)
    }

    fn pinned_memory(&self, bytes: usize) -> (Block, Code) {
        if let Some(mut map) = HostMemory::map(bytes) {
            let host = map.as_mut_ptr();
            // SAFETY: the mapping is kept until `free`, which disowns it first.
            if let Ok(device) = unsafe { machine::Machine::adopt(self, host, bytes) } {
                self.host_memory.keep(map);
                return (Block { device, host }, 0);
            }
        }
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut host = null_mut();
        // SAFETY: a context is current; the call writes an address on success.
        let code = unsafe { sys::cuMemHostAlloc(&mut host, bytes, flags) } as Code;
        if code != 0 {
            return (Block { device: null_mut(), host: null_mut() }, code);
        }
        let (device, code) = seen_by_device(host.cast());
        if code != 0 {
            // SAFETY: just allocated and not shared.
            unsafe { sys::cuMemFreeHost(host) };
        } else {
            // SAFETY: just allocated with this size and writable by the host.
            unsafe { host.cast::<u8>().write_bytes(0, bytes) };
        }
        (Block { device, host: host.cast() }, code)
    }

    fn managed_memory(bytes: usize) -> (Block, Code) {
        let mut place = 0;
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: a context is current; the call writes an address on success.
        let code = unsafe { sys::cuMemAllocManaged(&mut place, bytes, flags) } as Code;
        (Block { device: pointer(place), host: pointer(place) }, code)
    }

    /// Refuses managed memory beyond the device's free memory: it would be paged, which is a thousand times
    /// slower.
    fn check_room(&self, tier: Tier, bytes: usize) -> Result<()> {
        let (free, total) = machine::Machine::memory(self)?;
        if bytes <= free { Ok(()) } else { Err(Error::OutOfMemory { tier, bytes, free, total }) }
    }

    fn allocation_error(&self, tier: Tier, bytes: usize, code: Code) -> Error {
        match machine::Machine::memory(self) {
            Ok((free, total)) if code == OUT_OF_MEMORY => Error::OutOfMemory { tier, bytes, free, total },
            _ => self.context.error("allocating memory", code),
        }
    }

    fn log_failure(&self, call: &'static str, code: Code) {
        if code != 0 {
            tracing::debug!(call, cause = describe(code), "memory was not given back");
        }
    }
}

/// Returns the device address of pinned memory, which differs from the host address only on some boards.
fn seen_by_device(host: *mut u8) -> (*mut u8, Code) {
    let mut place = 0;
    // SAFETY: a context is current; `host` is pinned and mapped; the call writes an address on success.
    let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut place, host.cast(), 0) };
    (pointer(place), code as Code)
}

impl machine::Machine for Machine {
    fn facts(&self) -> &Facts {
        &self.context.facts
    }

    fn memory(&self) -> Result<(usize, usize)> {
        self.context.bind()?;
        self.context.check_cust("cuMemGetInfo", cust::memory::mem_get_info())
    }

    fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }

    fn allocate(&self, tier: Tier, bytes: usize) -> Result<Block> {
        self.context.bind()?;
        if tier == Tier::Managed {
            self.check_room(tier, bytes)?;
        }
        let (block, code) = match tier {
            Tier::Device => Self::device_memory(bytes),
            Tier::Pinned => self.pinned_memory(bytes),
            Tier::Managed => Self::managed_memory(bytes),
            Tier::File => return Err(Error::NeedsPath),
        };
        if code != 0 {
            return Err(self.allocation_error(tier, bytes, code));
        }
        if tier == Tier::Managed {
            // SAFETY: just allocated with this size.
            unsafe { machine::Machine::fill(self, block.device, 0, bytes)? };
        }
        Ok(block)
    }

    unsafe fn free(&self, tier: Tier, block: Block) {
        if tier == Tier::Pinned
            && let Some(map) = self.host_memory.take(block.host)
        {
            // SAFETY: adopted when it was allocated.
            unsafe { machine::Machine::disown(self, block.host) };
            return drop(map);
        }
        // `cuMemFree` synchronizes; for the other functions this is undocumented. A lost context frees its
        // memory itself.
        if let Err(error) = self.context.synchronize() {
            tracing::debug!(%error, "memory of a lost device is dropped");
            return;
        }
        // SAFETY: allocated by the matching function, not used afterwards (the caller's obligation), and no
        // work is running.
        let code = unsafe {
            match tier {
                Tier::Pinned => sys::cuMemFreeHost(block.host.cast()),
                _ => sys::cuMemFree_v2(address(block.device)),
            }
        };
        self.log_failure("freeing memory", code as Code);
    }

    unsafe fn adopt(&self, host: *mut u8, bytes: usize) -> Result<*mut u8, String> {
        self.context.bind().map_err(|error| error.to_string())?;
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: memory that stays mapped until `disown` (the caller's obligation).
        let code = unsafe { sys::cuMemHostRegister_v2(host.cast(), bytes, flags) } as Code;
        if code != 0 {
            return Err(describe(code));
        }
        match seen_by_device(host) {
            (device, 0) => Ok(device),
            (_, code) => {
                // SAFETY: just registered and not shared.
                unsafe { sys::cuMemHostUnregister(host.cast()) };
                Err(describe(code))
            }
        }
    }

    unsafe fn disown(&self, host: *mut u8) {
        if let Err(error) = self.context.synchronize() {
            tracing::debug!(%error, "a file of a lost device is dropped");
        }
        // SAFETY: registered before (the caller's obligation), and no work is running.
        let code = unsafe { sys::cuMemHostUnregister(host.cast()) };
        self.log_failure("cuMemHostUnregister", code as Code);
    }

    unsafe fn wrap(&self, pointer: *mut u8, bytes: usize) -> Result<Result<(), String>> {
        self.context.bind()?;
        Ok(foreign::check_memory(&self.context, address(pointer), bytes))
    }

    unsafe fn unwrap(&self, _pointer: *mut u8) {
        if let Err(error) = self.context.synchronize() {
            tracing::debug!(%error, "memory of another library on a lost device is dropped");
        }
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        self.context.order_null_stream()?;
        // SAFETY: the caller's obligation. The null stream is ordered after all others. Every 64-bit system
        // has unified addressing, so the driver can tell host addresses from device addresses.
        let code = unsafe { sys::cuMemcpyAsync(address(to), address(from), bytes, null_mut()) };
        self.context.check("cuMemcpyAsync", code as Code)?;
        self.wait_for_null_stream()
    }

    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()> {
        self.context.order_null_stream()?;
        // SAFETY: the caller's obligation.
        let code = unsafe { sys::cuMemsetD8Async(address(to), byte, bytes, null_mut()) };
        self.context.check("cuMemsetD8Async", code as Code)?;
        self.wait_for_null_stream()
    }

    fn make_current(&self) -> Result<()> {
        self.context.bind()
    }

    fn raw_context(&self) -> *mut c_void {
        self.context.raw().cast()
    }

    fn enable_peer(&self, other: &dyn machine::Machine) -> Result<bool> {
        self.context.bind()?;
        if !self.context.can_access(other.facts().ordinal)? {
            return Ok(false);
        }
        // SAFETY: a live context of another device, in which this one enables nothing but its own access.
        match unsafe { sys::cuCtxEnablePeerAccess(other.raw_context().cast(), 0) } as Code {
            PEER_ACCESS_ENABLED => Ok(true),
            code => self.context.check("cuCtxEnablePeerAccess", code).map(|()| true),
        }
    }

    fn set_heap(&self, bytes: usize) -> Result<()> {
        self.context.bind()?;
        let has = CurrentContext::get_resource_limit(ResourceLimit::MallocHeapSize);
        if self.context.check_cust("cuCtxGetLimit", has)? >= bytes {
            return Ok(());
        }
        let set = CurrentContext::set_resource_limit(ResourceLimit::MallocHeapSize, bytes);
        self.context.check_cust("cuCtxSetLimit", set)
    }

    fn queue(&self, is_urgent: bool) -> Result<Arc<dyn machine::Queue>> {
        Ok(Arc::new(Queue::new(self.context.clone(), is_urgent)?))
    }

    unsafe fn wrap_queue(&self, handle: *mut c_void) -> Result<Result<Arc<dyn machine::Queue>, String>> {
        self.context.bind()?;
        // SAFETY: the caller's obligation.
        let checked = unsafe { foreign::check_stream(&self.context, handle.cast()) };
        let wrap =
            |()| -> Arc<dyn machine::Queue> { Arc::new(Queue::wrap(self.context.clone(), handle.cast())) };
        Ok(checked.map(wrap))
    }

    fn add_program(&self, program: &'static Program) {
        self.context.kernels.add(program);
    }

    fn prepare(&self, kernel: KernelId, bytes: usize) -> Result<()> {
        self.context.bind()?;
        let launch = LaunchName { kernel, grid: Grid::new(0, 0) };
        self.context.kernels.function(&self.context, launch, bytes).map(drop)
    }

    fn resident_blocks(&self, kernel: KernelId, bytes: usize, threads: u32) -> Result<u32> {
        self.context.bind()?;
        let launch = LaunchName { kernel, grid: Grid::new(1, threads) };
        let blocks = self.context.kernels.resident_blocks(&self.context, launch, bytes)?;
        Ok(blocks * self.context.facts.multiprocessors)
    }

    fn jit_ms(&self) -> f64 {
        self.context.kernels.jit_ms()
    }

    fn emulator(&self) -> Option<&Emulator> {
        None
    }
}

impl Machine {
    fn wait_for_null_stream(&self) -> Result<()> {
        // SAFETY: the null stream always exists.
        let code = unsafe { sys::cuStreamSynchronize(null_mut()) };
        self.context.check("cuStreamSynchronize", code as Code)
    }
}

//! Streams and events.
use super::context::Context;
use super::driver::{Code, NOT_READY, address, describe, is_fatal};
use super::follow;
use super::kernels::Function;
use crate::launch::AnyLaunch;
use crate::{Error, Grid, LaunchName, Result, machine};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::Arc;

/// A CUDA stream.
#[derive(Debug)]
pub struct Queue {
    handle: sys::CUstream,
    /// `None` if another library owns the stream.
    own: ManuallyDrop<Option<Stream>>,
    context: Arc<Context>,
}

// SAFETY: any thread may use the driver's handles, concurrently with others.
unsafe impl Send for Queue {}
// SAFETY: as for `Send`.
unsafe impl Sync for Queue {}

impl Queue {
    pub fn new(context: Arc<Context>, is_urgent: bool) -> Result<Self> {
        context.bind()?;
        // Lower numbers come first; the driver takes its lowest one for this.
        let priority = is_urgent.then_some(i32::MIN);
        let stream = context.check_cust("cuStreamCreate", Stream::new(StreamFlags::DEFAULT, priority))?;
        Ok(Self { handle: stream.as_inner(), own: ManuallyDrop::new(Some(stream)), context })
    }

    /// Wraps a stream that another library owns.
    pub fn wrap(context: Arc<Context>, handle: sys::CUstream) -> Self {
        Self { handle, own: ManuallyDrop::new(None), context }
    }

    /// # Safety
    /// - The context is current, and the parameters are those of the function.
    unsafe fn start(&self, function: Function, grid: Grid, parameters: *mut *mut c_void) -> Code {
        let stream = self.handle;
        // SAFETY: the caller's obligations; a function with `follows` itself waits for the previous launch.
        unsafe {
            if function.follows {
                let code = follow::launch(function.handle, grid, stream, parameters);
                if code != cuda_late::NOT_SUPPORTED {
                    return code;
                }
            }
            let (blocks, threads) = (grid.blocks, grid.threads);
            sys::cuLaunchKernel(
                function.handle,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                parameters,
                null_mut(),
            ) as Code
        }
    }

    /// Converts the driver's status of a launch to a result that names the launch.
    fn launched(&self, launch: LaunchName, function: Function, code: Code) -> Result<()> {
        match code {
            0 => Ok(()),
            code if is_fatal(code) => Err(self.context.error("cuLaunchKernel", code)),
            code => Err(Error::Launch { launch, cause: describe(code), hint: function.hint(launch.grid()) }),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Err(error) = self.context.bind() {
            tracing::debug!(%error, "a stream of a lost device is dropped");
        }
        // SAFETY: dropped once, here, with its context current. Submitted work still executes.
        unsafe { ManuallyDrop::drop(&mut self.own) }
    }
}

impl machine::Queue for Queue {
    unsafe fn launch(&self, launch: &dyn AnyLaunch) -> Result<()> {
        let name = launch.name();
        let (arguments, bytes) = launch.arguments();
        self.context.bind()?;
        let function = self.context.kernels.function(&self.context, name, bytes)?;
        let grid = name.grid();
        let mut parameters = [arguments.cast_mut().cast()];
        self.context.note_launch(name);
        // SAFETY: the function takes one parameter with the size of `arguments` (checked when it was loaded),
        // or none, in which case the driver reads none. The driver copies the parameters. The rest is the
        // caller's obligation.
        let code = unsafe { self.start(function, grid, parameters.as_mut_ptr()) };
        self.launched(name, function, code)
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the caller's obligation.
        let code = unsafe { sys::cuMemcpyAsync(address(to), address(from), bytes, self.handle) };
        self.context.check("cuMemcpyAsync", code as Code)
    }

    unsafe fn copy_peer(
        &self,
        (to, to_device): (*mut u8, &dyn machine::Machine),
        (from, from_device): (*const u8, &dyn machine::Machine),
        bytes: usize,
    ) -> Result<()> {
        self.context.bind()?;
        let (to_context, from_context) = (to_device.raw_context().cast(), from_device.raw_context().cast());
        // SAFETY: the caller's obligation; the contexts are those of the memory's devices.
        let code = unsafe {
            sys::cuMemcpyPeerAsync(address(to), to_context, address(from), from_context, bytes, self.handle)
        };
        self.context.check("cuMemcpyPeerAsync", code as Code)
    }

    unsafe fn fill(&self, to: *mut u8, byte: u8, bytes: usize) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the caller's obligation.
        let code = unsafe { sys::cuMemsetD8Async(address(to), byte, bytes, self.handle) };
        self.context.check("cuMemsetD8Async", code as Code)
    }

    fn raw_handle(&self) -> *mut c_void {
        self.handle.cast()
    }

    fn record(&self, has_time: bool) -> Result<machine::Mark> {
        self.context.bind()?;
        let mark = Mark::new(self.context.clone(), has_time)?;
        // SAFETY: event and stream belong to the current context.
        let code = unsafe { sys::cuEventRecord(mark.event, self.handle) };
        self.context.check("cuEventRecord", code as Code)?;
        Ok(machine::Mark::Cuda(mark))
    }

    fn wait(&self, mark: &machine::Mark) -> Result<()> {
        let machine::Mark::Cuda(mark) = mark else { return Ok(()) };
        self.context.bind()?;
        // SAFETY: the stream belongs to the current context; the event may belong to another.
        let code = unsafe { sys::cuStreamWaitEvent(self.handle, mark.event, 0) };
        self.context.check("cuStreamWaitEvent", code as Code)
    }

    fn is_complete(&self) -> Result<bool> {
        self.context.bind()?;
        // SAFETY: the stream belongs to the current context.
        match unsafe { sys::cuStreamQuery(self.handle) } as Code {
            NOT_READY => Ok(false),
            code => self.context.check("cuStreamQuery", code).map(|()| true),
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the stream belongs to the current context.
        let code = unsafe { sys::cuStreamSynchronize(self.handle) };
        self.context.check("cuStreamSynchronize", code as Code)
    }
}

/// An event. Not `cust`'s type, because waiting on a stream of `cust` consumes the event.
#[derive(Debug)]
pub struct Mark {
    event: sys::CUevent,
    has_time: bool,
    context: Arc<Context>,
}

// SAFETY: any thread may use the driver's handles, concurrently with others.
unsafe impl Send for Mark {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mark {}

impl Mark {
    /// Returns an event of `context`, which must be current.
    fn new(context: Arc<Context>, has_time: bool) -> Result<Self> {
        let event = context.events.take(has_time).map_err(|code| context.error("cuEventCreate", code))?;
        Ok(Self { event, has_time, context })
    }

    pub fn synchronize(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: `self` owns the event.
        let code = unsafe { sys::cuEventSynchronize(self.event) };
        self.context.check("cuEventSynchronize", code as Code)
    }

    pub fn is_complete(&self) -> Result<bool> {
        self.context.bind()?;
        // SAFETY: `self` owns the event.
        match unsafe { sys::cuEventQuery(self.event) } as Code {
            NOT_READY => Ok(false),
            code => self.context.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Returns the milliseconds since `earlier`. Both events must have completed.
    pub fn elapsed_ms(&self, earlier: &Mark) -> Result<f64> {
        self.context.bind()?;
        let mut ms = 0.0f32;
        // SAFETY: both events are recorded and live.
        let code = unsafe { sys::cuEventElapsedTime(&mut ms, earlier.event, self.event) };
        self.context.check("cuEventElapsedTime", code as Code)?;
        Ok(f64::from(ms))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Err(error) = self.context.bind() {
            tracing::debug!(%error, "an event of a lost device is dropped");
        }
        // SAFETY: `self` owns the event, which is not used afterwards.
        unsafe { self.context.events.give_back(self.event, self.has_time) };
    }
}

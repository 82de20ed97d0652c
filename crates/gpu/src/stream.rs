//! Work in order.
use crate::launch::{AnyLaunch, Launch};
use crate::machine::Queue;
use crate::{Device, Event, Grid, Kernel, Result};
use std::sync::Arc;

/// A queue of launches and copies that a device works off in order. Cheap to clone: clones are the same
/// queue.
///
/// # Concurrency
/// What is asked of different streams may run side by side; [`wait`](Self::wait) orders them. On the emulator
/// whatever is asked is done before the call returns, in the calling thread's order.
#[derive(Clone, Debug)]
pub struct Stream {
    device: Device,
    queue: Arc<dyn Queue>,
}

/// Whether both are the same queue.
impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl Eq for Stream {}

impl Stream {
    pub(crate) fn new(device: Device, queue: Arc<dyn Queue>) -> Self {
        Self { device, queue }
    }

    pub(crate) fn queue(&self) -> &dyn Queue {
        &*self.queue
    }

    /// The device that works the stream off.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Asks for `kernel` to be run by each thread of `grid`. An empty grid asks for nothing.
    ///
    /// On a CUDA device the call returns at once, and a kernel that fails is reported by a later call, as
    /// [`Error::DeviceLost`](crate::Error::DeviceLost). The first launch of a kernel compiles it
    /// ([`Device::prepare`] does that ahead of time). On the emulator the call returns when the kernel has
    /// ended, with its failure if it failed.
    ///
    /// # Errors
    /// [`UnknownProgram`](crate::Error::UnknownProgram), [`NoPtx`](crate::Error::NoPtx),
    /// [`UnknownKernel`](crate::Error::UnknownKernel), [`Arguments`](crate::Error::Arguments) and
    /// [`Jit`](crate::Error::Jit) when the kernel cannot be made ready; [`Grid`](crate::Error::Grid) and
    /// [`Launch`](crate::Error::Launch) when the grid is refused; [`Emulator`](crate::Error::Emulator) when
    /// the kernel failed there.
    ///
    /// # Safety
    /// - Every pointer in `kernel` that the kernel uses lies in live memory of this device, and stays so
    ///   until the kernel has ended. (Dropping a [`Buffer`](crate::Buffer) waits for it.)
    /// - Nobody else reads what the kernel writes, or writes what it touches, while it runs: no slice of a
    ///   host-visible buffer and no other kernel, but as the kernel's own documentation allows.
    /// - The kernel's own requirements hold.
    pub unsafe fn launch<K: Kernel + Send + Sync + 'static>(&self, grid: Grid, kernel: K) -> Result<()> {
        let launch = Launch { grid, kernel };
        launch.name().check()?;
        if grid.blocks == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        unsafe { self.queue.launch(&launch) }
    }

    /// Marks this point of the queue.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) or [`Error::Driver`](crate::Error::Driver).
    pub fn record(&self) -> Result<Event> {
        Ok(Event::new(self.device.clone(), self.queue.record()?))
    }

    /// Lets what is asked of this stream from now on wait for `event`, which may be another stream's.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) or [`Error::Driver`](crate::Error::Driver).
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.queue.wait(event.mark())
    }

    /// Waits until all that was asked of this stream is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.queue.synchronize()
    }
}

//! Events of the driver that wait for their next use.
use super::driver::Code;
use cust::sys;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of events that are kept.
const MOST: usize = 256;

/// Events of a context that nobody uses.
#[derive(Debug, Default)]
pub struct Events(Mutex<Vec<Handle>>);

#[derive(Debug)]
struct Handle(sys::CUevent);

// SAFETY: any thread may use the driver's handles, concurrently with others.
unsafe impl Send for Handle {}

impl Events {
    /// Returns an event, or the driver's code. The context must be current.
    pub fn take(&self) -> Result<sys::CUevent, Code> {
        if let Some(Handle(event)) = self.free().pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        // SAFETY: a context is current; the call writes the event on success. No flags: the event records its
        // time.
        match unsafe { sys::cuEventCreate(&mut event, 0) } as Code {
            0 => Ok(event),
            code => Err(code),
        }
    }

    /// Takes an event back. Waits for it that were submitted before stay valid: they are for the point in the
    /// order of its stream that it had then. The context must be current.
    ///
    /// # Safety
    /// - The event comes from [`Self::take`], and is not used again.
    pub unsafe fn give_back(&self, event: sys::CUevent) {
        let mut free = self.free();
        if free.len() < MOST {
            return free.push(Handle(event));
        }
        drop(free);
        // SAFETY: the caller's obligation.
        unsafe { sys::cuEventDestroy_v2(event) };
    }

    /// Destroys the events that are kept. The context must be current.
    pub fn destroy(&self) {
        for Handle(event) in self.free().drain(..) {
            // SAFETY: nobody uses the event.
            unsafe { sys::cuEventDestroy_v2(event) };
        }
    }

    // Each change is complete, also if a thread panics.
    fn free(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

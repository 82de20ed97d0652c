//! Events of the driver that wait for their next use.
use super::driver::Code;
use cust::sys;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of events of each kind that are kept.
const MOST: usize = 256;

/// Flag of an event without a time: `CU_EVENT_DISABLE_TIMING`. A wait for one ends 3 µs earlier.
const DISABLE_TIMING: u32 = 2;

/// Events of a context that nobody uses: those without a time, and those with one.
#[derive(Debug, Default)]
pub struct Events(Mutex<[Vec<Handle>; 2]>);

#[derive(Debug)]
struct Handle(sys::CUevent);

// SAFETY: any thread may use the driver's handles, concurrently with others.
unsafe impl Send for Handle {}

impl Events {
    /// Returns an event, which records its time if `has_time`, or the driver's code. The context must be
    /// current.
    pub fn take(&self, has_time: bool) -> Result<sys::CUevent, Code> {
        if let Some(Handle(event)) = self.free()[usize::from(has_time)].pop() {
            return Ok(event);
        }
        let (mut event, flags) = (null_mut(), if has_time { 0 } else { DISABLE_TIMING });
        // SAFETY: a context is current; the call writes the event on success.
        match unsafe { sys::cuEventCreate(&mut event, flags) } as Code {
            0 => Ok(event),
            code => Err(code),
        }
    }

    /// Takes an event back. Waits for it that were submitted before stay valid: they are for the point in the
    /// order of its stream that it had then. The context must be current.
    ///
    /// # Safety
    /// - The event comes from [`Self::take`] with this `has_time`, and is not used again.
    pub unsafe fn give_back(&self, event: sys::CUevent, has_time: bool) {
        let mut free = self.free();
        let kept = &mut free[usize::from(has_time)];
        if kept.len() < MOST {
            return kept.push(Handle(event));
        }
        drop(free);
        // SAFETY: the caller's obligation.
        unsafe { sys::cuEventDestroy_v2(event) };
    }

    /// Destroys the events that are kept. The context must be current.
    pub fn destroy(&self) {
        for Handle(event) in self.free().iter_mut().flat_map(|kept| kept.drain(..)) {
            // SAFETY: nobody uses the event.
            unsafe { sys::cuEventDestroy_v2(event) };
        }
    }

    // Each change is complete, also if a thread panics.
    fn free(&self) -> MutexGuard<'_, [Vec<Handle>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

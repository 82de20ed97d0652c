//! Gates, behind which ranks copy to memory that others have lent them: see [`peer`](crate::peer).
use crate::hub::Hub;
use crate::{Error, Result};
use gpu::{Event, Slice, Stream};
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a caller of one rank, to which the other ranks copy while the call lasts.
pub struct Lent(MaybeUninit<Slice<'static, u8>>);

impl Lent {
    pub fn new(memory: Slice<'_, u8>) -> Self {
        // SAFETY: only the lifetime changes. The value may outlive the memory, but is uninitialised for the
        // compiler, and `get` alone reads it.
        Self(unsafe {
            std::mem::transmute::<MaybeUninit<Slice<'_, u8>>, MaybeUninit<Slice<'static, u8>>>(
                MaybeUninit::new(memory),
            )
        })
    }

    /// Returns the memory.
    ///
    /// # Safety
    /// - The call that has lent the memory does not return before the slice was used for the last time.
    pub unsafe fn get(&self) -> Slice<'_, u8> {
        // SAFETY: initialised by `new`; what it borrows lives during the call of the lender.
        unsafe { self.0.assume_init() }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lent")
    }
}

/// Gate of a rank: an event after its last copies to memory that was lent.
#[derive(Debug, Default)]
pub struct Gate(Mutex<Option<Arc<Event>>>);

impl Gate {
    // Each change is complete, also if a thread panics.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Event>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the event after the last copies. Waits for a rank that submits copies.
    pub fn last(&self) -> Option<Arc<Event>> {
        self.lock().clone()
    }

    /// Submits copies to `stream`, and returns an event after them, unless a rank is lost.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if a rank is lost: then `copies` was not called. That of `copies`; what it has
    /// submitted before the error is known to [`last`](Self::last).
    pub fn submit(
        &self,
        hub: &Hub,
        stream: &Stream,
        copies: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<Event>> {
        let mut last = self.lock();
        hub.check()?;
        let submitted = copies();
        match stream.point() {
            Ok(event) => {
                let event = Arc::new(event);
                *last = Some(event.clone());
                submitted.map(|()| event)
            }
            Err(error) => {
                // No event: the copies end here, or have failed with their device.
                if let Err(error) = stream.synchronize() {
                    tracing::debug!(%error, "copies of a lost device");
                }
                Err(Error::from(error))
            }
        }
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;
    use crate::Meeting;
    use gpu::Device;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn an_owner_waits_for_a_rank_that_submits_copies() {
        let (meeting, gate) = (Meeting::new(1).unwrap(), Gate::default());
        let stream = Device::emulator(Default::default()).stream().unwrap();
        let ((entered, is_entered), (leave, may_leave)) = (mpsc::channel(), mpsc::channel());
        let copies = move || {
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
            Err(Error::lost(0, "a copy failed"))
        };
        thread::scope(|scope| {
            let copier = scope.spawn(|| gate.submit(meeting.hub(), &stream, copies));
            is_entered.recv().unwrap();
            let owner = scope.spawn(|| gate.last().is_some());
            thread::sleep(Duration::from_millis(100));
            assert!(!owner.is_finished());
            leave.send(()).unwrap();
            assert!(owner.join().unwrap(), "copies before one that failed have an event, too");
            assert!(copier.join().unwrap().is_err());
        });
    }

    #[test]
    fn after_a_loss_no_copies_are_submitted() {
        let (meeting, gate) = (Meeting::new(1).unwrap(), Gate::default());
        let stream = Device::emulator(Default::default()).stream().unwrap();
        assert!(gate.submit(meeting.hub(), &stream, || Ok(())).is_ok());
        drop(meeting.join(0).unwrap()); // leaves
        let submitted = gate.submit(meeting.hub(), &stream, || unreachable!("a rank is lost"));
        assert!(matches!(submitted, Err(Error::PeerLost(_))));
    }
}

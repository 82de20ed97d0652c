//! A communicator, and a thread that aborts it if a call does not return from NCCL.
//!
//! A call of a communicator of mode blocking may wait for other ranks, for ever. `ncclCommAbort` is the one
//! function that another thread may call meanwhile: it makes the blocked call return. So each communicator
//! has a thread, the *watchdog*, which makes the calls that end a communicator: the abort of a call that is
//! late, and the abort or the end that the owner asks for. The owner waits for the latter up to a bound,
//! since these calls may hang, too.
//!
//! # States
//!
//! [`Call`] says what the communicator is used for. Whoever sets it to `Gone` decides how the communicator
//! ends, and the owner does not use it from then on. So it ends once.
//!
//! ```text
//!          begin                     end of the call                 the owner ends it
//!   None ─────────▶ Until(deadline) ─────────────────▶ None        None ──────────▶ Gone
//!                        │ the watchdog, after the deadline
//!                        └────────────────────────────▶ Gone
//! ```
//!
//! A call that returns after the watchdog has taken its communicator is an error.
//!
//! An abort frees the communicator, and NCCL expects that the other thread is blocked in a call: not that it
//! is about to make one, or in the middle of one. No state can tell these apart. So the watchdog waits for
//! `GRACE` after the deadline, in which a thread that is not blocked returns. It matters if the whole process
//! was stopped for longer than the deadline. No call begins after its deadline, so the call that is still
//! there after the grace is the same one, although several may have the same deadline.
//!
//! # Cost of a call
//!
//! A mutex is taken twice, without contention, and the clock is read. A wake-up would take microseconds, so
//! calls make none as a rule: the watchdog sleeps until the deadline that it has seen, whatever happens
//! meanwhile, and then looks again. If it finds no call, it sleeps until the next one wakes it; this happens
//! once in the time of a deadline.
use crate::{Error, Result};
use gpu::Device;
use nccl_late::{Code, Communicator, Library};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after its deadline in which a call that is not blocked returns.
const GRACE: Duration = Duration::from_millis(20);

/// Call that ends a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `ncclCommAbort`.
    Abort,
    /// `ncclCommDestroy`, after `ncclCommFinalize`.
    Destroy,
}

/// The owner's side of a communicator with a watchdog.
#[derive(Debug)]
pub struct Guarded {
    nccl: &'static Library,
    communicator: Communicator,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified for the watchdog.
    ordered: Condvar,
    /// Notified for the owner.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    call: Call,
    /// Time until which the watchdog sleeps; `None` if it sleeps until it is woken.
    wakes_at: Option<Instant>,
    /// The end that the owner asks for.
    order: Option<Ending>,
    /// The result of the call that ended the communicator.
    result: Option<gpu::Result<Code>>,
}

/// Use of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    /// No call is inside NCCL.
    #[default]
    None,
    /// A call may be inside NCCL until its deadline.
    Until(Instant),
    /// The communicator is being ended, or has ended.
    Gone,
}

impl Guarded {
    /// Guards a communicator of `device`, which lives until [`end`](Self::end).
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted, and is only used through this value from now on.
    pub unsafe fn new(nccl: &'static Library, communicator: Communicator, device: Device) -> Self {
        let shared = Arc::<Shared>::default();
        let watched = shared.clone();
        std::thread::spawn(move || {
            let communicator = communicator;
            let ending = watched.await_ending();
            let current = device.make_current();
            // SAFETY: this thread set the state to `Gone`, or the owner did and gave the order. Either
            // happens once, and the owner does not begin a call afterwards. A call of the owner may still be
            // inside NCCL if the ending is an abort, which NCCL allows. `Destroy` is ordered after
            // `ncclCommFinalize`.
            let code = unsafe {
                match ending {
                    Ending::Abort => nccl.abort(communicator),
                    Ending::Destroy => nccl.destroy(communicator),
                }
            };
            let result = current.map(|()| code);
            watched.state().result = Some(result);
            watched.ended.notify_all();
        });
        Self { nccl, communicator, shared }
    }

    /// Makes a call, which may wait for other ranks. If it is inside NCCL at the deadline, the communicator
    /// is aborted. `name` is that of the call.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if the communicator was aborted before, or during the call, or if the deadline has
    /// passed already.
    pub fn call(
        &self,
        name: &'static str,
        deadline: Instant,
        run: impl FnOnce(&Library, Communicator) -> Code,
    ) -> Result<Code> {
        let late = || Error::lost(None, format!("{name} did not end before the deadline"));
        self.shared.begin(deadline, late)?;
        let code = run(self.nccl, self.communicator);
        let mut state = self.shared.state();
        match state.call {
            Call::Gone => Err(late()),
            _ => {
                state.call = Call::None;
                Ok(code)
            }
        }
    }

    /// Returns the communicator's state: the error of an earlier call or of running work. Does not wait.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if the communicator was aborted before.
    pub fn state(&self) -> Result<Code> {
        match self.is_gone() {
            true => Err(gone()),
            // SAFETY: this is the only thread that makes calls, and none of them is inside NCCL; in this
            // state only the owner ends the communicator.
            false => Ok(unsafe { self.nccl.async_error(self.communicator) }),
        }
    }

    /// Returns whether the communicator has ended, or is being ended.
    pub fn is_gone(&self) -> bool {
        self.shared.state().call == Call::Gone
    }

    /// Ends the communicator unless it was ended before, and waits up to `most` for the call that does so.
    /// Returns `false` if the call hangs.
    pub fn end(&self, ending: Ending, most: Duration) -> bool {
        let shared = &*self.shared;
        let mut state = shared.state();
        if std::mem::replace(&mut state.call, Call::Gone) != Call::Gone {
            state.order = Some(ending);
            shared.ordered.notify_one();
        }
        let hangs = |state: &mut State| state.result.is_none();
        let waited = shared.ended.wait_timeout_while(state, most, hangs);
        match &waited.unwrap_or_else(PoisonError::into_inner).0.result {
            Some(Ok(Code::SUCCESS)) => true,
            Some(result) => {
                tracing::warn!(?result, "a communicator was not ended properly");
                true
            }
            None => false,
        }
    }
}

impl Shared {
    // Each change is complete, also if a thread panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows a call until a deadline. Wakes the watchdog if it would sleep for longer.
    fn begin(&self, deadline: Instant, late: impl FnOnce() -> Error) -> Result<()> {
        let is_late = Instant::now() >= deadline;
        let mut state = self.state();
        match state.call {
            Call::Gone => return Err(gone()),
            _ if is_late => return Err(late()),
            _ => state.call = Call::Until(deadline),
        }
        if state.wakes_at.is_none_or(|wakes_at| deadline < wakes_at) {
            self.ordered.notify_one();
        }
        Ok(())
    }

    /// Waits until the communicator is to be ended.
    fn await_ending(&self) -> Ending {
        let mut state = self.state();
        loop {
            if let Some(ending) = state.order {
                return ending;
            }
            let deadline = match state.call {
                Call::Until(deadline) => Some(deadline),
                Call::None | Call::Gone => None,
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state.wakes_at = deadline;
            state = match left {
                None => self.ordered.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let call = state.call;
                    state = self.wait_for_return(state);
                    if state.call == call {
                        state.call = Call::Gone;
                        return Ending::Abort;
                    }
                    state
                }
                Some(left) => {
                    self.ordered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Waits for `GRACE`, or until the owner gives an order.
    fn wait_for_return<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let no_order = |state: &mut State| state.order.is_none();
        let waited = self.ordered.wait_timeout_while(state, GRACE, no_order);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn gone() -> Error {
    Error::lost(None, "the communicator was aborted")
}

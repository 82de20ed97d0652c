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
//! One word says what the communicator is used for. Whoever sets it to `GONE` decides how the communicator
//! ends, and the owner does not use it from then on. So it ends once.
//!
//! ```text
//!            arm: compare and exchange            end: exchange, by the owner
//!   IDLE ────────────────────────────▶ deadline        IDLE ────────▶ GONE
//!        ◀────────────────────────────                 deadline ────▶ GONE
//!          disarm: compare and exchange           the watchdog, if the deadline has passed
//! ```
//!
//! A call that returns while the watchdog takes its communicator fails to disarm, and is an error.
//!
//! An abort frees the communicator, and NCCL expects that the other thread is blocked in a call: not that it
//! is about to make one, or in the middle of one. No word can tell these apart. So the watchdog waits for
//! `GRACE` after the deadline, in which a thread that is not blocked returns. It matters if the whole process
//! was stopped for longer than the deadline. No call begins after its deadline, so the call that is still
//! there after the grace is the same one, although several may have the same deadline.
//!
//! # Cost of a call
//!
//! Two atomic exchanges and a look at the clock. A wake-up would take microseconds, so calls make none as a
//! rule: the watchdog sleeps until the deadline that it has seen, whatever happens meanwhile, and then looks
//! at the word again. If it finds no call, it sleeps until the next call wakes it; this happens once in the
//! time of a deadline. `wakes_at` is the time until which it sleeps. The watchdog writes `wakes_at` and then
//! reads the word; a call writes the word and then reads `wakes_at`. All are sequentially consistent, so at
//! least one of them sees the other. A call that has to wake the watchdog takes its mutex first, which the
//! watchdog holds until it sleeps.
use crate::{Error, Result};
use gpu::Device;
use nccl_late::{Code, Communicator, Library};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State in which no call is inside NCCL.
const IDLE: u64 = 0;
/// State in which the communicator is being ended, or has ended.
const GONE: u64 = u64::MAX;

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

#[derive(Debug)]
struct Shared {
    /// Origin of the times, which are in nanoseconds.
    start: Instant,
    /// `IDLE`, `GONE`, or the deadline of the call that is inside NCCL.
    call: AtomicU64,
    wakes_at: AtomicU64,
    state: Mutex<State>,
    /// Notified for the watchdog.
    ordered: Condvar,
    /// Notified for the owner.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The end that the owner asks for.
    order: Option<Ending>,
    /// The result of the call that ended the communicator.
    result: Option<gpu::Result<Code>>,
}

impl Guarded {
    /// Guards a communicator of `device`, which lives until [`end`](Self::end).
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted, and is only used through this value from now on.
    pub unsafe fn new(nccl: &'static Library, communicator: Communicator, device: Device) -> Self {
        let shared = Arc::new(Shared {
            start: Instant::now(),
            call: AtomicU64::new(IDLE),
            wakes_at: AtomicU64::new(0),
            state: Mutex::default(),
            ordered: Condvar::new(),
            ended: Condvar::new(),
        });
        let watched = shared.clone();
        std::thread::spawn(move || {
            let communicator = communicator;
            let ending = watched.await_ending();
            let result = device.make_current().map(|()| {
                // SAFETY: this thread set the state to `GONE`, or the owner did and gave the order. Either
                // happens once, and the owner does not begin a call afterwards. A call of the owner may still
                // be inside NCCL if the ending is an abort, which NCCL allows. `Destroy` is ordered after
                // `ncclCommFinalize`.
                unsafe {
                    match ending {
                        Ending::Abort => nccl.abort(communicator),
                        Ending::Destroy => nccl.destroy(communicator),
                    }
                }
            });
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
        let shared = &*self.shared;
        let late = |_| Error::lost(None, format!("{name} did not end before the deadline"));
        let call = shared.nanoseconds(deadline);
        if call <= shared.now() {
            return Err(late(call));
        }
        shared.call.compare_exchange(IDLE, call, SeqCst, SeqCst).map_err(|_| gone())?;
        if call < shared.wakes_at.load(SeqCst) {
            drop(shared.state());
            shared.ordered.notify_one();
        }
        let code = run(self.nccl, self.communicator);
        let disarmed = shared.call.compare_exchange(call, IDLE, SeqCst, SeqCst);
        disarmed.map(|_| code).map_err(late)
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
        self.shared.call.load(SeqCst) == GONE
    }

    /// Ends the communicator unless it was ended before, and waits up to `most` for the call that does so.
    /// Returns `false` if the call hangs.
    pub fn end(&self, ending: Ending, most: Duration) -> bool {
        let shared = &*self.shared;
        let was_gone = shared.call.swap(GONE, SeqCst) == GONE;
        let mut state = shared.state();
        if !was_gone {
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

    /// Returns a time as a state of `call`: neither `IDLE` nor `GONE`.
    fn nanoseconds(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start).as_nanos();
        u64::try_from(since).unwrap_or(GONE).clamp(IDLE + 1, GONE - 1)
    }

    fn now(&self) -> u64 {
        self.nanoseconds(Instant::now())
    }

    /// Waits until the communicator is to be ended.
    fn await_ending(&self) -> Ending {
        let mut state = self.state();
        loop {
            if let Some(ending) = state.order {
                return ending;
            }
            let call = self.call.load(SeqCst);
            let is_armed = call != IDLE && call != GONE;
            if !is_armed || self.now() < call {
                state = self.sleep(state, if is_armed { call } else { GONE });
                continue;
            }
            let no_order = |state: &mut State| state.order.is_none();
            let waited = self.ordered.wait_timeout_while(state, GRACE, no_order);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if self.call.compare_exchange(call, GONE, SeqCst, SeqCst).is_ok() {
                return Ending::Abort;
            }
        }
    }

    /// Sleeps until a time, which may be `GONE`, or until a call or an order wakes this thread.
    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>, until: u64) -> MutexGuard<'a, State> {
        self.wakes_at.store(until, SeqCst);
        let call = self.call.load(SeqCst);
        if call != IDLE && call < until {
            return state; // a call began meanwhile, and did not see `until`
        }
        let left = Duration::from_nanos(until.saturating_sub(self.now()));
        self.ordered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }
}

fn gone() -> Error {
    Error::lost(None, "the communicator was aborted")
}

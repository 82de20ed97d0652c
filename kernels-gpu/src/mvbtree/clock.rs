//! The clocks of versions: one that stands still while kernels run, and one that moves; and the access
//! policies that use them.
use crate::ordered::access::Access;
use crate::ordered::versioning::{FROM_PIN, LATEST, RawVersions, Time, Versions};
use crate::reclaim::{Blocks, Epochs, Group, Participant, Slabs};
use crate::slab::{Handle, Pool};
use core::marker::PhantomData;
use simt::{Global, Order, Scope, device};

/// In place: the clock does not move while kernels run, and its value is passed with the launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FixedClock {
    now: u32,
    since: u32,
    at: u32,
}

#[device]
impl Versions for FixedClock {
    const VERSIONED: bool = true;
    const CLOCK_MOVES: bool = false;

    unsafe fn new(parts: RawVersions) -> Self {
        Self { now: parts.now, since: parts.since, at: parts.at }
    }

    fn read_timestamp(self) -> u32 {
        self.at
    }

    fn at_timestamp(self, at: u32) -> Self {
        Self { at, ..self }
    }

    fn protected_below(self) -> u32 {
        self.since
    }

    fn time(self) -> Time {
        Time { stamp: self.now, pins: (self.since > 0) as u32 }
    }

    /// The clock stands still while kernels run: a read at [`LATEST`] returns what a snapshot taken after the
    /// kernel will contain.
    fn advance_clock(self, _from: u64) -> Result<u64, u64> {
        Ok(LATEST as u64)
    }
}

/// Out of place: the clock is a word of device memory, which hosts and kernels advance while others run.
/// Copies are reclaimed by epochs, whose participants are groups of type `G`.
#[repr(C)]
#[derive(Debug)]
pub struct MovingClock<G = Blocks> {
    clock: Global<u64>,
    pin: Global<u32>,
    epochs: Epochs,
    at: u32,
    of: PhantomData<G>,
}

impl<G> Clone for MovingClock<G> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for MovingClock<G> {}

// SAFETY: pointers to device memory, and marker types without values.
unsafe impl<G> Send for MovingClock<G> {}
// SAFETY: as above.
unsafe impl<G> Sync for MovingClock<G> {}

impl<G: Group + core::fmt::Debug> MovingClock<G> {
    /// Returns the calling group's participant.
    ///
    /// # Safety
    /// - As for [`Versions::enter`].
    #[device]
    unsafe fn participant<P: Pool>(self, pool: P) -> Participant<G, Slabs<P>> {
        // SAFETY: by the caller's promise, all participants of these epochs retire copies, which are slabs of
        // the pool.
        unsafe { Participant::opened(self.epochs, Slabs(pool)) }
    }
}

#[device(caller)]
impl<G: Group + core::fmt::Debug> Versions for MovingClock<G> {
    const VERSIONED: bool = true;
    const CLOCK_MOVES: bool = true;

    #[device]
    unsafe fn new(parts: RawVersions) -> Self {
        let RawVersions { clock, pin, epochs, places, room, at, .. } = parts;
        // SAFETY: the caller's promise; all accesses of words that kernels share are atomic.
        unsafe {
            let (clock, pin) = (Global::new(clock), Global::new(pin));
            Self { clock, pin, epochs: Epochs::new(epochs, places, room), at, of: PhantomData }
        }
    }

    fn read_timestamp(self) -> u32 {
        if self.at == FROM_PIN { self.pin.load(Order::Acquire, Scope::Device) } else { self.at }
    }

    #[device]
    fn at_timestamp(self, at: u32) -> Self {
        Self { at, ..self }
    }

    /// Every version is copied.
    #[device]
    fn protected_below(self) -> u32 {
        u32::MAX
    }

    fn time(self) -> Time {
        // The caller's fence orders this load, where what the caller has seen of a leaf must be older than
        // the clock's value.
        Time::of(self.clock.load(Order::Relaxed, Scope::Device))
    }

    fn advance_clock(self, from: u64) -> Result<u64, u64> {
        if from as u32 >= LATEST {
            return Ok(from);
        }
        self.clock.compare_exchange(from, from + 1, Order::AcqRel, Scope::Device)
    }

    unsafe fn enter<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        unsafe { self.participant(pool) }.begun().enter();
    }

    unsafe fn leave<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        let process = unsafe { self.participant(pool) };
        process.leave();
        process.close();
    }

    unsafe fn repin<P: Pool>(self, pool: P) {
        // SAFETY: the caller's promise.
        let process = unsafe { self.participant(pool) };
        process.leave();
        process.enter();
    }

    unsafe fn retire<P: Pool>(self, pool: P, copy: Handle) {
        // SAFETY: the caller's promise.
        unsafe { self.participant(pool).retire(copy.to_word()) };
    }
}

/// As [`Concurrent`](crate::ordered::Concurrent), with versions. Snapshots are taken while no kernel runs.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

impl Access for InPlace {
    const NAME: &'static str = "mvtree_in_place";
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = FixedClock;
}

/// As [`Concurrent`](crate::ordered::Concurrent), with versions of which snapshots are taken while kernels
/// run. `G` is the group of threads that form an epoch participant.
#[derive(Clone, Copy, Debug)]
pub struct OutOfPlace<G = Blocks>(PhantomData<G>);

impl<G: Group + core::fmt::Debug> Access for OutOfPlace<G> {
    const NAME: &'static str = "mvtree_out_of_place";
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = MovingClock<G>;
}

//! Kernel that runs a plan, and the allocation methods.
use phalanx_kernels::slab::{Handle, Pool, Resident};
use simt::{Convergence, GlobalSlice, Kernel, Order, Scope, Thread, Tile};
use std::marker::PhantomData;

/// The lane does nothing.
pub const REST: u8 = 0;
/// The lane allocates, if it has no slab.
pub const ALLOCATE: u8 = 1;
/// The lane frees its slab, if it has one.
pub const FREE: u8 = 2;
/// The lane retires its slab, if it has one.
pub const RETIRE: u8 = 3;

/// Word of a slab without an owner.
const BLANK: u64 = u64::MAX;

/// Inputs and outputs of a launch: lane `l` performs `script[l * rounds + r]` in round `r`.
#[derive(Clone, Copy)]
pub struct Script {
    pub script: GlobalSlice<u8>,
    pub rounds: usize,
    /// Output: the slab that each lane holds at the end.
    pub held: GlobalSlice<u32>,
    /// Output: the slab that each lane has retired in each round.
    pub retired: GlobalSlice<u32>,
    /// Output: numbers of slabs allocated, refused, freed, and shared with another lane.
    pub counts: GlobalSlice<u32>,
    /// Index of the launch's first lane among all lanes.
    pub first: u32,
}

impl Script {
    fn count(self, what: usize) {
        self.counts.at(what).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

/// Allocation method.
pub trait Ways<P: Pool>: Copy + Send + Sync + 'static {
    /// State of a lane between calls.
    type Keeps;
    /// Number of lanes in a launch.
    const LANES: u32;
    /// Returns the number of rounds that the calling lane skips at the end.
    fn left_out() -> usize;
    fn new(pool: P) -> Self::Keeps;
    fn allocate(keeps: &mut Self::Keeps, wants: bool) -> Option<Handle>;
}

/// Individual lanes, with different numbers of rounds.
#[derive(Clone, Copy)]
pub struct Alone;

impl<P: Pool> Ways<P> for Alone {
    type Keeps = (P, u32);
    const LANES: u32 = 5;

    fn left_out() -> usize {
        Thread::index() % 2
    }

    fn new(pool: P) -> (P, u32) {
        (pool, Thread::index() as u32)
    }

    fn allocate((pool, seed): &mut (P, u32), wants: bool) -> Option<Handle> {
        *seed += 100;
        if wants { pool.allocate(*seed) } else { None }
    }
}

/// Tiles with resident blocks. Independent tiles have different numbers of rounds.
#[derive(Clone, Copy)]
pub struct Tiles<const W: u32, C>(PhantomData<C>);

impl<P: Pool, const W: u32, C: Convergence + Send + Sync> Ways<P> for Tiles<W, C> {
    type Keeps = Resident<P, W, C>;
    const LANES: u32 = if W <= 4 { 8 } else { 32 };

    fn left_out() -> usize {
        if C::LOCKSTEP && W > 1 { 0 } else { Thread::index() / W as usize % 2 }
    }

    fn new(pool: P) -> Self::Keeps {
        Resident::new(pool, Tile::this(), 7)
    }

    fn allocate(resident: &mut Self::Keeps, wants: bool) -> Option<Handle> {
        resident.allocate(wants)
    }
}

/// Kernel that runs a plan.
#[derive(Clone, Copy)]
pub struct Play<P, A> {
    pub pool: P,
    pub script: Script,
    pub by: PhantomData<A>,
}

impl<P: Pool, A: Ways<P>> Kernel for Play<P, A> {
    const PROGRAM: &'static str = "slab_explore";
    const NAME: &'static str = "play";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let (script, lane) = (self.script, Thread::index());
        let (mut keeps, mut held) = (A::new(self.pool), None);
        for round in 0..script.rounds - A::left_out() {
            let step = script.script.read(lane * script.rounds + round);
            let wants = step == ALLOCATE && held.is_none();
            let given = A::allocate(&mut keeps, wants);
            assert!(wants || given.is_none(), "a slab for a lane that wants none");
            if wants {
                self.receive(given);
                held = given;
            }
            match (step, held) {
                (FREE, Some(handle)) => self.free(held.take().unwrap_or(handle)),
                (RETIRE, Some(handle)) => {
                    self.pool.retire(handle);
                    script.retired.write(lane * script.rounds + round, handle.to_word());
                    held = None;
                }
                _ => {}
            }
        }
        script.held.write(lane, held.unwrap_or(Handle::NONE).to_word());
    }
}

impl<P: Pool, A: Ways<P>> Play<P, A> {
    /// Writes the lane's mark to its new slab, which must be blank.
    fn receive(self, given: Option<Handle>) {
        self.script.count(given.is_none().into());
        if given.is_some_and(|handle| self.mark(handle, self.me()) != BLANK) {
            self.script.count(3);
        }
    }

    /// Removes the mark and frees the slab.
    fn free(self, handle: Handle) {
        if self.mark(handle, BLANK) != self.me() {
            self.script.count(3);
        }
        self.pool.free(handle);
        self.script.count(2);
    }

    fn me(self) -> u64 {
        u64::from(self.script.first) + Thread::index() as u64
    }

    fn mark(self, handle: Handle, mark: u64) -> u64 {
        // SAFETY: the handle comes from the pool.
        unsafe { self.pool.slab(handle) }.exchange(mark, Order::Relaxed, Scope::Device)
    }
}

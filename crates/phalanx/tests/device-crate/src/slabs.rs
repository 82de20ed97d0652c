//! Kernels that allocate, use and free slabs.
use core::marker::PhantomData;
use phalanx_kernels::slab::{Handle, Light, Pool, Resident, Spread};
use simt::hash::mix64;
use simt::{
    Convergence, Global, GlobalSlice, Independent, Instance, Lockstep, Order, Scope, Thread, Tile, fence,
    kernel,
};

/// Number of words of a slab that the kernels write and check, including its last one.
const WORDS: usize = 4;

/// Returns word `index` of the [`WORDS`], which are spread over the slab of an allocated handle.
#[inline(always)]
fn word<P: Pool>(pool: P, handle: Handle, index: usize) -> Global<u64> {
    let place = index * (P::BYTES / 8 - 1) / (WORDS - 1);
    // SAFETY: the index is below the slab's number of words, and the handle comes from the pool.
    unsafe { pool.slab(handle).offset(place) }
}

/// Returns the content that lane `owner` writes to its slab.
#[inline(always)]
fn content(owner: u64, index: usize) -> u64 {
    mix64(owner << 3 | index as u64)
}

/// Writes a pattern that identifies the owner to each slab. The stores are weak, since each slab has one
/// writer.
#[kernel]
pub fn stamp<P: Pool + Instance>(pool: P, handles: GlobalSlice<u32>) {
    if Thread::index() < handles.len() {
        let handle = Handle::from_word(handles.read(Thread::index()));
        for index in 0..WORDS {
            word(pool, handle, index).store(
                content(handle.to_word() as u64, index),
                Order::Weak,
                Scope::Device,
            );
        }
    }
}

/// Counts in `wrong` the words that differ from those written by [`stamp()`], or (if `blank` is not 0) from
/// the host's initial fill of new slabs.
#[kernel]
pub fn check_stamps<P: Pool + Instance>(
    pool: P,
    handles: GlobalSlice<u32>,
    blank: u32,
    wrong: GlobalSlice<u32>,
) {
    if Thread::index() < handles.len() {
        let handle = Handle::from_word(handles.read(Thread::index()));
        for index in 0..WORDS {
            let expected = if blank != 0 { u64::MAX } else { content(handle.to_word() as u64, index) };
            if word(pool, handle, index).load(Order::Weak, Scope::Device) != expected {
                wrong.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
            }
        }
    }
}

/// Pool, and the group of threads that allocates from it.
pub trait Crew: Instance + Send + Sync {
    /// Pool type.
    type Pool: Pool;
    /// State of a lane.
    type Keeps;
    /// Creates the state.
    fn new(pool: Self::Pool) -> Self::Keeps;
    /// Allocates a slab. All lanes must call it together.
    fn allocate(keeps: &mut Self::Keeps, round: u32) -> Option<Handle>;
    /// Executes the fence after an allocation. All lanes must call it together.
    fn fence(keeps: &Self::Keeps);
}

/// Lanes that allocate individually.
#[derive(Clone, Copy, Debug)]
pub struct Alone<P>(PhantomData<P>);

/// Tiles with resident blocks.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<P, const W: u32, C>(PhantomData<(P, C)>);

impl<P: Pool> Crew for Alone<P>
where
    Self: Instance,
{
    type Pool = P;
    type Keeps = P;

    #[inline(always)]
    fn new(pool: P) -> P {
        pool
    }

    #[inline(always)]
    fn allocate(pool: &mut P, round: u32) -> Option<Handle> {
        pool.allocate((Thread::index() as u32) << 8 | round)
    }

    #[inline(always)]
    fn fence(_pool: &P) {
        fence(Scope::Device);
    }
}

impl<P: Pool, const W: u32, C: Convergence + Send + Sync> Crew for Tiles<P, W, C>
where
    Self: Instance,
{
    type Pool = P;
    type Keeps = Resident<P, W, C>;

    #[inline(always)]
    fn new(pool: P) -> Self::Keeps {
        Resident::new(pool, Tile::this(), 1)
    }

    #[inline(always)]
    fn allocate(resident: &mut Self::Keeps, round: u32) -> Option<Handle> {
        resident.allocate(!(Thread::index() as u32 + round).is_multiple_of(3))
    }

    #[inline(always)]
    fn fence(resident: &Self::Keeps) {
        resident.fence();
    }
}

/// Flag for the fence before a free.
pub const BEFORE_FREE: u32 = 1;
/// Flag for the fence after an allocation.
pub const AFTER_ALLOCATE: u32 = 2;

/// In each round, each lane allocates a slab, writes to it, checks that no other lane writes to it, blanks it
/// and frees it. Slabs pass between lanes within the launch. All accesses are weak, and ordered by the two
/// fences. Counts allocated slabs in `counts[0]`, and words changed by others in `counts[1]`.
#[kernel]
pub fn churn<M: Crew>(pool: M::Pool, rounds: u32, fences: u32, counts: GlobalSlice<u32>) {
    let mut keeps = M::new(pool);
    let (mut had, mut wrong) = (0, 0);
    for round in 0..rounds {
        let given = M::allocate(&mut keeps, round);
        if fences & AFTER_ALLOCATE != 0 {
            M::fence(&keeps);
        }
        if let Some(handle) = given {
            had += 1;
            wrong += use_slab(pool, handle, round);
            if fences & BEFORE_FREE != 0 {
                fence(Scope::Device);
            }
            pool.free(handle);
        }
    }
    counts.at(0).fetch_add(had, Order::Relaxed, Scope::Device);
    counts.at(1).fetch_add(wrong, Order::Relaxed, Scope::Device);
}

/// Writes to a slab that must be blank, and blanks it again. Returns the number of words with unexpected
/// contents.
#[inline(always)]
fn use_slab<P: Pool>(pool: P, handle: Handle, round: u32) -> u32 {
    let (owner, mut wrong) = (Thread::index() as u64 | (round as u64) << 32, 0);
    for index in 0..WORDS {
        let word = word(pool, handle, index);
        wrong += (word.load(Order::Weak, Scope::Device) != u64::MAX) as u32;
        word.store(content(owner, index), Order::Weak, Scope::Device);
    }
    for index in 0..WORDS {
        let word = word(pool, handle, index);
        wrong += (word.load(Order::Weak, Scope::Device) != content(owner, index)) as u32;
        word.store(u64::MAX, Order::Weak, Scope::Device);
    }
    wrong
}

/// Pools with the names that `phalanx_kernels` uses.
mod pools {
    use super::{CheckStamps, Light, Spread, Stamp};
    use simt::Kernel;

    /// Declares the entry points of a kernel for each pool type.
    macro_rules! entries {
        ($($symbol:ident: $kernel:ident<$pool:ty>;)*) => {$(
            #[cfg(target_arch = "nvptx64")]
            #[unsafe(no_mangle)]
            #[allow(improper_ctypes_definitions, missing_docs)]
            pub extern "ptx-kernel" fn $symbol(arguments: $kernel<$pool>) {
                Kernel::run(arguments);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            const _: &str = <$kernel<$pool> as Kernel>::NAME;
        )*};
    }

    entries! {
        stamp__spread_128: Stamp<Spread<128>>;
        stamp__spread_256: Stamp<Spread<256>>;
        stamp__light_128: Stamp<Light<128>>;
        stamp__light_256: Stamp<Light<256>>;
        check_stamps__spread_128: CheckStamps<Spread<128>>;
        check_stamps__spread_256: CheckStamps<Spread<256>>;
        check_stamps__light_128: CheckStamps<Light<128>>;
        check_stamps__light_256: CheckStamps<Light<256>>;
    }
}

simt::instances! {
    named {
        alone: Alone<Spread<128>>,
        tiles_of_1: Tiles<Light<256>, 1, Lockstep>,
        tiles_of_4: Tiles<Spread<128>, 4, Lockstep>,
        tiles_of_8: Tiles<Light<256>, 8, Independent>,
        tiles_of_32: Tiles<Light<256>, 32, Lockstep>,
        warps: Tiles<Spread<128>, 32, Independent>,
    }
    kernels { Churn }
}

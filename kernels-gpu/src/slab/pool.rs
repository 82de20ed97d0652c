//! Pools as kernels see them: what every pool does, and the two ways from a handle to an address.
use super::bitmaps::Bitmaps;
use super::handle::Handle;
use super::search::search;
use simt::{Global, Instance, Order, Scope};

/// Super blocks of a [`Spread`] pool at most.
pub const MOST_SUPER_BLOCKS: usize = 255;

/// A pool of slabs, by value: the view that kernels take.
///
/// ```
/// use phalanx_kernels::slab::{Handle, Pool};
/// use simt::{Order, Scope};
///
/// /// A list's append, its memory being any pool's.
/// fn first_word_of_a_new_slab<P: Pool>(pool: P, seed: u32) -> Option<(Handle, u64)> {
///     let handle = pool.allocate(seed)?;
///     // SAFETY: the pool has just given the handle.
///     let slab = unsafe { pool.slab(handle) };
///     Some((handle, slab.load(Order::Relaxed, Scope::Device)))
/// }
/// ```
///
/// # Concurrency
/// All functions may run beside all others, of any launch. No slab is given to two lanes. Their accesses are
/// relaxed; what that leaves to callers:
/// - *A slab that was written, freed, and given anew in one launch.* The lane that frees it puts a
///   [`fence`](simt::fence)`(Scope::Device)` between its last access to the slab and [`Self::free`], and the
///   lane that gets it puts one behind [`Self::allocate`]; a tile calls
///   [`Resident::fence`](super::Resident::fence) behind its allocation. Neither is needed for slabs whose
///   free and next allocation have a launch boundary between them, nor for one that goes back untouched.
/// - *A slab that others may still read* is not freed but [retired](Self::retire).
///
/// # Contents
/// The pool never touches a slab. New ones are filled by the host with a byte; that **free slabs are blank**
/// is a promise of the structure on top, which blanks what it frees.
///
/// # Safety
/// - [`Self::slab`] gives [`Self::BYTES`] bytes of live memory for every handle that [`Self::handle`] gives
///   for a number below [`Self::units`], aligned to as many, and no two of them overlap.
pub unsafe trait Pool: Copy + Send + Sync + 'static {
    /// Bytes of a slab: 128 or 256.
    const BYTES: usize;

    /// Whether all slabs lie in one piece: there is one super block, and no table.
    const CONTIGUOUS: bool;

    /// A pool in memory that its host has made. `shift` is the binary logarithm of a super block's slabs.
    ///
    /// # Safety
    /// - As [`Light::new`] and [`Spread::new`].
    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self;

    /// The bitmaps.
    fn bitmaps(self) -> Bitmaps;

    /// Returns the address of the slab: [`Self::BYTES`] bytes, aligned to as many. The handle is not checked.
    ///
    /// # Safety
    /// - [`Self::number`] of `handle` is `Some`, or nothing is accessed through the returned pointer.
    /// - What the caller writes to a slab of a structure keeps it a node of that structure.
    unsafe fn slab(self, handle: Handle) -> Global<u64>;

    /// The slab's number, from 0; none if the pool has no such slab.
    fn number(self, handle: Handle) -> Option<u32>;

    /// The handle of the slab `number`, which is below [`Self::units`].
    fn handle(self, number: u32) -> Handle;

    /// Sets bits of a word of the live slabs and gives what stood there: those bits that were not set are
    /// slabs that the caller now has. The one way to a slab, by which all allocations go. Relaxed.
    ///
    /// # Safety
    /// - `index` is below [`Bitmaps::words_for`] of [`Self::units`].
    #[inline(always)]
    #[track_caller]
    unsafe fn take(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.bitmaps().take(index, bits) }
    }

    /// Clears bits of a word of the live slabs and gives what stood there: those bits that were not set were
    /// not live. The one way back. Relaxed.
    ///
    /// # Safety
    /// - `index` is below [`Bitmaps::words_for`] of [`Self::units`].
    /// - The bits that are cleared are of slabs of the pool that nothing uses any more.
    #[inline(always)]
    #[track_caller]
    unsafe fn give(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.bitmaps().give(index, bits) }
    }

    /// Allocates a slab, by the calling lane alone, wherever other lanes are. `None` where
    /// [`LOOKS`](super::LOOKS) looks found none free.
    ///
    /// Lanes that allocate at the same time should have different seeds: equal ones are correct, but meet at
    /// the same words.
    #[inline(always)]
    #[track_caller]
    fn allocate(self, seed: u32) -> Option<Handle> {
        let handle = self.handle(search(self, seed)?);
        // SAFETY: the handle of a number that the search found; nothing is accessed.
        simt::unpoison(|| unsafe { self.slab(handle) });
        Some(handle)
    }

    /// [`Self::allocate`] for a node of a layer, 0 being that of the data: pools that keep layers apart take
    /// it from the layer's own part.
    #[inline(always)]
    #[track_caller]
    fn allocate_in(self, _layer: u32, seed: u32) -> Option<Handle> {
        self.allocate(seed)
    }

    /// Whether slab `number` is of the part from which [`Self::allocate_in`] takes a layer's slabs as long as
    /// it has some.
    #[inline(always)]
    fn is_for(self, _number: u32, _layer: u32) -> bool {
        true
    }

    /// Hangs a new slab at the end of a list, by the calling lane alone: `link` is the place of the last
    /// slab's link. Returns the slab that follows now, which is another lane's where that was faster, or none
    /// where the pool has none. The one way to link slabs.
    ///
    /// The compare-and-swap is relaxed: who follows the link finds a slab that was blank when the launch
    /// began (see *Contents*). One that another lane made superfluous goes back untouched.
    #[inline(always)]
    #[track_caller]
    fn extend(self, link: Global<u32>, seed: u32) -> Handle {
        let Some(handle) = self.allocate(seed) else { return Handle::NONE };
        let (none, new) = (Handle::NONE.to_word(), handle.to_word());
        match link.compare_exchange(none, new, Order::Relaxed, Scope::Device) {
            Ok(_) => handle,
            Err(other) => {
                self.free(handle);
                Handle::from_word(other)
            }
        }
    }

    /// Frees a slab, by the calling lane alone. What is no live slab of the pool is left alone and counted as
    /// a fault ([`simt::fault`]: the emulator ends the launch).
    #[inline(always)]
    #[track_caller]
    fn free(self, handle: Handle) {
        match self.number(handle) {
            Some(number) => {
                let bit = 1 << (number % 32);
                // SAFETY: `number` is below the pool's slabs; the caller has the slab, or a fault is counted.
                let old = unsafe { self.give(number / 32, bit) };
                self.bitmaps().check_freed(old, bit, 1);
            }
            None => self.bitmaps().fault(1, "a slab was freed that the pool does not have"),
        }
    }

    /// Marks a slab that is unlinked but may still be read: it stays live until the host reclaims. Faults are
    /// as in [`Self::free`]. A retired slab must not be freed.
    #[inline(always)]
    #[track_caller]
    fn retire(self, handle: Handle) {
        match self.number(handle) {
            Some(number) => self.bitmaps().retire(number),
            None => self.bitmaps().fault(1, "a slab was retired that the pool does not have"),
        }
    }

    /// Whether the handle names a slab that is allocated. Retired ones are, until they are reclaimed.
    #[inline(always)]
    #[track_caller]
    fn is_live(self, handle: Handle) -> bool {
        match self.number(handle) {
            Some(number) => self.bitmaps().is_live(number),
            None => false,
        }
    }

    /// Slabs in the pool, free ones too: scans go over the numbers below.
    #[inline(always)]
    fn units(self) -> usize {
        self.bitmaps().units() as usize
    }
}

/// Where the super blocks of a pool lie.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Supers {
    /// The first one, or the only one.
    pub first: *mut u64,
    /// How many lie in one piece from the first on, which is one of them.
    pub joined: u32,
    /// The table of the addresses of all, those among them. A pool in one piece does not read it.
    pub table: *mut u64,
}

/// Super blocks of one size, wherever they lie: their addresses are in a table. A pool that grows in place.
///
/// The super blocks that a pool is made with lie in one piece, if they lie on one tier of memory; its address
/// comes with the launch. The addresses of others are in a table of 2 KiB, which is read by weak loads
/// because launches do not change it. Where kernels acquire they empty the cache of the multiprocessor, so
/// such loads often go to the L2 cache, and all of them to one line there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Spread<const BYTES: usize> {
    bitmaps: Bitmaps,
    first: Global<u64>,
    table: Global<u64>,
    shift: u32,
    /// Slabs of a super block, for addresses: to multiply takes fewer instructions than to shift.
    each: u32,
    joined: u32,
}

impl<const BYTES: usize> Spread<BYTES> {
    /// A pool whose super blocks of `2^shift` slabs lie where `supers` says.
    ///
    /// # Safety
    /// - `supers.table` points to [`MOST_SUPER_BLOCKS`] + 1 words of device memory which lives as long as the
    ///   view is used, and which nothing writes meanwhile.
    /// - Each of the super blocks that `bitmaps` has slabs of is live memory of this device, aligned to
    ///   `BYTES`; the first `supers.joined` lie one behind the other.
    /// - `shift` is 5 to [`Handle::SLAB_BITS`], and `bitmaps` has at most [`MOST_SUPER_BLOCKS`] times as many
    ///   slabs.
    pub unsafe fn new(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller's promise.
        let (first, table) = unsafe { (Global::new(supers.first), Global::new(supers.table)) };
        Self { bitmaps, first, table, shift, each: 1 << shift, joined: supers.joined }
    }
}

// SAFETY: `new` asks for super blocks of so many slabs.
unsafe impl<const BYTES: usize> Pool for Spread<BYTES> {
    const BYTES: usize = BYTES;
    const CONTIGUOUS: bool = false;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { Self::new(bitmaps, supers, shift) }
    }

    #[inline(always)]
    fn bitmaps(self) -> Bitmaps {
        self.bitmaps
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        let (super_block, slab) = (handle.super_block(), handle.slab());
        let number = super_block.wrapping_mul(self.each).wrapping_add(slab);
        let mut address = self.first.as_ptr().expose_provenance() + number as usize * BYTES;
        if super_block >= self.joined {
            // SAFETY: the table has an entry for every number of 8 bits.
            let entry = unsafe { self.table.offset(super_block as usize) };
            address = entry.load(Order::Weak, Scope::Device) as usize + slab as usize * BYTES;
        }
        // SAFETY: by the caller's promise the handle is the pool's, so a live slab is there.
        unsafe { Global::new(core::ptr::with_exposed_provenance_mut(address)) }
    }

    #[inline(always)]
    fn number(self, handle: Handle) -> Option<u32> {
        let number = handle.super_block() << self.shift | handle.slab();
        let fits = handle.slab() >> self.shift == 0 && number < self.bitmaps.units();
        (fits && handle.super_block() < MOST_SUPER_BLOCKS as u32).then_some(number)
    }

    #[inline(always)]
    fn handle(self, number: u32) -> Handle {
        let (base, slab) = (number >> self.shift, number & ((1 << self.shift) - 1));
        Handle::from_word(base << Handle::SLAB_BITS | slab)
    }
}

/// One contiguous super block of any size: the address is one multiplication. A handle is the slab's number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Light<const BYTES: usize> {
    bitmaps: Bitmaps,
    base: Global<u64>,
}

impl<const BYTES: usize> Light<BYTES> {
    /// A pool of the slabs from `base` on.
    ///
    /// # Safety
    /// - `base` points to `BYTES` bytes of live device memory for each slab of `bitmaps`, aligned to `BYTES`.
    pub unsafe fn new(bitmaps: Bitmaps, base: *mut u64) -> Self {
        // SAFETY: the caller's promise.
        Self { bitmaps, base: unsafe { Global::new(base) } }
    }
}

// SAFETY: `new` asks for so many slabs.
unsafe impl<const BYTES: usize> Pool for Light<BYTES> {
    const BYTES: usize = BYTES;
    const CONTIGUOUS: bool = true;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, _shift: u32) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { Self::new(bitmaps, supers.first) }
    }

    #[inline(always)]
    fn bitmaps(self) -> Bitmaps {
        self.bitmaps
    }

    #[inline(always)]
    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        // SAFETY: by the caller's promise the handle is the pool's, so a live slab is there.
        unsafe { self.base.offset(handle.to_word() as usize * (BYTES / 8)) }
    }

    #[inline(always)]
    fn number(self, handle: Handle) -> Option<u32> {
        (handle.to_word() < self.bitmaps.units()).then_some(handle.to_word())
    }

    #[inline(always)]
    fn handle(self, number: u32) -> Handle {
        Handle::from_word(number)
    }
}

/// Whom [`super::visit`] shows the kind of pool that a name means.
pub trait Visitor {
    /// What it makes of it.
    type Output;
    /// Sees the kind.
    fn visit<P: Pool + Instance>(self) -> Self::Output;
}

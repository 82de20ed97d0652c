//! Pools as kernels see them: the operations of every pool, the search for a free slab by a single lane, and
//! the two ways to compute an address from a handle.
use super::bitmaps::Bitmaps;
use super::bits::first_from;
use super::handle::Handle;
use super::probes::{MAX_PROBES, Walk};
use simt::{Global, Instance, Name, Order, Scope, device};

/// Maximum number of super blocks of a [`Spread`] pool.
pub const MOST_SUPER_BLOCKS: usize = 255;

/// A pool of slabs: the view that kernels take by value.
///
/// ```
/// use phalanx_kernels::slab::{Handle, Pool};
/// use simt::{Order, Scope};
///
/// /// Allocates a slab from any pool and reads its first word.
/// fn first_word_of_a_new_slab<P: Pool>(pool: P, seed: u32) -> Option<(Handle, u64)> {
///     let handle = pool.allocate(seed)?;
///     // SAFETY: the pool has just returned the handle.
///     let slab = unsafe { pool.slab(handle) };
///     Some((handle, slab.load(Order::Relaxed, Scope::Device)))
/// }
/// ```
///
/// ```
/// use phalanx_kernels::slab::{Bitmaps, Handle, Pool, Supers};
/// use simt::Global;
///
/// /// Makes a pool, extends a list of its slabs, and removes a slab that others may still read.
/// ///
/// /// # Safety
/// /// - As for `Pool::from_parts`. `link` is the link of the last slab of a list of this pool.
/// unsafe fn exchange_last<P: Pool>(
///     (bitmaps, supers, shift): (Bitmaps, Supers, u32),
///     link: Global<u32>,
///     unlinked: Handle,
/// ) -> P {
///     // SAFETY: the caller's obligation.
///     let pool = unsafe { P::from_parts(bitmaps, supers, shift) };
///     assert_eq!(pool.bitmaps().units() as usize, pool.units());
///     if !pool.extend(link, 7).is_none() && pool.is_live(unlinked) {
///         pool.retire(unlinked); // or `free`, if nothing reads it
///     }
///     pool
/// }
///
/// /// Allocates a slab for an index layer and frees `spare`. If there is none, it takes `spare` again,
/// /// unless another lane has taken it meanwhile.
/// ///
/// /// # Safety
/// /// - The caller owns `spare`.
/// unsafe fn allocate_or_exchange<P: Pool>(pool: P, spare: Handle, seed: u32) -> Option<Handle> {
///     let own = pool.allocate_in(1, seed);
///     let Some(number) = pool.number(spare).filter(|&number| own.is_none() && pool.is_for(number, 1)) else {
///         pool.free(spare);
///         return own;
///     };
///     let bit = 1 << (number % 32);
///     // SAFETY: the bit of a slab that the caller owns. Another lane may take it in between.
///     let old = unsafe {
///         pool.give(number / 32, bit);
///         pool.take(number / 32, bit)
///     };
///     (old & bit == 0).then_some(spare)
/// }
/// ```
///
/// # Concurrency
/// All functions may run concurrently with all others, of any launch. No slab is allocated to two lanes. All
/// accesses are relaxed, which leaves these obligations to callers:
/// - *A slab that is written, freed and allocated again within one launch.* The lane that frees it executes a
///   [`fence`](simt::fence)`(Scope::Device)` between its last access to the slab and [`Self::free`], and the
///   lane that receives it executes one after [`Self::allocate`]; a tile calls
///   [`Resident::fence`](super::Resident::fence) after its allocation. Neither fence is needed if a launch
///   boundary lies between the free and the next allocation, nor if the slab is freed untouched.
/// - *A slab that others may still read* is not freed but [retired](Self::retire).
///
/// # Contents
/// The pool never accesses a slab. The host fills new slabs with a byte. That **free slabs are blank** is an
/// invariant of the structure that uses the pool: it blanks each slab that it frees.
///
/// # Safety
/// - For every handle that [`Self::handle`] returns for a number below [`Self::units`], [`Self::slab`]
///   returns the address of [`Self::BYTES`] bytes of live memory, aligned to [`Self::BYTES`]; no two slabs
///   overlap.
#[device(caller)]
pub unsafe trait Pool: Instance + Send + Sync {
    /// Number of bytes of a slab: 128 or 256.
    const BYTES: usize;

    /// Whether all slabs are contiguous: there is one super block and no table.
    const CONTIGUOUS: bool;

    /// Whether nothing writes to the slabs while kernels run: their loads may then come from the L1 cache.
    /// See [`Phased`].
    const FROZEN: bool = false;

    /// Returns a pool in memory that the host has allocated. `shift` is the binary logarithm of the number of
    /// slabs of a super block.
    /// # Safety
    /// - As [`Light::new`] and [`Spread::new`].
    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self;

    /// Returns the bitmaps.
    fn bitmaps(self) -> Bitmaps;

    /// Returns the address of the slab: [`Self::BYTES`] bytes, aligned to [`Self::BYTES`]. The handle is not
    /// checked.
    ///
    /// # Safety
    /// - [`Self::number`] of `handle` is `Some`, or nothing is accessed through the returned pointer.
    /// - Whatever the caller writes to a slab of a structure leaves it a valid node of that structure.
    unsafe fn slab(self, handle: Handle) -> Global<u64>;

    /// Returns the slab's number, from 0, or `None` if the pool has no such slab.
    fn number(self, handle: Handle) -> Option<u32>;

    /// Returns the handle of slab `number`, which is below [`Self::units`].
    fn handle(self, number: u32) -> Handle;

    /// Sets bits of a word of the live bitmap and returns its previous value: each of `bits` that was clear
    /// is a slab that the caller now owns. All allocations use this function. Relaxed.
    ///
    /// # Safety
    /// - `index` is below [`Bitmaps::words_for`] of [`Self::units`].
    unsafe fn take(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { self.bitmaps().take(index, bits) }
    }

    /// Clears bits of a word of the live bitmap and returns its previous value: each of `bits` that was clear
    /// was not live. All frees use this function. Relaxed.
    ///
    /// # Safety
    /// - `index` is below [`Bitmaps::words_for`] of [`Self::units`].
    /// - The cleared bits are those of slabs of the pool that nothing uses any more.
    unsafe fn give(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { self.bitmaps().give(index, bits) }
    }

    /// Allocates a slab by the calling lane alone, with no requirement on other lanes. Returns `None` if
    /// [`MAX_PROBES`] probes of the bitmap found no free slab.
    ///
    /// Lanes that allocate at the same time should have different seeds: equal seeds are correct, but the
    /// lanes contend for the same words.
    fn allocate(self, seed: u32) -> Option<Handle> {
        let handle = self.handle(search(self, seed)?);
        // SAFETY: the search returned the number of a slab of the pool; nothing is accessed.
        simt::unpoison(|| unsafe { self.slab(handle) });
        Some(handle)
    }

    /// As [`Self::allocate`], for a node of a layer; layer 0 is that of the data. Pools with separate layers
    /// allocate from the layer's own part first.
    fn allocate_in(self, _layer: u32, seed: u32) -> Option<Handle> {
        self.allocate(seed)
    }

    /// Returns whether slab `number` is in the part from which [`Self::allocate_in`] allocates first for
    /// `layer`.
    #[device]
    fn is_for(self, _number: u32, _layer: u32) -> bool {
        true
    }

    /// Appends a new slab to a list, by the calling lane alone. `link` is the location of the last slab's
    /// link. Returns the slab that now follows, which is another lane's if that lane was faster, or
    /// [`Handle::NONE`] if the pool has none left. All lists are extended by this function.
    ///
    /// The compare-and-swap is relaxed: a reader of the link finds a slab that was blank when the launch
    /// began (see *Contents*). If another lane was faster, the new slab is freed untouched.
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

    /// Frees a slab by the calling lane alone. If the handle names no live slab of the pool, nothing is freed
    /// and a fault is counted ([`simt::fault`]: the emulator ends the launch).
    fn free(self, handle: Handle) {
        match self.number(handle) {
            Some(number) => {
                let bit = 1 << (number % 32);
                // SAFETY: `number` is below the number of slabs; the caller owns the slab, or a fault is
                // counted.
                let old = unsafe { self.give(number / 32, bit) };
                self.bitmaps().check_freed(old, bit, 1);
            }
            None => self.bitmaps().fault(1, "a slab was freed that the pool does not have"),
        }
    }

    /// Marks a slab that is unlinked but may still be read: it stays live until the host reclaims it. Faults
    /// are counted as in [`Self::free`]. A retired slab must not be freed.
    fn retire(self, handle: Handle) {
        match self.number(handle) {
            Some(number) => self.bitmaps().retire(number),
            None => self.bitmaps().fault(1, "a slab was retired that the pool does not have"),
        }
    }

    /// Returns whether the handle names an allocated slab. Retired slabs count as allocated until they are
    /// reclaimed.
    fn is_live(self, handle: Handle) -> bool {
        match self.number(handle) {
            Some(number) => self.bitmaps().is_live(number),
            None => false,
        }
    }

    /// Returns the number of slabs in the pool, free ones included. Scans cover the numbers below it.
    #[device]
    fn units(self) -> usize {
        self.bitmaps().units() as usize
    }
}

/// Takes a free slab by the calling lane alone, with no requirement on other lanes, and returns the slab's
/// number. Bounded: see [`MAX_PROBES`].
///
/// The first probe is blind: it sets a bit, and the previous value has the information of a load. So in a
/// pool that is not nearly full an allocation costs one access.
#[device(caller)]
pub(super) fn search<P: Pool>(pool: P, seed: u32) -> Option<u32> {
    search_in(pool, 0, pool.bitmaps().words(), seed)
}

/// As [`search`], in the `words` words of the bitmap from word `first` on, which must exist.
#[device(caller)]
pub(super) fn search_in<P: Pool>(pool: P, first: u32, words: u32, seed: u32) -> Option<u32> {
    let mut walk = Walk::new(seed);
    let mut free = u32::MAX;
    for _ in 0..most_probes() {
        if free == 0 {
            walk.go_on();
            // SAFETY: the index is that of a word of the bitmap.
            free = !unsafe { pool.bitmaps().load_free(first + walk.word(words)) };
        }
        if free != 0 {
            let (index, bit) = (first + walk.word(words), first_from(free, walk.mixed));
            // SAFETY: the index is that of a word of the bitmap.
            let old = unsafe { pool.take(index, 1 << bit) };
            if old >> bit & 1 == 0 {
                return Some(index * 32 + bit);
            }
            free = !old;
        }
    }
    None
}

/// Returns the number of probes of a search. A function of its own, so that the bound has one site.
#[device]
fn most_probes() -> u32 {
    // mutation: less more unreached, because 255 probes look at each word of a bitmap of up to 64 words, as a
    // test of `probes` shows, and pools of explorers are smaller.
    simt::bound(MAX_PROBES)
}

/// Addresses of the super blocks of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Supers {
    /// Address of the first or only super block.
    pub first: *mut u64,
    /// Number of super blocks that are contiguous from the first on, the first included.
    pub joined: u32,
    /// Table of the addresses of all super blocks, including the contiguous ones. A contiguous pool does not
    /// read it.
    pub table: *mut u64,
}

/// A growable pool: super blocks of equal size at arbitrary addresses, which are listed in a table.
///
/// The super blocks that a pool is created with are contiguous if they lie on one tier of memory; their
/// address is a launch argument. The addresses of the others are in a table of 2 KiB, read by weak loads
/// because it does not change during launches. Acquires in kernels empty the cache of the multiprocessor, so
/// such loads often go to the L2 cache, and all of them to one line there.
///
/// ```
/// use phalanx_kernels::slab::{Bitmaps, Spread, Supers};
///
/// /// Returns a pool of super blocks of 1024 slabs.
/// ///
/// /// # Safety
/// /// - As for `Spread::new`.
/// unsafe fn pool_of(bitmaps: Bitmaps, supers: Supers) -> Spread<128> {
///     // SAFETY: the caller's obligation.
///     unsafe { Spread::new(bitmaps, supers, 10) }
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Spread<const BYTES: usize> {
    bitmaps: Bitmaps,
    first: Global<u64>,
    table: Global<u64>,
    shift: u32,
    /// Number of slabs of a super block, for addresses: a multiplication takes fewer instructions than a
    /// shift.
    each: u32,
    joined: u32,
}

impl<const BYTES: usize> Spread<BYTES> {
    /// Returns a pool with super blocks of `2^shift` slabs at the addresses in `supers`.
    ///
    /// # Safety
    /// - `supers.table` points to [`MOST_SUPER_BLOCKS`] + 1 words of device memory that outlive all uses of
    ///   the view and that nothing writes meanwhile.
    /// - Each super block with slabs in `bitmaps` is live memory of this device, aligned to `BYTES`; the
    ///   first `supers.joined` are contiguous.
    /// - `shift` is 5 to [`Handle::SLAB_BITS`], and `bitmaps` has at most [`MOST_SUPER_BLOCKS`] times
    ///   `2^shift` slabs.
    pub unsafe fn new(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller's obligation.
        let (first, table) = unsafe { (Global::new(supers.first), Global::new(supers.table)) };
        Self { bitmaps, first, table, shift, each: 1 << shift, joined: supers.joined }
    }
}

impl<const BYTES: usize> Instance for Spread<BYTES> {
    const NAME: &'static str = const { &Name::of("spread").text("_").number(BYTES) }.as_str();
}

// SAFETY: `new` requires super blocks of `2^shift` slabs.
unsafe impl<const BYTES: usize> Pool for Spread<BYTES> {
    const BYTES: usize = BYTES;
    const CONTIGUOUS: bool = false;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { Self::new(bitmaps, supers, shift) }
    }

    #[device]
    fn bitmaps(self) -> Bitmaps {
        self.bitmaps
    }

    #[device(caller)]
    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        let (super_block, slab) = (handle.super_block(), handle.slab());
        let number = super_block.wrapping_mul(self.each).wrapping_add(slab);
        let mut address = self.first.as_ptr().expose_provenance() + number as usize * BYTES;
        if super_block >= self.joined {
            // SAFETY: the table has an entry for every 8-bit number.
            let entry = unsafe { self.table.offset(super_block as usize) };
            address = entry.load(Order::Weak, Scope::Device) as usize + slab as usize * BYTES;
        }
        // SAFETY: the caller promises that the handle is the pool's, so a live slab is there.
        unsafe { Global::new(core::ptr::with_exposed_provenance_mut(address)) }
    }

    #[device]
    fn number(self, handle: Handle) -> Option<u32> {
        let number = handle.super_block() << self.shift | handle.slab();
        let fits = handle.slab() >> self.shift == 0 && number < self.bitmaps.units();
        (fits && handle.super_block() < MOST_SUPER_BLOCKS as u32).then_some(number)
    }

    #[device]
    fn handle(self, number: u32) -> Handle {
        let (base, slab) = (number >> self.shift, number & ((1 << self.shift) - 1));
        Handle::from_word(base << Handle::SLAB_BITS | slab)
    }
}

/// One contiguous super block of any size: computing an address takes one multiplication. A handle is the
/// slab's number.
///
/// ```
/// use phalanx_kernels::slab::{Bitmaps, Light};
///
/// /// Returns a pool in one piece.
/// ///
/// /// # Safety
/// /// - As for `Light::new`.
/// unsafe fn pool_of(bitmaps: Bitmaps, base: *mut u64) -> Light<128> {
///     // SAFETY: the caller's obligation.
///     unsafe { Light::new(bitmaps, base) }
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Light<const BYTES: usize> {
    bitmaps: Bitmaps,
    base: Global<u64>,
}

impl<const BYTES: usize> Light<BYTES> {
    /// Returns a pool of the slabs from `base` on.
    ///
    /// # Safety
    /// - `base` points to `BYTES` bytes of live device memory for each slab of `bitmaps`, aligned to `BYTES`.
    pub unsafe fn new(bitmaps: Bitmaps, base: *mut u64) -> Self {
        // SAFETY: the caller's obligation.
        Self { bitmaps, base: unsafe { Global::new(base) } }
    }
}

impl<const BYTES: usize> Instance for Light<BYTES> {
    const NAME: &'static str = const { &Name::of("light").text("_").number(BYTES) }.as_str();
}

// SAFETY: `new` requires memory for each slab of `bitmaps`.
unsafe impl<const BYTES: usize> Pool for Light<BYTES> {
    const BYTES: usize = BYTES;
    const CONTIGUOUS: bool = true;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, _shift: u32) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { Self::new(bitmaps, supers.first) }
    }

    #[device]
    fn bitmaps(self) -> Bitmaps {
        self.bitmaps
    }

    #[device]
    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        // SAFETY: the caller promises that the handle is the pool's, so a live slab is there.
        unsafe { self.base.offset(handle.to_word() as usize * (BYTES / 8)) }
    }

    #[device]
    fn number(self, handle: Handle) -> Option<u32> {
        (handle.to_word() < self.bitmaps.units()).then_some(handle.to_word())
    }

    #[device]
    fn handle(self, number: u32) -> Handle {
        Handle::from_word(number)
    }
}
/// The pool `P` of lists that nothing writes while kernels run. Loads of nodes are weak, so they may come
/// from the L1 cache of the multiprocessor.
///
/// Kernels that write do not compile for lists of it. Lists are filled by kernels for `P` itself.
///
/// ```compile_fail
/// use phalanx_kernels::keyed::{Insert, Packed};
/// use phalanx_kernels::slab::list::{Lists, ListsView};
/// use phalanx_kernels::slab::{Phased, Spread};
/// use simt::Tile;
///
/// fn insert(lists: ListsView<Lists<Packed, Phased<Spread<128>>, 4, 4>>) {
///     lists.share(Tile::<4>::lockstep(), true, Insert, 1, 1);
/// }
///
/// let _insert = insert as fn(_);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Phased<P>(P);

impl<P: Pool> Instance for Phased<P> {
    const NAME: &'static str = const { &Name::of("phased").part(P::NAME) }.as_str();
}

// SAFETY: as the pool `P`.
#[device(caller)]
unsafe impl<P: Pool> Pool for Phased<P> {
    const BYTES: usize = P::BYTES;
    const CONTIGUOUS: bool = P::CONTIGUOUS;
    const FROZEN: bool = true;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller's obligation.
        Self(unsafe { P::from_parts(bitmaps, supers, shift) })
    }

    fn bitmaps(self) -> Bitmaps {
        self.0.bitmaps()
    }

    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        // SAFETY: the caller's obligation.
        unsafe { self.0.slab(handle) }
    }

    fn number(self, handle: Handle) -> Option<u32> {
        self.0.number(handle)
    }

    fn handle(self, number: u32) -> Handle {
        self.0.handle(number)
    }
}

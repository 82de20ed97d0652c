//! A pool of fixed-size slabs of device memory that kernels allocate and free. It is the memory of lists and
//! trees, and of your own structures of equal pieces.
mod batches;
mod builder;
mod kernels;
mod memory;

use crate::error::made_room;
use crate::{Error, Result};
pub use batches::Batches;
pub use builder::Builder;
use gpu::{Buffer, Device, Grid, Stream};
use kernels::Kernels;
use memory::{Memory, Shape};
use phalanx_kernels::slab::kernels::{SlabCount, SlabReclaim};
pub use phalanx_kernels::slab::{Handle, Light, Pool, Spread};
use simt::Instance;
use std::sync::{Mutex, PoisonError};

/// Slab counts of a pool. `live + retired + free` is `capacity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Total number of slabs.
    pub capacity: usize,
    /// Allocated slabs, without the retired ones.
    pub live: usize,
    /// Slabs that can be allocated.
    pub free: usize,
    /// Slabs that [`SlabAlloc::reclaim`] will free.
    pub retired: usize,
    /// Number of faults since the pool was created: a slab was freed or retired while it was not live, or
    /// retired twice, or a handle named no slab of the pool. Such requests have no other effect.
    pub faults: u64,
}

/// A pool of slabs of 128 or 256 bytes in device memory, which kernels allocate and free.
///
/// The structure is that of the slab-hash paper, section V: super blocks of memory blocks of 1024 slabs, and
/// a bit per slab. See `docs/structures/slab-alloc.md` for layout, algorithms and costs.
///
/// Usually kernels take the pool's view ([`SlabAlloc::view`]); there are batches as well:
///
/// ```
/// use phalanx::SlabAlloc;
///
/// let mut pool = SlabAlloc::builder().super_block_slabs(1024).build()?;
/// let handles = pool.allocate(1000)?;
/// assert_eq!((handles.len(), pool.stats()?.free), (1000, 24));
/// pool.grow(1)?;
/// assert_eq!(pool.capacity(), 2048);
/// pool.free(&handles)?;
/// pool.close()?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SlabAlloc;
/// use phalanx::kernels::slab::Spread;
///
/// let mut pool = SlabAlloc::with_capacity(1)?;
/// assert_eq!((pool.kind(), pool.slab_bytes()), ("spread_128", 128));
/// assert!(pool.memory_usage() > pool.capacity() * pool.slab_bytes());
/// let stream = pool.device().stream()?;
/// let mut handles = pool.device().buffer::<u32>(64)?;
/// pool.on(&stream).allocate(&mut handles)?; // does not block
/// assert_eq!(pool.bitmap()?.iter().map(|word| word.count_ones()).sum::<u32>(), 64);
/// let slabs = pool.allocate(10)?;
/// pool.retire(&slabs)?; // other threads may still read them
/// assert_eq!((pool.stats()?.retired, pool.reclaim()?), (10, 10));
/// // SAFETY: no kernel takes this view.
/// let _view = unsafe { pool.view::<Spread<128>>()? };
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Batches, and kernels that have the view, may run concurrently. Operations that change the pool as a whole
/// take `&mut self` and wait for the device.
///
/// # Cost
///
/// A warp that allocates 32 slabs reads one line of the bitmap and executes one atomic instruction; a single
/// lane needs 1 + fill atomics on average, up to fill 0.95. A warp that frees in the order of allocation
/// executes 1 to 2 atomics, in random order 32. Calls:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | allocates the slabs and 2 bits of bitmaps per slab, and writes each byte once |
/// | `allocate` | allocates a buffer of 4 bytes per handle; one launch; waits; copies the handles to the host |
/// | `free`, `retire` | allocates such a buffer and copies the handles to the device; one launch; waits |
/// | `stats`, `reclaim` | waits for the device; one launch reads both bitmaps; copies the counts |
/// | `bitmap` | waits for the device, copies a bit per slab |
/// | `view` | O(1) on the host; no launch |
/// | `grow` | waits for the device; allocates and writes the new super blocks and new bitmaps, and copies the old bitmaps; a light pool copies all slabs too |
/// | `close` | `reclaim` and `stats`, then frees the memory |
pub struct SlabAlloc {
    device: Device,
    kernels: &'static dyn Kernels,
    shape: Shape,
    budget: usize,
    memory: Memory,
    seed: Mutex<u32>,
}

impl std::fmt::Debug for SlabAlloc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlabAlloc")
            .field("kind", &self.kernels.name())
            .field("capacity", &self.capacity())
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction and properties.
impl SlabAlloc {
    /// Creates a pool on [`Device::from_environment`] of at least `slabs` slabs of 128 bytes.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn with_capacity(slabs: usize) -> Result<Self> {
        Self::builder().capacity(slabs).build()
    }

    /// Returns a builder to set the parameters.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the device that holds the pool.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the kind of pool, by the name of its kernels: `spread_128`, `light_256` and so on.
    pub fn kind(&self) -> &'static str {
        self.kernels.name()
    }

    /// Returns the bytes per slab.
    pub fn slab_bytes(&self) -> usize {
        self.shape.slab_bytes
    }

    /// Returns the number of slabs, including free ones.
    pub fn capacity(&self) -> usize {
        self.memory.units()
    }

    /// Returns the bytes of device memory that the pool holds.
    pub fn memory_usage(&self) -> usize {
        self.memory.memory_usage()
    }

    /// Counts the pool's slabs. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.device.synchronize()?;
        let counts = self.device.zeroed::<u64>(2)?;
        let count = SlabCount { bitmaps: self.memory.bitmaps(), counts: counts.global() };
        self.scan(count)?;
        let counts = counts.read()?;
        let (capacity, live, retired) = (self.capacity(), counts[0] as usize, counts[1] as usize);
        let free = capacity - live - retired;
        Ok(Stats { capacity, live, free, retired, faults: self.memory.faults()? })
    }

    /// Launches a kernel with a thread for each word of the bitmaps, and waits for it.
    fn scan<K: gpu::Kernel + Send + Sync + 'static>(&self, kernel: K) -> Result<()> {
        let grid = Grid::for_items(self.capacity() / 32, kernels::THREADS);
        let stream = self.device.default_stream();
        // SAFETY: the pool's memory and the caller's buffers outlive the kernel, since this function waits
        // for it.
        unsafe { stream.launch(grid, kernel)? };
        Ok(stream.synchronize()?)
    }

    /// Returns the bitmap of allocated slabs, including retired ones: bit `s % 32` of word `s / 32` for slab
    /// number `s`. In a light pool, and in one with super blocks of the maximum size, the number is the word
    /// of the slab's handle. For tests and for finding leaks. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn bitmap(&self) -> Result<Vec<u32>> {
        self.memory.live()
    }

    /// Returns the pool as kernels of the kind `P` take it, for structures whose memory it is.
    ///
    /// # Safety
    /// - The pool is of this kind, and neither grows nor is dropped while the view is used.
    pub(crate) unsafe fn as_view<P: Pool>(&self) -> P {
        // SAFETY: the caller's obligations.
        unsafe { self.memory.view() }
    }

    /// Returns the handle of a slab number.
    fn handle(&self, number: usize) -> Handle {
        let (base, slab) = (number >> self.shape.shift, number & ((1 << self.shape.shift) - 1));
        let word = if self.shape.light { number } else { base << Handle::SLAB_BITS | slab };
        Handle::from_word(word as u32)
    }

    /// Returns a view of the pool for your own kernels. `P` is the kind that [`Self::kind`] names.
    ///
    /// # Errors
    /// [`Error::OtherPool`] if the pool is of another kind.
    ///
    /// # Safety
    /// The view does not keep the pool alive or at its address:
    /// - From this call until the last kernel that takes the view has ended, the pool must live, and no
    ///   method may take it by `&mut self`.
    /// - Those kernels must run on the pool's device, and may call [`Pool::slab`] only with handles that the
    ///   pool returned.
    pub unsafe fn view<P: Pool + Instance>(&self) -> Result<P> {
        if P::NAME != self.kind() {
            return Err(Error::OtherPool { asked: P::NAME, found: self.kind() });
        }
        // SAFETY: of this kind; the caller keeps the pool.
        Ok(unsafe { self.memory.view() })
    }
}

/// Batches.
impl SlabAlloc {
    /// Returns the batches on device buffers, submitted to a stream of the pool's device.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a> {
        Batches::new(self, stream)
    }

    /// Allocates `count` slabs, or fewer if the pool is full: then it returns fewer handles. Waits.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn allocate(&self, count: usize) -> Result<Vec<Handle>> {
        let mut words = self.device.buffer(count)?;
        self.on(&self.device.default_stream()).allocate(&mut words)?;
        Ok(words.read()?.into_iter().filter_map(|word| Handle::from_word(word).some()).collect())
    }

    /// Frees slabs. Waits. A handle of a slab that is not live has no effect except that it is counted in
    /// [`Stats::faults`]; the emulator reports the place in the kernel.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn free(&self, handles: &[Handle]) -> Result<()> {
        let words = self.device.from_slice(&words_of(handles))?;
        let stream = self.device.default_stream();
        self.on(&stream).free(&words)?;
        Ok(stream.synchronize()?)
    }

    /// Retires slabs that are unlinked but may still be read: [`Self::reclaim`] will free them. Waits. Faults
    /// are as for [`Self::free`].
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn retire(&self, handles: &[Handle]) -> Result<()> {
        let words = self.device.from_slice(&words_of(handles))?;
        let stream = self.device.default_stream();
        self.on(&stream).retire(&words)?;
        Ok(stream.synchronize()?)
    }

    /// Returns another number for each launch, so that each begins its search at another slab.
    fn next_seed(&self) -> u32 {
        let mut seed = self.seed.lock().unwrap_or_else(PoisonError::into_inner);
        *seed = seed.wrapping_add(1);
        *seed
    }
}

/// Returns the result of `make` for the first of the sizes for which there is memory.
pub(crate) fn first_that_fits<T>(sizes: &[usize], mut make: impl FnMut(usize) -> Result<T>) -> Result<T> {
    let mut last = Error::ZeroCapacity;
    for &size in sizes {
        match make(size) {
            Err(error) if error.is_lack_of_room() => last = error,
            made => return made,
        }
    }
    Err(last)
}

fn words_of(handles: &[Handle]) -> Vec<u32> {
    handles.iter().map(|handle| handle.to_word()).collect()
}

/// Operations on the whole pool.
impl SlabAlloc {
    /// Grows the pool by at least `slabs` slabs, in whole super blocks, filled with the pool's byte. Handles
    /// stay valid, but views must be created again. On error the pool is unchanged.
    ///
    /// # Errors
    /// [`Error::Zero`] if `slabs` is 0; [`Error::Budget`] if the slabs would exceed the budget;
    /// [`Error::TooManySlabs`] if handles cannot address that many slabs; [`Error::Device`] if the device is
    /// lost or lacks the memory.
    pub fn grow(&mut self, slabs: usize) -> Result<()> {
        if slabs == 0 {
            return Err(Error::Zero { what: "slabs" });
        }
        let supers = self.shape.supers_within(self.capacity(), slabs, self.budget)?;
        self.device.synchronize()?;
        self.memory.grow(&self.device, supers)
    }

    /// Grows the pool by `wanted` slabs or, if there is no memory for them, by `needed` ones or by one super
    /// block. Returns `false` if the budget or the device's memory is used up.
    pub(crate) fn grow_if_possible(&mut self, wanted: usize, needed: usize) -> Result<bool> {
        made_room(first_that_fits(&[wanted, needed, 1], |slabs| self.grow(slabs)).map(|()| true))
    }

    /// Returns whether the pool has all super blocks that handles can address, whatever the budget.
    pub(crate) fn has_all_super_blocks(&self) -> bool {
        !self.has_super_blocks_for(1)
    }

    /// Returns whether handles can address `more` slabs in further super blocks, whatever the budget.
    pub(crate) fn has_super_blocks_for(&self, more: usize) -> bool {
        self.shape.supers_within(self.capacity(), more, usize::MAX).is_ok()
    }

    /// Returns whether the first super block is on another tier than the others.
    pub(crate) fn has_tiers(&self) -> bool {
        self.shape.first_tier != self.shape.tier
    }

    /// [`Self::larger`], with the first of the numbers of additional slabs for which there is memory.
    pub(crate) fn larger_by(&self, more: &[usize]) -> Result<Self> {
        first_that_fits(more, |more| self.larger(self.capacity() + more))
    }

    /// Creates a new pool of this kind with at least `slabs` slabs. Its super blocks are large enough that it
    /// can still grow many times, and small enough that it has few unneeded slabs.
    pub(crate) fn larger(&self, slabs: usize) -> Result<Self> {
        let least = 1 << self.shape.shift;
        let super_block = 1 << (slabs / 16).clamp(least, 1 << Handle::SLAB_BITS).ilog2();
        let Shape { slab_bytes, light, fill, first_tier, tier, .. } = self.shape;
        Self::builder()
            .device(&self.device)
            .capacity(slabs)
            .slab_bytes(slab_bytes)
            .super_block_slabs(super_block)
            .budget(self.budget)
            .light(light)
            .fill_byte(fill)
            .tiers(first_tier, tier)
            .build()
    }

    /// Frees all retired slabs. Waits for all earlier launches. Returns the number of freed slabs.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reclaim(&mut self) -> Result<usize> {
        let count = self.device.zeroed::<u64>(1)?;
        self.reclaim_counted(&count)
    }

    /// [`Self::reclaim`] without allocation: `count` is the caller's buffer of one word, which is 0. If the
    /// number cannot be copied, the slabs are reclaimed nevertheless.
    pub(crate) fn reclaim_counted(&mut self, count: &Buffer<u64>) -> Result<usize> {
        self.device.synchronize()?;
        self.scan(SlabReclaim { bitmaps: self.memory.bitmaps(), count: count.global() })?;
        Ok(count.read()?[0] as usize)
    }

    /// Frees the pool's memory, and returns an error if slabs are still live that were neither freed nor
    /// retired. (Dropping the pool does not check this.)
    ///
    /// # Errors
    /// [`Error::Leak`] with the first such slabs; [`Error::Device`] if the device is lost or lacks the
    /// memory. The memory is freed in any case.
    pub fn close(mut self) -> Result<()> {
        self.reclaim()?;
        let live = self.stats()?.live;
        if live == 0 {
            return Ok(());
        }
        Err(Error::Leak { live, first: self.first_live()? })
    }

    /// Returns the handles of the first live slabs, as text.
    fn first_live(&self) -> Result<String> {
        const SHOWN: usize = 4;
        let words = self.bitmap()?;
        let is_live = |number: &usize| words[number / 32] >> (number % 32) & 1 != 0;
        let first = (0..self.capacity()).filter(is_live).take(SHOWN);
        Ok(first.map(|number| format!("{:?}", self.handle(number))).collect::<Vec<_>>().join(", "))
    }
}

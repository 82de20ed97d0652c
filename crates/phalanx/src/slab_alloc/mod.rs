//! Slabs of device memory that kernels allocate and free: the memory of lists, and of anything else that is
//! made of equal pieces.
mod batches;
mod builder;
mod engine;
mod memory;

use crate::error::made_room;
use crate::{Error, Result};
pub use batches::Batches;
pub use builder::Builder;
use engine::Engine;
pub(crate) use engine::{Parts, view as view_of};
use gpu::{Buffer, Device, Grid, Stream};
use memory::{Memory, Shape};
use phalanx_kernels::slab::kernels::{SlabCount, SlabReclaim};
pub use phalanx_kernels::slab::{Handle, Light, Pool, Spread};
use simt::Instance;
use std::sync::{Mutex, PoisonError};

/// What a pool holds. `live + retired + free` is `capacity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Slabs.
    pub capacity: usize,
    /// Those that are allocated, without the retired ones.
    pub live: usize,
    /// Those that can be allocated.
    pub free: usize,
    /// Those that [`SlabAlloc::reclaim`] will free.
    pub retired: usize,
    /// Slabs that were freed or retired though they were not live, since the pool was made. Nothing was done
    /// for those.
    pub faults: u64,
}

/// A pool of slabs of 128 or 256 bytes in device memory, which kernels allocate and free.
///
/// The structure is that of the slab-hash paper, section V: super blocks of memory blocks of 1024 slabs, and
/// a bit a slab. See `docs/structures/slab-alloc.md` for layout, algorithms and costs.
///
/// Mostly its view is given to kernels ([`SlabAlloc::view`]); there are batches as well:
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
/// # Concurrency
/// Batches, and kernels that have the view, may run side by side. What changes the pool as a whole takes
/// `&mut self`, and waits for the device.
pub struct SlabAlloc {
    device: Device,
    engine: Box<dyn Engine>,
    shape: Shape,
    budget: usize,
    memory: Memory,
    seed: Mutex<u32>,
}

impl std::fmt::Debug for SlabAlloc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlabAlloc")
            .field("kind", &self.engine.name())
            .field("capacity", &self.capacity())
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Making one, and asking about it.
impl SlabAlloc {
    /// A pool on [`Device::from_environment`] of at least `slabs` slabs of 128 bytes.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn with_capacity(slabs: usize) -> Result<Self> {
        Self::builder().capacity(slabs).build()
    }

    /// All parameters.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The device that holds the pool.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kind of pool, by the name that its kernels have: `spread_128`, `light_256` and so on.
    pub fn kind(&self) -> &'static str {
        self.engine.name()
    }

    /// Bytes of a slab.
    pub fn slab_bytes(&self) -> usize {
        self.shape.slab_bytes
    }

    /// Slabs, free ones too.
    pub fn capacity(&self) -> usize {
        self.memory.units()
    }

    /// Bytes of device memory that the pool holds.
    pub fn memory_usage(&self) -> usize {
        self.memory.bytes()
    }

    /// Counts the pool's slabs, once the launches that were asked for before have ended; this waits for them.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.device.synchronize()?;
        let counts = self.device.zeroed::<u64>(2)?;
        let count = SlabCount { bitmaps: self.memory.bitmaps(), counts: counts.slice() };
        self.scan(count)?;
        let counts = counts.read()?;
        let (capacity, live, retired) = (self.capacity(), counts[0] as usize, counts[1] as usize);
        let free = capacity - live - retired;
        Ok(Stats { capacity, live, free, retired, faults: self.memory.faults()? })
    }

    /// Launches a kernel of a thread for each word of the bitmaps, and waits for it.
    fn scan<K: gpu::Kernel + Send + Sync + 'static>(&self, kernel: K) -> Result<()> {
        let grid = Grid::for_items(self.capacity() / 32, engine::THREADS);
        let stream = self.device.default_stream();
        // SAFETY: the pool's memory outlives the kernel, and so do the caller's buffers, for this waits.
        unsafe { stream.launch(grid, kernel)? };
        Ok(stream.synchronize()?)
    }

    /// Which slabs are allocated (retired ones are): bit `s % 32` of word `s / 32` for slab number `s`, which
    /// is the word of its handle in a light pool and in one with full super blocks. For tests, and for those
    /// who look for leaks. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn bitmap(&self) -> Result<Vec<u32>> {
        self.memory.live()
    }

    /// What views are made of.
    pub(crate) fn parts(&self) -> Parts {
        self.memory.parts()
    }

    /// The handle of slab number `number`.
    fn handle(&self, number: usize) -> Handle {
        let (base, slab) = (number >> self.shape.shift, number & ((1 << self.shape.shift) - 1));
        let word = if self.shape.light { number } else { base << Handle::SLAB_BITS | slab };
        Handle::from_word(word as u32)
    }

    /// The pool as kernels of your own take it: `P` is the kind that [`Self::kind`] names.
    ///
    /// # Errors
    /// [`Error::OtherPool`] when the pool is of another kind.
    ///
    /// # Safety
    /// The view does not keep the pool alive, nor in its place:
    /// - From this call until the last kernel that takes the view has ended, the pool lives and no method
    ///   takes it by `&mut self`.
    /// - Those kernels run on the pool's device, and ask [`Pool::slab`] only for handles that the pool gave.
    pub unsafe fn view<P: Pool + Instance>(&self) -> Result<P> {
        if P::NAME != self.kind() {
            return Err(Error::OtherPool { asked: P::NAME, found: self.kind() });
        }
        Ok(engine::view(self.memory.parts()))
    }
}

/// Batches.
impl SlabAlloc {
    /// Batches on device buffers, in a stream of the pool's device.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a> {
        Batches::new(self, stream)
    }

    /// Allocates `count` slabs, or as many as there are: fewer handles than asked mean that the pool is full.
    /// Waits.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn allocate(&self, count: usize) -> Result<Vec<Handle>> {
        let mut words = self.device.buffer(count)?;
        self.on(&self.device.default_stream()).allocate(&mut words)?;
        Ok(words.read()?.into_iter().filter_map(|word| Handle::from_word(word).some()).collect())
    }

    /// Frees slabs. Waits. What is no live slab is left alone and counted in [`Stats::faults`]; the emulator
    /// says where.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn free(&self, handles: &[Handle]) -> Result<()> {
        let words = self.device.from_slice(&words_of(handles))?;
        let stream = self.device.default_stream();
        self.on(&stream).free(&words)?;
        Ok(stream.synchronize()?)
    }

    /// Marks slabs that are unlinked but may still be read, to be freed by [`Self::reclaim`]. Waits. Faults
    /// are as in [`Self::free`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn retire(&self, handles: &[Handle]) -> Result<()> {
        let words = self.device.from_slice(&words_of(handles))?;
        let stream = self.device.default_stream();
        self.on(&stream).retire(&words)?;
        Ok(stream.synchronize()?)
    }

    /// Another number for each launch, which starts its search elsewhere.
    fn next_seed(&self) -> u32 {
        let mut seed = self.seed.lock().unwrap_or_else(PoisonError::into_inner);
        *seed = seed.wrapping_add(1);
        *seed
    }
}

/// What is made of the first of these sizes that there is memory for.
fn first_that_fits<T>(sizes: &[usize], mut make: impl FnMut(usize) -> Result<T>) -> Result<T> {
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

/// The pool as a whole.
impl SlabAlloc {
    /// Adds room for at least `slabs` more slabs, in whole super blocks, filled with the pool's byte. Handles
    /// keep their meaning; views must be taken anew. Where this fails the pool is as before.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] for no slabs at all; [`Error::Budget`]; [`Error::TooManySlabs`];
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn grow(&mut self, slabs: usize) -> Result<()> {
        if slabs == 0 {
            return Err(Error::ZeroCapacity);
        }
        let supers = self.shape.supers_within(self.capacity(), slabs, self.budget)?;
        self.device.synchronize()?;
        self.memory.grow(&self.device, supers)
    }

    /// [`Self::grow`] by `wanted` slabs, or else by as many as are `needed`, or by any. Returns whether it
    /// has grown: not, where the budget or the device's memory is used up.
    pub(crate) fn grow_if_possible(&mut self, wanted: usize, needed: usize) -> Result<bool> {
        made_room(first_that_fits(&[wanted, needed, 1], |slabs| self.grow(slabs)).map(|()| true))
    }

    /// Whether it has all the super blocks that handles can name, whatever the budget.
    pub(crate) fn has_all_super_blocks(&self) -> bool {
        self.shape.supers_within(self.capacity(), 1, usize::MAX).is_err()
    }

    /// Whether the first super block lies elsewhere than the others.
    pub(crate) fn has_tiers(&self) -> bool {
        self.shape.first_tier != self.shape.tier
    }

    /// [`Self::larger`] by the first of so many slabs that there is memory for.
    pub(crate) fn larger_by(&self, more: &[usize]) -> Result<Self> {
        first_that_fits(more, |more| self.larger(self.capacity() + more))
    }

    /// A new pool of this kind, with at least `slabs` slabs, in super blocks so large that it may grow for
    /// long, and so small that it has few slabs more.
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

    /// Frees all retired slabs, once the launches that were asked for before have ended. Returns how many.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn reclaim(&mut self) -> Result<usize> {
        let mut count = self.device.zeroed::<u64>(1)?;
        self.reclaim_counted(&mut count)
    }

    /// [`Self::reclaim`], which counts in a word of the caller's: nothing is allocated.
    pub(crate) fn reclaim_counted(&mut self, count: &mut Buffer<u64>) -> Result<usize> {
        self.device.synchronize()?;
        count.fill_bytes(0)?;
        self.scan(SlabReclaim { bitmaps: self.memory.bitmaps(), count: count.slice() })?;
        Ok(count.read()?[0] as usize)
    }

    /// Gives the memory back, and says if slabs are still live that nobody has freed or retired. (Dropping
    /// the pool says nothing.)
    ///
    /// # Errors
    /// [`Error::Leak`], with the first of them; [`Error::Device`] when the device is lost or lacks the
    /// memory. The memory is given back all the same.
    pub fn close(mut self) -> Result<()> {
        self.reclaim()?;
        let live = self.stats()?.live;
        if live == 0 {
            return Ok(());
        }
        Err(Error::Leak { live, first: self.first_live()? })
    }

    /// The first live slabs, in words.
    fn first_live(&self) -> Result<String> {
        const SHOWN: usize = 4;
        let words = self.bitmap()?;
        let is_live = |number: &usize| words[number / 32] >> (number % 32) & 1 != 0;
        let first = (0..self.capacity()).filter(is_live).take(SHOWN);
        Ok(first.map(|number| format!("{:?}", self.handle(number))).collect::<Vec<_>>().join(", "))
    }
}

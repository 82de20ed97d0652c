//! The device memory of slab lists.
use super::kernels::Kernels;
use crate::error::made_room;
use crate::map::counts::Counts;
use crate::map::encoding::Word;
use crate::slab_alloc::{SlabAlloc, first_that_fits};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use phalanx_kernels::slab::list::{Config, ListsView};

/// Maximum number of buckets.
pub const MOST_BUCKETS: u32 = u32::MAX - 2;

/// Returns an error if a structure cannot have this number of buckets.
pub fn check_buckets(buckets: u32) -> Result<()> {
    let (asked, most) = (buckets as usize, MOST_BUCKETS as usize);
    match buckets {
        0 => Err(Error::Zero { what: "buckets" }),
        1..=MOST_BUCKETS => Ok(()),
        _ => Err(Error::TooLarge { what: "buckets", asked, most }),
    }
}

/// First slabs of the lists, and the counters.
#[derive(Debug)]
pub struct Heads {
    slabs: Buffer<u64>,
    counters: Buffer<u64>,
    buckets: u32,
    /// Seed of the hash function.
    seed: u64,
}

impl Heads {
    /// Allocates the heads of empty lists.
    pub fn new(device: &Device, slab_bytes: usize, buckets: u32, seed: u64) -> Result<Self> {
        let words = (buckets as usize + 1) * slab_bytes / 8;
        let counters = device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?;
        Ok(Self { slabs: device.filled(words, 0xff)?, counters, buckets, seed })
    }
}

/// Borrowed memory of lists: their heads, and the pool of all other slabs.
#[derive(Clone, Copy, Debug)]
pub struct ListsRef<'a> {
    pub heads: &'a Heads,
    pub pool: &'a SlabAlloc,
}

impl ListsRef<'_> {
    /// Returns the number of lists, without the overflow list.
    pub fn buckets(self) -> u32 {
        self.heads.buckets
    }

    /// Returns the lists as kernels of the variant `M` take them.
    ///
    /// # Safety
    /// - The lists are of this variant. Their memory is neither dropped, replaced nor grown while the view is
    ///   used.
    pub unsafe fn view<M: Config>(self) -> ListsView<M> {
        let Heads { slabs, counters, buckets, seed } = self.heads;
        // SAFETY: the caller's obligations.
        let view =
            unsafe { ListsView::new(slabs.pointer(), counters.pointer(), self.pool.as_view(), *buckets) };
        view.with_seed(*seed)
    }
}

/// Device memory of lists.
#[derive(Debug)]
pub struct Memory {
    pub heads: Heads,
    pub pool: SlabAlloc,
    /// Number of times that slabs were freed or allocated for refused pairs.
    pub generation: u64,
}

impl Memory {
    pub fn new(heads: Heads, pool: SlabAlloc) -> Self {
        Self { heads, pool, generation: 0 }
    }

    pub fn lists(&self) -> ListsRef<'_> {
        ListsRef { heads: &self.heads, pool: &self.pool }
    }

    pub fn buckets(&self) -> u32 {
        self.heads.buckets
    }

    pub fn seed(&self) -> u64 {
        self.heads.seed
    }

    pub fn memory_usage(&self) -> usize {
        self.heads.slabs.byte_len() + self.heads.counters.byte_len() + self.pool.memory_usage()
    }

    /// Reads the counters. Waits for all earlier launches.
    pub fn counts(&self) -> Result<Counts> {
        Counts::read(&self.heads.counters)
    }

    /// Sets the counters. Nothing may run.
    pub fn set_counts(&mut self, counts: Counts) -> Result<()> {
        counts.write(&mut self.heads.counters)
    }

    /// Allocates empty lists, as many and with as large a pool.
    pub fn as_empty(&self, slab_bytes: usize) -> Result<Self> {
        let pool = self.pool.larger(self.pool.capacity())?;
        let heads = Heads::new(self.pool.device(), slab_bytes, self.buckets(), self.heads.seed)?;
        Ok(Self { generation: self.generation + 1, ..Self::new(heads, pool) })
    }

    /// Copies the lists, packed, into a pool of larger super blocks, with the first of the numbers of
    /// additional slabs in `more` for which there is memory. Nothing else may run.
    pub fn moved<K: Word, V: Word>(
        &self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
        many: bool,
        more: &[usize],
    ) -> Result<Self> {
        let (device, live) = (stream.device(), self.counts()?.live);
        let pool = self.pool.larger_by(more)?;
        let heads = Heads::new(device, kernels.shape().slab_bytes, self.buckets(), self.heads.seed)?;
        let into = Self::new(heads, pool);
        let refused = device.zeroed::<u64>(1)?;
        // SAFETY: nothing else runs, no one else knows the new lists, and both live until the count is read.
        unsafe { kernels.launch_copy(stream, self.lists(), into.lists(), many, refused.global())? };
        match refused.read()?[0] as usize {
            0 => Ok(Self { generation: self.generation, ..into }),
            left_over => Err(Error::DoesNotFit { left_over, pairs: live }),
        }
    }

    /// Adds slabs for `refused` elements. Nothing else may run. Returns `false` if there is no memory.
    pub fn extend<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
        many: bool,
        refused: usize,
    ) -> Result<bool> {
        let needed = self.slabs_for(refused, kernels.shape().slots);
        let is_provided =
            made_room(self.provide(kernels, stream, many, &[needed, refused, 1]).map(|()| true))?;
        Ok(is_provided || self.pool.grow_if_possible(refused, 1)?)
    }

    /// Adds slabs, the first of the numbers in `slabs` for which there is memory. Nothing else may run. If
    /// the pool cannot have so many super blocks, moves the lists into a pool of larger ones: smaller
    /// additions would take many launches of a batch.
    pub fn provide<K: Word, V: Word>(
        &mut self,
        kernels: &dyn Kernels<K, V>,
        stream: &Stream,
        many: bool,
        slabs: &[usize],
    ) -> Result<()> {
        if self.pool.has_super_blocks_for(slabs[0]) {
            first_that_fits(slabs, |slabs| self.pool.grow(slabs))?;
        } else {
            *self = self.moved(kernels, stream, many, slabs)?;
        }
        Ok(())
    }

    /// Returns by how many slabs the pool should grow after `refused` elements were refused: at least half of
    /// its capacity.
    pub fn slabs_for(&self, refused: usize, slots: usize) -> usize {
        refused.div_ceil(slots).max(self.pool.capacity() / 2)
    }
}

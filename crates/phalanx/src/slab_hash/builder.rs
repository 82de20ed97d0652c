//! Construction of slab lists.
use super::kernels::{self, Shape};
use super::lists::{Growth, Lists};
use super::memory::{Heads, MOST_BUCKETS, Memory, check_buckets};
use super::sizing::{load_for, slabs_behind};
use crate::map::encoding::Word;
use crate::map::handle::Handle;
use crate::map::variant::{names, select};
use crate::program::open;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Key, Result, Value};
use gpu::Device;
use std::marker::PhantomData;

/// Parameters of a [`SlabHash`](super::SlabHash), [`SlabSet`](super::SlabSet) or
/// [`SlabMultiMap`](super::SlabMultiMap).
///
/// ```
/// use phalanx::slab_hash::{Growth, variants};
/// use phalanx::{Device, SlabHash};
///
/// let map = SlabHash::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(1000)
///     .utilisation(0.5)
///     .pool_for(5000)
///     .budget(1 << 20)
///     .growth(Growth::Fixed)
///     .seed(7)
///     .variant(variants::<u32, u32>()[0])
///     .build()?;
/// assert!(map.stats()?.free > 0);
/// // Or by numbers of buckets and slabs.
/// let map = SlabHash::<u32, u32>::builder().buckets(64).slabs(100).super_block_slabs(128).build()?;
/// assert_eq!((map.buckets(), map.stats()?.capacity), (64, 128));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the first slab of each list, the pool with 2
/// bits of bitmaps per slab, and 8 KiB of counters, and writes each byte once.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<T> {
    device: Option<Device>,
    capacity: usize,
    utilisation: f64,
    buckets: Option<u32>,
    pool_for: usize,
    spare: Option<usize>,
    super_block_slabs: Option<usize>,
    budget: usize,
    growth: Option<Growth>,
    seed: u64,
    variant: Option<String>,
    of: PhantomData<fn() -> T>,
}

/// Sizes of new lists.
struct Sizes {
    buckets: u32,
    /// Number of slabs beyond the first ones of the buckets.
    slabs: usize,
    /// Pairs per bucket at the capacity.
    load: f64,
}

impl<T> Default for Builder<T> {
    fn default() -> Self {
        Self {
            device: None,
            capacity: 1024,
            utilisation: 0.6,
            buckets: None,
            pool_for: 0,
            spare: None,
            super_block_slabs: None,
            budget: usize::MAX,
            growth: None,
            seed: 0,
            variant: None,
            of: PhantomData,
        }
    }
}

// Not derived: a derived impl would require `Clone` of the structure too.
impl<T> Clone for Builder<T> {
    fn clone(&self) -> Self {
        let (device, variant) = (self.device.clone(), self.variant.clone());
        Self { device, variant, of: PhantomData, ..*self }
    }
}

impl<T> Builder<T> {
    /// Sets the device that holds the structure. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets the number of pairs or keys that the structure holds at its utilization. Beyond it, lists become
    /// longer. Default: 1024.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Raises the capacity to `pairs` if it is less.
    pub(super) fn at_least(self, pairs: usize) -> Self {
        let capacity = self.capacity.max(pairs);
        self.capacity(capacity)
    }

    /// Sets the memory utilization at the capacity: bytes of the pairs divided by bytes of the slabs. A
    /// higher one saves memory, a lower one saves time. From about 0.65 on most lists have a second slab.
    /// Default: 0.6.
    pub fn utilisation(mut self, utilisation: f64) -> Self {
        self.utilisation = utilisation;
        self
    }

    /// Sets the number of buckets, instead of deriving it from capacity and utilization.
    pub fn buckets(mut self, buckets: u32) -> Self {
        self.buckets = Some(buckets);
        self
    }

    /// Sets the number of pairs or keys for which the pool has slabs from the start, if more than the
    /// capacity. The number of buckets is still derived from the capacity, so lists become longer. For
    /// batches on device buffers, which do not grow the pool.
    pub fn pool_for(mut self, pairs: usize) -> Self {
        self.pool_for = pairs;
        self
    }

    /// Sets the initial number of slabs of the pool, instead of deriving it from capacity and utilization.
    pub fn slabs(mut self, slabs: usize) -> Self {
        self.spare = Some(slabs);
        self
    }

    /// Sets the number of slabs by which the pool grows: a power of two from 32 to 2^24. Default: an eighth
    /// of the initial number.
    pub fn super_block_slabs(mut self, slabs: usize) -> Self {
        self.super_block_slabs = Some(slabs);
        self
    }

    /// Sets the maximum number of bytes of the pool's slabs. Default: limited only by the device.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets the policy for more pairs than the buckets or the pool are made for. Default:
    /// [`Growth::Buckets`]; [`Growth::Pool`] for structures whose number of buckets is set, and for maps with
    /// several values per key.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = Some(growth);
        self
    }

    /// Sets the seed of the hash function. Default: 0. A structure with 32-bit keys uses the low half.
    ///
    /// Keys that were chosen to lie in one list under one seed are spread under another. The function is no
    /// cryptographic one: a seed protects while the adversary does not learn it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets a random seed, which the process draws from the system's randomness. Then the memory accesses,
    /// and the order of exported pairs, differ from run to run.
    ///
    /// ```
    /// use phalanx::SlabHash;
    ///
    /// assert_ne!(SlabHash::<u32, u32>::builder().random_seed().build()?.seed(), 0);
    /// assert_eq!(SlabHash::<u32, u32>::builder().seed(7).build()?.seed(), 7);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn random_seed(self) -> Self {
        self.seed(crate::map::random_seed())
    }

    /// Selects the variant by name, one of [`super::variants`]. Default: the fastest measured.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Creates empty lists.
    pub(super) fn lists<K: Word, V: Word>(self, has_values: bool, many: bool) -> Result<Lists<K, V>> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        self.buckets.map_or(Ok(()), check_buckets)?;
        let device = open(self.device.as_ref())?;
        let kernels = select(&device, self.variant.as_deref(), kernels::all::<K, V>(has_values))?;
        let shape = kernels.shape();
        let Sizes { buckets, slabs, load } = self.sizes(shape)?;
        let pool = self.pool(&device, shape, slabs)?;
        let heads = Heads::new(&device, shape.slab_bytes, buckets, self.seed)?;
        let memory = Memory::new(heads, pool);
        let usual = if self.buckets.is_some() || many { Growth::Pool } else { Growth::Buckets };
        let growth = self.growth.unwrap_or(usual);
        Ok(Lists::new(Handle::new(device, kernels.boxed(), memory), growth, load, many))
    }

    fn sizes(&self, shape: Shape) -> Result<Sizes> {
        let full = (shape.slots * shape.slot_bytes) as f64 / shape.slab_bytes as f64;
        let wanted = self.utilisation;
        let load = if wanted > 0.0 { load_for(wanted, shape.slots, full) } else { None };
        let load = load.ok_or(Error::Utilisation { asked: wanted, most: full })?;
        let buckets = self.buckets.map_or((self.capacity as f64 / load).ceil().max(1.0), f64::from);
        if buckets > f64::from(MOST_BUCKETS) {
            let most = (f64::from(MOST_BUCKETS) * load) as usize;
            return Err(Error::TooLarge { what: "pairs (`capacity`)", asked: self.capacity, most });
        }
        let pairs = self.capacity.max(self.pool_for);
        let slabs = self.spare.unwrap_or_else(|| slabs_behind(pairs, buckets, shape.slots));
        Ok(Sizes { buckets: buckets as u32, slabs, load })
    }

    fn pool(&self, device: &Device, shape: Shape, slabs: usize) -> Result<SlabAlloc> {
        let pool = SlabAlloc::builder()
            .device(device)
            .capacity(slabs.max(1))
            .slab_bytes(shape.slab_bytes)
            .super_block_or_eighth(self.super_block_slabs)
            .budget(self.budget)
            .light(shape.light);
        match self.spare {
            Some(_) => pool.build(),
            None if self.pool_for > self.capacity => {
                pool.build_for("pairs (`pool_for`)", self.pool_for, shape.slots)
            }
            None => pool.build_for("pairs (`capacity`)", self.capacity, shape.slots),
        }
    }
}

/// Returns the names of all variants for these types.
pub fn variant_names<K: Key, V: Value>(has_values: bool) -> Vec<&'static str> {
    names(kernels::all::<K::Word, V::Word>(has_values))
}

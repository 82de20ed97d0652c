//! The memory of a map, and the operations on the whole table: creation, rehash, counts.
use super::kernels::{Kernels, Shape};
use crate::map::counts::Counts;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::hash_map::{Config, MapView, OVERFLOW_BUCKETS};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of buckets: bucket indices have 31 bits.
const MOST_BUCKETS: usize = (1 << 31) - 64;

/// Device memory of a table, and what describes it. Other devices that read the table keep it alive, also
/// when the map has replaced it.
#[derive(Debug)]
pub struct Memory {
    buckets: Buffer<u64>,
    filters: Buffer<u32>,
    counters: Buffer<u64>,
    count: u32,
    max_probes: u32,
    /// Seed of the hash function.
    seed: u64,
}

/// The memory that a map has now, for other devices that read it.
pub type Current = Arc<Mutex<Arc<Memory>>>;

/// Device memory of a map.
#[derive(Debug)]
pub struct Table {
    memory: Arc<Memory>,
    /// That of the table which replaced all earlier ones.
    current: Current,
    slots: usize,
    /// Number of earlier tables of the map.
    generation: u64,
    /// Counter of long probe sequences when the table was created or cleared: a table may be too full for
    /// short ones.
    long: usize,
}

impl Table {
    /// Allocates an empty table of at least `slots` slots.
    pub fn new<K, V>(
        device: &Device,
        kernels: &dyn Kernels<K, V>,
        slots: usize,
        (max_probes, seed): (u32, u64),
    ) -> Result<Self> {
        let shape = kernels.shape();
        let count = bucket_count(shape, slots)?;
        let words = (count + OVERFLOW_BUCKETS) as usize * shape.bucket_bytes / 8;
        let memory = Arc::new(Memory {
            buckets: device.filled(words, 0xff)?,
            filters: device.filled(kernels.filter_words(count).max(1), 0xff)?,
            counters: device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?,
            count,
            max_probes,
            seed,
        });
        Ok(Self {
            current: Arc::new(Mutex::new(memory.clone())),
            memory,
            slots: count as usize * shape.slots,
            generation: 0,
            long: 0,
        })
    }

    /// Returns the number of earlier tables of the map. A caller compares it with the one that it has seen,
    /// to detect that the table was replaced.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the seed of the hash function.
    pub fn seed(&self) -> u64 {
        self.memory.seed
    }

    /// Returns where other devices find the memory of the map, also after a rehash.
    #[cfg(feature = "sharded-map")]
    pub fn current(&self) -> Current {
        self.current.clone()
    }

    /// Returns the number of slots, without those of the overflow buckets.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let Memory { buckets, filters, counters, .. } = &*self.memory;
        buckets.byte_len() + filters.byte_len() + counters.byte_len()
    }

    /// Removes all pairs.
    pub fn clear(&mut self) -> Result<()> {
        let device = self.memory.buckets.device().clone();
        device.synchronize()?;
        // SAFETY: nothing else runs on the device, and the caller has exclusive access until the fills have
        // been executed.
        unsafe { self.clear_on(&device.default_stream())? };
        Ok(device.synchronize()?)
    }

    /// [`Self::clear`] in stream order.
    ///
    /// # Safety
    /// - From this call until the stream has executed its work so far, only that work may use the table.
    pub unsafe fn clear_on(&mut self, stream: &Stream) -> Result<()> {
        let Memory { buckets, counters, .. } = &*self.memory;
        // SAFETY: the caller's obligation, for each of the buffers, which live until the fills have been
        // executed: dropping them waits.
        unsafe {
            stream.fill(buckets.global(), 0xff)?;
            // The pairs are gone, so the counters must follow: they get a second attempt. A failure that
            // leaves the filters as they are only costs time.
            let counted = stream.fill(counters.global(), 0);
            counted.or_else(|_| stream.fill(counters.global(), 0))?;
            self.long = 0;
            Ok(stream.fill(self.memory.filters.global(), 0xff)?)
        }
    }

    /// Returns whether insertions and removals have made probe sequences long since the table was created.
    pub fn needs_rehash(&self, counts: Counts) -> bool {
        counts.long > self.long && counts.removed() > 0
    }

    /// Copies the pairs into a new table of at least `slots` slots, without tombstones. Returns `None` if
    /// they do not fit.
    pub fn rehashed<K: Scalar, V: Scalar>(
        &self,
        kernels: &dyn Kernels<K, V>,
        slots: usize,
    ) -> Result<Option<Self>> {
        let (device, old) = (self.memory.buckets.device(), &*self.memory);
        device.synchronize()?;
        let table = Self::new(device, kernels, slots, (old.max_probes, old.seed))?;
        let current = self.current.clone();
        let mut into = Self { generation: self.generation + 1, current, ..table };
        let refused = device.zeroed::<u64>(1)?;
        let stream = device.default_stream();
        // SAFETY: both tables are of this variant. The caller has exclusive access to this one, and nothing
        // else runs on the device.
        unsafe { kernels.launch_rehash(&stream, &self.raw(), &into.raw(), refused.global())? };
        let fits = refused.read()?[0] == 0;
        into.long = into.counts()?.long;
        if fits {
            // A lock is poisoned only by a panic of a clone or of this line.
            *into.current.lock().unwrap_or_else(PoisonError::into_inner) = into.memory.clone();
        }
        Ok(fits.then_some(into))
    }

    /// Returns the addresses and the size of the table.
    pub fn raw(&self) -> RawTable {
        self.memory.raw()
    }

    /// Reads the counters. Waits for all earlier launches.
    pub fn counts(&self) -> Result<Counts> {
        Counts::read(&self.memory.counters)
    }
}

impl Memory {
    /// Returns the addresses and the size of the table.
    pub fn raw(&self) -> RawTable {
        RawTable {
            buckets: self.buckets.pointer(),
            filters: self.filters.pointer(),
            counters: self.counters.pointer(),
            count: self.count,
            max_probes: self.max_probes,
            seed: self.seed,
        }
    }

    /// Returns the device that has the memory.
    #[cfg(feature = "sharded-map")]
    pub fn device(&self) -> &Device {
        self.buckets.device()
    }
}

/// The addresses and the size of a table, on whatever tier its memory lies.
#[derive(Clone, Copy, Debug)]
pub struct RawTable {
    /// Buckets, and the overflow buckets after them.
    pub buckets: *mut u64,
    /// Filters of the buckets.
    pub filters: *mut u32,
    /// Counters to which operations add.
    pub counters: *mut u64,
    /// Number of buckets, without the overflow buckets.
    pub count: u32,
    /// Maximum number of probes of an operation.
    pub max_probes: u32,
    /// Seed of the hash function.
    pub seed: u64,
}

impl RawTable {
    /// Returns the table as kernels of the variant `M` take it.
    ///
    /// # Safety
    /// - The table is of this variant, and its memory lives while the view is used.
    pub unsafe fn view<M: Config>(&self) -> MapView<M> {
        // SAFETY: the caller's obligations.
        let view =
            unsafe { MapView::new(self.buckets, self.filters, self.counters, self.count, self.max_probes) };
        view.with_seed(self.seed)
    }
}

/// Returns the number of buckets of a table of at least `slots` slots: a prime.
pub fn bucket_count(shape: Shape, slots: usize) -> Result<u32> {
    let least = slots.div_ceil(shape.slots).max(2);
    // The search for a prime costs the square root of the number: for a size that no device can hold it
    // would take hours.
    let count = if least <= MOST_BUCKETS { next_prime(least) } else { least };
    match u32::try_from(count).ok().filter(|_| count <= MOST_BUCKETS) {
        Some(count) => Ok(count),
        None => Err(Error::TooLarge { what: "slots", asked: slots, most: MOST_BUCKETS * shape.slots }),
    }
}

/// Returns the smallest prime that is at least `least`.
fn next_prime(least: usize) -> usize {
    (least..).find(|&candidate| is_prime(candidate)).unwrap_or(usize::MAX)
}

fn is_prime(number: usize) -> bool {
    number >= 2
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::variant::VariantTag;
    use phalanx_kernels::hash_map::DefaultTable;

    const MAX_PROBES: u32 = 3;

    /// The only variant that is compiled for these tests.
    const VARIANT: VariantTag<DefaultTable> = VariantTag::NEW;

    fn table() -> Table {
        let device = Device::emulator(simt::emulator::Options::default());
        Table::new(&device, &VARIANT, 100, (MAX_PROBES, 7)).unwrap()
    }

    /// Covers the filters too: stale filters would only cost time, which no other test detects.
    #[test]
    fn a_cleared_table_is_as_new() {
        let mut used = table();
        let stream = used.memory.buckets.device().default_stream();
        let Memory { buckets, filters, counters, .. } = &*used.memory;
        // SAFETY: nothing else uses the table.
        unsafe {
            stream.fill(buckets.global(), 7).unwrap();
            stream.fill(filters.global(), 0).unwrap();
            stream.fill(counters.global(), 1).unwrap();
        }
        // As a rehash with long probe sequences leaves it.
        used.long = 4;
        used.clear().unwrap();
        assert!(used.needs_rehash(Counts { live: 1, taken: 2, long: 1 }));
        assert!(used.memory.buckets.read().unwrap().into_iter().all(|word| word == u64::MAX));
        assert!(used.memory.filters.read().unwrap().into_iter().all(|word| word == u32::MAX));
        assert_eq!(used.counts().unwrap(), Counts::default());
    }

    #[test]
    fn a_rehash_keeps_the_bound_of_probes_and_the_seed() {
        let larger = table().rehashed(&VARIANT, 1000).unwrap().unwrap();
        assert_eq!((larger.memory.max_probes, larger.memory.seed), (MAX_PROBES, 7));
        assert_eq!((larger.generation, larger.slots >= 1000), (1, true));
    }

    #[test]
    fn primes() {
        assert_eq!([0, 2, 3, 4, 8, 90].map(next_prime), [2, 2, 3, 5, 11, 97]);
        assert_eq!(next_prime(1 << 20), 1_048_583);
    }
}

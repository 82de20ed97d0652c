//! The memory of a map, and how it changes as a whole: made, rehashed, counted.
use super::engine::Engine;
use crate::map::counts::Counts;
use crate::map::owner::Memory;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES, Scalar};
use phalanx_kernels::probing::ANNEX;

/// The most buckets: places are 31-bit numbers.
const MOST_BUCKETS: usize = (1 << 31) - 64;

/// Plain pointers to a table, as views take them.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub buckets: *mut u64,
    pub filters: *mut u32,
    pub tallies: *mut u64,
    pub count: u32,
    pub looks: u32,
}

/// The memory of a map.
#[derive(Debug)]
pub struct Table {
    buckets: Buffer<u64>,
    filters: Buffer<u32>,
    tallies: Buffer<u64>,
    count: u32,
    looks: u32,
    slots: usize,
    /// How many tables there were before it in the map.
    age: u64,
    /// Long walks that it has had from the start: a table may be too full for short ones.
    long: usize,
}

impl Table {
    /// An empty table of at least `slots` slots.
    pub fn new<K, V>(device: &Device, engine: &dyn Engine<K, V>, slots: usize, looks: u32) -> Result<Self> {
        let shape = engine.shape();
        let least = slots.div_ceil(shape.slots).max(2);
        let too_large = Error::TooLarge { slots, most: MOST_BUCKETS * shape.slots };
        // The search for a prime costs the root of the number: a size that nobody can have would take hours.
        let count = if least <= MOST_BUCKETS { next_prime(least) } else { least };
        if count > MOST_BUCKETS {
            return Err(too_large);
        }
        let count = count as u32;
        let words = (count + ANNEX) as usize * shape.bytes / 8;
        Ok(Self {
            buckets: device.filled(words, 0xff)?,
            filters: device.filled(engine.filter_words(count).max(1), 0xff)?,
            tallies: device.zeroed(STRIPES * STRIPE_WORDS)?,
            count,
            looks,
            slots: count as usize * shape.slots,
            age: 0,
            long: 0,
        })
    }

    /// How many tables there were before it in the map: tells whether the table that a call has seen is still
    /// there.
    pub fn age(&self) -> u64 {
        self.age
    }

    /// Slots, the annex not counted.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + self.filters.bytes() + self.tallies.bytes()
    }

    /// Empties the table.
    pub fn clear(&mut self) -> Result<()> {
        self.buckets.fill_bytes(0xff)?;
        self.filters.fill_bytes(0xff)?;
        Ok(self.tallies.fill_bytes(0)?)
    }

    /// [`Self::clear`], when the stream comes to it.
    ///
    /// # Safety
    /// - From here to the end of the stream's work so far, nothing but that work uses the table.
    pub unsafe fn clear_on(&mut self, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise, for each of the buffers.
        unsafe {
            self.buckets.fill_bytes_on(stream, 0xff)?;
            self.filters.fill_bytes_on(stream, 0xff)?;
            Ok(self.tallies.fill_bytes_on(stream, 0)?)
        }
    }

    /// Whether keys that come and go have made walks long since the table was made.
    pub fn is_worn(&self, counts: Counts) -> bool {
        counts.long > self.long && counts.removed() > 0
    }

    /// Moves the pairs into a new table of at least `slots` slots, without tombstones. `None` when they do
    /// not fit it.
    pub fn rehashed<K: Scalar, V: Scalar>(
        &self,
        engine: &dyn Engine<K, V>,
        slots: usize,
    ) -> Result<Option<Self>> {
        let device = self.buckets.device();
        device.synchronize()?;
        let mut into = Self { age: self.age + 1, ..Self::new(device, engine, slots, self.looks)? };
        let refused = device.zeroed::<u64>(1)?;
        let stream = device.default_stream();
        // SAFETY: both tables are this engine's; the caller lends this one exclusively and nothing else runs
        // on the device.
        unsafe { engine.rehash(&stream, self.parts(), into.parts(), refused.slice())? };
        let fits = refused.read()?[0] == 0;
        into.long = into.counts()?.long;
        Ok(fits.then_some(into))
    }
}

impl Memory for Table {
    type Parts = Parts;

    fn parts(&self) -> Parts {
        Parts {
            buckets: self.buckets.pointer(),
            filters: self.filters.pointer(),
            tallies: self.tallies.pointer(),
            count: self.count,
            looks: self.looks,
        }
    }

    fn counts(&self) -> Result<Counts> {
        Counts::read(&self.tallies)
    }
}

/// The smallest prime from `least` on.
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
    use crate::map::launcher::Of;
    use phalanx_kernels::probing::DefaultTable;

    const LOOKS: u32 = 3;

    /// The only kind that is compiled for these tests.
    const KIND: Of<DefaultTable> = Of(std::marker::PhantomData);

    fn table() -> Table {
        let device = Device::emulator(simt::emulator::Options::default());
        Table::new(&device, &KIND, 100, LOOKS).unwrap()
    }

    /// The filters too: stale ones would only cost time, which no other test sees.
    #[test]
    fn a_cleared_table_is_as_new() {
        let mut used = table();
        used.buckets.fill_bytes(7).unwrap();
        used.filters.fill_bytes(0).unwrap();
        used.tallies.fill_bytes(1).unwrap();
        used.clear().unwrap();
        assert!(used.buckets.read().unwrap().into_iter().all(|word| word == u64::MAX));
        assert!(used.filters.read().unwrap().into_iter().all(|word| word == u32::MAX));
        assert_eq!(used.counts().unwrap(), Counts::default());
    }

    #[test]
    fn a_rehash_keeps_the_bound_of_walks() {
        let larger = table().rehashed(&KIND, 1000).unwrap().unwrap();
        assert_eq!((larger.looks, larger.age, larger.slots >= 1000), (LOOKS, 1, true));
    }

    #[test]
    fn primes() {
        assert_eq!([0, 2, 3, 4, 8, 90].map(next_prime), [2, 2, 3, 5, 11, 97]);
        assert_eq!(next_prime(1 << 20), 1_048_583);
    }
}

//! Memory of a table.
use crate::common::Rng;
use crate::world::{Finding, Fixture, HasFixture, counted};
use gpu::{Buffer, Device};
use phalanx_kernels::hash_map::{Config, MapView, OVERFLOW_BUCKETS};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar, Slot};
use simt::Global;
use simt::emulator::WeakMemory;
use std::collections::HashMap;

/// Buffers of a table.
pub struct Memory {
    buckets: Buffer<u64>,
    filters: Buffer<u32>,
    counters: Buffer<u64>,
}

impl<M: Config> HasFixture for M {
    type Memory = Memory;

    /// The order of reads in tables relies on the PTX memory model only.
    const WEAK: WeakMemory = WeakMemory::Ptx;

    const TAKES_MISS_CHANGES: bool = true;

    fn crowd(rng: &mut Rng) -> Fixture {
        let (buckets, slots) = (rng.pick(&[2, 3]), Self::SLOTS);
        let room = rng.pick(&[1, 2, 3, 6, slots * buckets]);
        let fill = u64::from((buckets * slots).saturating_sub(room));
        Fixture { buckets, fill, news: 3 }
    }

    fn memory(device: &Device, buckets: u32) -> gpu::Result<Memory> {
        Ok(Memory {
            buckets: device.filled((buckets + OVERFLOW_BUCKETS) as usize * Self::BUCKET_BYTES / 8, 0xff)?,
            filters: device.filled(Self::filter_words(buckets).max(1), 0xff)?,
            counters: device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?,
        })
    }

    fn copy(to: &mut Memory, from: &Memory) -> gpu::Result<()> {
        to.buckets.write(&from.buckets.read()?)?;
        to.filters.write(&from.filters.read()?)?;
        to.counters.write(&from.counters.read()?)
    }

    fn view(memory: &Memory, count: u32) -> MapView<Self> {
        let Memory { buckets, filters, counters } = memory;
        // SAFETY: the memory has the right sizes and outlives every launch here; 2 and 3 are primes.
        unsafe { MapView::new(buckets.pointer(), filters.pointer(), counters.pointer(), count, count + 2) }
    }

    /// Returns the pairs. A key in two slots is a finding, and so is a wrong counter.
    fn contents(memory: &Memory, buckets: u32) -> Result<HashMap<u64, u64>, Finding> {
        let words = memory.buckets.read().expect("memory");
        let slots: &[<M::Slot as Slot>::Word] = bytemuck::cast_slice(&words);
        let top = M::Slot::key(M::Slot::EMPTY).to_u64();
        let mut pairs = HashMap::new();
        for (place, &slot) in slots.iter().enumerate().filter(|(_, slot)| M::Slot::is_live(**slot)) {
            let stored = M::Slot::key(slot).to_u64();
            let in_overflow = place >= (buckets * Self::SLOTS) as usize;
            let key = if in_overflow { top - stored } else { stored };
            if pairs.insert(key, M::Slot::value(slot).to_u64()).is_some() {
                return Err(Finding::Twice(key));
            }
        }
        counted(&memory.counters, pairs.len(), pairs)
    }

    fn filter(memory: &Memory) -> Option<Global<u32>> {
        // SAFETY: points to the first word of the filters, which exist.
        Some(unsafe { Global::new(memory.filters.pointer()) })
    }
}

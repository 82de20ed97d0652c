//! The memory of a table.
use crate::common::Dice;
use crate::world::{Crowd, Crowded, Finding, counted};
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES, Scalar, Slot};
use phalanx_kernels::probing::{ANNEX, Config, MapView};
use simt::Global;
use std::collections::HashMap;

/// The buffers of a table.
pub struct Memory {
    buckets: Buffer<u64>,
    filters: Buffer<u32>,
    tallies: Buffer<u64>,
}

impl<M: Config> Crowded for M {
    type Memory = Memory;

    fn crowd(dice: &mut Dice) -> Crowd {
        let (buckets, slots) = (dice.pick(&[2, 3]), Self::SLOTS);
        let room = dice.pick(&[1, 2, 3, 6, slots * buckets]);
        let fill = u64::from((buckets * slots).saturating_sub(room));
        Crowd { buckets, fill, news: 3 }
    }

    fn memory(device: &Device, buckets: u32) -> gpu::Result<Memory> {
        Ok(Memory {
            buckets: device.filled((buckets + ANNEX) as usize * Self::BUCKET_BYTES / 8, 0xff)?,
            filters: device.filled(Self::filter_words(buckets).max(1), 0xff)?,
            tallies: device.zeroed(STRIPES * STRIPE_WORDS)?,
        })
    }

    fn copy(to: &mut Memory, from: &Memory) -> gpu::Result<()> {
        to.buckets.write(&from.buckets.read()?)?;
        to.filters.write(&from.filters.read()?)?;
        to.tallies.write(&from.tallies.read()?)
    }

    fn view(memory: &Memory, count: u32) -> MapView<Self> {
        let Memory { buckets, filters, tallies } = memory;
        // SAFETY: memory of the right sizes, which outlives every launch here; 2 and 3 are primes.
        unsafe { MapView::new(buckets.pointer(), filters.pointer(), tallies.pointer(), count, count + 2) }
    }

    /// A key in two slots is a finding, and so is a wrong tally.
    fn pairs(memory: &Memory, buckets: u32) -> Result<HashMap<u64, u64>, Finding> {
        let words = memory.buckets.read().expect("memory");
        let slots: &[<M::Slot as Slot>::Word] = bytemuck::cast_slice(&words);
        let top = M::Slot::key(M::Slot::EMPTY).to_u64();
        let mut pairs = HashMap::new();
        for (place, &slot) in slots.iter().enumerate().filter(|(_, slot)| M::Slot::is_live(**slot)) {
            let stored = M::Slot::key(slot).to_u64();
            let in_annex = place >= (buckets * Self::SLOTS) as usize;
            let key = if in_annex { top - stored } else { stored };
            if pairs.insert(key, M::Slot::value(slot).to_u64()).is_some() {
                return Err(Finding::Twice(key));
            }
        }
        counted(&memory.tallies, pairs.len(), pairs)
    }

    fn filter(memory: &Memory) -> Option<Global<u32>> {
        // SAFETY: the first word of the filters, which are there.
        Some(unsafe { Global::new(memory.filters.pointer()) })
    }
}

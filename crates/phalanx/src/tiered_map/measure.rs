//! Measurement of the costs by which shards are placed.
use super::chunk::{Columns, Division};
use super::placement::{Costs, Placement};
use super::plan::PLACES;
use super::shards::{ImageSize, Shards};
use super::tiers::Tiers;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use phalanx_kernels::keyed::hash;
use phalanx_kernels::tiered::route;
use std::time::Instant;

/// Bytes of an image from which a copy is measured. A smaller one takes about as long as its submission.
const LEAST_BYTES: usize = 1 << 20;
/// Maximum number of operations that are measured.
const OPERATIONS: usize = 1 << 20;
/// Launches for them. Each has so many operations that they, and not its submission, determine its time.
const LAUNCHES: usize = 16;
/// Minimum number of bytes of a shard for each operation: insertions find room.
const BYTES_OF_EACH: usize = 32;
/// Time, in ns, by which the stream of a slot delays a batch: the rounded result of 47 slots in a batch of
/// 4096 keys (suite `oversubscription/break-even`).
const SLOT_NS: f64 = 10_000.0;
/// Time, in ns, by which a shard delays a batch: that of 256 shards in a batch of 4096 keys (the same suite).
const SHARD_NS: f64 = 4_000.0;

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Measures the costs on a map without pairs. On an emulated device, or if nothing depends on them,
    /// returns the default ones.
    pub fn measure(&mut self) -> Result<Costs> {
        let costs = Costs::default();
        let decides = self.config.placement == Placement::ByCost && self.slots.len() > 0;
        if self.device.is_emulator() || !decides {
            return Ok(costs);
        }
        if !self.is_provided(0, 0)? {
            return Ok(costs);
        }
        // What runs first also loads kernels and maps memory.
        let (lookups, given) = (BatchOp::ContainsKey, self.upload_operations()?);
        let (_, _) = (self.measure_copy()?, self.measure_in_place(lookups, given)?);
        let (copy_rate, access_ns) = (self.measure_copy()?, self.measure_in_place(lookups, given)?);
        let bytes = self.plan.size.byte_len();
        let copy_rate = if bytes < LEAST_BYTES { costs.copy_rate } else { copy_rate };
        Ok(Costs { copy_rate, access_ns, slot_ns: SLOT_NS, shard_ns: SHARD_NS, ..costs })
    }

    /// Measures insertions, too, if lookups were measured. The map has no pairs, before and afterwards.
    pub fn measure_writes(&mut self, costs: Costs) -> Result<Costs> {
        if costs == Costs::default() {
            return Ok(costs);
        }
        let given = self.upload_operations()?;
        let insert_ns = self.measure_in_place(BatchOp::Insert, given);
        self.places.iter_mut().try_for_each(|place| place.counters.fill_bytes(0))?;
        self.create_at(0, self.shards[0].image.words(), 0)?;
        Ok(Costs { write_ratio: (insert_ns? / costs.access_ns).max(1.0), ..costs })
    }

    /// Returns the rate of a copy of a shard, in bytes per ns.
    fn measure_copy(&mut self) -> Result<f64> {
        let (image, slot) = (self.shards[0].image.words(), self.slots.get(0));
        let before = slot.stream.record()?;
        // SAFETY: both live until the stream is waited for, and nothing else uses them.
        unsafe { slot.stream.copy(slot.memory.global().part(0, image.len()), image)? };
        let ms = slot.stream.record()?.elapsed_ms(&before)?;
        Ok(8.0 * image.len() as f64 / (1e6 * ms.max(1e-6)))
    }

    /// Returns `len` keys, in the order in which a batch accesses them in place.
    fn keys(&self, len: usize) -> Vec<K> {
        let numbers = 0..len as u64;
        let mut keys: Vec<K> = numbers.map(|number| K::from_u64(hash(number, 1).first.into())).collect();
        match self.inner.division() {
            Division::ByHash { seed } if size_of::<K>() + size_of::<V>() == 8 => {
                keys.sort_unstable_by_key(|&key| route::<K, K>(key, 0, seed));
            }
            Division::ByHash { seed } => keys.sort_unstable_by_key(|&key| route::<K, u64>(key, 0, seed)),
            Division::ByRange { .. } => {}
        }
        keys
    }

    /// Copies the keys and values of the measured operations to the device. Waits.
    fn upload_operations(&self) -> Result<Columns<K, V>> {
        let len = OPERATIONS.min(self.plan.chunk).min(self.plan.size.byte_len() / BYTES_OF_EACH).max(1);
        let (given, stream) = (self.buffers[0].given(len), &self.buffers[0].stream);
        // SAFETY: the memory lives until the stream is waited for, and nothing else uses it.
        unsafe {
            stream.upload(given.keys, &self.keys(len))?;
            stream.fill(given.arguments, 0)?;
        }
        stream.synchronize()?;
        Ok(given)
    }

    /// Returns the time of an uploaded operation in place, in ns.
    fn measure_in_place(&mut self, op: BatchOp, given: Columns<K, V>) -> Result<f64> {
        let len = given.keys.len();
        let (each, start) = (len.div_ceil(LAUNCHES), Instant::now());
        for first in (0..len).step_by(each) {
            let place = first / each % PLACES;
            let Columns { keys, arguments, outcomes, .. } = given.part(first..(first + each).min(len));
            let batch = Batch { arguments, outcomes, ..Batch::new(op, keys) };
            let (mut table, stream) = (self.raw_in_place(0, place), &self.places[place].stream);
            // SAFETY: all memory lives until the streams are waited for, and nothing else uses it.
            unsafe { self.inner.launch(stream, &mut table, batch.into())? };
        }
        self.places.iter().try_for_each(|place| place.stream.synchronize())?;
        Ok(start.elapsed().as_secs_f64() * 1e9 / len as f64)
    }
}

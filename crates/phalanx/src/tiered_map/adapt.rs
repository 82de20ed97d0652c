//! Memory for hot pairs while they pay.
//!
//! ```text
//! slot | slot | slot | slot | slot | slot | sample       uniform keys
//! slot | slot | slot | hot pairs                         skewed keys
//! ```
//!
//! As slots, the memory has a share of the table, and so serves this share of uniform lookups without an
//! access over the bus. As a cache it must serve more. While there is no cache, a sample of it is simulated:
//! its first buckets, without values. A batch of lookups adds the keys of these buckets to it, and counts
//! those that were not there yet.
use super::hot::LEAST_SHARE;
use super::plan::LEAST_SLOTS;
use super::shards::{ImageSize, Shards};
use super::slots::Slot;
use super::tiers::Tiers;
use super::work::Work;
use crate::Result;
use crate::error::or_later;
use crate::map::encoding::Word;

/// Share of hits above that of slots with which a cache begins to pay: twice that with which it still pays,
/// so that a share between both changes nothing.
const GAIN: f64 = 2.0 * LEAST_SHARE;

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Ends the use of the hot pairs by a batch that is done: they get memory if they would pay, and lose it
    /// if they do not. A lack of memory leaves them as they are, or without memory.
    pub fn adapt(&mut self, work: &Work<S::Part>) -> Result<()> {
        let found = (work.lookups, work.hits);
        if self.plan.hot.most == 0 {
            return if self.hot.end(found, LEAST_SHARE) { self.hot.clear() } else { Ok(()) };
        }
        if work.samples {
            let least = self.share_of_slots(self.plan.hot.most) + GAIN;
            let is_due = self.hot.is_due(&self.buffers[0].stream, work.elements(), least)?;
            return if is_due { self.give_to_hot_pairs() } else { Ok(()) };
        }
        match self.hot.end(found, self.share_of_slots(self.hot.byte_len()) + LEAST_SHARE) {
            true => self.take_from_hot_pairs(),
            false => Ok(()),
        }
    }

    /// Returns the share of the shards that are in slots of so many bytes.
    fn share_of_slots(&self, bytes: usize) -> f64 {
        let table: usize = self.shards.iter().map(|shard| shard.size.byte_len()).sum();
        bytes as f64 / table.max(1) as f64
    }

    /// Replaces the last slots, and the sample, by a cache. No slot is in flight.
    fn give_to_hot_pairs(&mut self) -> Result<()> {
        let (most, each) = (self.plan.hot.most, Slot::byte_len(self.slots.words()));
        let dropped = most.saturating_sub(self.ledger.free()).div_ceil(each);
        let kept = self.slots.len().saturating_sub(dropped).max(LEAST_SLOTS);
        let freed = each * self.slots.len().saturating_sub(kept);
        let bytes = most.min(self.ledger.free() + freed + self.hot.sample_bytes());
        if bytes < most / 2 {
            // Shards have grown, and most of the memory is that of the least number of slots.
            self.hot.pause();
            return Ok(());
        }
        self.slots.truncate(kept);
        let hot = std::mem::take(&mut self.hot);
        match hot.cache_of((&self.ledger, &self.device), bytes) {
            Ok(hot) => self.hot = hot,
            Err(error) => {
                let taken = self.take_from_hot_pairs();
                self.hot.pause();
                return or_later(Err::<(), _>(error)).and(taken);
            }
        }
        Ok(())
    }

    /// Replaces the cache by a sample and slots.
    pub fn take_from_hot_pairs(&mut self) -> Result<()> {
        let hot = std::mem::take(&mut self.hot);
        let seed = self.inner.division().seed();
        let sample = hot.sample_of((&self.ledger, &self.device), self.plan.hot.most, seed);
        or_later(sample.map(|hot| self.hot = hot))?;
        let room = self.ledger.free() / Slot::byte_len(self.slots.words());
        let missing = self.shards.len().saturating_sub(self.slots.len());
        match self.slots.words() {
            0 => Ok(()),
            _ => or_later(self.slots.extend(&self.ledger, &self.device, room.min(missing))),
        }
    }
}

//! Device buffers for shards.
use super::ledger::{Ledger, Metered};
use super::plan::{COUNTER_WORDS, COUNTERS, DEPTH};
use super::shard::Image;
use crate::Result;
use gpu::{Buffer, Device, Stream};
use std::collections::VecDeque;
use std::sync::Arc;

/// A device buffer for one shard.
pub struct Slot {
    pub memory: Metered<Buffer<u64>>,
    pub counters: Metered<Buffer<u64>>,
    pub stream: Stream,
    /// Shard of whose image the buffer has a copy.
    pub holds: Option<usize>,
    /// Image to which the shard is written back.
    pub spare: Option<Image>,
    /// Pinned memory between the buffer and a file that kernels cannot access.
    pub stage: Option<Buffer<u64>>,
}

impl Slot {
    fn new(ledger: &Arc<Ledger>, device: &Device, words: usize, stream: Stream) -> Result<Self> {
        let mut counters = ledger.buffer(device, COUNTER_WORDS)?;
        counters.fill_bytes(0)?;
        let memory = ledger.buffer(device, words)?;
        Ok(Self { memory, counters, stream, holds: None, spare: None, stage: None })
    }

    /// Returns the bytes of a buffer of `words` words, with its counters.
    pub fn byte_len(words: usize) -> usize {
        8 * words + COUNTERS
    }
}

/// All buffers. Shards pass through the first [`DEPTH`] of them, one after the other. Those in the others
/// stay, since a batch has keys of most shards: to replace them by others would only cost copies.
#[derive(Default)]
pub struct Slots {
    all: Vec<Slot>,
    /// Words of each.
    words: usize,
    /// Slots whose work was submitted, the oldest first.
    flight: VecDeque<usize>,
    /// The next of the slots through which shards pass.
    next: usize,
}

impl Slots {
    /// Allocates `many` buffers of `words` words.
    pub fn new(ledger: &Arc<Ledger>, device: &Device, many: usize, words: usize) -> Result<Self> {
        let streams = (0..DEPTH.min(many)).map(|_| device.stream()).collect::<gpu::Result<Vec<_>>>()?;
        let slot = |index: usize| Slot::new(ledger, device, words, streams[index % streams.len()].clone());
        let all = (0..many).map(slot).collect::<Result<_>>()?;
        Ok(Self { all, words, flight: VecDeque::new(), next: 0 })
    }

    /// Frees all buffers but the first `many`. Nothing may be in flight.
    pub fn truncate(&mut self, many: usize) {
        self.all.truncate(many);
    }

    /// Allocates `many` more buffers. On error there may be fewer, and all are valid.
    pub fn extend(&mut self, ledger: &Arc<Ledger>, device: &Device, many: usize) -> Result<()> {
        for _ in 0..many {
            let stream = match self.all.len() {
                index if index < DEPTH => device.stream()?,
                index => self.all[index % DEPTH].stream.clone(),
            };
            self.all.push(Slot::new(ledger, device, self.words, stream)?);
        }
        Ok(())
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the words of a buffer; 0 if there is none.
    pub fn words(&self) -> usize {
        if self.all.is_empty() { 0 } else { self.words }
    }

    pub fn get(&self, slot: usize) -> &Slot {
        &self.all[slot]
    }

    pub fn get_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.all[slot]
    }

    /// Returns the streams of all slots.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter().take(DEPTH).map(|slot| &slot.stream)
    }

    /// Returns the buffer that has a copy of a shard.
    pub fn holding(&self, shard: usize) -> Option<usize> {
        self.all.iter().position(|slot| slot.holds == Some(shard))
    }

    /// Returns the shards of which a buffer has a copy.
    pub fn held(&self) -> Vec<usize> {
        self.all.iter().filter_map(|slot| slot.holds).collect()
    }

    /// Returns the buffer for a shard that is not there: an empty one that keeps it, or the next one.
    pub fn choose(&mut self) -> usize {
        let kept = DEPTH.min(self.all.len());
        let empty = self.all.iter().skip(kept).position(|slot| slot.holds.is_none());
        empty.map_or_else(
            || {
                self.next = (self.next + 1) % kept.max(1);
                self.next
            },
            |place| kept + place,
        )
    }

    /// Returns the oldest slot in flight, if there are as many as may be, or `slot` is one of them.
    pub fn oldest_before(&mut self, slot: usize) -> Option<usize> {
        let waits = self.flight.len() >= DEPTH || self.flight.contains(&slot);
        if waits { self.flight.pop_front() } else { None }
    }

    /// Returns the oldest slot in flight.
    pub fn oldest(&mut self) -> Option<usize> {
        self.flight.pop_front()
    }

    /// Adds a slot whose work was submitted.
    pub fn push(&mut self, slot: usize) {
        self.flight.push_back(slot);
    }

    /// Forgets the copy of a shard, which has changed elsewhere.
    pub fn forget(&mut self, shard: usize) {
        self.all.iter_mut().filter(|slot| slot.holds == Some(shard)).for_each(|slot| slot.holds = None);
    }

    /// Replaces the numbers of shards whose copies are there, and forgets the copies of those that have none.
    pub fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.all.iter_mut().for_each(|slot| slot.holds = slot.holds.and_then(&number));
    }

    /// Forgets all copies.
    pub fn forget_all(&mut self) {
        self.all.iter_mut().for_each(|slot| slot.holds = None);
    }

    /// Clears the counters after a failure.
    pub fn reset_counters(&mut self) {
        for slot in &mut self.all {
            let _ = slot.counters.fill_bytes(0);
            (slot.spare, slot.stage) = (None, None);
        }
        self.flight.clear();
    }
}

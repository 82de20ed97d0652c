//! Step 2 of a batch: each shard executes its elements.
use super::parts::{Area, Use};
use super::placement::Placement;
use super::plan::PLACES;
use super::shards::{ImageSize, Shards};
use super::tiers::Tiers;
use super::work::Work;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::nothing;
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::COUNTER_SHARDS;
use phalanx_kernels::tiered::kernels::TieredFold;
use simt::GlobalSlice;

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Serves the shards of which the batch has elements. `done` has an element for each shard of each chunk,
    /// and says which are done, also if the call fails.
    pub fn serve(&mut self, work: &Work<S::Part>, done: &mut [bool]) -> Result<()> {
        let mut in_place = Vec::new();
        let served = self.submit_all(work, &mut in_place, done);
        let (waited, finished) = (self.finish_places(work, &in_place), self.finish_slots(work, done));
        served.and(waited).and(finished)
    }

    /// Submits the work of all shards, first of those that are on the device.
    fn submit_all(
        &mut self,
        work: &Work<S::Part>,
        in_place: &mut Vec<usize>,
        done: &mut [bool],
    ) -> Result<()> {
        self.end_without_pairs(work, done)?;
        let held = self.slots.held();
        let others = (0..self.shards.len()).filter(|shard| !held.contains(shard));
        let order: Vec<usize> = held.iter().copied().chain(others).collect();
        for shard in order {
            match work.elements_of(shard) {
                0 => {}
                _ if work.only_finds && self.is_empty(shard) => {}
                many if self.brings(work, shard, many) => self.serve_on_device(work, (shard, many), done)?,
                many if self.is_provided(shard, in_place.len() % PLACES)? => {
                    in_place.push(shard);
                    self.serve_in_place(work, (shard, many), (in_place.len() % PLACES, &mut *done))?;
                }
                many => self.serve_staged(work, (shard, many), done)?,
            }
        }
        Ok(())
    }

    /// Returns whether a shard is served on the device.
    pub fn brings(&self, work: &Work<S::Part>, shard: usize, many: usize) -> bool {
        let size = self.shards[shard].size;
        let is_there = self.slots.holding(shard).is_some() || self.inner.is_new(&self.shards[shard]);
        size.words() <= self.slots.words()
            && match self.config.placement {
                _ if self.is_staged(shard) => true,
                Placement::AlwaysCopy => true,
                Placement::ByCost if work.writes && !self.inner.changes_in_place() => true,
                Placement::ByCost => self.config.costs.brings(many, size.byte_len(), (work.writes, is_there)),
                _ => false,
            }
    }

    /// Submits the elements of a shard, in place.
    fn serve_in_place(
        &mut self,
        work: &Work<S::Part>,
        (shard, many): (usize, usize),
        (place, done): (usize, &mut [bool]),
    ) -> Result<()> {
        let (mut table, stream) = (self.raw_in_place(shard, place), self.places[place].stream.clone());
        if work.writes {
            self.slots.forget(shard);
        }
        let (area, shards) = (Area::OfPlace(place), self.shards.len());
        // SAFETY: table and elements live until the stream is waited for; no other stream uses the shard.
        let launched = unsafe {
            let launch = |batch| self.inner.launch(&stream, &mut table, batch);
            self.launch_parts(&stream, work, (shard, area, Use::Operation), launch, |chunk| {
                done[chunk * shards + shard] = true;
            })
        };
        self.inner.launched(&mut self.shards[shard].size, &table);
        // What was launched counts, also if the rest was not.
        let folded = if work.writes { self.fold(shard, place) } else { Ok(()) };
        self.note_operations(many, false);
        launched.and(folded)
    }

    /// Allocates the image of a shard that has none, unless it will be staged. Waits. Returns whether kernels
    /// can access the image.
    pub fn is_provided(&mut self, shard: usize, place: usize) -> Result<bool> {
        if !self.shards[shard].is_blank() || self.is_staged(shard) {
            return Ok(!self.is_staged(shard));
        }
        let image = self.spares.take(&self.device, self.shards[shard].size.words())?;
        if image.staged().is_some() {
            // The driver has refused it.
            return Ok(false);
        }
        self.create_at(shard, image.words(), place)?;
        self.shards[shard].image = image;
        Ok(true)
    }

    /// Creates an empty shard at a place in memory. Waits.
    pub fn create_at(&self, shard: usize, memory: GlobalSlice<u64>, place: usize) -> Result<()> {
        let place = &self.places[place];
        let table = self.inner.table(&self.shards[shard], memory.as_ptr(), place.counters.pointer());
        // SAFETY: the memory is used by nothing else, and dropped after the wait.
        let created = unsafe { self.inner.create(&place.stream, &table, memory) };
        place.stream.synchronize()?;
        created
    }

    /// Submits the sum of the counters of operations in place.
    pub fn fold(&self, shard: usize, place: usize) -> Result<()> {
        let place = &self.places[place];
        // SAFETY: both live as long as the map, which waits.
        unsafe { fold(&place.stream, place.counters.global(), self.sums_of(shard)) }
    }

    /// Waits for all streams that serve shards.
    pub fn wait_for_shards(&self) -> Result<()> {
        let streams = self.places.iter().map(|place| &place.stream).chain(self.slots.streams());
        streams.into_iter().try_for_each(|stream| Ok(stream.synchronize()?))
    }

    /// Waits for the operations in place, and counts.
    fn finish_places(&mut self, work: &Work<S::Part>, in_place: &[usize]) -> Result<()> {
        self.places.iter().try_for_each(|place| place.stream.synchronize())?;
        if work.writes {
            in_place.iter().for_each(|&shard| self.count(shard));
        }
        Ok(())
    }

    /// Submits the copy of a shard to the device, its elements, and the copy back if it changes.
    fn serve_on_device(
        &mut self,
        work: &Work<S::Part>,
        (shard, many): (usize, usize),
        done: &mut [bool],
    ) -> Result<()> {
        let held = self.slots.holding(shard);
        let slot = held.unwrap_or_else(|| self.slots.choose());
        while let Some(oldest) = self.slots.oldest_before(slot) {
            self.finish_slot(work, oldest, done)?;
        }
        let submitted = self.submit_on_device(work, (shard, slot), held.is_some());
        if submitted.is_err() {
            // The copy may have changed, and the shard's image has not.
            self.slots.get_mut(slot).holds = None;
            return submitted;
        }
        self.note_operations(many, true);
        self.traffic.resident += if held.is_some() { many as u64 } else { 0 };
        self.slots.push(slot);
        Ok(())
    }

    /// Submits the work of a shard to the stream of its slot.
    fn submit_on_device(
        &mut self,
        work: &Work<S::Part>,
        (shard, slot): (usize, usize),
        is_there: bool,
    ) -> Result<()> {
        self.copy_in(shard, slot, is_there)?;
        let mut table = self.raw_in_slot(shard, slot);
        let stream = self.slots.get(slot).stream.clone();
        // SAFETY: table and elements live until the stream is waited for; no other stream uses them.
        unsafe {
            let launch = |batch| self.inner.launch(&stream, &mut table, batch);
            self.launch_parts(&stream, work, (shard, Area::OfSlot(slot), Use::Operation), launch, |_| {})?;
        }
        self.inner.launched(&mut self.shards[shard].size, &table);
        if work.writes { self.send_back(shard, slot) } else { Ok(()) }
    }

    /// Returns the table of a shard in a slot.
    pub fn raw_in_slot(&self, shard: usize, slot: usize) -> S::Table {
        let slot = self.slots.get(slot);
        self.inner.table(&self.shards[shard], slot.memory.pointer(), slot.counters.pointer())
    }

    /// Submits the copy of a shard to a slot, unless it is there. A shard without an image is created there.
    pub fn copy_in(&mut self, shard: usize, slot: usize, is_there: bool) -> Result<()> {
        if is_there {
            return Ok(());
        }
        let (words, is_new) = (self.shards[shard].size.words(), self.inner.is_new(&self.shards[shard]));
        let stage = if is_new { None } else { self.read_staged(shard)? };
        let (table, image) = (self.raw_in_slot(shard, slot), self.shards[shard].words_at(stage.as_ref()));
        let slot = self.slots.get_mut(slot);
        (slot.holds, slot.stage) = (None, stage);
        let memory = slot.memory.global().part(0, words);
        // SAFETY: image, stage and slot live until the map has waited; no other stream uses them.
        unsafe {
            match is_new {
                true => self.inner.create(&slot.stream, &table, memory)?,
                false => slot.stream.copy(memory, image)?,
            }
        }
        slot.holds = Some(shard);
        self.traffic.copied_in += if is_new { 0 } else { 8 * image.len() as u64 };
        Ok(())
    }

    /// Submits the copy of a changed shard from a slot to a spare image.
    fn send_back(&mut self, shard: usize, slot: usize) -> Result<()> {
        let words = self.shards[shard].size.words();
        let (spare, sums) = (self.spares.take(&self.device, words)?, self.sums_of(shard));
        let slot = self.slots.get_mut(slot);
        if spare.staged().is_some() && slot.stage.is_none() {
            slot.stage = Some(self.stages.take(&self.device, words)?);
        }
        let to = match spare.staged() {
            Some(_) => slot.stage.as_ref().map_or_else(nothing, |stage| stage.global().part(0, words)),
            None => spare.words(),
        };
        // SAFETY: spare, stage and slot live until the stream is waited for; no other stream uses them.
        unsafe {
            fold(&slot.stream, slot.counters.global(), sums)?;
            slot.stream.copy(to, slot.memory.global().part(0, words))?;
        }
        slot.spare = Some(spare);
        self.traffic.copied_out += 8 * words as u64;
        Ok(())
    }

    /// Waits for a slot. If its shard has changed, the written image takes the place of the old one.
    fn finish_slot(&mut self, work: &Work<S::Part>, slot: usize, done: &mut [bool]) -> Result<()> {
        let place = self.slots.get_mut(slot);
        let (spare, stage) = (place.spare.take(), place.stage.take());
        if let Err(error) = place.stream.synchronize() {
            place.holds = None;
            return Err(error.into());
        }
        let Some(shard) = place.holds else { return Ok(()) };
        if let Err(error) = self.keep_written(shard, spare, stage) {
            self.slots.get_mut(slot).holds = None;
            return Err(error);
        }
        let shards = self.shards.len();
        work.parts_of(shard).for_each(|(chunk, _)| done[chunk * shards + shard] = true);
        Ok(())
    }

    /// Waits for all slots in flight. Returns the first error.
    fn finish_slots(&mut self, work: &Work<S::Part>, done: &mut [bool]) -> Result<()> {
        let mut all = Ok(());
        while let Some(slot) = self.slots.oldest() {
            all = all.and(self.finish_slot(work, slot, done));
        }
        all
    }
}

/// Submits the addition of a table's counters to `sums`.
///
/// # Safety
/// - Both live until the stream has executed the launch; no other stream uses them.
pub unsafe fn fold(stream: &Stream, counters: GlobalSlice<u64>, sums: GlobalSlice<u64>) -> Result<()> {
    let grid = Grid::new(1, COUNTER_SHARDS as u32);
    // SAFETY: the caller's obligations.
    unsafe { Ok(stream.launch(grid, TieredFold { counters, sums })?) }
}

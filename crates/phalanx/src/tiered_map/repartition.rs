//! Growth of a resident map whose budget has no room for two tables, and division of a map into more shards,
//! when its tables have outgrown the budget.
use super::chunk::Has;
use super::plan::{self, Form};
use super::shard::{Image, Shard, Size};
use super::shards::Shards;
use super::tiers::{SUM_WORDS, Tiers, empty_image};
use super::work::Work;
use crate::error::made_room;
use crate::map::encoding::Word;
use crate::map::launch::{BatchOp, nothing};
use crate::{Error, Result};
use gpu::Tier;

impl<K: Word, V: Word> Tiers<K, V> {
    /// Grows the only table of a map whose budget has no room for two. The new table takes the place of the
    /// old one if it fits the budget; otherwise the map is divided into shards. If neither is possible, a new
    /// table of the same size reclaims the slots of removed keys. On error the map has its pairs; the table
    /// may then be in host memory, until this succeeds.
    pub fn grow_whole(&mut self, slots: usize) -> Result<()> {
        if made_room(self.replace_whole(slots))? {
            return Ok(());
        }
        let Shard { size, counts, .. } = self.shards[0];
        let divided = self.repartition(slots);
        let may_reclaim = matches!(divided, Err(Error::DeviceBudget { .. })) && counts.removed() > 0;
        if may_reclaim && made_room(self.replace_whole(size.slots))? { Ok(()) } else { divided }
    }

    /// Replaces the only table by one with at least `slots` slots, in the same place of the budget: the old
    /// table moves to host memory, from where its pairs are inserted into the new one. Returns `false` if the
    /// new table does not fit the budget, or the pairs do not fit the table.
    fn replace_whole(&mut self, slots: usize) -> Result<bool> {
        self.allocate()?;
        let size = Size::of(&*self.inner.kernels, slots)?;
        let is_resident = self.plan.form == Form::Resident;
        let leaves = if is_resident { self.shards[0].size.byte_len() } else { 0 };
        if size.byte_len() > self.ledger.budget() - (self.ledger.used() - leaves) {
            return Ok(false);
        }
        self.move_to_host()?;
        self.plan.form = Form::Resident;
        let new = self.rehashed(0, slots);
        if let Ok(Some(new)) = new {
            self.shards[0] = new;
            return Ok(true);
        }
        // The old table has all pairs.
        self.plan.form = Form::Flat;
        new.map(|_| false)
    }

    /// Divides the map into more shards, with at least `slots` slots in all. On error the map has its pairs;
    /// a map that was resident may then be one table in host memory, until this succeeds.
    pub fn repartition(&mut self, slots: usize) -> Result<()> {
        let least = match self.plan.form {
            Form::Sharded { bits } => bits + 1,
            Form::Resident | Form::Flat => 1,
        };
        let (kernels, budget) = (&*self.inner.kernels, self.ledger.budget());
        let plan = plan::split::<K, V>(kernels, (slots, least), budget, self.config.hot)?;
        let form = (plan.form, self.spares.source());
        let new = |_| Ok(Shard::new(empty_image(&self.device, &self.ledger, form, plan.size)?, plan.size));
        let shards: Vec<Shard> = (0..plan.shards).map(new).collect::<Result<_>>()?;
        let sums = self.device.buffer_on(Tier::Pinned, plan.shards * SUM_WORDS)?;
        self.leave_device()?;
        let old = std::mem::replace(&mut self.shards, shards);
        let before = (std::mem::replace(&mut self.plan, plan), std::mem::replace(&mut self.sums, sums));
        let moved = self.allocate().and_then(|()| old.iter().try_for_each(|shard| self.move_from(shard)));
        if moved.is_err() {
            self.settle();
            // The old shards have all pairs. Chunk buffers for them are allocated by the next batch.
            self.shards = old;
            (self.plan, self.sums) = before;
            self.free_device_memory();
        }
        self.spares.clear();
        moved
    }

    /// Frees the device memory of shards and chunks. A resident table moves to host memory.
    fn leave_device(&mut self) -> Result<()> {
        self.move_to_host()?;
        self.free_device_memory();
        Ok(())
    }

    /// Moves a resident table to host memory. On error it stays.
    fn move_to_host(&mut self) -> Result<()> {
        if self.plan.form == Form::Resident {
            let memory = self.device.buffer_on(Tier::Pinned, self.shards[0].size.words)?;
            let stream = &self.places[0].stream;
            // SAFETY: both live until the stream is waited for, and nothing else uses them.
            let copied = unsafe { stream.copy(memory.global(), self.shards[0].image.words()) };
            stream.synchronize()?;
            copied?;
            self.shards[0].image = Image::Host(memory);
            self.plan.form = Form::Flat;
        }
        Ok(())
    }

    /// Inserts the pairs of a shard of an earlier division.
    fn move_from(&mut self, old: &Shard) -> Result<()> {
        if old.is_blank() {
            return Ok(());
        }
        let (copy, counters) = (self.read_image(&old.image)?, self.places[0].counters.pointer());
        let table = self.inner.table(old, old.words_at(copy.as_ref()).as_ptr(), counters);
        let (all, threads) = (self.inner.kernels.scan_threads(&table), self.plan.chunk);
        let mut count = self.device.buffer_on::<u64>(Tier::Pinned, 1)?;
        for first in (0..all).step_by(threads) {
            let found = self.scan(&table, (first, threads), &mut count)?;
            if found > 0 {
                self.insert_given(found)?;
            }
        }
        self.stages.put(copy);
        Ok(())
    }

    /// Inserts the pairs of the first chunk buffer, which are not yet in the map.
    fn insert_given(&mut self, len: usize) -> Result<()> {
        let (routing, buffer) = (self.routing(len), &mut self.buffers[0]);
        let columns = buffer.moved(len);
        // SAFETY: nothing else uses the chunk buffer.
        unsafe {
            buffer.sort(len, (routing, false), nothing())?;
            buffer.find_bounds(len, routing.bits)?;
            buffer.gather(Has::PAIRS, None, len)?;
        }
        let chunk = columns.batch(BatchOp::InsertNew, Has::PAIRS);
        let work = Work::of_chunk(chunk, buffer.bounds()?, true);
        self.serve(&work, &mut vec![false; self.shards.len()])?;
        // SAFETY: as above.
        unsafe { self.buffers[0].count_refused(columns.outcomes, false)? };
        match self.buffers[0].refused()? as usize {
            0 => Ok(()),
            left_over => Err(Error::DoesNotFit { left_over, pairs: len }),
        }
    }
}

//! Division of a map into more shards, when its tables have outgrown the budget.
use super::chunk::Has;
use super::hot::HotPairs;
use super::plan::{self, Form};
use super::shard::{Image, Shard};
use super::slots::Slots;
use super::tiers::{SUM_WORDS, Tiers, Work, chunk_buffers, empty_image};
use crate::map::encoding::Word;
use crate::map::launch::BatchOp;
use crate::{Error, Result};
use gpu::Tier;

impl<K: Word, V: Word> Tiers<K, V> {
    /// Divides the map into more shards, with at least `slots` slots in all. On error the map has its pairs;
    /// a map that was resident may then be one table in host memory, until this succeeds.
    pub fn repartition(&mut self, slots: usize) -> Result<()> {
        let least = match self.plan.form {
            Form::Sharded { bits } => bits + 1,
            Form::Resident | Form::Flat => 1,
        };
        let plan =
            plan::split::<K, V>(&*self.kernels, (slots, least), self.ledger.budget(), self.config.hot)?;
        let form = (plan.form, self.config);
        let new = |_| Ok(Shard::new(empty_image(&self.device, &self.ledger, form, plan.size)?, plan.size));
        let shards: Vec<Shard> = (0..plan.shards()).map(new).collect::<Result<_>>()?;
        let sums = self.device.buffer_on(Tier::Pinned, plan.shards() * SUM_WORDS)?;
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
        self.spares = Default::default();
        moved
    }

    /// Frees the device memory of shards and chunks. A resident table moves to host memory.
    fn leave_device(&mut self) -> Result<()> {
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
        self.free_device_memory();
        Ok(())
    }

    /// Frees what [`Self::allocate`] allocates.
    fn free_device_memory(&mut self) {
        (self.slots, self.hot, self.buffers) = (Slots::default(), HotPairs::default(), Vec::new());
    }

    /// Allocates chunk buffers, unless there are some, and hot pairs and slots, all as planned.
    pub fn allocate(&mut self) -> Result<()> {
        if !self.buffers.is_empty() {
            return Ok(());
        }
        let (ledger, device, plan) = (&self.ledger, &self.device, self.plan);
        let buffers = chunk_buffers(ledger, device, plan)?;
        self.hot = HotPairs::new(ledger, device, plan.hot, self.config.seed)?;
        self.slots = Slots::new(ledger, device, plan.slots, plan.size.words)?;
        self.buffers = buffers;
        Ok(())
    }

    /// Inserts the pairs of a shard of an earlier division.
    fn move_from(&mut self, old: &Shard) -> Result<()> {
        let counters = self.places[0].counters.pointer();
        let table = old.size.raw(old.image.words().as_ptr(), counters, self.parameters());
        let (all, threads) = (self.kernels.scan_threads(&table), self.plan.chunk);
        let mut count = self.device.buffer_on::<u64>(Tier::Pinned, 1)?;
        for first in (0..all).step_by(threads) {
            let found = self.scan(&table, (first, threads), &mut count)?;
            if found > 0 {
                self.insert_given(found)?;
            }
        }
        Ok(())
    }

    /// Inserts the pairs of the first chunk buffer, which are not yet in the map.
    fn insert_given(&mut self, len: usize) -> Result<()> {
        let (routing, buffer) = (self.routing(len), &mut self.buffers[0]);
        let columns = buffer.moved(len);
        // SAFETY: nothing else uses the chunk buffer.
        unsafe {
            buffer.sort(len, routing, false)?;
            buffer.find_bounds(len, routing.bits)?;
            buffer.gather(Has::PAIRS, columns, len)?;
        }
        let mut work = Work::new(BatchOp::InsertNew, (false, false));
        work.bounds.push(buffer.bounds()?);
        work.chunks.push(columns.batch(BatchOp::InsertNew, Has::PAIRS));
        self.serve(&work, &mut vec![false; self.shards.len()])?;
        // SAFETY: as above.
        unsafe { self.buffers[0].count_refused(columns.outcomes, false)? };
        match self.buffers[0].refused()? as usize {
            0 => Ok(()),
            left_over => Err(Error::DoesNotFit { left_over, pairs: len }),
        }
    }
}

//! Lookups in the tables of all ranks by kernels of this rank, through peer access. No other rank takes part.
use super::engine::Engine;
use super::shape::Shape;
use super::small::batch_of;
use super::work::{answer_stride, words};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::structure::{Readable, Structure};
use crate::{Error, Result};
use exchange::Exchange;
use gpu::Stream;
use phalanx_kernels::sharded::kernels::Answers;
use phalanx_kernels::sharded::small::Fixed;
use std::sync::Arc;

/// A table that any rank of the process can read.
type Table<K, V> = Arc<dyn Readable<K, V>>;

/// The tables of all ranks.
pub struct Remote<K, V> {
    tables: Vec<Table<K, V>>,
    stream: Stream,
    /// Memory that lookups of the stream may still read.
    held: Vec<Arc<dyn Send + Sync>>,
}

impl<K: Word, V: Word> Remote<K, V> {
    /// Shares the table of this rank with the others. Returns `None` if this rank cannot read all tables.
    pub fn connect(
        exchange: &mut Exchange,
        shard: &dyn Structure<Key = K, Value = V>,
    ) -> Result<Option<Self>> {
        let own: Option<Table<K, V>> = shard.readable();
        let Some(all) = exchange.share(Arc::new(own))? else { return Ok(None) };
        let table =
            |shared: exchange::Shared| shared.downcast_ref::<Option<Table<K, V>>>().cloned().flatten();
        let Some(tables) = all.into_iter().map(table).collect::<Option<Vec<_>>>() else { return Ok(None) };
        for table in &tables {
            if !exchange.device().enable_peer(&table.device())? {
                return Ok(None);
            }
        }
        Ok(Some(Self { tables, stream: exchange.stream().clone(), held: Vec::new() }))
    }

    /// Submits a lookup in the table of a rank.
    fn look_up(&mut self, owner: usize, batch: Batch<K, V>) -> Result<()> {
        let memory = self.tables[owner].look_up(&self.stream, batch)?;
        if !self.held.iter().any(|held| Arc::ptr_eq(held, &memory)) {
            self.held.push(memory);
        }
        Ok(())
    }

    /// Forgets the memory of lookups that the stream has executed: all before a wait.
    pub fn forget(&mut self) {
        self.held.clear();
    }
}

impl<K, V> Drop for Remote<K, V> {
    /// Waits for the lookups. If their end is unknown, the tables are never freed.
    fn drop(&mut self) {
        if !self.held.is_empty() && self.stream.synchronize().is_err() {
            std::mem::forget(std::mem::take(&mut self.held));
        }
    }
}

impl<K: Word, V: Word> Engine<K, V> {
    /// Submits lookups, in parts for which the messages have room.
    pub fn get_remote(&mut self, batch: &Batch<K, V>) -> Result<()> {
        self.exchange.check()?;
        let shape = Shape::new::<K, V>((BatchOp::Get, true));
        let most = self.most_remote(&shape);
        for first in (0..batch.keys.max_len()).step_by(most) {
            self.get_part(&shape, &batch.part(first, most))?;
        }
        Ok(())
    }

    /// Returns the most lookups whose messages fit this rank's memory.
    fn most_remote(&self, shape: &Shape) -> usize {
        let mut room = self.geometry.room();
        while room > 16 && !self.has_room(&Fixed::new(self.geometry.ranks, room, shape.sent)) {
            room /= 2;
        }
        room
    }

    fn get_part(&mut self, shape: &Shape, part: &Batch<K, V>) -> Result<()> {
        let ranks = self.geometry.ranks;
        let fixed = Fixed::new(ranks, part.keys.max_len().next_multiple_of(16), shape.sent);
        let stride = answer_stride(&self.geometry, size_of::<V>());
        self.route(part, &fixed)?;
        let (messages, answers) = (words::<u8>(&self.work.send[0]), words::<u8>(&self.work.answers[0]));
        let remote = self.remote.as_mut().ok_or(Error::NotReadable)?;
        for owner in 0..ranks {
            let message = messages.part(owner * fixed.stride, fixed.stride);
            let answers = answers.part(owner * stride, usize::MAX);
            remote.look_up(owner, batch_of(shape, &fixed, message, answers))?;
        }
        let answers = &self.work.answers[0];
        let (own_values, own_outcomes) = (nothing(), nothing());
        let answers =
            Answers { values: words(answers), outcomes: words(answers), stride, own_values, own_outcomes };
        self.collect(part, &fixed, (u32::MAX, answers))
    }
}

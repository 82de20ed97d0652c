//! Reads of all pairs.
use super::chunk::{pinned, write_pinned};
use super::tiers::Tiers;
use crate::Result;
use crate::hash_map::table::RawTable;
use crate::map::Pairs;
use crate::map::encoding::Word;
use crate::map::launch::Scan;
use gpu::{Buffer, Tier};

impl<K: Word, V: Word> Tiers<K, V> {
    /// Returns all pairs.
    pub fn export(&mut self) -> Result<Pairs<K, V>> {
        self.finish_submitted()?;
        let (mut keys, mut values) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for shard in 0..self.shards.len() {
            let (some_keys, some_values) = self.export_shard(shard)?;
            keys.extend(some_keys);
            values.extend(some_values);
        }
        Ok((keys, values))
    }

    /// Returns the pairs of a shard. A kernel reads them in place, as many slots at a time as a chunk has
    /// elements.
    pub fn export_shard(&mut self, shard: usize) -> Result<Pairs<K, V>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        if self.shards[shard].is_blank() {
            return Ok((keys, values));
        }
        self.finish_submitted()?;
        self.allocate()?;
        let copy = self.open(shard)?;
        let (table, threads) = (self.raw_opened(shard, copy.as_ref()), self.plan.chunk);
        let all = self.inner.kernels.scan_threads(&table);
        let mut count = self.device.buffer_on::<u64>(Tier::Pinned, 1)?;
        for first in (0..all).step_by(threads) {
            let found = self.scan(&table, (first, threads), &mut count)?;
            let (columns, start) = (self.buffers[0].given(found), keys.len());
            keys.resize(start + found, K::default());
            values.resize(start + found, V::default());
            let stream = &self.buffers[0].stream;
            // SAFETY: all live until the stream is waited for; nothing else uses them.
            let read = unsafe {
                stream
                    .download(&mut keys[start..], columns.keys)
                    .and(stream.download(&mut values[start..], columns.arguments))
            };
            stream.synchronize()?;
            read?;
        }
        self.stages.put(copy);
        Ok((keys, values))
    }

    /// Writes the pairs of some slots to the first chunk buffer. Returns their number.
    pub fn scan(
        &mut self,
        table: &RawTable,
        (first, threads): (usize, usize),
        count: &mut Buffer<u64>,
    ) -> Result<usize> {
        write_pinned(count, 0);
        let buffer = &self.buffers[0];
        let (columns, count_words) = (buffer.given(threads), count.global());
        let (keys, values) = (columns.keys, columns.arguments);
        let scan = Scan::Export { first, threads, keys, values, count: count_words };
        // SAFETY: all live until the stream is waited for; nothing else uses the shard. A slot has at most
        // one pair, so the columns have room for all.
        unsafe { self.inner.kernels.launch_scan(&buffer.stream, table, scan)? };
        buffer.stream.synchronize()?;
        Ok(pinned(count)[0] as usize)
    }
}

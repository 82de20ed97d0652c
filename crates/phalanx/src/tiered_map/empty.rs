//! Shards without pairs: lookups and removals of their keys end without an access to a shard.
use super::shards::{Part, Shards};
use super::tiers::Tiers;
use super::work::Work;
use crate::Result;
use crate::map::encoding::Word;
use phalanx_kernels::keyed::Outcome;
use std::ops::Range;

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Returns whether a shard has no pairs.
    pub fn is_empty(&self, shard: usize) -> bool {
        self.shards[shard].counts.live == 0
    }

    /// Ends the operations that find nothing, because their shards have no pairs: sets their outcomes to
    /// `Absent`. Those of neighbouring shards are neighbours, so this is a fill per chunk and run of shards.
    pub fn end_without_pairs(&mut self, work: &Work<S::Part>, done: &mut [bool]) -> Result<()> {
        if !work.only_finds {
            return Ok(());
        }
        let mut shard = 0;
        while shard < self.shards.len() {
            let is_empty = self.is_empty(shard);
            let run = (shard..self.shards.len()).take_while(|&other| self.is_empty(other) == is_empty);
            let end = shard + run.count();
            if is_empty {
                self.end_run(work, shard..end, done)?;
            }
            shard = end;
        }
        Ok(())
    }

    /// Ends the operations on a run of shards.
    fn end_run(&mut self, work: &Work<S::Part>, run: Range<usize>, done: &mut [bool]) -> Result<()> {
        for (chunk, (part, bounds)) in work.chunks.iter().zip(&work.bounds).enumerate() {
            let (first, end) = (bounds[run.start] as usize, bounds[run.end] as usize);
            let Some(outcomes) = part.part(first, end - first).outcomes().filter(|_| first < end) else {
                continue;
            };
            // SAFETY: the outcomes live until `finish_places` has waited for the stream; no other stream
            // writes those of these shards.
            unsafe { self.places[0].stream.fill(outcomes, Outcome::Absent as u8)? };
            self.traffic.ended += (end - first) as u64;
            let shards = chunk * self.shards.len();
            done[shards + run.start..shards + run.end].fill(true);
        }
        Ok(())
    }
}

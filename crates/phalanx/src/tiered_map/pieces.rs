//! Batches of many chunks on maps with many shards. Step 1 keeps the first element of each shard in each
//! chunk, on the host: with chunks of 128 elements and 2^20 ranges, 32 KiB per element. So such a batch runs
//! in pieces, one after the other. Its elements have no order, so their outcomes are valid.
use super::chunk::Request;
use super::shards::Shards;
use super::tiers::Tiers;
use super::work::Failure;
use crate::map::encoding::Word;
use std::ops::Range;

/// Number of bounds that a batch may have in any case: 16 MiB.
const BOUNDS: usize = 1 << 22;

/// Returns the maximum number of elements of a piece of a batch of `len` elements: it has no more bounds than
/// the batch has elements, or [`BOUNDS`].
fn piece_len(len: usize, chunk: usize, shards: usize) -> usize {
    chunk.saturating_mul((BOUNDS.max(len) / shards).max(1))
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Runs a batch on shards, in pieces if it has too many bounds. Returns the number of refused elements.
    pub fn run_pieces(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        let (len, mut first, mut refused) = (request.len(), 0, 0);
        while first < len {
            // The map may be divided into more shards between two pieces.
            let each = piece_len(len, self.plan.chunk, self.shards.len());
            let range = first..len.min(first.saturating_add(each));
            if range == (0..len) {
                return self.run_sharded(request);
            }
            first = range.end;
            match self.run_sharded(&mut request.piece(&range)) {
                Ok(more) => refused += more,
                Err(failure) => return Err(self.failed_in(request, range, failure)),
            }
        }
        Ok(refused)
    }

    /// Returns the failure of a batch of which a piece has failed: those before are done.
    fn failed_in(
        &self,
        request: &Request<'_, K, V>,
        range: Range<usize>,
        Failure { source, done }: Failure,
    ) -> Failure {
        let outcomes = self.outcomes_of(request).unwrap_or_default();
        let is_done = |place| place < range.start && !request.is_refused(&outcomes, place);
        let mut all: Vec<bool> = (0..request.len()).map(is_done).collect();
        range.zip(done).for_each(|(place, is_done)| all[place] = is_done);
        Failure { source, done: all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_no_more_bounds_than_the_batch_has_elements() {
        assert_eq!(piece_len(1 << 30, 1 << 24, 1 << 20), 1 << 34, "one piece");
        assert_eq!(piece_len(1 << 26, 128, 1 << 20), 64 * 128);
        assert_eq!(piece_len(1000, 128, 1 << 20), 4 * 128);
        assert_eq!(piece_len(1, 128, 1 << 30), 128, "at least a chunk");
    }
}

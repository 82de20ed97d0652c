//! Common neighbours that a warp has found, or that may be some: it counts 32 at a time.
use super::algorithms::add_of_warp;
use super::common::BatchEdges;
use super::row_memory::WarpWords;
use simt::{GlobalSlice, Tile, device, shared};

/// Number of common neighbours for which a warp has room.
const FOUND: u32 = 96;
/// Number of words of shared memory of a warp: common neighbours, and how each was found.
const WORDS: u32 = 4 * FOUND;

/// How a common neighbour was found.
#[derive(Clone, Copy)]
pub(super) struct Trace {
    /// The ends of the edge.
    pub ends: [u32; 2],
    /// Index of the range of the table of the first end; 0 if there are no ranges.
    pub range: u32,
}

/// Common neighbours of the ends of edges of a batch.
pub(super) struct Found {
    words: WarpWords<WORDS>,
    batch: BatchEdges,
    /// Number of those that have not been counted.
    many: u32,
    /// Sum of the lane's shares.
    sum: u64,
}

#[device]
impl Found {
    pub fn new(batch: BatchEdges) -> Self {
        let words = WarpWords::new(shared!([u32; WarpWords::<WORDS>::BLOCK]));
        Self { words, batch, many: 0, sum: 0 }
    }

    /// Adds the lane's target if it is or may be a common neighbour of the ends of its edge. Call
    /// [`Self::count`] with 32 after at most two calls. The lanes of the warp call it together.
    pub fn keep(&mut self, trace: Trace, target: u32, is_common: bool) {
        let warp = Tile::<32>::lockstep();
        let votes = warp.ballot(is_common);
        if is_common {
            let place = (self.many + (votes & warp.lower_ranks()).count_ones()).min(FOUND - 1);
            self.words.store(place, target);
            self.words.store(FOUND + place, trace.ends[0]);
            self.words.store(2 * FOUND + place, trace.ends[1]);
            self.words.store(3 * FOUND + place, trace.range);
        }
        self.many += votes.count_ones();
    }

    /// Counts those that have been added while there are 32, or `least` if these are fewer. `is_common` tells
    /// whether the lane's target, if it has one, is a neighbour of the first end of its edge, and in the
    /// range. The lanes of the warp call it together, as they do `is_common`.
    pub fn count(&mut self, least: u32, is_common: impl Fn(Trace, Option<u32>) -> bool) {
        let warp = Tile::<32>::lockstep();
        while self.many >= least.max(1) {
            let first = self.many.saturating_sub(32);
            warp.sync();
            let (place, is_own) = (first + warp.rank(), first + warp.rank() < self.many);
            let [target, one, other, range] =
                [0, 1, 2, 3].map(|word| if is_own { self.words.load(word * FOUND + place) } else { 0 });
            let is_other = is_own && target != one && target != other;
            let trace = Trace { ends: [one, other], range };
            if is_common(trace, is_other.then_some(target)) && is_other {
                self.sum += self.batch.share(trace.ends, target);
            }
            self.many = first;
            warp.sync();
        }
    }

    /// Adds the shares to `total`. The lanes of the warp call it together.
    pub fn add_to(self, total: GlobalSlice<u64>) {
        add_of_warp(total.at(0), self.sum);
    }
}

//! The order in which the elements of a batch are inserted into a list, and their assignment to tiles.
//!
//! If the keys are sorted, all tiles of a launch compete for the last node of the list. So a batch is divided
//! into passes, each of which inserts elements from all over it: the first one, for example, every 4096th,
//! the next one every 1024th that is left, and so on. Each pass finds nodes all over the range of the batch's
//! keys, which the passes before have created.
use crate::ordered::directory::{FIRST, GROWTH};

/// Assignment of the keys of a batch to tiles (the paper's section 4.2.1, and our [`Self::Spread`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assignment {
    /// In passes, each of which covers the whole batch: as fast for sorted keys as for others. Batches that
    /// insert nothing are one pass.
    #[default]
    Spread,
    /// Neighboring elements to neighboring tiles, in one launch: the paper's cyclic assignment.
    Cyclic,
    /// Blocks of neighboring elements to neighboring tiles, each of which inserts its elements one after the
    /// other: the paper's block-cyclic assignment. For insertions only; other batches are [`Self::Cyclic`].
    Blocks {
        /// Elements per block, rounded up to a multiple of a tile's lanes.
        keys: u32,
        /// Number of thread blocks, of 128 threads each. `None`: as many as give each tile one block of keys.
        thread_blocks: Option<u32>,
    },
}

/// A pass: every `step`-th element of a batch, without every `ratio * step`-th if `ratio` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub step: u32,
    pub ratio: u32,
}

impl Pass {
    /// The whole batch in one pass.
    pub const WHOLE: Self = Self { step: 1, ratio: 0 };
}

/// Batch length from which a batch is divided into passes even if the list is not small.
const LARGE: u64 = 1 << 14;
/// Maximum number of elements in the first pass of such a batch.
const SEEDS: u64 = 1 << 12;

/// Returns the passes for a batch of `len` elements and a list of `pairs` pairs.
pub fn passes(len: u64, pairs: u64) -> Vec<Pass> {
    let most = FIRST.max(pairs.saturating_mul(GROWTH));
    match (len > most, len >= LARGE) {
        (true, _) => falling(len, most, GROWTH as u32),
        (false, true) => falling(len, SEEDS, 16),
        (false, false) => vec![Pass::WHOLE],
    }
}

/// Returns passes of which the first inserts at most `most` elements, and each reduces the step by the factor
/// `ratio`.
fn falling(len: u64, most: u64, ratio: u32) -> Vec<Pass> {
    let mut steps = vec![1u32];
    while let Some(&step) = steps.last()
        && len.div_ceil(u64::from(step)) > most
        && let Some(longer) = step.checked_mul(ratio)
    {
        steps.push(longer);
    }
    let first = steps.len() - 1;
    let pass = |(index, step)| Pass { step, ratio: if index == first { 0 } else { ratio } };
    steps.into_iter().enumerate().map(pass).rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_kernels::skiplist::kernels::passing;

    #[test]
    fn passes_bring_the_whole_batch_and_no_more_than_a_list_bears() {
        for pairs in [0, 1, 100, 1000, 1 << 20, u64::MAX] {
            for len in [0u64, 1, 511, 513, 2049, 100_000, 1 << 22] {
                let mut brought = 0;
                for Pass { step, ratio } in passes(len, pairs) {
                    let many = passing(len as usize, step, ratio) as u64;
                    let most = FIRST.max(pairs.saturating_add(brought).saturating_mul(GROWTH));
                    assert!(many <= most, "{pairs} {len} {step}: {many}");
                    brought += many;
                }
                assert_eq!(brought, len);
            }
        }
        assert_eq!(passes(1 << 20, 1 << 20).len(), 3);
        assert_eq!(passes(1000, 1 << 20), [Pass::WHOLE]);
    }
}

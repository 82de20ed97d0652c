//! In which order the elements of a batch are brought to a list, and by whom.
//!
//! Where keys come in order, all tiles of a launch want the last node of the list. So a batch is cut into
//! passes, each of which brings elements from all over it: the first every 4096th, say, the next every 1024th
//! but for those, and so on. Each pass finds nodes all over the range of the batch's keys, which the one
//! before has made.
use crate::btree::directory::{FIRST, GROWTH};

/// How the keys of a batch are shared out among tiles (section 4.2.1 of the paper, and what is ours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assignment {
    /// In passes, each of which goes through the whole batch: as fast for keys in order as for others. What
    /// is not insertion is one pass.
    #[default]
    Spread,
    /// Neighbouring elements to neighbouring tiles, in one launch: the paper's cyclic assignment.
    Cyclic,
    /// Blocks of so many neighbouring elements to neighbouring tiles, which insert one after the other: the
    /// paper's block-cyclic assignment. Insertions alone; other batches are [`Self::Cyclic`].
    Blocks {
        /// Elements in a block, rounded up to a multiple of a tile's lanes.
        keys: u32,
        /// Thread blocks, of 128 threads each; `None`: as many as give each tile one block of keys.
        thread_blocks: Option<u32>,
    },
}

/// A pass: every `step`-th element of a batch, but for every `ratio * step`-th, where `ratio` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub step: u32,
    pub ratio: u32,
}

impl Pass {
    /// The whole batch.
    pub const WHOLE: Self = Self { step: 1, ratio: 0 };
}

/// Elements of a batch that goes to a list which is not small, from which on it is brought in passes too.
const LARGE: u64 = 1 << 14;
/// What their first pass brings at most.
const SEEDS: u64 = 1 << 12;

/// The passes for a batch of `len` elements, and a list of `pairs`.
pub fn passes(len: u64, pairs: u64) -> Vec<Pass> {
    let most = FIRST.max(pairs.saturating_mul(GROWTH));
    match (len > most, len >= LARGE) {
        (true, _) => falling(len, most, GROWTH as u32),
        (false, true) => falling(len, SEEDS, 16),
        (false, false) => vec![Pass::WHOLE],
    }
}

/// Passes the first of which brings `most` at most, each of the others `ratio` times as many as all before
/// it.
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

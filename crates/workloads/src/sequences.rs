//! The eight key sequences of "Designing GPU Data Structures for Efficient Memory Oversubscription" (OOPSLA
//! 2026), table 2.
//!
//! With `n` keys, blocks of `B` = 5 x 10^8 keys (the paper's size; smaller for smaller runs), and `M` =
//! `u32::MAX`:
//!
//! | name | keys |
//! |---|---|
//! | MI | 1, 2, ..., n |
//! | DU | 1..=n without repetition, shuffled within blocks of `B` |
//! | DR | as DU, but a fifth of each block's keys repeat another key of the block |
//! | SU | from 1..=M-1 without repetition, in random order |
//! | SR | as SU, but a fifth repeat another key |
//! | SUR | from 1..=M-1 without repetition; the keys of each range of `B` are contiguous and shuffled; the ranges are shuffled |
//! | DUL | from 1 to the next multiple of 2 `B` not below n, without repetition, shuffled within blocks of 2 `B` |
//! | ZZ | 1, M-1, 2, M-2, 3, ... |
//!
//! Interpretations of the paper: the text bounds the sparse ranges by M-1 and the table by M (this module
//! follows the text). "20 % repetition" means that a fifth of the positions hold a key that also occurs
//! elsewhere. DUL's "nearest 10^9" is rounded up, since fewer keys than positions could not be unique, and
//! each block contributes keys in proportion.
use crate::keys::repeats;
use crate::permutation::Permutation;
use crate::random::{Source, below};
use crate::{Error, Result, check_available};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// Block size of the paper.
pub const PAPER_BLOCK: u64 = 500_000_000;

/// Share of repeated keys in DR and SR.
pub const REPETITION: f64 = 0.2;

/// Largest key of a sparse sequence.
const LARGEST: u64 = u32::MAX as u64 - 1;

/// A key sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sequence {
    /// Monotonically increasing.
    MI,
    /// Dense unique.
    DU,
    /// Dense repeat.
    DR,
    /// Sparse unique.
    SU,
    /// Sparse repeat.
    SR,
    /// Sparse unique random: blocks of neighbouring keys, shuffled.
    SUR,
    /// Dense-unique-like: a rounded-up range in larger blocks.
    DUL,
    /// Zigzag.
    ZZ,
}

impl Sequence {
    /// All sequences, in the paper's order.
    pub const ALL: [Self; 8] =
        [Self::MI, Self::DU, Self::DR, Self::SU, Self::SR, Self::SUR, Self::DUL, Self::ZZ];

    /// Returns the first `n` keys with the paper's blocks.
    ///
    /// # Errors
    /// As [`keys_in_blocks`](Self::keys_in_blocks).
    pub fn keys(self, n: usize, seed: u64) -> Result<Vec<u32>> {
        self.keys_in_blocks(n, PAPER_BLOCK, seed)
    }

    /// Returns the first `n` keys with blocks of `block` keys.
    ///
    /// # Errors
    /// [`Error::TooMany`] when the sequence has fewer than `n` keys; [`Error::Empty`] when `block` is 0.
    pub fn keys_in_blocks(self, n: usize, block: u64, seed: u64) -> Result<Vec<u32>> {
        if block == 0 {
            return Err(Error::Empty { what: "the block of a sequence" });
        }
        check_available("keys of a sequence", n as u64, self.longest(block))?;
        let plan = Plan::new(self, n as u64, block, seed)?;
        let source = Source::new(seed, "repeats of a sequence");
        Ok(source.generate(n, |generator, index| plan.key(generator, index as u64) as u32))
    }

    /// Returns the maximum length of the sequence. DUL's range must not exceed the largest key.
    fn longest(self, block: u64) -> u64 {
        match self {
            Self::DUL => LARGEST - LARGEST % block.saturating_mul(2).max(1),
            _ => LARGEST,
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for Sequence {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        crate::named(&Self::ALL, "key sequence", text)
    }
}

/// Method to compute any key of a sequence from its position.
enum Plan {
    Increasing,
    Zigzag,
    Blocks(Vec<Block>),
}

/// Positions that share a range of keys.
struct Block {
    /// First position of the block.
    start: u64,
    /// First key of the range, minus one.
    base: u64,
    /// Number of positions with a unique key; later positions repeat one of these keys.
    unique: u64,
    /// Permutation from positions to places of the block.
    order: Permutation,
    /// Permutation from places to keys of the range.
    choice: Permutation,
}

impl Plan {
    fn new(sequence: Sequence, n: u64, block: u64, seed: u64) -> Result<Self> {
        let rate = if matches!(sequence, Sequence::DR | Sequence::SR) { REPETITION } else { 0.0 };
        let ranges = match sequence {
            Sequence::MI => return Ok(Self::Increasing),
            Sequence::ZZ => return Ok(Self::Zigzag),
            Sequence::DU | Sequence::DR => ranges(n, n, block),
            Sequence::SU | Sequence::SR => ranges(n, LARGEST, LARGEST),
            Sequence::SUR => shuffled(ranges(n, LARGEST, block), seed),
            Sequence::DUL => {
                let batch = block.saturating_mul(2);
                ranges(n, n.div_ceil(batch).max(1) * batch, batch)
            }
        };
        blocks(ranges, rate, seed).map(Self::Blocks)
    }

    fn key(&self, generator: &mut ChaCha8Rng, position: u64) -> u64 {
        match self {
            Self::Increasing => position + 1,
            Self::Zigzag if position.is_multiple_of(2) => position / 2 + 1,
            Self::Zigzag => LARGEST - position / 2,
            Self::Blocks(blocks) => {
                let block = &blocks[blocks.partition_point(|block| block.start <= position) - 1];
                block.key(generator, position - block.start)
            }
        }
    }
}

impl Block {
    fn key(&self, generator: &mut ChaCha8Rng, position: u64) -> u64 {
        let place = self.order.at(position);
        let place = if place < self.unique { place } else { below(generator, self.unique) };
        self.base + 1 + self.choice.at(place)
    }
}

/// A range of keys and the number of keys wanted from it.
#[derive(Clone, Copy)]
struct Range {
    base: u64,
    width: u64,
    wanted: u64,
}

/// Splits `1..=largest` into ranges of `block` keys, with `n` wanted keys distributed in proportion.
fn ranges(n: u64, largest: u64, block: u64) -> Vec<Range> {
    let share = |end: u64| (n as u128 * end as u128 / largest.max(1) as u128) as u64;
    let bases = (0..largest).step_by(block.min(usize::MAX as u64) as usize);
    bases
        .map(|base| {
            let end = largest.min(base.saturating_add(block));
            Range { base, width: end - base, wanted: share(end) - share(base) }
        })
        .collect()
}

fn shuffled(ranges: Vec<Range>, seed: u64) -> Vec<Range> {
    let order = Permutation::new(ranges.len() as u64, &Source::new(seed, "order of blocks"));
    (0..ranges.len() as u64).map(|index| ranges[order.at(index) as usize]).collect()
}

fn blocks(ranges: Vec<Range>, rate: f64, seed: u64) -> Result<Vec<Block>> {
    let mut start = 0;
    let mut blocks = Vec::with_capacity(ranges.len());
    for (index, range) in ranges.into_iter().enumerate().filter(|(_, range)| range.wanted > 0) {
        let order = Source::new(seed, &format!("order {index}"));
        let choice = Source::new(seed, &format!("choice {index}"));
        blocks.push(Block {
            start,
            base: range.base,
            unique: range.wanted - repeats(range.wanted, rate)?,
            order: Permutation::new(range.wanted, &order),
            choice: Permutation::new(range.width, &choice),
        });
        start += range.wanted;
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const N: usize = 100_000;
    const BLOCK: u64 = 16_384;

    fn keys(sequence: Sequence) -> Vec<u32> {
        sequence.keys_in_blocks(N, BLOCK, 1).unwrap()
    }

    fn distinct(keys: &[u32]) -> usize {
        keys.iter().collect::<HashSet<_>>().len()
    }

    #[test]
    fn increasing_and_zigzag_are_as_the_table_says() {
        assert_eq!(Sequence::MI.keys(4, 1).unwrap(), [1, 2, 3, 4]);
        assert_eq!(Sequence::ZZ.keys(5, 1).unwrap(), [1, u32::MAX - 1, 2, u32::MAX - 2, 3]);
    }

    #[test]
    fn repetition_is_a_fifth_or_none() {
        for sequence in Sequence::ALL {
            let expected =
                if matches!(sequence, Sequence::DR | Sequence::SR) { 80_000..80_010 } else { N..N + 1 };
            let found = distinct(&keys(sequence));
            assert!(expected.contains(&found), "{sequence}: {found}");
        }
    }

    /// Every block of positions holds keys of its own block of numbers, out of order.
    #[test]
    fn dense_sequences_are_shuffled_within_blocks() {
        for sequence in [Sequence::DU, Sequence::DR] {
            for (index, positions) in (0..).zip(keys(sequence).chunks(BLOCK as usize)) {
                let numbers = index * BLOCK + 1..=((index + 1) * BLOCK).min(N as u64);
                let is_inside = |key: &u32| numbers.contains(&(*key).into());
                assert!(positions.iter().all(is_inside), "{sequence}, block {index}");
                assert!(!positions.is_sorted());
            }
        }
        let mut sorted = keys(Sequence::DU);
        sorted.sort_unstable();
        assert_eq!(sorted, Sequence::MI.keys(N, 1).unwrap());
    }

    #[test]
    fn the_larger_range_of_dul_is_a_multiple_of_its_batch() {
        let keys = keys(Sequence::DUL);
        let range = (N as u64).next_multiple_of(2 * BLOCK);
        assert!(keys.iter().all(|&key| (1..=range).contains(&key.into())));
        let largest = *keys.iter().max().unwrap() as u64;
        assert!(largest > range - range / 100, "the last batch is used: {largest} of {range}");
        let batches: Vec<u64> = keys.iter().map(|&key| (key as u64 - 1) / (2 * BLOCK)).collect();
        assert!(batches.is_sorted(), "batches come one after the other");
    }

    #[test]
    fn sparse_sequences_cover_the_range() {
        for sequence in [Sequence::SU, Sequence::SR, Sequence::SUR] {
            let mut tenths = [0; 10];
            keys(sequence).iter().for_each(|&key| tenths[((key as u64 * 10) >> 32) as usize] += 1);
            assert!(tenths.iter().all(|&count| (9_300..10_700).contains(&count)), "{sequence}: {tenths:?}");
        }
        assert!(keys(Sequence::SU).iter().all(|&key| (1..u32::MAX).contains(&key)));
    }

    /// With the paper's blocks there are nine ranges. Each is one run of positions, and the runs are out of
    /// order.
    #[test]
    fn sur_shuffles_blocks() {
        let keys = Sequence::SUR.keys(N, 1).unwrap();
        let mut runs: Vec<u64> = keys.iter().map(|&key| (key as u64 - 1) / PAPER_BLOCK).collect();
        runs.dedup();
        assert_eq!(runs.len(), 9);
        assert!(!runs.is_sorted());
    }

    #[test]
    fn names_parse_and_limits_hold() {
        assert!(Sequence::ALL.iter().all(|sequence| sequence.to_string().parse() == Ok(*sequence)));
        assert!("XX".parse::<Sequence>().unwrap_err().to_string().contains("MI, DU, DR"));
        assert!(matches!(Sequence::DU.keys_in_blocks(1, 0, 1), Err(Error::Empty { .. })));
        assert!(matches!(Sequence::SU.keys(1 << 33, 1), Err(Error::TooMany { .. })));
        assert!(Sequence::ALL.iter().all(|sequence| sequence.keys(0, 1).unwrap().is_empty()));
    }
}

//! Steps in which the ranks tell each other numbers. Each begins with the operation, so that ranks that call
//! different ones learn it before anything is done.
use super::engine::Engine;
use crate::Result;
use crate::map::encoding::Word;
use exchange::check_equal;

/// Words of a step: the operation, and numbers. All steps have as many, because NCCL needs equal lengths.
pub const STEP_WORDS: usize = 9;

/// An operation of all ranks, or a part of one. Batches have numbers of their own below these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Types = 1 << 16,
    Calibrate,
    AllGather,
    Len,
    Refused,
    Grow,
    Retain,
    RetainKeys,
    Clear,
    Export,
    Save,
    Load,
    /// Whether kernels write messages.
    Windows,
    /// The end of an operation of the shards.
    End,
}

impl<K: Word, V: Word> Engine<K, V> {
    /// Tells all ranks some numbers, fewer than [`STEP_WORDS`]. Returns those of each rank, or an error if a
    /// rank executes another operation.
    pub fn exchange_numbers<const N: usize>(
        &mut self,
        step: Step,
        numbers: [u64; N],
    ) -> Result<Vec<[u64; N]>> {
        const { assert!(N < STEP_WORDS) };
        self.pending.are_last = false; // afterwards, a rank may change its shard by itself
        let mut words = [0; STEP_WORDS];
        words[0] = step as u64;
        words[1..=N].copy_from_slice(&numbers);
        let all = self.exchange.agree(&words)?;
        check_equal("operation", all.iter().map(|words| words[0]))?;
        Ok(all.iter().map(|words| std::array::from_fn(|number| words[1 + number])).collect())
    }
}

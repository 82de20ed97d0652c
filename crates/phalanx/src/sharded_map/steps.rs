//! Steps in which the ranks tell each other numbers. Each begins with the operation, so that ranks that call
//! different ones learn it before anything is done.
use super::engine::Engine;
use crate::Result;
use crate::map::encoding::Word;

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
        let mut words = [0; STEP_WORDS];
        words[0] = step as u64;
        words[1..=N].copy_from_slice(&numbers);
        let all = self.exchange.agree(&words)?;
        check_equal(&all, 0, "operation")?;
        Ok(all.iter().map(|words| std::array::from_fn(|number| words[1 + number])).collect())
    }
}

/// Returns an error unless the ranks have told the same word with this index, a property `what`.
pub fn check_equal(all: &[Vec<u64>], word: usize, what: &'static str) -> Result<()> {
    let expected = all[0][word];
    match all.iter().position(|words| words[word] != expected) {
        None => Ok(()),
        Some(rank) => {
            let found = all[rank][word];
            Err(exchange::Error::Mismatch { what, rank, found, expected }.into())
        }
    }
}

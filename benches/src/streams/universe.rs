//! The keys of a cell, and who owns them.
use super::STREAMS;
use anyhow::Result;
use rayon::prelude::*;
use workloads::{Key as Word, UniqueKeys};

/// Who owns keys: the streams, and the host's blocking calls.
pub const OWNERS: usize = STREAMS + 1;
/// The owner of the keys that blocking calls insert.
pub const HOST: usize = STREAMS;

/// Random keys in order. Key number `i` belongs to owner `i % OWNERS`: the owners' keys lie side by side.
pub struct Universe<T> {
    keys: Vec<T>,
    /// For each owner, the numbers of its keys in random order.
    shuffled: Vec<Vec<u32>>,
}

impl<T: Word + Ord> Universe<T> {
    /// About `n` keys.
    ///
    /// # Errors
    /// More keys than the type has.
    pub fn new(n: usize, seed: u64) -> Result<Self> {
        let random = UniqueKeys::new(seed).present(n / OWNERS * OWNERS)?;
        let mut order: Vec<u32> = (0..random.len() as u32).collect();
        order.par_sort_unstable_by_key(|&index| random[index as usize]);
        let keys = order.iter().map(|&index| random[index as usize]).collect();
        // The random keys came in random order, so their ranks are a random permutation.
        let mut ranks = vec![0u32; order.len()];
        order.iter().zip(0..).for_each(|(&index, rank)| ranks[index as usize] = rank);
        let own = |owner| ranks.iter().copied().filter(|rank| *rank as usize % OWNERS == owner).collect();
        Ok(Self { keys, shuffled: (0..OWNERS).map(own).collect() })
    }

    /// All keys in order.
    pub fn keys(&self) -> &[T] {
        &self.keys
    }

    /// The numbers of an owner's keys, in random order.
    pub fn of(&self, owner: usize) -> &[u32] {
        &self.shuffled[owner]
    }

    /// The number of a key.
    pub fn number(&self, key: T) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }
}

//! Keys of a cell, and their owners.
use super::STREAMS;
use anyhow::Result;
use phalanx::map::Word as MapWord;
use rayon::prelude::*;
use workloads::{Key as Word, UniqueKeys};

/// Type of keys and values: `u32` or `u64`.
pub trait Element: MapWord + Word {}
impl Element for u32 {}
impl Element for u64 {}

/// Number of owners of keys: the streams, and the host's blocking calls.
pub const OWNERS: usize = STREAMS + 1;
/// Owner of the keys that blocking calls insert.
pub const HOST: usize = STREAMS;

/// Random keys in ascending order. Key number `i` belongs to owner `i % OWNERS`, so that the keys of all
/// owners are interleaved.
pub struct Universe<T> {
    keys: Vec<T>,
    /// Numbers of each owner's keys, in random order.
    shuffled: Vec<Vec<u32>>,
}

impl<T: Word + Ord> Universe<T> {
    /// Creates about `n` keys.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the type has fewer keys.
    pub fn new(n: usize, seed: u64) -> Result<Self> {
        let random = UniqueKeys::new(seed).present(n / OWNERS * OWNERS)?;
        let mut order: Vec<u32> = (0..random.len() as u32).collect();
        order.par_sort_unstable_by_key(|&index| random[index as usize]);
        let keys = order.iter().map(|&index| random[index as usize]).collect();
        // The random keys were generated in random order, so their ranks are a random permutation.
        let mut ranks = vec![0u32; order.len()];
        order.iter().zip(0..).for_each(|(&index, rank)| ranks[index as usize] = rank);
        let own = |owner| ranks.iter().copied().filter(|rank| *rank as usize % OWNERS == owner).collect();
        Ok(Self { keys, shuffled: (0..OWNERS).map(own).collect() })
    }

    /// Returns all keys in ascending order.
    pub fn keys(&self) -> &[T] {
        &self.keys
    }

    /// Returns the numbers of an owner's keys, in random order.
    pub fn of(&self, owner: usize) -> &[u32] {
        &self.shuffled[owner]
    }

    /// Returns the number of a key.
    pub fn number(&self, key: T) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }
}

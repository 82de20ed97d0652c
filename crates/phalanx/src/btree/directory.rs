//! When the directory of a tree is made anew, and into how many launches a batch of insertions is cut so that it can be.
use crate::Result;
use crate::map::launch::{Ask, Batch};
use gpu::Buffer;
use phalanx_kernels::btree::{COUNTERS, HEAD};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pairs that the first launch on an empty tree brings: all of them want one leaf.
pub const FIRST: u64 = 512;
/// By how much a tree may grow in one launch. Who walks by an old directory goes right as often as the node that it led to was split.
pub const GROWTH: u64 = 4;

/// How old a directory is.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    /// Pairs in the tree, at most.
    pairs: u64,
    /// As many as there were when the directory was made.
    listed: u64,
}

/// The directory's memory, and how old it is. What is known of the tree's size is what was asked for: an upper bound, for nobody waits to ask the
/// device. Launches of several streams may see each other's directory too early or too late, which costs steps and nothing else.
#[derive(Debug)]
pub struct Directory {
    words: Buffer<u64>,
    /// Entries that it has room for.
    entries: u32,
    age: Mutex<Age>,
    /// If not, it is never made, and walks begin at the root.
    used: bool,
}

impl Directory {
    /// Of an empty tree, for `entries`, in zeroed memory.
    pub fn new(words: Buffer<u64>, entries: u32) -> Self {
        Self { words, entries, age: Mutex::default(), used: true }
    }

    /// One that is made when it is time, or never.
    pub fn used(self, used: bool) -> Self {
        Self { used, ..self }
    }

    /// Goes on counting where another one has come to.
    pub fn count_on(&mut self, other: &Self) -> Result<()> {
        let mut counters = [0; HEAD - COUNTERS];
        other.words.read_into(COUNTERS, &mut counters)?;
        Ok(self.words.write_at(COUNTERS, &counters)?)
    }

    /// Whether it is ever made.
    pub fn is_used(&self) -> bool {
        self.used
    }

    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// What kernels take.
    pub fn pointer(&self) -> *mut u64 {
        self.words.pointer()
    }

    pub fn bytes(&self) -> usize {
        self.words.bytes()
    }

    // Numbers alone are behind the lock: what a panic leaves is as good as any.
    fn age(&self) -> MutexGuard<'_, Age> {
        self.age.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pairs in the tree, at most.
    pub fn pairs(&self) -> u64 {
        self.age().pairs
    }

    /// A launch was asked for that brings so many pairs.
    pub fn expect(&self, many: u64) {
        let mut age = self.age();
        age.pairs = age.pairs.saturating_add(many);
    }

    /// The words before the entries: see `phalanx_kernels::btree::COUNTERS`.
    pub fn words(&mut self) -> &mut Buffer<u64> {
        &mut self.words
    }

    /// The tree has so many pairs now.
    pub fn learn(&self, pairs: u64) {
        self.age().pairs = pairs;
    }

    /// Whether the tree may have grown by more than a quarter since it was made. If so, the caller makes it.
    pub fn is_due(&self) -> bool {
        let mut age = self.age();
        let due = age.pairs > age.listed + age.listed / 4 + FIRST / 2;
        if due {
            age.listed = age.pairs;
        }
        due
    }

    /// It was made of a tree of so many pairs, and nothing else runs.
    pub fn made(&mut self, pairs: u64) {
        *self.age() = Age { pairs, listed: pairs };
    }

    /// The tree is another one, of so many pairs, and has none yet.
    pub fn forgotten(&mut self, pairs: u64) {
        *self.age() = Age { pairs, listed: 0 };
    }

    /// What of a batch goes into the next launch, and what is left.
    pub fn portion<K: simt::Word, V: simt::Word>(
        &self,
        batch: Batch<K, V>,
    ) -> (Batch<K, V>, Option<Batch<K, V>>) {
        if !places(batch.ask) {
            return (batch, None);
        }
        let (len, mut age) = (batch.keys.len() as u64, self.age());
        let many = len.min(FIRST.max(age.pairs.saturating_mul(GROWTH)));
        age.pairs = age.pairs.saturating_add(many);
        let rest = (many < len).then(|| batch.part(many as usize, usize::MAX));
        (batch.part(0, many as usize), rest)
    }
}

/// Whether a batch may add pairs.
pub fn places(ask: Ask) -> bool {
    match ask {
        Ask::Insert | Ask::InsertNew | Ask::Mixed => true,
        Ask::Get | Ask::ContainsKey | Ask::Remove => false,
        Ask::Apply(operation) => phalanx_kernels::keyed::Operation::places(operation),
    }
}

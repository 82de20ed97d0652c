//! When the directory of a tree is made anew, and into how many launches a batch of insertions is cut so that
//! it can be.
use crate::Result;
use crate::map::launch::{Ask, Batch};
use gpu::{Buffer, Event, Stream};
use phalanx_kernels::btree::{COUNTERS, HEAD};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pairs that the first launch on an empty tree brings: all of them want one leaf.
pub const FIRST: u64 = 512;
/// By how much a tree may grow in one launch. Who walks by an old directory goes right as often as the node
/// that it led to was split.
pub const GROWTH: u64 = 4;

/// How old a directory is.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    /// Pairs in the tree, at most.
    pairs: u64,
    /// As many as there were when the directory was made.
    listed: u64,
}

/// A stream whose batch grows a small tree, and that other streams wait for before they insert.
#[derive(Debug)]
struct Growing {
    stream: Stream,
    /// A point behind the launches that others wait for, once another stream has asked. An event between the
    /// launches of a batch would keep them from following closely, so nobody pays for it but those who wait.
    event: Option<Event>,
}

/// The directory's memory, and how old it is. What is known of the tree's size is what was asked for: an
/// upper bound, for nobody waits to ask the device. Launches of several streams may see each other's
/// directory too early or too late, which costs steps and nothing else.
///
/// A batch that is much larger than the tree is cut into launches, each a few times as large as the one
/// before, so that few operations want the same leaf. Other streams must not defeat that: their insertions
/// wait for what such a batch's stream was asked for until then, after which the tree is large enough for
/// what is asked of it.
#[derive(Debug)]
pub struct Directory {
    words: Buffer<u64>,
    /// Entries that it has room for.
    entries: u32,
    age: Mutex<Age>,
    /// The stream of the last batch that grew a small tree.
    growing: Mutex<Option<Growing>>,
    /// If not, it is never made, and walks begin at the root.
    used: bool,
}

impl Directory {
    /// Of an empty tree, for `entries`, in zeroed memory.
    pub fn new(words: Buffer<u64>, entries: u32) -> Self {
        Self { words, entries, age: Mutex::default(), growing: Mutex::default(), used: true }
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

    /// Makes a stream wait until the tree has grown for its insertions, where another stream's batch is
    /// growing it.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost.
    pub fn wait_for_growth(&self, stream: &Stream) -> Result<()> {
        let mut growing = self.growing();
        let Some(other) = growing.as_mut().filter(|other| other.stream != *stream) else { return Ok(()) };
        let event = match other.event.take() {
            Some(event) => event,
            None => other.stream.record()?,
        };
        if event.is_complete()? {
            *growing = None;
            return Ok(());
        }
        stream.wait(&event)?;
        other.event = Some(event);
        Ok(())
    }

    /// Notes that a launch was submitted that brings `many` pairs at most. Where more launches of its batch
    /// follow, because the tree is small, insertions of other streams wait for it.
    pub fn submitted(&self, stream: &Stream, many: u64, more_follow: bool) {
        if more_follow {
            *self.growing() = Some(Growing { stream: stream.clone(), event: None });
        }
        // Behind that: a thread that reads this number finds the stream.
        let mut age = self.age();
        age.pairs = age.pairs.saturating_add(many);
    }

    // A panic leaves it whole, as it does the age.
    fn growing(&self) -> MutexGuard<'_, Option<Growing>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The words before the entries: see `phalanx_kernels::btree::COUNTERS`.
    pub fn words(&mut self) -> &mut Buffer<u64> {
        &mut self.words
    }

    /// The tree has so many pairs now.
    pub fn learn(&self, pairs: u64) {
        self.age().pairs = pairs;
    }

    /// Returns the number of pairs to pass to [`Self::listed`] once the directory is rebuilt, if the tree may
    /// have grown by more than a quarter since it was. Two threads may both be told to rebuild it, which is
    /// safe.
    pub fn due(&self) -> Option<u64> {
        let age = self.age();
        (age.pairs > age.listed + age.listed / 4 + FIRST / 2).then_some(age.pairs)
    }

    /// Notes that a rebuild was submitted, for a tree of so many pairs.
    pub fn listed(&self, pairs: u64) {
        let mut age = self.age();
        age.listed = age.listed.max(pairs);
    }

    /// It was made of a tree of so many pairs, and nothing else runs.
    pub fn made(&mut self, pairs: u64) {
        *self.age() = Age { pairs, listed: pairs };
    }

    /// The tree is another one, of so many pairs, and has none yet.
    pub fn forgotten(&mut self, pairs: u64) {
        *self.age() = Age { pairs, listed: 0 };
    }

    /// Pairs that the next launch may bring.
    pub fn most(&self) -> u64 {
        FIRST.max(self.pairs().saturating_mul(GROWTH))
    }

    /// Splits a batch into what goes into the next launch, and the rest, if there is one.
    pub fn portion<K: simt::Word, V: simt::Word>(
        &self,
        batch: Batch<K, V>,
    ) -> (Batch<K, V>, Option<Batch<K, V>>) {
        // Read once: another thread may have it rise meanwhile.
        let (len, most) = (batch.keys.len() as u64, self.most());
        if !places(batch.ask) || len <= most {
            return (batch, None);
        }
        let many = most as usize;
        (batch.part(0, many), Some(batch.part(many, usize::MAX)))
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

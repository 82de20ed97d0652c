//! Schedule of directory rebuilds, and division of batches of insertions into launches between which the
//! directory can be rebuilt.
use crate::Result;
use crate::map::launch::Batch;
use gpu::{Buffer, Event, Stream};
use phalanx_kernels::ordered::{COUNTERS, HEAD};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of pairs in the first launch on an empty tree, where all pairs go to one leaf.
pub const FIRST: u64 = 512;
/// Maximum growth factor of a tree in one launch. A descent that begins at an outdated directory follows one
/// right link for each split of the node to which the directory led.
pub const GROWTH: u64 = 4;

/// Number of pairs of a small tree, whose few levels a descent from the root reads in the time that a search
/// of the directory takes.
const SMALL: u64 = 2 * FIRST;

/// Estimated size of the tree, now and at the last rebuild of the directory.
#[derive(Clone, Copy, Debug, Default)]
struct SizeEstimate {
    /// Upper bound of the number of pairs in the tree.
    pairs: u64,
    /// The estimate when the directory was rebuilt.
    at_rebuild: u64,
}

/// A stream whose batch grows a small tree. Other streams wait for it before they insert.
#[derive(Debug)]
struct Growing {
    stream: Stream,
    /// An event after the launches for which others wait, recorded once another stream needs it. Events
    /// between all launches of a batch would keep them from following each other closely, so only streams
    /// that wait pay for one.
    event: Option<Event>,
}

/// Memory and age of the directory. The tree's size is estimated from the submitted batches: an upper bound,
/// since asking the device would mean to wait. Launches of several streams may see each other's directory too
/// early or too late, which costs only steps.
///
/// A batch that is much larger than the tree is divided into launches, each a few times as large as the one
/// before, so that few operations compete for the same leaf. Insertions of other streams must not defeat
/// that: they wait for the launches submitted so far by such a batch's stream, after which the tree is large
/// enough for them.
#[derive(Debug)]
pub struct Directory {
    words: Buffer<u64>,
    /// Capacity in entries.
    entries: u32,
    estimate: Mutex<SizeEstimate>,
    /// Stream of the last batch that grew a small tree.
    growing: Mutex<Option<Growing>>,
    /// Whether the directory is used. If not, it is never rebuilt, and descents begin at the root.
    used: bool,
}

impl Directory {
    /// Creates the directory of an empty tree with `entries` entries, in zeroed memory.
    pub fn new(words: Buffer<u64>, entries: u32) -> Self {
        Self { words, entries, estimate: Mutex::default(), growing: Mutex::default(), used: true }
    }

    /// Sets whether the directory is used.
    pub fn used(self, used: bool) -> Self {
        Self { used, ..self }
    }

    /// Copies the event counters of another directory.
    pub fn count_on(&mut self, other: &Self) -> Result<()> {
        let mut counters = [0; HEAD - COUNTERS];
        other.words.read_into(COUNTERS, &mut counters)?;
        Ok(self.words.write_at(COUNTERS, &counters)?)
    }

    /// Returns whether the directory is used.
    pub fn is_used(&self) -> bool {
        self.used
    }

    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the pointer that kernels take.
    pub fn pointer(&self) -> *mut u64 {
        self.words.pointer()
    }

    pub fn memory_usage(&self) -> usize {
        self.words.byte_len()
    }

    // Only numbers are behind the lock: they are valid even after a panic.
    fn size_estimate(&self) -> MutexGuard<'_, SizeEstimate> {
        self.estimate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an upper bound of the number of pairs in the tree.
    pub fn estimated_pairs(&self) -> u64 {
        self.size_estimate().pairs
    }

    /// Makes a stream wait until the tree has grown enough for its insertions, if another stream's batch is
    /// growing it.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost.
    pub fn wait_for_growth(&self, stream: &Stream) -> Result<()> {
        let mut growing = self.growing();
        let Some(other) = growing.as_mut().filter(|other| other.stream != *stream) else { return Ok(()) };
        let event = match other.event.take() {
            Some(event) => event,
            None => other.stream.point()?,
        };
        if event.is_complete()? {
            *growing = None;
            return Ok(());
        }
        stream.wait(&event)?;
        other.event = Some(event);
        Ok(())
    }

    /// Records that a launch of at most `many` pairs was submitted. If more launches of its batch follow,
    /// because the tree is small, insertions of other streams wait for it.
    pub fn submitted(&self, stream: &Stream, many: u64, more_follow: bool) {
        if more_follow {
            *self.growing() = Some(Growing { stream: stream.clone(), event: None });
        }
        // Updated after `growing`: a thread that reads this number finds the stream.
        let mut age = self.size_estimate();
        age.pairs = age.pairs.saturating_add(many);
    }

    // A panic leaves it valid, as it does the estimate.
    fn growing(&self) -> MutexGuard<'_, Option<Growing>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the words before the entries: see `phalanx_kernels::ordered::COUNTERS`.
    pub fn words(&mut self) -> &mut Buffer<u64> {
        &mut self.words
    }

    /// Sets the number of pairs in the tree.
    pub fn learn(&self, pairs: u64) {
        self.size_estimate().pairs = pairs;
    }

    /// Returns the number of pairs to pass to [`Self::rebuilt`] once a rebuild of the directory is submitted,
    /// if the tree may have grown by more than a quarter, and by more than a small tree, since the last one.
    /// Two threads may both get a number and rebuild it, which is safe.
    pub fn due(&self) -> Option<u64> {
        let age = self.size_estimate();
        (age.pairs > age.at_rebuild + age.at_rebuild / 4 + SMALL).then_some(age.pairs)
    }

    /// Records that a rebuild was submitted, for a tree of `pairs` pairs.
    pub fn rebuilt(&self, pairs: u64) {
        let mut age = self.size_estimate();
        age.at_rebuild = age.at_rebuild.max(pairs);
    }

    /// Records that the directory was rebuilt for a tree of exactly `pairs` pairs, while nothing else runs.
    pub fn made(&mut self, pairs: u64) {
        *self.size_estimate() = SizeEstimate { pairs, at_rebuild: pairs };
    }

    /// Records that the tree was replaced by one of `pairs` pairs, whose directory is not built yet.
    pub fn forgotten(&mut self, pairs: u64) {
        *self.size_estimate() = SizeEstimate { pairs, at_rebuild: 0 };
    }

    /// Returns the maximum number of pairs of the next launch.
    pub fn most(&self) -> u64 {
        FIRST.max(self.estimated_pairs().saturating_mul(GROWTH))
    }

    /// Splits a batch into the part for the next launch and the rest, if any.
    pub fn next_chunk<K: simt::Word, V: simt::Word>(
        &self,
        batch: Batch<K, V>,
    ) -> (Batch<K, V>, Option<Batch<K, V>>) {
        // Read once: another thread may raise it meanwhile.
        let (len, most) = (batch.keys.max_len() as u64, self.most());
        if !batch.op.places() || len <= most {
            return (batch, None);
        }
        let many = most as usize;
        (batch.part(0, many), Some(batch.part(many, usize::MAX)))
    }
}

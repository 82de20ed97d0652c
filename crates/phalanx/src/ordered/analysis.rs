//! Analysis of a batch, and of the tree, before the decision on a rebuild: kernels write one report, which
//! the host reads once.
use super::kernels::{Search, Task};
use super::memory::Memory;
use super::tree::Tree;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::nothing;
use crate::map::structure::HostKeys;
use crate::primitives::rebuild_steps::AnalysisSlices;
use crate::primitives::{Cutter, Workspace};
use gpu::{Buffer, Device};
use phalanx_kernels::ordered::SPINE_WORDS;
use phalanx_kernels::primitives::analysis::{DISTANCE, FIELDS, Field, PLACES, SPANS, sampled};
use simt::GlobalSlice;

/// Fraction of the range of a batch's keys within which the two elements at most places lie, if the batch is
/// ordered. Of keys in random order, two elements lie within a 32nd at one place in sixteen.
const NEAR: u64 = 32;

/// Number of the tree's pairs between the two elements at a place below which they usually share a leaf,
/// which has about ten pairs.
const SHARED: u32 = 8;

/// Keys of the two elements at each of [`PLACES`] places of a batch, the lower one and the higher one.
pub struct Neighbours<K> {
    lows: Vec<K>,
    highs: Vec<K>,
}

impl<K: Word> Neighbours<K> {
    /// Returns the neighbours among keys on the host.
    pub fn of_host(keys: &HostKeys<'_, K>) -> Self {
        Self::at(keys.len, keys.at)
    }

    /// Returns the neighbours among `len` keys, at least three.
    fn at(len: usize, key: impl Fn(usize) -> K) -> Self {
        let ends = |place| {
            let first = sampled(place, len);
            let (one, other) = (key(first), key(first + DISTANCE));
            (one.min(other), one.max(other))
        };
        let (lows, highs) = (0..PLACES).map(ends).unzip();
        Self { lows, highs }
    }

    /// Returns whether neighbours are near each other, compared with the range of all of them.
    pub fn are_near(&self) -> bool {
        let number = |key: Option<&K>| key.map_or(0, |key| key.to_u64());
        let distance = |(low, high): (&K, &K)| high.to_u64() - low.to_u64();
        let mut distances: Vec<u64> = self.lows.iter().zip(&self.highs).map(distance).collect();
        distances.sort_unstable();
        distances[PLACES / 2] <= (number(self.highs.iter().max()) - number(self.lows.iter().min())) / NEAR
    }
}

/// Order of the keys of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// Each key is above the one before it.
    Ascending,
    /// Each key is below the one before it.
    Descending,
    /// Any other order.
    Mixed,
}

/// Result of an analysis.
pub struct Analysis {
    pub order: KeyOrder,
    /// Number of the tree's pairs.
    pub live: usize,
    /// Whether the nodes are those of an empty tree.
    pub is_new: bool,
    /// Whether the batch has the largest key of all, which has a leaf of its own.
    pub has_largest: bool,
    /// Whether the tree has it.
    pub tree_has_largest: bool,
    /// Whether all keys of the batch are above those of the tree.
    pub is_above: bool,
    /// Whether most elements have a neighbour in the batch that is near by key, and probably in the same
    /// leaf. Tiles that run at the same time would compete for the latches of few leaves.
    pub is_crowded: bool,
    /// Lowest key of the batch.
    pub least: u64,
    /// Last nodes of all levels: see [`SPINE_WORDS`].
    pub spine: Vec<u64>,
}

/// Words on the device that count the pairs of a rebuild.
#[derive(Clone, Copy)]
pub struct Numbers {
    /// Number of the tree's pairs, in the low word.
    pub live: GlobalSlice<u64>,
    /// Numbers of exported pairs, of distinct keys and of kept pairs, for the steps of a rebuild.
    pub steps: GlobalSlice<u64>,
    /// The last nodes of all levels.
    pub spine: GlobalSlice<u64>,
}

/// Number of [`Numbers::steps`].
const STEPS: usize = 3;

/// Memory of an analysis on the device. The host reads what comes before the found pairs.
struct Layout<K, V> {
    report: GlobalSlice<u64>,
    counts: GlobalSlice<u64>,
    lows: GlobalSlice<K>,
    highs: GlobalSlice<K>,
    spine: GlobalSlice<u64>,
    keys: GlobalSlice<K>,
    values: GlobalSlice<V>,
}

impl<K: Word, V: Word> Layout<K, V> {
    fn cut(cutter: &mut Cutter) -> Self {
        let found = SPANS * SHARED as usize;
        Self {
            report: cutter.words(FIELDS + STEPS),
            counts: cutter.words(SPANS),
            lows: cutter.words(SPANS),
            highs: cutter.words(SPANS),
            spine: cutter.words(SPINE_WORDS),
            keys: cutter.words(found),
            values: cutter.words(found),
        }
    }
}

/// Memory of analyses.
pub struct Analyzer<K, V> {
    memory: Buffer<u64>,
    parts: Layout<K, V>,
}

// SAFETY: the parts are those of the buffer, which any thread may use.
unsafe impl<K: Send, V: Send> Send for Analyzer<K, V> {}

impl<K: Word, V: Word> Analyzer<K, V> {
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.buffer::<u64>(Cutter::measure(Layout::<K, V>::cut) / size_of::<u64>())?;
        let parts = Layout::cut(&mut Cutter::over(memory.pointer().cast()));
        Ok(Self { memory, parts })
    }

    pub fn memory_usage(&self) -> usize {
        self.memory.byte_len()
    }

    /// Returns the words that count the pairs of a rebuild.
    pub fn numbers(&self) -> Numbers {
        let Layout { report, spine, .. } = self.parts;
        Numbers { live: report.part(Field::Live as usize, 1), steps: report.part(FIELDS, STEPS), spine }
    }

    /// Reads the numbers of the steps of a rebuild. Waits.
    pub fn read_steps(&self) -> Result<[usize; STEPS]> {
        let mut words = [0; STEPS];
        self.memory.read_into(FIELDS, &mut words)?;
        Ok(words.map(|word| word as usize))
    }

    /// Analyzes a batch of at least three keys, and a tree of about `pairs` pairs. Waits. The work's stream
    /// executes it.
    ///
    /// # Safety
    /// - Nothing else runs on the tree. The keys live until this function returns.
    pub unsafe fn of(
        &mut self,
        tree: &Tree<K, V>,
        memory: &Memory,
        work: &Workspace,
        keys: GlobalSlice<K>,
    ) -> Result<Analysis> {
        let Layout { report, counts, lows, highs, spine, keys: found, values } = self.parts;
        let (stream, pairs) = (work.stream(), memory.directory.estimated_pairs());
        let counters = memory.counters.global();
        // SAFETY: the caller's obligations. The memory outlives the wait below. All of its words that the
        // host reads are set.
        unsafe {
            self.memory.fill_bytes_on(stream, 0xff)?;
            work.analyze_batch(AnalysisSlices { keys, counters, lows, highs, report })?;
            if pairs > 0 {
                let (lows, offsets, room) = (lows.into(), nothing(), SHARED);
                let search = Search::Range { lows, highs, offsets, room, keys: found, values, counts };
                let kernels = tree.handle.kernels();
                kernels.launch_search(stream, memory.now(), search)?;
                kernels.launch_task(stream, memory.now(), Task::FindSpine { spine })?;
            }
        }
        let mut analysis = self.read(pairs > 0)?;
        let reserves = tree.handle.kernels().shape().reserves_largest;
        analysis.has_largest &= reserves;
        analysis.tree_has_largest &= reserves;
        Ok(analysis)
    }

    /// Returns what the kernels have found. Waits. If no search `was_launched`, the tree is empty.
    fn read(&self, was_launched: bool) -> Result<Analysis> {
        let mut words = vec![0; self.index(self.parts.keys)];
        self.memory.read_into(0, &mut words)?;
        let field = |field: Field| words[field as usize];
        let bounds = |of: GlobalSlice<K>| &bytemuck::cast_slice::<u64, K>(&words[self.index(of)..])[..SPANS];
        let (lows, highs) = (bounds(self.parts.lows), bounds(self.parts.highs));
        let neighbours = Neighbours { lows: lows[..PLACES].to_vec(), highs: highs[..PLACES].to_vec() };
        let counts = &words[self.index(self.parts.counts)..][..SPANS];
        let count = |span: usize| if was_launched { counts[span] } else { 0 };
        let apart = (0..PLACES).filter(|&place| count(place) >= u64::from(SHARED)).count();
        let live = field(Field::Live) as usize;
        Ok(Analysis {
            order: match (field(Field::Ascending), field(Field::Descending)) {
                (0, 0) => KeyOrder::Mixed,
                (0, _) => KeyOrder::Descending,
                _ => KeyOrder::Ascending,
            },
            live,
            is_new: field(Field::Taken) == 0,
            has_largest: field(Field::LacksLargest) == 0,
            tree_has_largest: count(PLACES + 1) > 0,
            is_above: count(PLACES) == 0 && (was_launched || live == 0),
            is_crowded: neighbours.are_near() && apart <= PLACES / 2,
            least: lows[PLACES].to_u64(),
            spine: words[self.index(self.parts.spine)..][..SPINE_WORDS].to_vec(),
        })
    }

    /// Returns the index of the first word of a part.
    fn index<T>(&self, part: GlobalSlice<T>) -> usize
    where
        T: simt::Word,
    {
        (part.as_ptr().addr() - self.memory.pointer().addr()) / size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether neighbours in a batch of `len` keys are near each other.
    fn is_ordered(len: usize, key: impl Fn(usize) -> u64) -> bool {
        Neighbours::<u64>::at(len, key).are_near()
    }

    #[test]
    fn orders_are_recognized() {
        const LEN: usize = 1 << 12;
        let orders: [fn(usize) -> u64; 7] = [
            |n| n as u64,
            |n| u64::MAX - n as u64,
            |_| 7,
            |n| (n / 2 + n % 2 * 1_000_000) as u64, // two runs that alternate
            |n| if n % 2 == 0 { n as u64 } else { (LEN - n) as u64 }, // from both ends
            // 16 runs
            |n| (n % 256 * 1_000_000 + n / 256) as u64 / 1_000_000 % 256 + (n / 256 * 10_000) as u64,
            |n| if n % 50 == 0 { simt::hash::mix64(n as u64) % LEN as u64 } else { n as u64 }, // nearly sorted
        ];
        for (number, order) in orders.into_iter().enumerate() {
            assert!(is_ordered(LEN, order), "{number}");
        }
        for bits in [0, 32, 50] {
            assert!(!is_ordered(LEN, |n| simt::hash::mix64(n as u64) >> bits), "{bits}");
        }
    }

    #[test]
    fn the_first_and_the_last_element_are_examined() {
        for len in [3, 64, 1000, 1 << 30] {
            assert_eq!((sampled(0, len), sampled(PLACES - 1, len) + DISTANCE), (0, len - 1));
        }
    }
}

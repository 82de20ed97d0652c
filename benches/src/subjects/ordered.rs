//! Ordered operations of maps and their baselines. Every result is compared with a sorted array.
use super::driver::{Batch, Subject, UNWRITTEN, load};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Stream};
use phalanx::btree::{LargeBatches, Ordered};
use phalanx::map::Word as MapWord;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use workloads::parallel;
use workloads::random::{Source, below};
use workloads::{Key as Word, UniqueKeys, value_of};

/// Queries of as many random ranges as there are keys.
pub const RANGE: &str = "range";
/// Successor queries for as many random keys as there are in the structure.
pub const SUCCESSOR: &str = "successor";
/// Predecessor queries for as many random keys as there are in the structure.
pub const PREDECESSOR: &str = "predecessor";

/// Structure that supports ordered operations.
pub trait ByOrder<K, V>: Subject<K, V> {
    /// Submits queries to the stream without waiting.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails, and when the structure does not
    /// support the queries.
    fn ask_by_order(&mut self, stream: &Stream, query: &mut Query<K, V>) -> Result<()>;
}

/// Batch of ordered queries with its outputs on the device.
pub enum Query<K, V> {
    /// Queries of neighbours.
    Neighbours(Neighbours<K, V>),
    /// Queries of ranges.
    Ranges(Ranges<K, V>),
}

impl<K: MapWord + Word, V: MapWord + Word> Query<K, V> {
    /// Creates as many queries of the case's operation as there are keys.
    fn new(gpu: &Gpu, case: &Case, sorted: &[K]) -> Result<Self> {
        Ok(match case.op.as_str() {
            RANGE => Self::Ranges(Ranges::new(gpu, case, sorted)?),
            op => Self::Neighbours(Neighbours::new(gpu, case.seed, sorted.len(), op == SUCCESSOR)?),
        })
    }

    /// Resets the outputs.
    fn forget(&mut self) -> Result<()> {
        match self {
            Self::Neighbours(asked) => asked.forget(),
            Self::Ranges(asked) => asked.forget(),
        }
    }

    /// Submits the queries to a map of `phalanx`, without waiting.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the map.
    pub fn submit(&mut self, of: &Ordered<'_, K, V>) -> Result<()> {
        match self {
            Self::Neighbours(Neighbours { up, keys, found, values, outcomes, .. }) => match up {
                true => of.successor(keys, found, values, outcomes)?,
                false => of.predecessor(keys, found, values, outcomes)?,
            },
            Self::Ranges(ranges) => {
                let room = ranges.room();
                let Ranges { lows, highs, keys, values, counts, .. } = ranges;
                of.range(lows, highs, room, keys, values, counts)?;
            }
        }
        Ok(())
    }

    /// Compares every result with `sorted`.
    fn judge(&self, sorted: &[K]) -> Result<Verified> {
        match self {
            Self::Neighbours(asked) => asked.judge(sorted),
            Self::Ranges(asked) => asked.judge(sorted),
        }
    }
}

/// `n` queries on a structure of `n` random pairs.
pub struct Asking<'a, K, V, S> {
    gpu: &'a Gpu,
    subject: S,
    sorted: Vec<K>,
    query: Query<K, V>,
}

impl<'a, K: MapWord + Word, V: MapWord + Word, S: ByOrder<K, V>> Asking<'a, K, V, S> {
    /// Fills the structure and creates the queries.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid or does not fit into the machine's memory.
    pub fn new(gpu: &'a Gpu, case: &Case, mut subject: S) -> Result<Self> {
        let mut sorted = UniqueKeys::<K>::new(case.seed).present(case.n as usize)?;
        load(gpu, &mut subject, &mut Batch::inserts(&gpu.device, &sorted)?)?;
        sorted.par_sort_unstable();
        let query = Query::new(gpu, case, &sorted)?;
        Ok(Self { gpu, subject, sorted, query })
    }
}

impl<K: MapWord + Word, V: MapWord + Word, S: ByOrder<K, V>> Benchmark for Asking<'_, K, V, S> {
    fn restore(&mut self) -> Result<()> {
        self.query.forget()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        self.subject.ask_by_order(&self.gpu.stream, &mut self.query)
    }

    fn verify(&mut self) -> Result<Verified> {
        self.query.judge(&self.sorted)
    }

    fn operations(&self) -> u64 {
        self.sorted.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.subject.memory_usage() as u64)]
    }
}

/// Extra space per range, in pairs. If a query reads beyond the end of its range, the result is then visibly
/// wrong instead of cut off at the correct length.
const SPARE: usize = 8;

/// Range queries with `results` pairs each. The ends of a range are random keys between its outer pairs and
/// the adjacent ones.
pub struct Ranges<K, V> {
    results: usize,
    /// Index of the first pair of each range among all pairs.
    firsts: Vec<usize>,
    /// Lower ends, inclusive.
    pub lows: Buffer<K>,
    /// Upper ends, inclusive.
    pub highs: Buffer<K>,
    /// Output: keys, [`Self::room`] per range.
    pub keys: Buffer<K>,
    /// Output: values of the keys.
    pub values: Buffer<V>,
    /// Output: number of pairs per range.
    pub counts: Buffer<u64>,
}

impl<K, V> Ranges<K, V> {
    /// Returns the space for the result of each range, in pairs.
    pub fn room(&self) -> u32 {
        (self.results + SPARE) as u32
    }
}

/// Returns the index of the first key and both ends for `n` ranges.
fn ranges<K: Word>(seed: u64, sorted: &[K], results: usize) -> Vec<(usize, K, K)> {
    let topmost = u64::MAX >> (64 - K::BITS);
    Source::new(seed, "ranges").generate(sorted.len(), |generator, _| {
        let first = below(generator, (sorted.len() - results + 1) as u64) as usize;
        let mut between = |least: u64, most: u64| -> K {
            K::truncate(least + below(generator, (most - least).saturating_add(1)))
        };
        let before = first.checked_sub(1).map_or(0, |place| sorted[place].widen() + 1);
        let behind = sorted.get(first + results).map_or(topmost, |key| key.widen() - 1);
        let low = between(before, sorted[first].widen());
        (first, low, between(sorted[first + results - 1].widen(), behind))
    })
}

impl<K: MapWord + Word, V: MapWord + Word> Ranges<K, V> {
    fn new(gpu: &Gpu, case: &Case, sorted: &[K]) -> Result<Self> {
        let (asked, n) = (case.number_if_given("range_results")?.unwrap_or(16.0), sorted.len());
        let is_right = asked >= 1.0 && asked <= n.min(1 << 20) as f64 && asked.fract() == 0.0;
        ensure!(
            is_right,
            "`range_results` is {asked}; it can be a whole number from 1 to 2^20, or to n, which is {n}"
        );
        let results = asked as usize;
        let places = n * (results + SPARE);
        let ranges = ranges(case.seed, sorted, results);
        let ends = |end: fn(&(usize, K, K)) -> K| ranges.iter().map(end).collect::<Vec<K>>();
        let device = &gpu.device;
        Ok(Self {
            results,
            firsts: ranges.iter().map(|range| range.0).collect(),
            lows: device.from_slice(&ends(|range| range.1))?,
            highs: device.from_slice(&ends(|range| range.2))?,
            keys: device.zeroed(places)?,
            values: device.zeroed(places)?,
            counts: device.filled(n, UNWRITTEN)?,
        })
    }

    fn forget(&mut self) -> Result<()> {
        self.keys.fill_bytes(0)?;
        self.values.fill_bytes(0)?;
        Ok(self.counts.fill_bytes(UNWRITTEN)?)
    }

    fn judge(&self, sorted: &[K]) -> Result<Verified> {
        let (keys, values, counts) = (self.keys.read()?, self.values.read()?, self.counts.read()?);
        let is_right = |range: usize| {
            let expected = &sorted[self.firsts[range]..][..self.results];
            let place = range * (self.results + SPARE);
            let mut pairs = expected.iter().zip(&keys[place..]).zip(&values[place..]);
            counts[range] == self.results as u64
                && pairs.all(|((expected, key), value)| key == expected && *value == value_of(*key))
        };
        let ranges = counts.len();
        if let Some(wrong) = parallel::first(ranges, |range| !is_right(range)) {
            let (found, first) = (counts[wrong], sorted[self.firsts[wrong]]);
            let expected = self.results;
            bail!("range {wrong} has {expected} pairs from {first:?} on; the answer has {found}, or others");
        }
        Ok(Verified::all(ranges))
    }
}

/// Successor or predecessor queries on random keys, which may be absent.
pub struct Neighbours<K, V> {
    asked: Vec<K>,
    /// Whether the queries ask for successors.
    pub up: bool,
    /// Keys.
    pub keys: Buffer<K>,
    /// Output: neighbouring keys.
    pub found: Buffer<K>,
    /// Output: values of the neighbouring keys.
    pub values: Buffer<V>,
    /// Output: outcomes.
    pub outcomes: Buffer<u8>,
}

impl<K: MapWord + Word, V: MapWord + Word> Neighbours<K, V> {
    fn new(gpu: &Gpu, seed: u64, n: usize, up: bool) -> Result<Self> {
        let device = &gpu.device;
        let source = Source::new(seed, "keys of neighbours");
        let asked = source.generate(n, |generator, _| <K as Word>::truncate(below(generator, u64::MAX)));
        Ok(Self {
            keys: device.from_slice(&asked)?,
            asked,
            up,
            found: device.zeroed(n)?,
            values: device.zeroed(n)?,
            outcomes: device.filled(n, UNWRITTEN)?,
        })
    }

    fn forget(&mut self) -> Result<()> {
        self.found.fill_bytes(0)?;
        self.values.fill_bytes(0)?;
        Ok(self.outcomes.fill_bytes(UNWRITTEN)?)
    }

    /// Returns the neighbour of a key.
    fn next<'k>(&self, sorted: &'k [K], asked: K) -> Option<&'k K> {
        if self.up {
            return sorted.get(sorted.partition_point(|key| *key <= asked));
        }
        sorted[..sorted.partition_point(|key| *key < asked)].last()
    }

    fn judge(&self, sorted: &[K]) -> Result<Verified> {
        let (found, values, outcomes) = (self.found.read()?, self.values.read()?, self.outcomes.read()?);
        let next = |index: usize| self.next(sorted, self.asked[index]);
        let is_right = |index: usize| match (next(index), Outcome::from_code(outcomes[index])) {
            (Some(next), Some(Outcome::Found)) => found[index] == *next && values[index] == value_of(*next),
            (None, Some(Outcome::Absent)) => true,
            _ => false,
        };
        if let Some(wrong) = parallel::first(outcomes.len(), |index| !is_right(index)) {
            let (key, outcome) = (self.asked[wrong], Outcome::from_code(outcomes[wrong]));
            bail!("beside {key:?} is {:?}, and the answer is {outcome:?}, {:?}", next(wrong), found[wrong]);
        }
        let succeeded = parallel::count(outcomes.len(), |index| outcomes[index] == Outcome::Found as u8);
        Ok(Verified { compared: outcomes.len() as u64, succeeded: succeeded as u64 })
    }
}

/// Returns the policy of large batches, parameter `large_batches`: `default`, `rebuild` or `concurrent`.
///
/// # Errors
/// Returns [`anyhow::Error`] when the parameter is another.
pub fn large_batches(case: &Case) -> Result<LargeBatches> {
    let policies = [
        ("default", LargeBatches::default()),
        ("rebuild", LargeBatches::Rebuild),
        ("concurrent", LargeBatches::Concurrent),
    ];
    Ok(case.choice("large_batches", &policies)?)
}

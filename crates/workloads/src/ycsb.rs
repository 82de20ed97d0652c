//! The workloads of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010), as batches for a map of
//! words.
//!
//! | workload | operations | keys chosen |
//! |---|---|---|
//! | LOAD | 100 % insert | each record once |
//! | A | 50 % read, 50 % update | Zipf |
//! | B | 95 % read, 5 % update | Zipf |
//! | C | 100 % read | Zipf |
//! | D | 95 % read, 5 % insert | the latest inserted, Zipf by age |
//! | E | 95 % scan of 1 to 100 records, 5 % insert | Zipf |
//! | F | 50 % read, 50 % read-modify-write | Zipf |
//!
//! Record `i` has the key `UniqueKeys::new(seed).at(i)` and the value [`value_of`] it. An update writes
//! [`updated_value_of`] it and a read-modify-write adds 1, so the final contents of the structure are known.
//! The popularity is scrambled over the records (except in D). Deviations from YCSB: keys and values are
//! words, not strings and fields; the scrambling is a permutation (see [`crate::zipf`]); in D the Zipf
//! distribution covers as many records as were loaded.
use crate::keys::{Key, UniqueKeys, updated_value_of, value_of};
use crate::random::{CHUNK, Source, below, tabulate, unit};
use crate::stream::{Op, Stream};
use crate::zipf::{ScrambledZipf, Zipf};
use crate::{Error, Result, check_available};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a scan in workload E.
pub const LONGEST_SCAN: u64 = 100;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ycsb {
    /// Loads the store.
    Load,
    /// Half updates, half reads.
    A,
    /// Mostly reads.
    B,
    /// Only reads.
    C,
    /// Reads of the latest records.
    D,
    /// Short scans.
    E,
    /// Half read-modify-writes, half reads.
    F,
}

impl Ycsb {
    /// All workloads.
    pub const ALL: [Self; 7] = [Self::Load, Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Returns the share of the common kind of operation, that kind, and the rare kind.
    fn shares(self) -> (f64, Op, Op) {
        match self {
            Self::Load => (0.0, Op::Read, Op::Insert),
            Self::A => (0.5, Op::Read, Op::Update),
            Self::B => (0.95, Op::Read, Op::Update),
            Self::C => (1.0, Op::Read, Op::Read),
            Self::D => (0.95, Op::Read, Op::Insert),
            Self::E => (0.95, Op::Scan, Op::Insert),
            Self::F => (0.5, Op::Read, Op::ReadModifyWrite),
        }
    }
}

impl fmt::Display for Ycsb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_uppercase())
    }
}

impl FromStr for Ycsb {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        crate::named(&Self::ALL, "YCSB workload", text)
    }
}

/// Distribution of the chosen records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All records with equal probability.
    Uniform,
    /// Zipf's law with this exponent theta.
    Zipf(f64),
}

impl Distribution {
    /// Returns Zipf's exponent; 0 is uniform.
    pub fn theta(self) -> f64 {
        match self {
            Self::Uniform => 0.0,
            Self::Zipf(theta) => theta,
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct YcsbOptions {
    /// Number of records in the store at the start (for LOAD: the number inserted).
    pub records: u64,
    /// Number of operations in the stream. LOAD has one operation per record instead.
    pub operations: usize,
    /// Distribution of the chosen records.
    pub distribution: Distribution,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Ycsb {
    /// Generates the operations of the workload.
    ///
    /// # Errors
    /// [`Error::Empty`] without records; [`Error::TooMany`] with more than half of all keys;
    /// [`Error::OutOfRange`] for a theta outside its range.
    pub fn stream<K: Key, V: Key>(self, options: &YcsbOptions) -> Result<Stream<K, V>> {
        let asked = options.records.saturating_add(options.operations as u64);
        check_available("records and operations", asked, UniqueKeys::<K>::FIRST_ABSENT)?;
        if self == Self::Load { Ok(load(options)) } else { self.run(options) }
    }

    fn run<K: Key, V: Key>(self, options: &YcsbOptions) -> Result<Stream<K, V>> {
        let chooser = Chooser::new(self, options)?;
        let ops = self.ops(options);
        let inserted = inserted_before_chunks(&ops);
        let keys = UniqueKeys::<K>::new(options.seed);
        let source = Source::new(options.seed, "ycsb records");
        let mut records = vec![0u64; options.operations];
        fill_records(&mut records, &ops, &inserted, &source, &chooser);
        let scans = if self == Self::E { ops.len() } else { 0 };
        let lengths = Source::new(options.seed, "ycsb scan lengths")
            .generate(scans, |generator, _| 1 + below(generator, LONGEST_SCAN));
        let operations = tabulate(ops.len(), |index| {
            let op = ops[index as usize];
            let key = keys.at(records[index as usize]);
            (op, key, carried(op, key, || lengths[index as usize]))
        });
        Ok(Stream::unzip(operations))
    }

    /// Draws the kind of each operation independently, as YCSB does.
    fn ops(self, options: &YcsbOptions) -> Vec<Op> {
        let (share, common, rare) = self.shares();
        let source = Source::new(options.seed, "ycsb operations");
        source
            .generate(options.operations, |generator, _| if unit(generator) < share { common } else { rare })
    }
}

fn load<K: Key, V: Key>(options: &YcsbOptions) -> Stream<K, V> {
    let keys = UniqueKeys::<K>::new(options.seed);
    let operations = tabulate(options.records as usize, |record| {
        let key = keys.at(record);
        (Op::Insert, key, value_of(key))
    });
    Stream::unzip(operations)
}

/// Returns the value of an operation.
fn carried<K: Key, V: Key>(op: Op, key: K, scan_length: impl Fn() -> u64) -> V {
    match op {
        Op::Update => updated_value_of(key),
        Op::ReadModifyWrite => V::truncate(1),
        Op::Scan => V::truncate(scan_length()),
        _ => value_of(key),
    }
}

/// Returns the number of inserts before each chunk, so that chunks can be filled in parallel.
fn inserted_before_chunks(ops: &[Op]) -> Vec<u64> {
    let mut inserted = 0;
    ops.chunks(CHUNK)
        .map(|chunk| {
            let before = inserted;
            inserted += chunk.iter().filter(|&&op| op == Op::Insert).count() as u64;
            before
        })
        .collect()
}

fn fill_records(records: &mut [u64], ops: &[Op], inserted: &[u64], source: &Source, chooser: &Chooser) {
    use rayon::prelude::*;
    records.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, records)| {
        let mut generator = source.chunk(chunk as u64);
        let mut there = chooser.loaded + inserted[chunk];
        for (record, op) in records.iter_mut().zip(&ops[chunk * CHUNK..]) {
            *record = if *op == Op::Insert { there } else { chooser.choose(&mut generator, there) };
            there += u64::from(*op == Op::Insert);
        }
    });
}

/// Chooses the record that an operation accesses.
struct Chooser {
    loaded: u64,
    by: Choice,
}

enum Choice {
    Scrambled(ScrambledZipf),
    Latest(Zipf),
}

impl Chooser {
    fn new(workload: Ycsb, options: &YcsbOptions) -> Result<Self> {
        let (loaded, theta) = (options.records, options.distribution.theta());
        let by = match workload {
            Ycsb::D => Choice::Latest(Zipf::new(loaded, theta)?),
            _ => Choice::Scrambled(ScrambledZipf::new(loaded, theta, options.seed)?),
        };
        Ok(Self { loaded, by })
    }

    /// Chooses a record among the `there` existing ones.
    fn choose(&self, generator: &mut ChaCha8Rng, there: u64) -> u64 {
        match &self.by {
            Choice::Scrambled(zipf) => zipf.item(generator),
            Choice::Latest(zipf) => there - 1 - zipf.rank(generator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    const OPERATIONS: usize = 200_000;

    fn options() -> YcsbOptions {
        YcsbOptions {
            records: 50_000,
            operations: OPERATIONS,
            distribution: Distribution::Zipf(0.99),
            seed: 3,
        }
    }

    fn share(stream: &Stream<u32, u32>, op: Op) -> f64 {
        stream.count(op) as f64 / stream.len() as f64
    }

    #[test]
    fn operations_come_in_their_shares() {
        let expected = [
            (Ycsb::Load, Op::Insert, 1.0),
            (Ycsb::A, Op::Update, 0.5),
            (Ycsb::B, Op::Update, 0.05),
            (Ycsb::C, Op::Read, 1.0),
            (Ycsb::D, Op::Insert, 0.05),
            (Ycsb::E, Op::Scan, 0.95),
            (Ycsb::F, Op::ReadModifyWrite, 0.5),
        ];
        for (workload, op, wanted) in expected {
            let found = share(&workload.stream(&options()).unwrap(), op);
            assert!((found - wanted).abs() < 0.005, "{workload}: {found} of {op:?}");
        }
    }

    #[test]
    fn the_most_popular_record_has_its_share() {
        let stream = Ycsb::C.stream::<u64, u64>(&options()).unwrap();
        let mut counts = HashMap::new();
        stream.keys.iter().for_each(|key| *counts.entry(key).or_insert(0u32) += 1);
        let top = *counts.values().max().unwrap() as f64 / stream.len() as f64;
        let wanted = Zipf::new(50_000, 0.99).unwrap().probability(0);
        assert!((top - wanted).abs() < 0.004, "{top}, expected {wanted}");
    }

    /// Every read of D accesses a record that exists by then in a sequential run, mostly a recent one.
    #[test]
    fn the_latest_are_read_once_they_exist() {
        let stream = Ycsb::D.stream::<u32, u32>(&options()).unwrap();
        let keys = UniqueKeys::<u32>::new(3);
        let mut age_of: HashMap<u32, u64> = (0..50_000).map(|record| (keys.at(record), record)).collect();
        let mut young = 0;
        for (op, key) in stream.ops.iter().zip(&stream.keys) {
            let there = age_of.len() as u64;
            match op {
                Op::Insert => assert!(age_of.insert(*key, there).is_none(), "inserted twice"),
                _ => young += u64::from(there - age_of[key] <= 100),
            }
        }
        let share = young as f64 / stream.count(Op::Read) as f64;
        assert!((0.4..0.6).contains(&share), "{share} of the reads went to the hundred latest");
    }

    #[test]
    fn keys_belong_to_the_records() {
        let loaded: HashSet<u32> =
            Ycsb::Load.stream::<u32, u32>(&options()).unwrap().keys.into_iter().collect();
        assert_eq!(loaded.len(), 50_000);
        let stream = Ycsb::A.stream::<u32, u32>(&options()).unwrap();
        assert!(stream.keys.iter().all(|key| loaded.contains(key)));
        let uniform = YcsbOptions { distribution: Distribution::Uniform, ..options() };
        let touched: HashSet<_> = Ycsb::C.stream::<u32, u32>(&uniform).unwrap().keys.into_iter().collect();
        assert!(touched.len() > 48_500, "{} records touched", touched.len());
    }

    #[test]
    fn scans_have_their_lengths() {
        let stream = Ycsb::E.stream::<u32, u32>(&options()).unwrap();
        let lengths: Vec<_> = stream
            .ops
            .iter()
            .zip(&stream.values)
            .filter(|(op, _)| **op == Op::Scan)
            .map(|(_, &length)| length)
            .collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&100)));
    }

    #[test]
    fn names_parse_and_wrong_ones_are_explained() {
        assert!(Ycsb::ALL.iter().all(|workload| workload.to_string().parse() == Ok(*workload)));
        assert_eq!("load".parse(), Ok(Ycsb::Load));
        assert!("G".parse::<Ycsb>().unwrap_err().to_string().contains("LOAD, A, B"));
    }

    #[test]
    fn bad_sizes_are_errors() {
        let none = YcsbOptions { records: 0, ..options() };
        assert!(matches!(Ycsb::A.stream::<u32, u32>(&none), Err(Error::Empty { .. })));
        let many = YcsbOptions { records: 1 << 31, ..options() };
        assert!(matches!(Ycsb::A.stream::<u32, u32>(&many), Err(Error::TooMany { .. })));
    }
}

//! Ageing: a map of `n` pairs that stays as full as it is while its keys change, for `rounds` rounds (default
//! 1000) of three blocking calls: `remove` of an eighth of the pairs, `insert` of as many others, `get` of as
//! many present ones. Keys return after a while.
//!
//! The record's time is that of a round at the end. `counted` has the median milliseconds of each call and
//! the bytes of the map in a twentieth of the rounds, but at least ten, from the tenth round on
//! (`insert_early`, ..) and in as many last ones (`insert_late`, ..). All outcomes, values and numbers of
//! pairs are compared.
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::statistics::summarize;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use phalanx::map::Word as MapWord;
use phalanx::{Map, Outcome};
use std::collections::BTreeMap;
use std::time::Instant;
use workloads::parallel;
use workloads::random::tabulate;
use workloads::{Key as Word, UniqueKeys, value_of};

/// Name of the operation.
pub const OP: &str = "age";

/// Number of rounds, unless the case specifies it.
const ROUNDS: f64 = 1000.0;
/// Number of the first round whose times are compared, and least number of rounds whose times make a median.
const FIRST: usize = 10;

/// Returns the number of rounds whose times make a median.
fn span(rounds: usize) -> usize {
    (rounds / 20).max(FIRST)
}

/// Milliseconds of the calls of a round, and the bytes of the map after it.
#[derive(Clone, Copy, Default)]
struct Round {
    remove: f64,
    insert: f64,
    get: f64,
    bytes: f64,
}

/// Prepared case.
pub struct Ageing<'a, M: Map> {
    make: Box<dyn Fn(usize) -> Result<M> + 'a>,
    map: Option<M>,
    keys: UniqueKeys<M::Key>,
    n: usize,
    rounds: usize,
    past: Vec<Round>,
}

impl<'a, M: Map<Key: MapWord + Word, Value: MapWord + Word>> Ageing<'a, M> {
    /// Reads the case. `make` creates an empty map of a capacity.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when there are too few pairs or rounds.
    pub fn new(gpu: &Gpu, case: &Case, make: impl Fn(usize) -> Result<M> + 'a) -> Result<Self> {
        let rounds = case.number_if_given("rounds")?.unwrap_or(ROUNDS) as usize;
        ensure!(rounds >= 2 * FIRST, "`rounds` is {rounds}, and the first and last {FIRST} are compared");
        // Enough to execute every line.
        let rounds = if gpu.device.is_emulator() { 2 * FIRST } else { rounds };
        ensure!(case.n >= 8, "n is {}, and an eighth of the pairs changes in a round", case.n);
        let keys = UniqueKeys::new(case.seed);
        Ok(Self { make: Box::new(make), map: None, keys, n: case.n as usize, rounds, past: Vec::new() })
    }

    /// Returns the keys that the round removes, inserts and reads. There are `2 n` keys, of which the map has
    /// `n` neighbours.
    fn batches(&self, round: usize) -> [Vec<M::Key>; 3] {
        let (n, many, keys) = (self.n as u64, self.n / 8, &self.keys);
        let first = round as u64 * many as u64;
        [first, first + n, first + n / 2]
            .map(|from| tabulate(many, move |index| keys.at((from + index) % (2 * n))))
    }

    fn round(&self, round: usize) -> Result<Round> {
        let map = self.map.as_ref().context("the map does not exist yet")?;
        let [removed, inserted, read] = self.batches(round);
        let values: Vec<M::Value> = parallel::map(&inserted, |&key| value_of(key));
        let start = Instant::now();
        let gone = map.remove(&removed)?;
        let after_remove = start.elapsed();
        let placed = map.insert(&inserted, &values)?;
        let after_insert = start.elapsed();
        let found = map.get(&read)?;
        let end = start.elapsed();
        let is_right = gone.iter().all(|&gone| gone)
            && placed.iter().all(|&outcome| outcome == Outcome::Inserted)
            && read.iter().zip(&found).all(|(key, found)| *found == Some(value_of(*key)));
        ensure!(is_right, "an answer of round {round} is wrong");
        let pairs = map.len()?;
        ensure!(pairs == self.n, "{pairs} pairs are there after round {round} instead of {}", self.n);
        let ms = |from: std::time::Duration, to: std::time::Duration| (to - from).as_secs_f64() * 1e3;
        Ok(Round {
            remove: ms(Default::default(), after_remove),
            insert: ms(after_remove, after_insert),
            get: ms(after_insert, end),
            bytes: map.memory_usage() as f64,
        })
    }
}

/// Returns the median of a figure of some rounds.
fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let figures: Vec<f64> = rounds.iter().map(of).collect();
    summarize(&figures).map_or(0.0, |summary| summary.median)
}

impl<M: Map<Key: MapWord + Word, Value: MapWord + Word>> Benchmark for Ageing<'_, M> {
    fn restore(&mut self) -> Result<()> {
        self.past.clear();
        self.map = None;
        let map = (self.make)(self.n)?;
        let keys = self.keys.present(self.n)?;
        let values: Vec<M::Value> = parallel::map(&keys, |&key| value_of(key));
        ensure!(map.insert(&keys, &values)?.all_placed(), "the initial pairs do not fit");
        self.map = Some(map);
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        for round in 0..self.rounds {
            let done = self.round(round)?;
            self.past.push(done);
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        let late = &self.past[self.past.len().saturating_sub(span(self.past.len()))..];
        Some(median(late, |round| round.remove + round.insert + round.get))
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure!(self.past.len() == self.rounds, "{} rounds of {}", self.past.len(), self.rounds);
        Ok(Verified::all(self.n / 8 * 3))
    }

    fn operations(&self) -> u64 {
        (self.n / 8 * 3) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let (all, span) = (&self.past, span(self.past.len()));
        let (early, late) = (&all[FIRST..FIRST + span], &all[all.len() - span..]);
        let mut counted = BTreeMap::new();
        for (when, rounds) in [("early", early), ("late", late)] {
            counted.insert(format!("remove_{when}"), median(rounds, |round| round.remove));
            counted.insert(format!("insert_{when}"), median(rounds, |round| round.insert));
            counted.insert(format!("get_{when}"), median(rounds, |round| round.get));
            counted.insert(format!("bytes_{when}"), median(rounds, |round| round.bytes));
        }
        vec![Metric::Counted(counted)]
    }
}

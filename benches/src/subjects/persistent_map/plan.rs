//! Operations of a case by batches, and their expected results.
//!
//! A map has no batches of several kinds of operations. So those of a mixed workload are submitted as one
//! launch for each kind, one after the other: reads, then updates; in workload D, insertions, then reads.
use super::items::ABSENT;
use super::table::Verb;
use crate::engine::suite::Case;
use anyhow::{Context, Result, bail, ensure};
use simt::hash::mix64;
use std::ops::Range;
use workloads::random::{Source, tabulate, unit};
use workloads::{Permutation, ScrambledZipf, Zipf};

/// Version of a key that is not in the map.
pub const NONE: u32 = u32::MAX;

/// Operations of one kind within a batch.
#[derive(Clone, Debug)]
pub struct Step {
    pub verb: Verb,
    /// Indices of its elements.
    pub elements: Range<usize>,
}

/// Operations of a case. Keys are known by their numbers.
#[derive(Debug, Default)]
pub struct Plan {
    /// Number of keys in the map before: those with lower numbers, at version 0.
    pub before: u32,
    pub operations: usize,
    pub batches: Vec<Vec<Step>>,
    /// For each element: its verb, the number of its key, and the version that it finds or writes.
    pub verbs: Vec<Verb>,
    pub numbers: Vec<u32>,
    pub versions: Vec<u32>,
    /// Version of each number afterwards.
    pub left: Vec<u32>,
}

/// Workloads of two kinds of operations: the share of the second one, and both.
const MIXES: [(&str, f64, [Verb; 2]); 6] = [
    ("ycsb_a", 0.5, [Verb::Get, Verb::Update]),
    ("ycsb_b", 0.05, [Verb::Get, Verb::Update]),
    ("ycsb_c", 0.0, [Verb::Get, Verb::Update]),
    ("ycsb_d", 0.05, [Verb::Insert, Verb::Get]),
    ("ycsb_f", 0.5, [Verb::Get, Verb::Update]),
    ("pagerank", 1.0, [Verb::Get, Verb::Update]),
];

/// Operations with a plan.
pub const OPS: [&str; 13] = [
    "get", "get_missed", "insert", "update", "remove", "ycsb_load", "ycsb_a", "ycsb_b", "ycsb_c", "ycsb_d",
    "ycsb_f", "dlrm", "pagerank",
];

/// Number of tables of embeddings in the workload `dlrm`.
const TABLES: u64 = 26;

impl Plan {
    /// Generates the operations of a case.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the operation is unknown or parameters do not fit it.
    pub fn new(case: &Case) -> Result<Self> {
        let (n, op) = (case.n as usize, case.op.as_str());
        let adds = matches!(op, "insert" | "ycsb_load");
        let default = if adds { 0.0 } else { case.n as f64 };
        let pairs = case.number_if_given("pairs")?.filter(|_| op != "ycsb_load");
        let before = pairs.unwrap_or(default) as u64;
        let batch = case.number_if_given("batch")?.map_or(n, |batch| batch as usize).max(1);
        ensure!(before + case.n < u64::from(ABSENT), "{before} pairs and {n} operations are too many");
        ensure!(adds || before > 0, "the map has no pairs");
        let mut plan = Self { before: before as u32, operations: n, ..Self::default() };
        if let Some(mix) = MIXES.iter().find(|(name, ..)| *name == op) {
            plan.mixed(case, (before, n), batch, mix)?;
        } else {
            plan.plain(case, (before, n), batch)?;
        }
        plan.expect();
        Ok(plan)
    }

    /// Returns the version of a number before the operations.
    pub fn first_version(&self, number: u32) -> u32 {
        if number < self.before { 0 } else { NONE }
    }

    /// Returns whether the operations change the map.
    pub fn changes(&self) -> bool {
        self.batches.iter().flatten().any(|step| step.verb != Verb::Get)
    }

    /// Plans operations of one kind.
    fn plain(&mut self, case: &Case, (before, n): (u64, usize), batch: usize) -> Result<()> {
        let (verb, numbers) = match case.op.as_str() {
            "get" => (Verb::Get, present(case, before, n)?),
            "get_missed" => (Verb::Get, tabulate(n, |index| ABSENT | index as u32)),
            "insert" | "ycsb_load" => (Verb::Insert, tabulate(n, |index| (before + index) as u32)),
            "update" => (Verb::Update, present(case, before, n)?),
            "remove" => {
                ensure!(n as u64 <= before, "{n} of {before} pairs cannot be removed");
                (Verb::Remove, shuffled(case, before, n))
            }
            "dlrm" => (Verb::Get, embeddings(case, before, n)?),
            op => bail!("a persistent map has no '{op}'"),
        };
        for part in numbers.chunks(batch) {
            let elements = self.add(verb, part.iter().copied());
            self.batches.push(vec![elements]);
        }
        Ok(())
    }

    /// Plans operations of two kinds.
    fn mixed(
        &mut self,
        case: &Case,
        (before, n): (u64, usize),
        batch: usize,
        (op, share, verbs): &(&str, f64, [Verb; 2]),
    ) -> Result<()> {
        let theta = case.number_if_given("theta")?.context("a workload of this kind needs `theta`")?;
        let (zipf, scattered) = (Zipf::new(before, theta)?, ScrambledZipf::new(before, theta, case.seed)?);
        let by_age = *op == "ycsb_d";
        let draws: Vec<(bool, u64)> =
            Source::new(case.seed, "operations of a mix").generate(n, |generator, _| {
                let is_rare = unit(generator) < *share;
                (is_rare, if by_age { zipf.rank(generator) } else { scattered.item(generator) })
            });
        let mut there = before;
        for part in draws.chunks(batch) {
            let rare = || part.iter().filter(|(is_rare, _)| *is_rare);
            let common = || part.iter().filter(|(is_rare, _)| !*is_rare);
            let mut steps = Vec::new();
            if by_age {
                let first = there;
                there += rare().count() as u64;
                steps.push(self.add(verbs[0], (first..there).map(|number| number as u32)));
                steps.push(self.add(verbs[1], common().map(|(_, rank)| (there - 1 - rank) as u32)));
            } else {
                // A read-modify-write reads, too. An edge reads the rank of a vertex, and sets another.
                let reads_all = matches!(*op, "ycsb_f" | "pagerank");
                let number = |(_, number): &(bool, u64)| *number as u32;
                let other = |draw: &(bool, u64)| match *op {
                    "pagerank" => (mix64(draw.1) % before) as u32,
                    _ => number(draw),
                };
                steps.push(match reads_all {
                    true => self.add(verbs[0], part.iter().map(number)),
                    false => self.add(verbs[0], common().map(number)),
                });
                steps.push(self.add(verbs[1], rare().map(other)));
            }
            steps.retain(|step| !step.elements.is_empty());
            self.batches.push(steps);
        }
        Ok(())
    }

    fn add(&mut self, verb: Verb, numbers: impl Iterator<Item = u32>) -> Step {
        let start = self.numbers.len();
        self.numbers.extend(numbers);
        self.verbs.resize(self.numbers.len(), verb);
        Step { verb, elements: start..self.numbers.len() }
    }

    /// Computes the versions that elements find or write. Each batch writes a version of its own.
    fn expect(&mut self) {
        let mut left = vec![0; self.before as usize];
        let mut versions = vec![NONE; self.numbers.len()];
        for (batch, steps) in self.batches.iter().enumerate() {
            for step in steps {
                for index in step.elements.clone() {
                    let number = self.numbers[index] as usize;
                    match step.verb {
                        Verb::Get => versions[index] = left.get(number).copied().unwrap_or(NONE),
                        Verb::Remove => left[number] = NONE,
                        Verb::Insert | Verb::Update => {
                            left.resize(left.len().max(number + 1), NONE);
                            versions[index] = batch as u32 + 1;
                            left[number] = batch as u32 + 1;
                        }
                    }
                }
            }
        }
        (self.left, self.versions) = (left, versions);
    }
}

/// Returns numbers of present keys: by Zipf's law if the case has `theta`, else each once, shuffled.
fn present(case: &Case, before: u64, n: usize) -> Result<Vec<u32>> {
    let Some(theta) = case.number_if_given("theta")? else { return Ok(shuffled(case, before, n)) };
    let zipf = ScrambledZipf::new(before, theta, case.seed)?;
    let source = Source::new(case.seed, "keys by Zipf's law");
    Ok(source.generate(n, |generator, _| zipf.item(generator) as u32))
}

fn shuffled(case: &Case, before: u64, n: usize) -> Vec<u32> {
    let order = Permutation::new(before, &Source::new(case.seed, "order of keys"));
    tabulate(n, |index| order.at(index % before) as u32)
}

/// Returns numbers of rows of tables of embeddings, one of each table in turn, by Zipf's law within a table.
fn embeddings(case: &Case, before: u64, n: usize) -> Result<Vec<u32>> {
    let rows = (before / TABLES).max(1);
    let zipf = ScrambledZipf::new(rows, case.number("theta")?, case.seed)?;
    let source = Source::new(case.seed, "rows of embeddings");
    Ok(source.generate(n, |generator, index| {
        let table = index as u64 % TABLES.min(before);
        (table * rows + zipf.item(generator)) as u32
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::record::Param;
    use std::collections::HashSet;

    fn plan(op: &str, params: &[(&str, f64)]) -> Plan {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), Param::Number(*value)));
        let case = Case { op: op.to_owned(), n: 4000, seed: 3, params: params.collect(), ..Case::default() };
        Plan::new(&case).unwrap()
    }

    fn count(plan: &Plan, verb: Verb) -> usize {
        plan.verbs.iter().filter(|&&other| other == verb).count()
    }

    const RUN: [(&str, f64); 3] = [("pairs", 1000.0), ("theta", 0.99), ("batch", 100.0)];

    #[test]
    fn workloads_have_their_shares() {
        for (op, reads, updates) in
            [("ycsb_a", 2000, 2000), ("ycsb_b", 3800, 200), ("ycsb_c", 4000, 0), ("ycsb_f", 4000, 2000)]
        {
            let plan = plan(op, &RUN);
            assert_eq!(plan.batches.len(), 40);
            assert!(count(&plan, Verb::Get).abs_diff(reads) <= 150, "{op}");
            assert!(count(&plan, Verb::Update).abs_diff(updates) <= 150, "{op}");
            assert!(plan.versions.iter().all(|&version| version <= 40), "{op}: all keys are there");
        }
        let edges = plan("pagerank", &RUN);
        assert_eq!((count(&edges, Verb::Get), count(&edges, Verb::Update)), (4000, 4000));
        assert_eq!(plan("ycsb_load", &RUN).before, 0);
    }

    /// Each read of the workload D finds its key, the more often the younger it is.
    #[test]
    fn the_latest_records_are_read() {
        let plan = plan("ycsb_d", &RUN);
        let inserted = count(&plan, Verb::Insert);
        assert!(inserted.abs_diff(200) < 60 && plan.left.len() == 1000 + inserted);
        assert!(plan.versions.iter().all(|&version| version != NONE));
        let reads = plan.numbers.iter().zip(&plan.verbs).filter(|(_, verb)| **verb == Verb::Get);
        let of_new = reads.filter(|(number, _)| **number >= 1000).count();
        assert!(of_new > 1000, "{of_new} of the reads are of new keys");
    }

    #[test]
    fn versions_are_those_of_the_last_batch_that_wrote_a_key() {
        let plan = plan("ycsb_a", &RUN);
        let mut last = vec![0; 1000];
        for (batch, steps) in plan.batches.iter().enumerate() {
            let elements = |verb: Verb| steps.iter().filter(move |step| step.verb == verb);
            for index in elements(Verb::Get).flat_map(|step| step.elements.clone()) {
                assert_eq!(plan.versions[index], last[plan.numbers[index] as usize]);
            }
            for index in elements(Verb::Update).flat_map(|step| step.elements.clone()) {
                last[plan.numbers[index] as usize] = batch as u32 + 1;
            }
        }
        assert_eq!(plan.left, last);
    }

    #[test]
    fn keys_are_distinct_or_follow_zipfs_law() {
        let distinct = |plan: &Plan| plan.numbers.iter().collect::<HashSet<_>>().len();
        let even = plan("get", &[("pairs", 8000.0)]);
        assert_eq!((distinct(&even), even.batches.len()), (4000, 1));
        assert!(distinct(&plan("get", &RUN)) < 900);
        assert_eq!(distinct(&plan("remove", &[])), 4000);
        let missed = plan("get_missed", &[]);
        assert!(missed.versions.iter().all(|&version| version == NONE) && distinct(&missed) == 4000);
        let rows = plan("dlrm", &[("pairs", 2600.0), ("theta", 1.05)]);
        let is_of_table = |(index, number): (usize, &u32)| *number as usize / 100 == index % 26;
        assert!(rows.numbers.iter().enumerate().all(is_of_table));
    }
}

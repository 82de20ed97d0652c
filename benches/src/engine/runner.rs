//! Runs cases: restores, times and verifies each repetition, then creates a record.
use super::benchmark::{Benchmark, Machine, Metric, Structure, Verified};
use super::catalog;
use super::environment::Source;
use super::record::{Record, SCHEMA};
use super::statistics::{Summary, summarize};
use super::suite::{Case, Selection, Suite};
use anyhow::{Context, Result, bail, ensure};
use itertools::Itertools;
use std::collections::BTreeMap;

/// Millions of operations per second by limit name.
pub type Limits = BTreeMap<String, f64>;

/// Inputs of a run.
pub struct Session<'a> {
    /// Machine that runs the cases.
    pub machine: &'a dyn Machine,
    /// Structures that can be measured.
    pub structures: &'a [Box<dyn Structure + 'a>],
    /// Selected sizes.
    pub selection: Selection,
    /// Source version of the program.
    pub source: Source,
}

/// Receiver of events during a run, such as a progress bar.
pub trait Observer {
    /// Called at the start of case `index` of `of` cases.
    fn begin(&mut self, index: usize, of: usize, case: &Case);
    /// Called at the end of a case.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the record cannot be stored, which ends the run.
    fn end(&mut self, record: &Record) -> Result<()>;
}

impl Session<'_> {
    /// Measures the limits if any case names one, then runs all cases. A wrong result does not end the run:
    /// its record has `verified: false` and describes the fault.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a suite names an unknown structure, variant or operation, and when the
    /// device fails.
    pub fn run(&self, suites: &[Suite], observer: &mut dyn Observer) -> Result<Vec<Record>> {
        let cases: Vec<Vec<Case>> = suites.iter().map(|suite| self.cases(suite)).collect::<Result<_>>()?;
        let cases = cases.concat();
        let (limits, measured) = self.limits(&cases)?;
        let mut records = Vec::with_capacity(cases.len());
        for (index, case) in cases.iter().enumerate() {
            observer.begin(index, cases.len(), case);
            let known = measured.iter().find(|(known, _)| known == case).map(|(_, record)| record.clone());
            let record = match known {
                Some(record) => record,
                None => self.measure(case, &limits).with_context(|| describe(case))?,
            };
            observer.end(&record)?;
            records.push(record);
        }
        Ok(records)
    }

    fn structure(&self, suite: &str, name: &str) -> Result<&dyn Structure> {
        let found = self.structures.iter().find(|structure| structure.name() == name);
        let known = || self.structures.iter().map(|structure| structure.name()).join(", ");
        let found = found.with_context(|| format!("suite {suite} asks for '{name}'; there are: {}", known()));
        Ok(found?.as_ref())
    }

    fn cases(&self, suite: &Suite) -> Result<Vec<Case>> {
        let parts = suite.parts();
        parts.iter().map(|part| self.cases_of_part(part)).flatten_ok().collect()
    }

    fn cases_of_part(&self, suite: &Suite) -> Result<Vec<Case>> {
        let structure = self.structure(&suite.name, &suite.structure)?;
        let (name, variants, ops) = (structure.name(), structure.variants(), structure.ops());
        let check = |what: &str, asked: &[String], known: &[&str]| {
            let unknown = asked.iter().find(|asked| !known.contains(&asked.as_str()));
            let (suite, known) = (&suite.name, known.join(", "));
            unknown.map_or(Ok(()), |asked| {
                bail!("suite {suite}: {name} has no {what} '{asked}'; it has: {known}")
            })
        };
        check("operation", &suite.ops, &ops)?;
        check("variant", &suite.variants, &variants.iter().map(String::as_str).collect_vec())?;
        let cases = suite.cases(self.selection, &variants);
        Ok(cases.into_iter().filter(|case| structure.is_possible(case)).collect())
    }

    /// Measures the limits that the cases name, with the built-in suite. Returns the limits and their
    /// records.
    fn limits(&self, cases: &[Case]) -> Result<(Limits, Vec<(Case, Record)>)> {
        let (mut limits, mut measured) = (Limits::new(), Vec::new());
        let named = |limit: &String| cases.iter().any(|case| case.limit.as_ref() == Some(limit));
        if cases.iter().all(|case| case.limit.is_none()) {
            return Ok((limits, measured));
        }
        for suite in catalog::select(&[catalog::LIMITS.to_owned()])? {
            for case in self.cases(&suite)?.into_iter().filter(|case| named(&case.op)) {
                let record = self.measure(&case, &limits).with_context(|| describe(&case))?;
                let Record { verified, fault, .. } = &record;
                ensure!(*verified, "the limit {} was not measured rightly: {fault:?}", case.op);
                limits.insert(case.op.clone(), record.mops);
                measured.push((case, record));
            }
        }
        Ok((limits, measured))
    }

    fn measure(&self, case: &Case, limits: &Limits) -> Result<Record> {
        let mut benchmark = self.structure(&case.suite, &case.structure)?.prepare(case)?;
        let mut times = Vec::new();
        let mut fault = None;
        for repetition in 0..case.warmup + case.reps {
            let time = self.repeat(benchmark.as_mut())?;
            let verified = verify(benchmark.as_mut(), case);
            fault = fault.or(verified.err().map(|error| format!("repetition {repetition}: {error:#}")));
            if repetition >= case.warmup {
                times.push(time);
            }
        }
        let summary = summarize(&times).context("a case has at least one repetition")?;
        Ok(self.record(case, benchmark.as_ref(), summary, limits, fault))
    }

    fn repeat(&self, benchmark: &mut dyn Benchmark) -> Result<f64> {
        benchmark.restore()?;
        let time = self.machine.time(&mut || benchmark.launch())?;
        Ok(benchmark.own_ms().unwrap_or(time))
    }

    fn record(
        &self,
        case: &Case,
        benchmark: &dyn Benchmark,
        times: Summary,
        limits: &Limits,
        fault: Option<String>,
    ) -> Record {
        let mops = benchmark.operations() as f64 / times.median / 1e3;
        let limit_mops = case.limit.as_ref().and_then(|limit| limits.get(limit)).copied();
        let mut record = Record {
            schema: SCHEMA,
            suite: case.suite.clone(),
            structure: case.structure.clone(),
            variant: case.variant.clone(),
            op: case.op.clone(),
            key_bits: case.key_bits,
            value_bits: case.value_bits,
            n: case.n,
            params: case.params.clone(),
            device: self.machine.name(),
            driver: self.machine.driver(),
            commit: self.source.commit.clone(),
            dirty: self.source.dirty,
            seed: case.seed,
            reps: case.reps,
            median_ms: times.median,
            min_ms: times.min,
            max_ms: times.max,
            ci_low_ms: Some(times.low),
            ci_high_ms: Some(times.high),
            mops,
            limit: case.limit.clone(),
            limit_mops,
            ratio: limit_mops.map(|limit| mops / limit),
            verified: fault.is_none(),
            fault,
            ..Record::default()
        };
        benchmark.metrics().into_iter().for_each(|metric| add(&mut record, metric));
        record
    }
}

/// Adds the field of a metric to a record.
fn add(record: &mut Record, metric: Metric) {
    match metric {
        Metric::TableBytes(bytes) => record.table_bytes = Some(bytes),
        Metric::BytesMoved(bytes) => record.gb_s = Some(bytes as f64 / record.median_ms / 1e6),
        Metric::Lines(lines) => record.lines = Some(lines),
        Metric::Counted(counters) => record.counted = Some(counters),
        Metric::P99(ms) => record.p99_ms = Some(ms),
        Metric::PeakBytes(bytes) => record.peak_device_bytes = Some(bytes),
        Metric::Overhead(overhead) => record.overhead = Some(overhead),
        Metric::Epochs(epochs) => record.epochs = Some(epochs),
    }
}

fn describe(case: &Case) -> String {
    let params = crate::engine::record::describe(&case.params);
    format!("{}: {} {} {} n={} {params}", case.suite, case.structure, case.variant, case.op, case.n)
}

/// Verifies the last launch: all results were compared, and the expected share of them succeeded.
fn verify(benchmark: &mut dyn Benchmark, case: &Case) -> Result<()> {
    let Verified { compared, succeeded } = benchmark.verify()?;
    let operations = benchmark.operations();
    ensure!(compared >= operations, "only {compared} of {operations} results were compared");
    if let Some(share) = case.expected_share {
        let expected = (operations as f64 * share).round() as u64;
        ensure!(
            succeeded == expected,
            "{succeeded} of {operations} operations succeeded; the suite expects {expected}"
        );
    }
    Ok(())
}

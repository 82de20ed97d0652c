//! Tests of the runner with a fake machine and a fake structure: what it records, and that it detects every
//! fault.
use anyhow::{Result, bail};
use phalanx_bench::engine::benchmark::{Benchmark, Machine, Metric, Structure, Verified};
use phalanx_bench::engine::environment::Source;
use phalanx_bench::engine::record::Record;
use phalanx_bench::engine::runner::{Observer, Session};
use phalanx_bench::engine::suite::{Case, Selection, Suite};
use std::cell::{Cell, RefCell};

/// Machine whose n-th timed work takes n milliseconds.
#[derive(Default)]
struct Clock {
    ticks: Cell<u32>,
    emulator: bool,
}

impl Machine for Clock {
    fn name(&self) -> String {
        "Clock 3000".to_owned()
    }

    fn driver(&self) -> String {
        if self.emulator { "emulator" } else { "1.0" }.to_owned()
    }

    fn is_emulator(&self) -> bool {
        self.emulator
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        work()?;
        self.ticks.set(self.ticks.get() + 1);
        Ok(f64::from(self.ticks.get()))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    WrongOnce,
    ComparesHalf,
    FindsTooFew,
    /// No fault, but the structure has its own clock.
    OwnClock,
}

/// Structure that logs the calls it receives.
struct Fake<'a> {
    fault: Fault,
    log: &'a RefCell<String>,
}

impl Structure for Fake<'_> {
    fn name(&self) -> &'static str {
        "Fake"
    }

    fn variants(&self) -> Vec<String> {
        vec!["plain".to_owned(), "fancy".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["find_hit"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        self.log.borrow_mut().push('p');
        Ok(Box::new(Prepared { of: self, n: case.n, launches: 0 }))
    }
}

struct Prepared<'a> {
    of: &'a Fake<'a>,
    n: u64,
    launches: u32,
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        self.of.log.borrow_mut().push('r');
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        self.launches += 1;
        self.of.log.borrow_mut().push('l');
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        (self.of.fault == Fault::OwnClock).then_some(f64::from(self.launches) * 100.0)
    }

    fn verify(&mut self) -> Result<Verified> {
        self.of.log.borrow_mut().push('v');
        match self.of.fault {
            Fault::WrongOnce if self.launches == 2 => bail!("key 7 has the value 8"),
            Fault::ComparesHalf => Ok(Verified { compared: self.n / 2, succeeded: self.n }),
            Fault::FindsTooFew => Ok(Verified { compared: self.n, succeeded: self.n - 1 }),
            _ => Ok(Verified { compared: self.n, succeeded: self.n }),
        }
    }

    fn operations(&self) -> u64 {
        self.n
    }

    fn metrics(&self) -> Vec<Metric> {
        let counted = [("steps".to_owned(), 2.5)].into();
        vec![
            Metric::TableBytes(64),
            Metric::BytesMoved(12_000_000),
            Metric::Lines(vec![1.0, 0.5]),
            Metric::Counted(counted),
            Metric::Overhead(0.25),
            Metric::Epochs(vec![[1, 2, 3]]),
        ]
    }
}

#[derive(Default)]
struct Seen(Vec<String>);

impl Observer for Seen {
    fn begin(&mut self, index: usize, of: usize, case: &Case) {
        self.0.push(format!("{index}/{of} {}", case.variant));
    }

    fn end(&mut self, record: &Record) -> Result<()> {
        self.0.push(record.op.clone());
        Ok(())
    }
}

const SUITE: &str = r#"
title = "Made up"
structure = "Fake"
variants = ["plain"]
ops = ["find_hit"]
[gpu]
n = [1000]
warmup = 1
reps = 3
[emulator]
n = [10]
warmup = 0
reps = 1
[expect]
find_hit = 1.0
"#;

fn run(suite: &str, fault: Fault) -> Result<(Vec<Record>, String, Vec<String>)> {
    let log = RefCell::default();
    let suite = Suite::parse("made/up", suite)?;
    let machine = Clock::default();
    let source = Source { commit: "abc".to_owned(), dirty: true };
    let selection = Selection { emulator: false, quick: false, reps: None };
    let mut seen = Seen::default();
    let structures: [Box<dyn Structure + '_>; 1] = [Box::new(Fake { fault, log: &log })];
    let session = Session { machine: &machine, structures: &structures, selection, source };
    let records = session.run(&[suite], &mut seen)?;
    Ok((records, log.take(), seen.0))
}

#[test]
fn each_repetition_is_restored_timed_and_verified() {
    let (records, log, seen) = run(SUITE, Fault::None).unwrap();
    assert_eq!(log, "prlvrlvrlvrlv");
    assert_eq!(seen, ["0/1 plain", "find_hit"]);
    let record = &records[0];
    // The warm-up took 1 ms and is not counted; the repetitions took 2, 3 and 4 ms.
    assert_eq!((record.median_ms, record.min_ms, record.max_ms, record.reps), (3.0, 2.0, 4.0, 3));
    assert!((record.mops - 1000.0 / 3.0 / 1e3).abs() < 1e-12);
    assert_eq!((record.commit.as_str(), record.dirty), ("abc", true));
    assert!(record.verified && record.fault.is_none());
}

#[test]
fn metrics_become_fields() {
    let record = run(SUITE, Fault::None).unwrap().0.remove(0);
    assert_eq!((record.table_bytes, record.overhead), (Some(64), Some(0.25)));
    // 12 MB in the median time of 3 ms.
    assert_eq!((record.gb_s, record.lines), (Some(4.0), Some(vec![1.0, 0.5])));
    assert_eq!(record.counted, Some([("steps".to_owned(), 2.5)].into()));
    assert_eq!(record.epochs, Some(vec![[1, 2, 3]]));
}

#[test]
fn a_clock_of_its_own_overrules_the_machines() {
    let record = run(SUITE, Fault::OwnClock).unwrap().0.remove(0);
    assert_eq!((record.median_ms, record.min_ms, record.max_ms), (300.0, 200.0, 400.0));
}

#[test]
fn faults_are_recorded_and_do_not_end_the_run() {
    let fault = |fault| {
        let record = run(SUITE, fault).unwrap().0.remove(0);
        assert!(!record.verified);
        record.fault.unwrap()
    };
    assert!(fault(Fault::WrongOnce).contains("repetition 1: key 7 has the value 8"));
    assert!(fault(Fault::ComparesHalf).contains("only 500 of 1000"));
    assert!(fault(Fault::FindsTooFew).contains("999 of 1000 operations succeeded; the suite expects 1000"));
}

#[test]
fn suites_that_ask_for_what_is_not_there_are_refused() {
    let message =
        |from: &str, to: &str| format!("{:#}", run(&SUITE.replace(from, to), Fault::None).unwrap_err());
    assert!(message("\"Fake\"", "\"Fraud\"").contains("asks for 'Fraud'; there are: Fake"));
    assert!(message("\"plain\"", "\"plane\"").contains("no variant 'plane'; it has: plain, fancy"));
    assert!(message("ops = [\"find_hit\"]", "ops = [\"find_hit\", \"fly\"]").contains("no operation 'fly'"));
}

#[test]
fn without_variants_all_run() {
    let suite = SUITE.replace("variants = [\"plain\"]\n", "");
    let (records, ..) = run(&suite, Fault::None).unwrap();
    assert_eq!(records.iter().map(|record| record.variant.as_str()).collect::<Vec<_>>(), ["plain", "fancy"]);
}

#[test]
fn records_survive_a_file() {
    let (records, ..) = run(SUITE, Fault::WrongOnce).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}\n\n", serde_json::to_string(&records[0]).unwrap())).unwrap();
    assert_eq!(phalanx_bench::engine::record::read(file.path()).unwrap(), records);
    std::fs::write(file.path(), "{}\n").unwrap();
    let message = format!("{:#}", phalanx_bench::engine::record::read(file.path()).unwrap_err());
    assert!(message.contains(":1 is not a benchmark record"), "{message}");
}

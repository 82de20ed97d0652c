//! Test programs, and runs of their tests with and without a mutant.
use super::mutants::{Mutant, Uses, parse};
use super::{Family, Options};
use crate::bundle::{TOLD, executables};
use crate::workspace::{cargo, root, shell};
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use wait_timeout::ChildExt;
use xshell::cmd;

/// Time after which a test without a mutant is stopped.
const LONGEST: Duration = Duration::from_secs(600);

/// Test of a program.
#[derive(Clone, Debug)]
struct Test {
    program: PathBuf,
    /// Folder of its package, where it runs.
    folder: PathBuf,
    name: String,
    took: Duration,
}

/// Result of the run of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A test has failed, or did not end in ten times its usual time.
    Killed { test: String, in_time: bool },
    /// No test has failed, although the mutant has changed operations.
    Survived,
    /// The mutant has changed no operation.
    NoEffect,
    /// A test has failed before the mutant has changed an operation.
    Broken { test: String },
}

/// A mutant with its result.
pub struct Tested {
    pub mutant: Mutant,
    pub outcome: Outcome,
}

/// Runs the tests of a family.
pub struct Runner {
    tests: Vec<Test>,
    pool: rayon::ThreadPool,
    /// Number of mutants that each test has killed so far.
    kills: Mutex<Vec<u32>>,
    /// Usual time of the tests of a mutant after which no further one is started.
    most: Option<Duration>,
}

impl Runner {
    /// Builds the test programs, and lists their tests.
    pub fn build(family: &Family, options: &Options) -> Result<Self> {
        let (shell, cargo, features) = (shell()?, cargo(), family.features);
        let own = ["--package", "phalanx", "--no-default-features", "--features", features];
        let all = ["--workspace", "--all-features"];
        let which = if options.all_features { &all[..] } else { &own };
        let build = cmd!(shell, "{cargo} test --no-run {TOLD}").args(which);
        let programs = family.programs.iter().flat_map(|program| ["--test", program]);
        let messages = build.args(programs).read()?;
        // The messages name other binaries of the package, too.
        let mut programs = executables(&messages)?;
        programs.retain(|program| family.programs.contains(&program.target()));
        let tests = programs.iter().map(|program| tests_of(program.executable()?, "crates/phalanx", ""));
        let mut tests = tests.collect::<Result<Vec<_>>>()?.concat();
        ensure!(!tests.is_empty(), "the programs of {} have no tests", family.name);
        if !family.units.is_empty() {
            let flags = ["--package", "phalanx-kernels", "--lib"];
            let build = cmd!(shell, "{cargo} test --no-run {TOLD}").args(flags);
            for program in executables(&build.read()?)? {
                tests.extend(tests_of(program.executable()?, "kernels-gpu", family.units)?);
            }
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build()?;
        let most = options.seconds.map(Duration::from_secs);
        Ok(Self { kills: Mutex::new(vec![0; tests.len()]), tests, pool, most })
    }

    /// Runs each test without a mutant. Returns the operations of kernels with the tests that execute them.
    ///
    /// # Errors
    /// As a test fails.
    pub fn record(&mut self) -> Result<Uses> {
        let Self { tests, pool, .. } = self;
        let run = |test: &mut Test| -> Result<String> {
            let run = test.run(None)?;
            ensure!(run.passed == Some(true), "{} fails without a mutant", test.name);
            test.took = run.took;
            Ok(run.record)
        };
        let records = pool.install(|| tests.par_iter_mut().map(run).collect::<Result<Vec<_>>>())?;
        let mut uses = Uses::new();
        for (test, record) in records.iter().enumerate() {
            for operation in parse(record)? {
                uses.entry(operation).or_default().insert(test);
            }
        }
        let took: Duration = tests.iter().map(|test| test.took).sum();
        println!("{} tests, {:.0} s of processor time", tests.len(), took.as_secs_f64());
        Ok(uses)
    }

    /// Runs mutants until a time, if any. Returns the results of those that were run.
    pub fn run(&self, mutants: Vec<Mutant>, end: Option<Instant>) -> Result<Vec<Tested>> {
        let in_time = |_: &Mutant| end.is_none_or(|end| Instant::now() < end);
        let run = |mutant: Mutant| self.run_mutant(mutant);
        // A mutant at a time per thread, in the given order.
        let bridge = || mutants.into_iter().filter(in_time).par_bridge().map(run).collect::<Result<Vec<_>>>();
        let mut tested = self.pool.install(bridge)?;
        tested.sort_by(|a, b| a.mutant.site.place.cmp(&b.mutant.site.place));
        Ok(tested)
    }

    fn run_mutant(&self, mutant: Mutant) -> Result<Tested> {
        let start = Instant::now();
        let outcome = self.outcome(&mutant)?;
        println!("{mutant}: {outcome:?} after {:.1} s", start.elapsed().as_secs_f64());
        Ok(Tested { mutant, outcome })
    }

    /// Runs the tests that execute the site of a mutant until one fails.
    fn outcome(&self, mutant: &Mutant) -> Result<Outcome> {
        let (mut has_effect, mut usual) = (false, Duration::ZERO);
        for index in self.order(mutant) {
            let test = &self.tests[index];
            if self.most.is_some_and(|most| usual > most) {
                break;
            }
            usual += test.took;
            let run = test.run(Some(mutant))?;
            has_effect |= run.record.contains("effect\n");
            if run.passed != Some(true) {
                let (test, in_time) = (test.name.clone(), run.passed.is_some());
                if !has_effect {
                    return Ok(Outcome::Broken { test });
                }
                self.kills()[index] += 1;
                return Ok(Outcome::Killed { test, in_time });
            }
        }
        Ok(if has_effect { Outcome::Survived } else { Outcome::NoEffect })
    }

    /// Returns the indices of a mutant's tests. First are those that have killed many mutants in little time.
    fn order(&self, mutant: &Mutant) -> Vec<usize> {
        let kills = self.kills();
        let mut tests: Vec<usize> = mutant.tests.iter().copied().collect();
        tests.sort_by_cached_key(|&test| self.tests[test].took / (1 + kills[test]));
        tests
    }

    fn kills(&self) -> MutexGuard<'_, Vec<u32>> {
        self.kills.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the tests of a program in a module that plant no faults. They run in the folder of their package.
fn tests_of(program: &Path, folder: &str, module: &str) -> Result<Vec<Test>> {
    let shell = shell()?;
    let list = cmd!(shell, "{program} --list --format terse").read()?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let names = names.filter(|name| name.starts_with(module) && plants_nothing(name));
    let (folder, took) = (root().join(folder), LONGEST / 10);
    let test = |name: &str| Test {
        program: program.to_owned(),
        folder: folder.clone(),
        name: name.to_owned(),
        took,
    };
    Ok(names.map(test).collect())
}

/// Returns whether a test plants no fault of its own, by its name.
fn plants_nothing(name: &str) -> bool {
    !name.ends_with("_found") && !name.contains("_found_by_")
}

/// Run of a test.
struct Run {
    /// Whether the test has passed; `None` if it was stopped.
    passed: Option<bool>,
    record: String,
    took: Duration,
}

impl Test {
    /// Runs the test in a process of its own, for at most ten times its usual time and 20 s.
    fn run(&self, mutant: Option<&Mutant>) -> Result<Run> {
        let (record, start) = (NamedTempFile::new()?, Instant::now());
        let mut child = self.command(mutant, record.path()).spawn()?;
        let status = child.wait_timeout(10 * self.took + Duration::from_secs(20))?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let record = fs::read_to_string(record.path()).context("the record of executed sites")?;
        Ok(Run { passed: status.map(|status| status.success()), record, took: start.elapsed() })
    }

    fn command(&self, mutant: Option<&Mutant>, record: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--exact", &self.name, "--test-threads", "1"]).current_dir(&self.folder);
        command.env("PHALANX_SITES", record).env_remove("PHALANX_MUTANT").env_remove("PHALANX_SEED");
        command.envs(mutant.map(|mutant| ("PHALANX_MUTANT", mutant.to_string())));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::mutants::{Operation, Place, Site};
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    /// Returns the outcome of a mutant if its tests run a shell script.
    fn outcome(script: &str) -> Outcome {
        outcome_within(script, None)
    }

    /// As [`outcome`], with a limit of the tests' usual time.
    fn outcome_within(script: &str, most: Option<Duration>) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let test = |name: &str, seconds| Test {
            program: program.clone(),
            folder: root(),
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let tests = vec![test("long", 9), test("short", 1), test("elsewhere", 0)];
        let runner = Runner { kills: Mutex::new(vec![0; tests.len()]), tests, pool, most };
        let place = Place { file: "a.rs".to_owned(), line: 7, column: 1 };
        let site = Site { place, function: String::new(), text: String::new() };
        let tests = BTreeSet::from([0, 1]);
        let operation = Operation::of("store Weak Device 4");
        runner.outcome(&Mutant { site, operation, operator: "skip", kind: 6, tests, reason: None }).unwrap()
    }

    #[test]
    fn outcomes_follow_from_tests_and_effects() {
        let effect = "echo effect >> $PHALANX_SITES";
        let killed = |test: &str| Outcome::Killed { test: test.to_owned(), in_time: true };
        assert_eq!(outcome(&format!("{effect}; exit 1")), killed("short"));
        let by_long = format!("{effect}; test $2 = short");
        assert_eq!(outcome(&by_long), killed("long"));
        assert_eq!(outcome_within(&by_long, Some(Duration::from_millis(1_500))), killed("long"));
        assert_eq!(outcome_within(&by_long, Some(Duration::from_millis(500))), Outcome::Survived);
        assert_eq!(outcome(effect), Outcome::Survived);
        assert_eq!(outcome("exit 0"), Outcome::NoEffect);
        assert_eq!(outcome("exit 1"), Outcome::Broken { test: "short".to_owned() });
        let only_mutated =
            format!("{effect}; test \"$PHALANX_MUTANT\" != 'a.rs:7:1 skip store Weak Device 4'");
        assert_eq!(outcome(&only_mutated), killed("short"));
    }

    #[test]
    fn tests_that_plant_faults_are_left_out() {
        let planting =
            ["mutants::a_lost_word_is_found", "order::a_lost_word_is_found", "words_are_found_by_exchanges"];
        for name in planting {
            assert!(!plants_nothing(name), "{name}");
        }
        assert!(
            plants_nothing("tiles_of_1::lockstep") && plants_nothing("mutants::trees_without_a_fault_pass")
        );
    }
}

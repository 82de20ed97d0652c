//! Tests the mutant of the process and the record of executed sites. The environment is read once per
//! process, so each test runs [`kernels_are_right`] in processes of its own.
mod common;

use common::on_zeros;
use simt::emulator::{Emulator, Fault, Options, Schedule, SiteId};
use simt::{Block, GlobalSlice, Grid, Order, Scope, Thread, bound, fence, kernel, recheck, spin_hint};
use std::fs;
use std::path::Path;
use std::process::Command;

const SEEDS: u64 = 60;

#[kernel]
fn pass_message(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        data.write(0, 42);
        flag.at(0).store(1, Order::Release, Scope::Device);
    } else {
        while flag.at(0).load(Order::Acquire, Scope::Device) == 0 {
            spin_hint();
        }
        data.write(1, data.read(0));
    }
}

/// A reader reads two words, and the version before and after.
#[kernel]
fn read_twice(words: GlobalSlice<u32>, result: GlobalSlice<u32>) {
    let (load, store) = (Order::Acquire, Order::Release);
    if Thread::block_index() == 0 {
        words.at(0).store(1, store, Scope::Device); // odd: a writer is at work
        fence(Scope::Device);
        words.at(1).store(1, Order::Relaxed, Scope::Device);
        words.at(2).store(1, Order::Relaxed, Scope::Device);
        words.at(0).store(2, store, Scope::Device); // the end
        return;
    }
    let before = words.at(0).load(load, Scope::Device);
    let [a, b] = [1, 2].map(|place| words.at(place).load(load, Scope::Device));
    let after = words.at(0).load(load, Scope::Device) /* again */;
    let is_settled = recheck(before == after);
    result.write(0, u32::from(before.is_multiple_of(2) && is_settled && a != b));
}

#[kernel]
fn count(counter: GlobalSlice<u32>) {
    counter.at(0).fetch_add(1, Order::AcqRel, Scope::Device);
}

#[kernel]
fn rotate(words: GlobalSlice<u32>, sums: GlobalSlice<u32>) {
    let lane = Thread::index();
    words.write(lane, 1);
    Block::sync();
    let next = words.read((lane + 1) % 4);
    let mut sum = 0;
    for round in 0..bound(3) {
        sum += next + round;
    }
    sums.write(lane, sum);
}

fn explore<T: PartialEq + std::fmt::Debug>(
    expected: T,
    run: impl Fn(&Emulator) -> Result<T, simt::emulator::Failure>,
) {
    for seed in 0..SEEDS {
        let options = Options { stale_l1: true, ..Options::explore(Schedule::Random { seed }) };
        let found = run(&Emulator::new(options)).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(found, expected);
    }
}

/// Plants a fault of its own, which is not the mutant of the process.
#[test]
fn a_fault_of_a_test_is_found() {
    let site = SiteId::find("tests/mutants.rs", "count", "counter.at(0).fetch_add").unwrap();
    let fault = Fault::skip(site);
    let device = Emulator::new(Options {
        faults: vec![fault.clone()],
        ..Options::explore(Schedule::Random { seed: 1 })
    });
    let words = on_zeros(&device, [1], Grid::new(2, 1), |[counter]| Count { counter }).unwrap();
    assert_eq!((words[0][0], fault.effects()), (0, 2));
}

/// Explores all kernels of this file.
#[test]
fn kernels_are_right() {
    explore(vec![42, 42], |device| {
        let words = on_zeros(device, [1, 2], Grid::new(2, 1), |[flag, data]| PassMessage { flag, data })?;
        Ok(words[1].to_vec())
    });
    explore(vec![0], |device| {
        let words = on_zeros(device, [3, 1], Grid::new(2, 1), |[words, result]| ReadTwice { words, result })?;
        Ok(words[1].to_vec())
    });
    explore(vec![2], |device| {
        let words = on_zeros(device, [1], Grid::new(2, 1), |[counter]| Count { counter })?;
        Ok(words[0].to_vec())
    });
    explore(vec![6; 4], |device| {
        let words = on_zeros(device, [4, 4], Grid::new(1, 4), |[words, sums]| Rotate { words, sums })?;
        Ok(words[1].to_vec())
    });
}

/// Runs the kernels with a mutant, in a process of their own. Returns whether they are right, and the record.
fn run(mutant: Option<&str>) -> (bool, String) {
    run_test("kernels_are_right", mutant)
}

fn run_test(test: &str, mutant: Option<&str>) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let sites = folder.path().join("sites");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env("PHALANX_SITES", &sites);
    command.env_remove("PHALANX_MUTANT").envs(mutant.map(|mutant| ("PHALANX_MUTANT", mutant)));
    let passed = command.output().unwrap().status.success();
    (passed, read(&sites))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the line of the record that contains `what`, of a site at the line of this file with `text`.
fn line_of<'a>(record: &'a str, text: &str, what: &str) -> &'a str {
    let lines: Vec<_> =
        include_str!("mutants.rs").lines().enumerate().filter(|(_, line)| line.contains(text)).collect();
    let place = format!("mutants.rs:{}:", lines[0].0 + 1);
    let found = record.lines().find(|line| line.contains(&place) && line.contains(what));
    found.unwrap_or_else(|| panic!("`{text}`: {what} is not in {record}"))
}

fn place<'a>(record: &'a str, text: &str) -> &'a str {
    line_of(record, text, "").split(' ').next().unwrap()
}

#[test]
fn executed_sites_are_recorded_once() {
    let (passed, record) = run(None);
    assert!(passed && !record.contains("effect"));
    for (text, what) in [
        ("flag.at(0).store", "store Release Device 4"),
        ("flag.at(0).load", "load Acquire Device 4"),
        ("data.write(1", "store Weak Device 4"),
        ("counter.at(0).fetch_add", "update AcqRel Device 4"),
        ("fence(Scope::Device)", "fence Relaxed Device 0"),
        ("Block::sync()", "barrier Relaxed Block 0"),
        ("bound(3)", "bound Relaxed Block 0"),
    ] {
        line_of(&record, text, what);
    }
    let mut lines: Vec<_> = record.lines().collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(count, lines.len(), "{record}");
}

#[test]
fn every_operator_is_found() {
    let (_, record) = run(None);
    for (text, what, operator) in [
        ("flag.at(0).store", "store", "relaxed"),
        ("flag.at(0).load", "load", "relaxed"),
        ("flag.at(0).store", "store", "weak"),
        ("flag.at(0).store", "store", "block"),
        ("flag.at(0).load", "load", "block"),
        ("flag.at(0).store", "store", "skip"),
        ("data.write(0, 42)", "store", "late"),
        ("/* again */", "load", "early"),
        ("words.at(0).store(1", "store", "late"),
        ("counter.at(0).fetch_add", "update", "tear"),
        ("Block::sync()", "barrier", "skip"),
        ("recheck(", "recheck", "skip"),
        ("bound(3)", "bound", "less"),
        ("bound(3)", "bound", "more"),
        ("bound(3)", "bound", "half"),
    ] {
        let (place, what) = line_of(&record, text, what).split_once(' ').unwrap();
        let mutant = format!("{place} {operator} {what}");
        let (passed, record) = run(Some(&mutant));
        assert!(!passed && record.contains("effect\n"), "{mutant} ({text}) is not found: {record}");
    }
}

#[test]
fn a_mutant_that_changes_nothing_has_no_effect() {
    let (_, record) = run(None);
    for (text, operator) in [
        ("flag.at(0).store", "release"),
        ("flag.at(0).store", "device"),
        ("flag.at(0).load", "acquire"),
        ("flag.at(0).load", "late"),
        ("data.write(1", "weak"),
        ("data.write(1", "less"),
    ] {
        let mutant = format!("{} {operator}", place(&record, text));
        let (passed, record) = run(Some(&mutant));
        assert!(passed && !record.contains("effect"), "{mutant} ({text})");
    }
}

#[test]
fn orders_of_counters_are_equivalent() {
    let (_, record) = run(None);
    for operator in ["acquire", "release", "relaxed"] {
        let mutant = format!("{} {operator}", place(&record, "counter.at(0).fetch_add"));
        let (passed, record) = run(Some(&mutant));
        assert!(passed && record.contains("effect\n"), "{mutant}");
    }
}

#[test]
fn a_mutant_of_other_operations_has_no_effect() {
    let (_, record) = run(None);
    let place = place(&record, "flag.at(0).store");
    let (passed, record) = run_test("a_fault_of_a_test_is_found", Some(&format!("{place} skip")));
    assert!(passed && !record.contains("effect"), "{record}");
    for other in ["store Release Device 8", "store Relaxed Device 4", "update Release Device 4"] {
        let (passed, record) = run(Some(&format!("{place} skip {other}")));
        assert!(passed && !record.contains("effect"), "{other}");
    }
}

#[test]
fn a_mutant_of_another_format_is_refused() {
    let (passed, record) = run(Some("mutants.rs:7 skip"));
    assert!(!passed && !record.contains("effect"), "{record}");
}

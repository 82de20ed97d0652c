//! Runs the suites of persistent maps on the emulator: every result is verified.
use phalanx_bench::engine::record::{self, Record};
use std::process::Command;

/// Runs a suite. Returns its records, without those of limits.
fn run(suite: &str, options: &[&str]) -> Vec<Record> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.jsonl");
    let mut program = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    let program = program.args(["run", suite, "--device", "emulator"]).args(options).arg("--json").arg(&json);
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    let records = record::read(&json).unwrap();
    assert!(records.iter().all(|record| record.verified), "{records:?}");
    records.into_iter().filter(|record| record.suite == suite).collect()
}

/// Returns the number of records with a parameter of this value.
fn count(records: &[Record], name: &str, value: &str) -> usize {
    records.iter().filter(|record| record.params.get(name).is_some_and(|it| it.to_string() == value)).count()
}

/// Returns a counter of each record.
fn counted(records: &[Record], name: &str) -> Vec<f64> {
    records.iter().map(|record| record.counted.as_ref().unwrap()[name]).collect()
}

#[test]
fn batches_of_every_operation_and_baseline_run_verified() {
    let records = run("gphash/fig5", &[]);
    assert_eq!((count(&records, "system", "cpu"), count(&records, "system", "undo_log")), (22, 11));
    assert_eq!(records.len(), 11 * (2 + 2 + 2) + 33);
    assert!(records.iter().all(|record| record.p99_ms.is_some() && record.table_bytes.is_some()));
    assert!(counted(&records, "batch_us").iter().all(|&us| us > 0.0));
    let suites = [
        ("gphash/fig6", 2 * 2 * 11 + 11),
        ("gphash/fig9", 2 * 6 * (2 + 1)),
        ("gphash/fig10", 2 + 1 + 1 + 2 + 1 + 2),
        ("gphash/fig12", 4 * 2 + 4 + 6 * 2 + 5 * 2 * 2 + 6 * 2),
    ];
    for (suite, rows) in suites {
        assert_eq!(run(suite, &[]).len(), rows, "{suite}");
    }
}

#[test]
fn maps_are_filled_until_a_key_is_refused() {
    let records = run("gphash/fig7", &[]);
    let loads = counted(&records, "load");
    assert!(records.len() == 6 && loads.iter().all(|&load| load > 80.0 && load <= 100.0), "{loads:?}");
    for (load, first) in loads.iter().zip(counted(&records, "load_at_first_refusal")) {
        assert!(first <= *load + 1e-9, "{first} of {load}");
    }
    let spectrum = run("gphash/fig13", &["--quick"]);
    assert_eq!(spectrum.len(), 7 * 4);
}

#[test]
fn growth_and_restarts_run_verified() {
    let records = run("gphash/fig14", &[]);
    assert_eq!(records.len(), 2 + 2 + 1);
    for record in records.iter().filter(|record| record.op == "open") {
        let counted = record.counted.as_ref().unwrap();
        assert!(counted["image_bytes"] > 0.0 && counted["file_bytes"] >= 2.0 * counted["image_bytes"]);
        assert!(counted["beyond_memory_ms"] <= record.max_ms, "{record:?}");
    }
    assert_eq!(run("gphash/restart", &[]).len(), 3);
}

#[test]
fn caches_of_each_policy_run_verified() {
    let records = run("gphash/fig11", &[]);
    assert_eq!((records.len(), count(&records, "cache", "0")), (2 * 2 * 12 + 4 + 2 * 12, 4));
    let hits: Vec<_> = records.into_iter().filter(|it| it.params.contains_key("count_hits")).collect();
    let rates = |policy: &str| -> Vec<f64> {
        let of_policy = |record: &&Record| record.params["policy"].to_string() == policy;
        counted(&hits.iter().filter(of_policy).cloned().collect::<Vec<_>>(), "hit_rate")
    };
    assert!(rates("lfu").iter().all(|&rate| rate > 20.0 && rate <= 100.0), "{:?}", rates("lfu"));
    assert!(rates("lru").iter().chain(&rates("random")).all(|&rate| rate <= 100.0));
}

#[test]
fn lookups_beside_refreshes_run_verified() {
    let records = run("gphash/fig15", &[]);
    assert_eq!(records.len(), 2 * 4);
    let (lowest, before) = (counted(&records, "lowest_mops"), counted(&records, "before_mops"));
    assert!(lowest.iter().chain(&before).chain(&counted(&records, "refresh_ms")).all(|&it| it > 0.0));
}

#[test]
fn each_target_has_a_row() {
    let records = run("gphash/targets", &[]);
    assert_eq!(records.len(), 5 + 5 + 2 + 1 + 6 + 10 + 4);
    let planned = |record: &&Record| record.params.contains_key("load") && record.op != "remove";
    let loads: Vec<f64> = counted(&records.iter().filter(planned).cloned().collect::<Vec<_>>(), "load");
    assert!(loads.len() == 11 && loads.iter().all(|load| (0.8..0.9).contains(load)), "{loads:?}");
    let syncs: Vec<_> = records.iter().filter(|record| record.op.starts_with("sync")).cloned().collect();
    assert_eq!(syncs.len(), 4);
    assert!(counted(&syncs, "dirty_share").iter().all(|&share| share > 0.2), "{syncs:?}");
    assert!(counted(&syncs, "sync_ms").iter().all(|&ms| ms > 0.0));
}

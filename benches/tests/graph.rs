//! The suites of graphs run on the emulator, and all their results are verified.
use phalanx_bench::engine::record::{self, Record};
use std::process::Command;

/// Runs a suite on the emulator, and returns its records.
fn records(suite: &str) -> Vec<Record> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.jsonl");
    let mut program = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    let output = program.args([suite, "--device", "emulator", "--json"]).arg(&json).output().unwrap();
    assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
    record::read(&json).unwrap()
}

/// Checks that a suite has `count` records, of which each is verified and has the counters.
fn check(suite: &str, count: usize, counters: &[&str]) {
    let records = records(suite);
    assert_eq!(records.len(), count, "{suite}");
    for record in records {
        assert!(record.verified && record.is_emulated(), "{record:?}");
        let counted = record.counted.as_ref().unwrap();
        assert!(counters.iter().all(|name| counted.contains_key(*name)), "{suite}: {counted:?}");
    }
}

#[test]
fn tables_of_batches_run_verified() {
    check("graph/table5-2", 4, &["largest_degree", "average_degree"]);
    check("graph/table5-3", 4, &["largest_degree", "average_degree"]);
    check("graph/table5-4", 3, &["largest_degree", "average_degree", "removed_edges"]);
}

#[test]
fn tables_of_builds_run_verified() {
    check("graph/table5-5", 14, &["largest_degree", "average_degree", "without_edges"]);
    check("graph/table5-6", 8, &["largest_degree", "average_degree", "without_edges"]);
}

#[test]
fn tables_of_triangles_run_verified() {
    check("graph/table5-7", 8, &["largest_degree", "average_degree", "edges"]);
    check("graph/table5-9", 4, &["largest_degree", "average_degree", "edges"]);
}

#[test]
fn figures_of_loads_run_verified() {
    check("graph/fig5-2", 3, &["largest_degree", "chain", "utilisation"]);
    check("graph/fig5-3", 3, &["largest_degree"]);
    // Chains become longer with the load, although tables have at least two buckets.
    let records = records("graph/fig5-2");
    let chains: Vec<f64> = records.iter().map(|record| record.counted.as_ref().unwrap()["chain"]).collect();
    assert!(chains.is_sorted() && chains[2] > 1.5 * chains[0], "{chains:?}");
}

//! Tests of the program on the emulator: the limits run, are verified, and are reported as no measurement of
//! speed.
use phalanx_bench::engine::record::{self, Param, Record};
use std::path::Path;
use std::process::{Command, Output};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_phalanx-bench"))
}

/// Runs the program on the emulator.
fn output(arguments: &[&str]) -> Output {
    program().args(arguments).args(["--device", "emulator"]).output().unwrap()
}

/// Runs the program on the emulator, and returns what it prints.
fn printed(arguments: &[&str]) -> String {
    let output = output(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Runs suites on the emulator. Returns their records, each of which is verified.
fn records(suites: &[&str]) -> Vec<Record> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("records.jsonl");
    printed(&[suites, &["--json", text(&json)]].concat());
    let records = record::read(&json).unwrap();
    assert!(records.iter().all(|record| record.verified), "{records:?}");
    records
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_limits_run_verified_and_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("records.jsonl"), folder.path().join("report.html"));
    let printed = printed(&["limits", "--json", text(&json), "--html", text(&html)]);
    assert!(printed.contains("emulator: no measurement of speed"));
    let records = record::read(&json).unwrap();
    assert_eq!(records.len(), 10 + 4);
    assert!(records.iter().all(|record| record.verified && record.is_emulated()), "{records:?}");
    assert!(std::fs::read_to_string(&html).unwrap().contains("emulator: no measurement of speed"));

    let again = program().arg("report").arg(&json).arg("--baseline").arg(&json).output().unwrap();
    assert!(again.status.success());
    assert!(String::from_utf8_lossy(&again.stdout).contains("emulated"));
}

#[test]
fn an_unknown_suite_is_an_error_that_names_the_known_ones() {
    let output = output(&["no/such-suite"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no/such-suite") && text.contains("limits"), "{text}");
}

/// Runs what `cargo xtask bench --device emulator` runs: it is quick, every result is correct, and ratios
/// refer to limits from the same run.
#[test]
fn the_default_suites_run_verified() {
    let records = records(&["run"]);
    let maps: Vec<_> = records.iter().filter(|record| record.structure == "HashMap").collect();
    assert!(maps.len() >= 9, "{} records of the map", maps.len());
    assert!(maps.iter().all(|record| record.ratio.is_some() && record.table_bytes.is_some()));
}

#[test]
fn mixes_ycsb_and_pools_run_verified() {
    let mixes = printed(&["hashmap/mixed", "hashmap/ycsb", "--quick"]);
    assert!(["mixed_40i40r20f", "ycsb_load", "ycsb_f"].iter().all(|op| mixes.contains(op)), "{mixes}");
    let pools = printed(&["slaballoc"]);
    let parts = ["light_lone", "free_random", "0.9", "slaballoc/malloc"];
    assert!(parts.iter().all(|part| pools.contains(part)), "{pools}");
}

/// Each repetition is a process with its own clock, and an invalid case is reported with that process's
/// message.
#[test]
fn first_launches_run_in_processes_of_their_own() {
    let records = records(&["hashmap/first-launch"]);
    let structures: Vec<&str> = records.iter().map(|record| record.structure.as_str()).collect();
    let families = ["SlabHash", "BTree", "MultiVersionBTree", "SkipList"];
    assert_eq!(structures, [["HashMap"; 3].as_slice(), &families].concat());
    for record in records {
        assert!(record.op == "first_launch" && record.n == 1000, "{record:?}");
        assert!(record.min_ms > 0.0 && record.table_bytes.is_some(), "{record:?}");
        assert_eq!(record.params["of"].to_string(), "insert");
    }
    let output = output(&["first-launch", "{}"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no JSON of one"));
}

#[test]
fn a_bundle_says_what_was_built() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("commit"), "abc123-dirty\n").unwrap();
    let record = |named: Option<&str>| {
        let json = folder.path().join("records.jsonl");
        let _ = std::fs::remove_file(&json);
        let mut program = program();
        program.env("PHALANX_BUNDLE", folder.path()).env_remove("PHALANX_COMMIT");
        program.envs(named.map(|named| ("PHALANX_COMMIT", named)));
        let run = program.args(["limits", "--quick", "--reps", "1", "--device", "emulator", "--json"]);
        assert!(run.arg(&json).output().unwrap().status.success());
        let record = record::read(&json).unwrap().remove(0);
        (record.commit, record.dirty)
    };
    assert_eq!(record(None), ("abc123".to_owned(), true));
    assert_eq!(record(Some("def")), ("def".to_owned(), false));
}

/// Returns the records of a complete suite on the emulator, without those of limits.
fn run(suite: &str) -> Vec<Record> {
    records(&[suite]).into_iter().filter(|record| record.suite == suite).collect()
}

/// Returns the number of records of a structure.
fn count(records: &[Record], structure: &str) -> usize {
    records.iter().filter(|record| record.structure == structure).count()
}

/// Checks that every record has a ratio to its limit and a memory usage.
fn are_complete(records: &[Record]) {
    for record in records {
        assert!(record.ratio.is_some() && record.table_bytes.is_some(), "{record:?}");
        let expected = match record.structure.as_str() {
            "SlabHash" if record.op == "insert" && record.key_bits == 64 => "cas16",
            "SlabHash" | "SlabSet" => "line128",
            "ChainSet" => "sector32",
            _ if record.op.starts_with("find") => "sector32",
            _ => "cas8",
        };
        assert_eq!(record.limit.as_deref(), Some(expected));
    }
}

#[test]
fn slab_hash_builds_and_searches_verified() {
    for (suite, points) in [("slabhash/fig4", 3), ("slabhash/fig5", 2)] {
        let records = run(suite);
        assert_eq!((count(&records, "SlabHash"), count(&records, "HashMap")), (2 * 3 * points, 3 * points));
        are_complete(&records);
    }
}

#[test]
fn slab_hash_runs_at_its_rate_verified() {
    let records = run("slabhash/rate");
    assert_eq!(count(&records, "SlabHash"), 4 * 4 + 2 * 4 + 4 * 2);
    are_complete(&records);
    assert_eq!(records.iter().filter(|record| record.key_bits == 64).count(), 8);
    let of_small = |record: &&Record| record.params["utilisation"].number() == Some(0.55);
    let mut small = records.iter().filter(of_small);
    assert!(small.all(|record| ["insert", "find_hit"].contains(&record.op.as_str())));
}

/// The throughput refers to the final number of pairs, regardless of the number of insertions on the way.
#[test]
fn batches_come_one_after_the_other_verified() {
    let records = run("slabhash/fig6");
    assert_eq!((count(&records, "SlabHash"), count(&records, "HashMap")), (2 * 3 * 2, 3 * 2));
    are_complete(&records);
    for record in &records {
        let op = if record.structure == "HashMap" { "insert_rebuild" } else { "insert_incremental" };
        assert_eq!(record.op, op);
        assert!(record.params.contains_key("batch"));
        assert!((record.mops - 2048.0 / record.median_ms / 1e3).abs() < 1e-9, "{record:?}");
    }
}

#[test]
fn slab_hash_mixes_slab_sets_and_lock_free_chains_run_verified() {
    let mixes = run("slabhash/fig7a");
    assert_eq!(mixes.len(), 2 * 3 * 3);
    are_complete(&mixes);
    let records = run("slabhash/fig7b");
    assert_eq!((count(&records, "SlabSet"), count(&records, "ChainSet")), (2 * 3 * 2, 3 * 2));
    are_complete(&records);
    assert!(records.iter().all(|record| (record.key_bits, record.value_bits) == (32, 0)));
}

#[test]
fn trees_and_sorted_runs_are_searched_verified() {
    let records = run("btree/fig3-2");
    let frozen = |record: &&Record| record.params.get("frozen") == Some(&Param::Flag(true));
    assert_eq!(records.iter().filter(frozen).count(), 3 * 4);
    assert!(records.iter().filter(frozen).any(|record| record.key_bits == 64));
    assert_eq!((count(&records, "SortedArray"), count(&records, "MergeTree")), (4, 2 * 4));
    assert!(records.iter().all(|record| record.ratio.is_some() && record.table_bytes.is_some()));
}

/// A search from the root reads one line per level. A search from the directory skips the upper levels.
#[test]
fn lines_are_counted_by_level() {
    let records = run("btree/fig3-6");
    let lines = |start: &str| -> Vec<Vec<f64>> {
        let of_start = records.iter().filter(|record| record.params["start"].to_string() == start);
        of_start.map(|record| record.lines.clone().expect("lines were counted")).collect()
    };
    let (root, directory) = (lines("root"), lines("directory"));
    assert_eq!((root.len(), directory.len()), (3, 3));
    for (root, directory) in root.iter().zip(&directory) {
        assert!(root.len() >= 3 && root.iter().all(|lines| *lines == 1.0), "{root:?}");
        assert!(directory[0] >= 1.0 && directory.iter().sum::<f64>() < root.len() as f64, "{directory:?}");
    }
    for record in &records {
        let bytes = record.lines.iter().flatten().sum::<f64>() * 128.0 * 2048.0;
        let rate = record.gb_s.expect("lines are bytes");
        assert!((rate - bytes / record.median_ms / 1e6).abs() < 1e-9 * rate, "{record:?}");
    }
}

#[test]
fn trees_are_soaked_verified() {
    let records = run("soak/btree");
    assert_eq!((records.len(), records[0].reps), (1, 3));
}

/// Returns a counter of the records of an operation, in their order.
fn counted(records: &[Record], op: &str, counter: &str) -> Vec<f64> {
    let of_op = records.iter().filter(|record| record.op == op);
    of_op.map(|record| record.counted.as_ref().expect("they were counted")[counter]).collect()
}

#[test]
fn cache_tables_of_every_load_run_verified() {
    let records = run("hkv/fig7");
    assert_eq!(records.len(), 10 * 2 + 10 + 8 + 8);
    let full = |record: &&Record| record.params["load"].number() == Some(1.0);
    for record in records.iter().filter(full).filter(|record| record.op.starts_with("insert")) {
        let counted = record.counted.as_ref().expect("evictions were counted");
        let new = record.n as f64 * (1.0 - record.params.get("hits").and_then(Param::number).unwrap_or(0.0));
        assert!(counted["load_before"] == 1.0 && counted["evicted"] >= new.floor(), "{record:?}");
    }
    for suite in ["hkv/targets", "hkv/fig7-16m", "hkv/fig6"] {
        assert!(run(suite).iter().all(|record| record.table_bytes.is_some()), "{suite}");
    }
    let variants = run("hkv/fig7-variants");
    assert!(variants.iter().any(|record| record.variant == "cache_1x8_u64_u64"));
}

/// Each load, with keys that are present and absent, by searches with digests and without.
#[test]
fn cache_tables_are_searched_without_digests_verified() {
    let records = run("hkv/table7");
    let undigested = |record: &&Record| record.variant == "cache_undigested_8x4_u64_u64";
    assert_eq!((records.len(), records.iter().filter(undigested).count()), (3 * 2 * 2 * 2, 2 * 2 * 2));
}

#[test]
fn cache_tables_merge_duplicates_verified() {
    let records = run("hkv/merged");
    for record in &records {
        let share = record.counted.as_ref().expect("distinct keys were counted")["distinct_share"];
        assert_eq!(share == 1.0, record.params["keys"].to_string() == "merged", "{record:?}");
    }
}

#[test]
fn cache_tables_keep_what_their_rules_say() {
    let rates = counted(&run("hkv/table8"), "hit_rate", "hit_rate");
    let [lru, lfu, _, _, _, _, frequencies] = rates[..] else { panic!("{rates:?}") };
    assert!(lru > 20.0 && lfu > lru && frequencies > lfu && frequencies < 95.0, "{rates:?}");
    let burst = run("hkv/table9");
    let changes = counted(&burst, "admission", "hit_rate_change");
    assert!(changes.len() == 4 && changes[0] == 0.0 && changes[2] == 0.0, "{changes:?}");
    assert!(changes[1] < -15.0 && changes[3] < -15.0, "{changes:?}");
    let kept = run("hkv/table11");
    let [summary, exact, dual_summary, dual_exact] = counted(&kept, "retention", "retention")[..] else {
        panic!("{kept:?}")
    };
    let [single, dual] = counted(&kept, "first_eviction", "first_eviction")[..] else { panic!("{kept:?}") };
    for (single, dual) in [(summary, dual_summary), (exact, dual_exact), (single, dual)] {
        assert!(single < dual, "{single} with one bucket, {dual} with two: {kept:?}");
    }
}

/// Arguments that run one cell of the stress test of streams.
const ONE_CELL: [&str; 5] = ["streams", "--sizes", "400", "--filter", "slab_set/400/contains_key+remove"];

#[test]
fn each_cell_of_streams_is_reported() {
    let lines = printed(&[&ONE_CELL[..], &["--seconds", "0"]].concat());
    assert_eq!(lines.lines().next(), Some("slab_set/400/contains_key+remove: ok"), "{lines}");
}

/// Without patience every cell counts as hung.
#[test]
fn a_cell_that_hangs_is_reported_and_its_process_ends() {
    let output = output(&[&ONE_CELL[..], &["--seconds", "600", "--patience", "0"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    assert!(text.starts_with("FAILED slab_set/400/contains_key+remove: its process ended"), "{text}");
    assert!(text.contains("slab_set/400/contains_key+remove hangs"), "{text}");
}

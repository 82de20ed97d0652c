//! `cargo xtask soak`: runs explorers and random scripts with ten thousand seeds or more, and records each.
use crate::workspace::{cargo, root, shell};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;
use xshell::cmd;

/// Tests whose number of seeds can be multiplied.
struct Family {
    name: &'static str,
    /// Test program.
    program: &'static str,
    /// The features that the program needs, if not the default ones.
    features: Option<&'static str>,
    /// Part of the names of the tests to run.
    filter: &'static str,
    /// Number of seeds of the smallest of these tests without a multiplier.
    seeds: u64,
    kind: Kind,
}

/// Kind of the tests of a family.
#[derive(Clone, Copy)]
enum Kind {
    /// A seed selects a schedule of kernels.
    Explorer,
    /// A seed selects random calls and faults of the device.
    Script,
    /// A seed selects random calls, which are stopped at each store.
    Crashes,
}

const FAMILIES: [Family; 11] = [
    explorer(("btree-deep", "btree_explore"), "deep_trees_whose", 100),
    explorer(("mvbtree-deep", "btree_explore"), "deep_trees_with", 100),
    explorer(("skiplist-deep", "skiplist_explore"), "deep_", 100),
    explorer(("mvbtree-several", "mvbtree_explore"), "several::", 8),
    explorer(("btree-hot", "btree_explore"), "hot_keys_are_updated", 400),
    explorer(("skiplist-hot", "skiplist_explore"), "hot_key", 400),
    explorer(("hash-map-blocks", "explore"), "blocks_are_linearizable", 50),
    scripts(("tiered-map", "tiered_map"), "emulator,tiered-map"),
    scripts(("tiered-skip-list", "tiered_skip_list"), "emulator,tiered-skip-list"),
    persistent(("persistent-map-batches", "persistent_explore"), ("batches", 400), Kind::Explorer),
    persistent(("persistent-map-crashes", "persistent_crashes"), ("scripts::", 1), Kind::Crashes),
];

const fn explorer((name, program): (&'static str, &'static str), filter: &'static str, seeds: u64) -> Family {
    Family { name, program, features: None, filter, seeds, kind: Kind::Explorer }
}

const fn scripts((name, program): (&'static str, &'static str), features: &'static str) -> Family {
    Family { name, program, features: Some(features), filter: "soak::", seeds: 40, kind: Kind::Script }
}

const fn persistent(
    (name, program): (&'static str, &'static str),
    (filter, seeds): (&'static str, u64),
    kind: Kind,
) -> Family {
    Family { name, program, features: Some("emulator,persistent-map"), filter, seeds, kind }
}

impl Kind {
    fn schedules(self) -> &'static str {
        match self {
            Self::Explorer => "random, pct of depth 3 and of depth 10, by turns",
            Self::Script => "one; random calls, a third of them with a failing copy or failing allocations",
            Self::Crashes => {
                "random, pct of depth 3 and of depth 10, by turns; stopped at each store and call"
            }
        }
    }

    fn memory(self) -> &'static str {
        match self {
            Self::Explorer => "stale L1; a quarter of the seeds again under weak memory (hardware)",
            Self::Script => "sequentially consistent",
            Self::Crashes => "sequentially consistent; at each stop single stores lost, prefixes, 64 subsets",
        }
    }
}

#[derive(clap::Args)]
pub struct Options {
    /// Explorer or scripts to run
    #[arg(value_parser = FAMILIES.map(|family| family.name))]
    family: String,
    /// Minimum number of seeds per structure variant
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
}

/// Result of a run, as a line of JSON.
#[derive(Serialize)]
struct Record {
    family: &'static str,
    commit: String,
    /// Minimum number of seeds per structure variant.
    seeds: u64,
    schedules: &'static str,
    memory: &'static str,
    passed: bool,
    wall_s: f64,
    /// Counters that the tests have printed.
    counters: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let family = FAMILIES.iter().find(|family| family.name == options.family);
    let family = family.context("the parser accepts no other family")?;
    let record = soak(family, options.seeds)?;
    append(&record)?;
    ensure!(record.passed, "seeds of {} failed: see the output above", family.name);
    Ok(())
}

fn soak(family: &Family, seeds: u64) -> Result<Record> {
    let (shell, cargo, program, filter) = (shell()?, cargo(), family.program, family.filter);
    let times = seeds.div_ceil(family.seeds);
    let commit = crate::bundle::commit()?.unwrap_or_default();
    let narrow: &[&str] =
        if family.features.is_some() { &["--no-default-features", "--features"] } else { &[] };
    let features = narrow.iter().copied().chain(family.features);
    let test = cmd!(shell, "{cargo} test --package phalanx --test {program}").args(features);
    let test = test.args(["--", filter, "--nocapture"]);
    let start = Instant::now();
    let output = test.env("PHALANX_SEEDS", times.to_string()).ignore_status().output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let is_counter = |line: &&str| line.contains(": ") && !line.starts_with("test ");
    Ok(Record {
        family: family.name,
        commit,
        seeds: times * family.seeds,
        schedules: family.kind.schedules(),
        memory: family.kind.memory(),
        passed: output.status.success(),
        wall_s: start.elapsed().as_secs_f64(),
        counters: text.lines().filter(is_counter).map(str::to_owned).collect(),
    })
}

fn append(record: &Record) -> Result<()> {
    let folder = root().join("docs/results/soak");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.jsonl", record.family));
    let mut file = File::options().create(true).append(true).open(&path)?;
    writeln!(file, "{}", serde_json::to_string(record)?)?;
    println!("{} has one record more", path.display());
    Ok(())
}

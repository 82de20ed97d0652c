//! `cargo xtask soak`: runs explorers and random scripts with ten thousand seeds or more, and records each.
use crate::workspace::{cargo, root, shell};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;
use xshell::cmd;

/// Tests that run as many seeds as they are told.
struct Family {
    name: &'static str,
    /// Test program.
    program: &'static str,
    /// The features that the program needs, if not the default ones.
    features: Option<&'static str>,
    /// Parts of the names of the tests to run, or options that leave tests out.
    filter: &'static [&'static str],
    kind: Kind,
}

/// Kind of the tests of a family.
#[derive(Clone, Copy)]
enum Kind {
    /// A seed selects a schedule of kernels.
    Explorer,
    /// A seed selects random calls and faults of the device.
    Script,
    /// A seed selects random calls and allocations that fail.
    LackOfMemory,
    /// A seed selects random calls, which are stopped at each store.
    Crashes,
}

/// Leaves out tests that plant faults themselves, and samples of all compiled variants.
const EXPLORERS: &[&str] = &["--skip", "mutants", "--skip", "compiled"];

const FAMILIES: [Family; 22] = [
    explorer(("btree-deep", "btree_explore"), &["deep_trees_whose"]),
    explorer(("mvbtree-deep", "btree_explore"), &["deep_trees_with"]),
    explorer(("skiplist-deep", "skiplist_explore"), &["deep_"]),
    explorer(("mvbtree-several", "mvbtree_explore"), &["several::"]),
    explorer(("btree-hot", "btree_explore"), &["hot_keys_are_updated"]),
    explorer(("skiplist-hot", "skiplist_explore"), &["hot_key"]),
    explorer(("hash-map-blocks", "explore"), &["blocks_are_linearizable"]),
    explorer(("hash-map-lanes", "explore"), &["tiles_of"]),
    explorer(("slab-alloc", "slab_explore"), EXPLORERS),
    explorer(("slab-hash", "slab_list_explore"), EXPLORERS),
    explorer(("btree", "btree_explore"), &["six_", "fourteen_", "grouped_", "coupled_"]),
    explorer(("mvbtree", "mvbtree_explore"), &["in_place_", "out_of_place_"]),
    explorer(("skiplist", "skiplist_explore"), &["six_", "sorted_", "apart_", "fourteen_"]),
    explorer(("cache-table", "cache_explore"), EXPLORERS),
    graph(("graph-operations", "graph_explore"), &["linearizable"]),
    graph(("graph-batches", "graph_explore"), &["batches_of", "whole_graph", "algorithms"]),
    scripts(("graph", "dynamic_graph"), "emulator,dynamic-graph"),
    Family { name: "maps", program: "map_scripts", features: None, filter: &[], kind: Kind::LackOfMemory },
    scripts(("tiered-map", "tiered_map"), "emulator,tiered-map"),
    scripts(("tiered-skip-list", "tiered_skip_list"), "emulator,tiered-skip-list"),
    persistent(("persistent-map-batches", "persistent_explore"), &["batches"], Kind::Explorer),
    persistent(("persistent-map-crashes", "persistent_crashes"), &["scripts::"], Kind::Crashes),
];

const fn explorer((name, program): (&'static str, &'static str), filter: &'static [&'static str]) -> Family {
    Family { name, program, features: None, filter, kind: Kind::Explorer }
}

const fn graph(names: (&'static str, &'static str), filter: &'static [&'static str]) -> Family {
    Family { features: Some("emulator,dynamic-graph"), ..explorer(names, filter) }
}

const fn scripts((name, program): (&'static str, &'static str), features: &'static str) -> Family {
    Family { name, program, features: Some(features), filter: &["soak::"], kind: Kind::Script }
}

const fn persistent(
    (name, program): (&'static str, &'static str),
    filter: &'static [&'static str],
    kind: Kind,
) -> Family {
    Family { name, program, features: Some("emulator,persistent-map"), filter, kind }
}

impl Kind {
    fn schedules(self) -> &'static str {
        match self {
            Self::Explorer => "random, pct of depth 3 and of depth 10, by turns",
            Self::Script => "one; random calls, a third of them with a failing copy or failing allocations",
            Self::LackOfMemory => "one; random calls, a third of them with failing allocations",
            Self::Crashes => {
                "random, pct of depth 3 and of depth 10, by turns; stopped at each store and call"
            }
        }
    }

    fn memory(self) -> &'static str {
        match self {
            Self::Explorer => "stale L1; a quarter of the seeds or more again under weak memory (hardware)",
            Self::Script | Self::LackOfMemory => "sequentially consistent",
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
    let (shell, cargo, program) = (shell()?, cargo(), family.program);
    let commit = crate::bundle::commit()?.unwrap_or_default();
    let narrow: &[&str] =
        if family.features.is_some() { &["--no-default-features", "--features"] } else { &[] };
    let features = narrow.iter().copied().chain(family.features);
    let test = cmd!(shell, "{cargo} test --package phalanx --test {program}").args(features);
    let test = test.args(["--", "--nocapture"]).args(family.filter);
    let start = Instant::now();
    let output = test.env("PHALANX_LEAST_SEEDS", seeds.to_string()).ignore_status().output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let is_counter = |line: &&str| line.contains(": ") && !line.starts_with("test ");
    Ok(Record {
        family: family.name,
        commit,
        seeds,
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

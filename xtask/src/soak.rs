//! `cargo xtask soak`: runs the explorers with ten thousand seeds or more, and records each run.
use crate::workspace::{cargo, root, shell};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;
use xshell::cmd;

/// Explorer whose number of seeds can be multiplied.
struct Family {
    name: &'static str,
    /// Test program.
    program: &'static str,
    /// Part of the names of the tests to run.
    filter: &'static str,
    /// Number of seeds of the smallest of these tests without a multiplier.
    seeds: u64,
}

const FAMILIES: [Family; 4] = [
    Family { name: "btree-deep", program: "btree_explore", filter: "deep_trees_whose", seeds: 100 },
    Family { name: "mvbtree-deep", program: "btree_explore", filter: "deep_trees_with", seeds: 100 },
    Family { name: "skiplist-deep", program: "skiplist_explore", filter: "deep_", seeds: 100 },
    Family { name: "mvbtree-several", program: "mvbtree_explore", filter: "several::", seeds: 8 },
];

#[derive(clap::Args)]
pub struct Options {
    /// Explorer to run
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
    let test = cmd!(shell, "{cargo} test --package phalanx --test {program} -- {filter} --nocapture");
    let start = Instant::now();
    let output = test.env("PHALANX_SEEDS", times.to_string()).ignore_status().output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let is_counter = |line: &&str| line.contains(": ") && !line.starts_with("test ");
    Ok(Record {
        family: family.name,
        commit,
        seeds: times * family.seeds,
        schedules: "random, pct of depth 3 and of depth 10, by turns",
        memory: "stale L1; a quarter of the seeds again under weak memory (hardware)",
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

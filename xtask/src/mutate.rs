//! `cargo xtask mutate`: weakens one site of the kernels' source at a time, and runs the explorers on it.
//!
//! The emulator applies a mutant that the environment names, so one build serves all mutants. A first run
//! records which sites each test executes. Each mutant then runs the tests that execute its site until one
//! fails, first those that have killed many mutants in little time.
mod mutants;
mod report;
mod run;
mod source;

use crate::bundle;
use anyhow::{Result, bail};
use mutants::Mutant;
use run::{Runner, Tested};
use std::time::{Duration, Instant};

/// Kernels with the test programs that explore them.
pub struct Family {
    pub name: &'static str,
    /// Features that the programs need.
    features: &'static str,
    programs: &'static [&'static str],
    /// Module of the kernels' unit tests that explore, too; empty if there is none.
    units: &'static str,
}

const FAMILIES: [Family; 7] = [
    family("hash-map", "emulator,hash-map", &["explore"]),
    family("slab-hash", "emulator,slab-hash", &["slab_explore", "slab_list_explore"]),
    Family {
        units: "reclaim::tests::",
        ..family("btree", "emulator,btree,mvbtree", &["btree_explore", "mvbtree_explore"])
    },
    family("skip-list", "emulator,skip-list", &["skiplist_explore"]),
    family("cache-table", "emulator,cache-table", &["cache_explore"]),
    family("dynamic-graph", "emulator,dynamic-graph", &["graph_explore"]),
    family("persistent-map", "emulator,persistent-map", &["persistent_explore"]),
];

const fn family(name: &'static str, features: &'static str, programs: &'static [&'static str]) -> Family {
    Family { name, features, programs, units: "" }
}

#[derive(Default, clap::Args)]
pub struct Options {
    /// Families to mutate
    #[arg(value_parser = FAMILIES.map(|family| family.name), required_unless_present = "all")]
    families: Vec<String>,
    /// Mutate all families
    #[arg(long)]
    all: bool,
    /// Number of mutants per family; all by default
    #[arg(long)]
    sample: Option<usize>,
    /// Text that selects the sample and the order of mutants; the commit by default
    #[arg(long)]
    seed: Option<String>,
    /// Minutes after which no further mutant is started
    #[arg(long)]
    minutes: Option<u64>,
    /// Seconds of usual test time of a mutant, after which it counts as a survivor
    #[arg(long)]
    seconds: Option<u64>,
    /// Only mutants whose place, function or text contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only mutants of these operators, with commas between them; of all by default
    #[arg(long, value_delimiter = ',', value_parser = mutants::OPERATORS)]
    operators: Vec<String>,
    /// Only mutants without a reason why they may survive
    #[arg(long)]
    unexcused: bool,
    /// Build the workspace with all features, as `cargo xtask test` does, instead of the family's programs
    #[arg(long)]
    all_features: bool,
    /// Number of mutants that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Write the result to docs/results/mutation
    #[arg(long)]
    json: bool,
}

/// Number of mutants in the sample of a commit.
const SAMPLE: usize = 40;

/// Runs the sample of the commit: mutants of hash maps without a reason, which tests must kill.
///
/// # Errors
/// As [`run()`].
pub fn run_sample() -> Result<()> {
    run(&Options {
        families: vec![FAMILIES[0].name.to_owned()],
        sample: Some(SAMPLE),
        unexcused: true,
        all_features: true,
        jobs: 2,
        ..Options::default()
    })
}

/// Runs the mutants.
///
/// # Errors
/// As a mutant survives without a reason, and as programs and files fail.
pub fn run(options: &Options) -> Result<()> {
    let chosen = FAMILIES
        .iter()
        .filter(|family| options.all || options.families.iter().any(|name| name == family.name));
    let end = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let mut unexplained = 0;
    for family in chosen {
        let summary = mutate(family, options, end)?;
        print!("{summary}");
        unexplained += summary.unexplained();
        if options.json {
            summary.write()?;
        }
    }
    if unexplained > 0 {
        bail!("{unexplained} mutants survived without a reason: docs/notes/mutation.md says what to do");
    }
    Ok(())
}

fn mutate(family: &Family, options: &Options, end: Option<Instant>) -> Result<report::Summary> {
    let start = Instant::now();
    let mut runner = Runner::build(family, options)?;
    let uses = runner.record()?;
    let commit = bundle::commit()?.unwrap_or_default();
    let seed = options.seed.as_deref().unwrap_or(&commit);
    let mut mutants = mutants::of(&uses, &source::Sources::read()?)?;
    mutants.retain(|mutant| mutant.site.contains(&options.only));
    let is_chosen =
        |operator| options.operators.is_empty() || options.operators.iter().any(|one| one == operator);
    mutants.retain(|mutant| is_chosen(mutant.operator));
    mutants.retain(|mutant| !options.unexcused || mutant.reason.is_none());
    let all = mutants.len();
    mutants.sort_by_cached_key(|mutant| (rank(seed, mutant), mutant.to_string()));
    mutants.truncate(options.sample.unwrap_or(usize::MAX));
    println!("{}: {} of {all} mutants of {} operations", family.name, mutants.len(), uses.len());
    let tested: Vec<Tested> = runner.run(mutants, end)?;
    Ok(report::Summary::new(family.name, commit, (all, tested), start.elapsed()))
}

/// Returns a number that sorts mutants in an order that the seed selects.
fn rank(seed: &str, mutant: &Mutant) -> u32 {
    crc32fast::hash(format!("{mutant} {seed}").as_bytes())
}

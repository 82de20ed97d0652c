//! `cargo xtask bench`: runs the benchmark program, which does everything else.
use crate::workspace::{cargo, root, shell};
use crate::{doctor, setup};
use anyhow::Result;
use itertools::Itertools;
use std::{env, fs, iter};
use xshell::cmd;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// Arguments for the benchmark program: suites, --device, --json, --html, --baseline, --list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// Features of the benchmark program, and the structures that each adds. The others are always there.
const FEATURES: [(&str, &[&str]); 6] = [
    (
        "trees",
        &[
            "BTree", "MultiVersionBTree", "SkipList", "SortedArray", "MergeTree", "RadixSort", "Scan",
            "Segments",
        ],
    ),
    ("cache", &["CacheTable"]),
    ("tiered", &["ResidentMap", "TieredMap", "TieredSkipList"]),
    ("persistent", &["PersistentMap"]),
    ("graph", &["DynamicGraph", "GraphAlgorithms", "GraphBatches", "GraphWhole"]),
    ("sharded", &["Exchange", "ShardedMap", "ShardedPartition"]),
];

/// Options of the benchmark program that are followed by a value.
const WITH_VALUE: [&str; 5] = ["--device", "--json", "--html", "--baseline", "--reps"];

/// Build of the benchmark program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    /// With optimizations, and with the kernels' PTX for every architecture.
    Gpu,
    /// For the emulator alone, which measures no speed. Compiles in a fraction of the time.
    Emulator,
}

impl Build {
    /// Returns the build that the device needs which the arguments or the environment name. If they name
    /// none, this machine decides.
    fn of(arguments: &[String], environment: Option<&str>, may_have_gpu: bool) -> Self {
        let joined = arguments.iter().find_map(|argument| argument.strip_prefix("--device="));
        let apart = arguments.iter().skip_while(|argument| *argument != "--device").nth(1);
        match joined.or(apart.map(String::as_str)).filter(|name| *name != "auto").or(environment) {
            Some("emulator") => Self::Emulator,
            Some(name) if name.starts_with("cuda") => Self::Gpu,
            _ if may_have_gpu => Self::Gpu,
            _ => Self::Emulator,
        }
    }

    /// Returns the arguments by which cargo selects the build, with some features of the structures.
    fn arguments(self, structures: &str) -> Vec<String> {
        let (profile, devices): (&[&str], _) = match self {
            Self::Gpu => (&["--release"], "cuda,emulator"),
            Self::Emulator => (&[], "emulator"),
        };
        let selected = ["--no-default-features".to_owned(), format!("--features={devices},{structures}")];
        profile.iter().map(|&argument| argument.to_owned()).chain(selected).collect()
    }
}

/// Returns the features with which the benchmark program has all structures, as other packages name them.
pub fn all_structures() -> String {
    FEATURES.iter().map(|(feature, _)| format!("phalanx-bench/{feature}")).join(",")
}

/// Returns the features of the benchmark program that the suites among the arguments need.
fn structures(arguments: &[String]) -> Result<String> {
    let previous = iter::once("").chain(arguments.iter().map(String::as_str));
    let suites = arguments.iter().zip(previous);
    let suites = suites.filter(|(name, previous)| !name.starts_with('-') && !WITH_VALUE.contains(previous));
    let texts: String = suites.map(|(suite, _)| text(suite)).collect::<Result<_>>()?;
    let named: Vec<_> = texts.lines().filter_map(|line| line.strip_prefix("structure = ")).collect();
    let is_named = |name: &&str| named.iter().any(|named| named.trim_matches('"') == *name);
    let features = FEATURES.iter().filter(|(_, structures)| structures.iter().any(is_named));
    Ok(features.map(|(feature, _)| *feature).join(","))
}

/// Returns the text of a suite, or of all suites of a family. The default suites, and those that do not
/// exist, have none.
fn text(suite: &str) -> Result<String> {
    let suites = root().join("benches/suites");
    let family = fs::read_dir(suites.join(suite)).into_iter().flatten();
    let mut files = family.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.extend([suites.join(format!("{suite}.toml")), suite.into()]);
    let texts = files.iter().filter(|file| file.is_file()).map(|file| Ok(fs::read_to_string(file)?));
    texts.collect()
}

pub fn run(options: &Options) -> Result<()> {
    let is_list = |argument: &&String| *argument == "--list";
    if options.arguments.iter().any(|argument| is_list(&argument)) {
        return run_program("list", options.arguments.iter().filter(|argument| !is_list(argument)));
    }
    let environment = env::var("PHALANX_DEVICE").ok();
    let build = Build::of(&options.arguments, environment.as_deref(), doctor::may_have_gpu());
    if build == Build::Gpu {
        // The build scripts need a compiler for PTX, but nothing here needs ptxas.
        setup::ensure_toolchain()?;
    }
    run_build(build.arguments(&structures(&options.arguments)?), "run", &options.arguments)
}

/// Runs a command of the benchmark program that uses no device.
pub fn run_program<'a>(command: &str, arguments: impl IntoIterator<Item = &'a String>) -> Result<()> {
    run_build(Build::Emulator.arguments(""), command, arguments)
}

/// Runs a command of the benchmark program. Cargo's output stays visible: the first build takes minutes, and
/// would otherwise look like a hang.
fn run_build<'a>(
    build: Vec<String>,
    command: &str,
    arguments: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let (shell, cargo) = (shell()?, cargo());
    let program = cmd!(shell, "{cargo} run {build...} --package phalanx-bench -- {command}");
    Ok(program.args(arguments).run_interactive()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_program_has_the_structures_that_its_suites_name() {
        let structures =
            |line: &str| structures(&line.split_whitespace().map(String::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(structures("--quick --json hkv --device emulator"), "");
        assert_eq!(structures("hashmap/load-factor limits slabhash no-such-suite"), "");
        assert_eq!(structures("hashmap/mixed btree/fig3-2 gfsl --reps 3 hkv"), "trees,cache");
        assert_eq!(structures("hkv oversubscription"), "cache,tiered");
        assert_eq!(structures("gphash/targets --quick"), "persistent");
        let file = root().join("benches/suites/primitives/scan.toml");
        assert_eq!(structures(&file.display().to_string()), "trees");
    }

    #[test]
    fn every_structure_of_a_suite_is_always_there_or_has_a_feature() {
        const ALWAYS: [&str; 9] = [
            "Limits", "Litmus", "HashMap", "SlabAlloc", "DeviceMalloc", "SlabHash", "SlabMultiMap",
            "SlabSet", "ChainSet",
        ];
        let families = fs::read_dir(root().join("benches/suites")).unwrap();
        let texts: String = families
            .map(|entry| text(&entry.unwrap().file_name().to_string_lossy().replace(".toml", "")).unwrap())
            .collect();
        let named = texts.lines().filter_map(|line| line.strip_prefix("structure = "));
        let mut named: BTreeSet<_> = named.map(|name| name.trim_matches('"')).collect();
        assert!(named.len() > ALWAYS.len());
        let known = FEATURES.iter().flat_map(|(_, structures)| structures.iter()).chain(&ALWAYS);
        known.for_each(|name| assert!(named.remove(name), "no suite names {name}"));
        assert_eq!(named, BTreeSet::new());
    }

    #[test]
    fn only_a_program_that_may_use_a_gpu_contains_ptx() {
        let build = |line: &str, environment, may_have_gpu| {
            let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
            Build::of(&arguments, environment, may_have_gpu)
        };
        for may_have_gpu in [false, true] {
            assert_eq!(build("hashmap --device cuda", None, may_have_gpu), Build::Gpu);
            assert_eq!(build("--device=cuda", Some("emulator"), may_have_gpu), Build::Gpu);
            assert_eq!(build("", Some("cuda:1"), may_have_gpu), Build::Gpu);
            assert_eq!(build("--device emulator --quick", Some("cuda"), may_have_gpu), Build::Emulator);
            assert_eq!(build("--device auto", Some("emulator"), may_have_gpu), Build::Emulator);
        }
        assert_eq!(build("--device", None, false), Build::Emulator);
        assert_eq!(build("--device auto", None, false), Build::Emulator);
        assert_eq!(build("hashmap", None, true), Build::Gpu);
    }
}

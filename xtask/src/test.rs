//! `cargo xtask test`: runs everything that CI runs.
use crate::bundle::{Message, TOLD, executables};
use crate::limits::Limits;
use crate::workspace::{cargo, device_crate, has_program, root, shell};
use crate::{kernels, package, setup, tidy};
use anyhow::{Result, bail, ensure};
use ptx_builder::{Arch, Ptx, Ptxas, PtxasReport};
use rayon::prelude::*;
use std::time::{Duration, Instant};
use xshell::{Shell, cmd};

#[derive(clap::Args)]
pub struct Options {
    /// Steps to run; all by default
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
}

/// Step of the test run.
struct Step {
    name: &'static str,
    run: fn(&Context) -> Result<()>,
}

/// Result of a step.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

const STEPS: [Step; 13] = [
    Step { name: "format", run: |context| context.cargo("fmt --all -- --check -l") },
    Step { name: "tidy", run: |_| tidy::run() },
    Step {
        name: "clippy",
        run: |context| {
            context.cargo("clippy --workspace --all-targets --all-features --quiet -- --deny warnings")
        },
    },
    Step { name: "ptx", run: ptx },
    Step { name: "package", run: |_| package::run(&package::Options::default()) },
    Step { name: "tests", run: tests },
    Step { name: "examples", run: examples },
    Step { name: "doctests", run: |context| context.cargo("test --workspace --all-features --doc --quiet") },
    Step { name: "features", run: features },
    Step { name: "oldest", run: oldest },
    Step { name: "deny", run: deny },
    Step { name: "semver", run: semver },
    Step { name: "docs", run: docs },
];

/// The oldest compiler that the packages support: `rust-version` of the workspace.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Tools common to the steps.
struct Context {
    shell: Shell,
    ptxas: Ptxas,
}

impl Context {
    fn cargo(&self, arguments: &str) -> Result<()> {
        let program = self.shell.cmd(cargo()).args(arguments.split(' '));
        Ok(program.run_echo()?)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let context = Context { ptxas: setup::ensure_ready()?.ptxas, shell: shell()? };
    let is_chosen =
        |step: &&Step| options.steps.is_empty() || options.steps.iter().any(|name| name == step.name);
    let outcomes: Vec<_> = STEPS.iter().filter(is_chosen).map(|step| run_step(&context, step)).collect();
    summarise(&outcomes)
}

/// Runs a step to completion, regardless of the results of earlier steps.
fn run_step(context: &Context, step: &Step) -> Outcome {
    println!("\n== {}", step.name);
    let start = Instant::now();
    let result = (step.run)(context);
    if let Err(error) = &result {
        eprintln!("{error:#}");
    }
    Outcome { name: step.name, passed: result.is_ok(), took: start.elapsed() }
}

fn summarise(outcomes: &[Outcome]) -> Result<()> {
    println!();
    for Outcome { name, passed, took } in outcomes {
        println!("{} {name:12}{:7.1} s", if *passed { "passed" } else { "FAILED" }, took.as_secs_f64());
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed > 0 {
        bail!("not everything passed");
    }
    Ok(())
}

/// Checks that the assembler accepts the PTX of every architecture, and for Blackwell also that of sm_90,
/// within the resource limits.
fn ptx(context: &Context) -> Result<()> {
    let limits = Limits::read(&device_crate().join("register_limits.toml"))?;
    let built = kernels::build()?;
    let reports = assemble(&context.ptxas, &built)?;
    for arch in Arch::ALL {
        let reports = reports.iter().filter(|report| report.arch == arch);
        reports.clone().try_for_each(|report| limits.check(report))?;
        let registers: Vec<_> =
            reports.flat_map(|report| &report.entries).map(|entry| entry.registers).collect();
        let (kernels, most) = (registers.len(), registers.iter().max().unwrap_or(&0));
        println!("{arch}: {kernels} kernels, at most {most} registers, no local memory");
    }
    limits.check_exceptions(&built.iter().flat_map(Ptx::entries).collect::<Vec<_>>())
}

/// Runs the assembler on all texts, a text per core.
fn assemble(ptxas: &Ptxas, built: &[Ptx]) -> Result<Vec<PtxasReport>> {
    let arches = |ptx: &Ptx| {
        let own = ptx.header().arch;
        [Some(own), (own == Arch::Sm90).then_some(Arch::Sm100)].into_iter().flatten()
    };
    let pairs: Vec<_> = built.iter().flat_map(|ptx| arches(ptx).map(move |arch| (ptx, arch))).collect();
    Ok(pairs.into_par_iter().map(|(ptx, arch)| ptxas.check(ptx, arch)).collect::<Result<_, _>>()?)
}

/// Checks that each family compiles alone, without warnings, and none.
fn features(context: &Context) -> Result<()> {
    const FAMILIES: [&str; 7] = ["", "hash-map", "slab-hash", "btree", "mvbtree", "skip-list", "primitives"];
    let (shell, cargo) = (&context.shell, cargo());
    FAMILIES.into_iter().try_for_each(|family| -> Result<()> {
        let check = cmd!(shell, "{cargo} clippy --package phalanx --no-default-features --quiet");
        Ok(check.args(["--features", family, "--", "--deny", "warnings"]).run_echo()?)
    })?;
    context.cargo("test --package phalanx-gpu --no-default-features --test no_driver --quiet")
}

/// Checks that the oldest supported compiler accepts the library, where that compiler is installed.
fn oldest(context: &Context) -> Result<()> {
    let version = format!("+{OLDEST}");
    let shell = &context.shell;
    if cmd!(shell, "cargo {version} --version").output().is_err() {
        println!("not checked: `rustup toolchain install {OLDEST}` installs the compiler");
        return Ok(());
    }
    Ok(cmd!(shell, "cargo {version} check --package phalanx --quiet")
        .env_remove("RUSTUP_TOOLCHAIN")
        .run_echo()?)
}

/// Checks licences, sources, advisories and versions of all dependencies (`deny.toml`), where `cargo-deny` is
/// installed.
fn deny(context: &Context) -> Result<()> {
    if !has_program("cargo-deny") {
        println!("not checked: `cargo install cargo-deny` installs the tool");
        return Ok(());
    }
    context.cargo("deny check")
}

/// Checks that the public items have changed since the last release only as their version allows, where
/// `cargo-semver-checks` is installed. The release is the newest of the changelog, and its tag the baseline.
fn semver(context: &Context) -> Result<()> {
    let Some(version) = last_release(CHANGELOG) else {
        println!("not checked: the changelog has no release to compare with");
        return Ok(());
    };
    if !has_program("cargo-semver-checks") {
        println!("not checked: `cargo install cargo-semver-checks` installs the tool");
        return Ok(());
    }
    context.cargo(&format!("semver-checks --workspace --baseline-rev v{version}"))
}

const CHANGELOG: &str = include_str!("../../CHANGELOG.md");

/// Returns the version of the newest release of a changelog, whose heading is `## [1.2.3]`.
fn last_release(changelog: &str) -> Option<&str> {
    let mut versions = changelog.lines().filter_map(|line| line.strip_prefix("## [")?.split(']').next());
    versions.find(|version| *version != "Unreleased")
}

/// Runs unit and integration tests. `cargo test --all-targets` would also run benchmarks.
fn tests(context: &Context) -> Result<()> {
    const ALL: &str = "--workspace --all-features --no-fail-fast";
    match has_program("cargo-nextest") {
        true => context.cargo(&format!("nextest run {ALL}")),
        false => context.cargo(&format!("test {ALL} --lib --bins --tests --examples")),
    }
}

/// Folders of the programs that the step `examples` runs.
const EXAMPLES: [&str; 2] = ["crates/phalanx/examples", "examples"];

/// Runs the examples, since `cargo test` only compiles them. The features are those of the tests, so that no
/// library is compiled again.
fn examples(context: &Context) -> Result<()> {
    let (shell, cargo) = (&context.shell, cargo());
    let build = cmd!(shell, "{cargo} build --workspace --all-features --bins --examples --quiet {TOLD}");
    let examples: Vec<_> = executables(&build.read()?)?.into_iter().filter(is_example).collect();
    ensure!(!examples.is_empty(), "no example was built");
    for example in &examples {
        let program = example.executable()?;
        cmd!(shell, "{program}").run_echo()?;
    }
    Ok(())
}

fn is_example(program: &Message) -> bool {
    EXAMPLES.iter().any(|folder| program.source().starts_with(root().join(folder)))
}

fn docs(context: &Context) -> Result<()> {
    let (shell, cargo) = (&context.shell, cargo());
    let docs = cmd!(shell, "{cargo} doc --workspace --all-features --no-deps --quiet");
    Ok(docs.env("RUSTDOCFLAGS", "--deny warnings").run_echo()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: bool) -> Outcome {
        Outcome { name: "step", passed, took: Duration::ZERO }
    }

    #[test]
    fn examples_are_those_of_users() {
        let is_run = |source: &str| is_example(&Message::of_source(&root().join(source)));
        assert!(is_run("crates/phalanx/examples/btree.rs") && is_run("examples/own-kernel/src/main.rs"));
        assert!(!is_run("crates/ptx-builder/examples/inspect.rs") && !is_run("xtask/src/main.rs"));
    }

    #[test]
    fn the_last_release_is_the_first_in_the_changelog() {
        assert_eq!(last_release("# Changelog\n\n## [Unreleased]\n"), None);
        let text = "## [Unreleased]\n\n## [0.2.0] - 2027-01-02\n### Added\n## [0.1.0]\n[0.3.0]: https://";
        assert_eq!(last_release(text), Some("0.2.0"));
    }

    #[test]
    fn contributors_read_of_every_step() {
        let page = include_str!("../../CONTRIBUTING.md");
        for step in &STEPS {
            assert!(page.contains(&format!("| `{}` |", step.name)), "CONTRIBUTING.md lacks `{}`", step.name);
        }
    }

    #[test]
    fn one_failure_fails_the_run() {
        assert!(summarise(&[outcome(true), outcome(true)]).is_ok());
        assert!(summarise(&[outcome(true), outcome(false)]).is_err());
    }
}

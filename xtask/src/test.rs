//! `cargo xtask test`: runs everything that CI runs.
use crate::bundle::{Message, TOLD, executables};
use crate::limits::Limits;
use crate::workspace::{cargo, device_crate, has_program, root, shell};
use crate::{kernels, mutate, package, setup, tidy};
use anyhow::{Result, bail, ensure};
use ptx_builder::{Arch, Ptx, Ptxas, PtxasReport};
use rayon::prelude::*;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};
use tempfile::NamedTempFile;
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
    /// Processor time of the programs that the step has run, on all cores.
    processor: Duration,
}

const STEPS: [Step; 14] = [
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
    Step { name: "mutation", run: |_| mutate::run_sample() },
    Step { name: "examples", run: examples },
    Step { name: "doctests", run: |context| context.cargo("test --workspace --all-features --doc --quiet") },
    Step { name: "features", run: features },
    Step { name: "oldest", run: oldest },
    Step { name: "deny", run: deny },
    Step { name: "semver", run: semver },
    Step { name: "docs", run: docs },
];

/// Steps that run beside those after them, and for each a step before it without which it does not. They
/// mostly keep one core busy: `package` and `features` start one compiler after the other, and rustdoc
/// compiles the examples of one package after the other.
const BESIDE: [(&str, &str); 3] = [("package", "ptx"), ("doctests", "tests"), ("features", "tests")];

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
    // Before any step: steps that build the workspace replace this program's file, which then has no path.
    let program = env::current_exe()?;
    let context = Context { ptxas: setup::ensure_ready()?.ptxas, shell: shell()? };
    let is_chosen =
        |step: &&Step| options.steps.is_empty() || options.steps.iter().any(|name| name == step.name);
    let steps: Vec<_> = STEPS.iter().filter(is_chosen).collect();
    let (mut outcomes, mut beside) = (Vec::new(), Vec::new());
    for step in &steps {
        match is_beside(step.name, &steps) {
            true => beside.push(Background::start(step.name, step_command(&program, step.name))?),
            false => outcomes.push(run_step(&context, step)),
        }
    }
    for step in beside {
        let (outcome, output) = step.finish()?;
        println!("\n== {}, beside the steps above\n{output}", outcome.name);
        outcomes.push(outcome);
    }
    summarise(&outcomes)
}

fn is_beside(name: &str, steps: &[&Step]) -> bool {
    let before = BESIDE.iter().find(|(beside, _)| *beside == name).map(|(_, before)| before);
    before.is_some_and(|before| steps.iter().any(|step| step.name == *before))
}

/// A step that runs in a process of its own, whose output is shown when it has ended.
struct Background {
    name: &'static str,
    start: SystemTime,
    child: Child,
    output: NamedTempFile,
}

impl Background {
    fn start(name: &'static str, mut command: Command) -> Result<Self> {
        let output = NamedTempFile::new()?;
        // Both streams write behind one position of the file.
        let file = output.reopen()?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Self { name, start: SystemTime::now(), child, output })
    }

    /// Waits for the end of the step, whose last output is its summary. Returns its result and its output.
    fn finish(mut self) -> Result<(Outcome, String)> {
        let processor = processor_time();
        let passed = self.child.wait()?.success();
        let processor = processor_time() - processor;
        let end = fs::metadata(self.output.path())?.modified()?;
        let took = end.duration_since(self.start).unwrap_or_default();
        let outcome = Outcome { name: self.name, passed, took, processor };
        Ok((outcome, fs::read_to_string(self.output.path())?))
    }
}

/// Returns the command by which `program`, a build of this one, runs a step alone.
fn step_command(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["test", name]);
    command
}

/// Runs a step to completion, regardless of the results of earlier steps.
fn run_step(context: &Context, step: &Step) -> Outcome {
    println!("\n== {}", step.name);
    let (start, processor) = (Instant::now(), processor_time());
    let result = (step.run)(context);
    if let Err(error) = &result {
        eprintln!("{error:#}");
    }
    let processor = processor_time() - processor;
    Outcome { name: step.name, passed: result.is_ok(), took: start.elapsed(), processor }
}

/// Returns the processor time, user and system, of this process and of the programs that it has run; zero if
/// the machine does not tell it. Unlike the time by the clock, it does not depend on what else runs.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Linux has 100 ticks a second.
    Duration::from_millis(10 * processor_ticks(&stat).unwrap_or(0))
}

/// Returns the sum of the fields `utime`, `stime`, `cutime` and `cstime`. The second field, a program's name
/// in parentheses, may have spaces.
fn processor_ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

fn summarise(outcomes: &[Outcome]) -> Result<()> {
    println!();
    for Outcome { name, passed, took, processor } in outcomes {
        let (verdict, [took, processor]) =
            (if *passed { "passed" } else { "FAILED" }, [took, processor].map(Duration::as_secs_f64));
        println!("{verdict} {name:12}{took:7.1} s{processor:8.1} s of processor time");
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed > 0 {
        bail!("not everything passed");
    }
    Ok(())
}

/// Checks that the assembler accepts the PTX of every architecture, and for Blackwell also that of sm_90,
/// within the resource limits. Packs the PTX: where it is packed, build scripts find it, which later steps
/// run.
fn ptx(context: &Context) -> Result<()> {
    let limits = Limits::read(&device_crate().join("register_limits.toml"))?;
    let built = kernels::build()?;
    kernels::ensure_shipped(&context.ptxas, &built)?;
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
    const FAMILIES: [&str; 11] = [
        "", "hash-map", "slab-hash", "btree", "mvbtree", "skip-list", "primitives", "cache-table",
        "tiered-map", "tiered-skip-list", "persistent-map",
    ];
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
        Outcome { name: "step", passed, took: Duration::ZERO, processor: Duration::ZERO }
    }

    #[test]
    fn a_step_beside_others_tells_its_result_and_all_its_output() {
        for (script, passes) in
            [("echo 1; echo 2 >&2; echo 3; exit 3", false), ("echo 1; echo 2; echo 3", true)]
        {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let (outcome, output) = Background::start("step", command).unwrap().finish().unwrap();
            assert_eq!((outcome.passed, output.as_str()), (passes, "1\n2\n3\n"));
        }
    }

    #[test]
    fn the_time_of_ended_programs_counts() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4 1 2 3 4 100 20 3000 400 20 0 1 0 5";
        assert_eq!(processor_ticks(stat), Some(3520));
        assert_eq!(processor_ticks(""), None);
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

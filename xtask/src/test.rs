//! `cargo xtask test`: runs everything that CI runs.
use crate::limits::Limits;
use crate::workspace::{cargo, device_crate, has_program, shell};
use crate::{kernels, setup, tidy};
use anyhow::{Result, bail};
use ptx_builder::{Arch, Ptx, Ptxas, PtxasReport};
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
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

const STEPS: [Step; 9] = [
    Step { name: "format", run: |context| context.cargo("fmt --all -- --check -l") },
    Step { name: "tidy", run: |_| tidy::run() },
    Step {
        name: "clippy",
        run: |context| {
            context.cargo("clippy --workspace --all-targets --all-features --quiet -- --deny warnings")
        },
    },
    Step { name: "ptx", run: ptx },
    Step { name: "shipped", run: |_| shipped() },
    Step { name: "tests", run: tests },
    Step { name: "doctests", run: |context| context.cargo("test --workspace --all-features --doc --quiet") },
    Step {
        name: "no-features",
        run: |context| context.cargo("check --package phalanx --no-default-features --quiet"),
    },
    Step { name: "docs", run: docs },
];

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
/// within the resource limits. The PTX that passes is shipped.
fn ptx(context: &Context) -> Result<()> {
    let limits = Limits::read(&device_crate().join("register_limits.toml"))?;
    let built = kernels::build()?;
    for report in assemble(&context.ptxas, &built)? {
        limits.check(&report)?;
        let most = report.entries.iter().map(|entry| entry.registers).max().unwrap_or(0);
        let (arch, kernels) = (report.arch, report.entries.len());
        println!("{arch}: {kernels} kernels, at most {most} registers, no local memory");
    }
    for ptx in &built {
        limits.check_exceptions(&ptx.entries().collect::<Vec<_>>())?;
    }
    kernels::ship(&built)
}

/// Runs the assembler on all texts concurrently, since it uses one core per text.
fn assemble(ptxas: &Ptxas, built: &[Ptx]) -> Result<Vec<PtxasReport>> {
    let arches = |ptx: &Ptx| {
        let own = ptx.header().arch;
        [Some(own), (own == Arch::Sm90).then_some(Arch::Sm100)].into_iter().flatten()
    };
    let pairs = built.iter().flat_map(|ptx| arches(ptx).map(move |arch| (ptx, arch)));
    thread::scope(|scope| {
        let spawned: Vec<_> = pairs.map(|(ptx, arch)| scope.spawn(move || ptxas.check(ptx, arch))).collect();
        let join = |check: ScopedJoinHandle<'_, ptx_builder::Result<PtxasReport>>| {
            Ok(check.join().unwrap_or_else(|payload| resume_unwind(payload))?)
        };
        spawned.into_iter().map(join).collect()
    })
}

fn shipped() -> Result<()> {
    println!("{} files of shipped PTX are fresh", kernels::check_shipped()?);
    Ok(())
}

/// Runs unit and integration tests. `cargo test --all-targets` would also run benchmarks.
fn tests(context: &Context) -> Result<()> {
    const ALL: &str = "--workspace --all-features --no-fail-fast";
    match has_program("cargo-nextest") {
        true => context.cargo(&format!("nextest run {ALL}")),
        false => context.cargo(&format!("test {ALL} --lib --bins --tests --examples")),
    }
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
    fn one_failure_fails_the_run() {
        assert!(summarise(&[outcome(true), outcome(true)]).is_ok());
        assert!(summarise(&[outcome(true), outcome(false)]).is_err());
    }
}

//! `cargo xtask bench`: runs the benchmark program, which does everything else.
use crate::kernels;
use crate::workspace::{cargo, shell};
use anyhow::Result;
use xshell::cmd;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// Arguments for the benchmark program: suites, --device, --json, --html, --baseline, --list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let is_list = |argument: &&String| *argument == "--list";
    if options.arguments.iter().any(|argument| is_list(&argument)) {
        return run_program("list", options.arguments.iter().filter(|argument| !is_list(argument)));
    }
    // The program's build needs a compiler for PTX, but nothing here needs ptxas.
    kernels::build()?;
    run_program("run", &options.arguments)
}

/// Runs a command of the benchmark program with optimizations. Cargo's output stays visible: the first build
/// takes many minutes, and would otherwise look like a hang.
pub fn run_program<'a>(command: &str, arguments: impl IntoIterator<Item = &'a String>) -> Result<()> {
    let (shell, cargo) = (shell()?, cargo());
    let program = cmd!(shell, "{cargo} run --release --package phalanx-bench -- {command}");
    Ok(program.args(arguments).run_interactive()?)
}

//! `cargo xtask bench`: runs the benchmark program, which does everything else.
use crate::workspace::{cargo, shell};
use crate::{doctor, kernels};
use anyhow::Result;
use std::env;
use xshell::cmd;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// Arguments for the benchmark program: suites, --device, --json, --html, --baseline, --list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

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

    /// Returns the arguments by which cargo selects the build.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Gpu => &["--release"],
            Self::Emulator => &["--no-default-features", "--features", "emulator"],
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    let is_list = |argument: &&String| *argument == "--list";
    if options.arguments.iter().any(|argument| is_list(&argument)) {
        return run_program("list", options.arguments.iter().filter(|argument| !is_list(argument)));
    }
    let environment = env::var("PHALANX_DEVICE").ok();
    let build = Build::of(&options.arguments, environment.as_deref(), doctor::may_have_gpu());
    if build == Build::Gpu {
        // The program's build needs a compiler for PTX, but nothing here needs ptxas.
        kernels::build()?;
    }
    run_build(build, "run", &options.arguments)
}

/// Runs a command of the benchmark program that uses no device.
pub fn run_program<'a>(command: &str, arguments: impl IntoIterator<Item = &'a String>) -> Result<()> {
    run_build(Build::of(&[], None, doctor::may_have_gpu()), command, arguments)
}

/// Runs a command of the benchmark program. Cargo's output stays visible: the first build takes minutes, and
/// would otherwise look like a hang.
fn run_build<'a>(build: Build, command: &str, arguments: impl IntoIterator<Item = &'a String>) -> Result<()> {
    let (shell, cargo, build) = (shell()?, cargo(), build.arguments());
    let program = cmd!(shell, "{cargo} run {build...} --package phalanx-bench -- {command}");
    Ok(program.args(arguments).run_interactive()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! The project's own commands: `cargo xtask help` lists them.
mod bench;
mod build;
mod bundle;
mod check_file;
mod docs;
mod doctor;
mod figures;
mod files;
mod kernels;
mod limits;
mod machine_code;
mod metrics;
mod mutate;
mod package;
mod report;
mod setup;
mod soak;
mod test;
mod tidy;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install missing tools: a compiler for PTX, and ptxas. Returns at once if nothing is missing
    Setup,
    /// Build the workspace, and the kernels' PTX for every architecture
    Build(build::Options),
    /// Run everything that CI runs; the last line lists what passed
    Test(test::Options),
    /// Run benchmarks: `cargo xtask bench [SUITE].. [--device ..] [--json FILE] [--html FILE] [--baseline
    /// FILE] [--list]`
    Bench(bench::Options),
    /// Convert JSON Lines of a benchmark into an HTML report: `cargo xtask report FILE.. --html PAGE`; or
    /// write the figures of the repository's pages: `cargo xtask report --pages`
    Report(bench::Options),
    /// Run an explorer or scripts with ten thousand seeds or more, and record the run in docs/results/soak
    Soak(soak::Options),
    /// Weaken one site of the kernels' source at a time, and list what no explorer notices
    Mutate(mutate::Options),
    /// Pack programs, tests and PTX into ./bundle, for a GPU machine without Rust
    Bundle(bundle::Options),
    /// Pack the crates as for the registry, with their PTX, and build the quick start from them
    Package(package::Options),
    /// Print measures of maintainability: hops of call paths, import cycles, sizes, words to replace
    Metrics(metrics::Options),
    /// Verify the file of a persistent map: `cargo xtask check-file PATH`
    CheckFile(check_file::Options),
    /// Report the tools of this machine, what is missing, and how to obtain it
    Doctor,
    /// Build the pages of docs as a book, by mdbook
    Docs,
    /// Check the rules of the repository
    Tidy,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Setup => setup::run(),
        Command::Build(options) => build::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Bundle(options) => bundle::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Mutate(options) => mutate::run(&options),
        Command::Package(options) => package::run(&options),
        Command::Metrics(options) => metrics::run(&options),
        Command::CheckFile(options) => check_file::run(&options),
        Command::Doctor => doctor::run(),
        Command::Docs => docs::run(),
        Command::Tidy => tidy::run(),
    }
}

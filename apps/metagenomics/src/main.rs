//! Classifies reads; see the library of the same name.
use clap::Parser;
use metagenomics::cli::{Cli, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Cli::parse(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

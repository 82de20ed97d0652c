//! Counts triangles; see the library of the same name.
use clap::Parser;
use std::process::ExitCode;
use triangle_count::cli::{Cli, run};

fn main() -> ExitCode {
    match run(&Cli::parse(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Trains and serves embeddings; see the library of the same name.
use clap::Parser;
use embedding_cache::cli::{Cli, run};
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

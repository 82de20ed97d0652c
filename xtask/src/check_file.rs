//! `cargo xtask check-file`: verifies the file of a persistent map, by the program of the package `phalanx`.
use crate::workspace::{cargo, shell};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::cmd;

#[derive(clap::Args)]
pub struct Options {
    /// File of a persistent map that no process uses
    path: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let (shell, cargo, path) = (shell()?, cargo(), absolute(&options.path)?);
    let features = ["--no-default-features", "--features", "persistent-map"];
    let program = cmd!(shell, "{cargo} run --quiet --package phalanx {features...} --bin phalanx-check-file");
    Ok(program.arg("--").arg(path).run_interactive()?)
}

/// Returns a path that is valid in other folders, too.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("no path: {}", path.display()))
}

//! `cargo xtask build`: builds the workspace, and the kernels' PTX.
use crate::workspace::{cargo, shell};
use crate::{kernels, setup};
use anyhow::Result;
use xshell::cmd;

#[derive(clap::Args)]
pub struct Options {
    /// Build the programs with optimizations
    #[arg(long)]
    release: bool,
    /// Build the PTX only
    #[arg(long)]
    ptx_only: bool,
}

pub fn run(options: &Options) -> Result<()> {
    setup::ensure_ready()?;
    kernels::build()?;
    if options.ptx_only {
        return Ok(());
    }
    let (shell, cargo) = (shell()?, cargo());
    let release = options.release.then_some("--release");
    Ok(cmd!(shell, "{cargo} build --workspace {release...}").run_interactive()?)
}

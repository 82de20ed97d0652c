//! Paths in the repository, and functions that run programs in it.
use anyhow::{Context, Result};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use xshell::Shell;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_owned()
}

/// Returns the folder of the device crate.
pub fn device_crate() -> PathBuf {
    root().join("kernels-gpu")
}

/// Returns a shell in the root of the repository.
pub fn shell() -> Result<Shell> {
    Ok(Shell::new()?.with_current_dir(root()))
}

/// Returns the path of the cargo that runs this program.
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns whether a program supports `--version`.
pub fn has_program(program: &str) -> bool {
    shell().is_ok_and(|shell| shell.cmd(program).arg("--version").output().is_ok())
}

/// Returns the first line that a program prints for `--version`.
pub fn version(program: impl AsRef<std::ffi::OsStr>) -> Result<String> {
    let program = program.as_ref();
    let text =
        shell()?.cmd(program).arg("--version").read().with_context(|| format!("no {}", program.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

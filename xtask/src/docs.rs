//! `cargo xtask docs`: builds the pages of `docs` as a book.
use crate::workspace::{has_program, shell};
use anyhow::{Result, ensure};
use xshell::cmd;

/// Advice for a machine without mdbook.
pub const MISSING: &str = "`cargo install mdbook` builds the book; its pages are listed in docs/SUMMARY.md";

pub fn run() -> Result<()> {
    ensure!(has_program("mdbook"), "no mdbook: {MISSING}");
    let shell = shell()?;
    cmd!(shell, "mdbook build").run_echo()?;
    println!("the book begins at target/book/index.html");
    Ok(())
}

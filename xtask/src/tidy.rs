//! `cargo xtask tidy`: checks rules of the repository that no compiler checks.
mod bounds;
mod rules;
#[cfg(test)]
mod tests;
mod words;

use crate::figures;
use crate::workspace::{root, shell};
use anyhow::{Result, bail};
pub use bounds::name_of;
pub use rules::is_too_long;
use std::fmt;
use std::fs;
use xshell::cmd;

/// File of the repository.
pub struct File {
    /// Path from the root, with slashes.
    pub path: String,
    pub text: String,
}

/// Violation of a rule by a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    /// Line number, starting at 1; 0 stands for the whole file.
    pub line: usize,
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.reason)
    }
}

pub fn run() -> Result<()> {
    let files = files()?;
    let each = files.iter().flat_map(rules::check);
    let all = bounds::check(&files).into_iter().chain(words::check(&files)).chain(figures::check(&files));
    let violations: Vec<_> = each.chain(all).collect();
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => println!("{} files are tidy", files.len()),
        count => bail!("{count} rules broken"),
    }
    Ok(())
}

/// Returns the number of names and phrases that stand in the files and that `xtask/words.toml` gives up.
pub fn words_left(files: &[File]) -> Result<usize> {
    words::left(files)
}

/// Returns the text files that git tracks or would track.
pub fn files() -> Result<Vec<File>> {
    let shell = shell()?;
    let listed = cmd!(shell, "git ls-files --cached --others --exclude-standard").read()?;
    let read = |path: &str| {
        let text = fs::read_to_string(root().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    Ok(listed.lines().filter_map(read).collect())
}

//! Text files of the repository, and violations of its rules.
use crate::workspace::{root, shell};
use anyhow::Result;
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

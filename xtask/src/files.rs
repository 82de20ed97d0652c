//! Text files of the repository, and violations of its rules.
use crate::workspace::{root, shell};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use xshell::cmd;

/// File of the repository.
#[derive(Clone)]
pub struct File {
    /// Path from the root, with slashes.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

/// Violation of a rule by a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    /// Line number, starting at 1; 0 stands for the whole file.
    pub line: usize,
    pub reason: String,
}

impl Violation {
    pub fn new(path: &str, line: usize, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, reason: reason.into() }
    }
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
    let read = |path: &str| Some(File::new(path, fs::read_to_string(root().join(path)).ok()?));
    Ok(listed.lines().filter_map(read).collect())
}

/// Returns the file at a path.
pub fn find<'a>(files: &'a [File], path: &str) -> Result<&'a File> {
    files.iter().find(|file| file.path == path).with_context(|| format!("{path} is missing"))
}

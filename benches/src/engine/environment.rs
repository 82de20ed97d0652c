//! Source version that the running program was built from.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Commit, and whether the tree differed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Hash of the commit, or `unknown`.
    pub commit: String,
    /// Whether tracked files were modified.
    pub dirty: bool,
}

impl Source {
    /// Returns the source version from the first of these that exists: the variable `PHALANX_COMMIT`
    /// (`<hash>` or `<hash>-dirty`); the file `commit` with the same contents in the program's bundle
    /// (`$PHALANX_BUNDLE`, else the program's folder); git in the current folder.
    pub fn detect() -> Self {
        let said = env::var("PHALANX_COMMIT").ok().or_else(|| bundle().and_then(|folder| read(&folder)));
        let found = said.map(|text| Self::parse(text.trim())).or_else(Self::from_git);
        found.unwrap_or(Self { commit: "unknown".to_owned(), dirty: true })
    }

    fn parse(text: &str) -> Self {
        let commit = text.strip_suffix("-dirty");
        Self { commit: commit.unwrap_or(text).to_owned(), dirty: commit.is_some() }
    }

    fn from_git() -> Option<Self> {
        let commit = git(&["rev-parse", "HEAD"])?;
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        Some(Self { commit, dirty: !changes.is_empty() })
    }
}

/// Returns the bundle's folder.
fn bundle() -> Option<PathBuf> {
    let named = env::var_os("PHALANX_BUNDLE").map(PathBuf::from);
    named.or_else(|| Some(env::current_exe().ok()?.parent()?.to_owned()))
}

/// Reads the commit of a bundle.
fn read(bundle: &Path) -> Option<String> {
    fs::read_to_string(bundle.join("commit")).ok()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundles_text_is_understood() {
        assert_eq!(Source::parse("abc"), Source { commit: "abc".to_owned(), dirty: false });
        assert_eq!(Source::parse("abc-dirty"), Source { commit: "abc".to_owned(), dirty: true });
    }
}

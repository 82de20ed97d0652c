//! Which source the running program was built from.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A commit, and whether the tree differed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The commit's hash, or `unknown`.
    pub commit: String,
    /// Whether files that git tracks were changed.
    pub dirty: bool,
}

impl Source {
    /// What `PHALANX_COMMIT` says (`<hash>` or `<hash>-dirty`), else the same in the file `commit` of the
    /// bundle that the program came in (`$PHALANX_BUNDLE`, else the program's folder), else what git says of
    /// the current folder.
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

/// The bundle's folder, if the program lies in one.
fn bundle() -> Option<PathBuf> {
    let named = env::var_os("PHALANX_BUNDLE").map(PathBuf::from);
    named.or_else(|| Some(env::current_exe().ok()?.parent()?.to_owned()))
}

/// What a bundle says of its commit.
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

//! Which source the running program was built from.
use std::process::Command;

/// A commit, and whether the tree differed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The commit's hash, or `unknown`.
    pub commit: String,
    /// Whether files that git tracks were changed.
    pub dirty: bool,
}

impl Source {
    /// What `PHALANX_COMMIT` says (`<hash>` or `<hash>-dirty`: how a bundle carries it to a machine without the repository), else what
    /// git says of the current folder.
    pub fn detect() -> Self {
        match std::env::var("PHALANX_COMMIT") {
            Ok(text) => Self::parse(&text),
            Err(_) => Self::from_git().unwrap_or(Self { commit: "unknown".to_owned(), dirty: true }),
        }
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

//! The first line of built PTX, which identifies its sources.
use crate::{Arch, Error, Result};
use std::fmt;
use std::str::FromStr;

const MARK: &str = "// phalanx-ptx ";

/// The first line of built PTX: `// phalanx-ptx source=<sha256> compiler=<version> arch=sm_90 features=a,b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hash of the sources, in hexadecimal. See [`Sources::hash`](crate::Sources::hash).
    pub source: String,
    /// Version of the compiler.
    pub compiler: String,
    /// Target architecture.
    pub arch: Arch,
    /// Cargo features, separated by commas; empty for the default ones.
    pub features: String,
}

impl Header {
    /// Reads the header of packed PTX: see [`Ptx::pack`](crate::Ptx::pack).
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read; [`Error::BadHeader`] when it does not begin with a header.
    pub fn of_packed(path: &std::path::Path) -> Result<Self> {
        crate::packed::header(path)
    }

    /// Returns `true` if the PTX was built from these sources for this architecture, by any compiler.
    pub fn is_fresh(&self, source: &str, arch: Arch) -> bool {
        self.source == source && self.arch == arch
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, compiler, arch, features } = self;
        let compiler = compiler.replace(' ', "_");
        write!(f, "{MARK}source={source} compiler={compiler} arch={arch} features={features}")
    }
}

impl FromStr for Header {
    type Err = Error;

    /// Parses the first line of `text`, which may be the whole PTX.
    fn from_str(text: &str) -> Result<Self> {
        let line = text.lines().next().unwrap_or_default();
        parse(line).ok_or_else(|| Error::BadHeader { found: line.to_owned() })
    }
}

fn parse(line: &str) -> Option<Header> {
    let mut fields = line.strip_prefix(MARK)?.split(' ');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    Some(Header {
        source: field("source")?,
        compiler: field("compiler")?,
        arch: field("arch")?.parse().ok()?,
        features: field("features")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { source: "ab12".into(), compiler: "1.96.0".into(), arch: Arch::Sm90, features: "a,b".into() }
    }

    #[test]
    fn a_header_reads_back_from_the_whole_text() {
        let text = format!("{}\n.version 8.4\n", header());
        assert_eq!(text.parse::<Header>().unwrap(), header());
    }

    #[test]
    fn freshness_is_of_the_sources_and_the_architecture() {
        assert!(header().is_fresh("ab12", Arch::Sm90));
        assert!(!header().is_fresh("ab12", Arch::Sm80));
        assert!(!header().is_fresh("ab13", Arch::Sm90));
    }

    #[test]
    fn another_ptx_has_no_header() {
        for text in
            ["", ".version 8.4", "// phalanx-ptx source=1", "// phalanx-ptx source=1 compiler=2 arch=sm_13"]
        {
            assert!(text.parse::<Header>().is_err(), "{text}");
        }
    }
}

//! What can go wrong.
use crate::Arch;
use std::path::PathBuf;

/// Why PTX could not be built or checked. Each message says what was asked, what was found and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No compiler with its library sources was found.
    #[error(
        "no compiler that can build PTX: it takes a rustc of 1.96 or later with the sources of its library.\n\
         {rejected}\n\
         Run `cargo xtask setup`, or by hand one of\n  \
         rustup toolchain install {pinned} --component rust-src\n  \
         apt-get install rustc-web cargo-web rust-web-src   (Debian)"
    )]
    NoToolchain {
        /// The nightly that the device crate pins, or `nightly`.
        pinned: String,
        /// What was looked at, and why it does not serve, one a line.
        rejected: String,
    },
    /// The folder is not a crate.
    #[error("{path} is no device crate: {reason}")]
    NotACrate {
        /// The manifest that was read.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The device crate does not compile.
    #[error("{package} does not compile for {arch}:\n{log}")]
    Compile {
        /// The device crate.
        package: String,
        /// What it was compiled for.
        arch: Arch,
        /// What the compiler said.
        log: String,
    },
    /// The compiler was content, yet wrote no PTX.
    #[error("{package} compiled, but there is no PTX in {path}; remove that folder and build again")]
    NoOutput {
        /// The device crate.
        package: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// The PTX calls what is not there.
    #[error(
        "the PTX of {package} calls functions that it does not define: {}; device code may use `core` and \
         `simt` only",
        names.join(", ")
    )]
    Unresolved {
        /// The device crate.
        package: String,
        /// The symbols.
        names: Vec<String>,
    },
    /// The PTX does not begin with the line that this crate writes.
    #[error(
        "not PTX of this builder: its first line should read `// phalanx-ptx source=.. compiler=.. arch=..`, \
         found `{found}`"
    )]
    BadHeader {
        /// The first line.
        found: String,
    },
    /// An architecture that is not known here.
    #[error("no architecture {asked}; there are sm_80, sm_90, sm_100")]
    UnknownArch {
        /// What was asked for.
        asked: String,
    },
    /// No `ptxas`.
    #[error("no ptxas in PATH, $CUDA_HOME, /usr/local/cuda or {toolchain}; run `cargo xtask setup`")]
    NoPtxas {
        /// Where `cargo xtask setup` puts it.
        toolchain: PathBuf,
    },
    /// `ptxas` refused the PTX.
    #[error("ptxas refuses {path} for {arch}:\n{log}")]
    Assemble {
        /// The PTX.
        path: PathBuf,
        /// What it was assembled for.
        arch: Arch,
        /// What ptxas said.
        log: String,
    },
    /// A file could not be read or written, or a program not be started.
    #[error("{path}: {source}")]
    Io {
        /// The file or program.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// Names the file that `source` is about.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

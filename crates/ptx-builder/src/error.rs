//! Errors of the build and the check of PTX.
use crate::Arch;
use std::path::PathBuf;

/// Error of a build or check of PTX. Each message states the request, the finding and a remedy.
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
        /// Nightly that the device crate pins, or `nightly`.
        pinned: String,
        /// Candidates that were inspected, and why each is unsuitable, one per line.
        rejected: String,
    },
    /// The folder is not a crate.
    #[error("{path} is not a device crate: {reason}")]
    NotACrate {
        /// Path of the manifest.
        path: PathBuf,
        /// Problem with the manifest.
        reason: String,
    },
    /// The device crate does not compile.
    #[error("{package} does not compile for {arch}:\n{log}")]
    Compile {
        /// Name of the device crate.
        package: String,
        /// Target architecture.
        arch: Arch,
        /// Output of the compiler.
        log: String,
    },
    /// The compiler succeeded but wrote no PTX.
    #[error("{package} compiled, but there is no PTX in {path}: remove that folder and rebuild")]
    NoOutput {
        /// Name of the device crate.
        package: String,
        /// Expected location of the PTX.
        path: PathBuf,
    },
    /// The PTX calls undefined functions.
    #[error(
        "the PTX of {package} calls functions that it does not define: {}; device code may use `core` and \
         `simt` only",
        names.join(", ")
    )]
    Unresolved {
        /// Name of the device crate.
        package: String,
        /// Undefined symbols.
        names: Vec<String>,
    },
    /// The PTX does not begin with the header line of this crate.
    #[error(
        "not PTX of this builder: its first line should read `// phalanx-ptx source=.. compiler=.. arch=..`, \
         found `{found}`"
    )]
    BadHeader {
        /// First line found.
        found: String,
    },
    /// The architecture is unknown.
    #[error("unknown architecture {asked}; available: sm_80, sm_90, sm_100")]
    UnknownArch {
        /// Name passed.
        asked: String,
    },
    /// No `ptxas` was found.
    #[error("no ptxas in PATH, $CUDA_HOME, /usr/local/cuda or {toolchain}; run `cargo xtask setup`")]
    NoPtxas {
        /// Folder where `cargo xtask setup` installs it.
        toolchain: PathBuf,
    },
    /// `ptxas` rejected the PTX.
    #[error("ptxas rejects {path} for {arch}:\n{log}")]
    Assemble {
        /// Path of the PTX.
        path: PathBuf,
        /// Target architecture.
        arch: Arch,
        /// Output of `ptxas`.
        log: String,
    },
    /// A file could not be read or written, or a program could not be started.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file or program.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns a function that attaches `path` to an I/O error.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

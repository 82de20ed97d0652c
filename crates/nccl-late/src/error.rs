//! Errors of loading. Each message states the finding and a remedy.
use crate::PATH_VARIABLE;
use crate::types::{Code, OLDEST, Version};

/// Reason why NCCL cannot be used in this process.
#[derive(thiserror::Error, Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The dynamic loader cannot load the library.
    #[error(
        "NCCL cannot be loaded ({reason}): install it (the package libnccl2, or the wheel nvidia-nccl-cu13), \
         or set {PATH_VARIABLE} to the path of libnccl.so.2"
    )]
    NotFound {
        /// The dynamic loader's reason.
        reason: String,
    },

    /// The library is older than [`OLDEST`].
    #[error(
        "{path} is NCCL {found}, and {OLDEST} or later is needed: install a newer one, or set \
         {PATH_VARIABLE} to the path of one"
    )]
    TooOld {
        /// Name that was passed to the dynamic loader.
        path: String,
        /// Version of the library.
        found: Version,
    },

    /// The library lacks functions that NCCL has had since [`OLDEST`].
    #[error(
        "{path} lacks {}: it is no NCCL, or a reduced one; set {PATH_VARIABLE} to the path of NVIDIA's \
         libnccl.so.2", symbols.join(", ")
    )]
    Missing {
        /// Name that was passed to the dynamic loader.
        path: String,
        /// Names of all functions that are missing.
        symbols: Vec<&'static str>,
    },

    /// The library does not report its version.
    #[error("{path}: ncclGetVersion fails with {code}; set {PATH_VARIABLE} to the path of another NCCL")]
    NoVersion {
        /// Name that was passed to the dynamic loader.
        path: String,
        /// Status that it returned.
        code: Code,
    },
}

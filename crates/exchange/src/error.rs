//! Errors. Each message states the finding and a remedy.

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Loss of a rank, which ends an exchange for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The lost rank, if it is known.
    pub rank: Option<usize>,
    /// The finding.
    pub cause: String,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} is lost ({})", self.cause),
            None => write!(f, "a rank is lost ({})", self.cause),
        }
    }
}

/// Error of an exchange.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A rank has ended, failed, or not answered before the deadline. All later operations return the same
    /// error; the memory of this rank stays valid.
    #[error("{0}: end the exchange on all ranks, and make a new one")]
    PeerLost(Lost),

    /// The ranks disagree on what they exchange. No data was moved, and the exchange can be used again.
    #[error("the ranks disagree on the {what}: rank {rank} has {found}, and rank 0 has {expected}")]
    Mismatch {
        /// The property.
        what: &'static str,
        /// The first rank that differs from rank 0.
        rank: usize,
        /// Its value.
        found: u64,
        /// The value of rank 0.
        expected: u64,
    },

    /// A rank refused its own arguments, or could not execute its own part of an operation. No data was moved
    /// for arguments that were refused, and the exchange can be used again.
    #[error("rank {rank} did not execute its part of the call: its own error says why")]
    Refused {
        /// The rank.
        rank: usize,
    },

    /// The arguments of this rank do not fit. The other ranks get [`Refused`](Self::Refused).
    #[error("{what}: {found}, but {expected}")]
    Arguments {
        /// The argument.
        what: &'static str,
        /// The value passed.
        found: u64,
        /// The condition that it violates.
        expected: String,
    },

    /// A rank's results do not fit its memory. No data was moved, and the exchange can be used again.
    #[error("rank {rank} receives {len} elements, and has room for {capacity}: pass a larger buffer there")]
    NoRoom {
        /// The rank.
        rank: usize,
        /// Number of elements that it receives.
        len: u64,
        /// Number of elements of its buffer.
        capacity: u64,
    },

    /// Data of another size arrived than the counts had announced.
    #[error("rank {rank} announced {expected} bytes and sent {found}: this is a fault of the exchange")]
    Damaged {
        /// The sender.
        rank: usize,
        /// Bytes that arrived.
        found: u64,
        /// Bytes that were announced.
        expected: u64,
    },

    /// A device failed.
    #[error(transparent)]
    Device(#[from] gpu::Error),

    /// A call of NCCL failed, for another reason than the loss of a rank.
    #[error("{call}: {cause}; NCCL_DEBUG=WARN makes NCCL print the reason")]
    Nccl {
        /// Name of the function.
        call: &'static str,
        /// NCCL's explanation.
        cause: String,
    },

    /// The file that passes the id of an exchange by NCCL cannot be used.
    #[cfg(target_os = "linux")]
    #[error("{}: {cause}; name a new file, in a folder that all processes can access", path.display())]
    IdFile {
        /// The file.
        path: std::path::PathBuf,
        /// The finding.
        cause: String,
    },

    /// NCCL cannot be used in this process.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    NoNccl(#[from] nccl_late::Error),
}

impl Error {
    /// Returns an error about arguments.
    pub(crate) fn arguments(what: &'static str, found: usize, expected: impl Into<String>) -> Self {
        Self::Arguments { what, found: found as u64, expected: expected.into() }
    }

    /// Returns the loss of a rank.
    pub(crate) fn lost(rank: impl Into<Option<usize>>, cause: impl Into<String>) -> Self {
        Self::PeerLost(Lost { rank: rank.into(), cause: cause.into() })
    }

    /// Returns whether all ranks have returned from the same step of an operation, and may begin another.
    pub(crate) fn is_in_step(&self) -> bool {
        matches!(
            self,
            Self::Mismatch { .. } | Self::Refused { .. } | Self::Arguments { .. } | Self::NoRoom { .. }
        )
    }
}

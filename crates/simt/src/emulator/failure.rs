//! What a launch can fail with, and how it is told.
use super::explore::{Schedule, Trace};
use super::lane::Site;
use std::fmt;
use std::ops::Deref;

/// A line of kernel source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<Site> for SourceLine {
    fn from(site: Site) -> Self {
        Self { file: site.file().to_owned(), line: site.line(), column: site.column() }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The other thread of a failure that takes two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// What it did there, or does: `weak write`, `waits at ballot`.
    pub action: String,
    /// Where.
    pub location: SourceLine,
    /// Its block.
    pub block: u32,
    /// Its index in the block.
    pub thread: u32,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by block {}, thread {} at {}", self.action, self.block, self.thread, self.location)
    }
}

/// A lane that did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its index in the block.
    pub thread: u32,
    /// What it does instead.
    pub whereabouts: Whereabouts,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} {}", self.thread, self.whereabouts)
    }
}

/// What a lane does that did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Its kernel function returned.
    Ended,
    /// It waits for others.
    Waiting {
        /// The collective or barrier.
        at: &'static str,
        /// Where it stands.
        location: SourceLine,
    },
    /// It is not part of the block, or not named in the mask.
    Outside,
    /// It runs.
    Running,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("has ended"),
            Self::Waiting { at, location } => write!(f, "waits at {at} at {location}"),
            Self::Outside => f.write_str("takes no part"),
            Self::Running => f.write_str("is elsewhere"),
        }
    }
}

/// The buffer next to an access that missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Bytes from the start of the buffer to the access; negative when the access is below.
    pub offset: i64,
    /// Bytes of the buffer.
    pub bytes: usize,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} of a buffer of {} bytes", self.offset, self.bytes)
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailureKind {
    /// A collective waits for lanes that will not come, or reads from a lane that takes no part.
    #[error("{collective} with mask {mask:#010x} lacks lanes: {}", list(missing))]
    MissingLane {
        /// Its name, as in `Tile`'s instruction.
        collective: &'static str,
        /// The lanes that have to meet.
        mask: u32,
        /// Those that did not.
        missing: Vec<Absent>,
    },
    /// The barrier of a block waits for threads that will not come.
    #[error("the barrier of the block lacks threads: {}", list(missing))]
    BarrierMismatch {
        /// Those that did not come.
        missing: Vec<Absent>,
    },
    /// An access outside every live buffer.
    #[error("access of {bytes} bytes at {address:#x} is outside every buffer{}", near(nearest))]
    OutOfBounds {
        /// The address.
        address: usize,
        /// Bytes accessed.
        bytes: usize,
        /// The buffer next to it.
        nearest: Option<Nearest>,
    },
    /// An access to a buffer that was freed.
    #[error("access of {bytes} bytes to a freed buffer, {within}")]
    UseAfterFree {
        /// Bytes accessed.
        bytes: usize,
        /// Where in the freed buffer.
        within: Nearest,
    },
    /// An access to what kernels have freed themselves: see [`poison`](crate::poison).
    #[error(
        "access of {bytes} bytes to slab {name:#x}, {offset} bytes in, which was reclaimed: it was retired \
         while somebody could still reach it, or freed too early"
    )]
    UseAfterReclaim {
        /// Bytes accessed.
        bytes: usize,
        /// The name of what was freed.
        name: u32,
        /// Bytes from its start to the access.
        offset: usize,
    },
    /// A write to what kernels have freed and allocated again, which nothing orders after what was written
    /// there before it was freed. Only where memory is weak: see
    /// [`Options::weak_memory`](crate::emulator::Options::weak_memory).
    #[error(
        "write of {bytes} bytes at {address:#x} to a slab that was allocated again: nothing orders it after \
         what was written there before the slab was freed, which may still replace it"
    )]
    UnorderedReuse {
        /// The address.
        address: usize,
        /// Bytes written.
        bytes: usize,
    },
    /// A read of memory that nobody wrote.
    #[error(
        "read of {bytes} bytes that nobody wrote, {}",
        within.map_or("in shared memory".to_owned(), |within| within.to_string())
    )]
    Uninitialized {
        /// Bytes read.
        bytes: usize,
        /// Where in the buffer; nothing for shared memory.
        within: Option<Nearest>,
    },
    /// Two accesses that nothing orders, one of them a write and one of them weak.
    #[error("data race on {bytes} bytes at {address:#x}: {access}")]
    DataRace {
        /// The address of the later access.
        address: usize,
        /// Bytes of the later access.
        bytes: usize,
        /// What the later access is: `weak write`.
        access: &'static str,
    },
    /// The kernel called [`trap`](crate::trap), or did what traps.
    #[error("trap")]
    Trap,
    /// The kernel told of a misuse by [`fault`](crate::fault).
    #[error("{0}")]
    Fault(&'static str),
    /// The kernel panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// Nobody gets any further.
    #[error("hang: no end after {steps} steps")]
    Hang {
        /// Steps until it was given up (see `Options::step_limit`).
        steps: u64,
    },
    /// An address that is no multiple of the bytes accessed.
    #[error("misaligned access of {bytes} bytes at {address:#x}")]
    Misaligned {
        /// The address.
        address: usize,
        /// Bytes accessed.
        bytes: usize,
    },
    /// A grid that no device takes.
    #[error("no device takes a grid of {grid}: blocks must be at least 1, and threads 1 to 1024")]
    InvalidGrid {
        /// The grid asked for.
        grid: crate::Grid,
    },
    /// The replayed trace does not belong to this program.
    #[error(
        "the trace does not fit: at step {step} it names a lane that cannot run; replay it on the program \
         and options it came from"
    )]
    TraceMismatch {
        /// The step of the launch.
        step: u64,
    },
}

fn list(missing: &[Absent]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<_> = missing.iter().take(SHOWN).map(Absent::to_string).collect();
    if missing.len() > SHOWN {
        text.push(format!("and {} more", missing.len() - SHOWN));
    }
    text.join(", ")
}

fn near(nearest: &Option<Nearest>) -> String {
    nearest.map_or(String::new(), |nearest| format!(" (nearest: {nearest})"))
}

/// A launch that failed: what, where in the kernel's source, whose doing, and how to see it again.
///
/// It dereferences to [`FailureDetails`]: `failure.kind`, `failure.location` and so on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(Box<FailureDetails>);

impl From<FailureDetails> for Failure {
    fn from(details: FailureDetails) -> Self {
        Self(Box::new(details))
    }
}

impl Deref for Failure {
    type Target = FailureDetails;

    fn deref(&self) -> &FailureDetails {
        &self.0
    }
}

/// The fields of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureDetails {
    /// What went wrong.
    pub kind: FailureKind,
    /// The kernel's name in PTX.
    pub kernel: String,
    /// The line of the kernel's source, where one is to blame.
    pub location: Option<SourceLine>,
    /// The block.
    pub block: u32,
    /// The thread's index in the block.
    pub thread: u32,
    /// The other thread's part, of failures that take two.
    pub other: Option<Party>,
    /// The schedule that was explored, with its seed. It replays the failure.
    pub schedule: Option<Schedule>,
    /// The choices made so far, as data. They replay the failure too.
    pub trace: Option<Trace>,
}

/// A trace of so many characters is still shown.
const SHORT_TRACE: usize = 400;

impl fmt::Display for FailureDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}, block {}, thread {}", self.kernel, self.block, self.thread)?;
        if let Some(location) = &self.location {
            write!(f, " at {location}")?;
        }
        write!(f, ": {}", self.kind)?;
        if let Some(other) = &self.other {
            write!(f, "; against {other}")?;
        }
        match &self.schedule {
            Some(Schedule::Replay(_)) | None => {}
            Some(schedule) => write!(f, "; replay with the schedule `{schedule}`")?,
        }
        match self.trace.as_ref().map(Trace::to_string) {
            Some(trace) if trace.len() <= SHORT_TRACE => {
                write!(f, "; replay with the schedule `replay:{trace}`")
            }
            Some(_) => f.write_str("; replay with the trace in the field `trace`"),
            None => Ok(()),
        }
    }
}

//! Failures of launches, and their messages.
use super::explore::{Schedule, Trace};
use super::site::SourceLine;
use std::fmt;
use std::ops::Deref;

/// The other thread of a failure that involves two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Action of the thread: `weak write`, `wait at ballot`.
    pub action: String,
    /// Location of the action.
    pub location: SourceLine,
    /// Index of its block.
    pub block: u32,
    /// Index in the block.
    pub thread: u32,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by block {}, thread {} at {}", self.action, self.block, self.thread, self.location)
    }
}

/// A lane missing from a collective or barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Index in the block.
    pub thread: u32,
    /// State of the lane.
    pub whereabouts: Whereabouts,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} {}", self.thread, self.whereabouts)
    }
}

/// State of a lane missing from a collective or barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Its kernel function has returned.
    Ended,
    /// It waits at another collective or barrier.
    Waiting {
        /// Name of the collective or barrier.
        at: &'static str,
        /// Location of the call.
        location: SourceLine,
    },
    /// It does not exist in the block, or the mask does not name it.
    Outside,
    /// It is running.
    Running,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("has ended"),
            Self::Waiting { at, location } => write!(f, "waits at {at} at {location}"),
            Self::Outside => f.write_str("does not participate"),
            Self::Running => f.write_str("is running elsewhere"),
        }
    }
}

/// The buffer closest to an access outside every buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Offset of the access from the start of the buffer, in bytes; negative below the buffer.
    pub offset: i64,
    /// Size of the buffer, in bytes.
    pub bytes: usize,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} of a buffer of {} bytes", self.offset, self.bytes)
    }
}

/// Kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailureKind {
    /// A collective waits for lanes that will not arrive, or reads from a lane that does not participate.
    #[error("{collective} with mask {mask:#010x} waits for missing lanes: {}", names_of(missing))]
    MissingLane {
        /// Name of the collective's instruction.
        collective: &'static str,
        /// Mask of the participating lanes.
        mask: u32,
        /// Missing lanes.
        missing: Vec<Absent>,
    },
    /// The barrier of a block waits for threads that will not arrive.
    #[error("the block barrier waits for missing threads: {}", names_of(missing))]
    BarrierMismatch {
        /// Missing threads.
        missing: Vec<Absent>,
    },
    /// An access lies outside every live buffer.
    #[error("access of {bytes} bytes at {address:#x} is outside every buffer{}", near(nearest))]
    OutOfBounds {
        /// Address of the access.
        address: usize,
        /// Bytes accessed.
        bytes: usize,
        /// Closest buffer.
        nearest: Option<Nearest>,
    },
    /// An access lies in a freed buffer.
    #[error("access of {bytes} bytes to a freed buffer, {within}")]
    UseAfterFree {
        /// Bytes accessed.
        bytes: usize,
        /// Position in the freed buffer.
        within: Nearest,
    },
    /// An access lies in memory that kernels have freed: see [`poison`](crate::poison).
    #[error(
        "access of {bytes} bytes at offset {offset} of slab {name:#x}, which was reclaimed: it was retired \
         while it could still be reached, or freed too early"
    )]
    UseAfterReclaim {
        /// Bytes accessed.
        bytes: usize,
        /// Name of the freed memory.
        name: u32,
        /// Offset of the access, in bytes.
        offset: usize,
    },
    /// A write to memory that kernels have freed and allocated again is not ordered after the writes from
    /// before it was freed. Reported only with weak memory: see
    /// [`Options::weak_memory`](crate::emulator::Options::weak_memory).
    #[error(
        "write of {bytes} bytes at {address:#x} to a slab that was allocated again: it is not ordered after \
         the writes from before the slab was freed, which may still overwrite it"
    )]
    UnorderedReuse {
        /// Address of the write.
        address: usize,
        /// Bytes written.
        bytes: usize,
    },
    /// A read of uninitialised memory.
    #[error(
        "read of {bytes} uninitialized bytes, {}",
        within.map_or("in shared memory".to_owned(), |within| within.to_string())
    )]
    Uninitialized {
        /// Bytes read.
        bytes: usize,
        /// Position in the buffer; `None` for shared memory.
        within: Option<Nearest>,
    },
    /// Two unordered accesses, at least one of which is a write and at least one of which is weak or of too
    /// narrow a scope.
    #[error("data race on {bytes} bytes at {address:#x}: {access}")]
    DataRace {
        /// Address of the later access.
        address: usize,
        /// Bytes of the later access.
        bytes: usize,
        /// Description of the later access: `weak write`.
        access: &'static str,
    },
    /// The thread overflowed its stack. The location is that of its last access.
    #[error(
        "the thread's stack of {bytes} bytes overflowed after its last access here: recurse less, or raise \
         `Options::stack_bytes`"
    )]
    StackOverflow {
        /// Size of the stack.
        bytes: usize,
    },
    /// The kernel called [`trap`](crate::trap), or executed an operation that traps.
    #[error("trap")]
    Trap,
    /// The kernel used an index beyond the end of a slice. On a GPU, the launch ends with a trap.
    #[error("trap, since index {index} is out of range: the slice has {len} elements")]
    IndexOutOfRange {
        /// The index.
        index: usize,
        /// Number of elements of the slice.
        len: usize,
    },
    /// The kernel reported a misuse by [`fault`](crate::fault).
    #[error("{0}")]
    Fault(&'static str),
    /// The kernel panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// No lane makes progress.
    #[error("hang: the launch did not end within {steps} steps")]
    Hang {
        /// Steps until the launch was given up (see `Options::step_limit`).
        steps: u64,
    },
    /// An address is not a multiple of the access size.
    #[error("misaligned access of {bytes} bytes at {address:#x}")]
    Misaligned {
        /// Address of the access.
        address: usize,
        /// Bytes accessed.
        bytes: usize,
    },
    /// A grid exceeds the limits of every device.
    #[error("no device accepts a grid of {grid}: it needs at least 1 block, of 1 to 1024 threads")]
    InvalidGrid {
        /// Requested grid.
        grid: crate::Grid,
    },
    /// The replayed trace does not belong to this program.
    #[error(
        "the trace does not match: at step {step} it names a lane that cannot run; replay it with the \
         program and options that it was recorded with"
    )]
    TraceMismatch {
        /// Step of the launch.
        step: u64,
    },
}

fn names_of(missing: &[Absent]) -> String {
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

/// Failure of a launch: its kind, its location in the kernel's source, the threads involved, and how to
/// replay it.
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

/// Fields of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureDetails {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Name of the kernel in PTX.
    pub kernel: String,
    /// Line of the kernel's source, if one is responsible.
    pub location: Option<SourceLine>,
    /// Index of the block.
    pub block: u32,
    /// Index of the thread in the block.
    pub thread: u32,
    /// The other thread, for failures that involve two.
    pub other: Option<Party>,
    /// Explored schedule, with its seed. It replays the failure.
    pub schedule: Option<Schedule>,
    /// Choices made so far, as data. They also replay the failure.
    pub trace: Option<Trace>,
    /// Injected [faults](crate::emulator::Fault). A replay needs them too.
    pub faults: Vec<String>,
}

/// Maximum length of a trace shown in a message, in characters.
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
                write!(f, "; replay with the schedule `replay:{trace}`")?;
            }
            Some(_) => f.write_str("; replay with the trace in the field `trace`")?,
            None => {}
        }
        self.faults.iter().try_for_each(|fault| write!(f, "; and with the fault: {fault}"))
    }
}

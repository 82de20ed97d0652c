//! A machine that runs kernels on the host.
pub use super::explore::{Schedule, Trace, TraceError};
pub use super::failure::{Absent, Failure, FailureKind, Nearest, Party, SourceLine, Whereabouts};
pub use super::launch::Launch;
pub use super::machine::{Emulator, Report};
pub use super::options::{Detect, Mode, Options};

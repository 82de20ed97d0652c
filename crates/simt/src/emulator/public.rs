//! A machine that runs kernels on the host: the device of those who have no GPU, and the test bed of those
//! who have.
//!
//! ```
//! use simt::emulator::{Emulator, Options, Schedule};
//! use simt::{GlobalSlice, Grid, Order, Scope};
//!
//! #[simt::kernel]
//! fn count(counter: GlobalSlice<u32>) {
//!     counter.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
//! }
//!
//! let device = Emulator::new(Options::explore(Schedule::Random { seed: 7 }));
//! let pointer = device.allocate(4, 4).cast::<u32>();
//! // SAFETY: the buffer has room for one word, and no kernel runs while the host uses it.
//! unsafe {
//!     pointer.write(0);
//!     device.mark_initialized(pointer.cast(), 4);
//!     let counter = GlobalSlice::from_raw_parts(pointer, 1);
//!     device.launch(Grid::new(2, 64), Count { counter })?;
//!     assert_eq!(pointer.read(), 128);
//!     device.free(pointer.cast());
//! }
//! # Ok::<(), simt::emulator::Failure>(())
//! ```
//!
//! # Execution model
//!
//! Each thread of a kernel is a lane: a coroutine with a stack of its own. Up to 32 neighbouring lanes of a
//! block are a warp; where the size of a block is no multiple of 32 the last warp is short, and a full mask
//! names the lanes that exist.
//!
//! A collective is a rendezvous of the lanes in its mask. Lanes pair up when they call the same instruction
//! with the same mask, wherever these calls stand in the source, as PTX has it; between collectives nothing
//! keeps lanes together. Results are those of the PTX ISA's `vote`, `shfl`, `match`, `redux` and
//! `bar.warp.sync`.
//!
//! Global memory is memory of the host. In fast mode accesses are atomics of the host (weak ones relaxed), of
//! 16 bytes too, so that they fit together with accesses to the halves; a weak access of 16 bytes is two
//! of 8.
//!
//! # Fast mode
//!
//! Worker threads execute blocks. A lane gives way at collectives, barriers and spin hints, and after some
//! thousand accesses. A launch begins on the thread that calls, and gets one more every 0.1 ms up to the
//! number of workers.
//!
//! **Guaranteed:** [`Options::resident_blocks`] blocks of a grid make progress side by side, as far as their
//! lanes access memory, meet, or give spin hints: locks and barriers of the whole grid work up to so many
//! blocks. A lane that does none of these is never interrupted. More blocks than that wait for others to end.
//!
//! # Exploring mode
//!
//! One thread executes everything, and before each access to memory, collective, barrier, fence and spin hint
//! a [`Schedule`] decides which lane goes next. The run is a function of the schedule (and of the kernels and
//! their data): a failure names its schedule with the seed, and holds the choices as a [`Trace`]; both replay
//! it exactly, on a new device that makes the same launches. All orders that are explored are sequentially
//! consistent, but for [`Options::stale_l1`] and [`Options::weak_memory`], by which reads return older values
//! too; what hardware could do beyond is found by the race detector, which follows the PTX memory model.
//!
//! # What is detected
//!
//! | failure | fast | exploring | switched off by |
//! |---|---|---|---|
//! | [`MissingLane`](FailureKind::MissingLane), [`BarrierMismatch`](FailureKind::BarrierMismatch) | yes | yes | [`Detect::collectives`] |
//! | [`OutOfBounds`](FailureKind::OutOfBounds) | yes | yes | [`Detect::bounds`] |
//! | [`UseAfterFree`](FailureKind::UseAfterFree) | yes | yes | [`Detect::use_after_free`] |
//! | [`UnorderedReuse`](FailureKind::UnorderedReuse) | no | where memory is weak | [`Options::weak_memory`] |
//! | [`Uninitialized`](FailureKind::Uninitialized) | if asked | yes | [`Detect::uninitialized`] |
//! | [`DataRace`](FailureKind::DataRace) | no | yes | [`Detect::races`] |
//! | [`Misaligned`](FailureKind::Misaligned), [`Trap`](FailureKind::Trap), [`Fault`](FailureKind::Fault), [`Panic`](FailureKind::Panic), [`Hang`](FailureKind::Hang) | yes | yes | nothing |
//!
//! A failure names the line of the kernel's source, and that of the other lane where there are two. It ends
//! the launch: memory is as the lanes left it, what the lanes' stacks hold is forgotten and not dropped, and
//! the device can be used again.
//!
//! # Limits
//!
//! - Stricter than PTX: a lane that ended is missing from a collective or barrier that names it, and a
//!   shuffle that reads from a lane outside the mask is an error.
//! - Laxer: strong accesses of different sizes that overlap are not taken for races; a race with an access
//!   long ago may go unnoticed under one schedule; and when a grid has more lanes than fit (16 384), lanes
//!   that start late count as ordered after those whose place they take.
//! - `clock` counts steps. Nothing about time or caches is modelled but what [`Options::stale_l1`] and
//!   [`Options::weak_memory`] say.
//! - An overflow of a lane's stack ends the process. A program compiled with `panic = "abort"` is ended by a
//!   kernel's panic.
//! - Panics of kernels are noted by a panic hook that [`Emulator::new`] puts before the one it finds; one
//!   that is set later hides their source lines.
pub use super::explore::{Schedule, Trace, TraceError};
pub use super::failure::{
    Absent, Failure, FailureDetails, FailureKind, Nearest, Party, SourceLine, Whereabouts,
};
pub use super::launch::Launch;
pub use super::machine::{Emulator, Report};
pub use super::options::{Detect, Mode, Options, WeakMemory};

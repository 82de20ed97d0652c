//! A machine that runs kernels on the host, to develop without a GPU and to test systematically.
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
//! // SAFETY: the buffer holds one word, and no kernel runs while the host uses it.
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
//! Each thread of a kernel is a lane: a coroutine with its own stack. Up to 32 neighbouring lanes of a block
//! form a warp. If the size of a block is not a multiple of 32, the last warp is short, and a full mask names
//! the lanes that exist.
//!
//! A collective is a rendezvous of the lanes in its mask. Lanes match when they call the same instruction
//! with the same mask, wherever these calls stand in the source, as in PTX; between collectives, lanes run
//! independently. Results are those of the PTX ISA's `vote`, `shfl`, `match`, `redux` and `bar.warp.sync`.
//!
//! Global memory is host memory. In fast mode, accesses are host atomics (weak ones relaxed). Strong accesses
//! of 16 bytes are single atomics, consistent with accesses to the halves; a weak access of 16 bytes is two
//! accesses of 8.
//!
//! # Fast mode
//!
//! Worker threads execute blocks. A lane yields at collectives, barriers and spin hints, and after some
//! thousand accesses. A launch begins on the calling thread, and gets another thread every 0.1 ms up to the
//! number of workers.
//!
//! **Guaranteed:** [`Options::resident_blocks`] blocks of a grid make progress concurrently, provided their
//! lanes access memory, execute collectives or barriers, or give spin hints: locks and grid-wide barriers
//! work up to that number of blocks. A lane that does none of these is never interrupted. Further blocks wait
//! for others to end.
//!
//! # Exploring mode
//!
//! One thread executes everything. Before each memory access, collective, barrier, fence and spin hint, a
//! [`Schedule`] decides which lane runs next. The run is a function of the schedule (and of the kernels and
//! their data). A failure names its schedule with the seed, and holds the choices as a [`Trace`]; both replay
//! it exactly, on a new device that makes the same launches. All executions explored are sequentially
//! consistent, except that [`Options::stale_l1`] and [`Options::weak_memory`] let reads return older values,
//! and that with the latter, later writes overtake earlier ones of other lanes.
//! The race detector, which follows the PTX memory model, finds further behaviour of hardware.
//!
//! # Faults
//!
//! A test proves that an exploration detects a missing order, barrier or write by injecting a [`Fault`] at a
//! [site](SiteId) of the kernel's source. A failure lists the faults, which a replay needs as well.
//!
//! ```
//! use simt::emulator::{Emulator, Failure, Fault, Options, Schedule, SiteId};
//! use simt::{GlobalSlice, Grid, Order, Scope, Thread};
//!
//! const STORE: u32 = line!() + 6;
//!
//! #[simt::kernel]
//! fn pass_message(words: GlobalSlice<u32>) {
//!     if Thread::block_index() == 0 {
//!         words.write(1, 42);
//!         words.at(0).store(1, Order::Release, Scope::Device);
//!     } else if words.at(0).load(Order::Acquire, Scope::Device) == 1 {
//!         assert_eq!(words.read(1), 42);
//!     }
//! }
//!
//! fn run(seed: u64, faults: &[Fault]) -> Result<(), Failure> {
//!     let options = Options::explore(Schedule::Random { seed });
//!     let device = Emulator::new(Options { faults: faults.to_vec(), ..options });
//!     let pointer = device.allocate(8, 8).cast::<u32>();
//!     // SAFETY: the buffer holds two words, and no kernel runs while the host writes them.
//!     let words = unsafe {
//!         pointer.cast::<u64>().write(0);
//!         device.mark_initialized(pointer.cast(), 8);
//!         GlobalSlice::from_raw_parts(pointer, 2)
//!     };
//!     device.launch(Grid::new(2, 1), PassMessage { words }).map(drop)
//! }
//!
//! let weaker = Fault::order(SiteId::line(file!(), STORE), Order::Relaxed);
//! assert!((0..20).all(|seed| run(seed, &[]).is_ok()));
//! assert!((0..20).any(|seed| run(seed, &[weaker.clone()]).is_err()));
//! assert!(weaker.effects() > 0);
//! ```
//!
//! Sites of files are better named by [`SiteId::find`], which needs no line numbers.
//!
//! # Mutants
//!
//! `cargo xtask mutate` runs existing tests with one fault each, the mutant of the process. Two variables of
//! the environment are read once per process, and act on all devices in exploring mode:
//!
//! - `PHALANX_MUTANT` is `FILE:LINE:COLUMN OPERATOR`, with the site as failures print it. With `OPERATION
//!   ORDER SCOPE BYTES` behind it, only such operations of the site are changed. A variable of another format
//!   ends the process by a panic. [`Options::early_writes`] is off with a mutant.
//! - `PHALANX_SITES` is a file. A line `FILE:LINE:COLUMN OPERATION ORDER SCOPE BYTES` is appended when a site
//!   is first executed in a way, and a line `effect` when the mutant first changes an operation. Operations
//!   are `load`, `store` and `update` (read-modify-write) of global memory, stores and updates of shared
//!   memory, `fence`, `barrier`, `bound` and `recheck`. Several processes may append to the same file.
//!
//! | operator | change |
//! |---|---|
//! | `acquire`, `release`, `relaxed`, `weak` | executes accesses with this order if theirs is stronger; a read-modify-write is at least relaxed |
//! | `block`, `device` | executes accesses and fences with this scope if theirs is wider |
//! | `skip` | as [`Fault::skip`]; a [`recheck`](crate::recheck) returns `true` |
//! | `tear` | as [`Fault::tear`] |
//! | `late` | delays stores until the lane has written at another site or ends |
//! | `early` | loads return what a lane of the warp last read from or wrote to the word |
//! | `less`, `more`, `half` | a [`bound`](crate::bound) is one less, one more or half as large |
//!
//! # Crashes
//!
//! [`Emulator::record_stores`] records the stores of kernels to memory that survives the process, in
//! exploring mode. [`StoreLog::crashes`] enumerates the contents that a crash may leave, at each store and
//! for the stores that no fence of system scope has settled.
//!
//! # What is detected
//!
//! | failure | fast | exploring | switched off by |
//! |---|---|---|---|
//! | [`MissingLane`](FailureKind::MissingLane), [`BarrierMismatch`](FailureKind::BarrierMismatch) | yes | yes | [`Detect::collectives`] |
//! | [`OutOfBounds`](FailureKind::OutOfBounds) | yes | yes | [`Detect::bounds`] |
//! | [`UseAfterFree`](FailureKind::UseAfterFree) | yes | yes | [`Detect::use_after_free`] |
//! | [`UnorderedReuse`](FailureKind::UnorderedReuse) | no | with weak memory | [`Options::weak_memory`] |
//! | [`Uninitialized`](FailureKind::Uninitialized) | if enabled | yes | [`Detect::uninitialized`] |
//! | [`DataRace`](FailureKind::DataRace) | no | yes | [`Detect::races`] |
//! | [`Misaligned`](FailureKind::Misaligned), [`Trap`](FailureKind::Trap), [`IndexOutOfRange`](FailureKind::IndexOutOfRange), [`Fault`](FailureKind::Fault), [`Panic`](FailureKind::Panic), [`Hang`](FailureKind::Hang) | yes | yes | nothing |
//!
//! A failure names the line of the kernel's source, and that of the other lane if two are involved. It ends
//! the launch: memory is as the lanes left it, values on the lanes' stacks are not dropped, and the device
//! can be used again.
//!
//! # Limits
//!
//! - Stricter than PTX: a lane that ended is missing from a collective or barrier that names it, and a
//!   shuffle that reads from a lane outside the mask is an error.
//! - Laxer: overlapping strong accesses of different sizes are not reported as races; a race with a much
//!   earlier access may be missed under one schedule; and if a grid has more lanes than fit (16 384), lanes
//!   that start late are treated as ordered after the lanes whose slots they reuse.
//! - `clock` counts steps. Time is not modelled, and caches only as far as [`Options::stale_l1`] and
//!   [`Options::weak_memory`] do.
//! - An overflow of a lane's stack ends the launch, but on some hosts the process: see
//!   [`Options::stack_bytes`]. With `panic = "abort"`, a kernel's panic ends the process.
//! - On Linux, [`Emulator::new`] installs a handler of `SIGSEGV` in front of the existing one, to notice such
//!   overflows.
//! - [`Emulator::new`] installs a panic hook in front of the existing one, to record panics of kernels. A
//!   hook that is set later hides their source lines.
pub use super::crash::{Crash, StoreLog};
pub use super::explore::{Schedule, Trace, TraceError};
pub use super::failure::{Absent, Failure, FailureDetails, FailureKind, Nearest, Party, Whereabouts};
pub use super::fault::{Fault, Replacement};
pub use super::launch::Launch;
#[doc(hidden)]
pub use super::machine::run_example;
pub use super::machine::{Emulator, Report};
pub use super::options::{Detect, Mode, Options, WeakMemory};
pub use super::site::{SiteError, SiteId, SourceLine};

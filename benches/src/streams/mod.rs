//! Stress test of batches in concurrent streams on one structure: it searches for crashes, hangs and wrong
//! results.
//!
//! A *cell* is a structure, a size and two verbs. Four streams run both verbs concurrently, without waiting.
//! Each stream has its own keys, interleaved with those of the others in key order. The operations of one
//! stream run in order, so the outcome of every element is known. All outcomes and the contents are checked.
//!
//! Cells with a *situation* instead of verbs run another activity while batches are pending: an export, a
//! snapshot, a second host thread, a dropped stream.
//!
//! | module | contents |
//! |---|---|
//! | [`verb`] | verbs, and a model of their effect on one key |
//! | [`universe`] | keys, and the stream that owns each |
//! | [`batch`] | a batch in device memory, and the check of its results |
//! | [`subject`] | structures |
//! | [`cell`] | list of cells, and how to run one |
//! | [`supervise`] | runs cells in separate processes, so that a fault or a hang affects one cell only |

pub mod batch;
pub mod cell;
pub mod subject;
pub mod supervise;
pub mod universe;
pub mod verb;

/// Number of concurrent streams. Each has its own keys.
pub const STREAMS: usize = 4;

//! Batches of several streams at once on one structure: a search for crashes, hangs and wrong answers.
//!
//! A *cell* is a structure, a size and two verbs. Four streams run both verbs side by side, none waited for,
//! on keys of their own that lie next to each other in the order of keys. The operations of one stream run in
//! order, so the outcome of every element is known: all of them are checked, and so are the contents.
//!
//! Cells with a *situation* in place of verbs put something else beside pending batches: an export, a
//! snapshot, a second host thread, a dropped stream.
//!
//! | module | what it does |
//! |---|---|
//! | [`verb`] | the verbs, and what each does to one key |
//! | [`universe`] | the keys, and which stream owns which |
//! | [`batch`] | one batch in device memory, and the check of its answers |
//! | [`subject`] | the structures |
//! | [`cell`] | the list of cells, and how one is run |
//! | [`supervise`] | runs cells in a process of their own, so that a fault or a hang costs one cell |

pub mod batch;
pub mod cell;
pub mod subject;
pub mod supervise;
#[cfg(test)]
mod tests;
pub mod universe;
pub mod verb;

/// Streams that run side by side, each with keys of its own.
pub const STREAMS: usize = 4;

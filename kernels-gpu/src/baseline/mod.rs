//! Baselines of the structures' measurements, not for use in programs: no collection of `phalanx` is built on
//! them.
//!
//! | module | what it is | where it comes from |
//! |---|---|---|
//! | [`chains`] | a lock-free set of chains, one thread per operation | Misra and Chaudhuri's, as the slab-hash paper describes it (section VI-C, figure 7b) |
//! | [`runs`] | a sorted array, and a log-structured merge tree: sorted runs of doubling lengths | built here, for the B-Tree's figure 3.2 |
//! | [`undo_log`] | lists of slabs with an undo log | the slab hash that the paper on GPHash compares with (section 4.1) |
pub mod chains;
pub mod runs;
pub mod undo_log;

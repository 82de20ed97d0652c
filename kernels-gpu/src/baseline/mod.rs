//! What the structures are measured against, and nothing that a program should use: no collection of
//! `phalanx` is made of these.
//!
//! | module | what it is | where it comes from |
//! |---|---|---|
//! | [`chains`] | a lock-free set of chains, a thread an operation | Misra and Chaudhuri's, as the slab-hash paper describes it (section VI-C, figure 7b) |
//! | [`runs`] | a sorted array, and a log-structured merge tree: sorted runs of doubling lengths | built here, for the B-Tree's figure 3.2 |
pub mod chains;
pub mod runs;

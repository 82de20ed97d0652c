//! What the structures are measured against, and nothing that a program should use: no collection of `phalanx` is made of these.
//!
//! | module | what it is | where it comes from |
//! |---|---|---|
//! | [`chains`] | a lock-free set of chains, a thread an operation | Misra and Chaudhuri's, as the slab-hash paper describes it (section VI-C, figure 7b) |
pub mod chains;

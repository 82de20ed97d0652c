//! Classifies reads by the k-mers of reference genomes, in a hash map on a GPU, or on the emulator when there
//! is no GPU.
//!
//! [`taxonomy`] has the tree of taxa. [`database`] reads the references, and stores for each k-mer the lowest
//! common ancestor of the taxa that have it. [`classify`] looks up the k-mers of reads, and assigns each read
//! to a taxon. [`report`] writes the results.
pub mod classify;
pub mod cli;
pub mod database;
pub mod report;
pub mod taxonomy;

//! Counts the k-mers of FASTA and FASTQ files in a hash map on a GPU, or on the emulator when there is no
//! GPU.
//!
//! All cores read the files, pack the k-mers ([`genomes`]) and combine nearby occurrences ([`combine`]).
//! Another thread submits batches to the device ([`count`]), where a table adds them up. [`report`] writes
//! the results. With several GPUs, each has a shard of the table ([`gpus`]), also if each is in a process of
//! its own ([`world`]).
pub mod cli;
pub mod combine;
pub mod count;
pub mod gpus;
pub mod report;
pub mod world;

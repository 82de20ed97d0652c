//! Counts the k-mers of FASTA and FASTQ files in a hash map on a GPU, or on the emulator when there is no
//! GPU.
//!
//! One thread reads the files, packs the k-mers ([`kmers`]) and combines nearby occurrences ([`batch`]).
//! Another submits the batches to the device ([`count`]), where a [`phalanx::HashMap`] adds them up.
//! [`report`] writes the results.
pub mod batch;
pub mod cli;
pub mod count;
pub mod input;
pub mod kmers;
pub mod report;

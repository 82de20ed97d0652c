//! Counts the k-mers of FASTA and FASTQ files in a hash map on a GPU, or on the emulator where there is none.
//!
//! One thread reads the files, packs the k-mers ([`kmers`]) and joins what lies close together ([`batch`]);
//! another hands the batches to the device ([`count`]), where a [`phalanx::HashMap`] adds them up. [`report`]
//! writes what comes out.
pub mod batch;
pub mod cli;
pub mod count;
pub mod input;
pub mod kmers;
pub mod report;

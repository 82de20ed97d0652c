//! Code that the programs `kmer-count` and `metagenomics` share.
//!
//! [`blocks`] divides FASTA and FASTQ files into blocks. [`read`] distributes the blocks over all cores,
//! which extract [`kmers`]. [`feed`] passes keys and values from there to the thread that submits batches to
//! a [`table`] on a device. [`output`] has the common functions for output.
pub mod blocks;
mod cut;
pub mod feed;
pub mod input;
pub mod kmers;
pub mod output;
pub mod read;
pub mod table;

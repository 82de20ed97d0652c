//! What the programs about genomes share.
//!
//! [`blocks`] divides FASTA and FASTQ files into blocks, and [`read`] gives them to all cores, which extract
//! [`kmers`]. [`feed`] carries keys and values from there to the thread that submits batches to a [`table`]
//! on a device. [`output`] has what is printed and written alike.
pub mod blocks;
mod cut;
pub mod feed;
pub mod input;
pub mod kmers;
pub mod output;
pub mod read;
pub mod table;

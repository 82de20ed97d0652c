//! Seeded inputs for tests and benchmarks: the same seed gives the same input on every machine, with any
//! number of threads.
//!
//! | module | what it makes | where it comes from |
//! |---|---|---|
//! | [`keys`] | unique keys, hits and misses disjoint by construction, values that follow from their keys, duplicates at a rate | bijective mixing of a counter |
//! | [`permutation`] | a shuffle of `0..n` that costs no memory | cycle walking over a bijection of the next power of two |
//! | [`zipf`] | skewed choices, O(1) a sample | Gray et al., SIGMOD 1994; YCSB's scrambling |
//! | [`ycsb`] | the workloads LOAD and A to F | Cooper et al., SoCC 2010 |
//! | [`mix`] | operation mixes by share, whose every result is known beforehand | slab hash's concurrent benchmark (IPDPS 2018, section VI-C) |
//! | [`sequences`] | MI, DU, DR, SU, SR, SUR, DUL, ZZ | the OOPSLA 2026 paper on memory oversubscription, table 2 |
//! | [`genome`] | genomes and reads with errors, as FASTA and FASTQ | uniform bases, substitutions |
//! | [`random`] | the pinned generator behind all of them | ChaCha8, a stream a chunk |
//!
//! # Concurrency
//! Everything here is a pure function of its arguments and may be called from any thread. Long inputs are
//! made by rayon's current pool; its size changes the time, never the result.

pub mod genome;
pub mod keys;
pub mod mix;
pub mod permutation;
pub mod random;
pub mod sequences;
pub mod stream;
pub mod ycsb;
pub mod zipf;

pub use genome::{Genome, Read};
pub use keys::{Key, UniqueKeys, checksum, updated_value_of, value_of, with_duplicates};
pub use mix::Mix;
pub use permutation::Permutation;
pub use sequences::Sequence;
pub use stream::{Op, Stream};
pub use ycsb::{Distribution, Ycsb, YcsbOptions};
pub use zipf::{ScrambledZipf, Zipf};

/// Why an input cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// More keys were asked for than there are.
    #[error("{asked} {what} were asked for, but there are only {available}; ask for fewer or use wider keys")]
    TooMany {
        /// What was asked for.
        what: &'static str,
        /// How many.
        asked: u64,
        /// How many there are.
        available: u64,
    },
    /// Something must not be empty.
    #[error("{what} must be at least 1, but is 0")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// A number lies outside its range.
    #[error("{what} must lie in {range}, but is {found}")]
    OutOfRange {
        /// The number's name.
        what: &'static str,
        /// The range.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// A name that nothing has.
    #[error("there is no {what} named '{found}'; there are {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name that was given.
        found: String,
        /// The names that exist.
        known: String,
    },
}

/// What this crate's fallible functions give.
pub type Result<T> = std::result::Result<T, Error>;

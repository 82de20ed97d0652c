//! Benchmark runner: suites are data, structures implement one trait, and every timed result is verified.
//!
//! | module | contents |
//! |---|---|
//! | [`suite`] | reads a suite file and expands it into cases |
//! | [`catalog`] | built-in suites |
//! | [`benchmark`] | traits that a structure implements to be measured |
//! | [`structures`] | measured structures: a new one is one file and one line |
//! | [`runner`] | restores, warms up, times, verifies, and creates records |
//! | [`statistics`] | medians and their confidence intervals |
//! | [`record`] | a result as one line of JSON |
//! | [`compare`] | comparison of a run with an earlier one |
//! | [`table`], [`html`] | output for people |
//! | [`streams`] | runs pairs of verbs in four concurrent streams, and checks every result |
//! | [`cli`] | command-line interface |

pub mod benchmark;
pub mod catalog;
pub mod cli;
pub mod compare;
pub mod environment;
pub mod html;
pub mod record;
pub mod runner;
pub mod statistics;
pub mod streams;
pub mod structures;
pub mod suite;
pub mod table;

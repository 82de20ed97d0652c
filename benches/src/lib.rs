//! The benchmark runner: suites are data, structures implement one trait, every timed result is verified.
//!
//! | module | what it does |
//! |---|---|
//! | [`suite`] | reads a suite file and unfolds it into cases |
//! | [`catalog`] | the suites that are built in |
//! | [`benchmark`] | what a structure implements to be measured |
//! | [`structures`] | the structures that do: a new one is one file and one line |
//! | [`runner`] | restores, warms up, times, verifies, and makes records |
//! | [`statistics`] | medians and their intervals |
//! | [`record`] | a result, as one line of JSON |
//! | [`compare`] | a run against an earlier one |
//! | [`table`], [`html`] | what people read |
//! | [`streams`] | runs pairs of verbs in four streams at once, and checks every answer |
//! | [`cli`] | the command line |

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

//! Benchmark program: suites are data, subjects implement one trait, and every timed result is verified.
//!
//! | module | contents |
//! |---|---|
//! | [`engine`] | suites, runner, records and reports, for any subjects |
//! | [`subjects`] | measured structures: a new one is one file and one line |
//! | [`machine`] | device that runs the subjects |
//! | [`streams`] | runs pairs of verbs in four concurrent streams, and checks every result |
//! | [`cli`] | command-line interface |

pub mod cli;
pub mod engine;
pub mod machine;
pub mod streams;
pub mod subjects;

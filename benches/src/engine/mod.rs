//! Engine: runs suites of any structures, and reports the results. It names no structure.
//!
//! | module | contents |
//! |---|---|
//! | [`suite`] | reads a suite file and expands it into cases |
//! | [`catalog`] | built-in suites |
//! | [`benchmark`] | traits that a subject implements to be measured |
//! | [`runner`] | restores, warms up, times, verifies, and creates records |
//! | [`statistics`] | medians and their confidence intervals |
//! | [`environment`] | source version of the program |
//! | [`record`] | a result as one line of JSON |
//! | [`compare`] | comparison of a run with an earlier one |
//! | [`ratios`] | ratios to a baseline, beside those of a paper |
//! | [`table`], [`html`] | output for people |

pub mod benchmark;
pub mod catalog;
pub mod compare;
pub mod environment;
pub mod html;
pub mod ratios;
pub mod record;
pub mod runner;
pub mod statistics;
pub mod suite;
pub mod table;

//! Tests of maps that can be run on variants of any package.
//!
//! | macro | declares |
//! |---|---|
//! | [`conformance_suite!`] | tests that compare a kind of hash map with `std::collections::HashMap`, on the emulator |
//! | [`explore!`] | tests that explore schedules of its kernels with every detector, and check linearizability |
//!
//! [`refuses!`] asserts that a result is an error of a kind that explains itself.
//!
//! The modules are those of the tests of `phalanx`, which use the same macros. Programs that explore other
//! structures include the files of `explore` as modules of their own, in order to implement the traits for
//! those structures.

#[doc(hidden)]
#[path = "conformance/batches.rs"]
pub mod batches;
#[doc(hidden)]
pub mod common;
#[doc(hidden)]
#[path = "conformance/counts.rs"]
pub mod counts;
#[doc(hidden)]
#[path = "conformance/duplicates.rs"]
pub mod duplicates;
#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
#[path = "conformance/files.rs"]
pub mod files;
#[doc(hidden)]
#[path = "conformance/kinds.rs"]
pub mod kinds;
#[doc(hidden)]
#[path = "conformance/limits.rs"]
pub mod limits;
#[doc(hidden)]
#[path = "conformance/methods.rs"]
pub mod methods;
#[doc(hidden)]
#[path = "explore/mutation.rs"]
pub mod mutation;
#[doc(hidden)]
#[path = "explore/plan.rs"]
pub mod plan;
#[doc(hidden)]
#[path = "explore/script.rs"]
pub mod script;
#[doc(hidden)]
pub mod scripts;
#[doc(hidden)]
#[path = "conformance/sequences.rs"]
pub mod sequences;
#[path = "conformance/suite.rs"]
mod suite;
#[doc(hidden)]
#[path = "explore/tables.rs"]
pub mod tables;
#[doc(hidden)]
#[path = "conformance/whole.rs"]
pub mod whole;
#[doc(hidden)]
#[path = "explore/world.rs"]
pub mod world;

#[doc(hidden)]
pub use {phalanx, phalanx_kernels, simt};

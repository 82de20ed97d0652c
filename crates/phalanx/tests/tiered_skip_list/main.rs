//! Tiered skip lists against models.
#![cfg(feature = "tiered-skip-list")]

mod bad_input;
mod batches;
mod budget;
#[path = "../tiered/common.rs"]
mod common;
#[path = "../tiered/faults.rs"]
mod faults;
mod growth;
mod model;
mod mutants;
#[path = "../tiered/on_stream.rs"]
mod on_stream;
mod order;
mod placement;
#[path = "../tiered/policies.rs"]
mod policies;
#[path = "../tiered/soak/mod.rs"]
mod soak;
#[path = "../tiered/streams.rs"]
mod streams;
mod streams_of_callers;
#[path = "../tiered/types.rs"]
mod types;

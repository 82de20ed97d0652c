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
mod order;
mod placement;
#[path = "../tiered/policies.rs"]
mod policies;
#[path = "../tiered/streams.rs"]
mod streams;
#[path = "../tiered/types.rs"]
mod types;

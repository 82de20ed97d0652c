//! Tiered maps against models.
#![cfg(feature = "tiered-map")]

mod bad_input;
mod batches;
mod budget;
#[path = "../tiered/faults.rs"]
mod faults;
mod file;
mod growth;
mod hot;
mod model;
mod placement;
mod ranges;
#[path = "../tiered/streams.rs"]
mod streams;

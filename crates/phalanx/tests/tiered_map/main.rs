//! Tiered maps against models.
#![cfg(feature = "tiered-map")]

mod adapt;
mod bad_input;
mod batches;
mod budget;
#[path = "../tiered/common.rs"]
mod common;
#[path = "../tiered/faults.rs"]
mod faults;
mod file;
mod growth;
mod hot;
mod launches;
mod model;
#[path = "../tiered/on_stream.rs"]
mod on_stream;
mod placement;
#[path = "../tiered/policies.rs"]
mod policies;
mod ranges;
mod small;
#[path = "../tiered/soak/mod.rs"]
mod soak;
#[path = "../tiered/streams.rs"]
mod streams;
mod streams_of_callers;
#[path = "../tiered/types.rs"]
mod types;

//! Tiered maps against models.
#![cfg(feature = "tiered-map")]

mod adapt;
mod bad_input;
mod batches;
mod budget;
#[path = "../tiered/faults.rs"]
mod faults;
mod growth;
mod hot;
mod launches;
mod model;
mod on_stream;
mod placement;
#[path = "../tiered/streams.rs"]
mod streams;

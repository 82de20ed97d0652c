//! Tiered maps against models.
#![cfg(feature = "tiered-map")]

mod bad_input;
mod batches;
mod budget;
mod faults;
mod growth;
mod hot;
mod model;
mod placement;
mod streams;

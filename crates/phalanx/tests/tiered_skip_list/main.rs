//! Tiered skip lists against models.
#![cfg(feature = "tiered-skip-list")]

mod bad_input;
mod batches;
mod budget;
mod faults;
mod growth;
mod model;
mod order;
mod placement;
mod streams;

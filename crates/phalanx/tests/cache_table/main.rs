//! Cache tables against models.
#![cfg(feature = "cache-table")]

mod bad_input;
mod batches;
mod eviction;
mod filters;
mod leases;
mod model;
mod threads;
mod tiers;

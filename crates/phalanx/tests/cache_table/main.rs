//! Cache tables against models.
#![cfg(feature = "cache-table")]

mod bad_input;
mod batches;
mod eviction;
mod files;
mod filters;
mod growth;
mod host_slices;
mod leases;
mod many;
mod model;
mod since;
mod threads;
mod tiers;

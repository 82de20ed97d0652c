//! Trains and serves the embeddings of a synthetic click stream. The embeddings lie in host memory, and a
//! [`phalanx::CacheTable`] on a GPU, or on the emulator, holds the most valuable ones.
//!
//! [`clicks`] draws the requests, [`store`] has the rows in host memory, [`cache`] those on the device, and
//! [`training`] moves rows between them batch by batch and compares them with a model of the training.
//! [`report`] prints the results, and [`page`] writes them as HTML with figures.
pub mod cache;
pub mod cli;
pub mod clicks;
mod figure;
pub mod history;
pub mod page;
pub mod report;
pub mod store;
pub mod training;

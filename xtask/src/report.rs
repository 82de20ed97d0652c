//! `cargo xtask report`: JSON lines of a benchmark as a page.
use crate::bench;
use anyhow::Result;

pub fn run(options: &bench::Options) -> Result<()> {
    bench::run_program("report", &options.arguments)
}

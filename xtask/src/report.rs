//! `cargo xtask report`: converts JSON Lines of a benchmark into a page.
use crate::bench;
use anyhow::Result;

pub fn run(options: &bench::Options) -> Result<()> {
    bench::run_program("report", &options.arguments)
}

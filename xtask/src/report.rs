//! `cargo xtask report`: converts JSON Lines of a benchmark into a page. With `--pages`, writes the figures
//! of the repository's pages.
use crate::{bench, figures};
use anyhow::Result;

pub fn run(options: &bench::Options) -> Result<()> {
    if options.arguments == ["--pages"] {
        return figures::update();
    }
    bench::run_program("report", &options.arguments)
}

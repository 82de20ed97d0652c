//! `cargo xtask metrics`: measures of maintainability. Each is defined where it is counted.
mod exports;
mod functions;
mod imports;
mod lines;
mod walks;

use crate::files::{File, files};
use crate::tidy;
use anyhow::Result;
use serde::Serialize;

/// The folders whose code is counted: what is built from them is the product, and what measures it.
const COUNTED: [&str; 6] = [
    "kernels-gpu/src/", "crates/phalanx/src/", "crates/simt/src/", "crates/gpu/src/", "benches/src/",
    "xtask/src/",
];

#[derive(clap::Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One count.
#[derive(Debug, PartialEq, Serialize)]
pub struct Metric {
    /// A folder, or the name of a walk.
    pub of: String,
    pub what: &'static str,
    pub value: f64,
}

impl Metric {
    fn new(of: &str, what: &'static str, value: usize) -> Self {
        Self { of: of.to_owned(), what, value: value as f64 }
    }
}

pub fn run(options: &Options) -> Result<()> {
    let files = files()?;
    let mut metrics = walks::count(&files)?;
    for folder in COUNTED {
        let inside: Vec<&File> =
            files.iter().filter(|file| file.path.starts_with(folder) && file.path.ends_with(".rs")).collect();
        metrics.extend(imports::count(folder, &inside));
        metrics.extend(functions::count(folder, &inside)?);
        metrics.extend(lines::count(folder, &inside));
    }
    let all: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    metrics.extend(lines::count("all Rust code", &all));
    metrics.push(lines::repeated("all Rust code", &all));
    metrics.push(Metric::new("all prose and names", "words that are given up", tidy::words_left(&files)?));
    if options.json {
        println!("{}", serde_json::to_string_pretty(&metrics)?);
    } else {
        for Metric { of, what, value } in &metrics {
            println!("{of:24} {value:9} {what}");
        }
    }
    Ok(())
}

//! `cargo xtask metrics`: measures of maintainability. Each is defined where it is counted.
mod docs;
mod exports;
mod functions;
mod imports;
mod lines;
mod walks;

use crate::files::{File, files};
use crate::tidy;
use anyhow::Result;
use serde::Serialize;

/// The libraries that users call, whose documentation is counted too.
const LIBRARIES: [&str; 4] =
    ["kernels-gpu/src/", "crates/phalanx/src/", "crates/simt/src/", "crates/gpu/src/"];
/// The programs that measure the libraries and maintain the repository.
const TOOLS: [&str; 2] = ["benches/src/", "xtask/src/"];

#[derive(clap::Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List the functions whose documentation is incomplete
    #[arg(long)]
    list: bool,
}

/// One count.
#[derive(Debug, PartialEq, Serialize)]
pub struct Metric {
    /// A folder, or the name of a walk.
    pub of: String,
    pub what: &'static str,
    pub value: f64,
    /// The counted items, where they are listed.
    #[serde(skip)]
    pub items: Vec<String>,
}

impl Metric {
    fn new(of: &str, what: &'static str, value: usize) -> Self {
        Self { of: of.to_owned(), what, value: value as f64, items: Vec::new() }
    }

    fn of_items(of: &str, what: &'static str, items: Vec<String>) -> Self {
        Self { value: items.len() as f64, items, ..Self::new(of, what, 0) }
    }
}

pub fn run(options: &Options) -> Result<()> {
    let files = files()?;
    let mut metrics = walks::count(&files)?;
    for folder in LIBRARIES.into_iter().chain(TOOLS) {
        let inside: Vec<&File> =
            files.iter().filter(|file| file.path.starts_with(folder) && file.path.ends_with(".rs")).collect();
        metrics.extend(imports::count(folder, &inside));
        let (signatures, documentation) = functions::count(folder, &inside)?;
        metrics.extend(signatures);
        metrics.extend(documentation.into_iter().filter(|_| LIBRARIES.contains(&folder)));
        metrics.extend(lines::count(folder, &inside));
    }
    let all: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    metrics.extend(lines::count("all Rust code", &all));
    metrics.push(lines::repeated("all Rust code", &all));
    metrics.push(Metric::new("all prose and names", "words that are given up", tidy::words_left(&files)?));
    if options.json {
        println!("{}", serde_json::to_string_pretty(&metrics)?);
    } else {
        for Metric { of, what, value, items } in &metrics {
            println!("{of:24} {value:9} {what}");
            items.iter().filter(|_| options.list).for_each(|item| println!("{:36}{item}", ""));
        }
    }
    Ok(())
}

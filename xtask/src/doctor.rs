//! `cargo xtask doctor`: reports the state of the machine, and how to obtain missing tools.
use crate::docs;
use crate::workspace::{cargo, device_crate, has_program, root, version};
use anyhow::{Result, bail};
use ptx_builder::{Ptxas, Toolchain};
use std::fs;
use std::path::Path;

/// Result of one check.
struct Finding {
    name: &'static str,
    /// Description of what was found, or advice.
    found: Result<String, String>,
    /// Whether the project requires it.
    is_needed: bool,
}

pub fn run() -> Result<()> {
    let findings = examine();
    for Finding { name, found, is_needed } in &findings {
        match found {
            Ok(what) => println!("ok       {name:18}{what}"),
            Err(remedy) if *is_needed => println!("MISSING  {name:18}{remedy}"),
            Err(remedy) => println!("without  {name:18}{remedy}"),
        }
    }
    let missing = findings.iter().filter(|finding| finding.is_needed && finding.found.is_err()).count();
    if missing > 0 {
        bail!("{missing} needed and missing");
    }
    Ok(())
}

fn examine() -> Vec<Finding> {
    let setup = |_| "run `cargo xtask setup`".to_owned();
    let needed = |name, found| Finding { name, found, is_needed: true };
    let optional = |name, found| Finding { name, found, is_needed: false };
    vec![
        needed("rustc", version("rustc").map_err(|_| "install Rust: https://rustup.rs".to_owned())),
        needed("cargo", version(cargo()).map_err(|_| "install Rust: https://rustup.rs".to_owned())),
        needed("C compiler", version("cc").map_err(|_| "install gcc or clang".to_owned())),
        needed(
            "device toolchain",
            Toolchain::discover(&device_crate()).map(|found| found.to_string()).map_err(setup),
        ),
        needed("ptxas", Ptxas::find(&root()).map(|found| found.path().display().to_string()).map_err(setup)),
        optional("cargo nextest", nextest()),
        optional("mdbook", mdbook()),
        optional("CUDA driver", driver()),
        optional("GPU", gpu()),
    ]
}

fn nextest() -> Result<String, String> {
    match has_program("cargo-nextest") {
        true => Ok("tests run in parallel processes".into()),
        false => Err("tests run by `cargo test`; `cargo install cargo-nextest` is faster".into()),
    }
}

fn mdbook() -> Result<String, String> {
    version("mdbook").map_err(|_| docs::MISSING.into())
}

/// Returns the path of the driver library that programs load on their first driver call.
fn driver() -> Result<String, String> {
    const FOLDERS: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
        "/usr/lib/wsl/lib",
    ];
    let mut files = FOLDERS.iter().map(|folder| Path::new(folder).join("libcuda.so.1"));
    let found = files.find(|path| path.exists()).map(|path| path.display().to_string());
    found.ok_or_else(|| "no libcuda.so.1: programs run on the emulator".into())
}

/// Returns whether programs may find a GPU on this machine.
pub fn may_have_gpu() -> bool {
    driver().is_ok() || gpu().is_ok()
}

/// Returns the GPUs that the kernel module reports.
fn gpu() -> Result<String, String> {
    let models = |folder: &str| {
        let folders = fs::read_dir(folder).into_iter().flatten().flatten();
        let texts = folders.filter_map(|gpu| fs::read_to_string(gpu.path().join("information")).ok());
        texts
            .filter_map(|text| {
                Some(text.lines().find_map(|line| line.strip_prefix("Model:"))?.trim().to_owned())
            })
            .collect()
    };
    match models("/proc/driver/nvidia/gpus") {
        found if !Vec::is_empty(&found) => Ok(found.join(", ")),
        _ => Err("none: `cargo xtask bundle` packs tests and benchmarks for a machine that has one".into()),
    }
}

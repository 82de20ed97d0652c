//! Builds a device crate and prints the resource needs of its kernels: `cargo run --example inspect --
//! kernels-gpu sm_90`.
use ptx_builder::{Arch, Error, PtxBuilder, Ptxas};
use std::path::Path;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| ".".to_owned());
    let arch = arguments.next().unwrap_or_else(|| Arch::Sm80.to_string());
    if let Err(error) = inspect(&folder, &arch) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn inspect(folder: &str, arch: &str) -> Result<(), Error> {
    let arch = arch.parse()?;
    let ptx = PtxBuilder::new(folder).arch(arch).build()?;
    println!("{}\n{}", ptx.path().display(), ptx.header());
    for entry in Ptxas::find(Path::new(folder))?.check(&ptx, arch)?.entries {
        println!("{:4} registers {:5} bytes local {}", entry.registers, entry.stack_bytes, entry.name);
    }
    Ok(())
}

//! Puts the kernels' PTX where the crate embeds it from: built from the sources beside this crate, or what
//! the package ships.
use ptx_builder::{Arch, Error, PtxBuilder};
use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(error) = find_ptx() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn find_ptx() -> Result<(), Error> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = |arch| -> Result<(), Error> {
        let builder = PtxBuilder::new(here.join("../../kernels-gpu")).arch(arch).shipped(here.join("ptx"));
        let ptx = builder.emit_rerun(true).build()?;
        println!("cargo:rustc-env=PHALANX_PTX_SM_{}={}", arch.number(), ptx.path().display());
        Ok(())
    };
    Arch::each(&[Arch::Sm80, Arch::Sm90], build).map(drop)
}

//! Compiles the device crate to PTX, for the feature `cuda`.
use ptx_builder::{Arch, PtxBuilder};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some() {
        // Later GPUs run PTX for sm_80, too.
        let build = PtxBuilder::new("kernels").arch(Arch::Sm80).emit_rerun(true).build();
        let ptx = build.unwrap_or_else(|error| panic!("{error}"));
        println!("cargo:rustc-env=OWN_KERNEL_PTX={}", ptx.path().display());
    }
}

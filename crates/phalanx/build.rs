//! Puts the kernels' PTX where the crate embeds it from: built from the sources beside this crate, or what
//! the package ships.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    if let Err(error) = ptx::find() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[cfg(feature = "cuda")]
mod ptx {
    use ptx_builder::{Arch, Error, PtxBuilder};
    use std::env;
    use std::path::Path;

    /// Features of `phalanx-kernels` whose kernels are files of their own, and the features of this package
    /// that need them.
    const PARTS: [(&str, &str); 13] = [
        ("hash-map", "HASH_MAP"),
        ("slab-alloc", "_SLAB_ALLOC"),
        ("slab-hash", "SLAB_HASH"),
        ("btree", "BTREE"),
        ("mvbtree", "MVBTREE"),
        ("skip-list", "SKIP_LIST"),
        ("primitives", "PRIMITIVES"),
        ("cache-table", "CACHE_TABLE"),
        ("tiered-map", "TIERED_MAP"),
        ("persistent-map", "PERSISTENT_MAP"),
        ("dynamic-graph", "DYNAMIC_GRAPH"),
        ("sharded-map", "SHARDED_MAP"),
        ("baselines", "VARIANTS"),
    ];

    /// Finds the PTX of all parts in use, and gives each path to the compiler.
    pub fn find() -> Result<(), Error> {
        let is_on = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
        let parts = PARTS.into_iter().filter(|(_, feature)| is_on(feature)).map(|(part, _)| part);
        let parts: Vec<_> = parts.collect();
        Arch::each(&[Arch::Sm80, Arch::Sm90], |arch| parts.iter().try_for_each(|part| find_part(part, arch)))
            .map(drop)
    }

    fn find_part(part: &str, arch: Arch) -> Result<(), Error> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let builder = PtxBuilder::new(here.join("../../kernels-gpu")).features([part, "variants"]);
        let builder = builder.arch(arch).shipped(here.join("ptx")).emit_rerun(true);
        let path = builder.locate()?;
        let name = part.to_uppercase().replace('-', "_");
        println!("cargo:rustc-env=PHALANX_PTX_{name}_SM_{}={}", arch.number(), path.display());
        let code = builder.locate_machine_code()?.unwrap_or_else(|| nothing().to_owned());
        println!("cargo:rustc-env=PHALANX_CODE_{name}_SM_{}={}", arch.number(), code.display());
        Ok(())
    }

    /// Returns the path of an empty file, for kernels without machine code.
    fn nothing() -> std::path::PathBuf {
        let path = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("nothing");
        std::fs::write(&path, []).expect("the folder of a build script can be written");
        path
    }
}

//! PTX of the kernels: its build, and the copies that the crate `phalanx` ships.
use crate::setup;
use crate::workspace::{device_crate, root};
use anyhow::{Context, Result, ensure};
use ptx_builder::{Arch, Ptx, PtxBuilder, Sources};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Architectures of the built PTX: the baseline, and the first with 128-bit atomics.
pub const BUILT: [Arch; 2] = [Arch::Sm80, Arch::Sm90];

/// Returns the folder of the packaged copies, which spare users of the package a compiler for PTX.
fn shipped_folder() -> PathBuf {
    root().join("crates/phalanx/ptx")
}

/// Builds the PTX for every architecture.
pub fn build() -> Result<Vec<Ptx>> {
    build_crate(&device_crate())
}

/// Builds the PTX of a device crate for every architecture.
pub fn build_crate(folder: &Path) -> Result<Vec<Ptx>> {
    let toolchain = setup::ensure_toolchain()?;
    let build = |arch: Arch| -> Result<Ptx> {
        let start = Instant::now();
        let ptx = PtxBuilder::new(folder).arch(arch).toolchain(toolchain.clone()).build()?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} kernels by rustc {}, {seconds:.1} s",
            arch,
            ptx.entries().count(),
            ptx.header().compiler
        );
        Ok(ptx)
    };
    Arch::each(&BUILT, build)
}

/// Copies the PTX to the folder of the packaged copies.
pub fn ship(built: &[Ptx]) -> Result<()> {
    copy(built, &shipped_folder())
}

/// Copies the PTX into a folder.
pub fn copy(built: &[Ptx], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for ptx in built {
        let name = ptx.path().file_name().context("a file has a name")?;
        fs::copy(ptx.path(), folder.join(name))?;
    }
    Ok(())
}

/// Fails if shipped PTX is out of date with the sources. Returns the number of files checked.
pub fn check_shipped() -> Result<usize> {
    check_fresh(&shipped_folder(), &Sources::of(&device_crate())?.hash()?)
}

fn check_fresh(folder: &Path, source: &str) -> Result<usize> {
    let Ok(files) = fs::read_dir(folder) else {
        return Ok(0);
    };
    let mut fresh = 0;
    for file in files {
        let path = file?.path();
        let ptx = Ptx::read(&path)?;
        let is_fresh = ptx.header().is_fresh(source, ptx.header().arch);
        ensure!(is_fresh, "{} is older than the kernels: run `cargo xtask build`", path.display());
        fresh += 1;
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_ptx_of_other_sources_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ptx = "// phalanx-ptx source=abc compiler=1.96.0 arch=sm_90\n.version 8.4\n";
        fs::write(folder.path().join("kernels.sm_90.ptx"), ptx).unwrap();
        assert_eq!(check_fresh(folder.path(), "abc").unwrap(), 1);
        assert!(check_fresh(folder.path(), "abd").unwrap_err().to_string().contains("cargo xtask build"));
    }

    #[test]
    fn shipped_ptx_without_a_header_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kernels.ptx"), ".version 8.4\n").unwrap();
        assert!(check_fresh(folder.path(), "abc").is_err());
    }

    #[test]
    fn nothing_shipped_is_nothing_stale() {
        assert_eq!(check_fresh(Path::new("/nonexistent"), "abc").unwrap(), 0);
    }
}

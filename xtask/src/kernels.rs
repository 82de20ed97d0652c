//! PTX of the kernels: its build, and the copies that the crate `phalanx` ships.
use crate::machine_code::Shipped;
use crate::setup;
use crate::workspace::{device_crate, root};
use anyhow::{Context, Result, ensure};
use ptx_builder::{Arch, Header, Ptx, PtxBuilder, Ptxas, Sources};
use rayon::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Architectures of the built PTX: the baseline, and the first with 128-bit atomics.
pub const BUILT: [Arch; 2] = [Arch::Sm80, Arch::Sm90];

/// The architecture whose packed PTX that of the other one continues. Devices of it unpack no more than that.
const FIRST: Arch = Arch::Sm90;

/// Features of the device crate that are not a part of the PTX of their own: `variants` adds to each part.
const NO_PARTS: [&str; 2] = ["default", "variants"];

/// Compression of the packaged copies.
const LEVEL: i32 = 22;

/// Binary logarithm of the distance in bytes at which a text may repeat that of another architecture: more
/// than the longest text has.
const WINDOW_LOG: u32 = 25;

/// An empty last block of a frame.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Returns the folder of the packaged copies, which spare users of the package a compiler for PTX.
fn shipped_folder() -> PathBuf {
    root().join("crates/phalanx/ptx")
}

/// Builds the PTX of every part for every architecture.
pub fn build() -> Result<Vec<Ptx>> {
    let (toolchain, parts) = (setup::ensure_toolchain()?, parts()?);
    let build = |arch: Arch| -> Result<Vec<Ptx>> {
        let start = Instant::now();
        let part = |part: &String| {
            let features = [part.as_str(), "variants"];
            let builder = PtxBuilder::new(device_crate()).features(features).arch(arch);
            Ok(builder.toolchain(toolchain.clone()).build()?)
        };
        let built = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
        let (kernels, seconds) = (count(&built), start.elapsed().as_secs_f64());
        eprintln!("{arch}: {kernels} kernels in {} parts, {seconds:.1} s", built.len());
        Ok(built)
    };
    Ok(Arch::each(&BUILT, build)?.into_iter().flatten().collect())
}

/// Returns the number of kernels.
fn count(built: &[Ptx]) -> usize {
    built.iter().map(|ptx| ptx.entries().count()).sum()
}

/// Returns the features of the device crate that are parts of the PTX.
fn parts() -> Result<Vec<String>> {
    let manifest: toml::Table = fs::read_to_string(device_crate().join("Cargo.toml"))?.parse()?;
    let features = manifest.get("features").and_then(toml::Value::as_table).context("[features]")?;
    Ok(features.keys().filter(|name| !NO_PARTS.contains(&name.as_str())).cloned().collect())
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

/// Packs the PTX unless the packaged copies are fresh.
pub fn ensure_shipped(ptxas: &Ptxas, built: &[Ptx]) -> Result<()> {
    if !check_shipped().is_ok_and(|fresh| fresh > built.len()) {
        ship(ptxas, built)?;
    }
    println!("{} files of packed PTX are fresh", check_shipped()?);
    Ok(())
}

/// Packs the PTX, and the machine code of some of its kernels, into the folder of the packaged copies.
/// Returns the number of files.
pub fn ship(ptxas: &Ptxas, built: &[Ptx]) -> Result<usize> {
    let folder = shipped_folder();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let compress = |bytes: &[u8]| zstd::bulk::compress(bytes, LEVEL).expect("memory for a frame");
    let write = |ptx: &Ptx, ending: &str, packed: Vec<u8>| -> Result<()> {
        let name = ptx.path().with_extension(ending);
        Ok(fs::write(folder.join(name.file_name().context("a file has a name")?), packed)?)
    };
    let (firsts, others): (Vec<_>, Vec<_>) = built.iter().partition(|ptx| ptx.header().arch == FIRST);
    firsts.par_iter().try_for_each(|first| {
        let mut same = others.iter().filter(|other| other.header().features == first.header().features);
        let second = same.next().context("each part is built for both architectures")?;
        let (frame, blocks) = compress_both(first.text(), second.text())?;
        write(first, "ptx.zst", first.pack(|_| frame))?;
        write(second, "ptx.zst", second.pack_after(first, &blocks))
    })?;
    let code = Shipped::read(&device_crate().join("machine_code.toml"))?.assemble(ptxas, built)?;
    code.par_iter().try_for_each(|(ptx, code)| write(ptx, "cubin.zst", code.pack(compress)))?;
    Ok(built.len() + code.len())
}

/// Returns a frame with the first text, and the blocks that continue it with the second one.
fn compress_both(first: &str, second: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.write_all(first.as_bytes())?;
    encoder.flush()?;
    let size = encoder.get_ref().len();
    encoder.write_all(second.as_bytes())?;
    let mut frame = encoder.finish()?;
    let blocks = frame.split_off(size);
    frame.extend(LAST_BLOCK);
    Ok((frame, blocks))
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
        let header = Header::of_packed(&path)?;
        let is_fresh = header.is_fresh(source, header.arch);
        ensure!(is_fresh, "{} is older than the kernels: run `cargo xtask package`", path.display());
        fresh += 1;
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_texts_are_one_frame_and_the_first_is_a_frame_of_its_own() {
        let line = |number: u32, word| format!("{word} {};\n", number.wrapping_mul(0x9e37_79b9));
        let [first, second]: [String; 2] =
            ["add", "mul"].map(|word| (0..100_000).map(|number| line(number, word)).collect());
        let (frame, blocks) = compress_both(&first, &second).unwrap();
        assert_eq!(zstd::decode_all(&frame[..]).unwrap(), first.as_bytes());
        assert!(blocks.len() < frame.len() / 4, "{} of {} bytes", blocks.len(), frame.len());
        let both = [&frame[..frame.len() - LAST_BLOCK.len()], &blocks].concat();
        assert_eq!(zstd::decode_all(&both[..]).unwrap(), (first + &second).as_bytes());
    }

    #[test]
    fn shipped_ptx_of_other_sources_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ptx = "// phalanx-ptx source=abc compiler=1.96.0 arch=sm_90 features=\n.version 8.4\n";
        fs::write(folder.path().join("kernels.sm_90.ptx.zst"), ptx).unwrap();
        assert_eq!(check_fresh(folder.path(), "abc").unwrap(), 1);
        assert!(check_fresh(folder.path(), "abd").unwrap_err().to_string().contains("cargo xtask package"));
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

//! `ptxas`: the assembler, which checks PTX and reports the resources of each kernel.
use crate::{Arch, Error, Ptx, Result, workspace_root};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the workspace into which `cargo xtask setup` unpacks an assembler.
const TOOLCHAIN: &str = ".toolchain";

/// An installed assembler.
#[derive(Clone, Debug)]
pub struct Ptxas {
    path: PathBuf,
}

/// Report of `ptxas` on one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryReport {
    /// Symbol of the kernel.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory for a thread's stack, including the functions that it calls.
    pub stack_bytes: u32,
    /// Bytes stored because of register spills.
    pub spill_store_bytes: u32,
    /// Bytes loaded because of register spills.
    pub spill_load_bytes: u32,
    /// Bytes of static shared memory per block.
    pub shared_bytes: u32,
}

impl EntryReport {
    /// Returns `true` if the kernel uses local memory, for a stack or for spills.
    pub fn uses_local_memory(&self) -> bool {
        self.stack_bytes + self.spill_store_bytes + self.spill_load_bytes > 0
    }
}

/// Report of `ptxas` on all kernels of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxasReport {
    /// Target architecture.
    pub arch: Arch,
    /// Reports of the kernels, sorted by symbol.
    pub entries: Vec<EntryReport>,
}

impl Ptxas {
    /// Finds an assembler in `PATH`, `$CUDA_HOME`, `$CUDA_PATH`, `/usr/local/cuda`, or `.toolchain` of the
    /// workspace that contains `folder`, in this order.
    ///
    /// # Errors
    /// [`Error::NoPtxas`] when there is none.
    pub fn find(folder: &Path) -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
        let toolkits = homes.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
        let toolchain = workspace_root(folder).unwrap_or_else(|| folder.to_owned()).join(TOOLCHAIN);
        let mut places = env::split_paths(&path).chain(toolkits).chain(unpacked(&toolchain));
        let found = places.find_map(|bin| Some(bin.join("ptxas")).filter(|path| path.is_file()));
        found.map(|path| Self { path }).ok_or(Error::NoPtxas { toolchain })
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Assembles `ptx` for `arch` and reports the resources of each kernel.
    ///
    /// # Errors
    /// [`Error::Assemble`] with the output of `ptxas` when it rejects the PTX; [`Error::Io`] when it cannot
    /// be started.
    pub fn check(&self, ptx: &Ptx, arch: Arch) -> Result<PtxasReport> {
        self.check_file(ptx.path(), arch)
    }

    /// As [`Ptxas::check`], for a file.
    ///
    /// # Errors
    /// As [`Ptxas::check`].
    pub fn check_file(&self, path: &Path, arch: Arch) -> Result<PtxasReport> {
        let name = arch.to_string();
        let mut command = Command::new(&self.path);
        command
            .args(["--verbose", "--warn-on-spills", "--gpu-name", &name, "--output-file", "/dev/null"])
            .arg(path);
        let output = command.output().map_err(Error::io(&self.path))?;
        let log =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(Error::Assemble { path: path.to_owned(), arch, log });
        }
        Ok(PtxasReport { arch, entries: parse(&log) })
    }
}

/// Returns the folders of unpacked wheels, such as `.toolchain/nvidia/cu13/bin`.
fn unpacked(toolchain: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let versions = fs::read_dir(toolchain.join("nvidia")).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin"))
}

fn parse(log: &str) -> Vec<EntryReport> {
    let mut entries: Vec<EntryReport> = Vec::new();
    // Properties of called functions appear between those of entries.
    let mut is_entry = false;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            entries.push(EntryReport { name, ..EntryReport::default() });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            is_entry = entries.last().is_some_and(|entry| entry.name == name.trim());
        } else if let (true, Some(entry)) = (is_entry, entries.last_mut()) {
            read_properties(entry, line);
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn read_properties(entry: &mut EntryReport, line: &str) {
    if line.contains("bytes stack frame") {
        entry.stack_bytes = before(line, " bytes stack frame");
        entry.spill_store_bytes = before(line, " bytes spill stores");
        entry.spill_load_bytes = before(line, " bytes spill loads");
    } else if line.contains("Used ") {
        entry.registers = before(line, " registers");
        // Including the stack of called functions.
        entry.stack_bytes = entry.stack_bytes.max(before(line, " bytes cumulative stack size"));
        entry.shared_bytes = before(line, " bytes smem");
    }
}

/// Returns the number before `unit`, or 0.
fn before(line: &str, unit: &str) -> u32 {
    let number = |(head, _): (&str, &str)| head.rsplit([' ', ',']).next()?.parse().ok();
    line.split_once(unit).and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'tiles' for 'sm_90'
ptxas info    : Function properties for tiles
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 22 registers, used 1 barriers, 48 bytes cumulative stack size, 256 bytes smem
ptxas info    : Compile time = 9.851 ms
ptxas info    : Function properties for site
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'fill' for 'sm_90'
ptxas info    : Function properties for fill
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
";

    #[test]
    fn a_report_is_read_from_what_ptxas_prints() {
        let [fill, tiles] = &parse(LOG)[..] else { panic!("two entries") };
        assert_eq!((fill.name.as_str(), fill.registers, fill.uses_local_memory()), ("fill", 10, false));
        let expected = EntryReport {
            name: "tiles".into(),
            registers: 22,
            stack_bytes: 48,
            spill_store_bytes: 8,
            spill_load_bytes: 4,
            shared_bytes: 256,
        };
        assert_eq!(*tiles, expected);
        assert!(tiles.uses_local_memory());
    }
}

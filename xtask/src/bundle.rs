//! `cargo xtask bundle`: packs programs and tests, each with its PTX, for a GPU machine without Rust.
use crate::workspace::{cargo, root, shell};
use crate::{bench, kernels};
use anyhow::{Context, Result, ensure};
use ptx_builder::Arch;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use xshell::cmd;

/// Maximum size of the archive, which is sent over networks.
const LARGEST: u64 = 40 << 20;

/// Script that runs the tests on the target machine.
const RUN_TESTS: &str = include_str!("bundle/run-tests.sh");

/// Name of the archive.
const ARCHIVE: &str = "phalanx.tar.xz";

/// Options of `xz`. Every program contains the same PTX as text, so the dictionary must reach far back.
const XZ_OPTIONS: &str = "-1 --lzma2=preset=1,dict=256MiB";

/// Script that unpacks the archive to a folder, or next to itself.
const UNPACK: &str = include_str!("bundle/unpack.sh");

/// Data that programs search for in `$PHALANX_BUNDLE` or next to themselves, and sources in which tests plant
/// faults: the path in the repository, and the name in the bundle.
const DATA: [(&str, &str); 2] = [("benches/suites", "suites"), ("kernels-gpu/src", "kernels-gpu/src")];

/// File in the bundle with the commit that it was built from. The benchmarks copy it to their records.
const COMMIT: &str = "commit";

/// Part of the names of tests that need a GPU: `run-tests.sh` runs these tests.
const NEEDS_GPU: &str = "cuda";

/// Tests that take the device which `PHALANX_DEVICE` names: `run-tests.sh` runs all tests of these programs
/// on the GPU.
const BY_DEVICE: [&str; 7] = [
    "cache_table", "dynamic_graph", "graph_algorithms", "persistent_map", "sharded_map", "tiered_map",
    "tiered_skip_list",
];

/// Device crate of kernels for tests, which search for their PTX in the folder `test-ptx` of
/// `$PHALANX_BUNDLE`.
const TEST_KERNELS: &str = "crates/phalanx/tests/device-crate";

/// Architecture of these tests: every GPU accepts the baseline's PTX.
const TEST_ARCH: Arch = Arch::Sm80;

/// Programs that a bundle has unless others are named.
const PROGRAMS: [&str; 4] = ["phalanx-bench", "kmer-count", "metagenomics", "embedding-cache"];

#[derive(clap::Args)]
pub struct Options {
    /// Packages whose tests to pack
    #[arg(long = "tests", value_name = "PACKAGE", default_values = ["phalanx-gpu", "phalanx"])]
    packages: Vec<String>,
    /// Programs to pack
    #[arg(long = "program", value_name = "PACKAGE", default_values = PROGRAMS)]
    programs: Vec<String>,
}

/// Flag of cargo that prints messages for [`executables`].
pub const TOLD: &str = "--message-format=json-render-diagnostics";

/// Line of `cargo --message-format=json`.
#[derive(Default, Deserialize)]
pub struct Message {
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    profile: Profile,
}

#[derive(Default, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Default, Deserialize)]
struct Target {
    name: String,
    #[serde(default)]
    src_path: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let bundle = root().join("target/bundle-contents");
    let _ = fs::remove_dir_all(&bundle);
    fs::create_dir_all(bundle.join("tests/by-device"))?;
    let mut test_kernels = kernels::build_crate(&root().join(TEST_KERNELS))?;
    test_kernels.retain(|ptx| ptx.header().arch == TEST_ARCH);
    kernels::copy(&test_kernels, &bundle.join("test-ptx"))?;
    let has_benchmarks = options.programs.iter().any(|package| package == "phalanx-bench");
    let structures = if has_benchmarks { bench::all_structures() } else { String::new() };
    // Programs do without the emulator, which a GPU machine does not need.
    let cuda = ["--no-default-features", "--features", &format!("cuda,{structures}")];
    for message in built("build", &options.programs, &[&["--bins"], &cuda[..]].concat())? {
        install(&message, &bundle.join(&message.target.name))?;
    }
    for message in built("test", &options.packages, &["--no-run", "--lib", "--tests", "--all-features"])? {
        // Programs that tests start are built as well.
        if !message.profile.test {
            continue;
        }
        if BY_DEVICE.contains(&message.target()) {
            install(&message, &bundle.join("tests/by-device").join(message.test_name()))?;
        } else if has_gpu_tests(message.executable()?)? {
            install(&message, &bundle.join("tests").join(message.test_name()))?;
        }
    }
    copy_data(&bundle)?;
    write_commit(&bundle.join(COMMIT))?;
    write_script(&bundle.join("run-tests.sh"), RUN_TESTS)?;
    pack(&bundle, &root().join("bundle"))
}

/// Packs the contents into an archive, with a script that unpacks it. Requires the program `xz`.
fn pack(contents: &Path, bundle: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(bundle);
    fs::create_dir_all(bundle)?;
    let (shell, archive) = (shell()?, bundle.join(ARCHIVE));
    cmd!(shell, "tar --create --xz --file {archive} --directory {contents} .")
        .env("XZ_OPT", XZ_OPTIONS)
        .run()?;
    write_script(&bundle.join("unpack.sh"), UNPACK)?;
    let (packed, unpacked) = (size(bundle)?, size(contents)?);
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{}: {:.1} MiB, {:.1} unpacked", bundle.display(), mebibytes(packed), mebibytes(unpacked));
    ensure!(packed < LARGEST, "the bundle is larger than {} MiB: it would not travel", LARGEST >> 20);
    Ok(())
}

impl Message {
    /// Returns the name of a test: `gpu-launch` for the test `launch` of the package `phalanx-gpu`, `gpu` for
    /// its unit tests.
    fn test_name(&self) -> String {
        // `path+file:///folder/phalanx#0.1.0`, or `path+file:///folder/gpu#phalanx-gpu@0.1.0`
        let (folder, name) = self.package_id.rsplit_once('#').unwrap_or_default();
        let package = name
            .split_once('@')
            .map_or_else(|| folder.rsplit('/').next().unwrap_or_default(), |(name, _)| name);
        let package = package.strip_prefix("phalanx-").unwrap_or(package);
        let target = &self.target.name;
        if package.replace('-', "_") == *target { package.to_owned() } else { format!("{package}-{target}") }
    }

    pub fn executable(&self) -> Result<&Path> {
        self.executable.as_deref().context("an executable")
    }

    /// Returns the name of the target.
    pub fn target(&self) -> &str {
        &self.target.name
    }

    /// Returns the path of the source file that the target begins at.
    pub fn source(&self) -> &Path {
        &self.target.src_path
    }

    #[cfg(test)]
    pub fn of_source(path: &Path) -> Self {
        Self { target: Target { src_path: path.to_owned(), ..Default::default() }, ..Default::default() }
    }
}

/// Builds the executables of some packages, optimized and without debug information.
fn built(command: &str, packages: &[String], flags: &[&str]) -> Result<Vec<Message>> {
    let (shell, cargo) = (shell()?, cargo());
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let build = cmd!(shell, "{cargo} {command} --profile bundle {TOLD} {flags...}");
    executables(&build.args(packages).read()?)
}

/// Returns cargo's messages about executables.
pub fn executables(messages: &str) -> Result<Vec<Message>> {
    let messages = messages.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    let messages = messages.collect::<Result<Vec<Message>, _>>().context("cargo's messages")?;
    Ok(messages.into_iter().filter(|message| message.executable.is_some()).collect())
}

/// Returns whether a test program has tests that need a GPU.
fn has_gpu_tests(program: &Path) -> Result<bool> {
    let shell = shell()?;
    let list = cmd!(shell, "{program} {NEEDS_GPU} --list").read()?;
    Ok(list.lines().any(|line| line.ends_with(": test")))
}

fn install(message: &Message, to: &Path) -> Result<()> {
    let from = message.executable()?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

/// Writes the commit for the records, if the sources are in a git repository.
fn write_commit(path: &Path) -> Result<()> {
    match commit()? {
        Some(commit) => fs::write(path, commit + "\n")?,
        None => println!("no git here: set PHALANX_COMMIT where the benchmarks run"),
    }
    Ok(())
}

/// Returns `<hash>`, or `<hash>-dirty` if tracked files differ from the commit. Changed records of earlier
/// runs are ignored, because they do not affect the build.
pub fn commit() -> Result<Option<String>> {
    let shell = shell()?;
    let Ok(commit) = cmd!(shell, "git rev-parse HEAD").read() else { return Ok(None) };
    let changes = cmd!(shell, "git status --porcelain --untracked-files=no -- . :!docs/results").read()?;
    Ok(Some(commit_text(&commit, &changes)))
}

fn commit_text(commit: &str, changes: &str) -> String {
    format!("{commit}{}", if changes.is_empty() { "" } else { "-dirty" })
}

fn copy_data(bundle: &Path) -> Result<()> {
    let shell = shell()?;
    for (from, name) in DATA {
        if root().join(from).exists() {
            let to = bundle.join(name);
            fs::create_dir_all(to.parent().context("a folder of the bundle")?)?;
            cmd!(shell, "cp -r {from} {to}").run()?;
        }
    }
    Ok(())
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Returns the total size of all files in a folder, in bytes.
fn size(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        total += if entry.path().is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns cargo's message for a target, with or without an executable.
    fn message(package: &str, target: &str, executable: Option<&str>) -> String {
        let package = format!("path+file:///w/{package}");
        let target = serde_json::json!({ "name": target });
        serde_json::json!({ "package_id": package, "target": target, "executable": executable }).to_string()
    }

    #[test]
    fn executables_are_found_in_the_messages_of_cargo() {
        let messages = [
            message("crates/gpu#phalanx-gpu@0.1.0", "gpu", None),
            message("crates/gpu#phalanx-gpu@0.1.0", "gpu", Some("/t/gpu-1")),
            message("crates/gpu#phalanx-gpu@0.1.0", "launch", Some("/t/launch-1")),
            message("crates/phalanx#0.1.0", "phalanx", Some("/t/p")),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = executables(&messages.join("\n")).unwrap();
        let names: Vec<_> = found.iter().map(Message::test_name).collect();
        assert_eq!(names, ["gpu", "gpu-launch", "phalanx"]);
    }

    #[test]
    fn a_changed_tree_is_said_to_be_dirty() {
        assert_eq!(commit_text("abc", ""), "abc");
        assert_eq!(commit_text("abc", " M Cargo.toml"), "abc-dirty");
    }

    #[test]
    fn the_size_counts_folders_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/file"), [0; 10]).unwrap();
        fs::write(folder.path().join("file"), [0; 5]).unwrap();
        assert_eq!(size(folder.path()).unwrap(), 15);
    }
}

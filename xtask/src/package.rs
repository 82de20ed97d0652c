//! `cargo xtask package`: packs the crates as for the registry, and tries them as a user would.
use crate::workspace::{cargo, root, shell};
use crate::{kernels, setup};
use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};
use std::fs;
use std::path::{Path, PathBuf};
use xshell::cmd;

/// Stands in for a CUDA toolkit, as the README tells users.
const TOOLKIT: (&str, &str) = ("CUDA_LIBRARY_PATH", "/usr");

/// Maximum size of a packed crate, in bytes. The registry accepts 10 MiB.
const LARGEST: u64 = 8_000_000;

/// Maximum size of a program with PTX, stripped, in bytes.
const LARGEST_PROGRAM: u64 = 15_000_000;

const README: &str = include_str!("../../README.md");

#[derive(Default, clap::Args)]
pub struct Options {
    /// Build every packed crate in a folder of its own, without the workspace
    #[arg(long)]
    verify: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let ptxas = setup::ensure_ready()?.ptxas;
    let built = kernels::build()?;
    kernels::ensure_shipped(&ptxas, &built)?;
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    // Outside of the workspace, whose settings would apply below its folder.
    let folder = tempfile::Builder::new().prefix("phalanx-packages-").tempdir()?;
    let packages = pack(&metadata, folder.path())?;
    try_quick_start(&folder.path().join("quick-start"), &packages)?;
    if options.verify {
        packages.iter().try_for_each(|package| verify(package, &packages))?;
    }
    Ok(())
}

/// A packed crate that was unpacked.
struct Package {
    name: String,
    folder: PathBuf,
}

/// Packs all crates that are published, and unpacks each into a folder.
fn pack(metadata: &Metadata, folder: &Path) -> Result<Vec<Package>> {
    let (shell, cargo) = (shell()?, cargo());
    let (published, hidden): (Vec<_>, Vec<_>) =
        metadata.workspace_packages().into_iter().partition(|package| is_published(package));
    let excluded = hidden.iter().flat_map(|package| ["--exclude", package.name.as_str()]);
    cmd!(shell, "{cargo} package --workspace --no-verify --allow-dirty --quiet {excluded...}").run_echo()?;
    fs::create_dir_all(folder)?;
    let unpack = |package: &&cargo_metadata::Package| {
        let name = format!("{}-{}", package.name, package.version);
        let file = metadata.target_directory.join(format!("package/{name}.crate"));
        let bytes = fs::metadata(&file).with_context(|| file.to_string())?.len();
        println!("{name}.crate: {:.2} MB", bytes as f64 / 1e6);
        ensure!(bytes < LARGEST, "{name}.crate has {bytes} bytes, more than {LARGEST}");
        cmd!(shell, "tar --extract --gzip --file {file} --directory {folder}").run()?;
        Ok(Package { name: package.name.to_string(), folder: folder.join(name) })
    };
    published.iter().map(unpack).collect()
}

fn is_published(package: &cargo_metadata::Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// Returns the program of a new user: the first one of the README.
fn quick_start() -> Result<&'static str> {
    let program = README.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    Ok(program.context("the README has a program")?.0)
}

/// Builds the program of a new user from the packed crates: with the emulator, where it runs, and with CUDA,
/// where no PTX is compiled and the program is small.
fn try_quick_start(folder: &Path, packages: &[Package]) -> Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), quick_start()?)?;
    let (shell, cargo) = (shell()?.with_current_dir(folder), cargo());
    let target = folder.join("target");
    for (features, flags) in
        [("\"emulator\", \"hash-map\"", None), ("\"cuda\", \"hash-map\"", Some("--release"))]
    {
        let dependency =
            format!("phalanx = {{ version = \"*\", default-features = false, features = [{features}] }}");
        fs::write(folder.join("Cargo.toml"), manifest("quick-start", &dependency, packages))?;
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let build = cmd!(shell, "{cargo} build --quiet {flags...}").env("CARGO_TARGET_DIR", &target);
        build.env(TOOLKIT.0, TOOLKIT.1).run_echo()?;
    }
    let emulated = target.join("debug/quick-start");
    cmd!(shell, "{emulated}").run_echo()?;
    ensure!(!target.join("ptx").exists(), "PTX was compiled for a user of the packages");
    let program = target.join("release/quick-start");
    cmd!(shell, "strip {program}").run()?;
    let bytes = fs::metadata(&program)?.len();
    println!("program with CUDA: {:.2} MB", bytes as f64 / 1e6);
    ensure!(bytes < LARGEST_PROGRAM, "a program with CUDA has {bytes} bytes, more than {LARGEST_PROGRAM}");
    Ok(())
}

/// Returns the manifest of a program whose dependencies of this workspace are packed crates.
fn manifest(name: &str, dependencies: &str, packages: &[Package]) -> String {
    let line = |package: &Package| format!("{} = {{ path = {:?} }}\n", package.name, package.folder);
    let patches: String = packages.iter().map(line).collect();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\n{dependencies}\n\
         [patch.crates-io]\n{patches}[workspace]\n"
    )
}

/// Checks that a packed crate compiles without the workspace.
fn verify(package: &Package, packages: &[Package]) -> Result<()> {
    let folder = package.folder.with_file_name(format!("verify-{}", package.name));
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let dependency = format!("{} = \"*\"", package.name);
    fs::write(folder.join("Cargo.toml"), manifest("verify", &dependency, packages))?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let (shell, cargo) = (shell()?.with_current_dir(&folder), cargo());
    let target = package.folder.with_file_name("verify-target");
    println!("{}", package.name);
    let build = cmd!(shell, "{cargo} build --quiet").env("CARGO_TARGET_DIR", target);
    Ok(build.env(TOOLKIT.0, TOOLKIT.1).run_echo()?)
}

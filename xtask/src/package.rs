//! `cargo xtask package`: packs the crates as for the registry, and tries them as a user would.
use crate::workspace::{cargo, root, shell};
use crate::{kernels, setup};
use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};
use std::fs;
use std::path::{Path, PathBuf};
use xshell::cmd;

/// Maximum size of a packed crate, in bytes. The registry accepts 10 MiB.
const LARGEST: u64 = 8_000_000;

/// Maximum size of a program with PTX, stripped, in bytes.
const LARGEST_PROGRAM: u64 = 15_000_000;

/// Program of a new user.
const QUICK_START: &str = include_str!("package/quick_start.rs");

#[derive(Default, clap::Args)]
pub struct Options {
    /// Build every packed crate in a folder of its own, without the workspace
    #[arg(long)]
    verify: bool,
}

pub fn run(options: &Options) -> Result<()> {
    setup::ensure_ready()?;
    kernels::ship(&kernels::build()?)?;
    println!("{} files of packed PTX are fresh", kernels::check_shipped()?);
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec()?;
    let folder = root().join("target/packages");
    let _ = fs::remove_dir_all(&folder);
    let packages = unpack(&metadata, &pack(&metadata)?, &folder)?;
    try_quick_start(&folder.join("quick-start"), &packages)?;
    if options.verify {
        packages.iter().try_for_each(|package| verify(package, &packages))?;
    }
    Ok(())
}

/// Packs all crates that are published, and returns the files.
fn pack(metadata: &Metadata) -> Result<Vec<PathBuf>> {
    let (shell, cargo) = (shell()?, cargo());
    let hidden = metadata.workspace_packages().into_iter().filter(|package| !is_published(package));
    let excluded = hidden.flat_map(|package| ["--exclude".to_owned(), package.name.to_string()]);
    cmd!(shell, "{cargo} package --workspace --no-verify --allow-dirty --quiet {excluded...}").run_echo()?;
    let published = metadata.workspace_packages().into_iter().filter(|package| is_published(package));
    let file = |package: &cargo_metadata::Package| {
        let name = format!("package/{}-{}.crate", package.name, package.version);
        metadata.target_directory.join(name).into_std_path_buf()
    };
    published.map(|package| Ok(file(package))).collect()
}

fn is_published(package: &cargo_metadata::Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// A packed crate that was unpacked.
struct Package {
    name: String,
    folder: PathBuf,
}

/// Checks the sizes of packed crates, and unpacks each into a folder.
fn unpack(metadata: &Metadata, files: &[PathBuf], folder: &Path) -> Result<Vec<Package>> {
    fs::create_dir_all(folder)?;
    let shell = shell()?;
    let unpack = |file: &PathBuf| {
        let bytes = fs::metadata(file).with_context(|| file.display().to_string())?.len();
        let name = file.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
        println!("{name}.crate: {:.2} MB", bytes as f64 / 1e6);
        ensure!(bytes < LARGEST, "{name}.crate has {bytes} bytes, more than {LARGEST}");
        cmd!(shell, "tar --extract --gzip --file {file} --directory {folder}").run()?;
        let package = metadata
            .workspace_packages()
            .into_iter()
            .find(|package| format!("{}-{}", package.name, package.version) == name);
        let package = package.context("a package of the workspace")?.name.to_string();
        Ok(Package { name: package, folder: folder.join(name) })
    };
    files.iter().map(unpack).collect()
}

/// Builds the program of a new user from the packed crates: with the emulator, where it runs, and with CUDA,
/// where no PTX is compiled and the program is small.
fn try_quick_start(folder: &Path, packages: &[Package]) -> Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), QUICK_START)?;
    let (shell, cargo) = (shell()?.with_current_dir(folder), cargo());
    let target = folder.join("target");
    for (features, flags) in
        [("\"emulator\", \"hash-map\"", None), ("\"cuda\", \"hash-map\"", Some("--release"))]
    {
        let dependency =
            format!("phalanx = {{ version = \"*\", default-features = false, features = [{features}] }}");
        fs::write(folder.join("Cargo.toml"), manifest("quick-start", &dependency, packages))?;
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        cmd!(shell, "{cargo} build --quiet {flags...}").env("CARGO_TARGET_DIR", &target).run_echo()?;
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
    Ok(cmd!(shell, "{cargo} build --quiet").env("CARGO_TARGET_DIR", target).run_echo()?)
}

//! Prepares the machine: a compiler for PTX, and ptxas. All commands that need them call this module first.
use crate::workspace::{device_crate, has_program, root, shell};
use anyhow::{Context, Result, bail, ensure};
use ptx_builder::{Ptxas, Toolchain, pinned_channel};
use std::fs;
use std::path::{Path, PathBuf};
use xshell::cmd;

/// Tools that [`ensure_ready`] has found or installed.
pub struct Ready {
    pub toolchain: Toolchain,
    pub ptxas: Ptxas,
}

pub fn run() -> Result<()> {
    let ready = ensure_ready()?;
    println!("device toolchain  {}", ready.toolchain);
    println!("ptxas             {}", ready.ptxas.path().display());
    Ok(())
}

/// Returns the tools, installing those that are missing.
pub fn ensure_ready() -> Result<Ready> {
    ensure!(has_program("cc"), "no C compiler (cc), which Rust links with: install gcc or clang");
    Ok(Ready { toolchain: ensure_toolchain()?, ptxas: ensure_ptxas()? })
}

/// Returns a compiler for PTX, and installs one if necessary.
pub fn ensure_toolchain() -> Result<Toolchain> {
    let missing = match Toolchain::discover(&device_crate()) {
        Ok(toolchain) => return Ok(toolchain),
        Err(missing) => missing,
    };
    eprintln!("{missing}\n");
    let installed =
        if can_apt() { install_by_apt().or_else(|_| install_by_rustup()) } else { install_by_rustup() };
    installed
        .context("a compiler for PTX could not be installed; see above for the commands to run by hand")?;
    Ok(Toolchain::discover(&device_crate())?)
}

/// Returns whether this is Debian or a derivative, and the user may install packages.
fn can_apt() -> bool {
    let is_root = || shell().and_then(|shell| Ok(cmd!(shell, "id -u").read()?)).is_ok_and(|id| id == "0");
    has_program("apt-get") && Path::new("/etc/debian_version").exists() && is_root()
}

fn install_by_apt() -> Result<()> {
    let shell = shell()?;
    eprintln!("installing Debian's rustc-web, cargo-web and rust-web-src");
    cmd!(shell, "apt-get update").run_interactive()?;
    let install =
        cmd!(shell, "apt-get install --yes --no-install-recommends rustc-web cargo-web rust-web-src");
    Ok(install.env("DEBIAN_FRONTEND", "noninteractive").run_interactive()?)
}

fn install_by_rustup() -> Result<()> {
    ensure!(has_program("rustup"), "there is no rustup either: https://rustup.rs");
    let channel = pinned_nightly()?;
    eprintln!("installing the rustup toolchain {channel} with rust-src");
    let shell = shell()?;
    Ok(cmd!(shell, "rustup toolchain install {channel} --profile minimal --component rust-src")
        .run_interactive()?)
}

/// Returns the nightly toolchain that the device crate pins.
fn pinned_nightly() -> Result<String> {
    let folder = device_crate();
    pinned_channel(&folder).with_context(|| format!("{} pins no toolchain", folder.display()))
}

/// The wheel with ptxas. All drivers for CUDA 13 load the machine code of its version; 12 has no newer ones.
const PTXAS: &str = "nvidia-cuda-nvcc==13.0.88";

/// Returns ptxas, and downloads it if necessary.
pub fn ensure_ptxas() -> Result<Ptxas> {
    if let Ok(ptxas) = Ptxas::find(&root()) {
        return Ok(ptxas);
    }
    let folder = root().join(".toolchain");
    eprintln!("downloading ptxas (the wheel {PTXAS} of PyPI) to {}", folder.display());
    fs::create_dir_all(&folder)?;
    let python = python()?;
    let shell = shell()?.with_current_dir(&folder);
    cmd!(shell, "{python} -m pip download --quiet --no-deps --only-binary :all: {PTXAS}")
        .run_interactive()?;
    let wheel = downloaded(&folder)?;
    cmd!(shell, "{python} -m zipfile --extract {wheel} .").run()?;
    fs::remove_file(&wheel)?;
    make_executable(&folder)?;
    Ok(Ptxas::find(&root())?)
}

/// Returns a Python interpreter with pip.
fn python() -> Result<&'static str> {
    let shell = shell()?;
    let has_pip = |python: &&str| cmd!(shell, "{python} -m pip --version").output().is_ok();
    match ["python3", "python"].into_iter().find(has_pip) {
        Some(python) => Ok(python),
        None => bail!(
            "ptxas comes in a Python wheel and there is no pip: install python3-pip, or a CUDA toolkit and \
             set CUDA_HOME"
        ),
    }
}

fn downloaded(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut wheels =
        files.iter().map(fs::DirEntry::path).filter(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels.next().context("pip downloaded no wheel")
}

/// Makes ptxas executable, because unpacking by Python drops the permission.
fn make_executable(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for version in fs::read_dir(folder.join("nvidia"))? {
        let ptxas = version?.path().join("bin/ptxas");
        if ptxas.exists() {
            fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

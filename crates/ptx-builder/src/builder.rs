//! The build itself.
use crate::manifest::Manifest;
use crate::{Arch, Error, Header, Ptx, Result, Sources, Toolchain, ptx, workspace_root};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile of device code, given on the command line so that a device crate outside of this workspace
/// needs none of its own.
const PROFILE: [&str; 9] = [
    "inherits=\"release\"",
    "opt-level=3",
    "lto=\"fat\"",
    "codegen-units=1",
    "panic=\"abort\"",
    "debug=0",
    "debug-assertions=false",
    "overflow-checks=false",
    "strip=\"none\"",
];

/// Variables with these beginnings come from an outer cargo or rustup and mean another build.
const LEAKS: [&str; 3] = ["CARGO", "RUSTC", "RUSTDOC"];
/// Of those, the ones that say where packages are found.
const KEPT: [&str; 6] =
    ["CARGO_HOME", "CARGO_HTTP", "CARGO_NET", "CARGO_REGISTRIES", "CARGO_REGISTRY", "CARGO_TERM"];
const LEAKED: [&str; 12] = [
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "MAKEFLAGS",
    "MFLAGS",
    "TARGET",
    "HOST",
    "OUT_DIR",
    "OPT_LEVEL",
    "DEBUG",
    "PROFILE",
    "NUM_JOBS",
    "LLVM_PROFILE_FILE",
];

/// Builds a device crate to PTX.
///
/// The crate needs nothing special: it is a library for `nvptx64-nvidia-cuda`, `no_std`, whose kernels are
/// `extern "ptx-kernel"` functions (what `#[kernel]` makes).
#[derive(Clone, Debug)]
pub struct PtxBuilder {
    folder: PathBuf,
    arch: Arch,
    target: Option<PathBuf>,
    toolchain: Option<Toolchain>,
    shipped: Option<PathBuf>,
    rerun: bool,
}

impl PtxBuilder {
    /// Builds the crate in `folder` (absolute, or relative to the current folder: in a build script, to its
    /// own crate).
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            arch: Arch::Sm80,
            target: None,
            toolchain: None,
            shipped: None,
            rerun: false,
        }
    }

    /// For which architecture. The default is the baseline, [`Arch::Sm80`].
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// The folder for what is built. The default is `ptx` in the workspace's target folder.
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target = Some(folder.into());
        self
    }

    /// The toolchain to use. The default is what [`Toolchain::discover`] finds.
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// A folder that may hold PTX built before, for packages that ship it. It is taken when it is fresh, and
    /// when the device crate is not there (a package that came from a registry lies alone): then no compiler
    /// is needed.
    pub fn shipped(mut self, folder: impl Into<PathBuf>) -> Self {
        self.shipped = Some(folder.into());
        self
    }

    /// Whether to tell the cargo that runs the calling build script which files to watch.
    pub fn emit_rerun(mut self, emit: bool) -> Self {
        self.rerun = emit;
        self
    }

    /// Builds the PTX, or gives what an earlier call built when no source has changed since: then no compiler
    /// runs.
    ///
    /// Several processes may build at once, to the same folder as well: cargo's lock orders those that build
    /// for one architecture, and others have nothing in common.
    ///
    /// # Errors
    /// No toolchain; the crate does not compile; or its PTX calls functions that it does not define.
    pub fn build(&self) -> Result<Ptx> {
        let shipped = self.shipped_ptx();
        if let (Some(ptx), false) = (&shipped, self.folder.exists()) {
            return Ok(ptx.clone());
        }
        let manifest = Manifest::read(&self.folder)?;
        let sources = Sources::of(&self.folder)?;
        if self.rerun {
            emit_rerun(&sources);
        }
        let source = sources.hash()?;
        let target = self.target_dir_or_default(&manifest);
        let path = target.join(file_name(&manifest.name, self.arch));
        let mut known = shipped.into_iter().chain(Ptx::read(&path).ok());
        if let Some(fresh) = known.find(|ptx| ptx.header().is_fresh(&source, self.arch)) {
            return Ok(fresh);
        }
        let toolchain = self.toolchain.clone().map_or_else(|| Toolchain::discover(&self.folder), Ok)?;
        let text = self.compile(&manifest, &toolchain, &target)?;
        let header = Header { source, compiler: toolchain.version, arch: self.arch };
        publish(&path, &format!("{header}\n{text}"))?;
        Ptx::read(&path)
    }

    /// The PTX for the architecture in the folder of shipped ones. The device crate's name is not known when
    /// it is not there.
    fn shipped_ptx(&self) -> Option<Ptx> {
        let files = fs::read_dir(self.shipped.as_ref()?).ok()?.flatten().map(|file| file.path());
        let end = file_name("", self.arch);
        let mut named = files.filter(|path| path.to_string_lossy().ends_with(&end));
        named.find_map(|path| Ptx::read(&path).ok())
    }

    fn target_dir_or_default(&self, manifest: &Manifest) -> PathBuf {
        let workspace = || {
            env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).unwrap_or_else(|| {
                workspace_root(&manifest.folder).unwrap_or_else(|| manifest.folder.clone()).join("target")
            })
        };
        let target = self.target.clone().unwrap_or_else(|| workspace().join("ptx"));
        std::path::absolute(&target).unwrap_or(target)
    }

    /// Runs the compiler and gives the PTX, checked.
    fn compile(&self, manifest: &Manifest, toolchain: &Toolchain, target: &Path) -> Result<String> {
        fs::create_dir_all(target).map_err(Error::io(target))?;
        let assembly = target.join(format!("{}.{}.s", manifest.name, self.arch));
        self.run(&mut self.command(manifest, toolchain, target, &assembly), manifest)?;
        if !assembly.exists() {
            // Cargo found nothing to do, and what it once wrote was removed: another flag makes it work
            // again.
            let mut again = self.command(manifest, toolchain, target, &assembly);
            self.run(again.args(["--cfg", "again"]), manifest)?;
        }
        let text = fs::read_to_string(&assembly)
            .map_err(|_| Error::NoOutput { package: manifest.name.clone(), path: target.to_owned() })?;
        match ptx::unresolved(&text) {
            names if names.is_empty() => Ok(text),
            names => Err(Error::Unresolved { package: manifest.name.clone(), names }),
        }
    }

    fn command(&self, manifest: &Manifest, toolchain: &Toolchain, target: &Path, assembly: &Path) -> Command {
        let mut command = Command::new(&toolchain.cargo);
        clear_leaks(&mut command);
        command.current_dir(&manifest.folder);
        command.args(["rustc", "--lib", "--crate-type", "cdylib", "--profile", "ptx", "-Zbuild-std=core"]);
        command.args(["--target", "nvptx64-nvidia-cuda"]);
        command.args(
            PROFILE.iter().flat_map(|setting| ["--config".to_owned(), format!("profile.ptx.{setting}")]),
        );
        let root = workspace_root(&manifest.folder).unwrap_or_else(|| manifest.folder.clone());
        if root.join("Cargo.lock").exists() {
            command.arg("--locked");
        }
        // The text is the product: nothing is linked, so `true` serves as the linker.
        command.arg("--").arg(format!("--emit=asm={}", assembly.display()));
        command
            .env("RUSTC", &toolchain.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", target.join(self.arch.to_string()));
        command.env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_RUSTFLAGS", self.flags());
        command
    }

    /// Given to every crate of the device build: the compiler refuses mixed ones.
    fn flags(&self) -> String {
        let features = self.arch.target_features().map(|features| format!(" -Ctarget-feature={features}"));
        format!("-Ctarget-cpu={}{} -Clinker=true", self.arch, features.unwrap_or_default())
    }

    fn run(&self, command: &mut Command, manifest: &Manifest) -> Result<()> {
        let output = command.output().map_err(Error::io(command.get_program()))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Compile { package: manifest.name.clone(), arch: self.arch, log })
    }
}

/// `phalanx-kernels.sm_90.ptx`
fn file_name(package: &str, arch: Arch) -> String {
    format!("{package}.{arch}.ptx")
}

fn clear_leaks(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| text.starts_with(beginning));
        if LEAKED.contains(&&*text) || (begins(&LEAKS) && !begins(&KEPT)) {
            command.env_remove(&name);
        }
    }
}

fn emit_rerun(sources: &Sources) {
    for path in sources.watched() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// Writes the file in one step, so that nobody reads half of it.
fn publish(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    fs::write(&draft, text).map_err(Error::io(&draft))?;
    fs::rename(&draft, path).map_err(Error::io(path))
}

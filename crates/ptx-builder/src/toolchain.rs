//! Selection of the compiler that builds PTX: version 1.96 or later, with exactly its own library sources.
use crate::{Error, Result, manifest};
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest compiler whose nvptx back end supports everything that `simt` uses.
const OLDEST: (u32, u32) = (1, 96);

/// A compiler, its cargo, and their origin.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Path of the compiler.
    pub rustc: PathBuf,
    /// Path of its cargo.
    pub cargo: PathBuf,
    /// Version of the compiler: `1.96.0`, `1.97.0-nightly`.
    pub version: String,
    /// Origin of the toolchain.
    pub origin: Origin,
}

/// Origin of a device toolchain, the most preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The rustup nightly that the device crate pins.
    Pinned(String),
    /// A compiler of the operating system, with its sources from the same package.
    System,
    /// Another rustup nightly.
    Nightly(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned(name) => write!(f, "rustup, pinned: {name}"),
            Self::System => write!(f, "system"),
            Self::Nightly(name) => write!(f, "rustup: {name}"),
        }
    }
}

/// Locations to search for toolchains.
#[derive(Clone, Debug)]
pub struct Search {
    /// Folder of rustup's toolchains.
    pub toolchains: Option<PathBuf>,
    /// Folders that may hold the operating system's `rustc` and `cargo`. Proxies of rustup are skipped.
    pub system: Vec<PathBuf>,
}

impl Search {
    /// Returns the default locations: `$RUSTUP_HOME` or `~/.rustup`; `/usr/bin`, `/usr/local/bin` and the
    /// folders in `PATH`.
    pub fn from_env() -> Self {
        let rustup = env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| Some(env::home_dir()?.join(".rustup")));
        let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let system = usual.into_iter().chain(env::split_paths(&path)).collect();
        Self { toolchains: rustup.map(|home| home.join("toolchains")), system }
    }

    /// Returns the names and sysroots of rustup's nightlies, the newest name first.
    fn nightlies(&self) -> Vec<(String, PathBuf)> {
        let Some(entries) = self.toolchains.as_ref().and_then(|folder| fs::read_dir(folder).ok()) else {
            return Vec::new();
        };
        let named =
            entries.flatten().map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        let mut nightlies: Vec<_> = named.filter(|(name, _)| name.starts_with("nightly")).collect();
        nightlies.sort_by(|a, b| b.cmp(a));
        nightlies
    }

    /// Returns all locations to inspect, the most preferred first.
    fn candidates(&self, pinned: Option<&str>) -> Vec<(Origin, PathBuf)> {
        let is_pinned = |name: &str| pinned.is_some_and(|pinned| is_of_channel(name, pinned));
        let (first, others): (Vec<_>, Vec<_>) =
            self.nightlies().into_iter().partition(|(name, _)| is_pinned(name));
        let first = first.into_iter().map(|(name, root)| (Origin::Pinned(name), root.join("bin")));
        let system = self.system.iter().map(|folder| (Origin::System, folder.clone()));
        let others = others.into_iter().map(|(name, root)| (Origin::Nightly(name), root.join("bin")));
        first.chain(system).chain(others).collect()
    }
}

impl Toolchain {
    /// Finds the toolchain for the device crate in `folder`, in the locations that the environment names.
    ///
    /// The order of preference is: the rustup nightly that the crate's `rust-toolchain.toml` pins; the
    /// operating system's compiler; another nightly.
    ///
    /// # Errors
    /// [`Error::NoToolchain`] when none is suitable; it lists what was inspected and what to install.
    pub fn discover(folder: &Path) -> Result<Self> {
        Self::discover_in(folder, &Search::from_env())
    }

    /// As [`Toolchain::discover`], in the locations of `search`.
    ///
    /// # Errors
    /// As [`Toolchain::discover`].
    pub fn discover_in(folder: &Path, search: &Search) -> Result<Self> {
        let pinned = manifest::pinned_channel(folder);
        let mut rejected = Vec::new();
        for (origin, bin) in search.candidates(pinned.as_deref()) {
            match Self::inspect(origin, &bin) {
                Ok(Some(toolchain)) => return Ok(toolchain),
                Ok(None) => {}
                Err(reason) => rejected.push(format!("- {}: {reason}", bin.join("rustc").display())),
            }
        }
        rejected.dedup();
        let pinned = pinned.unwrap_or_else(|| "nightly".to_owned());
        Err(Error::NoToolchain { pinned, rejected: rejected.join("\n") })
    }

    /// Returns the toolchain in the folder `bin`; `None` if there is no compiler; an error if it is
    /// unsuitable.
    fn inspect(origin: Origin, bin: &Path) -> Result<Option<Self>, String> {
        let (rustc, cargo) = (bin.join("rustc"), bin.join("cargo"));
        if !rustc.exists() || is_proxy(&rustc) {
            return Ok(None);
        }
        let version = version(&rustc).ok_or("does not say its version")?;
        if !is_recent(&version) {
            return Err(format!("{version} is older than {}.{}", OLDEST.0, OLDEST.1));
        }
        if !cargo.exists() {
            return Err(format!("{version} has no cargo beside it"));
        }
        check_sources(&rustc, &version)?;
        Ok(Some(Self { rustc, cargo, version, origin }))
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} at {} ({})", self.version, self.rustc.display(), self.origin)
    }
}

/// Returns `true` if the folder `name` is the toolchain of a channel: it has the channel's name, followed by
/// the host's unless it is a user's link.
fn is_of_channel(name: &str, channel: &str) -> bool {
    let rest = name.strip_prefix(channel);
    // `nightly-2026-05-20-x86_64-unknown-linux-gnu` does not belong to the channel `nightly`.
    let is_host = |rest: &str| {
        rest.strip_prefix('-').is_some_and(|host| !host.starts_with(|c: char| c.is_ascii_digit()))
    };
    rest.is_some_and(|rest| rest.is_empty() || is_host(rest))
}

/// Returns `true` for a rustup proxy, which runs the toolchain that the folder or the environment selects,
/// never the one intended here.
fn is_proxy(rustc: &Path) -> bool {
    let real = rustc.canonicalize().unwrap_or_else(|_| rustc.to_owned());
    real.file_name().is_some_and(|name| name == "rustup") || rustc.with_file_name("rustup").exists()
}

fn version(rustc: &Path) -> Option<String> {
    let verbose = output(Command::new(rustc).arg("-vV"))?;
    verbose.lines().find_map(|line| line.strip_prefix("release: ")).map(str::to_owned)
}

fn output(command: &mut Command) -> Option<String> {
    let output =
        command.env_remove("RUSTUP_TOOLCHAIN").output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

fn is_recent(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

/// Checks that the library sources, from which the library is compiled, are the compiler's own.
fn check_sources(rustc: &Path, version: &str) -> Result<(), String> {
    let sysroot =
        output(Command::new(rustc).args(["--print", "sysroot"])).ok_or("does not say its sysroot")?;
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    if !sources.join("library/Cargo.lock").exists() {
        return Err(format!("{version} lacks its library sources ({})", sources.join("library").display()));
    }
    match fs::read_to_string(sources.join("src/version")) {
        // rustup's component has no such file; it always belongs to its compiler.
        Err(_) => Ok(()),
        Ok(of_sources) if version.starts_with(of_sources.trim()) => Ok(()),
        Ok(of_sources) => Err(format!("{version} has the library sources of {}", of_sources.trim())),
    }
}

#[cfg(test)]
mod tests;

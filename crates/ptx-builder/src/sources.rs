//! The sources of PTX, and their hash.
use crate::manifest::{Manifest, workspace_root};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the compiler invocation. Incremented when that changes, so that older PTX is no longer fresh.
const RECIPE: &str = "recipe 3\n";

/// The sources of a device crate and of its path dependencies: `Cargo.toml`, `build.rs` and all files under
/// `src`.
///
/// Folders that a crate lists as `[package.metadata.ptx] host-only = [..]` are excluded. Dependencies from a
/// registry are represented by their versions in the workspace's lock file.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Files by crate name, so that the hash does not depend on a crate's location.
    crates: BTreeMap<String, Vec<(String, PathBuf)>>,
    /// Dependencies from a registry, as `name version`.
    locked: BTreeSet<String>,
}

impl Sources {
    /// Finds the sources of the device crate in `folder`.
    ///
    /// # Errors
    /// [`Error::NotACrate`] or [`Error::Io`] when a manifest or a source folder cannot be read.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut sources = Self { crates: BTreeMap::new(), locked: BTreeSet::new() };
        let mut pending = vec![folder.to_owned()];
        while let Some(folder) = pending.pop() {
            let manifest = Manifest::read(&folder)?;
            if !sources.crates.contains_key(&manifest.name) {
                pending.extend(manifest.path_dependencies()?);
                sources.locked.extend(manifest.locked_dependencies());
                sources.crates.insert(manifest.name.clone(), files(&manifest)?);
            }
        }
        Ok(sources)
    }

    /// Returns the SHA-256 over names and contents, in hexadecimal. The same on every machine and in every
    /// folder.
    ///
    /// # Errors
    /// [`Error::Io`] when a source cannot be read.
    pub fn hash(&self) -> Result<String> {
        let mut hash = Sha256::new_with_prefix(RECIPE);
        for dependency in &self.locked {
            hash.update(format!("{dependency}\n"));
        }
        for (name, files) in &self.crates {
            for (relative, path) in files {
                let content = fs::read(path).map_err(Error::io(path))?;
                hash.update(format!("{name}/{relative} {}\n", content.len()));
                hash.update(content);
            }
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the paths that a build script watches: every file, the source folders, in which files may be
    /// added, and the lock file.
    pub fn watched(&self) -> impl Iterator<Item = PathBuf> {
        let files = self.crates.values().flatten().map(|(_, path)| path.clone());
        let manifests = files.clone().filter(|path| path.ends_with("Cargo.toml"));
        let folders = manifests.map(|manifest| manifest.with_file_name("src"));
        let lock = files.clone().find_map(|path| Some(workspace_root(path.parent()?)?.join("Cargo.lock")));
        files.chain(folders).chain(lock.filter(|lock| lock.exists()))
    }
}

/// Returns the files of one crate, with their relative paths, sorted.
fn files(manifest: &Manifest) -> Result<Vec<(String, PathBuf)>> {
    let host_only = manifest.host_only();
    let mut files = Vec::new();
    let mut pending = vec![manifest.folder.join("src")];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let path = entry.map_err(Error::io(&folder))?.path();
            match path.is_dir() {
                _ if host_only.contains(&path) => {}
                true => pending.push(path),
                false => files.push(path),
            }
        }
    }
    files.extend(
        ["Cargo.toml", "build.rs"]
            .map(|name| manifest.folder.join(name))
            .into_iter()
            .filter(|path| path.exists()),
    );
    let mut files: Vec<_> = files.into_iter().map(|path| (relative(&path, &manifest.folder), path)).collect();
    files.sort();
    Ok(files)
}

/// Returns `path` relative to `folder`, with slashes.
fn relative(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

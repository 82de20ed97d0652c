//! The relevant parts of a `Cargo.toml`: the package's name, its path dependencies, and its host-only
//! folders. They are read from the files, because `cargo metadata` would need a lock file and sometimes
//! network access.
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A crate's manifest and folder.
pub struct Manifest {
    pub folder: PathBuf,
    pub name: String,
    table: Table,
}

impl Manifest {
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("Cargo.toml");
        let table = table(&path)?;
        let name = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
        let Some(name) = name.map(str::to_owned) else {
            return Err(Error::NotACrate { path, reason: "it has no package.name".into() });
        };
        let folder = folder.canonicalize().map_err(Error::io(folder))?;
        Ok(Self { folder, name, table })
    }

    /// Returns the folders of the path dependencies (without dev-dependencies), whether specified in this
    /// manifest or inherited from the workspace.
    pub fn path_dependencies(&self) -> Result<Vec<PathBuf>> {
        let inherited = match workspace_root(&self.folder) {
            Some(root) => Some((table(&root.join("Cargo.toml"))?, root)),
            None => None,
        };
        let inherit = |name: &str| {
            let (table, root) = inherited.as_ref()?;
            Some(root.join(path_of(table.get("workspace")?.get("dependencies")?.get(name)?)?))
        };
        let folder = |(name, dependency): (&String, &Value)| match dependency.get("workspace") {
            Some(_) => inherit(name),
            None => Some(self.folder.join(path_of(dependency)?)),
        };
        Ok(self.dependency_tables().flatten().filter_map(folder).collect())
    }

    /// Returns the dependencies from elsewhere, each as `name version` for every version in the lock file.
    /// Returns none without a lock file.
    pub fn locked_dependencies(&self) -> Vec<String> {
        let root = workspace_root(&self.folder).unwrap_or_else(|| self.folder.clone());
        let lock = table(&root.join("Cargo.lock")).unwrap_or_default();
        let packages = || lock.get("package").and_then(Value::as_array).into_iter().flatten();
        let text = |package: &Value, key: &str| {
            package.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let versions = |name: &str| {
            let named =
                packages().filter(|package| text(package, "name") == name && package.get("source").is_some());
            named.map(|package| format!("{name} {}", text(package, "version"))).collect::<Vec<_>>()
        };
        let names = self
            .dependency_tables()
            .flatten()
            .map(|(key, dependency)| dependency.get("package").and_then(Value::as_str).unwrap_or(key));
        names.flat_map(versions).collect()
    }

    fn dependency_tables(&self) -> impl Iterator<Item = &Table> {
        let targets = self.table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
        let targets = targets.filter_map(Value::as_table);
        [&self.table].into_iter().chain(targets).flat_map(|table| {
            ["dependencies", "build-dependencies"].into_iter().filter_map(|key| table.get(key)?.as_table())
        })
    }

    /// Returns the files and folders of `[package.metadata.ptx] host-only = ["src/emulator"]`, which device
    /// builds do not read.
    pub fn host_only(&self) -> Vec<PathBuf> {
        let listed = || self.table.get("package")?.get("metadata")?.get("ptx")?.get("host-only")?.as_array();
        listed().into_iter().flatten().filter_map(Value::as_str).map(|path| self.folder.join(path)).collect()
    }
}

fn path_of(dependency: &Value) -> Option<&str> {
    dependency.get("path")?.as_str()
}

/// Returns the nearest folder, from `folder` upwards, whose `Cargo.toml` has a `[workspace]`.
pub fn workspace_root(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let is_root =
        |folder: &&Path| table(&folder.join("Cargo.toml")).is_ok_and(|table| table.contains_key("workspace"));
    folder.ancestors().find(is_root).map(Path::to_owned)
}

/// Returns `toolchain.channel` of the crate's `rust-toolchain.toml`, if that file exists.
pub fn pinned_channel(folder: &Path) -> Option<String> {
    let table = table(&folder.join("rust-toolchain.toml")).ok()?;
    Some(table.get("toolchain")?.get("channel")?.as_str()?.to_owned())
}

fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    text.parse().map_err(|error| Error::NotACrate { path: path.to_owned(), reason: format!("{error}") })
}

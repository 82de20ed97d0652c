//! Files of measured maps.
use super::items::{Key, Numbered, Value};
use super::run::load;
use super::table;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::PersistentMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, process};

/// File that is removed in the end.
#[derive(Debug)]
pub struct File(PathBuf);

impl File {
    /// Returns a path of a file that does not exist.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case's folder is no text.
    pub fn new(case: &Case) -> Result<Self> {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let shared = PathBuf::from("/dev/shm");
        let folder = match (case.params.contains_key("folder"), env::var_os("PHALANX_BENCH_FOLDER")) {
            (true, _) => case.text("folder")?.into(),
            (false, Some(folder)) => folder.into(),
            (false, None) if shared.is_dir() => shared,
            (false, None) => env::temp_dir(),
        };
        let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        Ok(Self(folder.join(format!("phalanx-bench-{}-{number}.map", process::id()))))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // The file may never have been created.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns a map for `pairs` pairs; with a file, if the case has a `durability`.
///
/// # Errors
/// Returns [`anyhow::Error`] when parameters are invalid, or the machine lacks the memory.
pub fn new<K: Key, V: Value>(gpu: &Gpu, case: &Case, pairs: usize) -> Result<PersistentMap<K, V>> {
    let builder = table::builder(gpu, case, pairs)?;
    if !case.params.contains_key("durability") {
        return Ok(builder.build()?);
    }
    // Removes the name when it is dropped. The map keeps the file.
    let file = File::new(case)?;
    Ok(builder.create(file.path())?)
}

/// Creates a file with a case's `pairs` pairs, at version 0, in its first epoch.
///
/// # Errors
/// Returns [`anyhow::Error`] when the file cannot be written, or the pairs do not fit.
pub fn create<K: Key, V: Value>(gpu: &Gpu, case: &Case, file: &File) -> Result<PersistentMap<K, V>> {
    let pairs = pair_count(case)?;
    let mut map = table::builder::<K, V>(gpu, case, pairs as usize)?.create(file.path())?;
    load(&mut map, &Numbered::new(case.seed), pairs)?;
    map.sync()?;
    Ok(map)
}

/// Returns the number of pairs of a case.
///
/// # Errors
/// Returns [`anyhow::Error`] when the case has none.
pub fn pair_count(case: &Case) -> Result<u32> {
    Ok(case.number("pairs")? as u32)
}

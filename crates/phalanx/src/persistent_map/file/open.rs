//! Names and locks: how a path becomes an open file of which this process is the only user.
use super::fault::FileFault;
use super::geometry::{BLOCK, HEAD};
use super::system::{self, Lock};
use super::volume::Volume;
use super::{Contents, Options, Source, holder};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// How often a path is opened again because another file has replaced it meanwhile.
const ATTEMPTS: usize = 16;

/// Creates a file under a name of its own, and links it to `path` when it is complete. So no process ever
/// sees a part of it, and the link succeeds for one of several.
pub fn create(path: &Path, options: &Options) -> Result<Volume<File>, FileFault> {
    match kind_of(path)? {
        Kind::Missing => {}
        Kind::File(_) => return Err(FileFault::Exists),
        Kind::Other(found) => return Err(FileFault::NotAFile { found }),
    }
    let ends_in_folder = path.as_os_str().as_encoded_bytes().last() == Some(&b'/');
    if path.file_name().is_none() || ends_in_folder {
        return Err(FileFault::NoName);
    }
    let name = Temporary(temporary(path));
    let file = create_new(&name.0)?;
    let volume = fill(file, options)?;
    std::fs::hard_link(&name.0, path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => FileFault::Exists,
        _ => FileFault::of_io("linking the new file to its path", BLOCK)(source),
    })?;
    drop(name);
    if let Err(fault) = sync_folder(path) {
        // This call has created the file, and its lock keeps others away.
        let _ = std::fs::remove_file(path);
        return Err(fault);
    }
    Ok(volume)
}

/// Writes the contents of a new file.
fn fill(file: File, options: &Options) -> Result<Volume<File>, FileFault> {
    lock(&file, Lock::Exclusive)?;
    let volume = Volume::format(file, options)?;
    holder::write(&volume.device).map_err(FileFault::of_io("writing the process's number", HEAD))?;
    Ok(volume)
}

/// A name that is removed when it is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // If it stays, it only takes room; nobody opens it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns a name beside `path` that no other process uses.
pub fn temporary(path: &Path) -> PathBuf {
    let id = u128::from_le_bytes(system::unique_id());
    path.with_file_name(format!("phalanx-{id:032x}.new"))
}

/// Creates a file that only its user can open.
fn create_new(path: &Path) -> Result<File, FileFault> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create_new(true).open(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => FileFault::ReadOnly,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileFault::NoFolder,
        _ => FileFault::of_io("creating", HEAD)(source),
    })
}

/// Opens and locks a file, and reads it.
pub fn open(path: &Path, options: &Options) -> Result<(Volume<File>, Contents), FileFault> {
    let file = open_locked(path, Lock::Exclusive)?;
    let (volume, contents) = Volume::open(file, options)?;
    holder::write(&volume.device).map_err(FileFault::of_io("writing the process's number", HEAD))?;
    Ok((volume, contents))
}

/// Opens a file, or creates it.
pub fn open_or_create(path: &Path, options: &Options) -> Result<(Volume<File>, Contents), FileFault> {
    match open(path, options) {
        Err(FileFault::Missing) => {}
        opened => return opened,
    }
    match create(path, options) {
        // Another process has created it meanwhile, and uses it.
        Err(FileFault::Exists) => open(path, options),
        created => created.map(|volume| {
            let (epoch, header) = (volume.epoch(), options.header.clone());
            (volume, Contents { epoch, source: Source::Epoch, header, damaged_superblock: None })
        }),
    }
}

/// Opens the file at a path and takes its lock. A file that has lost the path meanwhile is not meant.
pub fn open_locked(path: &Path, how: Lock) -> Result<File, FileFault> {
    for _ in 0..ATTEMPTS {
        let file = open_existing(path, how)?;
        lock(&file, how)?;
        if system::is_at(&file, path).map_err(FileFault::of_io("finding its path", 0))? {
            return Ok(file);
        }
    }
    Err(FileFault::InUse { process: None })
}

/// Opens a file that exists; for an exclusive lock, also for writing.
fn open_existing(path: &Path, how: Lock) -> Result<File, FileFault> {
    let writes = how == Lock::Exclusive;
    match kind_of(path)? {
        Kind::Missing => return Err(FileFault::Missing),
        Kind::Other(found) => return Err(FileFault::NotAFile { found }),
        Kind::File(metadata) if writes && metadata.permissions().readonly() => {
            return Err(FileFault::ReadOnly);
        }
        Kind::File(_) => {}
    }
    OpenOptions::new().read(true).write(writes).open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FileFault::Missing,
        io::ErrorKind::PermissionDenied if writes => FileFault::ReadOnly,
        _ => FileFault::of_io("opening", 0)(source),
    })
}

fn lock(file: &File, how: Lock) -> Result<(), FileFault> {
    match system::try_lock(file, how) {
        Ok(true) => Ok(()),
        Ok(false) => Err(FileFault::InUse { process: holder::read(file) }),
        Err(source) => Err(FileFault::Io { doing: "locking", source }),
    }
}

/// Item to which a path leads.
enum Kind {
    Missing,
    File(Metadata),
    Other(&'static str),
}

fn kind_of(path: &Path) -> Result<Kind, FileFault> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(kind_of_missing(path)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(FileFault::NoFolder),
        Err(source) => Err(FileFault::Io { doing: "finding it", source }),
        Ok(metadata) => Ok(kind_of_found(metadata)),
    }
}

fn kind_of_found(metadata: Metadata) -> Kind {
    match metadata.is_file() {
        true => Kind::File(metadata),
        false => Kind::Other(if metadata.is_dir() { "folder" } else { "device or pipe" }),
    }
}

/// Kind of an item that was not found. If there is one now that is no link, another process has created it
/// meanwhile.
fn kind_of_missing(path: &Path) -> Kind {
    match std::fs::symlink_metadata(path) {
        Err(_) => Kind::Missing,
        Ok(metadata) if metadata.is_symlink() => Kind::Other("link to nothing"),
        Ok(metadata) => kind_of_found(metadata),
    }
}

/// Gives a file the name of the open file `old`, which it replaces. Another file at this path stays.
pub fn replace(from: &Path, (old, to): (&File, &Path)) -> Result<(), FileFault> {
    let failed = FileFault::of_io("replacing the old file", 0);
    if !system::is_at(old, to).map_err(&failed)? {
        return Err(FileFault::Replaced);
    }
    std::fs::rename(from, to).map_err(failed)
}

/// Gives a file the owner and the permissions of another one.
pub fn copy_access(from: &File, to: &File) -> Result<(), FileFault> {
    system::copy_access(from, to).map_err(FileFault::of_io("copying the permissions", 0))
}

/// Makes the names in the folder of a file survive loss of power.
pub fn sync_folder(path: &Path) -> Result<(), FileFault> {
    system::sync_folder(path).map_err(FileFault::of_io("syncing its folder", 0))
}

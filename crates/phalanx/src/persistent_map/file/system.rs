//! What the file layer needs of the operating system: positions, space, locks, names and the boot id. On
//! systems other than Unix a persistent map cannot be created or opened: `try_lock` returns an error.
use std::fs::File;
use std::io;
use std::path::Path;

/// How a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Several readers have the lock.
    Shared,
    /// One user has the lock.
    Exclusive,
}

/// Reads bytes from a place in a file.
#[cfg(unix)]
pub fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Writes bytes to a place in a file.
#[cfg(unix)]
pub fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Takes the lock of an open file, which ends with the last handle, also if the process is killed. Returns
/// false if another handle has it.
#[cfg(unix)]
pub fn try_lock(file: &File, lock: Lock) -> io::Result<bool> {
    let kind = if lock == Lock::Shared { libc::LOCK_SH } else { libc::LOCK_EX };
    loop {
        // SAFETY: the call accesses no memory of the process, and the descriptor is open.
        let result = unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(file), kind | libc::LOCK_NB) };
        let error = io::Error::last_os_error();
        match error.kind() {
            _ if result == 0 => return Ok(true),
            io::ErrorKind::WouldBlock => return Ok(false),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Returns whether the path leads to the open file, and not to another one that has replaced it.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let of = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(of(found?) == of(file.metadata()?)),
    }
}

/// Returns whether no path leads to the open file any more.
#[cfg(unix)]
pub fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) == 0)
}

/// Returns whether there is a process with this number.
#[cfg(unix)]
pub fn is_alive(process: u32) -> bool {
    let Ok(process) = i32::try_from(process) else { return false };
    // SAFETY: signal 0 is sent to nobody; the call only checks the process.
    let result = unsafe { libc::kill(process, 0) };
    process > 0 && (result == 0 || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied)
}

/// Gives a file the owner, the group and the permissions of another one. Returns an error if the process may
/// not do that: it would take the file from its owner.
#[cfg(unix)]
pub fn copy_access(from: &File, to: &File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (wanted, found) = (from.metadata()?, to.metadata()?);
    let differs = |wanted: u32, found: u32| (wanted != found).then_some(wanted);
    let (user, group) = (differs(wanted.uid(), found.uid()), differs(wanted.gid(), found.gid()));
    if user.is_some() || group.is_some() {
        fchown(to, user, group)?;
    }
    to.set_permissions(wanted.permissions())
}

/// Returns the bytes of the disk that a file has.
#[cfg(unix)]
pub fn allocated(file: &File) -> io::Result<u64> {
    Ok(512 * std::os::unix::fs::MetadataExt::blocks(&file.metadata()?))
}

/// Makes the names in the folder of `path` survive loss of power.
#[cfg(unix)]
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Extends a file to `end`, from `start` on, with room for each byte. On error, the file has its old length,
/// and the disk its room.
pub fn allocate(file: &File, start: u64, end: u64) -> io::Result<()> {
    let len = file.metadata()?.len();
    if free_space(file).is_some_and(|free| end.saturating_sub(len) > free) {
        // Otherwise the disk would be full until the allocation fails.
        return Err(io::ErrorKind::StorageFull.into());
    }
    let allocated = match fill(file, start, end) {
        Ok(false) => extend(file, end),
        filled => filled.map(drop),
    };
    if allocated.is_err() {
        let _ = file.set_len(len);
    }
    allocated
}

/// Returns the bytes that the user may still take of the disk of a file; `None` if it does not say.
#[cfg(target_os = "linux")]
fn free_space(file: &File) -> Option<u64> {
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the descriptor is open, and the memory is that of the structure which the call fills.
    let result = unsafe { libc::fstatvfs(std::os::fd::AsRawFd::as_raw_fd(file), space.as_mut_ptr()) };
    // SAFETY: all bit patterns are valid, and each byte is 0 or was written by the call.
    let space = unsafe { space.assume_init() };
    (result == 0).then(|| space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free_space(_: &File) -> Option<u64> {
    None
}

/// Provides the parts of a file that the disk lacks, and extends the file if it ends before `end`. Returns
/// false if the file system cannot do that.
pub fn fill(file: &File, start: u64, end: u64) -> io::Result<bool> {
    match reserve(file, start, end) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        reserved => reserved.map(|()| true),
    }
}

/// Lets the file system reserve the bytes.
#[cfg(target_os = "linux")]
fn reserve(file: &File, start: u64, end: u64) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
    let (offset, len) = (start.try_into().map_err(too_large)?, (end - start).try_into().map_err(too_large)?);
    loop {
        // SAFETY: the call accesses no memory of the process, and the descriptor is open.
        let result = unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(file), 0, offset, len) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if result == 0 => return Ok(()),
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Err(io::ErrorKind::Unsupported.into()),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Extends a file by writing zeros, so that the disk has room for them.
fn extend(file: &File, end: u64) -> io::Result<()> {
    let (zeros, len) = (vec![0; 1 << 20], file.metadata()?.len());
    (len..end).step_by(zeros.len()).try_for_each(|offset| {
        let bytes = (end - offset).min(zeros.len() as u64) as usize;
        write_at(file, offset, &zeros[..bytes])
    })
}

/// Returns the id of the current run of the operating system; `None` if it has none.
pub fn boot_id() -> Option<[u8; 16]> {
    id_of(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

/// Returns 16 bytes that are the same for no two files.
pub fn unique_id() -> [u8; 16] {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").ok();
    random.and_then(|text| id_of(&text)).unwrap_or_else(|| {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut id = time.map_or(0, |time| time.as_nanos()).to_le_bytes();
        id[12..].copy_from_slice(&std::process::id().to_le_bytes());
        id
    })
}

/// Parses an id of 32 hexadecimal digits, with dashes.
fn id_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|&digit| digit != '-').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32).map(u128::to_be_bytes)
}

#[cfg(not(unix))]
mod other {
    use super::*;

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "persistent maps need Unix"))
    }

    pub fn read_at(_: &File, _: u64, _: &mut [u8]) -> io::Result<()> {
        unsupported()
    }

    pub fn write_at(_: &File, _: u64, _: &[u8]) -> io::Result<()> {
        unsupported()
    }

    pub fn try_lock(_: &File, _: Lock) -> io::Result<bool> {
        unsupported()
    }

    pub fn is_at(_: &File, _: &Path) -> io::Result<bool> {
        unsupported()
    }

    pub fn is_removed(_: &File) -> bool {
        false
    }

    pub fn is_alive(_: u32) -> bool {
        false
    }

    pub fn copy_access(_: &File, _: &File) -> io::Result<()> {
        unsupported()
    }

    pub fn allocated(_: &File) -> io::Result<u64> {
        unsupported()
    }

    pub fn sync_folder(_: &Path) -> io::Result<()> {
        unsupported()
    }
}

#[cfg(not(unix))]
pub use other::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read() {
        let id = id_of("00010203-0405-0607-0809-0a0b0c0d0e0f\n").unwrap();
        assert_eq!(id, std::array::from_fn(|index| index as u8));
        assert_eq!(id_of("00010203"), None);
        assert_ne!(unique_id(), unique_id());
    }

    #[test]
    fn writing_zeros_extends_a_file_and_keeps_its_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"abc").unwrap();
        extend(&file, 5000).unwrap();
        let mut bytes = vec![1; 5000];
        read_at(&file, 0, &mut bytes).unwrap();
        assert!(bytes.starts_with(b"abc") && bytes[3..].iter().all(|&byte| byte == 0));
    }
}

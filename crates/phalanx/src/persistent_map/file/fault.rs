//! Reasons why the file of a persistent map cannot be used.
use std::io;

/// The reason why the file of a persistent map cannot be used. [`Error::PersistentFile`](crate::Error) adds
/// the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// No file has this path.
    #[error("no such file: call `create` or `open_or_create`, or correct the path")]
    Missing,

    /// The folder of the file does not exist, or a part of the path is a file.
    #[error("its folder does not exist: create the folder, or correct the path")]
    NoFolder,

    /// The path has no name of a file.
    #[error("the path has no name of a file: add one")]
    NoName,

    /// `create` found a file.
    #[error("a file has this path already: call `open`, or choose another path")]
    Exists,

    /// The path is that of a folder, a device or a pipe.
    #[error("a file was requested, but the path is that of a {found}: pass the path of a file")]
    NotAFile {
        /// The kind of item at the path.
        found: &'static str,
    },

    /// The file, its folder or its file system is read-only.
    #[error("write access was requested, but it is read-only: change its permissions, or copy it")]
    ReadOnly,

    /// Another process, or another handle of this process, uses the file.
    #[error(
        "{} uses the file: drop its map or end the process first",
        user(.process)
    )]
    InUse {
        /// Number of the process that uses it, if the file says so.
        process: Option<u32>,
    },

    /// The open file has no name any more, or, for `compact`, its path names another file.
    #[error(
        "the path names another file by now, or none: move the open file back, or insert the pairs into \
         another map"
    )]
    Replaced,

    /// The operating system does not tell when it was started, so it is unknown whether the mapped part of
    /// the file is newer than its last epoch.
    #[error(
        "the operating system does not tell when it was started, so whether the mapped part of a file is \
         newer than its last epoch is unknown: make /proc/sys/kernel/random/boot_id readable, or free file \
         handles, and try again"
    )]
    BootId,

    /// The disk has too little room.
    #[error("the disk has no room for {bytes} more bytes: free some, or use another disk ({source})")]
    Full {
        /// Bytes to allocate or to write.
        bytes: u64,
        /// Error of the operating system.
        source: io::Error,
    },

    /// An operation of the operating system failed.
    #[error("{doing} failed: {source}; check the disk and the permissions")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },

    /// The file has another beginning.
    #[error(
        "expected the file of a persistent map, which begins with `PHXPERS`, found `{}`: correct the path",
        .found.escape_ascii()
    )]
    Magic {
        /// The first 8 bytes.
        found: [u8; 8],
    },

    /// A machine of the other byte order wrote the file.
    #[error("the file was written by a machine of the other byte order: read it there, and export it")]
    Endianness,

    /// Another version of the format.
    #[error(
        "format version {supported} expected, {found} found: open it with the version of Phalanx that wrote \
         it"
    )]
    Version {
        /// Version of the file.
        found: u32,
        /// The only version that this release reads and writes.
        supported: u32,
    },

    /// The structure has another layout.
    #[error(
        "a structure of layout {expected:016x} requested, one of layout {found:016x} found: open it with the \
         variant that created it (`Builder::variant`)"
    )]
    Layout {
        /// Hash of the requested layout.
        expected: u64,
        /// Hash of the file's layout.
        found: u64,
    },

    /// Keys or values of another type.
    #[error(
        "keys and values of types `{}` and `{}` requested, `{}` and `{}` found: open it with its types",
        .expected.0, .expected.1, .found.0, .found.1
    )]
    Types {
        /// Names of the requested types of key and value.
        expected: Box<(String, String)>,
        /// Names of the file's types of key and value.
        found: Box<(String, String)>,
    },

    /// Pages of another size.
    #[error(
        "pages of {expected} bytes requested, {found} found: open it with the parameters that created it"
    )]
    PageBytes {
        /// Requested bytes in a page.
        expected: u64,
        /// The file's bytes in a page.
        found: u64,
    },

    /// Another device owns the file.
    #[error(
        "device {} requested the file, but device {} owns it: open it there, or adopt it (`adopt(true)`)",
        hex(.expected),
        hex(.found)
    )]
    OtherDevice {
        /// Id of the requesting device.
        expected: [u8; 16],
        /// Id of the owner.
        found: [u8; 16],
    },

    /// The file is too short.
    #[error("{expected} bytes or more expected, {found} found: {}", truncated(*.found))]
    Truncated {
        /// Bytes that its superblock requires.
        expected: u64,
        /// Actual bytes.
        found: u64,
    },

    /// The disk lacks a part of the file, and the file system cannot allocate it.
    #[error(
        "{expected} bytes of the disk expected, {found} found: the file has holes, which kernels cannot \
         access; copy it without holes (`cp --sparse=never`)"
    )]
    Sparse {
        /// Bytes of the file.
        expected: u64,
        /// Bytes that the disk has.
        found: u64,
    },

    /// No superblock is valid.
    #[error("both superblocks are damaged ({first}; {second}): restore a copy of the file")]
    Superblocks {
        /// Damage of the first one.
        first: &'static str,
        /// Damage of the second one.
        second: &'static str,
    },

    /// The page table is damaged.
    #[error(
        "the page table of epoch {epoch} has checksum {found:08x}, expected {expected:08x}: restore a copy"
    )]
    Table {
        /// The last epoch.
        epoch: u64,
        /// Checksum in the superblock.
        expected: u32,
        /// Checksum of the table.
        found: u32,
    },

    /// A page is damaged.
    #[error(
        "page {index} of epoch {epoch} has checksum {found:08x}, expected {expected:08x}: restore a copy"
    )]
    Page {
        /// Number of the page.
        index: u64,
        /// The last epoch.
        epoch: u64,
        /// Checksum in the page table.
        expected: u32,
        /// Checksum of the page.
        found: u32,
    },

    /// An earlier `sync` failed so late that the disk may have its epoch or not.
    #[error("an earlier sync failed, and its epoch may be on the disk: drop the map and open the file again")]
    Uncertain,

    /// A number is beyond what a file has room for.
    #[error("{asked} {what} requested, from {least} to {most} are possible: change the parameter")]
    Bounds {
        /// Name of the items.
        what: &'static str,
        /// Requested number.
        asked: u64,
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },

    /// The host lacks memory.
    #[error("{bytes} bytes of host memory needed, {} free: use a machine with more memory", known(.free))]
    Memory {
        /// Needed bytes.
        bytes: u64,
        /// Free bytes, if the operating system reports them.
        free: Option<u64>,
    },
}

fn user(process: &Option<u32>) -> String {
    match *process {
        None => "process of unknown number".to_owned(),
        Some(own) if own == std::process::id() => format!("this process ({own})"),
        Some(other) => format!("process {other}"),
    }
}

fn truncated(found: u64) -> &'static str {
    match found {
        0 => "the file is empty; remove it, or restore a copy",
        _ => "the file was truncated; restore a copy",
    }
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(free: &Option<u64>) -> String {
    free.map_or("too few".into(), |free| free.to_string())
}

impl FileFault {
    /// Returns a conversion of an error of the operating system, in an operation on `bytes` bytes.
    pub(super) fn of_io(doing: &'static str, bytes: u64) -> impl Fn(io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        move |source| match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::Full { bytes, source },
            ReadOnlyFilesystem => Self::ReadOnly,
            _ => Self::Io { doing, source },
        }
    }
}

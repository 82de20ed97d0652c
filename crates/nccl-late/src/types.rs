//! Types of NCCL's C interface.
use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::ptr::null_mut;

/// The oldest supported version: the first in which a communicator of mode non-blocking can be finalized and
/// aborted while its initialisation is in progress.
pub const OLDEST: Version = Version { major: 2, minor: 18, patch: 0 };

/// Version of NCCL.
///
/// ```
/// use nccl_late::{OLDEST, Version};
///
/// let version = Version::from_code(22_807);
/// assert_eq!((version.to_string().as_str(), version > OLDEST), ("2.28.7", true));
/// assert_eq!(Version::from_code(2804).to_string(), "2.8.4"); // the encoding before 2.9
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch level.
    pub patch: u32,
}

impl Version {
    /// Decodes the number that `ncclGetVersion` returns. Before 2.9, the major version was multiplied by
    /// 1000, and since then by 10 000.
    pub fn from_code(code: u32) -> Self {
        let unit = if code < 10_000 { 1000 } else { 10_000 };
        Self { major: code / unit, minor: code % unit / 100, patch: code % 100 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Status that a function of NCCL returns. [`Library::describe`](crate::Library::describe) explains it.
///
/// ```
/// use nccl_late::Code;
///
/// assert!(Code::SUCCESS.is_success() && !Code::IN_PROGRESS.is_success());
/// assert_eq!(Code(3).to_string(), "status 3 of NCCL");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Code(pub c_int);

impl Code {
    /// The call has succeeded.
    pub const SUCCESS: Self = Self(0);
    /// The call goes on in the background, in a communicator of mode non-blocking.
    pub const IN_PROGRESS: Self = Self(7);

    /// Returns `true` for success.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} of NCCL", self.0)
    }
}

/// Number of bytes of an id.
const ID_BYTES: usize = 128;

/// Name of a communicator that is being made. One rank creates it
/// ([`Library::unique_id`](crate::Library::unique_id)) and passes it to the others, by a file, a pipe or
/// a launcher.
///
/// ```
/// use nccl_late::UniqueId;
///
/// let id = UniqueId::from_bytes([7; 128]);
/// assert_eq!(id.to_bytes(), [7; 128]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId([u8; ID_BYTES]);

impl UniqueId {
    /// Returns the id with the given bytes.
    pub fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn to_bytes(&self) -> [u8; ID_BYTES] {
        self.0
    }
}

/// Handle of a rank's communicator: a plain pointer, which does not free the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Communicator(pub *mut c_void);

// SAFETY: a handle may be passed between threads; the functions that take it state how it may be used.
unsafe impl Send for Communicator {}

/// Type of the elements of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum DataType {
    /// `ncclUint8`.
    U8 = 1,
    /// `ncclUint64`.
    U64 = 5,
}

/// `ncclConfig_t` as of 2.18: see the crate's documentation.
#[derive(Debug)]
#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cluster_size: c_int,
    min_blocks: c_int,
    max_blocks: c_int,
    network: *mut c_void,
    split_share: c_int,
}

impl Config {
    /// Marks a struct that was initialised.
    const MAGIC: c_uint = 0xcafe_beef;
    /// Marks a number that the caller leaves to NCCL.
    const UNDEFINED: c_int = c_int::MIN;

    /// Returns the options of a communicator of mode non-blocking; everything else is left to NCCL.
    pub fn non_blocking() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: Self::MAGIC,
            version: 10_000 * OLDEST.major + 100 * OLDEST.minor + OLDEST.patch,
            blocking: 0,
            cluster_size: Self::UNDEFINED,
            min_blocks: Self::UNDEFINED,
            max_blocks: Self::UNDEFINED,
            network: null_mut(),
            split_share: Self::UNDEFINED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_options_are_laid_out_as_nccl_reads_them() {
        assert_eq!((size_of::<Config>(), size_of::<UniqueId>(), align_of::<UniqueId>()), (48, 128, 1));
        let offsets = [
            offset_of!(Config, magic),
            offset_of!(Config, version),
            offset_of!(Config, blocking),
            offset_of!(Config, network),
            offset_of!(Config, split_share),
        ];
        assert_eq!(offsets, [8, 12, 16, 32, 40]);
        let config = Config::non_blocking();
        assert_eq!((config.size, config.version, config.blocking), (48, 21_800, 0));
    }

    #[test]
    fn versions_are_ordered_across_the_encodings() {
        let versions = [2804, 20_906, 21_705, 21_800, 22_807].map(Version::from_code);
        assert!(versions.is_sorted() && versions[2] < OLDEST && versions[3] == OLDEST);
    }
}

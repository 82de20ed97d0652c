//! Types of NCCL's C interface.
use std::ffi::{c_int, c_void};
use std::fmt;

/// The oldest supported version. Older ones were never tried.
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
    /// An earlier call still goes on in the background. Calls of a communicator of mode blocking, the only
    /// one that this crate makes, do not return it; its state may.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_laid_out_as_nccl_reads_them() {
        assert_eq!((size_of::<UniqueId>(), align_of::<UniqueId>()), (128, 1));
    }

    #[test]
    fn versions_are_ordered_across_the_encodings() {
        let versions = [2804, 20_906, 21_705, 21_800, 22_807].map(Version::from_code);
        assert!(versions.is_sorted() && versions[2] < OLDEST && versions[3] == OLDEST);
    }
}

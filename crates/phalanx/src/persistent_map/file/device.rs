//! The accesses to a file, as a trait: tests record them, replay a part of them, and let them fail.
use super::system;
use std::fs::File;
use std::io;

/// Memory that survives loss of power: a file, or in tests a record of its accesses.
///
/// The order of writes between two calls of [`sync`](Self::sync) is arbitrary, and after a loss of power any
/// part of them may be missing. A write may be torn at multiples of 512 bytes.
pub trait BlockDevice: std::fmt::Debug + Send + Sync {
    /// Reads bytes. Fewer bytes up to the end are an error of the kind `UnexpectedEof`.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes bytes.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all earlier writes survive loss of power.
    fn sync(&self) -> io::Result<()>;

    /// Returns the number of bytes.
    fn len(&self) -> io::Result<u64>;

    /// Extends the device to `end`, from `start` on, where it ends or which it has. The disk then has room
    /// for each byte. Existing bytes keep their values, others are 0.
    fn allocate(&self, start: u64, end: u64) -> io::Result<()>;

    /// Provides the parts of the device from `start` to `end` that the disk lacks. Returns false if the file
    /// system cannot do that.
    fn fill(&self, start: u64, end: u64) -> io::Result<bool>;

    /// Returns the bytes that the disk has.
    fn allocated(&self) -> io::Result<u64>;
}

impl BlockDevice for File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        system::read_at(self, offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        system::write_at(self, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn allocate(&self, start: u64, end: u64) -> io::Result<()> {
        system::allocate(self, start, end)
    }

    fn fill(&self, start: u64, end: u64) -> io::Result<bool> {
        system::fill(self, start, end)
    }

    fn allocated(&self) -> io::Result<u64> {
        system::allocated(self)
    }
}

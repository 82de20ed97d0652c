//! Untyped memory, freed on drop.
use crate::machine::Block;
use crate::{Device, Error, Result, Tier};
use memmap2::MmapMut;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// Bytes on a tier of a device.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    tier: Tier,
    bytes: usize,
    /// `None` for zero bytes.
    block: Option<Block>,
    /// Mapping of a file, on `Tier::File`.
    map: Option<MmapMut>,
    /// Whether another library owns the memory.
    is_foreign: bool,
}

// SAFETY: the pointers are valid in every thread, and this value alone owns the memory.
unsafe impl Send for Memory {}
// SAFETY: shared references only read the pointers.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(device: &Device, tier: Tier, bytes: usize) -> Result<Self> {
        if tier == Tier::File {
            return Err(Error::NeedsPath);
        }
        let allocate = || {
            let refused = |error: &Error| tracing::debug!(%error, %tier, bytes, "allocation failed");
            device.machine().allocate(tier, bytes).inspect_err(refused)
        };
        let block = if bytes == 0 { None } else { Some(allocate()?) };
        if let Some(block) = block.filter(|_| tier == Tier::Pinned) {
            device.pinned().add(block.host, bytes);
            device.copy_logs().visible().add(block.device, bytes);
        }
        Ok(Self { device: device.clone(), tier, bytes, block, map: None, is_foreign: false })
    }

    /// Wraps memory of another library, or returns the reason why it cannot be used.
    ///
    /// # Safety
    /// - As [`Device::wrap_memory`]; `bytes` is not 0.
    pub unsafe fn wrap(device: &Device, pointer: *mut u8, bytes: usize) -> Result<Result<Self, String>> {
        // SAFETY: the caller's obligations.
        let wrapped = unsafe { device.machine().wrap(pointer, bytes)? };
        let block = Some(Block { device: pointer, host: null_mut() });
        let (device, tier) = (device.clone(), Tier::Device);
        Ok(wrapped.map(|()| Self { device, tier, bytes, block, map: None, is_foreign: true }))
    }

    /// # Safety
    /// - Nothing else changes the file while the value lives.
    pub unsafe fn map(device: &Device, path: &Path, bytes: usize) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_owned(), bytes, source };
        let file = open(path, bytes).map_err(failed)?;
        // SAFETY: the caller's obligation.
        unsafe { Self::map_at(device, (&file, path), 0, bytes) }
    }

    /// # Safety
    /// - As [`Device::map_file_at`].
    pub unsafe fn map_at(
        device: &Device,
        (file, path): (&File, &Path),
        offset: u64,
        bytes: usize,
    ) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_owned(), bytes, source };
        let (device, tier, is_foreign) = (device.clone(), Tier::File, false);
        let mut memory = Self { device, tier, bytes, block: None, map: None, is_foreign };
        check_length(file, offset, bytes).map_err(failed)?;
        if bytes == 0 {
            return Ok(memory);
        }
        // SAFETY: the file has the bytes, and nothing else changes it (the caller's obligation).
        let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(bytes).map_mut(file) };
        let mut map = map.map_err(failed)?;
        let host = map.as_mut_ptr();
        // SAFETY: the bytes stay mapped until `drop`, which disowns them first.
        let adopted = unsafe { memory.device.machine().adopt(host, bytes) };
        let seen = adopted.map_err(|cause| Error::Register { path: path.to_owned(), cause })?;
        memory.device.copy_logs().visible().add(seen, bytes);
        memory.block = Some(Block { device: seen, host });
        memory.map = Some(map);
        Ok(memory)
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn tier(&self) -> Tier {
        self.tier
    }

    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the device address; null for zero bytes.
    pub fn pointer(&self) -> *mut u8 {
        self.block.map_or(null_mut(), |block| block.device)
    }

    /// Returns the host address.
    pub fn host(&self) -> Result<Option<NonNull<u8>>> {
        if !self.tier.is_host_visible() {
            return Err(Error::NotHostVisible { tier: self.tier });
        }
        Ok(self.block.and_then(|block| NonNull::new(block.host)))
    }

    /// Writes a mapped file's changes to disk.
    pub fn flush(&self) -> std::io::Result<()> {
        self.map.as_ref().map_or(Ok(()), MmapMut::flush)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(block) = self.block else { return };
        let machine = self.device.machine();
        if self.tier == Tier::Pinned {
            self.device.pinned().remove(block.host);
        }
        if matches!(self.tier, Tier::Pinned | Tier::File) {
            self.device.copy_logs().visible().remove(block.device);
        }
        // SAFETY: `self` owns the block; a file's block was adopted at `host`, and foreign memory wrapped.
        unsafe {
            match self.tier {
                _ if self.is_foreign => machine.unwrap(block.device),
                Tier::File => machine.disown(block.host),
                tier => machine.free(tier, block),
            }
        }
    }
}

/// Returns an error if a file ends before a part of it: an access beyond the end would end the process.
fn check_length(file: &File, offset: u64, bytes: usize) -> std::io::Result<()> {
    let (len, end) = (file.metadata()?.len(), offset.checked_add(bytes as u64));
    if end.is_some_and(|end| end <= len) {
        return Ok(());
    }
    let cause = format!("the file has {len} bytes, which is less than the part from {offset} on needs");
    Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, cause))
}

/// Opens or creates the file and extends it to at least `bytes` bytes.
fn open(path: &Path, bytes: usize) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if file.metadata()?.len() < bytes as u64 {
        file.set_len(bytes as u64)?;
    }
    Ok(file)
}

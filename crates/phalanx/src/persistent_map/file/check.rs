//! Verification of a file that no process uses.
use super::device::BlockDevice;
use super::fault::FileFault;
use super::superblock::{LayoutId, Working};
use super::system::Lock;
use super::volume::Volume;
use super::{Epoch, PersistentFile, open};
use crate::Result;
use std::fmt;
use std::path::Path;

/// Bytes of pages that are read at a time, unless a page has more.
const GRAIN: u64 = 8 << 20;

/// Properties of a file that [`check_file`] has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The last epoch.
    pub epoch: Epoch,
    /// Number of pages.
    pub pages: u64,
    /// Number of pages that a sync has written. The others are zeros.
    pub written_pages: u64,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Bytes of the file that are in use.
    pub file_bytes: u64,
    /// Layout and types.
    pub layout: LayoutId,
    /// Id of the device that owns the file.
    pub owner: [u8; 16],
    /// State of the mapped part, or `None` if the file has none.
    pub working: Option<Working>,
    /// Number of the superblock that is damaged, if one is. The other one is valid.
    pub damaged_superblock: Option<usize>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let working = match self.working {
            None => "none",
            Some(Working::Unused) => "not in use",
            Some(Working::InUse(_)) => "in use, or its process died",
            Some(Working::Closed(_)) => "closed",
        };
        let Self { epoch: Epoch(epoch), pages, written_pages, page_bytes, file_bytes, layout, .. } = self;
        let LayoutId { hash, key, value } = layout;
        writeln!(
            f,
            "epoch {epoch}: {written_pages} of {pages} pages of {page_bytes} bytes written, all valid"
        )?;
        writeln!(f, "{file_bytes} bytes; keys {key}, values {value}, layout {hash:016x}")?;
        write!(f, "owner {:032x}; working region: {working}", u128::from_be_bytes(self.owner))?;
        match self.damaged_superblock {
            Some(slot) => write!(f, "\nsuperblock {slot} is damaged; opening the file repairs it"),
            None => Ok(()),
        }
    }
}

/// Verifies a file that no process uses: superblocks, page table, and the checksum of each page of the last
/// epoch. Changes nothing. It needs no device and no types.
///
/// Cost: reads each page of the file once, and computes its checksum.
///
/// ```
/// use phalanx::{PersistentMap, persistent_map::check_file};
///
/// let path = std::env::temp_dir().join(format!("phalanx-check-{}", std::process::id()));
/// let map = PersistentMap::<u64, u64>::builder().capacity(100).create(&path)?;
/// assert!(map.insert(&[1], &[10])?.all_placed());
/// let epoch = map.sync()?;
/// drop(map);
/// assert_eq!(check_file(&path)?.epoch, epoch);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Errors
/// [`Error::PersistentFile`](crate::Error::PersistentFile): the file is damaged, in use, or cannot be read.
pub fn check_file(path: impl AsRef<Path>) -> Result<Report> {
    let path = path.as_ref();
    PersistentFile::named(path, open::open_locked(path, Lock::Shared).and_then(check))
}

/// Verifies the contents of a device.
pub fn check(device: impl BlockDevice) -> Result<Report, FileFault> {
    let (volume, damaged_superblock) = Volume::read(device)?;
    volume.check_all_pages()?;
    let (current, geometry) = (&volume.current, &volume.geometry);
    Ok(Report {
        epoch: volume.epoch(),
        pages: geometry.pages(),
        written_pages: (0..geometry.pages()).filter(|&page| volume.table.get(page).is_some()).count() as u64,
        page_bytes: geometry.page_bytes,
        file_bytes: geometry.end(),
        layout: current.layout.clone(),
        owner: current.owner,
        working: geometry.has_working.then_some(current.working),
        damaged_superblock,
    })
}

impl<D: BlockDevice> Volume<D> {
    /// Verifies the checksums of all pages.
    fn check_all_pages(&self) -> Result<(), FileFault> {
        let (pages, page_bytes) = (self.geometry.pages(), self.geometry.page_bytes);
        let step = pages.min((GRAIN / page_bytes).max(1));
        let mut bytes = vec![0; (step * page_bytes) as usize];
        (0..pages).step_by(step as usize).try_for_each(|first| {
            let part = step.min(pages - first) * page_bytes;
            self.load(first, &mut bytes[..part as usize])
        })
    }
}

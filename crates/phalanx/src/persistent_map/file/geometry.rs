//! Where the parts of a file lie.
//!
//! ```text
//! file   | superblock 0 | superblock 1 | holder | 0 | extent | extent | ...
//! extent | table A | table B | copies A of its pages | copies B | working region, if there is one
//! ```
//!
//! The head has 16 KiB, and each block 4 KiB. An extent is what the creation of the file or one call of
//! `grow` added, so growth moves nothing. The superblock lists the numbers of pages of the extents, from
//! which all places follow.
use super::fault::FileFault;
use std::ops::Range;

/// Bytes in a block.
pub const BLOCK: u64 = 4096;
/// Bytes before the first extent.
pub const HEAD: u64 = 4 * BLOCK;
/// First byte of the block that names the process which uses the file.
pub const HOLDER: u64 = 2 * BLOCK;
/// Bytes of an entry of a page table.
pub const ENTRY: u64 = 8;
/// Maximum number of extents.
pub const EXTENTS: usize = 64;
/// Maximum number of bytes in a page.
const MOST_PAGE_BYTES: u64 = 16 << 20;

/// A part of the working region: bytes of the file that kernels access while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte in the file, a multiple of 4096.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// First page of the region.
    pub page: u64,
}

/// Where the parts of a file lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub page_bytes: u64,
    /// Whether the file has a working region.
    pub has_working: bool,
    /// Number of pages of each extent.
    pub extents: Vec<u64>,
}

impl Geometry {
    /// Returns an error unless all places can be computed.
    pub fn check(&self) -> Result<(), FileFault> {
        let bounds = |what, asked, least, most| match (least..=most).contains(&asked) {
            true => Ok(()),
            false => Err(FileFault::Bounds { what, asked, least, most }),
        };
        bounds("bytes in a page", self.page_bytes, BLOCK, MOST_PAGE_BYTES)?;
        bounds("bytes beyond a multiple of 4096 in a page", self.page_bytes % BLOCK, 0, 0)?;
        bounds("extents", self.extents.len() as u64, 1, EXTENTS as u64)?;
        // Fewer than the bytes of an extent are no more than four times those of its pages.
        let most = i64::MAX as u64 / 4 / (EXTENTS as u64 * MOST_PAGE_BYTES);
        self.extents.iter().try_for_each(|&pages| bounds("pages", pages, 1, most))
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.extents.iter().sum()
    }

    /// Returns the bytes of one table of an extent.
    fn table_bytes(pages: u64) -> u64 {
        (pages * ENTRY).next_multiple_of(BLOCK)
    }

    /// Returns the bytes of an extent.
    fn extent_bytes(&self, pages: u64) -> u64 {
        let images = if self.has_working { 3 } else { 2 };
        2 * Self::table_bytes(pages) + images * pages * self.page_bytes
    }

    /// Returns the first byte of an extent.
    fn extent_at(&self, extent: usize) -> u64 {
        HEAD + self.extents[..extent].iter().map(|&pages| self.extent_bytes(pages)).sum::<u64>()
    }

    /// Returns the bytes of the file.
    pub fn end(&self) -> u64 {
        self.extent_at(self.extents.len())
    }

    /// Returns the pages of an extent.
    pub fn pages_of(&self, extent: usize) -> Range<u64> {
        let first = self.extents[..extent].iter().sum();
        first..first + self.extents[extent]
    }

    /// Returns the extent of a page, which must be below the number of pages.
    pub fn extent_of(&self, page: u64) -> usize {
        let mut end = 0;
        let after = |&pages: &u64| {
            end += pages;
            page < end
        };
        self.extents.iter().position(after).unwrap_or(self.extents.len() - 1)
    }

    /// Returns the first byte of a table of an extent.
    pub fn table_at(&self, extent: usize, table: u8) -> u64 {
        self.extent_at(extent) + u64::from(table) * Self::table_bytes(self.extents[extent])
    }

    /// Returns the first byte of a copy of a page.
    pub fn copy_at(&self, page: u64, copy: u8) -> u64 {
        let extent = self.extent_of(page);
        let pages = self.pages_of(extent);
        let copies = self.table_at(extent, 0) + 2 * Self::table_bytes(self.extents[extent]);
        let before = u64::from(copy) * self.extents[extent] + (page - pages.start);
        copies + before * self.page_bytes
    }

    /// Returns the working regions, one for each extent.
    pub fn working(&self) -> Vec<Region> {
        let region = |extent| {
            let (pages, end) = (self.pages_of(extent), self.extent_at(extent + 1));
            let bytes = (pages.end - pages.start) * self.page_bytes;
            Region { offset: end - bytes, bytes, page: pages.start }
        };
        let extents = if self.has_working { 0..self.extents.len() } else { 0..0 };
        extents.map(region).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte after the head belongs to exactly one part.
    #[test]
    fn parts_fill_the_file_and_do_not_overlap() {
        for has_working in [false, true] {
            let geometry = Geometry { page_bytes: 8192, has_working, extents: vec![3, 600, 1] };
            geometry.check().unwrap();
            let mut parts = Vec::new();
            for extent in 0..3 {
                let table = if extent == 1 { 2 * BLOCK } else { BLOCK };
                parts.extend([0, 1].map(|which| (geometry.table_at(extent, which), table)));
            }
            for page in 0..geometry.pages() {
                parts.extend([0, 1].map(|copy| (geometry.copy_at(page, copy), 8192)));
            }
            parts.extend(geometry.working().iter().map(|region| (region.offset, region.bytes)));
            parts.sort_unstable();
            let end = parts.iter().fold(HEAD, |end, &(start, bytes)| {
                assert_eq!(start, end);
                start + bytes
            });
            assert_eq!(end, geometry.end());
        }
    }

    #[test]
    fn wrong_geometries_are_refused() {
        let geometry = |page_bytes, extents| Geometry { page_bytes, has_working: true, extents };
        assert!(geometry(16 << 10, vec![1; EXTENTS]).check().is_ok());
        let wrong = [
            geometry(0, vec![1]),
            geometry(5000, vec![1]),
            geometry(32 << 20, vec![1]),
            geometry(4096, vec![]),
            geometry(4096, vec![0]),
            geometry(4096, vec![u64::MAX]),
            geometry(4096, vec![1; EXTENTS + 1]),
        ];
        for geometry in wrong {
            assert!(matches!(geometry.check(), Err(FileFault::Bounds { .. })), "{geometry:?}");
        }
        let most = i64::MAX as u64 / 4 / (EXTENTS as u64 * MOST_PAGE_BYTES);
        let largest = geometry(MOST_PAGE_BYTES, vec![most; EXTENTS]);
        assert!(largest.check().is_ok() && largest.end() <= i64::MAX as u64);
    }
}

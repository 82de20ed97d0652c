//! The page table: for each page, its checksum and which of its two copies is current.
//!
//! The file has two tables, A and B. A sync writes the one that is not current, of which only the blocks that
//! differ: those that this sync changes, and those that the sync before it changed in the other table.
use super::geometry::{BLOCK, ENTRY, Geometry};
use std::collections::BTreeSet;

/// Number of entries in a block.
const IN_BLOCK: u64 = BLOCK / ENTRY;
/// The page has contents.
const PRESENT: u32 = 2;

/// Entry of a page in the table. A page that was never written has none: it consists of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Checksum of the page.
    pub crc: u32,
    /// Which copy is current.
    pub copy: u8,
}

impl Entry {
    fn encode(self) -> [u8; ENTRY as usize] {
        (u64::from(self.crc) | u64::from(PRESENT | u32::from(self.copy)) << 32).to_le_bytes()
    }

    fn decode(bytes: [u8; ENTRY as usize]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes);
        let flags = (word >> 32) as u32;
        (flags & PRESENT != 0).then_some(Self { crc: word as u32, copy: (flags & 1) as u8 })
    }
}

/// Number of a block of a table: its extent, and its number in the tables of the extent.
pub type TableBlock = (usize, u64);

/// Blocks of a table in the file that differ from the current table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Perhaps all of them.
    All,
    /// These.
    Blocks(BTreeSet<TableBlock>),
}

/// The current page table, as it is encoded in the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<u8>,
}

impl Table {
    /// Takes encoded entries.
    pub fn of(entries: Vec<u8>) -> Self {
        Self { entries }
    }

    fn place(page: u64) -> std::ops::Range<usize> {
        let start = (page * ENTRY) as usize;
        start..start + ENTRY as usize
    }

    /// Returns the entry of a page; `None` if the page was never written.
    pub fn get(&self, page: u64) -> Option<Entry> {
        let mut bytes = [0; ENTRY as usize];
        bytes.copy_from_slice(&self.entries[Self::place(page)]);
        Entry::decode(bytes)
    }

    /// Replaces the entry of a page.
    pub fn set(&mut self, page: u64, entry: Option<Entry>) {
        let bytes = entry.map_or([0; ENTRY as usize], Entry::encode);
        self.entries[Self::place(page)].copy_from_slice(&bytes);
    }

    /// Adds pages that were never written, or removes pages.
    pub fn resize(&mut self, pages: u64) {
        self.entries.resize((pages * ENTRY) as usize, 0);
    }

    /// Returns the checksum of all entries.
    pub fn crc(&self) -> u32 {
        crc32fast::hash(&self.entries)
    }

    /// Returns the bytes of a block of the table.
    pub fn block(&self, geometry: &Geometry, (extent, block): TableBlock) -> Vec<u8> {
        let pages = geometry.pages_of(extent);
        let first = pages.start + block * IN_BLOCK;
        let end = pages.end.min(first + IN_BLOCK);
        let mut bytes = self.entries[(first * ENTRY) as usize..(end * ENTRY) as usize].to_vec();
        bytes.resize(BLOCK as usize, 0);
        bytes
    }
}

/// Returns the block that has the entry of a page.
pub fn block_of(geometry: &Geometry, page: u64) -> TableBlock {
    let extent = geometry.extent_of(page);
    (extent, (page - geometry.pages_of(extent).start) / IN_BLOCK)
}

/// Returns all blocks.
pub fn blocks(geometry: &Geometry) -> BTreeSet<TableBlock> {
    let of = |extent| {
        let pages: u64 = geometry.extents[extent];
        (0..pages.div_ceil(IN_BLOCK)).map(move |block| (extent, block))
    };
    (0..geometry.extents.len()).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_was_set() {
        let mut table = Table::default();
        table.resize(1000);
        let entry = Entry { crc: 0xffff_fff0, copy: 1 };
        table.set(600, Some(entry));
        assert_eq!([599, 600, 601].map(|page| table.get(page)), [None, Some(entry), None]);
        table.set(600, None);
        assert_eq!(table.get(600), None);
    }

    /// The blocks together are the entries, extent by extent.
    #[test]
    fn blocks_have_all_entries() {
        let geometry = Geometry { page_bytes: 4096, has_working: false, extents: vec![600, 3, 512] };
        let mut table = Table::default();
        table.resize(geometry.pages());
        (0..1115).for_each(|page| table.set(page, Some(Entry { crc: page as u32, copy: 0 })));
        let all = blocks(&geometry);
        assert_eq!(Vec::from_iter(all.iter().copied()), [(0, 0), (0, 1), (1, 0), (2, 0)]);
        let bytes: Vec<u8> = all.iter().flat_map(|&block| table.block(&geometry, block)).collect();
        for page in 0..1115 {
            let (extent, block) = block_of(&geometry, page);
            let first = all.iter().position(|&each| each == (extent, block)).unwrap() * BLOCK as usize;
            let within = (page - geometry.pages_of(extent).start) % IN_BLOCK;
            let crc = &bytes[first + (within * ENTRY) as usize..][..4];
            assert_eq!(crc, (page as u32).to_le_bytes());
        }
    }
}

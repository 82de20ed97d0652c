//! The block that says which epoch is the last one, and where its parts are.
//!
//! ```text
//! byte | 0 magic · 8 byte order · 12 version · 16 CRC-32 of the block, this field taken as 0
//!      | 20 which table · 21 working region · 24 sequence · 32 epoch · 40 id of the file · 56 layout
//!      | 64 owner · 80 boot id · 96 page bytes · 104 CRC-32 of the page table · 108 extents
//!      | 112 bytes of the key's name · 116 of the value's · 120 of the header
//!      | 128 name of the key's type · 384 of the value's · 640 pages of the extents · 1152 header
//! ```
//!
//! Numbers are little-endian, except for the mark of the byte order, which has that of the machine, as the
//! pages have. Later versions keep the first 20 bytes.
use super::fault::FileFault;
use super::geometry::{BLOCK, EXTENTS, Geometry};

const MAGIC: [u8; 8] = *b"PHXPERS\0";
const VERSION: u32 = 1;
/// Byte order of the machine that wrote the file.
const BYTE_ORDER: u32 = 0x0102_0304;
/// Maximum number of bytes in the name of a type.
const NAME: usize = 256;
/// Maximum number of bytes of the structure's header.
pub const HEADER: usize = 2048;

/// Number of superblocks and of epochs that no file reaches, from which on counting them might overflow.
const MOST_NUMBERS: u64 = 1 << 62;

const CRC_AT: usize = 16;
const KEY_AT: usize = 128;
const VALUE_AT: usize = KEY_AT + NAME;
const EXTENTS_AT: usize = VALUE_AT + NAME;
const HEADER_AT: usize = EXTENTS_AT + 8 * EXTENTS;

/// Bytes of a superblock.
pub type Block = [u8; BLOCK as usize];

/// Layout and types of a structure, which must be those of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutId {
    /// Hash of the parameters that determine the meaning of the pages.
    pub hash: u64,
    /// Name of the type of keys, at most 256 bytes.
    pub key: String,
    /// Name of the type of values, at most 256 bytes.
    pub value: String,
}

/// State of the mapped part of a file, which the durability `Process` uses.
///
/// ```
/// use phalanx::persistent_map::Working;
///
/// assert_ne!(Working::Unused, Working::Closed([0; 16]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Working {
    /// It has no contents: the last epoch has.
    Unused,
    /// A process of this boot id uses it, or died while it did.
    InUse([u8; 16]),
    /// It is complete, and no operation was in progress when the process of this boot id closed it.
    Closed([u8; 16]),
}

impl Working {
    fn number(self) -> u8 {
        match self {
            Self::Unused => 0,
            Self::InUse(_) => 1,
            Self::Closed(_) => 2,
        }
    }

    /// Returns the boot id, which is 0 if nothing uses the region.
    pub fn boot_id(self) -> [u8; 16] {
        match self {
            Self::Unused => [0; 16],
            Self::InUse(boot) | Self::Closed(boot) => boot,
        }
    }

    fn of(number: u8, boot: [u8; 16]) -> Option<Self> {
        [Self::Unused, Self::InUse(boot), Self::Closed(boot)].get(usize::from(number)).copied()
    }
}

/// Contents of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Number of superblocks that were written before this one.
    pub sequence: u64,
    /// Number of syncs.
    pub epoch: u64,
    /// The same for all superblocks of a file, and different for different files.
    pub file: [u8; 16],
    pub layout: LayoutId,
    pub owner: [u8; 16],
    pub working: Working,
    /// Which of the two tables is current.
    pub table: u8,
    pub table_crc: u32,
    pub geometry: Geometry,
    /// Bytes of the structure.
    pub header: Vec<u8>,
}

/// Bytes of a block, read at given places.
struct Fields<'a>(&'a Block);

impl Fields<'_> {
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0[at + index])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }

    /// Returns bytes whose number is stored at `len_at`, if there are at most `most`.
    fn part(&self, at: usize, len_at: usize, most: usize) -> Option<&[u8]> {
        let len = self.u32(len_at) as usize;
        if len > most { None } else { self.0.get(at..at + len) }
    }

    fn name(&self, at: usize, len_at: usize) -> Option<String> {
        String::from_utf8(self.part(at, len_at, NAME)?.to_vec()).ok()
    }

    fn geometry(&self) -> Option<Geometry> {
        let (extents, flags) = (self.u32(108) as usize, self.0[21]);
        if extents > EXTENTS || flags > 0b111 {
            return None;
        }
        let extents = (0..extents).map(|extent| self.u64(EXTENTS_AT + 8 * extent)).collect();
        let geometry = Geometry { page_bytes: self.u64(96), has_working: flags & 0b100 != 0, extents };
        geometry.check().ok().map(|()| geometry)
    }
}

impl Superblock {
    /// Returns an error if a part has no room.
    pub fn check(&self) -> Result<(), FileFault> {
        let room = |what, len: usize, most: usize| match len <= most {
            true => Ok(()),
            false => Err(FileFault::Bounds { what, asked: len as u64, least: 0, most: most as u64 }),
        };
        room("bytes of the name of the keys' type", self.layout.key.len(), NAME)?;
        room("bytes of the name of the values' type", self.layout.value.len(), NAME)?;
        room("bytes of header", self.header.len(), HEADER)?;
        self.geometry.check()
    }

    /// Returns the bytes. The superblock must pass [`Self::check`].
    pub fn encode(&self) -> Box<Block> {
        let mut block = Box::new([0; BLOCK as usize]);
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &BYTE_ORDER.to_ne_bytes());
        put(12, &VERSION.to_le_bytes());
        put(20, &[self.table, self.working.number() | u8::from(self.geometry.has_working) << 2]);
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.epoch.to_le_bytes());
        put(40, &self.file);
        put(56, &self.layout.hash.to_le_bytes());
        put(64, &self.owner);
        put(80, &self.working.boot_id());
        put(96, &self.geometry.page_bytes.to_le_bytes());
        put(104, &self.table_crc.to_le_bytes());
        let lens = [self.geometry.extents.len(), self.layout.key.len(), self.layout.value.len()];
        for (index, len) in lens.into_iter().chain([self.header.len()]).enumerate() {
            put(108 + 4 * index, &(len as u32).to_le_bytes());
        }
        put(KEY_AT, self.layout.key.as_bytes());
        put(VALUE_AT, self.layout.value.as_bytes());
        for (index, pages) in self.geometry.extents.iter().enumerate() {
            put(EXTENTS_AT + 8 * index, &pages.to_le_bytes());
        }
        put(HEADER_AT, &self.header);
        seal(&mut block);
        block
    }

    /// Reads a superblock, whose checksum is right.
    fn decode(block: &Block) -> Result<Self, FileFault> {
        check_begin(block)?;
        Self::parse(&Fields(block)).ok_or(damaged("it has impossible values"))
    }

    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let (key, value) = (fields.name(KEY_AT, 112)?, fields.name(VALUE_AT, 116)?);
        Some(Self {
            sequence: Some(fields.u64(24)).filter(|&sequence| sequence < MOST_NUMBERS)?,
            epoch: Some(fields.u64(32)).filter(|&epoch| epoch < MOST_NUMBERS)?,
            file: fields.get(40),
            layout: LayoutId { hash: fields.u64(56), key, value },
            owner: fields.get(64),
            working: Working::of(fields.0[21] & 0b11, fields.get(80))?,
            table: Some(fields.0[20]).filter(|&table| table < 2)?,
            table_crc: fields.u32(104),
            geometry: fields.geometry()?,
            header: fields.part(HEADER_AT, 120, HEADER)?.to_vec(),
        })
    }
}

/// Says what is wrong with a superblock.
fn damaged(first: &'static str) -> FileFault {
    FileFault::Superblocks { first, second: "it was not used" }
}

/// Returns an error unless the bytes are the beginning of a superblock, as far as they go.
pub fn check_magic(bytes: &[u8]) -> Result<(), FileFault> {
    let mut found = [0; 8];
    let len = bytes.len().min(8);
    found[..len].copy_from_slice(&bytes[..len]);
    if found[..len] == MAGIC[..len] { Ok(()) } else { Err(FileFault::Magic { found }) }
}

/// Checks magic, byte order and version.
fn check_begin(block: &Block) -> Result<(), FileFault> {
    let fields = Fields(block);
    let (order, found) = (u32::from_ne_bytes(fields.get(8)), fields.u32(12));
    check_magic(block)?;
    match order {
        BYTE_ORDER if found != VERSION => Err(FileFault::Version { found, supported: VERSION }),
        BYTE_ORDER => Ok(()),
        _ if order == BYTE_ORDER.swap_bytes() => Err(FileFault::Endianness),
        _ => Err(damaged("its mark of the byte order is none")),
    }
}

/// Returns the checksum of a block.
fn crc(block: &Block) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..CRC_AT]);
    crc.update(&[0; 4]);
    crc.update(&block[CRC_AT + 4..]);
    crc.finalize()
}

/// Writes the checksum of a block into it.
pub fn seal(block: &mut Block) {
    let crc = crc(block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns whether the checksum of a block is right.
fn is_sealed(block: &Block) -> bool {
    Fields(block).u32(CRC_AT) == crc(block)
}

/// A valid superblock, and which of the two is damaged, if one is.
pub type Chosen = (Superblock, Option<usize>);

/// Chooses the newer one of two superblocks.
///
/// A block whose checksum is wrong was torn when power was lost, or is damaged: then the other one counts. A
/// block whose checksum is right is what was written, so what it says is final, also if it is an error.
pub fn choose(blocks: [&Block; 2]) -> Result<Chosen, FileFault> {
    match blocks.map(is_sealed) {
        [true, true] => newer(Superblock::decode(blocks[0])?, Superblock::decode(blocks[1])?),
        [true, false] => Ok((Superblock::decode(blocks[0])?, Some(1))),
        [false, true] => Ok((Superblock::decode(blocks[1])?, Some(0))),
        [false, false] => {
            // Not final, but a better message for files that are no such files.
            check_begin(blocks[0])?;
            let what = "its checksum is wrong";
            Err(FileFault::Superblocks { first: what, second: what })
        }
    }
}

fn newer(first: Superblock, second: Superblock) -> Result<Chosen, FileFault> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if first.file != second.file {
        return Err(FileFault::Superblocks { first: "it is of one file", second: "it is of another file" });
    }
    match first.sequence.cmp(&second.sequence) {
        Greater => Ok((first, None)),
        Less => Ok((second, None)),
        Equal if first == second => Ok((first, None)),
        Equal => Err(FileFault::Superblocks { first: "it contradicts the other", second: "as the first" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            sequence: 7,
            epoch: 5,
            file: [1; 16],
            layout: LayoutId { hash: 99, key: "u64".into(), value: "[u32; 3]".into() },
            owner: [2; 16],
            working: Working::InUse([3; 16]),
            table: 1,
            table_crc: 0x1234_5678,
            geometry: Geometry { page_bytes: 8192, has_working: true, extents: vec![1, 2, 3] },
            header: vec![5; HEADER],
        }
    }

    #[test]
    fn a_superblock_is_what_was_written() {
        let geometry = Geometry { extents: vec![9; EXTENTS], ..superblock().geometry };
        let full = Superblock { geometry, ..superblock() };
        for written in [superblock(), full, Superblock { working: Working::Unused, ..superblock() }] {
            written.check().unwrap();
            assert_eq!(Superblock::decode(&written.encode()).unwrap(), written);
        }
    }

    #[test]
    fn the_newer_of_two_superblocks_counts() {
        let old = superblock();
        let new = Superblock { sequence: 8, epoch: 6, ..superblock() };
        assert_eq!(choose([&old.encode(), &new.encode()]).unwrap(), (new.clone(), None));
        assert_eq!(choose([&new.encode(), &old.encode()]).unwrap(), (new.clone(), None));
        assert_eq!(choose([&old.encode(), &old.encode()]).unwrap(), (old.clone(), None));
        let alike = Superblock { sequence: 7, ..new };
        assert!(matches!(choose([&old.encode(), &alike.encode()]), Err(FileFault::Superblocks { .. })));
        let other = Superblock { file: [9; 16], sequence: 9, ..alike };
        assert!(matches!(choose([&old.encode(), &other.encode()]), Err(FileFault::Superblocks { .. })));
    }

    /// Each byte of a damaged superblock is the reason to use the other one.
    #[test]
    fn a_damaged_superblock_is_never_used() {
        let (old, new) = (superblock(), Superblock { sequence: 8, ..superblock() });
        for byte in 0..BLOCK as usize {
            let mut block = new.encode();
            block[byte] ^= 1 << (byte % 8);
            assert_eq!(choose([&block, &old.encode()]).unwrap(), (old.clone(), Some(0)));
            assert_eq!(choose([&old.encode(), &block]).unwrap(), (old.clone(), Some(1)));
            assert!(choose([&block, &block]).is_err());
        }
    }

    /// A superblock with a right checksum and impossible contents is an error, even beside a valid one.
    #[test]
    fn impossible_superblocks_are_refused() {
        let good = superblock().encode();
        let places = [8, 12, 20, 21, 28, 36, 96, 108, 112, 116, 120, EXTENTS_AT, KEY_AT];
        for place in places {
            let mut block = good.clone();
            block[place..place + 4].fill(0xf7);
            seal(&mut block);
            assert!(choose([&block, &good]).is_err() && choose([&block, &block]).is_err(), "byte {place}");
        }
    }
}

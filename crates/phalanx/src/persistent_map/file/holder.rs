//! The block that names the process which uses the file. It serves messages only, so it is not synced: the
//! lock of the operating system decides.
use super::geometry::HOLDER;
use super::system;
use std::fs::File;
use std::io;

const MAGIC: [u8; 8] = *b"PHXHOLD\0";

/// Bytes of the block: magic, process, and the CRC-32 of both.
fn encode(process: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&process.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Writes the number of this process.
pub fn write(file: &File) -> io::Result<()> {
    system::write_at(file, HOLDER, &encode(std::process::id()))
}

/// Removes the number of this process.
pub fn clear(file: &File) -> io::Result<()> {
    system::write_at(file, HOLDER, &[0; 16])
}

/// Returns the process that uses the file, if one that lives has said so. A process that only checks the file
/// does not.
pub fn read(file: &File) -> Option<u32> {
    let mut bytes = [0; 16];
    system::read_at(file, HOLDER, &mut bytes).ok()?;
    let process = u32::from_le_bytes([8, 9, 10, 11].map(|at| bytes[at]));
    (bytes == encode(process) && system::is_alive(process)).then_some(process)
}

//! Packed PTX: what a package ships, and a program embeds. It has the header and the names of the kernels as
//! text, and then the PTX, compressed. So a reader finds the file of a kernel without unpacking the others.
use crate::{Error, Header, Ptx, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Ending of the names of packed files, after `.ptx`.
pub const ENDING: &str = ".zst";

/// Start of the line with the kernels' names. `gpu::Program` reads it.
const ENTRIES: &str = "// entries";

/// Start of the line that says where the text continues another one. `gpu::Program` reads it.
const AFTER: &str = "// after";

impl Ptx {
    /// Returns the packed PTX: the header, a line with the names of the kernels, and the text as a Zstandard
    /// frame of `compress`. `gpu::Program` reads both this and plain text.
    pub fn pack(&self, compress: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut packed = self.first_lines();
        packed.extend(compress(self.text().as_bytes()));
        packed
    }

    /// As [`pack`](Self::pack), for a text much like the packed PTX `first` of another architecture: only
    /// `blocks` are stored, those of a Zstandard frame behind the blocks of `first`. The frame holds both
    /// texts, and that of `first` ends with an empty block.
    pub fn pack_after(&self, first: &Self, blocks: &[u8]) -> Vec<u8> {
        let mut packed = self.first_lines();
        let (arch, bytes) = (first.header().arch.number(), first.text().len());
        packed.extend(format!("{AFTER} {arch} {bytes}\n").into_bytes());
        packed.extend(blocks);
        packed
    }

    /// Returns the header and the names of the kernels.
    fn first_lines(&self) -> Vec<u8> {
        let names: String = self.entries().map(|name| format!(" {name}")).collect();
        format!("{}\n{ENTRIES}{names}\n", self.header()).into_bytes()
    }
}

/// Reads the header of packed PTX.
///
/// # Errors
/// [`Error::Io`] when the file cannot be read; [`Error::BadHeader`] when it does not begin with a header.
pub fn header(path: &Path) -> Result<Header> {
    let mut line = Vec::new();
    let mut file = BufReader::new(File::open(path).map_err(Error::io(path))?);
    file.read_until(b'\n', &mut line).map_err(Error::io(path))?;
    String::from_utf8_lossy(&line).trim_end().parse()
}

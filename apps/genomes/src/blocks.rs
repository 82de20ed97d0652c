//! Division of FASTA and FASTQ files, plain or gzip, into blocks that threads parse independently.
//!
//! Each block is the text of a complete file: it begins with a record. A block of a FASTA file may continue
//! the last record of the block before, since a record may be a whole chromosome. Such a block begins with
//! the header of this record, and with its last k - 1 letters in the block before, so that each k-mer is in
//! exactly one block.
use crate::cut::{Continued, Cutter, Format};
use crate::input::{cannot_open, cut_short, empty_file, explain, unknown_format};
use crate::kmers::Length;
use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use needletail::parse_fastx_reader;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where files may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Between records only.
    Records,
    /// Also within the records of FASTA files. The pieces of a record overlap by this number of letters.
    Overlapping(usize),
}

impl Pieces {
    /// Returns pieces of which each k-mer of a file is in exactly one.
    pub fn for_kmers(length: Length) -> Self {
        Self::Overlapping(length.get() as usize - 1)
    }
}

/// Part of a file. Created by [`Blocks`].
#[derive(Clone, Debug)]
pub struct Block {
    /// Number of the file, in the order in which files are read.
    pub file: usize,
    /// Number of the block, in the order in which all files are read.
    pub number: u64,
    path: Arc<Path>,
    text: Vec<u8>,
    /// Letters of the first record that the block before has, too, if the first record continues it.
    repeated: Option<usize>,
}

/// A record of a block, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Header without `>` or `@`.
    pub header: &'a [u8],
    /// Letters without line ends.
    pub letters: &'a [u8],
    /// Number of letters at the beginning that the block before has, too.
    pub repeated: usize,
    /// Whether the record began in the block before.
    pub continues: bool,
}

impl Record<'_> {
    /// Returns the first word of the header, by which records are known.
    pub fn name(&self) -> String {
        let header = String::from_utf8_lossy(self.header);
        header.split_whitespace().next().unwrap_or_default().to_owned()
    }
}

impl Block {
    /// Calls `each` with the records of the block in order, until it returns an error.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the text is damaged, and the error of `each`.
    pub fn for_each(&self, mut each: impl FnMut(&Record<'_>) -> Result<()>) -> Result<()> {
        let explain = |error| explain(&self.path, &error);
        let mut reader = parse_fastx_reader(&self.text[..]).map_err(explain)?;
        let mut repeated = self.repeated;
        while let Some(record) = reader.next() {
            let record = record.map_err(explain)?;
            let continues = repeated.is_some();
            let repeated = repeated.take().unwrap_or(0);
            each(&Record { header: record.id(), letters: &record.seq(), repeated, continues })?;
        }
        Ok(())
    }
}

/// Iterator over the blocks of several files, in order. Reading and unpacking are done by the thread that
/// calls [`Iterator::next`]. After an error there are no more blocks.
pub struct Blocks {
    files: Vec<PathBuf>,
    source: Option<Source>,
    pieces: Pieces,
    size: usize,
    progress: ProgressBar,
    opened: usize,
    number: u64,
    /// Every so many blocks are returned, beginning with this one.
    share: (u64, u64),
}

impl Blocks {
    /// Bytes of a block, more for records of FASTQ that are larger: many blocks, and each fits a cache.
    pub const SIZE: usize = 1 << 20;

    /// Creates the blocks of some files. The progress bar advances by the bytes read.
    pub fn new(files: &[PathBuf], pieces: Pieces, progress: &ProgressBar) -> Self {
        let (files, progress) = (files.to_vec(), progress.clone());
        Self { files, source: None, pieces, size: Self::SIZE, progress, opened: 0, number: 0, share: (0, 1) }
    }

    /// Sets the size of blocks in bytes (at least 1), for tests.
    #[must_use]
    pub fn with_size(mut self, size: usize) -> Self {
        self.size = size.max(1);
        self
    }

    /// Returns only the share of process `rank` of `ranks`: every `ranks`-th block. The shares of all have
    /// each block once, if all read the same files.
    #[must_use]
    pub fn share(mut self, rank: usize, ranks: usize) -> Self {
        self.share = (rank as u64, ranks.max(1) as u64);
        self
    }

    fn advance(&mut self) -> Result<Option<Block>> {
        loop {
            if let Some(source) = &mut self.source {
                let block = source.next(self.size)?;
                if let Some((text, repeated)) = block {
                    let (file, path) = (self.opened - 1, source.path.clone());
                    let number = self.number;
                    self.number += 1;
                    if number % self.share.1 == self.share.0 {
                        return Ok(Some(Block { file, number, path, text, repeated }));
                    }
                    continue;
                }
            }
            let Some(path) = self.files.get(self.opened) else { return Ok(None) };
            self.source = Some(Source::open(path, self.pieces, &self.progress)?);
            self.opened += 1;
        }
    }
}

impl Iterator for Blocks {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Result<Block>> {
        let block = self.advance();
        if block.is_err() {
            self.source = None;
            self.files.clear();
        }
        block.transpose()
    }
}

/// A file that is being read.
struct Source {
    path: Arc<Path>,
    reader: Box<dyn Read + Send>,
    /// Progress bar, if the reader does not advance it.
    progress: Option<ProgressBar>,
    pieces: Pieces,
    cutter: Option<Cutter>,
    /// Text that was read and is in no block yet. Not empty, except before the first and after the last one.
    rest: Vec<u8>,
    /// The record to which the rest belongs.
    continued: Option<Continued>,
    at_end: bool,
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

impl Source {
    fn open(path: &Path, pieces: Pieces, progress: &ProgressBar) -> Result<Self> {
        let mut file = File::open(path).with_context(|| cannot_open(path))?;
        let mut start = Vec::new();
        (&mut file).take(2).read_to_end(&mut start).with_context(|| cannot_open(path))?;
        let is_packed = start == GZIP;
        let (reader, rest): (Box<dyn Read + Send>, _) = if is_packed {
            let whole = Cursor::new(start).chain(progress.wrap_read(file));
            (Box::new(MultiGzDecoder::new(whole)), Vec::new())
        } else {
            (Box::new(file), start)
        };
        let progress = (!is_packed).then(|| progress.clone());
        let (path, cutter, continued) = (path.into(), None, None);
        Ok(Self { path, reader, progress, pieces, cutter, rest, continued, at_end: false })
    }

    /// Returns the text of the next block, and the number of repeated letters if it continues a record.
    fn next(&mut self, size: usize) -> Result<Option<(Vec<u8>, Option<usize>)>> {
        if self.at_end && self.rest.is_empty() {
            return Ok(None);
        }
        let continued = self.continued.take();
        let mut text = continued.as_ref().map_or(Vec::new(), Continued::prefix);
        let (start, mut wanted) = (text.len(), size);
        text.append(&mut self.rest);
        loop {
            self.fill(&mut text, start.saturating_add(wanted))?;
            let cutter = self.cutter(&text)?;
            if self.at_end {
                break;
            }
            if let Some(end) = cutter.find(&text, start, continued.as_ref()) {
                self.continued = cutter.continued(&text, end, start, continued.as_ref());
                self.rest = text.split_off(end);
                break;
            }
            wanted = self.larger(wanted)?;
        }
        Ok(Some((text, continued.map(|record| record.repeated()))))
    }

    /// Reads until the text has `len` bytes, or to the end of the file.
    fn fill(&mut self, text: &mut Vec<u8>, len: usize) -> Result<()> {
        let missing = len.saturating_sub(text.len());
        text.reserve(missing);
        let found = (&mut self.reader).take(missing as u64).read_to_end(text);
        let found = found.with_context(|| cut_short(&self.path))?;
        self.progress.iter().for_each(|progress| progress.inc(found as u64));
        self.at_end = found < missing;
        Ok(())
    }

    /// Returns what cuts the file, by its first byte.
    fn cutter(&mut self, text: &[u8]) -> Result<Cutter> {
        if let Some(cutter) = self.cutter {
            return Ok(cutter);
        }
        let format = match text.first() {
            None => return Err(empty_file(&self.path)),
            Some(b'>') => Format::Fasta,
            Some(b'@') => Format::Fastq,
            Some(_) => return Err(unknown_format(&self.path)),
        };
        Ok(*self.cutter.insert(Cutter { format, pieces: self.pieces }))
    }

    /// Returns a larger size for a block, which contains no place to cut.
    fn larger(&self, size: usize) -> Result<usize> {
        const MOST: usize = 1 << 32;
        ensure!(
            size < MOST,
            "{} has a record of more than {} GiB: see whether it is FASTA or FASTQ",
            self.path.display(),
            MOST >> 30
        );
        Ok(2 * size)
    }
}

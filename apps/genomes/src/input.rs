//! Input files: their size, and what is wrong with them.
use anyhow::{Context, Error, Result, anyhow};
use needletail::errors::{ParseError, ParseErrorKind};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the total size of all files on disk, in bytes.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file does not exist or is a folder.
pub fn size(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| size_of(file)).sum()
}

fn size_of(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| cannot_open(path))?;
    anyhow::ensure!(!metadata.is_dir(), "{} is a folder: name the files in it", path.display());
    Ok(metadata.len())
}

/// Returns the message for a file that cannot be opened.
pub(crate) fn cannot_open(path: &Path) -> String {
    format!("cannot read {}: check the path and its permissions", path.display())
}

/// Returns the message for a file that cannot be read to its end.
pub(crate) fn cut_short(path: &Path) -> String {
    format!("{} cannot be read to its end: see whether it is whole (gzip -t)", path.display())
}

/// Returns the error for a file without text.
pub(crate) fn empty_file(path: &Path) -> Error {
    anyhow!("{} is empty: leave it out", path.display())
}

/// Returns the error for a file that begins with neither `>` nor `@`.
pub(crate) fn unknown_format(path: &Path) -> Error {
    anyhow!(
        "{} is neither FASTA nor FASTQ, plain or gzip, which begin with `>` or `@`: unpack other archives, \
         and convert BAM by `samtools fastq`",
        path.display()
    )
}

/// Converts an error of the parser into a message with advice. The parser counts lines from the beginning of
/// a block, so the message names the record instead.
pub(crate) fn explain(path: &Path, error: &ParseError) -> Error {
    let record = error.position.id.as_ref().map_or(String::new(), |id| format!(", in record {id}"));
    match error.kind {
        ParseErrorKind::EmptyFile => empty_file(path),
        ParseErrorKind::UnknownFormat => unknown_format(path),
        _ => anyhow!("{} is damaged{record}: see whether it is whole ({})", path.display(), error.msg),
    }
}

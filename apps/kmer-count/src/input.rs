//! Reading FASTA and FASTQ, plain or gzip.
use anyhow::{Context, Error, Result};
use indicatif::ProgressBar;
use needletail::errors::{ParseError, ParseErrorKind};
use needletail::parse_fastx_reader;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Returns the total size of all files on disk, in bytes.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file does not exist or is a folder.
pub fn size(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| size_of(file)).sum()
}

fn size_of(path: &Path) -> Result<u64> {
    let what = || format!("cannot read {}: check the path and its permissions", path.display());
    let metadata = fs::metadata(path).with_context(what)?;
    anyhow::ensure!(!metadata.is_dir(), "{} is a folder: name the files in it", path.display());
    Ok(metadata.len())
}

/// Calls `each` with the sequences of a file in order, until it returns `false`. Advances the progress bar by
/// the bytes read. Returns whether `each` has received all sequences.
///
/// # Errors
/// Returns [`anyhow::Error`] when the file cannot be read, is neither FASTA nor FASTQ, or is damaged.
pub fn for_each_sequence(
    path: &Path,
    progress: &ProgressBar,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<bool> {
    let what = || format!("cannot open {}: check the path and its permissions", path.display());
    let file = File::open(path).with_context(what)?;
    let explain = |error| explain(path, error);
    let mut reader = parse_fastx_reader(progress.wrap_read(file)).map_err(explain)?;
    while let Some(record) = reader.next() {
        if !each(&record.map_err(explain)?.seq()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Converts a parser error into a message with advice for the user.
fn explain(path: &Path, error: ParseError) -> Error {
    let path = path.display();
    let advice = match error.kind {
        ParseErrorKind::EmptyFile => format!("{path} is empty: leave it out"),
        ParseErrorKind::UnknownFormat => format!(
            "{path} is neither FASTA nor FASTQ, plain or gzip, which begin with `>` or `@`: unpack other \
             archives, and convert BAM by `samtools fastq`"
        ),
        ParseErrorKind::Io => format!("{path} cannot be read to its end: see whether it is whole (gzip -t)"),
        _ => format!("{path} is damaged: see whether it is whole"),
    };
    Error::new(error).context(advice)
}

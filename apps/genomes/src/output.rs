//! Output that the programs have in common.
use anyhow::{Context, Result, ensure};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates a file for results.
///
/// # Errors
/// Returns [`anyhow::Error`] when it is one of the inputs, or cannot be created.
pub fn create(path: &Path, inputs: &[PathBuf]) -> Result<BufWriter<File>> {
    let same = |input: &PathBuf| {
        fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(input).is_ok_and(|input| input == path))
    };
    ensure!(!inputs.iter().any(same), "{} is read: name another file for results", path.display());
    Ok(BufWriter::new(File::create(path).with_context(|| cannot_write(path))?))
}

/// Returns the message for a file that cannot be written.
pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}: check that its folder is there, has room, and may be written", path.display())
}

/// Creates a progress bar for an input of `size` bytes.
///
/// # Errors
/// Returns [`anyhow::Error`] when the bar's template is invalid.
pub fn bar(size: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} read, {elapsed}")?;
    Ok(ProgressBar::new(size).with_style(style))
}

/// Formats a number with its digits in groups of three: 4,938,900.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Prints a line with the time of a stage, and how many million `things` a second it did.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_stage(
    name: &str,
    time: Duration,
    (number, things): (u64, &str),
    out: &mut impl Write,
) -> io::Result<()> {
    let seconds = time.as_secs_f64();
    let rate = number as f64 / 1e6 / seconds.max(1e-9);
    writeln!(out, "{name:<16} {seconds:.3} s, {rate:.1} million {things} a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_threes() {
        assert_eq!([0, 999, 1000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn a_stage_has_a_rate() {
        let mut out = Vec::new();
        print_stage("reading", Duration::from_millis(500), (3_000_000, "letters"), &mut out).unwrap();
        assert_eq!(out, b"reading          0.500 s, 6.0 million letters a second\n");
    }
}

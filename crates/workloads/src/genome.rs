//! Random genomes and sequencing reads: text input for k-mer counters and classifiers.
//!
//! Bases are uniform and independent. A read starts anywhere, comes from either strand, and each of its bases
//! is replaced by another with the probability `error_rate` (substitutions only, the dominant error of
//! short-read machines). Mutations are substitutions, too.
use crate::random::{Source, below, unit};
use crate::{Error, Result, check_available};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};

const BASES: [u8; 4] = *b"ACGT";

/// A sequence of bases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genome {
    bases: Vec<u8>,
}

/// A piece of a genome, as a sequencing machine reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Position of its first base on the forward strand.
    pub start: usize,
    /// Whether it was read from the reverse strand, complemented.
    pub reverse: bool,
    /// Number of wrong bases.
    pub errors: usize,
    /// Bases, as letters A, C, G, T.
    pub bases: Vec<u8>,
}

impl Genome {
    /// Generates `len` random bases.
    pub fn random(len: usize, seed: u64) -> Self {
        let source = Source::new(seed, "genome");
        Self { bases: source.generate(len, |generator, _| BASES[below(generator, 4) as usize]) }
    }

    /// Returns the bases, as letters A, C, G, T.
    pub fn bases(&self) -> &[u8] {
        &self.bases
    }

    /// Returns a relative of the genome: each base is replaced by another with the probability `rate`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when `rate` is not in `0..=1`.
    pub fn mutated(&self, rate: f64, seed: u64) -> Result<Self> {
        check_rate("the rate of mutations", rate)?;
        let mutate = |generator: &mut ChaCha8Rng, place: usize| {
            let mut base = self.bases[place];
            misread(&mut base, generator, rate);
            base
        };
        Ok(Self { bases: Source::new(seed, "mutations").generate(self.bases.len(), mutate) })
    }

    /// Generates `count` reads of `len` bases.
    ///
    /// # Errors
    /// [`Error::Empty`] when `len` is 0; [`Error::TooMany`] when a read is longer than the genome;
    /// [`Error::OutOfRange`] when `error_rate` is not in `0..=1`.
    pub fn reads(&self, count: usize, len: usize, error_rate: f64, seed: u64) -> Result<Vec<Read>> {
        self.check_reads(len, error_rate)?;
        let source = Source::new(seed, "reads");
        Ok(crate::random::tabulate(count, |index| self.read(&mut source.chunk(index), len, error_rate)))
    }

    /// Checks that there are reads of `len` bases.
    pub(crate) fn check_reads(&self, len: usize, error_rate: f64) -> Result<()> {
        if len == 0 {
            return Err(Error::Empty { what: "the length of a read" });
        }
        check_available("bases a read", len as u64, self.bases.len() as u64)?;
        check_rate("the error rate", error_rate)
    }

    /// Returns a read of `len` bases, which must be possible.
    pub(crate) fn read(&self, generator: &mut ChaCha8Rng, len: usize, error_rate: f64) -> Read {
        let start = below(generator, (self.bases.len() - len + 1) as u64) as usize;
        let reverse = below(generator, 2) == 1;
        let mut bases = self.bases[start..start + len].to_vec();
        if reverse {
            reverse_complement(&mut bases);
        }
        let errors = bases.iter_mut().filter_map(|base| misread(base, generator, error_rate)).count();
        Read { start, reverse, errors, bases }
    }

    /// Writes the genome as one FASTA record, with `width` bases per line (at least 1).
    ///
    /// # Errors
    /// [`io::Error`] when the writer fails.
    pub fn write_fasta(&self, mut out: impl Write, name: &str, width: usize) -> io::Result<()> {
        writeln!(out, ">{name}")?;
        for line in self.bases.chunks(width.max(1)) {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Replaces bases by those of the opposite strand.
pub fn reverse_complement(bases: &mut [u8]) {
    bases.reverse();
    for base in bases {
        *base = match base {
            b'A' => b'T',
            b'C' => b'G',
            b'G' => b'C',
            _ => b'A',
        };
    }
}

fn check_rate(what: &'static str, rate: f64) -> Result<()> {
    let is_rate = (0.0..=1.0).contains(&rate);
    if is_rate { Ok(()) } else { Err(Error::OutOfRange { what, range: "0..=1", found: rate }) }
}

fn misread(base: &mut u8, generator: &mut ChaCha8Rng, error_rate: f64) -> Option<()> {
    if unit(generator) >= error_rate {
        return None;
    }
    let right = BASES.iter().position(|letter| letter == base).unwrap_or(0);
    *base = BASES[(right + 1 + below(generator, 3) as usize) % 4];
    Some(())
}

/// Writes reads as FASTQ. The quality letters state `error_rate` on the Phred scale (at most 41).
///
/// # Errors
/// [`io::Error`] when the writer fails.
pub fn write_fastq(mut out: impl Write, reads: &[Read], error_rate: f64) -> io::Result<()> {
    let mut reads = reads.iter().enumerate();
    reads.try_for_each(|(index, read)| read.write_fastq(&mut out, &format!("read{index}"), error_rate))
}

impl Read {
    /// Writes the read as a FASTQ record. The quality letters state `error_rate`, as in [`write_fastq`].
    ///
    /// # Errors
    /// [`io::Error`] when the writer fails.
    pub fn write_fastq(&self, mut out: impl Write, name: &str, error_rate: f64) -> io::Result<()> {
        let phred =
            if error_rate > 0.0 { (-10.0 * error_rate.log10()).round().clamp(0.0, 41.0) } else { 41.0 };
        let strand = if self.reverse { '-' } else { '+' };
        writeln!(out, "@{name} start={} strand={strand} errors={}", self.start, self.errors)?;
        out.write_all(&self.bases)?;
        out.write_all(b"\n+\n")?;
        out.write_all(&vec![b'!' + phred as u8; self.bases.len()])?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_uniform() {
        let genome = Genome::random(400_000, 1);
        for base in BASES {
            let count = genome.bases().iter().filter(|&&found| found == base).count();
            assert!((98_500..101_500).contains(&count), "{count} of {}", base as char);
        }
    }

    #[test]
    fn reads_are_pieces_with_errors_at_their_rate() {
        let genome = Genome::random(50_000, 2);
        let reads = genome.reads(2_000, 150, 0.01, 3).unwrap();
        let mut errors = 0;
        for read in &reads {
            let mut original = genome.bases()[read.start..read.start + 150].to_vec();
            if read.reverse {
                reverse_complement(&mut original);
            }
            let differing = original.iter().zip(&read.bases).filter(|(a, b)| a != b).count();
            assert_eq!(differing, read.errors);
            errors += differing;
        }
        assert!((2_750..3_250).contains(&errors), "{errors} errors in 300 000 bases");
        let reverse = reads.iter().filter(|read| read.reverse).count();
        assert!((900..1_100).contains(&reverse), "{reverse} from the reverse strand");
    }

    #[test]
    fn relatives_differ_at_their_rate() {
        let genome = Genome::random(100_000, 6);
        let relative = genome.mutated(0.05, 7).unwrap();
        let differing = genome.bases().iter().zip(relative.bases()).filter(|(a, b)| a != b).count();
        assert!((4_700..5_300).contains(&differing), "{differing} of 100 000");
        assert_eq!(genome.mutated(0.0, 7).unwrap(), genome);
        assert!(matches!(genome.mutated(-0.1, 7), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn texts_have_their_formats() {
        let genome = Genome::random(10, 4);
        let mut fasta = vec![];
        genome.write_fasta(&mut fasta, "chr1", 4).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&fasta).unwrap().lines().collect();
        assert_eq!((lines[0], lines[1].len(), lines[3].len()), (">chr1", 4, 2));

        let reads = genome.reads(2, 5, 0.001, 5).unwrap();
        let mut fastq = vec![];
        write_fastq(&mut fastq, &reads, 0.001).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&fastq).unwrap().lines().collect();
        assert_eq!((lines.len(), lines[2], lines[3]), (8, "+", "?????"));
        assert_eq!(lines[1].as_bytes(), reads[0].bases);
    }

    #[test]
    fn bad_requests_are_errors() {
        let genome = Genome::random(10, 4);
        assert!(matches!(genome.reads(1, 11, 0.0, 1), Err(Error::TooMany { .. })));
        assert!(matches!(genome.reads(1, 0, 0.0, 1), Err(Error::Empty { .. })));
        assert!(matches!(genome.reads(1, 5, 1.5, 1), Err(Error::OutOfRange { .. })));
    }
}

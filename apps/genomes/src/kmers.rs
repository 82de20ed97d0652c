//! K-mers: all substrings of k bases of a sequence, each packed into 64 bits.
use anyhow::{Result, anyhow, ensure};
use std::str::FromStr;

/// Number of bases in a k-mer, 1 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(u32);

impl Length {
    /// Maximum length.
    pub const MAX: u32 = 31;

    /// Creates a length of `bases`.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when `bases` is not between 1 and [`Length::MAX`].
    pub fn new(bases: u32) -> Result<Self> {
        ensure!(
            (1..=Self::MAX).contains(&bases),
            "k-mers of {bases} bases were asked for: choose 1 to {}, since a k-mer is packed into 64 bits",
            Self::MAX
        );
        Ok(Self(bases))
    }

    /// Returns the number of bases.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the number of different k-mers of this length, reverse complements counted separately.
    pub fn kinds(self) -> u64 {
        1 << (2 * self.0)
    }
}

impl FromStr for Length {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let bases =
            text.parse().map_err(|_| anyhow!("{text} is no number of bases: choose 1 to {}", Self::MAX))?;
        Self::new(bases)
    }
}

/// Strands whose k-mers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strand {
    /// The strand that was read.
    Plain,
    /// Both strands: a k-mer and its reverse complement are counted as one, represented by the alphabetically
    /// smaller of the two.
    Canonical,
}

/// Entry in [`CODES`] for letters that are not bases.
const NO_BASE: u8 = 4;

/// Two-bit code of each letter, in alphabetical order, so that packed k-mers sort like their texts.
const CODES: [u8; 256] = {
    let mut codes = [NO_BASE; 256];
    let mut code = 0;
    while code < 4 {
        let letter = LETTERS[code as usize];
        codes[letter as usize] = code;
        codes[letter.to_ascii_lowercase() as usize] = code;
        code += 1;
    }
    codes
};

const LETTERS: [u8; 4] = *b"ACGT";

/// Iterator over the k-mers of a sequence, from left to right. Created by [`kmers`].
#[derive(Clone, Debug)]
pub struct Kmers<'a> {
    letters: std::slice::Iter<'a, u8>,
    length: u32,
    strand: Strand,
    mask: u64,
    forward: u64,
    reverse: u64,
    /// Number of consecutive bases up to here, capped at `length`.
    run: u32,
}

/// Returns an iterator over the k-mers of a sequence. A, C, G and T in either case are bases; no k-mer
/// contains any other letter.
///
/// The first base takes the highest two bits. Each k-mer is computed from the previous one by a shift, on
/// both strands.
pub fn kmers(letters: &[u8], length: Length, strand: Strand) -> Kmers<'_> {
    let mask = length.kinds() - 1;
    Kmers { letters: letters.iter(), length: length.get(), strand, mask, forward: 0, reverse: 0, run: 0 }
}

impl Kmers<'_> {
    #[inline]
    fn push(&mut self, code: u8) {
        let code = u64::from(code);
        self.forward = ((self.forward << 2) | code) & self.mask;
        self.reverse = (self.reverse >> 2) | ((3 - code) << (2 * (self.length - 1)));
        self.run = (self.run + 1).min(self.length);
    }

    #[inline]
    fn current(&self) -> u64 {
        match self.strand {
            Strand::Plain => self.forward,
            Strand::Canonical => self.forward.min(self.reverse),
        }
    }
}

impl Iterator for Kmers<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        loop {
            match CODES[usize::from(*self.letters.next()?)] {
                NO_BASE => self.run = 0,
                code => self.push(code),
            }
            if self.run == self.length {
                return Some(self.current());
            }
        }
    }
}

/// Returns the letters of a k-mer.
pub fn letters(kmer: u64, length: Length) -> impl Iterator<Item = char> {
    (0..length.get()).rev().map(move |place| char::from(LETTERS[(kmer >> (2 * place)) as usize & 3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(bases: u32) -> Length {
        Length::new(bases).unwrap()
    }

    fn texts(sequence: &[u8], bases: u32, strand: Strand) -> Vec<String> {
        kmers(sequence, length(bases), strand).map(|kmer| letters(kmer, length(bases)).collect()).collect()
    }

    fn reversed(text: &str) -> String {
        let complement = |letter| match letter {
            'A' => 'T',
            'C' => 'G',
            'G' => 'C',
            _ => 'A',
        };
        text.chars().rev().map(complement).collect()
    }

    /// Returns the k-mers as text, computed directly from the definition.
    fn naive(sequence: &[u8], bases: u32, strand: Strand) -> Vec<String> {
        let windows =
            sequence.windows(bases as usize).map(|window| String::from_utf8_lossy(window).to_uppercase());
        let whole = windows.filter(|window| window.chars().all(|letter| "ACGT".contains(letter)));
        whole.map(|text| if strand == Strand::Plain { text } else { reversed(&text).min(text) }).collect()
    }

    /// Generates sequences of mostly bases, so that k-mers of all lengths occur, and a few other letters.
    fn sequences() -> impl Strategy<Value = Vec<u8>> {
        let letter = prop_oneof![
            60 => prop::sample::select(b"ACGTacgt".to_vec()),
            1 => prop::sample::select(b"NnRU-*@ \n".to_vec()),
        ];
        prop::collection::vec(letter, 0..200)
    }

    proptest! {
        #[test]
        fn as_by_the_definition(sequence in sequences(), bases in 1..=Length::MAX) {
            for strand in [Strand::Plain, Strand::Canonical] {
                prop_assert_eq!(texts(&sequence, bases, strand), naive(&sequence, bases, strand));
            }
        }

        #[test]
        fn either_strand_has_the_same_canonical_kmers(sequence in "[ACGT]{0,100}", bases in 1..=Length::MAX) {
            let mut other = texts(reversed(&sequence).as_bytes(), bases, Strand::Canonical);
            other.reverse();
            prop_assert_eq!(texts(sequence.as_bytes(), bases, Strand::Canonical), other);
        }

        #[test]
        fn packed_kmers_sort_as_their_texts(sequence in "[ACGT]{31,100}", bases in 1..=Length::MAX) {
            let mut packed: Vec<u64> = kmers(sequence.as_bytes(), length(bases), Strand::Plain).collect();
            packed.sort_unstable();
            let text = |&kmer: &_| letters(kmer, length(bases)).collect();
            let texts: Vec<String> = packed.iter().map(text).collect();
            prop_assert!(texts.is_sorted());
        }
    }

    #[test]
    fn small_ones_by_hand() {
        assert_eq!(texts(b"ACGNTtt", 2, Strand::Plain), ["AC", "CG", "TT", "TT"]);
        assert_eq!(texts(b"ACGNTtt", 2, Strand::Canonical), ["AC", "CG", "AA", "AA"]);
        assert_eq!(texts(b"ACG", 4, Strand::Plain), [""; 0]);
        assert_eq!(kmers(&[b'T'; 31], length(31), Strand::Plain).collect::<Vec<_>>(), [(1 << 62) - 1]);
    }

    #[test]
    fn lengths_have_limits() {
        assert_eq!("31".parse::<Length>().unwrap().get(), 31);
        for text in ["0", "32", "-1", "x"] {
            let error = text.parse::<Length>().unwrap_err().to_string();
            assert!(error.contains("choose 1 to 31"), "{error}");
        }
    }
}

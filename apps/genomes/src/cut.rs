//! Places at which a text can be cut into blocks.
use crate::blocks::Pieces;
use memchr::{memchr, memrchr, memrchr_iter};

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Records of a line that begins with `>` and any number of lines with letters.
    Fasta,
    /// Records of four lines: `@` and a name, letters, `+`, qualities.
    Fastq,
}

/// A FASTA record that goes on in the next block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    header: Vec<u8>,
    /// The last letters before the cut. At least one, and the first is not `>`, since a letter `>` at the
    /// beginning of a line would be a header.
    tail: Vec<u8>,
}

impl Continued {
    /// Returns the text before the next block.
    pub fn prefix(&self) -> Vec<u8> {
        [b">", &self.header[..], b"\n", &self.tail].concat()
    }

    /// Returns the number of letters in the text before the next block.
    pub fn repeated(&self) -> usize {
        self.tail.len()
    }
}

/// Finds places to cut.
#[derive(Clone, Copy, Debug)]
pub struct Cutter {
    pub format: Format,
    pub pieces: Pieces,
}

impl Cutter {
    /// Returns the end of a block in a text, whose first `start` bytes are the prefix of a continued record.
    /// The end is after `start` and before the end of the text. Returns `None` if there is no place to cut.
    pub fn find(&self, text: &[u8], start: usize, continued: Option<&Continued>) -> Option<usize> {
        let end = match (self.format, self.pieces) {
            (Format::Fastq, _) => last_record(text),
            (Format::Fasta, Pieces::Records) => last_header(text, start, continued.is_none()),
            (Format::Fasta, Pieces::Overlapping(_)) => in_fasta(text, start, continued),
        };
        end.filter(|&end| end > start && end < text.len())
    }

    /// Returns the record that goes on after the cut at `end`, if a record does.
    pub fn continued(
        &self,
        text: &[u8],
        end: usize,
        start: usize,
        before: Option<&Continued>,
    ) -> Option<Continued> {
        let Pieces::Overlapping(overlap) = self.pieces else { return None };
        let header = last_header(text, start, before.is_none());
        if self.format == Format::Fastq || header == Some(end) {
            return None;
        }
        let (header, first) = match (header, before) {
            (Some(header), _) => (&text[header + 1..line_end(text, header)?], line_end(text, header)? + 1),
            (None, Some(before)) => (&before.header[..], start - before.tail.len()),
            (None, None) => return None,
        };
        let tail = last_letters(&text[first..end], overlap);
        let tail = if tail.is_empty() { b"N".to_vec() } else { without_headers(tail) };
        Some(Continued { header: header.to_vec(), tail })
    }
}

/// Returns the end of the line that begins at `start`, which is its `\n`.
fn line_end(text: &[u8], start: usize) -> Option<usize> {
    memchr(b'\n', &text[start..]).map(|place| start + place)
}

/// Returns the beginning of the last FASTA header from `start` on. `at_line` states whether a line begins at
/// `start`.
fn last_header(text: &[u8], start: usize, at_line: bool) -> Option<usize> {
    let begins = |&place: &usize| if place == start { at_line } else { text[place - 1] == b'\n' };
    memrchr_iter(b'>', &text[start..]).map(|place| start + place).find(begins)
}

/// Returns a place to cut a FASTA text: after a line, or within a line if it is long, but neither within a
/// header nor directly after one, since a block that ends there would end with a record without letters.
fn in_fasta(text: &[u8], start: usize, continued: Option<&Continued>) -> Option<usize> {
    let header = last_header(text, start, continued.is_none());
    let first = match header {
        Some(header) => match line_end(text, header) {
            Some(end) => end + 1,
            None => return Some(header),
        },
        None => start,
    };
    // The next block needs a byte, by which it is seen whether a header follows.
    let last = text.len() - 1;
    let line = memrchr(b'\n', &text[..last]).map(|place| place + 1).filter(|&place| place > first);
    let is_near = |&place: &usize| place >= usize::midpoint(first, last);
    line.filter(is_near).or_else(|| (last > first).then_some(last)).or(header)
}

/// Returns the last letters of a sequence, at most `most`, without line ends.
fn last_letters(sequence: &[u8], most: usize) -> Vec<u8> {
    let is_letter = |letter: &&u8| !matches!(letter, b'\n' | b'\r');
    let mut letters: Vec<u8> = sequence.iter().rev().filter(is_letter).take(most).copied().collect();
    letters.reverse();
    letters
}

/// Replaces `>` by another letter that is no base.
fn without_headers(letters: Vec<u8>) -> Vec<u8> {
    letters.into_iter().map(|letter| if letter == b'>' { b'N' } else { letter }).collect()
}

/// Returns the beginning of the last FASTQ record of which three lines have begun.
///
/// A line that begins with `@` may be a record's first line or its qualities. If it is the qualities, the
/// line after the next has letters. If it is the first, that line begins with `+`, which is no letter.
fn last_record(text: &[u8]) -> Option<usize> {
    // Beginnings of the two lines after the one that is looked at.
    let mut after = [None; 2];
    for newline in memrchr_iter(b'\n', text) {
        let line = newline + 1;
        if text.get(line) == Some(&b'@') && after[1].is_some_and(|line: usize| text.get(line) == Some(&b'+'))
        {
            return Some(line);
        }
        after = [Some(line), after[0]];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAP: Cutter = Cutter { format: Format::Fasta, pieces: Pieces::Overlapping(3) };

    #[test]
    fn fasta_is_cut_after_lines_and_before_headers() {
        let cut = |text: &[u8]| in_fasta(text, 0, None);
        assert_eq!(cut(b">a\nACGT\nAC"), Some(8));
        assert_eq!(cut(b">a\nACGT\n>b\n"), Some(8), "not directly after a header");
        assert_eq!(cut(b">a\nACGT\n>b some"), Some(8), "not within a header");
        assert_eq!(cut(b">a\nACGTACGT"), Some(10), "within a line");
        assert_eq!(OVERLAP.find(b">a\n", 0, None), None);
        assert_eq!(OVERLAP.find(b">a", 0, None), None);
    }

    #[test]
    fn a_record_goes_on_with_its_last_letters() {
        let first = OVERLAP.continued(b">a b\nACGT\r\nCC\nG", 14, 0, None).unwrap();
        assert_eq!((first.prefix(), first.repeated()), (b">a b\nTCC".to_vec(), 3));
        // The text after the prefix is so short that letters of the prefix are repeated again.
        let text = [&first.prefix()[..], b"G\nA"].concat();
        let second = OVERLAP.continued(&text, 10, 8, Some(&first)).unwrap();
        assert_eq!(second.prefix(), b">a b\nCCG");
        assert_eq!(OVERLAP.continued(b">a\nAC\n>b\nA", 6, 0, None), None, "the cut is before a header");
    }

    #[test]
    fn a_letter_is_no_header() {
        let none = Cutter { pieces: Pieces::Overlapping(0), ..OVERLAP };
        let record = none.continued(b">a\nACG>T", 6, 0, None).unwrap();
        assert_eq!(record.prefix(), b">a\nN");
        let text = [&record.prefix()[..], b">TACG\nA"].concat();
        assert_eq!(last_header(&text, 4, false), None);
        assert_eq!(OVERLAP.continued(b">a\nA>CG\nT", 8, 0, None).unwrap().prefix(), b">a\nNCG");
    }

    #[test]
    fn qualities_are_no_records() {
        assert_eq!(last_record(b"@a\nAC\n+\n@I\n@b\nAC\n+\n"), Some(11));
        assert_eq!(last_record(b"@a\nAC\n+\n@I\n@b\nAC\n"), None, "`@I` is followed by letters");
        assert_eq!(last_record(b"@a\nAC\n+\n@I\n@b\nAC\n+\n@@\n@c\nA"), Some(11));
    }
}

//! Edges from files and generators.
//!
//! An edge list has two ids per line, separated by blanks; what follows them is ignored, and so are empty
//! lines and those that begin with `#` or `%`. A Matrix Market file begins with `%%MatrixMarket matrix
//! coordinate`, has a line with the numbers of rows, columns and entries, and a line per entry, whose ids
//! begin with 1.
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::io::BufRead;
pub use workloads::edges::Edge;
use workloads::edges::rmat;

/// Numbers of vertices, in the order in which their ids occur first.
#[derive(Debug, Default)]
pub struct Ids(HashMap<u64, u32>);

impl Ids {
    /// Returns the number of a vertex.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] for more than 2^32 - 4 vertices.
    pub fn number(&mut self, id: u64) -> Result<u32> {
        let next = self.0.len() as u64;
        ensure!(next < u64::from(u32::MAX) - 3 || self.0.contains_key(&id), "there are too many vertices");
        Ok(*self.0.entry(id).or_insert(next as u32))
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where edges come from.
#[derive(Debug)]
pub enum Source<R> {
    /// A file.
    File(Lines<R>),
    /// Generated edges that are left.
    Generated(std::vec::IntoIter<Edge>),
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    line: String,
    /// Number of the last line.
    number: u64,
    /// Number of bytes read.
    bytes: u64,
    format: Format,
}

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The first line tells.
    Unknown,
    EdgeList,
    /// A Matrix Market file before its line of sizes.
    MatrixHeader,
    /// Entries of a Matrix Market file: its larger dimension, and the number of entries that follow.
    Matrix {
        most: u64,
        left: u64,
    },
}

impl<R: BufRead> Source<R> {
    /// Returns the edges of a file.
    pub fn file(reader: R) -> Self {
        Self::File(Lines { reader, line: String::new(), number: 0, bytes: 0, format: Format::Unknown })
    }

    /// Returns `count` edges of a recursive matrix with 2^`scale` vertices.
    pub fn generated(scale: u32, count: usize, seed: u64) -> Self {
        Self::Generated(rmat(scale, count, seed).into_iter())
    }

    /// Returns the next edges, at most `most`; none at the end.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] with the number of the line when a line is malformed or cannot be read.
    pub fn next_batch(&mut self, most: usize, ids: &mut Ids) -> Result<Vec<Edge>> {
        let mut edges = Vec::new();
        while edges.len() < most {
            let pair = match self {
                Self::File(lines) => lines.next_pair()?,
                Self::Generated(rest) => rest.next().map(|(a, b)| (u64::from(a), u64::from(b))),
            };
            let Some((a, b)) = pair else { break };
            edges.push((ids.number(a)?, ids.number(b)?));
        }
        Ok(edges)
    }

    /// Returns the number of bytes that were read, or of edges that were generated and are left.
    pub fn progress(&self) -> u64 {
        match self {
            Self::File(lines) => lines.bytes,
            Self::Generated(rest) => rest.len() as u64,
        }
    }
}

impl<R: BufRead> Lines<R> {
    /// Returns the ids of the next edge, or `None` at the end.
    fn next_pair(&mut self) -> Result<Option<(u64, u64)>> {
        while self.read_line()? {
            let parsed = self.parse().with_context(|| format!("line {}", self.number))?;
            if parsed.is_some() {
                return Ok(parsed);
            }
        }
        match self.format {
            Format::Matrix { left, .. } if left > 0 => bail!("the file ends {left} entries too early"),
            Format::MatrixHeader => bail!("the file has no line with its sizes"),
            _ => Ok(None),
        }
    }

    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let read = self.reader.read_line(&mut self.line);
        let bytes = read.with_context(|| format!("cannot read line {}", self.number + 1))?;
        (self.number, self.bytes) = (self.number + 1, self.bytes + bytes as u64);
        Ok(bytes > 0)
    }

    /// Returns the ids in the current line, if it has an edge.
    fn parse(&mut self) -> Result<Option<(u64, u64)>> {
        let line = self.line.trim();
        if self.format == Format::Unknown {
            self.format = first_line(line)?;
        }
        if line.is_empty() || line.starts_with(['#', '%']) {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        match &mut self.format {
            Format::MatrixHeader => {
                let (rows, columns) = (number(words.next())?, number(words.next())?);
                self.format = Format::Matrix { most: rows.max(columns), left: number(words.next())? };
                Ok(None)
            }
            Format::Matrix { most, left } => {
                let pair = (number(words.next())?, number(words.next())?);
                let is_within = |id: u64| (1..=*most).contains(&id);
                ensure!(is_within(pair.0) && is_within(pair.1), "an index is not from 1 to {most}");
                *left = left.checked_sub(1).context("there are more entries than announced")?;
                Ok(Some(pair))
            }
            _ => Ok(Some((number(words.next())?, number(words.next())?))),
        }
    }
}

/// Returns the format of a file that begins with this line.
fn first_line(line: &str) -> Result<Format> {
    let Some(header) = line.strip_prefix("%%MatrixMarket") else { return Ok(Format::EdgeList) };
    let header = header.to_ascii_lowercase();
    let words: Vec<&str> = header.split_whitespace().collect();
    match words[..] {
        ["matrix", "coordinate", field, symmetry] => {
            let fields = ["pattern", "integer", "real"];
            ensure!(fields.contains(&field), "the field is '{field}', not one of {fields:?}");
            let kinds = ["general", "symmetric", "skew-symmetric"];
            ensure!(kinds.contains(&symmetry), "the symmetry is '{symmetry}', not one of {kinds:?}");
            Ok(Format::MatrixHeader)
        }
        _ => bail!("the header is not that of a matrix of coordinates"),
    }
}

fn number(word: Option<&str>) -> Result<u64> {
    let word = word.context("a number is missing")?;
    word.parse().with_context(|| format!("'{word}' is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Edge>> {
        Source::file(text.as_bytes()).next_batch(usize::MAX, &mut Ids::default())
    }

    #[test]
    fn edge_lists_are_read() {
        let text = "# a comment\n\n 70 8 0.5\n% another\n8\t9\n70 9\n70 70";
        assert_eq!(read(text).unwrap(), [(0, 1), (1, 2), (0, 2), (0, 0)]);
        assert_eq!(read("").unwrap(), []);
        let mut source = Source::file("1 2\n2 3\n3 4\n".as_bytes());
        let mut ids = Ids::default();
        let mut sizes = Vec::new();
        while let Some(len) = Some(source.next_batch(2, &mut ids).unwrap().len()).filter(|&len| len > 0) {
            sizes.push((len, source.progress()));
        }
        assert_eq!((sizes, ids.len()), (vec![(2, 8), (1, 12)], 4));
    }

    #[test]
    fn matrices_are_read() {
        let text = "%%MatrixMarket matrix coordinate pattern symmetric\n% made by hand\n3 3 2\n2 1\n3 2\n";
        assert_eq!(read(text).unwrap(), [(0, 1), (2, 0)]);
        let text = "%%MatrixMarket matrix coordinate real general\n2 5 1\n1 5 0.25\n";
        assert_eq!(read(text).unwrap(), [(0, 1)]);
        assert_eq!(read("%%MatrixMarket matrix coordinate real general\n2 5 0\n").unwrap(), []);
    }

    #[test]
    fn malformed_lines_are_named() {
        let matrix = "%%MatrixMarket matrix coordinate pattern general\n";
        for (text, part) in [
            ("1 2\n3\n".to_owned(), "line 2"),
            ("1 2\n\nx 4\n".to_owned(), "line 3"),
            ("1 -2\n".to_owned(), "'-2'"),
            ("%%MatrixMarket matrix array real general\n".to_owned(), "line 1"),
            ("%%MatrixMarket matrix coordinate complex general\n".to_owned(), "complex"),
            (format!("{matrix}3 3\n"), "line 2"),
            (format!("{matrix}3 3 2\n1 2\n4 1\n"), "line 4"),
            (format!("{matrix}3 3 2\n0 2\n"), "line 3"),
            (format!("{matrix}3 3 1\n1 2\n1 3\n"), "line 4"),
            (format!("{matrix}3 3 2\n1 2\n"), "1 entries too early"),
            (matrix.to_owned(), "no line with its sizes"),
        ] {
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

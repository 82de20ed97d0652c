//! Edges from files: edge lists and Matrix Market files of coordinates.
//!
//! | format | lines |
//! |---|---|
//! | edge list | `source target [data ...]`, separated by blanks; ids begin with 0 |
//! | Matrix Market | `%%MatrixMarket matrix coordinate FIELD SYMMETRY`, then `rows columns entries`, then `row column [value]` per entry; ids begin with 1 |
//!
//! In both, empty lines and those that begin with `#` or `%` are skipped. FIELD is `pattern`, `integer` or
//! `real`; SYMMETRY is `general` (directed edges) or `symmetric` (undirected ones), without data also
//! `skew-symmetric`. Data are the third word of a line, and 1 if there are none: in a pattern, and in a list
//! whose first edge has none.
//!
//! [`read`] returns all edges of a file in the form that [`DynamicGraph::bulk_build`] takes:
//!
//! ```
//! use phalanx::DynamicGraph;
//! use phalanx::graph::load;
//!
//! let text = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 2 1.5\n";
//! let edges = load::parse::<f32>(text.as_bytes(), "example.mtx")?;
//! let mut graph = DynamicGraph::<f32>::builder().vertices(edges.vertices).kind(edges.kind).build()?;
//! assert!(graph.bulk_build(&edges.sources, &edges.targets, &edges.data)?.all_placed());
//! assert_eq!(graph.weight(&[0, 2], &[1, 1])?, [Some(0.5), Some(1.5)]);
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! [`EdgeReader`] returns edge after edge, with ids of 64 bits.
//!
//! # Cost
//!
//! All on the host. Memory: one line, and the edges that are returned.
use super::Kind;
use super::data::Data;
use super::memory::MOST_VERTICES;
#[allow(unused_imports)] // for links in the documentation
use super::{Builder, DynamicGraph};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::marker::PhantomData;
use std::path::Path;

/// Number of edges for which memory is allocated because a file announces them. More are allocated as they
/// are read, so a wrong number in a file costs no memory.
const TRUSTED_EDGES: u64 = 1 << 20;

/// Beginning of a Matrix Market file.
const HEADER: &str = "%%MatrixMarket";

/// Edges of a file: source, target and data of each, in the order of the file.
///
/// ```
/// use phalanx::graph::{Kind, load};
///
/// let edges = load::parse::<u32>("# a path\n0 1 7\n1 4 8\n".as_bytes(), "path.txt")?;
/// assert_eq!((edges.vertices, edges.kind), (5, Kind::Directed));
/// assert_eq!((edges.sources, edges.targets, edges.data), (vec![0, 1], vec![1, 4], vec![7, 8]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `mirrored` is O(edges) on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeList<E> {
    /// Number of vertices: of an edge list, the largest id plus 1, or 0 without edges; of a matrix, the
    /// larger of its two dimensions. [`Builder::vertices`] requires at least 1.
    pub vertices: usize,
    /// Whether edges have a direction. Those of edge lists and of general matrices have one.
    pub kind: Kind,
    /// Sources of the edges.
    pub sources: Vec<u32>,
    /// Targets of the edges.
    pub targets: Vec<u32>,
    /// Data of the edges. Edges of a pattern and of a list without data have the number 1.
    pub data: Vec<E>,
}

impl<E: Data> EdgeList<E> {
    /// Returns directed edges: of an undirected list, each edge in both directions, except that a self-edge
    /// stays one; a directed list as it is. For `in_edges` and for [`Csr::from_rows`](super::Csr::from_rows).
    ///
    /// ```
    /// use phalanx::graph::{Kind, load};
    ///
    /// let text = "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n";
    /// let edges = load::parse::<()>(text.as_bytes(), "example.mtx")?.mirrored();
    /// assert_eq!((edges.kind, edges.sources), (Kind::Directed, vec![0, 1, 0]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn mirrored(mut self) -> Self {
        if self.kind == Kind::Directed {
            return self;
        }
        for edge in 0..self.sources.len() {
            let (source, target, data) = (self.sources[edge], self.targets[edge], self.data[edge]);
            if source != target {
                self.push(target, source, data);
            }
        }
        Self { kind: Kind::Directed, ..self }
    }

    fn push(&mut self, source: u32, target: u32, data: E) {
        self.sources.push(source);
        self.targets.push(target);
        self.data.push(data);
    }
}

/// Reads all edges of a file. The format follows from the first line.
///
/// ```
/// let error = phalanx::graph::load::read::<()>("no-such-file.mtx").unwrap_err();
/// assert!(error.to_string().contains("no-such-file.mtx"));
/// ```
///
/// # Errors
/// [`Error::EdgeFile`] if the file cannot be read; otherwise as [`parse`].
pub fn read<E: Data>(path: impl AsRef<Path>) -> Result<EdgeList<E>> {
    let path = path.as_ref();
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => parse(BufReader::new(file), &name),
        Err(source) => Err(Error::EdgeFile { file: name, source }),
    }
}

/// Reads all edges of a text, which errors call `name`. The format follows from the first line.
///
/// # Errors
/// [`Error::EdgeLine`] with the number of the line that is malformed, ends too early, or has an id above the
/// 2^32 - 4 vertices of a graph; [`Error::EdgeFile`] if the reader fails.
pub fn parse<E: Data>(text: impl BufRead, name: &str) -> Result<EdgeList<E>> {
    let mut reader = EdgeReader::<_, E>::new(text, name);
    let mut edges =
        EdgeList { vertices: 0, kind: Kind::Directed, sources: vec![], targets: vec![], data: vec![] };
    while let Some((source, target, data)) = reader.next_edge()? {
        if edges.sources.is_empty() {
            let many = reader.expected_edges().min(TRUSTED_EDGES) as usize;
            edges.sources.reserve(many);
            edges.targets.reserve(many);
            edges.data.reserve(many);
        }
        let [source, target] = [reader.vertex(source)?, reader.vertex(target)?];
        edges.vertices = edges.vertices.max(source.max(target) as usize + 1);
        edges.push(source, target, data);
    }
    edges.kind = reader.kind();
    edges.vertices = reader.dimension().map_or(edges.vertices, |vertices| vertices as usize);
    Ok(edges)
}

/// Reads the edges of a text one after the other. Ids are numbers of 64 bits, those of matrices less 1.
///
/// ```
/// use phalanx::graph::load::EdgeReader;
///
/// let text = "70000000000 8\n8 9\n";
/// let edges: phalanx::Result<Vec<_>> = EdgeReader::<_, ()>::new(text.as_bytes(), "list.txt").collect();
/// assert_eq!(edges?, [(70_000_000_000, 8, ()), (8, 9, ())]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// O(length of the line) per edge, on the host.
#[derive(Debug)]
pub struct EdgeReader<R, E> {
    reader: R,
    name: String,
    line: String,
    /// Number of the current line.
    number: u64,
    bytes: u64,
    format: Format,
    of: PhantomData<fn() -> E>,
}

/// Format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The first line determines it.
    Unknown,
    /// An edge list, and whether its edges have data, if an edge has been read.
    List(Option<bool>),
    /// A matrix before its line of sizes.
    Header(Matrix),
    /// Entries of a matrix.
    Entries(Matrix),
}

/// Properties of a Matrix Market file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix {
    /// Whether its entries have values.
    has_values: bool,
    kind: Kind,
    rows: u64,
    columns: u64,
    /// Number of announced entries.
    entries: u64,
    /// Number of entries that follow.
    left: u64,
}

/// Reason why a line is malformed.
type Fault = String;

impl<R: BufRead, E: Data> EdgeReader<R, E> {
    /// Returns a reader of the edges of a text, which errors call `name`.
    pub fn new(reader: R, name: &str) -> Self {
        let (line, name) = (String::new(), name.to_owned());
        Self { reader, name, line, number: 0, bytes: 0, format: Format::Unknown, of: PhantomData }
    }

    /// Returns source, target and data of the next edge, or `None` at the end.
    ///
    /// # Errors
    /// [`Error::EdgeLine`] with the number of the line that is malformed or ends too early;
    /// [`Error::EdgeFile`] if the reader fails.
    pub fn next_edge(&mut self) -> Result<Option<(u64, u64, E)>> {
        while self.read_line()? {
            if let Some(edge) = self.parse_line().map_err(|fault| self.error(fault))? {
                return Ok(Some(edge));
            }
        }
        match self.format {
            Format::Entries(Matrix { entries, left, .. }) if left > 0 => {
                let found = entries - left;
                Err(self.error(format!("the file ends after {found} of {entries} announced entries")))
            }
            Format::Header(_) => {
                Err(self.error("the file ends before the line of its sizes: rows, columns, entries".into()))
            }
            _ => Ok(None),
        }
    }

    /// Returns the number of bytes that have been read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of lines that have been read.
    pub fn lines_read(&self) -> u64 {
        self.number
    }

    /// Returns whether edges have a direction, as far as the lines tell that have been read.
    pub fn kind(&self) -> Kind {
        self.matrix().map_or(Kind::Directed, |matrix| matrix.kind)
    }

    /// Returns the larger dimension of a matrix, once its sizes have been read.
    pub fn dimension(&self) -> Option<u64> {
        match self.format {
            Format::Entries(matrix) => Some(matrix.rows.max(matrix.columns)),
            _ => None,
        }
    }

    fn matrix(&self) -> Option<Matrix> {
        match self.format {
            Format::Header(matrix) | Format::Entries(matrix) => Some(matrix),
            _ => None,
        }
    }

    /// Returns the number of edges that the text announces, or 0.
    fn expected_edges(&self) -> u64 {
        self.matrix().map_or(0, |matrix| matrix.entries)
    }

    fn error(&self, fault: Fault) -> Error {
        Error::EdgeLine { file: self.name.clone(), line: self.number.max(1), fault }
    }

    /// Returns an id as that of a vertex.
    fn vertex(&self, id: u64) -> Result<u32> {
        match id < MOST_VERTICES as u64 {
            true => Ok(id as u32),
            false => Err(self.error(format!("vertex {id} found, but ids must be below {MOST_VERTICES}"))),
        }
    }

    /// Reads the next line. Returns `false` at the end.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        match self.reader.read_line(&mut self.line) {
            Ok(0) => return Ok(false),
            Ok(bytes) => self.bytes += bytes as u64,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                self.number += 1;
                return Err(self.error("the line is no text in UTF-8".into()));
            }
            Err(source) => return Err(Error::EdgeFile { file: self.name.clone(), source }),
        }
        self.number += 1;
        Ok(true)
    }

    /// Returns the edge of the current line, if it has one.
    fn parse_line(&mut self) -> Result<Option<(u64, u64, E)>, Fault> {
        let line = self.line.trim();
        if self.format == Format::Unknown && !line.is_empty() {
            self.format = first_line(line, E::HAS_DATA)?;
        } else if line.starts_with(HEADER) {
            return Err(format!("expected '{HEADER}' in the first line only, found '{line}'"));
        }
        if line.is_empty() || line.starts_with(['#', '%']) {
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match &mut self.format {
            Format::Header(matrix) => {
                self.format = Format::Entries(matrix.with_sizes(&words)?);
                Ok(None)
            }
            Format::Entries(matrix) => matrix.entry(&words).map(Some),
            Format::List(has_data) => listed(&words, has_data).map(Some),
            Format::Unknown => Ok(None),
        }
    }
}

impl<R: BufRead, E: Data> Iterator for EdgeReader<R, E> {
    type Item = Result<(u64, u64, E)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_edge().transpose()
    }
}

impl Matrix {
    /// Returns the matrix with the sizes in a line.
    fn with_sizes(self, words: &[&str]) -> Result<Self, Fault> {
        let &[rows, columns, entries] = words else {
            return Err(format!("expected rows, columns and entries, found {} numbers", words.len()));
        };
        let [rows, columns, entries] =
            [number("of rows", rows)?, number("of columns", columns)?, number("of entries", entries)?];
        if rows != columns && self.kind == Kind::Undirected {
            return Err(format!("{rows} rows and {columns} columns found, but the matrix is symmetric"));
        }
        if rows.max(columns) > MOST_VERTICES as u64 {
            return Err(format!("a dimension of {} found; at most {MOST_VERTICES}", rows.max(columns)));
        }
        Ok(Self { rows, columns, entries, left: entries, ..self })
    }

    /// Returns the edge of an entry.
    fn entry<E: Data>(&mut self, words: &[&str]) -> Result<(u64, u64, E), Fault> {
        let expected = if self.has_values { "row, column and value" } else { "row and column" };
        if words.len() != 2 + usize::from(self.has_values) {
            return Err(format!("expected {expected}, found {} words", words.len()));
        }
        let index = |what: &str, word: &str, most: u64| match number(what, word)? {
            index if (1..=most).contains(&index) => Ok(index - 1),
            index => Err(format!("{what} {index} found; it must be from 1 to {most}")),
        };
        let (row, column) = (index("row", words[0], self.rows)?, index("column", words[1], self.columns)?);
        let value = words.get(2).map_or(Ok(E::ONE), |word| data(word))?;
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Err(format!("an entry after all {} announced ones", self.entries)),
        }
        Ok((row, column, value))
    }
}

/// Returns the edge of a line of an edge list. All lines have data, or none has, if `E` has data.
fn listed<E: Data>(words: &[&str], has_data: &mut Option<bool>) -> Result<(u64, u64, E), Fault> {
    let &[source, target, ref rest @ ..] = words else {
        return Err(format!("expected source and target, found only '{}'", words.join(" ")));
    };
    let edge = (number("source", source)?, number("target", target)?);
    if !E::HAS_DATA {
        return Ok((edge.0, edge.1, E::ONE));
    }
    let expected = *has_data.get_or_insert(!rest.is_empty());
    match (expected, rest) {
        (false, []) => Ok((edge.0, edge.1, E::ONE)),
        (true, [word, ..]) => Ok((edge.0, edge.1, data(word)?)),
        (true, []) => Err("expected data behind source and target, as in the first edge".into()),
        (false, _) => Err(format!("data '{}' found, but the first edge has none", rest.join(" "))),
    }
}

/// Returns the format of a text that begins with this line.
fn first_line(line: &str, has_data: bool) -> Result<Format, Fault> {
    let Some(header) = line.strip_prefix(HEADER) else { return Ok(Format::List(None)) };
    let header = header.to_ascii_lowercase();
    let words: Vec<&str> = header.split_whitespace().collect();
    let &["matrix", "coordinate", field, symmetry] = words.as_slice() else {
        return Err(format!("expected '{HEADER} matrix coordinate FIELD SYMMETRY', found '{line}'"));
    };
    check_one_of("field", field, &["pattern", "integer", "real"])?;
    // The entries of other symmetries have two values, one for each direction.
    let symmetries = ["general", "symmetric", "skew-symmetric"];
    check_one_of("symmetry", symmetry, &symmetries[..if has_data { 2 } else { 3 }])?;
    let kind = if symmetry == "general" { Kind::Directed } else { Kind::Undirected };
    let has_values = field != "pattern";
    Ok(Format::Header(Matrix { has_values, kind, rows: 0, columns: 0, entries: 0, left: 0 }))
}

fn check_one_of(what: &str, word: &str, supported: &[&str]) -> Result<(), Fault> {
    match supported.contains(&word) {
        true => Ok(()),
        false => Err(format!("expected a {what} of {}, found '{word}'", supported.join(", "))),
    }
}

/// Returns the number in a word.
fn number(what: &str, word: &str) -> Result<u64, Fault> {
    word.parse().map_err(|_| format!("expected a number {what}, found '{word}'"))
}

/// Returns the data in a word.
fn data<E: Data>(word: &str) -> Result<E, Fault> {
    E::parse(word).ok_or_else(|| format!("expected data of type {}, found '{word}'", E::TYPE))
}

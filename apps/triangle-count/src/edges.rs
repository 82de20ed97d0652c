//! Edges from files and generators. [`phalanx::graph::load`] describes the formats of files.
use anyhow::{Result, ensure};
use phalanx::graph::load::EdgeReader;
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
    File(EdgeReader<R, ()>),
    /// Generated edges that are left.
    Generated(std::vec::IntoIter<Edge>),
}

impl<R: BufRead> Source<R> {
    /// Returns the edges of a file, which errors call `name`.
    pub fn file(reader: R, name: &str) -> Self {
        Self::File(EdgeReader::new(reader, name))
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
                Self::File(reader) => reader.next_edge()?.map(|(a, b, ())| (a, b)),
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
            Self::File(reader) => reader.bytes_read(),
            Self::Generated(rest) => rest.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_batches() {
        let mut source = Source::file("# a path\n70 8 0.5\n8\t9\n9 70000000000\n".as_bytes(), "path.txt");
        let mut ids = Ids::default();
        assert_eq!(source.next_batch(2, &mut ids).unwrap(), [(0, 1), (1, 2)]);
        assert_eq!(source.progress(), 22);
        assert_eq!(source.next_batch(2, &mut ids).unwrap(), [(2, 3)]);
        assert_eq!((source.next_batch(2, &mut ids).unwrap(), ids.len()), (vec![], 4));
    }

    #[test]
    fn malformed_lines_are_named() {
        let mut source = Source::file("1 2\n3\n".as_bytes(), "path.txt");
        let error = format!("{:#}", source.next_batch(9, &mut Ids::default()).unwrap_err());
        assert!(error.contains("path.txt, line 2"), "{error}");
    }
}

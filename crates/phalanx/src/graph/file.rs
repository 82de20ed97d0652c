//! Saved graphs: a header, the removed vertices, the edges row by row, and a checksum.
//!
//! ```text
//! "PHXGRAPH" · version u16 · kind u16 · data u32 · vertices u64 · removed vertices u64 · edges u64
//! · ids of removed vertices u32 · edges of each vertex u32 · targets u32 · data of the edges
//! · CRC-32 of all before
//! ```
//!
//! All numbers are little-endian. The kind is 1 for undirected graphs, plus 2 if self-edges are allowed, plus
//! 4 if a directed graph stores edges also at their targets, plus 8 if parallel edges are kept; an undirected
//! edge is only in the row of its smaller vertex. The data are 0 (none), 1 (`u32`), 2 (`f32`) or 3 (`u64`).
use super::data::Data;
use super::memory::MOST_VERTICES;
use super::{Builder, DynamicGraph, Kind, Rows};
use crate::map::file::Checked;
use crate::{Error, Outcome, Result};
use std::io::{Read, Write};

const MAGIC: &[u8; 8] = b"PHXGRAPH";
const VERSION: u16 = 1;

/// Numbers of a header.
struct Header {
    kind: Kind,
    self_edges: bool,
    in_edges: bool,
    parallel_edges: bool,
    vertices: usize,
    removed: usize,
    edges: usize,
}

/// Edges of a file.
struct Edges<E> {
    degrees: Vec<u32>,
    targets: Vec<u32>,
    data: Vec<E>,
}

/// Returns the number of the data's type in a file.
fn data_code<E: Data>() -> u32 {
    match size_of::<E>() {
        0 => 0,
        4 if E::FLAGS.has_floats() => 2,
        4 => 1,
        _ => 3,
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Format(what.into()))
}

impl<E: Data> DynamicGraph<E> {
    /// Saves the graph: all vertices, the removed ones with their ids, and all edges with their data. Other
    /// batches may run meanwhile: the file has the state between two of them. Vertices must not be removed
    /// meanwhile, which `&self` excludes.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<f32>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 1], &[1, 2], &[0.5, 1.5])?.all_placed());
    /// let mut saved = Vec::new();
    /// graph.save(&mut saved)?;
    /// let loaded = DynamicGraph::load(&saved[..], DynamicGraph::<f32>::builder())?;
    /// assert_eq!((loaded.vertices(), loaded.edge_count()?), (3, 2));
    /// assert_eq!(loaded.weight(&[1], &[2])?, [Some(1.5)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::snapshot`]; copies the rows to the host, and writes at most 4 bytes per vertex, and 4
    /// and those of the data per edge. Flushes the writer at the end.
    ///
    /// # Errors
    /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        let rows = self.snapshot()?.csr().read()?;
        let (removed, flags) = {
            let memory = self.handle.read();
            (memory.free_ids.clone(), memory.flags)
        };
        let edges = self.edges_once(&rows);
        let bits =
            [flags.is_undirected(), flags.has_self_edges(), flags.has_in_edges(), flags.has_parallel_edges()];
        let kind = bits.into_iter().rev().fold(0, |kind, bit| 2 * kind + u16::from(bit));
        let mut writer = Checked::new(writer);
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&kind.to_le_bytes())?;
        writer.put(&data_code::<E>().to_le_bytes())?;
        for number in [edges.degrees.len(), removed.len(), edges.targets.len()] {
            writer.put(&(number as u64).to_le_bytes())?;
        }
        for words in [&removed, &edges.degrees, &edges.targets] {
            writer.put(bytemuck::cast_slice(words))?;
        }
        if E::HAS_DATA {
            writer.put(bytemuck::cast_slice(&edges.data))?;
        }
        writer.finish()
    }

    /// Returns the edges of rows, those of an undirected graph at their smaller vertex only.
    fn edges_once(&self, rows: &Rows<E>) -> Edges<E> {
        let (mut degrees, mut targets, mut data) = (Vec::new(), Vec::new(), Vec::new());
        for vertex in 0..rows.offsets.len() as u32 - 1 {
            let first = rows.offsets[vertex as usize] as usize;
            let before = targets.len();
            for (place, &target) in (first..).zip(rows.of(vertex)) {
                if self.kind == Kind::Directed || vertex <= target {
                    targets.push(target);
                    data.push(rows.data[place]);
                }
            }
            degrees.push((targets.len() - before) as u32);
        }
        Edges { degrees, targets, data }
    }

    /// Loads a graph that [`Self::save`] wrote. Vertices, kind and whether self-edges and parallel edges are
    /// allowed are those of the file, the other parameters those of the builder; memory is allocated for the
    /// degrees.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved graph, is of another version or another type of data, or
    /// is damaged; [`Error::Io`] if the reader fails; [`Error::NoRoom`] if the edges do not fit; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<E>) -> Result<Self> {
        let mut reader = Checked::new(reader);
        let header = read_header::<E, _>(&mut reader)?;
        let removed = reader.words::<u32>(header.removed)?;
        let edges = read_edges(reader, &header)?;
        let sources = sources_of(&edges.degrees);
        let mut degrees = edges.degrees;
        if header.kind == Kind::Undirected {
            let others = edges.targets.iter().filter(|&&target| (target as usize) < degrees.len()).copied();
            others.collect::<Vec<_>>().into_iter().for_each(|target| degrees[target as usize] += 1);
        }
        let builder = builder.vertices(header.vertices).kind(header.kind).self_edges(header.self_edges);
        let builder = builder.in_edges(header.in_edges).parallel_edges(header.parallel_edges);
        let mut graph = builder.degrees(&degrees).build()?;
        graph.expect(&sources, &edges.targets)?;
        let outcomes = graph.insert_any(&sources, &edges.targets, &edges.data)?;
        if outcomes.count(Outcome::Inserted) != sources.len() {
            return wrong("an edge occurs twice, or cannot exist");
        }
        if graph.remove_vertices(&removed)?.count(Outcome::Removed) != removed.len() {
            return wrong("a removed vertex occurs twice, or does not exist");
        }
        match graph.edge_count()? == sources.len() {
            true => Ok(graph),
            false => wrong("a removed vertex has edges"),
        }
    }
}

/// Reads the header of a graph with data `E`.
fn read_header<E: Data, R: Read>(reader: &mut Checked<R>) -> Result<Header> {
    if reader.number::<8>()? != *MAGIC {
        return wrong("it does not begin with PHXGRAPH");
    }
    let version = u16::from_le_bytes(reader.number()?);
    if version != VERSION {
        return wrong(format!("its format version is {version}; supported: {VERSION}"));
    }
    let kind = u16::from_le_bytes(reader.number()?);
    if ![0, 1, 2, 3, 4, 6, 8, 10].contains(&kind) {
        return wrong(format!("it has a graph of the unknown kind {kind}"));
    }
    let data = u32::from_le_bytes(reader.number()?);
    if data != data_code::<E>() {
        let names = ["no data", "`u32`", "`f32`", "`u64`"];
        let found = names.get(data as usize).unwrap_or(&"data of an unknown type");
        return wrong(format!("its edges have {found}; expected {}", names[data_code::<E>() as usize]));
    }
    let mut numbers = [0; 3];
    for number in &mut numbers {
        *number = usize::try_from(u64::from_le_bytes(reader.number()?)).unwrap_or(usize::MAX);
    }
    let [vertices, removed, edges] = numbers;
    if vertices == 0 || vertices > MOST_VERTICES || removed > vertices {
        return wrong(format!("it has {vertices} vertices, {removed} of them removed"));
    }
    let kind_of = |bits| if bits & 1 == 1 { Kind::Undirected } else { Kind::Directed };
    Ok(Header {
        kind: kind_of(kind),
        self_edges: kind & 2 == 2,
        in_edges: kind & 4 == 4,
        parallel_edges: kind & 8 == 8,
        vertices,
        removed,
        edges,
    })
}

/// Reads the edges and the checksum.
fn read_edges<E: Data, R: Read>(mut reader: Checked<R>, header: &Header) -> Result<Edges<E>> {
    let degrees = reader.words::<u32>(header.vertices)?;
    let sum: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
    if sum != header.edges as u64 {
        return wrong(format!("it announces {} edges, but vertices have {sum}", header.edges));
    }
    let targets = reader.words::<u32>(header.edges)?;
    let data = match E::HAS_DATA {
        true => reader.words::<E::Bits>(header.edges)?.into_iter().map(E::from_bits).collect(),
        false => Vec::new(),
    };
    reader.check()?;
    Ok(Edges { degrees, targets, data })
}

/// Returns the source of each edge.
fn sources_of(degrees: &[u32]) -> Vec<u32> {
    let rows = (0u32..).zip(degrees);
    rows.flat_map(|(vertex, &degree)| std::iter::repeat_n(vertex, degree as usize)).collect()
}

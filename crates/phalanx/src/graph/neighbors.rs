//! Degrees and edges of vertices, on the host.
use super::batches::Batches;
use super::data::Data;
use super::kernels::{Launch, Side};
use super::{DynamicGraph, Kind};
use crate::{Error, Result};
use gpu::Buffer;
use std::ops::Range;

/// The edges of some vertices, in the order in which the vertices were asked for. See
/// [`DynamicGraph::neighbors`].
///
/// ```
/// use phalanx::DynamicGraph;
///
/// let graph = DynamicGraph::<u32>::builder().vertices(4).build()?;
/// assert!(graph.insert(&[1, 1], &[3, 2], &[30, 20])?.all_placed());
/// let mut found = graph.neighbors(&[0, 1])?;
/// found.sort();
/// assert_eq!((found.len(), found.is_empty()), (2, false));
/// assert_eq!((found.of(1), found.data(1)), (&[2, 3][..], &[20, 30][..]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `sort` sorts on the host. The others are O(1).
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbors<E> {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    data: Vec<E>,
}

impl<E: Data> Neighbors<E> {
    /// Returns the number of vertices that were asked for.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether no vertex was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the targets of the edges of the vertex that was asked for at position `index`.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn of(&self, index: usize) -> &[u32] {
        &self.targets[self.range(index)]
    }

    /// Returns the data of these edges, in the same order.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn data(&self, index: usize) -> &[E] {
        &self.data[self.range(index)]
    }

    /// Sorts the edges of each vertex by target.
    pub fn sort(&mut self) {
        for index in 0..self.len() {
            let range = self.range(index);
            let (targets, data) = (&self.targets[range.clone()], &self.data[range.clone()]);
            let mut edges: Vec<(u32, E)> = targets.iter().copied().zip(data.iter().copied()).collect();
            edges.sort_by_key(|edge| edge.0);
            for (place, (target, data)) in range.zip(edges) {
                (self.targets[place], self.data[place]) = (target, data);
            }
        }
    }

    fn range(&self, index: usize) -> Range<usize> {
        self.offsets[index] as usize..self.offsets[index + 1] as usize
    }
}

impl<E: Data> DynamicGraph<E> {
    pub(super) fn degrees(&self, side: Side, vertices: &[u32]) -> Result<Vec<u32>> {
        let stream = self.device().stream()?;
        let vertices = self.device().from_slice(vertices)?;
        Ok(self.degrees_of(side, &self.on(&stream), &vertices)?.read()?)
    }

    /// Returns the side of the edges that lead to a vertex.
    pub(super) fn in_side(&self) -> Result<Side> {
        match self.kind() {
            Kind::Undirected => Ok(Side::Out),
            Kind::Directed if self.has_in_edges() => Ok(Side::In),
            Kind::Directed => Err(Error::NoInEdges),
        }
    }

    fn degrees_of(
        &self,
        side: Side,
        batches: &Batches<'_, E>,
        vertices: &Buffer<u32>,
    ) -> Result<Buffer<u32>> {
        let mut degrees = self.device().buffer(vertices.len())?;
        match side {
            Side::Out => batches.degree(vertices, &mut degrees)?,
            Side::In => batches.in_degree(vertices, &mut degrees)?,
        }
        Ok(degrees)
    }

    /// Returns the edges of vertices. If batches that change the graph run meanwhile, the edges of a vertex
    /// are those that it has at the time of the second launch, but not more than it had before.
    pub(super) fn edges_of(&self, side: Side, vertices: &[u32]) -> Result<Neighbors<E>> {
        let stream = self.device().stream()?;
        let batches = self.on(&stream);
        let vertices = self.device().from_slice(vertices)?;
        let degrees = self.degrees_of(side, &batches, &vertices)?.read()?;
        let mut offsets = vec![0u64];
        offsets.extend(degrees.iter().scan(0u64, |sum, &degree| {
            *sum += u64::from(degree);
            Some(*sum)
        }));
        let len = *offsets.last().unwrap_or(&0) as usize;
        let places = self.device().from_slice(&offsets)?;
        // Places that the kernel does not write have no vertex's id.
        let targets = self.device().filled::<u32>(len, 0xff)?;
        let data = self.device().zeroed::<E::Bits>(if E::HAS_DATA { len } else { 0 })?;
        let (targets_of, data_of) = (targets.global(), data.global());
        let launch = Launch::Neighbors(side, vertices.global(), places.global(), targets_of, data_of);
        batches.submit_lookup(launch)?;
        let (targets, bits) = (targets.read()?, data.read()?);
        let data = match E::HAS_DATA {
            true => bits.into_iter().map(E::from_bits).collect(),
            false => vec![E::from_bits(Default::default()); len],
        };
        Ok(Neighbors { offsets, targets, data }.without_gaps())
    }
}

impl<E: Data> Neighbors<E> {
    /// Drops the places that have no edge.
    fn without_gaps(self) -> Self {
        if !self.targets.contains(&u32::MAX) {
            return self;
        }
        let (mut offsets, mut targets, mut data) = (vec![0], Vec::new(), Vec::new());
        for index in 0..self.len() {
            let edges = self.of(index).iter().zip(self.data(index));
            for (&target, &bits) in edges.filter(|edge| *edge.0 != u32::MAX) {
                targets.push(target);
                data.push(bits);
            }
            offsets.push(targets.len() as u64);
        }
        Self { offsets, targets, data }
    }
}

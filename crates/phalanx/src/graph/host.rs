//! Batches on slices of the host, which reach the device by chunks through staging memory: see
//! [`host`](crate::map::host) and decision 31.
use super::DynamicGraph;
use super::batches::Batches;
use super::data::{Data, Weight};
use crate::map::host::{Pipeline, put};
use crate::map::launch::nothing;
use crate::map::{check, outcome_of};
use crate::{Merge, Outcome, Outcomes, Result};
use gpu::{Column, Layout, Slice, SliceMut, Staging};
use phalanx_kernels::keyed::OpCode;
use std::ops::Range;

/// Elements of a batch on the host.
#[derive(Clone, Copy)]
pub struct Request<'a, E> {
    pub sources: &'a [u32],
    pub targets: &'a [u32],
    /// Data, or none.
    pub data: &'a [E],
    /// Whether the operation returns data.
    pub returns: bool,
}

impl<'a, E> Request<'a, E> {
    /// Returns a request for an operation on edges without data.
    fn of_edges(sources: &'a [u32], targets: &'a [u32], returns: bool) -> Result<Self> {
        check("targets", sources.len(), targets.len())?;
        Ok(Self { sources, targets, data: &[], returns })
    }

    /// Returns a request for an operation on edges with data.
    fn of_weights(sources: &'a [u32], targets: &'a [u32], data: &'a [E]) -> Result<Self> {
        check("data", sources.len(), data.len())?;
        Ok(Self { data, ..Self::of_edges(sources, targets, false)? })
    }
}

/// A chunk as batches take it.
pub struct Part<'a, E> {
    sources: Slice<'a, u32>,
    targets: Slice<'a, u32>,
    data: Slice<'a, E>,
    results: SliceMut<'a, E>,
    outcomes: SliceMut<'a, u8>,
}

/// Function that submits a chunk.
type Submit<'a, E> = &'a dyn Fn(Batches<'_, E>, Part<'_, E>) -> Result<()>;

/// Receives the outcomes and data of chunks, in order.
type Sink<'a, E> = &'a mut dyn FnMut(Range<usize>, &[u8], &[E]) -> Result<()>;

/// Columns of a chunk. Those that the operation does not need are empty.
#[derive(Clone, Copy)]
struct Columns<E> {
    sources: Column<u32>,
    targets: Column<u32>,
    data: Column<E>,
    results: Column<E>,
    outcomes: Column<u8>,
}

impl<E: Data> Columns<E> {
    fn new(request: &Request<'_, E>, len: usize) -> Result<Self> {
        let mut layout = Layout::default();
        let if_any = |any: bool| if any { len } else { 0 };
        Ok(Self {
            sources: layout.column(len)?,
            targets: layout.column(len)?,
            data: layout.column(if_any(!request.data.is_empty()))?,
            results: layout.column(if_any(request.returns))?,
            outcomes: layout.column(len)?,
        })
    }

    /// Returns the number of bytes of an element.
    fn bytes_each(request: &Request<'_, E>) -> usize {
        let data = usize::from(!request.data.is_empty()) + usize::from(request.returns);
        2 * size_of::<u32>() + data * size_of::<E>() + 1
    }

    /// Copies a part of the elements to the device.
    fn fill(&self, staging: &mut Staging, request: &Request<'_, E>, range: &Range<usize>) -> Result<()> {
        put(staging, self.sources, &request.sources[range.clone()], |id| id)?;
        put(staging, self.targets, &request.targets[range.clone()], |id| id)?;
        let data = request.data.get(range.clone()).unwrap_or(&[]);
        put(staging, self.data, data, |data| data)?;
        // The outcome of elements that are not submitted.
        Ok(staging.fill(self.outcomes, Outcome::Refused as u8)?)
    }

    fn part<'a>(&self, staging: &'a Staging) -> Result<Part<'a, E>> {
        // SAFETY: each column has one slice, and the host reads it only after they are dropped.
        unsafe {
            Ok(Part {
                sources: staging.slice(self.sources)?,
                targets: staging.slice(self.targets)?,
                data: staging.slice(self.data)?,
                results: staging.slice_mut(self.results)?,
                outcomes: staging.slice_mut(self.outcomes)?,
            })
        }
    }
}

impl<E: Data> DynamicGraph<E> {
    /// Runs a batch by chunks, each of which `submit` submits. If a submission fails, no more chunks follow;
    /// the sink still receives the results of those before.
    fn by_chunks(&self, request: &Request<'_, E>, submit: Submit<'_, E>, sink: Sink<'_, E>) -> Result<()> {
        let columns = |range: &Range<usize>| Columns::new(request, range.len());
        let mut drain = |staging: &mut Staging, range: Range<usize>| {
            let columns = columns(&range)?;
            staging.wait()?;
            sink(range, staging.read(columns.outcomes)?, staging.read(columns.results)?)
        };
        let bytes_each = Columns::bytes_each(request);
        let mut submit_chunk = |staging: &mut Staging, range: &Range<usize>| {
            let columns = columns(range)?;
            columns.fill(staging, request, range)?;
            let stream = staging.stream().clone();
            let submitted = submit(self.on(&stream), columns.part(staging)?);
            staging.download(columns.outcomes)?;
            staging.download(columns.results)?;
            Ok(submitted)
        };
        Pipeline::new(self.device(), request.sources.len(), bytes_each).run(&mut submit_chunk, &mut drain)
    }

    /// Runs a batch by chunks, and returns the outcomes.
    fn outcomes(&self, request: &Request<'_, E>, submit: Submit<'_, E>) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(request.sources.len());
        self.by_chunks(request, submit, &mut |_, codes, _| {
            outcomes.extend(codes.iter().copied().map(outcome_of));
            Ok(())
        })?;
        Ok(outcomes)
    }

    pub(super) fn remove_edges(&self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        let request = Request::of_edges(sources, targets, false)?;
        let outcomes = self
            .outcomes(&request, &|batches, part| batches.remove(part.sources, part.targets, part.outcomes))?;
        Ok(outcomes.into())
    }

    pub(super) fn presence(&self, sources: &[u32], targets: &[u32]) -> Result<Vec<bool>> {
        let request = Request::of_edges(sources, targets, false)?;
        let outcomes = self.outcomes(&request, &|batches, part| {
            batches.has_edge(part.sources, part.targets, part.outcomes)
        })?;
        Ok(outcomes.into_iter().map(|outcome| outcome == Outcome::Found).collect())
    }

    /// Inserts edges. `data` is ignored unless edges have data.
    pub(super) fn insert_any(&self, sources: &[u32], targets: &[u32], data: &[E]) -> Result<Outcomes> {
        let request = match E::HAS_DATA {
            true => Request::of_weights(sources, targets, data)?,
            false => Request::of_edges(sources, targets, false)?,
        };
        self.insert_edges(request, None)
    }

    /// Inserts edges, or merges into their data. If memory is lacking, adds some and tries the refused edges
    /// again.
    fn insert_edges(&self, request: Request<'_, E>, merge: Option<OpCode>) -> Result<Outcomes> {
        let submit = |batches: Batches<'_, E>, part: Part<'_, E>| {
            let data = if E::HAS_DATA { batches.words(part.data)? } else { nothing() };
            let edges = batches.changes(part.sources, part.targets, data, part.outcomes)?;
            batches.submit_insertion(merge, edges)
        };
        self.with_memory(request, &|request| self.outcomes(request, &submit))
    }
}

/// Insertion of edges without data.
impl DynamicGraph<()> {
    /// Inserts edges. Outcomes: `Inserted`, `Found`, `Refused`. Refused are self-edges, unless
    /// [`Builder::self_edges`](super::Builder::self_edges) allows them, and edges whose endpoint does not
    /// exist. If memory is lacking, allocates more.
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Outcome};
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
    /// let outcomes = graph.insert(&[0, 1, 2], &[1, 1, 3])?;
    /// assert_eq!(outcomes, [Outcome::Inserted, Outcome::Refused, Outcome::Refused]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the slices differ in length;
    /// [`Error::NoRoom`](crate::Error::NoRoom) with the outcomes if the memory is fixed, or there is no more
    /// of it; [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn insert(&self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        self.insert_edges(Request::of_edges(sources, targets, false)?, None)
    }
}

/// Operations on edges with data.
impl<E: Weight> DynamicGraph<E> {
    /// Inserts edges, and replaces the data of those that are present. Outcomes: `Inserted`, `Replaced`,
    /// `Refused`. Refused are self-edges, unless [`Builder::self_edges`](super::Builder::self_edges) allows
    /// them, edges whose endpoint does not exist, and data that are NaN. If memory is lacking, allocates
    /// more.
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Outcome};
    ///
    /// let graph = DynamicGraph::<f32>::builder().vertices(3).build()?;
    /// let outcomes = graph.insert(&[0, 1], &[1, 2], &[0.5, f32::NAN])?;
    /// assert_eq!(outcomes, [Outcome::Inserted, Outcome::Refused]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`DynamicGraph::<()>::insert`](DynamicGraph::insert).
    pub fn insert(&self, sources: &[u32], targets: &[u32], data: &[E]) -> Result<Outcomes> {
        self.insert_edges(Request::of_weights(sources, targets, data)?, None)
    }

    /// Inserts edges, and merges into the data of those that are present. Otherwise as [`Self::insert`].
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Merge};
    ///
    /// let graph = DynamicGraph::<f32>::builder().vertices(3).build()?;
    /// assert!(graph.upsert(Merge::Add, &[0, 0], &[1, 1], &[0.5, 1.0])?.all_placed());
    /// assert_eq!(graph.weight(&[0], &[1])?, [Some(1.5)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(&self, merge: Merge<E>, sources: &[u32], targets: &[u32], data: &[E]) -> Result<Outcomes> {
        self.insert_edges(Request::of_weights(sources, targets, data)?, Some(merge.operation()))
    }

    /// Returns the data of the edge of each pair of vertices, or `None` if it has none.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<u64>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0], &[1], &[1 << 40])?.all_placed());
    /// assert_eq!(graph.weight(&[0, 1], &[1, 0])?, [Some(1 << 40), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn weight(&self, sources: &[u32], targets: &[u32]) -> Result<Vec<Option<E>>> {
        let request = Request::of_edges(sources, targets, true)?;
        let mut found = Vec::with_capacity(sources.len());
        let submit = |batches: Batches<'_, E>, part: Part<'_, E>| {
            batches.weight(part.sources, part.targets, part.results, part.outcomes)
        };
        self.by_chunks(&request, &submit, &mut |_, codes, data| {
            let pairs = codes.iter().zip(data);
            found.extend(pairs.map(|(code, &data)| (outcome_of(*code) == Outcome::Found).then_some(data)));
            Ok(())
        })?;
        Ok(found)
    }
}

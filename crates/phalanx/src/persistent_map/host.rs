//! Batches on slices of the host, which reach the device by chunks through staging memory, as those of maps:
//! see [`host`](crate::map::host) and decision 31.
use super::{Batches, PersistentMap, Plain};
use crate::map::host::{Pipeline, put};
use crate::map::{check, outcome_of};
use crate::{Outcome, Result};
use gpu::{Column, Layout, Slice, SliceMut, Staging};
use std::ops::Range;

/// Elements of a batch on the host.
#[derive(Clone, Copy)]
pub struct Request<'a, K, V> {
    pub keys: &'a [K],
    /// Values, or none.
    pub values: &'a [V],
    /// Whether the operation returns values.
    pub returns: bool,
}

impl<'a, K, V> Request<'a, K, V> {
    /// Returns a request for an operation on keys alone.
    pub fn of_keys(keys: &'a [K], returns: bool) -> Self {
        Self { keys, values: &[], returns }
    }

    /// Returns a request with a value for each key.
    pub fn of_pairs(keys: &'a [K], values: &'a [V]) -> Result<Self> {
        check("values", keys.len(), values.len())?;
        Ok(Self { keys, values, returns: false })
    }
}

/// A chunk as batches take it.
pub struct Part<'a, K, V> {
    pub keys: Slice<'a, K>,
    pub values: Slice<'a, V>,
    pub results: SliceMut<'a, V>,
    pub outcomes: SliceMut<'a, u8>,
}

/// Function that submits a chunk.
pub type Submit<'a, K, V> = &'a dyn Fn(Batches<'_, K, V>, Part<'_, K, V>) -> Result<()>;

/// Receives the outcomes and values of chunks, in order.
pub type Sink<'a, V> = &'a mut dyn FnMut(Range<usize>, &[u8], &[V]) -> Result<()>;

/// Columns of a chunk. Those that the operation does not need are empty.
#[derive(Clone, Copy)]
struct Columns<K, V> {
    keys: Column<K>,
    values: Column<V>,
    results: Column<V>,
    outcomes: Column<u8>,
}

impl<K: Plain, V: Plain> Columns<K, V> {
    fn new(request: &Request<'_, K, V>, len: usize) -> Result<Self> {
        let mut layout = Layout::default();
        let if_any = |any: bool| if any { len } else { 0 };
        Ok(Self {
            keys: layout.column(len)?,
            values: layout.column(if_any(!request.values.is_empty()))?,
            results: layout.column(if_any(request.returns))?,
            outcomes: layout.column(len)?,
        })
    }

    /// Returns the number of bytes of an element.
    fn bytes_each(request: &Request<'_, K, V>) -> usize {
        let values = usize::from(!request.values.is_empty()) + usize::from(request.returns);
        size_of::<K>() + values * size_of::<V>() + 1
    }

    /// Copies a part of the elements to the device.
    fn fill(&self, staging: &mut Staging, request: &Request<'_, K, V>, range: &Range<usize>) -> Result<()> {
        put(staging, self.keys, &request.keys[range.clone()], |key| key)?;
        let values = request.values.get(range.clone()).unwrap_or(&[]);
        put(staging, self.values, values, |value| value)?;
        // The outcome of elements that are not submitted.
        Ok(staging.fill(self.outcomes, Outcome::Refused as u8)?)
    }

    fn part<'a>(&self, staging: &'a Staging) -> Result<Part<'a, K, V>> {
        // SAFETY: each column has one slice, and the host reads it only after they are dropped.
        unsafe {
            Ok(Part {
                keys: staging.slice(self.keys)?,
                values: staging.slice(self.values)?,
                results: staging.slice_mut(self.results)?,
                outcomes: staging.slice_mut(self.outcomes)?,
            })
        }
    }
}

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Runs a batch by chunks, each of which `submit` submits. If a submission fails, no more chunks follow;
    /// the sink still receives the results of those before.
    pub(super) fn by_chunks(
        &self,
        request: &Request<'_, K, V>,
        submit: Submit<'_, K, V>,
        sink: Sink<'_, V>,
    ) -> Result<()> {
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
        Pipeline::new(self.device(), request.keys.len(), bytes_each).run(&mut submit_chunk, &mut drain)
    }

    /// Runs a batch by chunks, and returns the outcomes.
    pub(super) fn outcomes(
        &self,
        request: &Request<'_, K, V>,
        submit: Submit<'_, K, V>,
    ) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(request.keys.len());
        self.by_chunks(request, submit, &mut |_, codes, _| {
            outcomes.extend(codes.iter().copied().map(outcome_of));
            Ok(())
        })?;
        Ok(outcomes)
    }
}

//! Batches on slices of the host, which reach the device by chunks through staging memory, as those of maps:
//! see [`host`](crate::map::host) and decision 31.
//!
//! Chunks are batches of their own, each with a stream. Those of inserters run one after the other, in the
//! order of the elements; their copies overlap with the kernels of others.
use super::CacheTable;
use super::batches::{Batches, EvictedBuffers};
use crate::map::host::{Chunk, Pipeline, put};
use crate::map::parallel;
use crate::map::{check, outcome_of};
use crate::number::Number;
use crate::{Outcome, Result};
use bytemuck::Pod;
use gpu::{Column, Layout, Reach, Slice, SliceMut, Staging};
use phalanx_kernels::keyed::Scalar;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements of a batch on the host. Columns that the operation does not need are empty.
#[derive(Clone, Copy)]
pub struct Request<'a, K, V, S> {
    keys: &'a [K],
    rows: &'a [V],
    scores: &'a [S],
    /// Whether the operation returns rows.
    returns: bool,
    /// Whether the operation returns what it evicts.
    evicts: bool,
    /// Pinned memory of the caller to which the rows are copied. It has a row for each key, is alive until
    /// the call returns, and nothing else accesses it.
    direct: Option<*mut V>,
}

impl<'a, K, V, S> Request<'a, K, V, S> {
    /// Returns a request for an operation on keys alone.
    pub fn of_keys(keys: &'a [K]) -> Self {
        Self { keys, rows: &[], scores: &[], returns: false, evicts: false, direct: None }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a row for each key.
    pub fn rows(self, rows: &'a [V], dim: usize) -> Result<Self> {
        check("rows", self.keys.len().saturating_mul(dim), rows.len())?;
        Ok(Self { rows, ..self })
    }

    /// Returns whether the elements have rows.
    pub fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Adds a score for each key.
    pub fn scores(self, scores: &'a [S]) -> Result<Self> {
        check("scores", self.keys.len(), scores.len())?;
        Ok(Self { scores, ..self })
    }

    /// Asks for rows.
    pub fn returning(self) -> Self {
        Self { returns: true, ..self }
    }

    /// Asks for what is evicted.
    pub fn evicting(self) -> Self {
        Self { evicts: true, ..self }
    }

    /// Returns the request with pinned memory for the rows.
    ///
    /// # Safety
    /// - As the field states.
    pub unsafe fn directly(self, rows: *mut V) -> Self {
        Self { direct: Some(rows), ..self }
    }
}

/// Columns of a chunk.
#[derive(Clone, Copy)]
struct Columns<K, V, S> {
    keys: Column<K>,
    rows: Column<V>,
    scores: Column<S>,
    results: Column<V>,
    outcomes: Column<u8>,
    evicted_keys: Column<K>,
    evicted_rows: Column<V>,
    evicted_scores: Column<S>,
    evicted_count: Column<u32>,
}

/// A chunk on the device.
pub struct Part<'a, K, V, S> {
    pub keys: Slice<'a, K>,
    pub rows: Slice<'a, V>,
    pub results: SliceMut<'a, V>,
    pub outcomes: SliceMut<'a, u8>,
    pub evicted: EvictedBuffers<'a, K, V, S>,
}

/// Results of a chunk.
pub struct Results<'a, K, V, S> {
    pub range: Range<usize>,
    /// Codes of outcomes.
    pub codes: &'a [u8],
    pub rows: &'a [V],
    /// Evicted keys, scores and rows.
    pub evicted: (&'a [K], &'a [S], &'a [V]),
}

impl<K, V, S> Results<'_, K, V, S> {
    /// Appends the outcomes.
    pub fn append_outcomes(&self, to: &mut Vec<Outcome>) -> Result<()> {
        parallel::append(to, (self.codes, self.codes), |&code, _| Ok(outcome_of(code)))
    }
}

/// Function that submits a chunk.
pub type Submit<'a, K, V, S> = &'a dyn Fn(Batches<'_, K, V, S>, Part<'_, K, V, S>) -> Result<()>;

/// Receives the results of chunks, in order.
pub type Sink<'a, K, V, S> = &'a mut dyn FnMut(Results<'_, K, V, S>) -> Result<()>;

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> Columns<K, V, S> {
    /// Returns the columns for `len` elements of a request.
    fn new(request: &Request<'_, K, V, S>, len: usize, dim: usize) -> Result<Self> {
        let mut layout = Layout::default();
        let if_any = |any: bool, len: usize| if any { len } else { 0 };
        let (evicts, scored) = (request.evicts, !request.scores.is_empty());
        Ok(Self {
            keys: layout.column(len)?,
            rows: layout.column(if_any(!request.rows.is_empty(), len * dim))?,
            scores: layout.column(if_any(scored, len))?,
            results: layout.column(if_any(request.returns, len * dim))?,
            outcomes: layout.column(len)?,
            evicted_keys: layout.column(if_any(evicts, len))?,
            evicted_rows: layout.column(if_any(evicts, len * dim))?,
            evicted_scores: layout.column(if_any(evicts, len))?,
            evicted_count: layout.column(if_any(evicts, 1))?,
        })
    }

    /// Returns the number of bytes of an element.
    fn bytes_each(request: &Request<'_, K, V, S>, dim: usize) -> usize {
        let (evicts, scored) = (usize::from(request.evicts), usize::from(!request.scores.is_empty()));
        let rows = usize::from(!request.rows.is_empty()) + usize::from(request.returns) + evicts;
        (1 + evicts) * size_of::<K>() + (scored + evicts) * size_of::<S>() + rows * dim * size_of::<V>() + 1
    }

    /// Copies a part of the elements to the device.
    fn fill(
        &self,
        staging: &mut Staging,
        request: &Request<'_, K, V, S>,
        range: &Range<usize>,
        dim: usize,
    ) -> Result<()> {
        put(staging, self.keys, &request.keys[range.clone()], |key| key)?;
        put(staging, self.scores, request.scores.get(range.clone()).unwrap_or(&[]), |score| score)?;
        let rows = request.rows.get(range.start * dim..range.end * dim).unwrap_or(&[]);
        put_rows(staging, self.rows, rows)
    }

    /// Returns the chunk as batches take it.
    fn part<'a>(&self, staging: &'a Staging) -> Result<Part<'a, K, V, S>> {
        // SAFETY: each column has one slice, and the host reads it only after they are dropped.
        unsafe {
            Ok(Part {
                keys: staging.slice(self.keys)?,
                rows: staging.slice(self.rows)?,
                results: staging.slice_mut(self.results)?,
                outcomes: staging.slice_mut(self.outcomes)?,
                evicted: EvictedBuffers {
                    keys: staging.slice_mut(self.evicted_keys)?,
                    rows: staging.slice_mut(self.evicted_rows)?,
                    scores: staging.slice_mut(self.evicted_scores)?,
                    count: staging.slice_mut(self.evicted_count)?,
                },
            })
        }
    }

    /// Submits copies of the results. Rows for the caller's pinned memory are those from `direct` on.
    fn fetch(&self, staging: &mut Staging, direct: Option<*mut V>) -> Result<()> {
        match direct {
            // SAFETY: as the request's field states.
            Some(rows) => unsafe { staging.download_to(self.results, rows)? },
            None => staging.download(self.results)?,
        }
        staging.download(self.outcomes)?;
        staging.download(self.evicted_keys)?;
        staging.download(self.evicted_rows)?;
        staging.download(self.evicted_scores)?;
        Ok(staging.download(self.evicted_count)?)
    }

    /// Returns the results, for which the caller has waited.
    fn results<'a>(
        &self,
        staging: &'a Staging,
        range: Range<usize>,
        dim: usize,
    ) -> Result<Results<'a, K, V, S>> {
        let evicted = staging.read(self.evicted_count)?.first().map_or(0, |count| *count as usize);
        Ok(Results {
            range,
            codes: staging.read(self.outcomes)?,
            rows: staging.read(self.results)?,
            evicted: (
                staging.read(self.evicted_keys.first(evicted))?,
                staging.read(self.evicted_scores.first(evicted))?,
                staging.read(self.evicted_rows.first(evicted * dim))?,
            ),
        })
    }
}

/// Copies rows to where kernels reach a column, as words. Pinned rows are copied from where they are.
fn put_rows<V: Pod>(staging: &mut Staging, column: Column<V>, rows: &[V]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if staging.reach() == Reach::Copied && staging.device().is_pinned(rows) {
        // SAFETY: the rows are borrowed until the call has waited for all chunks.
        unsafe { staging.upload_from(rows, column)? };
        return Ok(());
    }
    copy_rows(staging.host(column)?, rows);
    Ok(staging.upload(column)?)
}

/// Copies rows; both slices have the same length.
pub fn copy_rows<V: Pod>(to: &mut [V], from: &[V]) {
    match (bytemuck::try_cast_slice_mut::<V, u32>(to), bytemuck::try_cast_slice::<V, u32>(from)) {
        (Ok(to), Ok(from)) => parallel::copy(to, from),
        // Elements of one or two bytes need not begin at whole words.
        _ => to.copy_from_slice(from),
    }
}

/// Appends rows.
pub fn append_rows<V: Pod>(to: &mut Vec<V>, from: &[V]) {
    to.reserve(from.len());
    // SAFETY: any bytes are valid for both types, since neither need be initialized.
    let room = unsafe { to.spare_capacity_mut()[..from.len()].align_to_mut::<MaybeUninit<u32>>() };
    let (([], room, []), Ok(words)) = (room, bytemuck::try_cast_slice::<V, u32>(from)) else {
        // Elements of one or two bytes need not begin at whole words.
        return to.extend_from_slice(from);
    };
    parallel::convert(room, words, |to, &word| {
        to.write(word);
    });
    // SAFETY: the words of as many elements were written.
    unsafe { to.set_len(to.len() + from.len()) };
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Runs a batch by chunks, each of which `submit` submits. If a submission fails, no more chunks follow;
    /// the sink still receives the results of those before.
    pub(super) fn by_chunks(
        &self,
        request: &Request<'_, K, V, S>,
        submit: Submit<'_, K, V, S>,
        sink: Sink<'_, K, V, S>,
    ) -> Result<()> {
        let columns = |range: &Range<usize>| Columns::new(request, range.len(), self.dim);
        let mut drain = |staging: &mut Staging, range: Range<usize>| {
            staging.wait()?;
            sink(columns(&range)?.results(staging, range, self.dim)?)
        };
        let bytes_each = Columns::bytes_each(request, self.dim);
        let mut pipeline = Pipeline::new(&self.device, request.keys.len(), bytes_each);
        let mut submitted = Ok(());
        while submitted.is_ok()
            && let Some(Chunk { mut staging, range }) = pipeline.next(&mut drain)?
        {
            let columns = columns(&range)?;
            columns.fill(&mut staging, request, &range, self.dim)?;
            submitted = self.submit_chunk(&mut staging, &columns, request, submit);
            if submitted.is_ok() {
                let first = range.start * self.dim;
                columns.fetch(&mut staging, request.direct.map(|rows| rows.wrapping_add(first)))?;
                pipeline.push(Chunk { staging, range });
            }
        }
        pipeline.finish(&mut drain)?;
        submitted
    }

    fn submit_chunk(
        &self,
        staging: &mut Staging,
        columns: &Columns<K, V, S>,
        request: &Request<'_, K, V, S>,
        submit: Submit<'_, K, V, S>,
    ) -> Result<()> {
        let stream = staging.stream().clone();
        let batches = self.on(&stream);
        let part = columns.part(staging)?;
        match request.scores.is_empty() {
            true => submit(batches, part),
            false => submit(batches.scores(staging.slice(columns.scores)?), part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_element_are_appended() {
        let bytes: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        for from in 0..4 {
            let mut to = vec![9u8; from];
            append_rows(&mut to, &bytes[from..]);
            append_rows(&mut to, &bytes[1..9]);
            assert!(to[..from] == vec![9; from] && to[from..] == [&bytes[from..], &bytes[1..9]].concat());
            let mut copied = vec![0; bytes.len() - from];
            copy_rows(&mut copied, &bytes[from..]);
            assert!(copied == bytes[from..]);
        }
        let wide: Vec<u64> = (0..100_000).collect();
        let mut to = vec![7];
        append_rows(&mut to, &wide);
        assert!(to[0] == 7 && to[1..] == wide);
    }
}

//! Batches on slices of the host, which reach the device through staging memory: see decision 31.
//!
//! A call of at most [`SMALL`] elements is one launch on pinned memory that kernels access over the bus. A
//! larger one is divided into chunks. While the device copies a chunk in, executes it or copies its results
//! back, the host converts others:
//!
//! ```text
//! host     fill 0  fill 1  fill 2  drain 0  fill 3  drain 1 ...
//! bus in           keys 0  keys 1  keys 2            keys 3
//! device                   run 0   run 1    run 2
//! bus out                          results 0  results 1
//! ```
//!
//! Each chunk in flight has a stream of its own, which orders its copies and its launch; nothing else orders
//! the chunks, as nothing orders the elements of one launch.
use super::launch::{Batch, BatchOp, nothing};
use super::parallel;
use super::{Key, Value, check};
use crate::Result;
use crate::map::encoding::{Word, decoded};
use crate::map::fresh::room_for;
use bytemuck::Pod;
use gpu::{Buffer, Column, Device, Layout, Reach, Staging, Stream};
use phalanx_kernels::keyed::Outcome;
use simt::GlobalSlice;
use std::any::TypeId;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of elements of a call whose kernel accesses pinned memory. Such a call takes one launch
/// and no copy; a larger one would wait for the bus longer than for the copies.
pub const SMALL: usize = 1024;
/// Bytes by which columns that begin at aligned addresses may exceed their elements.
const PADDING: usize = 10 * 256;
/// Largest chunk, in bytes of arguments and results. With padding it fills a block of staging memory.
const CHUNK_BYTES: usize = (8 << 20) - PADDING;
/// Number of elements up to which a batch is one chunk, unless it is larger than [`CHUNK_BYTES`]. Submitting
/// a chunk takes some 10 µs, and waking the host's threads twice takes some 80 µs.
pub const LEAST_CHUNK: usize = 1 << 17;
/// Number of chunks into which a batch is divided at least, if they are not too small. The first copy in and
/// the last copy out overlap with nothing.
const CHUNKS: usize = 8;
/// Maximum number of chunks in flight: one each on the way in, in a kernel, on the way out, and in the hands
/// of the host.
const DEPTH: usize = 4;

thread_local! {
    /// Chunk size of this thread's calls, for tests.
    static CHUNK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `call` with chunks of `elements` elements, for tests: also small calls are then divided.
pub fn with_chunks<T>(elements: usize, call: impl FnOnce() -> T) -> T {
    let before = CHUNK.replace(Some(elements.max(1)));
    let result = call();
    CHUNK.set(before);
    result
}

/// Function that submits a batch to a stream.
pub type Submit<'a, K, V> = &'a dyn Fn(&Stream, Batch<K, V>) -> Result<()>;

/// Elements of a batch on the host. Columns that the operation does not need are empty.
#[derive(Clone, Copy)]
pub struct Request<'a, K, V> {
    pub op: BatchOp,
    pub codes: &'a [u8],
    pub keys: &'a [K],
    pub arguments: &'a [V],
    /// Whether the operation returns values.
    pub returns: bool,
    /// Where the results go, if they need no conversion.
    pub direct: Option<Direct>,
}

/// Pinned memory of the caller, to which words of values and outcomes are copied as they are. It has an
/// element for each key, is alive until the call returns, and nothing else accesses it.
#[derive(Clone, Copy)]
pub struct Direct {
    values: *mut u8,
    /// Outcomes, which [`Self::decode`] replaces by booleans.
    outcomes: *mut u8,
}

impl Direct {
    /// Returns the memory of the slices if a large call can copy to it. `values` may be empty.
    fn of<V>(device: &Device, values: &mut [V], found: &mut [bool]) -> Option<Self> {
        let are_pinned = device.is_pinned(found) && (values.is_empty() || device.is_pinned(values));
        let (values, outcomes) = (values.as_mut_ptr().cast(), found.as_mut_ptr().cast());
        (found.len() > SMALL && are_pinned).then_some(Self { values, outcomes })
    }

    /// Replaces outcomes by whether they are [`Outcome::Found`].
    fn decode(self, range: Range<usize>) {
        // SAFETY: as the type states, the bytes are alive, and only this call accesses them; the copies to
        // them have ended.
        let outcomes = unsafe { std::slice::from_raw_parts_mut(self.outcomes.add(range.start), range.len()) };
        parallel::for_each(outcomes, |outcome| *outcome = is_found(*outcome).into());
    }

    /// Writes `false` for all `len` elements: a call that failed may leave outcomes, which are no booleans.
    fn reset(self, len: usize) {
        // SAFETY: as the type states; a call that has failed has waited for its copies.
        unsafe { self.outcomes.write_bytes(0, len) };
    }
}

/// Runs a batch as [`batch`] does. If it fails, `found`, to which outcomes may have been copied, is reset.
fn batch_into<K: Key, V: Value>(
    device: &Device,
    submit: Submit<'_, K::Word, V::Word>,
    request: &Request<'_, K, V>,
    sink: Sink<'_, V::Word>,
) -> Result<()> {
    batch(device, submit, request, sink).inspect_err(|_| {
        if let Some(direct) = request.direct {
            direct.reset(request.keys.len());
        }
    })
}

impl<'a, K: Key, V: Value> Request<'a, K, V> {
    /// Returns a request for an operation without arguments.
    pub fn of_keys(op: BatchOp, keys: &'a [K], returns: bool) -> Self {
        Self { op, codes: &[], keys, arguments: &[], returns, direct: None }
    }
}

/// Receives the results of a chunk, after a wait for its stream.
pub type Drain<'a> = &'a mut dyn FnMut(&mut Staging, Range<usize>) -> Result<()>;

/// Fills a chunk, submits it, and requests its results. Returns the result of the submission.
pub type SubmitChunk<'a> = &'a mut dyn FnMut(&mut Staging, &Range<usize>) -> Result<Result<()>>;

/// A part of a batch, in flight.
pub struct Chunk {
    pub staging: Staging,
    pub range: Range<usize>,
}

/// Division of `len` elements into chunks, of which several are in flight.
pub struct Pipeline<'a> {
    device: &'a Device,
    reach: Reach,
    len: usize,
    chunk: usize,
    bytes_each: usize,
    next: usize,
    depth: usize,
    flight: VecDeque<Chunk>,
}

impl<'a> Pipeline<'a> {
    /// `bytes_each` is the number of bytes of an element in a chunk.
    pub fn new(device: &'a Device, len: usize, bytes_each: usize) -> Self {
        let reach = if len <= SMALL { Reach::Mapped } else { Reach::Copied };
        let most = (CHUNK_BYTES / bytes_each.max(1)).max(1);
        let usual = len.div_ceil(CHUNKS).max(LEAST_CHUNK).min(most);
        let chunk = CHUNK.get().unwrap_or(usual);
        Self { device, reach, len, chunk, bytes_each, next: 0, depth: DEPTH, flight: VecDeque::new() }
    }

    /// Returns memory for the next chunk, or `None` after the last. If all memory is in flight, or there is
    /// no more of it, waits for the oldest chunk, which `drain` receives.
    pub fn next(&mut self, drain: Drain<'_>) -> Result<Option<Chunk>> {
        if self.next >= self.len {
            return Ok(None);
        }
        let range = self.next..(self.next + self.chunk).min(self.len);
        self.next = range.end;
        if self.flight.len() < self.depth {
            let bytes = self.chunk.min(self.len) * self.bytes_each + PADDING;
            match self.device.staging(bytes, self.reach) {
                Ok(staging) => return Ok(Some(Chunk { staging, range })),
                Err(error) if self.flight.is_empty() => return Err(error.into()),
                Err(_) => self.depth = self.flight.len(),
            }
        }
        let Some(mut oldest) = self.flight.pop_front() else { return Ok(None) };
        drain(&mut oldest.staging, oldest.range)?;
        Ok(Some(Chunk { staging: oldest.staging, range }))
    }

    /// Adds a chunk that was submitted.
    pub fn push(&mut self, chunk: Chunk) {
        self.flight.push_back(chunk);
    }

    /// Runs all chunks: `submit` fills and submits each, and returns whether the submission has failed. Then
    /// no more chunks follow; `drain` still receives those before, and what was submitted of that chunk.
    pub fn run(mut self, submit: SubmitChunk<'_>, drain: Drain<'_>) -> Result<()> {
        let mut submitted = Ok(());
        while submitted.is_ok()
            && let Some(Chunk { mut staging, range }) = self.next(drain)?
        {
            submitted = submit(&mut staging, &range)?;
            self.push(Chunk { staging, range });
        }
        self.finish(drain)?;
        submitted
    }

    /// Waits for the chunks in flight.
    pub fn finish(mut self, drain: Drain<'_>) -> Result<()> {
        while let Some(Chunk { mut staging, range }) = self.flight.pop_front() {
            drain(&mut staging, range)?;
        }
        Ok(())
    }
}

/// Columns of a chunk of a batch.
#[derive(Clone, Copy)]
struct Columns<K, V> {
    codes: Column<u8>,
    keys: Column<K>,
    arguments: Column<V>,
    values: Column<V>,
    outcomes: Column<u8>,
}

impl<K: Word, V: Word> Columns<K, V> {
    /// Returns the columns for `len` elements of a batch like `request`.
    fn new<A, B>(request: &Request<'_, A, B>, len: usize) -> Result<Self> {
        let mut layout = Layout::default();
        let if_any = |any: bool| if any { len } else { 0 };
        Ok(Self {
            codes: layout.column(if_any(!request.codes.is_empty()))?,
            keys: layout.column(len)?,
            arguments: layout.column(if_any(!request.arguments.is_empty()))?,
            values: layout.column(if_any(request.returns))?,
            outcomes: layout.column(len)?,
        })
    }

    /// Returns the number of bytes of an element.
    fn bytes_each<A, B>(request: &Request<'_, A, B>) -> usize {
        let values = usize::from(!request.arguments.is_empty()) + usize::from(request.returns);
        usize::from(!request.codes.is_empty()) + size_of::<K>() + values * size_of::<V>() + 1
    }

    /// Copies a part of the elements to the device, and returns it as a batch.
    fn fill<A: Key<Word = K>, B: Value<Word = V>>(
        &self,
        staging: &mut Staging,
        request: &Request<'_, A, B>,
        range: &Range<usize>,
    ) -> Result<Batch<K, V>> {
        put(staging, self.codes, part(request.codes, range), |code| code)?;
        let (keys, arguments) = (part(request.keys, range), part(request.arguments, range));
        put_both(staging, (self.keys, keys, A::encode), (self.arguments, arguments, B::encode))?;
        // The outcome of elements that are not submitted for lack of memory.
        staging.fill(self.outcomes, Outcome::Refused as u8)?;
        Ok(Batch {
            codes: staging.global(self.codes)?,
            arguments: staging.global(self.arguments)?,
            results: if request.returns { staging.global(self.values)? } else { nothing() },
            outcomes: staging.global(self.outcomes)?,
            ..Batch::new(request.op, staging.global(self.keys)?)
        })
    }

    /// Submits copies of the results, the first of which is that of element `first`.
    fn fetch(&self, staging: &mut Staging, direct: Option<Direct>, first: usize) -> Result<()> {
        let Some(Direct { values, outcomes }) = direct else {
            staging.download(self.outcomes)?;
            return Ok(staging.download(self.values)?);
        };
        // SAFETY: as `Direct` states, both columns have room for the chunk from `first` on.
        unsafe {
            staging.download_to(self.outcomes, outcomes.wrapping_add(first))?;
            Ok(staging.download_to(self.values, values.cast::<V>().wrapping_add(first))?)
        }
    }
}

/// Returns a part of a column, or nothing of an empty one.
fn part<'a, T>(column: &'a [T], range: &Range<usize>) -> &'a [T] {
    column.get(range.clone()).unwrap_or(&[])
}

/// Copies the words of elements to where kernels reach a column. Pinned elements that are their own words
/// are copied from where they are.
pub fn put<T: Copy + Sync + 'static, W: Pod + Send + Sync>(
    staging: &mut Staging,
    column: Column<W>,
    elements: &[T],
    encode: impl Fn(T) -> W + Sync,
) -> Result<()> {
    if elements.is_empty() {
        return Ok(());
    }
    if let Some(words) = directly(staging, elements) {
        // SAFETY: the elements are borrowed until the call has waited for all chunks.
        unsafe { staging.upload_from(words, column)? };
        return Ok(());
    }
    match own_words(elements) {
        Some(words) => parallel::copy(staging.host(column)?, words),
        None => parallel::convert(staging.host(column)?, elements, |to, &element| *to = encode(element)),
    }
    Ok(staging.upload(column)?)
}

/// A column, its elements, and how they are encoded.
type Source<'a, T, W, F> = (Column<W>, &'a [T], F);

/// [`put`] for two columns, which the host's threads convert together if both go through staging memory.
fn put_both<
    A: Copy + Sync + 'static,
    W: Pod + Send + Sync,
    B: Copy + Sync + 'static,
    X: Pod + Send + Sync,
>(
    staging: &mut Staging,
    first: Source<'_, A, W, impl Fn(A) -> W + Sync>,
    second: Source<'_, B, X, impl Fn(B) -> X + Sync>,
) -> Result<()> {
    let is_pinned =
        directly::<A, W>(staging, first.1).is_some() || directly::<B, X>(staging, second.1).is_some();
    if second.1.is_empty() || is_pinned {
        put(staging, first.0, first.1, first.2)?;
        return put(staging, second.0, second.1, second.2);
    }
    let set = (|to: &mut W, &from: &A| *to = first.2(from), |to: &mut X, &from: &B| *to = second.2(from));
    parallel::convert_both(staging.host_both(first.0, second.0)?, (first.1, second.1), set);
    staging.upload(first.0)?;
    Ok(staging.upload(second.0)?)
}

/// Returns the words of elements that the device copies from where they are.
fn directly<'a, T: 'static, W: 'static>(staging: &Staging, elements: &'a [T]) -> Option<&'a [W]> {
    own_words(elements).filter(|words| staging.reach() == Reach::Copied && staging.device().is_pinned(words))
}

/// Returns elements as words, if they are their own words.
fn own_words<T: 'static, W: 'static>(elements: &[T]) -> Option<&[W]> {
    // SAFETY: both types are the same.
    (TypeId::of::<T>() == TypeId::of::<W>())
        .then(|| unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) })
}

/// Receives the results of a part of a batch: outcomes, and the words of values. Parts arrive in order.
pub type Sink<'a, W> = &'a mut dyn FnMut(Range<usize>, &[u8], &[W]) -> Result<()>;

/// Runs a batch by chunks, each of which `submit` submits. If a submission fails, no more chunks follow; the
/// sink still receives the results of those before, and of the elements of that chunk that were submitted.
pub fn batch<K: Key, V: Value>(
    device: &Device,
    submit: Submit<'_, K::Word, V::Word>,
    request: &Request<'_, K, V>,
    sink: Sink<'_, V::Word>,
) -> Result<()> {
    let columns = |range: &Range<usize>| Columns::<K::Word, V::Word>::new(request, range.len());
    let mut drain = |staging: &mut Staging, range: Range<usize>| {
        if let Some(direct) = request.direct {
            staging.wait()?;
            direct.decode(range);
            return Ok(());
        }
        let Columns { outcomes, values, .. } = columns(&range)?;
        staging.wait()?;
        sink(range, staging.read(outcomes)?, staging.read(values)?)
    };
    let bytes_each = Columns::<K::Word, V::Word>::bytes_each(request);
    let mut submit_chunk = |staging: &mut Staging, range: &Range<usize>| {
        let columns = columns(range)?;
        let launch = columns.fill(staging, request, range)?;
        let submitted = submit(staging.stream(), launch);
        columns.fetch(staging, request.direct, range.start)?;
        Ok(submitted)
    };
    Pipeline::new(device, request.keys.len(), bytes_each).run(&mut submit_chunk, &mut drain)
}

/// Returns the values of the keys, `None` for an absent key.
pub fn values<K: Key, V: Value>(
    device: &Device,
    submit: Submit<'_, K::Word, V::Word>,
    keys: &[K],
) -> Result<Vec<Option<V>>> {
    let mut found = room_for(keys.len());
    let request = Request::<K, V>::of_keys(BatchOp::Get, keys, true);
    let value = |&code: &u8, &word: &V::Word| match is_found(code) {
        true => decoded(word, V::decode).map(Some),
        false => Ok(None),
    };
    batch(device, submit, &request, &mut |_, outcomes, words| {
        parallel::append(&mut found, (outcomes, words), value)
    })?;
    Ok(found)
}

/// Returns for each key whether it is present.
pub fn presence<K: Key, V: Word>(
    device: &Device,
    submit: Submit<'_, K::Word, V>,
    keys: &[K],
) -> Result<Vec<bool>> {
    let mut found = room_for(keys.len());
    let request = Request::<K, V>::of_keys(BatchOp::ContainsKey, keys, false);
    batch(device, submit, &request, &mut |_, outcomes, _| {
        parallel::append(&mut found, (outcomes, outcomes), |&code, _| Ok(is_found(code)))
    })?;
    Ok(found)
}

/// Writes the values of the keys, and for each whether it is present. All slices have the same length.
pub fn values_into<K: Key, V: Value>(
    device: &Device,
    submit: Submit<'_, K::Word, V::Word>,
    keys: &[K],
    (values, found): (&mut [V], &mut [bool]),
) -> Result<()> {
    check("values", keys.len(), values.len())?;
    check("found", keys.len(), found.len())?;
    let has_words = TypeId::of::<V>() == TypeId::of::<V::Word>();
    let direct = if has_words { Direct::of(device, values, found) } else { None };
    let request = Request { direct, ..Request::<K, V>::of_keys(BatchOp::Get, keys, true) };
    batch_into(device, submit, &request, &mut |range, outcomes, words| {
        let to = (&mut found[range.clone()], &mut values[range]);
        parallel::try_convert_both(to, (outcomes, words), |(found, value), &code, &word| {
            *found = is_found(code);
            if *found {
                *value = decoded(word, V::decode)?;
            }
            Ok(())
        })
    })
}

/// Writes for each key whether it is present. Both slices have the same length.
pub fn presence_into<K: Key, V: Word>(
    device: &Device,
    submit: Submit<'_, K::Word, V>,
    keys: &[K],
    found: &mut [bool],
) -> Result<()> {
    check("found", keys.len(), found.len())?;
    let direct = Direct::of::<V>(device, &mut [], found);
    let request = Request { direct, ..Request::<K, V>::of_keys(BatchOp::ContainsKey, keys, false) };
    batch_into(device, submit, &request, &mut |range, outcomes, _| {
        parallel::convert(&mut found[range], outcomes, |to, &code| *to = is_found(code));
        Ok(())
    })
}

/// Returns whether a kernel has written the code of [`Outcome::Found`].
fn is_found(code: u8) -> bool {
    code == Outcome::Found as u8
}

/// Copies elements into a new buffer, converted by `encode`. Waits until they are there.
pub fn upload<T: Copy + Sync, W: Pod + simt::Word + Send + Sync>(
    device: &Device,
    elements: &[T],
    encode: impl Fn(T) -> W + Sync,
) -> Result<Buffer<W>> {
    let mut buffer = device.buffer(elements.len())?;
    upload_by_staging(&mut buffer, elements, encode)?;
    Ok(buffer)
}

/// Copies elements to the beginning of a buffer, converted by `encode`, and waits until they are there.
/// Pinned elements that are their own words are copied from where they are. Comes after all work that was
/// submitted to the device.
#[cfg(feature = "sharded-map")]
pub fn upload_to<T: Copy + Sync + 'static, W: Pod + simt::Word + Send + Sync>(
    buffer: &mut Buffer<W>,
    elements: &[T],
    encode: impl Fn(T) -> W + Sync,
) -> Result<()> {
    let device = buffer.device().clone();
    let words = own_words::<T, W>(elements).filter(|words| !words.is_empty() && device.is_pinned(words));
    let Some(words) = words else { return upload_by_staging(buffer, elements, encode) };
    let to = buffer.global().part(0, words.len());
    let mut staging = device.staging(0, Reach::Copied)?;
    // SAFETY: buffer and elements are borrowed until the copy has ended: `wait` waits for it, and so does
    // dropping `staging`. Work that was submitted before `staging` was created has ended.
    unsafe { staging.stream().upload(to, words)? };
    Ok(staging.wait()?)
}

/// [`upload_to`] through staging memory.
fn upload_by_staging<T: Copy + Sync, W: Pod + simt::Word + Send + Sync>(
    buffer: &mut Buffer<W>,
    elements: &[T],
    encode: impl Fn(T) -> W + Sync,
) -> Result<()> {
    let (device, mut drain) = (buffer.device().clone(), |_: &mut Staging, _| Ok(()));
    let mut pipeline = Pipeline::new(&device, elements.len(), size_of::<W>());
    while let Some(Chunk { mut staging, range }) = pipeline.next(&mut drain)? {
        let column = Layout::default().column(range.len())?;
        let to = buffer.global().part(range.start, range.len());
        parallel::convert(staging.host(column)?, &elements[range.clone()], |to, &element| {
            *to = encode(element)
        });
        // SAFETY: the buffer is borrowed mutably, and dropping the pipeline waits for the copies.
        unsafe { staging.copy_to(column, to)? };
        pipeline.push(Chunk { staging, range });
    }
    Ok(())
}

/// Copies elements to the host, and passes them to `take` in order. Waits for all earlier launches.
pub fn download<W: Pod + simt::Word>(
    device: &Device,
    elements: GlobalSlice<W>,
    take: &mut impl FnMut(&[W]) -> Result<()>,
) -> Result<()> {
    let mut drain = |staging: &mut Staging, range: Range<usize>| {
        take(staging.host(Layout::default().column(range.len())?)?)
    };
    let mut pipeline = Pipeline::new(device, elements.len(), size_of::<W>());
    while let Some(Chunk { mut staging, range }) = pipeline.next(&mut drain)? {
        let column = Layout::default().column(range.len())?;
        // SAFETY: the caller keeps the elements, and all earlier launches have ended.
        unsafe { staging.copy_from(elements.part(range.start, range.len()), column)? };
        pipeline.push(Chunk { staging, range });
    }
    pipeline.finish(&mut drain)
}

/// Returns the words of a pinned buffer, without a wait for the device.
///
/// # Safety
/// - No kernel and no copy accesses the buffer while the slice is used, except those that the caller waits
///   for.
#[cfg(any(feature = "dynamic-graph", feature = "persistent-map"))]
pub unsafe fn pinned_words<T: simt::Word>(buffer: &mut Buffer<T>) -> &mut [T] {
    // An empty buffer has no pointer.
    let Some(host) = buffer.host_pointer() else { return &mut [] };
    // SAFETY: the buffer has these words and is borrowed; the caller's obligation.
    unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), buffer.len()) }
}

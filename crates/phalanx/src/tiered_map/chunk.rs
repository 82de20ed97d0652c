//! Chunks of a batch: their memory on the device, and the way from the order of the batch to that of the
//! shards and back.
use super::hot::HotPairs;
use super::ledger::{Ledger, Metered};
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, THREADS, nothing};
use crate::primitives::{Bits, Cutter, Workspace, compact_bytes, sort_bytes};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::keyed::Outcome;
use phalanx_kernels::primitives::compact::{Choice, Test};
use phalanx_kernels::primitives::words::Words;
use phalanx_kernels::tiered::Route;
use phalanx_kernels::tiered::kernels::{
    TieredBounds, TieredCountRefused, TieredGather, TieredKeepShards, TieredRoute, TieredRouteKept,
    TieredRouteRange, TieredScatter, TieredScatterOutcomes,
};
use simt::GlobalSlice;
use std::ops::Range;
use std::sync::Arc;

/// A batch on the host or on the device. Columns that the operation does not have are empty.
pub struct Request<'a, K, V> {
    pub op: BatchOp,
    pub codes: &'a [u8],
    pub keys: &'a [K],
    pub arguments: &'a [V],
    /// Output: values, if the operation returns them.
    pub results: &'a mut [V],
    /// Output: outcomes, or whether each is `Found`.
    pub outcomes: &'a mut [u8],
    /// Whether outcomes are written as 1 for `Found` and 0 for others.
    pub as_bools: bool,
    /// The columns, if they are on the device. Those on the host are then empty.
    pub on_device: Option<Columns<K, V>>,
}

impl<'a, K: Word, V: Word> Request<'a, K, V> {
    /// Returns a batch of keys on the host, without other columns than its outcomes.
    pub fn new(op: BatchOp, keys: &'a [K], outcomes: &'a mut [u8]) -> Self {
        let (codes, arguments, results) = (&[][..], &[][..], &mut [][..]);
        Self { op, codes, keys, arguments, results, outcomes, as_bools: false, on_device: None }
    }

    /// Returns a batch whose columns are on the device.
    pub fn on_device(op: BatchOp, columns: Columns<K, V>) -> Self {
        Self { on_device: Some(columns), ..Self::new(op, &[], &mut []) }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.on_device.map_or(self.keys.len(), |columns| columns.keys.len())
    }

    /// Returns the elements of a range.
    pub fn piece(&mut self, range: &Range<usize>) -> Request<'_, K, V> {
        let results = part(self.results, range);
        let own = if self.on_device.is_some() { 0..0 } else { range.clone() };
        Request {
            op: self.op,
            codes: &self.codes[part(self.codes, range)],
            keys: &self.keys[own.clone()],
            arguments: &self.arguments[part(self.arguments, range)],
            results: &mut self.results[results],
            outcomes: &mut self.outcomes[own],
            as_bools: self.as_bools,
            on_device: self.on_device.map(|columns| columns.part(range.clone())),
        }
    }

    /// Returns the columns of the batch.
    pub fn has(&self) -> Has {
        match self.on_device {
            Some(columns) => Has {
                codes: !columns.codes.is_empty(),
                arguments: !columns.arguments.is_empty(),
                results: !columns.results.is_empty(),
            },
            None => Has {
                codes: !self.codes.is_empty(),
                arguments: !self.arguments.is_empty(),
                results: !self.results.is_empty(),
            },
        }
    }
}

/// The columns that a batch has beside its keys and outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Has {
    pub codes: bool,
    pub arguments: bool,
    pub results: bool,
}

impl Has {
    /// Those of a batch of pairs.
    pub const PAIRS: Self = Self { codes: false, arguments: true, results: false };
}

impl<K, V> Request<'_, K, V> {
    /// Returns whether an element has found no room, by the outcomes of the batch; `false` if it has none.
    pub fn is_refused(&self, outcomes: &[u8], place: usize) -> bool {
        self.op.places() && outcomes.get(place).is_some_and(|&code| code == Outcome::Refused as u8)
    }

    /// Returns the outcome that stands for a key that is found.
    pub fn found(&self) -> u8 {
        if self.as_bools { 1 } else { Outcome::Found as u8 }
    }
}

/// Returns a part of a slice, or nothing of an empty one.
fn part<T>(slice: &[T], range: &Range<usize>) -> Range<usize> {
    if slice.is_empty() { 0..0 } else { range.clone() }
}

/// Columns of the elements of a chunk.
#[derive(Clone, Copy)]
pub struct Columns<K, V> {
    pub codes: GlobalSlice<u8>,
    pub keys: GlobalSlice<K>,
    pub arguments: GlobalSlice<V>,
    pub results: GlobalSlice<V>,
    pub outcomes: GlobalSlice<u8>,
}

impl<K: Word, V: Word> Columns<K, V> {
    fn cut(cutter: &mut Cutter, len: usize) -> Self {
        Self {
            codes: cutter.words(len),
            keys: cutter.words(len),
            arguments: cutter.words(len),
            results: cutter.words(len),
            outcomes: cutter.words(len),
        }
    }

    /// Returns the elements of a range.
    pub fn part(self, range: Range<usize>) -> Self {
        let (first, len) = (range.start, range.len());
        Self {
            codes: self.codes.part(first, len),
            keys: self.keys.part(first, len),
            arguments: self.arguments.part(first, len),
            results: self.results.part(first, len),
            outcomes: self.outcomes.part(first, len),
        }
    }

    /// Returns the batch of an operation on these elements.
    pub fn batch(self, op: BatchOp, has: Has) -> Batch<K, V> {
        let Self { codes, keys, arguments, results, outcomes } = self;
        Batch {
            codes: if has.codes { codes } else { nothing() },
            arguments: if has.arguments { arguments } else { nothing() },
            results: if has.results { results } else { nothing() },
            outcomes,
            ..Batch::new(op, keys)
        }
    }
}

/// Pieces of a chunk buffer's memory.
#[derive(Clone, Copy)]
struct Pieces<K, V> {
    /// In the order of the batch.
    given: Columns<K, V>,
    sorting: Option<Sorting<K, V>>,
}

/// Pieces for the order of the shards.
#[derive(Clone, Copy)]
struct Sorting<K, V> {
    moved: Columns<K, V>,
    routes: [GlobalSlice<u32>; 2],
    /// Indices of the elements in the order of the batch, and in that of the shards.
    order: [GlobalSlice<u32>; 2],
}

impl<K: Word, V: Word> Pieces<K, V> {
    fn cut(cutter: &mut Cutter, len: usize, sorts: bool) -> Self {
        let given = Columns::cut(cutter, len);
        let sorting = sorts.then(|| Sorting {
            moved: Columns::cut(cutter, len),
            routes: [cutter.words(len), cutter.words(len)],
            order: [cutter.words(len), cutter.words(len)],
        });
        Self { given, sorting }
    }
}

/// Returns the bytes of a chunk buffer for chunks of `len` elements, which are sorted or not.
pub fn buffer_bytes<K: Word, V: Word>(len: usize, sorts: bool) -> usize {
    let pieces = Cutter::measure(|cutter| Pieces::<K, V>::cut(cutter, len, sorts));
    pieces + if sorts { work_bytes(len) } else { 0 }
}

/// Returns the bytes of workspace for the order of the shards.
fn work_bytes(len: usize) -> usize {
    sort_bytes::<u32, u32>(len).max(compact_bytes(len)).next_multiple_of(16)
}

/// Division of the keys among the shards.
#[derive(Clone, Copy, Debug)]
pub enum Division<K> {
    /// A hash of the key selects the shard.
    ByHash { seed: u64 },
    /// Each shard has a range of keys. The splitters, in device memory, are the lowest keys of all but the
    /// first.
    ByRange { splitters: GlobalSlice<K> },
}

impl<K> Division<K> {
    /// Returns the seed of the hash, if there is one.
    pub fn seed(&self) -> u64 {
        match *self {
            Self::ByHash { seed } => seed,
            Self::ByRange { .. } => 0,
        }
    }
}

/// Parameters by which keys are routed.
#[derive(Clone, Copy, Debug)]
pub struct Routing<K> {
    /// Bits that select the shard.
    pub bits: u32,
    pub division: Division<K>,
    /// Bits below those by which elements are sorted, too: the order of a shard's buckets or keys.
    pub more: u32,
}

/// Device memory and a stream for one chunk.
pub struct ChunkBuffer<K, V> {
    pub stream: Stream,
    _memory: Metered<Buffer<u128>>,
    sort: Option<Metered<Workspace>>,
    pieces: Pieces<K, V>,
    /// First element of each shard, in pinned memory.
    bounds: Buffer<u32>,
    /// Number of refused elements since it was read, in pinned memory.
    refused: Buffer<u64>,
    /// Number of keys that are not among the hot pairs, in pinned memory.
    missed: Buffer<u32>,
}

/// Returns the grid of a thread per element.
pub fn each(len: usize) -> Grid {
    Grid::for_items(len, THREADS)
}

impl<K: Word, V: Word> ChunkBuffer<K, V> {
    /// Allocates memory for chunks of `len` elements for `shards` shards; 0 of them if chunks are not sorted.
    pub fn new(ledger: &Arc<Ledger>, device: &Device, len: usize, shards: usize) -> Result<Self> {
        let (stream, sorts) = (device.stream()?, shards > 0);
        let bytes = Cutter::measure(|cutter| Pieces::<K, V>::cut(cutter, len, sorts));
        let memory = ledger.buffer::<u128>(device, bytes / size_of::<u128>())?;
        let pieces = Pieces::cut(&mut Cutter::over(memory.pointer().cast()), len, sorts);
        let work = || ledger.workspace(&stream, work_bytes(len));
        Ok(Self {
            sort: if sorts { Some(work()?) } else { None },
            bounds: device.buffer_on(Tier::Pinned, shards + 1)?,
            refused: device.buffer_on(Tier::Pinned, 1)?,
            missed: device.buffer_on(Tier::Pinned, 1)?,
            _memory: memory,
            stream,
            pieces,
        })
    }

    /// Provides the bounds of `shards` shards. Nothing may use the chunk buffer.
    pub fn fit(&mut self, shards: usize) -> Result<()> {
        if self.bounds.len() != shards + 1 {
            self.bounds = self.stream.device().buffer_on(Tier::Pinned, shards + 1)?;
        }
        Ok(())
    }

    /// Returns the first `len` elements in the order of the batch.
    pub fn given(&self, len: usize) -> Columns<K, V> {
        self.pieces.given.part(0..len)
    }

    /// Returns the first `len` elements in the order of the shards.
    pub fn moved(&self, len: usize) -> Columns<K, V> {
        self.pieces.sorting.map_or(self.pieces.given, |sorting| sorting.moved).part(0..len)
    }

    /// Returns memory that only sorts use, a word for each element. It is aligned to 256 bytes.
    pub fn words(&self) -> GlobalSlice<u32> {
        self.pieces.sorting.map_or_else(nothing, |sorting| sorting.routes[0])
    }

    /// Submits the copy of the keys of a part of the batch.
    ///
    /// # Safety
    /// - The batch lives until the stream has executed the copies; nothing else uses the chunk buffer.
    pub unsafe fn upload_keys(&self, request: &Request<'_, K, V>, range: &Range<usize>) -> Result<()> {
        let keys = self.given(range.len()).keys;
        // SAFETY: the caller's obligations.
        unsafe {
            match request.on_device {
                Some(columns) => Ok(self.stream.copy(keys, columns.part(range.clone()).keys)?),
                None => Ok(self.stream.upload(keys, &request.keys[range.clone()])?),
            }
        }
    }

    /// Submits the copies of the other columns of a part of the batch.
    ///
    /// # Safety
    /// - As for [`Self::upload_keys`].
    pub unsafe fn upload_rest(&self, request: &Request<'_, K, V>, range: &Range<usize>) -> Result<()> {
        let given = self.given(range.len());
        if let Some(columns) = request.on_device {
            let Columns { codes, arguments, .. } = columns.part(range.clone());
            // SAFETY: the caller's obligations.
            return unsafe {
                self.stream.copy(given.codes.part(0, codes.len()), codes)?;
                Ok(self.stream.copy(given.arguments.part(0, arguments.len()), arguments)?)
            };
        }
        let codes = &request.codes[part(request.codes, range)];
        let arguments = &request.arguments[part(request.arguments, range)];
        // SAFETY: the caller's obligations.
        unsafe {
            self.stream.upload(given.codes.part(0, codes.len()), codes)?;
            Ok(self.stream.upload(given.arguments.part(0, arguments.len()), arguments)?)
        }
    }

    /// Submits the lookup of `len` uploaded keys among the hot pairs. Picks those that are not there, in the
    /// order of the batch, for [`Self::sort`].
    ///
    /// # Safety
    /// - Nothing else uses the chunk buffer; no other stream changes the hot pairs.
    pub unsafe fn look_up(
        &mut self,
        hot: &HotPairs,
        request: &Request<'_, K, V>,
        (len, touches): (usize, bool),
    ) -> Result<()> {
        let given = self.given(len);
        let (Some(sorting), Some(work)) = (self.pieces.sorting, &mut self.sort) else { return Ok(()) };
        let [picked, all] = sorting.order.map(|numbers| numbers.part(0, len));
        let values = given.results.part(0, if request.has().results { len } else { 0 });
        let is_missed =
            Choice { test: Test::Flagged as u32, inverted: 1, operand: nothing(), flags: given.outcomes };
        // SAFETY: as in `sort`.
        unsafe {
            hot.look_up(&self.stream, given.keys, (values, given.outcomes), all, (request.found(), touches))?;
            work.compact_words(all, is_missed, picked, (nothing(), self.missed.global()))
        }
    }

    /// Waits for the stream, and returns how many keys the last lookup has picked.
    pub fn missed(&self) -> Result<usize> {
        self.stream.synchronize()?;
        Ok(pinned(&self.missed).iter().sum::<u32>() as usize)
    }

    /// Submits the sort of `len` uploaded keys by shard: the picked ones, or all. The same keys are always
    /// sorted in the same way. Copies the shard of each key to `kept`, if it is as long.
    ///
    /// # Safety
    /// - Nothing else uses the chunk buffer. `kept` lives until the stream has executed the copy.
    pub unsafe fn sort(
        &mut self,
        len: usize,
        (routing, is_picked): (Routing<K>, bool),
        kept: GlobalSlice<u8>,
    ) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe {
            self.route(len, routing, is_picked)?;
            if kept.len() == len {
                self.keep_shards(routing.bits, kept)?;
            }
            self.sort_routes(len, routing)
        }
    }

    /// Submits the sort of `kept.len()` elements by their shards, which [`Self::sort`] has kept: in the same
    /// way.
    ///
    /// # Safety
    /// - As for [`Self::sort`].
    pub unsafe fn sort_kept(&mut self, routing: Routing<K>, kept: GlobalSlice<u8>) -> Result<()> {
        let (Some(sorting), len) = (self.pieces.sorting, kept.len()) else { return Ok(()) };
        let (shards, bits) = (self.given(len).outcomes, routing.bits);
        let (routes, numbers) = (sorting.routes[0].part(0, len), sorting.order[0].part(0, len));
        // SAFETY: the caller's obligations.
        unsafe {
            self.stream.copy(shards, kept)?;
            self.stream.launch(each(len), TieredRouteKept { shards, routes, numbers, bits })?;
            self.sort_routes(len, routing)
        }
    }

    /// Submits the copy of the shard of each route.
    ///
    /// # Safety
    /// - As for [`Self::sort`].
    unsafe fn keep_shards(&self, bits: u32, kept: GlobalSlice<u8>) -> Result<()> {
        let (Some(sorting), len) = (self.pieces.sorting, kept.len()) else { return Ok(()) };
        // The outcomes are not there yet.
        let (routes, shards) = (sorting.routes[0].part(0, len), self.given(len).outcomes);
        // SAFETY: the caller's obligations.
        unsafe {
            self.stream.launch(each(len), TieredKeepShards { routes, bits, shards })?;
            Ok(self.stream.copy(kept, shards)?)
        }
    }

    /// Submits the sort of routes and numbers.
    ///
    /// # Safety
    /// - As for [`Self::sort`].
    unsafe fn sort_routes(&mut self, len: usize, routing: Routing<K>) -> Result<()> {
        let (Some(sorting), Some(work)) = (self.pieces.sorting, &mut self.sort) else { return Ok(()) };
        let [routes, sorted] = sorting.routes.map(|routes| routes.part(0, len));
        let [numbers, order] = sorting.order.map(|numbers| numbers.part(0, len));
        let first = 32u32.saturating_sub(routing.bits + routing.more);
        // SAFETY: the caller's obligations.
        unsafe { work.sort_routes((routes, numbers), (sorted, order), Bits::new(first, 32)) }
    }

    /// Submits the computation of the routes of `len` uploaded keys.
    ///
    /// # Safety
    /// - As for [`Self::sort`].
    unsafe fn route(&self, len: usize, routing: Routing<K>, is_picked: bool) -> Result<()> {
        let Some(sorting) = self.pieces.sorting else { return Ok(()) };
        let Routing { bits, division, .. } = routing;
        let (keys, is_picked) = (self.pieces.given.keys, is_picked.into());
        let (routes, numbers) = (sorting.routes[0].part(0, len), sorting.order[0].part(0, len));
        // SAFETY: the chunk buffer's memory lives until the launches have ended, since dropping it waits.
        unsafe {
            match division {
                Division::ByHash { seed } if size_of::<K>() + size_of::<V>() == 8 => {
                    let kernel = TieredRoute::<Route<K, K>> { keys, routes, numbers, bits, seed, is_picked };
                    self.stream.launch(each(len), kernel)?;
                }
                Division::ByHash { seed } => {
                    let kernel =
                        TieredRoute::<Route<K, u64>> { keys, routes, numbers, bits, seed, is_picked };
                    self.stream.launch(each(len), kernel)?;
                }
                Division::ByRange { splitters } => {
                    // There are no hot pairs, so all keys are routed.
                    let keys = keys.part(0, len);
                    let kernel = TieredRouteRange::<Route<K, K>> { keys, routes, numbers, splitters, bits };
                    self.stream.launch(each(len), kernel)?;
                }
            }
        }
        Ok(())
    }

    /// Submits the search of the first element of each shard.
    ///
    /// # Safety
    /// - As for [`Self::sort`], which must have been called.
    pub unsafe fn find_bounds(&mut self, len: usize, bits: u32) -> Result<()> {
        let Some(sorting) = self.pieces.sorting else { return Ok(()) };
        let (routes, bounds) = (sorting.routes[1].part(0, len), self.bounds.global());
        // SAFETY: as in `sort`.
        unsafe { Ok(self.stream.launch(each(len + 1), TieredBounds { routes, bits, bounds })?) }
    }

    /// Submits the move of `len` elements to the order of the shards, and their copy to the spill if they go
    /// there. Copy engines use the bus better than kernels.
    ///
    /// # Safety
    /// - As for [`Self::sort`], which must have been called. The spill lives until the work has ended.
    pub unsafe fn gather(&self, has: Has, spill: Option<Columns<K, V>>, len: usize) -> Result<()> {
        let (Some(sorting), from) = (self.pieces.sorting, self.pieces.given) else { return Ok(()) };
        let (order, stream, to) = (sorting.order[1].part(0, len), &self.stream, self.moved(len));
        // SAFETY: the caller's obligations.
        unsafe {
            stream.launch(each(len), TieredGather::<Words<K>> { from: from.keys, order, to: to.keys })?;
            if has.codes {
                let kernel = TieredGather::<Words<u8>> { from: from.codes, order, to: to.codes };
                stream.launch(each(len), kernel)?;
            }
            if has.arguments {
                let kernel = TieredGather::<Words<V>> { from: from.arguments, order, to: to.arguments };
                stream.launch(each(len), kernel)?;
            }
            let Some(spill) = spill else { return Ok(()) };
            stream.copy(spill.keys, to.keys)?;
            if has.codes {
                stream.copy(spill.codes, to.codes)?;
            }
            if has.arguments {
                stream.copy(spill.arguments, to.arguments)?;
            }
        }
        Ok(())
    }

    /// Submits a fill of outcomes with `Refused`, which elements have until they are executed.
    ///
    /// # Safety
    /// - The outcomes live until the stream has executed the fill; nothing else uses them.
    pub unsafe fn refuse(&self, outcomes: GlobalSlice<u8>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.stream.fill(outcomes, Outcome::Refused as u8)?) }
    }

    /// Submits the copy of `len` results from the spill, if they are there, and their move to the order of
    /// the batch.
    ///
    /// # Safety
    /// - As for [`Self::gather`].
    pub unsafe fn scatter(
        &self,
        request: &Request<'_, K, V>,
        spill: Option<Columns<K, V>>,
        len: usize,
    ) -> Result<()> {
        let (Some(sorting), to) = (self.pieces.sorting, self.pieces.given) else { return Ok(()) };
        let (order, stream, from) = (sorting.order[1].part(0, len), &self.stream, self.moved(len));
        let refused = self.refused.global();
        let as_bools = request.as_bools.into();
        // SAFETY: the caller's obligations.
        unsafe {
            if let Some(spill) = spill {
                stream.copy(from.outcomes, spill.outcomes)?;
                if request.has().results {
                    stream.copy(from.results, spill.results)?;
                }
            }
            let (outcomes, written) = (from.outcomes, to.outcomes);
            let kernel = TieredScatterOutcomes { from: outcomes, order, to: written, as_bools, refused };
            stream.launch(each(len), kernel)?;
            if request.has().results {
                let kernel = TieredScatter::<Words<V>> { from: from.results, order, to: to.results };
                stream.launch(each(len), kernel)?;
            }
        }
        Ok(())
    }

    /// Submits the count of refused elements. Replaces outcomes by booleans if asked.
    ///
    /// # Safety
    /// - As for [`Self::sort`].
    pub unsafe fn count_refused(&self, outcomes: GlobalSlice<u8>, as_bools: bool) -> Result<()> {
        let (refused, as_bools) = (self.refused.global(), as_bools.into());
        let kernel = TieredCountRefused { outcomes, as_bools, refused };
        // SAFETY: as in `sort`.
        unsafe { Ok(self.stream.launch(each(outcomes.len()), kernel)?) }
    }

    /// Submits the copies of results to a part of the batch.
    ///
    /// # Safety
    /// - As for [`Self::upload_keys`].
    pub unsafe fn download(&self, request: &mut Request<'_, K, V>, range: &Range<usize>) -> Result<()> {
        let given = self.given(range.len());
        if let Some(columns) = request.on_device {
            let Columns { results, outcomes, .. } = columns.part(range.clone());
            // SAFETY: the caller's obligations.
            return unsafe {
                self.stream.copy(outcomes, given.outcomes.part(0, outcomes.len()))?;
                Ok(self.stream.copy(results, given.results.part(0, results.len()))?)
            };
        }
        let values = part(request.results, range);
        // SAFETY: the caller's obligations.
        unsafe {
            self.stream.download(&mut request.outcomes[range.clone()], given.outcomes)?;
            let results = given.results.part(0, values.len());
            Ok(self.stream.download(&mut request.results[values], results)?)
        }
    }

    /// Waits for the stream, and returns the first element of each shard.
    pub fn bounds(&self) -> Result<Vec<u32>> {
        self.stream.synchronize()?;
        Ok(pinned(&self.bounds))
    }

    /// Waits for the stream, and returns the number of refused elements since the last call.
    pub fn refused(&mut self) -> Result<u64> {
        self.stream.synchronize()?;
        let refused = pinned(&self.refused).iter().sum();
        write_pinned(&mut self.refused, 0);
        Ok(refused)
    }
}

/// Reads pinned memory without a wait. Kernels that write it must have ended.
pub fn pinned<T: bytemuck::Pod>(buffer: &Buffer<T>) -> Vec<T> {
    let Some(host) = buffer.host_pointer() else { return Vec::new() };
    // SAFETY: the host can access the elements; the caller has waited for the kernels that write them.
    (0..buffer.len()).map(|place| unsafe { host.add(place).read_volatile() }).collect()
}

/// Sets each element of pinned memory without a wait. Kernels that access it must have ended.
pub fn write_pinned<T: bytemuck::Pod>(buffer: &mut Buffer<T>, value: T) {
    let Some(host) = buffer.host_pointer() else { return };
    // SAFETY: as in `pinned`.
    (0..buffer.len()).for_each(|place| unsafe { host.add(place).write_volatile(value) });
}

/// Pinned memory for the elements of a batch that is larger than a chunk, in the order of the shards of each
/// chunk.
pub struct Spill<K, V> {
    /// The shard of each element, in the order of the batch.
    shards: Buffer<u8>,
    codes: Buffer<u8>,
    keys: Buffer<K>,
    arguments: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<K: Word, V: Word> Spill<K, V> {
    /// Returns a spill without memory.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            shards: device.buffer_on(Tier::Pinned, 0)?,
            codes: device.buffer_on(Tier::Pinned, 0)?,
            keys: device.buffer_on(Tier::Pinned, 0)?,
            arguments: device.buffer_on(Tier::Pinned, 0)?,
            results: device.buffer_on(Tier::Pinned, 0)?,
            outcomes: device.buffer_on(Tier::Pinned, 0)?,
        })
    }

    /// Allocates the memory that a batch needs and that is not there, for the shards of elements only if they
    /// are kept.
    pub fn reserve(&mut self, request: &Request<'_, K, V>, keeps_shards: bool) -> Result<()> {
        let (len, has) = (request.len(), request.has());
        reserve(&mut self.shards, if keeps_shards { len } else { 0 })?;
        reserve(&mut self.codes, if has.codes { len } else { 0 })?;
        reserve(&mut self.keys, len)?;
        reserve(&mut self.arguments, if has.arguments { len } else { 0 })?;
        reserve(&mut self.results, if has.results { len } else { 0 })?;
        reserve(&mut self.outcomes, len)
    }

    /// Returns the bytes of host memory.
    pub fn byte_len(&self) -> usize {
        let words = self.keys.byte_len() + self.arguments.byte_len() + self.results.byte_len();
        words + self.shards.len() + self.codes.len() + self.outcomes.len()
    }

    /// Sets the outcomes of a range to `Refused`. Nothing may use them.
    pub fn refuse(&mut self, range: Range<usize>) {
        if let Ok(outcomes) = self.outcomes.as_mut_slice() {
            outcomes[range].fill(Outcome::Refused as u8);
        }
    }

    /// Returns the shards of the elements of a range of the batch.
    pub fn shards(&self, range: &Range<usize>) -> GlobalSlice<u8> {
        self.shards.global().part(range.start, range.len())
    }

    /// Returns the elements of a range.
    pub fn columns(&self, range: Range<usize>) -> Columns<K, V> {
        let codes = self.codes.global();
        let (keys, arguments) = (self.keys.global(), self.arguments.global());
        let (results, outcomes) = (self.results.global(), self.outcomes.global());
        Columns { codes, keys, arguments, results, outcomes }.part(range)
    }
}

/// Replaces a buffer in pinned memory by one of `len` elements if it has fewer.
pub fn reserve<T: bytemuck::Pod>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        *buffer = device.buffer_on(Tier::Pinned, 0)?;
        *buffer = device.buffer_on(Tier::Pinned, len)?;
    }
    Ok(())
}

//! One call over several tables.
use super::batches::{changes_of, least, words_of};
use super::groups::Group;
use super::kernels::Launch;
use super::merge::Merger;
use super::{CacheTable, Rows};
use crate::map::batches::{check_same_device, slice};
use crate::map::launch::nothing;
use crate::map::{check, outcome_of};
use crate::number::Number;
use crate::{Error, Outcome, Outcomes, Result};
use bytemuck::Pod;
use gpu::{AsSlice, AsSliceMut, Buffer, Device, Slice, SliceMut, Stream};
use phalanx_kernels::cache::many::LookupsOfMany;
use phalanx_kernels::cache::merge::ClaimTable;
use phalanx_kernels::cache::{self, Changes, Chunk, MOST_TABLES, RowSlice, SLOTS, Sections, VIEW_WORDS};
use phalanx_kernels::keyed::Scalar;
use simt::GlobalSlice;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Several cache tables whose keys one call looks up: those of a model's features, for example.
///
/// The tables have the same kind of keys, rows and scores. Keys of different tables are independent: a key
/// may be in several tables, with a row of its own in each. Indexing returns a table, whose other operations
/// are available as ever.
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::CacheTables;
///
/// let table = || CacheTable::<u64, f32>::builder().capacity(1000).dim(2).build();
/// let both = CacheTables::new(vec![table()?, table()?])?; // users, items
/// assert!(both[0].insert(&[7], &[0.5, 1.5])?.all_placed());
/// let rows = both.get(&[&[7, 8, 7], &[7]])?;
/// assert_eq!((rows[0].of(2), rows[0].found(), rows[1].of(0)), (Some(&[0.5, 1.5][..]), 2, None));
/// let rows = both.get_or_insert(&[&[7], &[7, 7]], &[&[9.0; 2], &[3.0; 4]])?;
/// assert_eq!((rows[0].of(0), rows[1].of(1)), (Some(&[0.5, 1.5][..]), Some(&[3.0; 2][..])));
///
/// let (device, stream) = (both[0].device(), both[0].device().stream()?);
/// let keys = device.from_slice(&[7u64, 8])?; // one of users, one of items
/// let (mut rows, mut outcomes) = (device.zeroed::<f32>(4)?, device.zeroed::<u8>(2)?);
/// both.on(&stream).get(&keys, &[1, 1], &mut rows, &mut outcomes)?;
/// assert_eq!(rows.read()?[..2], [0.5, 1.5]);
/// assert!(both.len() == 2 && !both.is_empty() && both.memory_usage() > 0);
/// assert_eq!(both.into_tables()[1].len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// A call is a batch of each of its tables, of the readers' group (`get`, `get_missed`) or of the inserters'
/// (`get_or_insert`), and is ordered with the other batches of each table as these: see [`CacheTable`]. This
/// also holds for lookups in tables with [`Lock::Concurrent`](super::Lock::Concurrent).
///
/// # Cost
///
/// `new` compares the tables on the host. See [`BatchesOfMany`] for calls on device buffers; `get` and
/// `get_or_insert` also allocate device memory for keys, rows and outcomes, copy them, and wait.
pub struct CacheTables<K, V, S = u64> {
    /// Groups are entered in this order, so that no two calls wait for each other.
    tables: Vec<CacheTable<K, V, S>>,
    /// The words of the tables' views, and where they are on the device.
    views: Mutex<(Vec<u64>, Buffer<u64>)>,
    merger: Merger,
}

impl<K, V, S> std::ops::Index<usize> for CacheTables<K, V, S> {
    type Output = CacheTable<K, V, S>;

    fn index(&self, index: usize) -> &Self::Output {
        &self.tables[index]
    }
}

impl<K, V, S> std::fmt::Debug for CacheTables<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheTables").field("tables", &self.tables).finish()
    }
}

/// Maximum number of keys of a call.
const MOST_KEYS: usize = (1 << 30) - 1;

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTables<K, V, S> {
    /// Takes these tables, so that one call can look keys up in all of them.
    ///
    /// # Errors
    /// [`Error::Zero`] without tables; [`Error::Unlike`] if tables differ in device, variant or length of
    /// rows.
    pub fn new(tables: Vec<CacheTable<K, V, S>>) -> Result<Self> {
        let Some(first) = tables.first() else { return Err(Error::Zero { what: "tables" }) };
        for (index, table) in tables.iter().enumerate() {
            let unlike = |what| Err(Error::Unlike { index, what });
            if table.device() != first.device() {
                return unlike("device");
            }
            if table.kernels.kind() != first.kernels.kind() {
                return unlike("variant");
            }
            if table.dim() != first.dim() {
                return unlike("length of rows");
            }
        }
        let views = Mutex::new((Vec::new(), first.device().buffer(0)?));
        Ok(Self { tables, views, merger: Merger::default() })
    }

    /// Returns the tables.
    pub fn into_tables(self) -> Vec<CacheTable<K, V, S>> {
        self.tables
    }

    /// Returns the number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns `false`: there is at least one table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the device memory of the tables and of the calls' scratch, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.tables.iter().map(CacheTable::memory_usage).sum::<usize>() + self.merger.memory_usage()
    }

    /// Returns the batches on device buffers, submitted to a stream.
    pub fn on(&self, stream: &Stream) -> BatchesOfMany<'_, K, V, S> {
        BatchesOfMany { all: self, stream: stream.clone(), defaults: None }
    }

    /// Returns the rows of each table's keys: see [`CacheTable::get`].
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a slice of keys for each table; [`Error::TooMany`] for 2^30 keys or
    /// more; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(&self, keys: &[&[K]]) -> Result<Vec<Rows<V>>> {
        self.on_host(keys, |batches, keys, lens, rows, outcomes| batches.get(keys, lens, rows, outcomes))
    }

    /// Returns the rows of keys that are present in their table, and places the others with the given rows:
    /// see [`CacheTable::get_or_insert`].
    ///
    /// # Errors
    /// As [`Self::get`]; [`Error::Length`] if there is not a row for each key. If the device lacks memory for
    /// some tables, others may have their keys already.
    pub fn get_or_insert(&self, keys: &[&[K]], rows: &[&[V]]) -> Result<Vec<Rows<V>>> {
        check("slices of rows, one for each table", self.tables.len(), rows.len())?;
        for (keys, rows) in keys.iter().zip(rows) {
            check("rows", keys.len().saturating_mul(self.dim()), rows.len())?;
        }
        let given = self.device().from_slice(&rows.concat())?;
        self.on_host(keys, |batches, keys, lens, rows, outcomes| {
            batches.get_or_insert(keys, lens, &given, rows, outcomes)
        })
    }

    /// Runs a batch on keys of the host.
    fn on_host(
        &self,
        keys: &[&[K]],
        submit: impl FnOnce(
            BatchesOfMany<'_, K, V, S>,
            &Buffer<K>,
            &[usize],
            &mut Buffer<V>,
            &mut Buffer<u8>,
        ) -> Result<()>,
    ) -> Result<Vec<Rows<V>>> {
        let (device, lens) = (self.device(), keys.iter().map(|keys| keys.len()).collect::<Vec<_>>());
        let (stream, keys) = (device.stream()?, device.from_slice(&keys.concat())?);
        let mut rows = device.zeroed(keys.len() * self.dim())?;
        let mut outcomes = device.zeroed(keys.len())?;
        submit(self.on(&stream), &keys, &lens, &mut rows, &mut outcomes)?;
        let (mut rows, mut codes) = (rows.read()?, outcomes.read()?);
        let of_table = |len: usize| {
            let (rest, later) = (rows.split_off(len * self.dim()), codes.split_off(len));
            let (rows, codes) = (std::mem::replace(&mut rows, rest), std::mem::replace(&mut codes, later));
            let outcomes: Outcomes = codes.into_iter().map(outcome_of).collect::<Vec<_>>().into();
            Rows::new(rows, outcomes, self.dim())
        };
        Ok(lens.into_iter().map(of_table).collect())
    }

    /// Returns the words of the tables' views on the device. They are copied there if a table has grown. The
    /// caller has entered a group of each table.
    fn views(&self) -> Result<GlobalSlice<u64>> {
        // SAFETY: tables replace their memory only as inserters, and dropping it waits for launches.
        let words_of = |table: &CacheTable<K, V, S>| unsafe { table.kernels.view_words(&table.memory()) };
        let words: Vec<_> = self.tables.iter().flat_map(words_of).collect();
        // Both parts are valid even after a panic: at worst, the words are copied again.
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if views.0 != words {
            // Dropping the old buffer waits for its launches.
            views.1 = self.device().from_slice(&words)?;
            views.0 = words;
        }
        Ok(views.1.global())
    }

    fn device(&self) -> &Device {
        self.tables[0].device()
    }

    fn dim(&self) -> usize {
        self.tables[0].dim()
    }
}

/// Batches for several tables on device buffers. The calls submit work to a stream and do not wait for it.
/// Created by [`CacheTables::on`].
///
/// The keys of all tables lie in one buffer: first `lens[0]` keys of the first table, then `lens[1]` of the
/// second, and so on. Rows and outcomes have the order of the keys.
///
/// ```
/// use phalanx::cache_table::{CacheTables, MissedBuffers};
/// use phalanx::{CacheTable, Outcome};
///
/// let table = || CacheTable::<u64, f32>::builder().capacity(1000).build();
/// let both = CacheTables::new(vec![table()?, table()?])?; // users, items
/// assert!(both[0].insert(&[7], &[0.5])?.all_placed());
/// let (device, stream) = (both[0].device(), both[0].device().stream()?);
/// let keys = device.from_slice(&[7u64, 8, 8, 7])?; // three of users, one of items
/// let (mut rows, mut outcomes) = (device.zeroed::<f32>(4)?, device.zeroed::<u8>(4)?);
/// let (mut missed, mut tables) = (device.zeroed::<u64>(4)?, device.zeroed::<u32>(4)?);
/// let (mut indices, mut count) = (device.zeroed::<u32>(4)?, device.zeroed::<u32>(1)?);
/// let buffers = MissedBuffers {
///     keys: (&mut missed).into(),
///     tables: (&mut tables).into(),
///     indices: (&mut indices).into(),
///     count: (&mut count).into(),
/// };
/// let defaults = device.from_slice(&[-1.0f32, -2.0])?;
/// let batches = both.on(&stream).defaults(&defaults);
/// batches.get_missed(&keys, &[3, 1], &mut rows, &mut outcomes, buffers)?;
/// assert_eq!((rows.read()?, count.read()?), (vec![0.5, -1.0, -1.0, -2.0], vec![2]));
/// let given = device.from_slice(&[1.0f32, 2.0, 3.0, 4.0])?;
/// both.on(&stream).get_or_insert(&keys, &[3, 1], &given, &mut rows, &mut outcomes)?;
/// assert_eq!(rows.read()?, [0.5, 3.0, 3.0, 4.0]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `get` and `get_missed` launch a kernel for each 16 tables; `get_missed` also clears 8 to 16 bytes of
/// scratch for each key. `get_or_insert` merges equal keys by three launches for each 16 tables
/// ([`MergeBy::Hash`](super::MergeBy)), launches a kernel for each table, and another one for each 16, which
/// passes rows and outcomes on to equal keys. Each call records an event for each table. No call waits for
/// the device, except to enlarge the scratch when a batch is longer than any before in the stream, for the
/// growth of a table, and in the first lookup after it.
pub struct BatchesOfMany<'a, K, V, S> {
    all: &'a CacheTables<K, V, S>,
    stream: Stream,
    defaults: Option<Slice<'a, V>>,
}

impl<K, V, S> std::fmt::Debug for BatchesOfMany<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchesOfMany").field("all", self.all).field("stream", &self.stream).finish()
    }
}

/// Buffers for the absent keys of a lookup in several tables: see [`BatchesOfMany::get_missed`].
#[derive(Debug)]
pub struct MissedBuffers<'a, K> {
    /// Output: the distinct keys that are absent, in any order.
    pub keys: SliceMut<'a, K>,
    /// Output: the numbers of their tables, from 0.
    pub tables: SliceMut<'a, u32>,
    /// Output: for each of them, the index of an element with this key.
    pub indices: SliceMut<'a, u32>,
    /// Output: their number, one word.
    pub count: SliceMut<'a, u32>,
}

/// The tables of a launch, and their elements.
#[derive(Clone)]
struct Share {
    tables: Range<usize>,
    /// Index of the first element.
    first: usize,
    /// Ends of the tables' elements, counted from the first element.
    ends: Vec<u32>,
}

impl Share {
    /// Returns the number of elements.
    fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    fn sections(&self) -> Sections {
        Sections::of(&self.ends)
    }

    /// Returns the elements of this share.
    fn of<T: simt::Word>(&self, elements: GlobalSlice<T>) -> GlobalSlice<T> {
        elements.part(self.first, self.len())
    }

    /// Returns the section of each table: its first element, and their number.
    fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        let firsts = std::iter::once(0).chain(self.ends.iter().copied());
        firsts.zip(&self.ends).map(|(first, end)| (first as usize, (end - first) as usize))
    }
}

impl<'a, K: Number + Scalar, V: Pod, S: Number + Scalar> BatchesOfMany<'a, K, V, S> {
    /// Sets the rows that `get` and `get_missed` write for absent keys: a row for each table. Without it,
    /// they leave these rows as they are.
    pub fn defaults(self, rows: impl Into<Slice<'a, V>>) -> Self {
        Self { defaults: Some(rows.into()), ..self }
    }

    /// Submits a lookup: writes the rows of the keys that are present in their table, and outcomes as
    /// [`CacheTable::get`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers, or the sum of `lens`, do not fit the keys, or there is not a length
    /// for each table; [`Error::TooMany`] for 2^30 keys or more; [`Error::Misaligned`] for rows that begin
    /// between words; [`Error::OtherDevice`] if a buffer or the stream is not of the tables' device;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(
        &self,
        keys: impl AsSlice<K>,
        lens: &[usize],
        rows: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.lookups(keys.view(), rows.view(), outcomes)?;
        self.look_up(batch, &self.shares(lens, batch.claims.keys.len())?)
    }

    /// Submits [`Self::get`], and gathers the distinct keys that are absent in their table. A key that is
    /// absent in two tables counts twice.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_missed(
        &self,
        keys: impl AsSlice<K>,
        lens: &[usize],
        rows: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
        missed: MissedBuffers<'_, K>,
    ) -> Result<()> {
        let batch = self.lookups(keys.view(), rows.view(), outcomes)?;
        let (device, len) = (self.all.device(), batch.claims.keys.len());
        let batch = LookupsOfMany {
            missed: slice(device, "missed keys", missed.keys, len)?,
            missed_tables: slice(device, "tables of missed keys", missed.tables, len)?,
            missed_indices: slice(device, "indices of missed keys", missed.indices, len)?,
            missed_count: slice(device, "the number of missed keys", missed.count, 1)?,
            ..batch
        };
        self.look_up(batch, &self.shares(lens, len)?)
    }

    /// Submits a batch that copies the rows of keys that are present in their table, and places the others
    /// with the given rows: see [`CacheTable::get_or_insert`].
    ///
    /// # Errors
    /// As [`Self::get`]. If the device lacks memory for some tables, others may get their keys all the same:
    /// the outputs are then unspecified.
    pub fn get_or_insert(
        &self,
        keys: impl AsSlice<K>,
        lens: &[usize],
        rows: impl AsSlice<V>,
        results: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let (keys, rows, results) = (keys.view(), rows.view(), results.view());
        let (first, device, len) = (&self.all.tables[0], self.all.device(), keys.len());
        let shares = self.shares(lens, len)?;
        let (rows, chunk) = first.row_slice("rows", rows, len)?;
        let (_, chunk_of_results) = first.row_slice("results", results, len)?;
        let batch = Placing {
            keys: slice(device, "keys", keys, len)?,
            rows,
            results: words_of(results),
            outcomes: slice(device, "outcomes", outcomes, len)?,
            chunk: least(chunk, chunk_of_results),
            chunk_of_results,
        };
        self.submit(Group::Inserters, || {
            // SAFETY: the tables and the buffers outlive the launches, since dropping them waits.
            shares.iter().try_for_each(|share| unsafe { self.place(share, &batch) })
        })
    }

    fn lookups(
        &self,
        keys: Slice<'_, K>,
        rows: Slice<'_, V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<LookupsOfMany<K>> {
        let (first, device, len) = (&self.all.tables[0], self.all.device(), keys.len());
        let keys = slice(device, "keys", keys, len)?;
        let (rows, mut chunk) = first.row_slice("rows", rows, len)?;
        if let Some(defaults) = self.defaults {
            chunk = least(chunk, first.row_slice("default rows", defaults, self.all.len())?.1);
        }
        Ok(LookupsOfMany {
            claims: ClaimTable { keys, slots: nothing() },
            rows,
            defaults: self.defaults_from(0),
            has_defaults: self.defaults.is_some(),
            missed: nothing(),
            missed_tables: nothing(),
            missed_indices: nothing(),
            missed_count: nothing(),
            first_table: 0,
            first_index: 0,
            outcomes: slice(device, "outcomes", outcomes, len)?,
            chunk,
        })
    }

    /// Returns the default rows of the tables from `first` on, by position.
    fn defaults_from(&self, first: usize) -> cache::Rows {
        let words = self.all.tables[0].shape().words;
        let defaults = self.defaults.map_or_else(nothing, words_of);
        let from = defaults.part(first * words as usize, usize::MAX).as_ptr();
        // SAFETY: there is a row for each table. The positions of a launch are the numbers of its tables, and
        // lanes move four words at once only if the rows are aligned.
        unsafe { cache::Rows::new(from, from, SLOTS, words) }
    }

    /// Divides the tables among launches.
    fn shares(&self, lens: &[usize], keys: usize) -> Result<Vec<Share>> {
        check("numbers of keys, one for each table", self.all.len(), lens.len())?;
        let sum = lens.iter().fold(0, |sum: usize, len| sum.saturating_add(*len));
        check("keys, by their numbers for each table", keys, sum)?;
        if keys > MOST_KEYS {
            return Err(Error::TooMany { what: "a call for several tables", asked: keys, most: MOST_KEYS });
        }
        let (mut shares, mut first) = (Vec::new(), 0);
        for (number, lens) in lens.chunks(MOST_TABLES).enumerate() {
            let (from, mut end) = (number * MOST_TABLES, 0);
            let ends = lens.iter().map(|len| {
                end += *len as u32;
                end
            });
            let share = Share { tables: from..from + lens.len(), first, ends: ends.collect() };
            first += share.len();
            shares.push(share);
        }
        Ok(shares)
    }

    /// Submits a lookup.
    fn look_up(&self, batch: LookupsOfMany<K>, shares: &[Share]) -> Result<()> {
        self.submit(Group::Readers, || {
            // SAFETY: the tables and the buffers outlive the launches, since dropping them waits.
            unsafe { self.stream.fill(batch.missed_count, 0)? };
            if batch.claims.keys.is_empty() {
                return Ok(());
            }
            let views = self.all.views()?;
            // SAFETY: as above.
            shares.iter().try_for_each(|share| unsafe { self.look_up_share(share, views, batch) })
        })
    }

    /// Submits the part of a lookup in some tables. `views` has the words of the views of all tables.
    ///
    /// # Safety
    /// - The slices live until the stream has executed the launches. The caller has entered the readers'
    ///   group of each table.
    unsafe fn look_up_share(
        &self,
        share: &Share,
        views: GlobalSlice<u64>,
        batch: LookupsOfMany<K>,
    ) -> Result<()> {
        if share.len() == 0 {
            return Ok(());
        }
        let slots = match batch.missed_count.is_empty() {
            true => nothing(),
            // SAFETY: the stream's next launch is the last one that uses the slots.
            false => unsafe { self.all.merger.slots(&self.stream, share.len())? },
        };
        let dim = self.all.tables[0].shape().words as usize;
        let batch = LookupsOfMany {
            claims: ClaimTable { keys: share.of(batch.claims.keys), slots },
            rows: batch.rows.part(share.first * dim, share.len() * dim),
            defaults: self.defaults_from(share.tables.start),
            first_table: share.tables.start as u32,
            first_index: share.first as u32,
            outcomes: share.of(batch.outcomes),
            ..batch
        };
        let views = views.part(share.tables.start * VIEW_WORDS, usize::MAX);
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.all.tables[0].kernels.get_of_many(&self.stream, views, share.sections(), batch)?) }
    }

    /// Submits the part in some tables of a batch that places keys: a launch for each table, after one that
    /// merges the keys of all.
    ///
    /// # Safety
    /// - As for [`Self::look_up_share`], with the inserters' group.
    unsafe fn place(&self, share: &Share, batch: &Placing<K>) -> Result<()> {
        let words = self.all.tables[0].shape().words;
        let range = |len: usize| (share.first * len, share.len() * len);
        let (first, len) = range(words as usize);
        let (rows, results) = (batch.rows.part(first, len), batch.results.part(first, len));
        if share.len() == 0 {
            return Ok(());
        }
        // SAFETY: the caller's obligations.
        let merged =
            unsafe { self.all.merger.by_hash(&self.stream, share.of(batch.keys), share.sections())? };
        for (number, (first, len)) in share.ranges().enumerate().filter(|(_, (_, len))| *len > 0) {
            let (table, keys) =
                (&self.all.tables[share.tables.start + number], merged.keys(number, first, len));
            let changes = Changes {
                rows,
                outcomes: merged.outcomes.part(first, len),
                ends: merged.by_keys.ends.part(first, len),
                order: merged.by_keys.order.part(first, len),
                parameter: table.clock.parameter,
                chunk: batch.chunk,
                ..changes_of(keys)
            };
            table.grow_for(&self.stream, keys)?;
            table.prepare_summary(&self.stream, len)?;
            // SAFETY: the caller's obligations.
            unsafe { table.launch(&self.stream, Launch::GetOrInsert(changes, RowSlice::new(results)))? };
        }
        let outcomes = (Outcome::Found, share.of(batch.outcomes));
        // SAFETY: the caller's obligations.
        unsafe { Merger::spread(&self.stream, &merged, outcomes, (results, words, batch.chunk_of_results)) }
    }

    /// Submits launches after entering a group of each table.
    fn submit(&self, group: Group, launches: impl FnOnce() -> Result<()>) -> Result<()> {
        check_same_device(self.all.device(), "stream", self.stream.device())?;
        // By a loop: with a call for each table, thousands of tables would exhaust the thread's stack.
        let mut entered = Vec::with_capacity(self.all.len());
        let result = self.all.tables.iter().try_for_each(|table| {
            entered.push(table.groups.enter(group, &self.stream)?);
            Ok(())
        });
        let result = result.and_then(|()| launches());
        // Also after an error: a part of the batch may have been submitted. Each table is left.
        let left = entered.into_iter().map(|entered| entered.leave(&self.stream)).fold(Ok(()), Result::and);
        left.and(result)
    }
}

/// Elements of a batch that places keys in several tables.
struct Placing<K> {
    keys: GlobalSlice<K>,
    rows: RowSlice,
    /// Output: a row for each key.
    results: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    chunk: Chunk,
    chunk_of_results: Chunk,
}

//! Merging of the elements of a batch that have equal keys, so that no two tiles change the same slot.
use crate::map::launch::THREADS;
use crate::number::Number;
use crate::primitives::rebuild_steps::{Order, step_bytes};
use crate::primitives::{Fold, Workspace, last_used};
use crate::{Outcome, Result};
use gpu::Stream;
use phalanx_kernels::cache::merge::{
    ByKeys, CacheClaim, CacheNumber, CachePlace, CacheSpread, ClaimTable, MergedBatch, NUMBERED, Owners,
};
use phalanx_kernels::cache::{Chunk, MOST_TABLES, RowSlice, Rows, SLOTS, Sections};
use phalanx_kernels::primitives::words::{CountUp, Words};
use simt::{BoundedSlice, GlobalSlice, Grid, Word};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Way in which batches that place keys merge elements with equal keys, set by
/// [`Builder::merge_by`](super::Builder::merge_by).
///
/// ```
/// use phalanx::cache_table::MergeBy;
/// use phalanx::{CacheTable, Outcome};
///
/// let table = CacheTable::<u64, u32>::builder().capacity(1000).merge_by(MergeBy::Sort).build()?;
/// assert_eq!(table.insert(&[1, 1], &[10, 11])?, [Outcome::Inserted, Outcome::Replaced]);
/// assert_eq!(table.get(&[1])?.of(0), Some(&[11][..]));
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeBy {
    /// `Hash`, except for [`accumulate`](super::CacheTable::accumulate), which needs the elements of a key in
    /// the order of the batch.
    #[default]
    Auto,
    /// A stable sort of the keys: 10 launches for keys of 32 bits, 14 for those of 64.
    Sort,
    /// A hash table in scratch memory: 3 launches, and 37 to 49 bytes of memory per element. `accumulate`
    /// sorts all the same.
    Hash,
}

/// A batch with distinct keys.
#[derive(Clone, Copy, Debug)]
pub struct Merged<K> {
    /// The elements by keys.
    pub by_keys: ByKeys<K>,
    /// The tables' sections of the batch.
    pub sections: Sections,
    /// Place for an outcome for each key.
    pub outcomes: GlobalSlice<u8>,
}

impl<K: Word> Merged<K> {
    /// Returns two words for each table, of which the second is the number of its distinct keys.
    pub fn counts(&self) -> GlobalSlice<u32> {
        let counts = self.by_keys.counts;
        // SAFETY: these are the halves of the counts, the low ones first.
        unsafe { GlobalSlice::from_raw_parts(counts.as_ptr().cast(), 2 * counts.len()) }
    }

    /// Returns the distinct keys of a table, whose section of the batch has `len` elements from `first` on.
    pub fn keys(&self, table: usize, first: usize, len: usize) -> BoundedSlice<K> {
        BoundedSlice::new(self.by_keys.keys.part(first, len), self.counts().part(2 * table + 1, 1))
    }
}

/// Maximum number of streams with a workspace. Beyond it, the least recently used workspace is dropped.
const MOST_WORKSPACES: usize = 8;

/// Workspaces for merging, a stream each, ordered by last use.
#[derive(Debug, Default)]
pub struct Merger(Mutex<Vec<Workspace>>);

impl Merger {
    /// Submits the merging of a batch by a stable sort of the keys with their indices, and a reduction of the
    /// runs of equal keys. Waits if the batch is longer than any before in that stream.
    ///
    /// # Safety
    /// - The keys live until the stream has executed the launches. The result is valid until the next call
    ///   for the stream.
    pub unsafe fn by_sort<K: Number>(&self, stream: &Stream, keys: GlobalSlice<K>) -> Result<Merged<K>> {
        let mut workspaces = self.workspaces();
        let work = workspace(&mut workspaces, stream)?;
        let len = keys.len();
        let (sorted, spare, runs, [positions, ends], counts, outcomes) =
            work.keep(step_bytes::<K>(len), |cutter| {
                let [sorted, spare, runs] =
                    [(); 3].map(|()| Order { keys: cutter.words::<K>(len), indices: cutter.words(len) });
                let words = [len, len].map(|len| cutter.words::<u32>(len));
                (sorted, spare, runs, words, cutter.words::<u64>(1), cutter.words::<u8>(len))
            })?;
        let runs = Order { indices: ends, ..runs };
        let by_keys = ByKeys { keys: runs.keys, ends, order: sorted.indices, counts };
        let merged = Merged { by_keys, sections: Sections::of(&[len as u32]), outcomes };
        // SAFETY: the caller's obligation. The workspace is dropped only after a wait for its launches, and
        // its pieces do not overlap.
        unsafe {
            stream.launch(Grid::for_items(len, THREADS), CountUp { words: positions })?;
            work.sort_with_indices(keys, sorted, spare)?;
            let by_place = Order { keys: sorted.keys, indices: positions };
            work.reduce_runs(Fold::Max, by_place, runs, merged.counts().part(1, 1))?;
        }
        Ok(merged)
    }

    /// Submits the merging of the sections of a batch by a hash table: see
    /// [`merge`](phalanx_kernels::cache::merge). Waits if the batch is longer than any before in that stream.
    ///
    /// # Safety
    /// - As for [`Self::by_sort`].
    pub unsafe fn by_hash<K: Number>(
        &self,
        stream: &Stream,
        keys: GlobalSlice<K>,
        sections: Sections,
    ) -> Result<Merged<K>> {
        let mut workspaces = self.workspaces();
        let work = workspace(&mut workspaces, stream)?;
        let (len, slots) = (keys.len(), slots_for(keys.len()));
        let (zeros, [owners, ends, order], distinct, outcomes) = work.keep(0, |cutter| {
            let zeros = cutter.words::<u32>(2 * MOST_TABLES + 3 * len + slots);
            let words = [(); 3].map(|()| cutter.words::<u32>(len));
            (zeros, words, cutter.words::<K>(len), cutter.words::<u8>(len))
        })?;
        let mut rest = zeros;
        let mut cut = |len| {
            let piece = rest.part(0, len);
            rest = rest.part(len, usize::MAX);
            piece
        };
        let (counts, slots) = (cut(2 * MOST_TABLES), cut(slots));
        let found = Owners { owners, others: cut(len), lowest: cut(len), highest: cut(len) };
        // SAFETY: these are pairs of the words, which are aligned to 256 bytes.
        let counts = unsafe { GlobalSlice::from_raw_parts(counts.as_ptr().cast(), MOST_TABLES) };
        let (claims, by_keys) = (ClaimTable { keys, slots }, ByKeys { keys: distinct, ends, order, counts });
        let grid = |each| Grid::for_items(sections.threads(each), THREADS);
        // SAFETY: as for `by_sort`.
        unsafe {
            stream.fill(zeros, 0)?;
            stream.launch(grid(1), CacheClaim::<Words<K>> { claims, found, sections })?;
            stream.launch(grid(NUMBERED), CacheNumber::<Words<K>> { claims, found, by_keys, sections })?;
            stream.launch(grid(1), CachePlace { found, order, sections })?;
        }
        Ok(Merged { by_keys, sections, outcomes })
    }

    /// Submits the clearing of slots for `len` keys that kernels of the stream merge. Waits if there are more
    /// than ever before in that stream.
    ///
    /// # Safety
    /// - The result is valid until the next call for the stream.
    pub unsafe fn slots(&self, stream: &Stream, len: usize) -> Result<GlobalSlice<u32>> {
        let mut workspaces = self.workspaces();
        let work = workspace(&mut workspaces, stream)?;
        let slots = work.keep(0, |cutter| cutter.words::<u32>(slots_for(len)))?;
        // SAFETY: as for `by_sort`.
        unsafe { stream.fill(slots, 0)? };
        Ok(slots)
    }

    /// Launches [`CacheSpread`]: writes the outcomes of all elements, after the launch that wrote those of
    /// the keys. Elements of a key that was placed have the outcome `present`, except the first. If there are
    /// `rows` of `words` words, that of a key's last element is copied to the others.
    ///
    /// # Safety
    /// - The slices live until the stream has executed the launch; `merged` is the stream's last result.
    pub unsafe fn spread<K: Number>(
        stream: &Stream,
        merged: &Merged<K>,
        (present, outcomes): (Outcome, GlobalSlice<u8>),
        (rows, words, chunk): (GlobalSlice<u32>, u32, Chunk),
    ) -> Result<()> {
        let (first, sections) = (rows.as_ptr(), merged.sections);
        let ByKeys { ends, order, .. } = merged.by_keys;
        // SAFETY: rows of the batch are read by their indices, and only chunks of one word if they are not
        // aligned.
        let sources = unsafe { Rows::new(first, first, SLOTS, words) };
        let batch = MergedBatch {
            order,
            ends,
            counts: merged.counts(),
            merged: merged.outcomes,
            present: present as u32,
            chunk,
            outcomes,
            rows: RowSlice::new(rows),
            sources,
        };
        let kernel = CacheSpread { sections, batch };
        // SAFETY: the caller's obligation.
        unsafe { Ok(stream.launch(Grid::for_items(sections.threads(1), THREADS), kernel)?) }
    }

    /// Submits `search`, which writes `len` positions, and then their stable sort, with their indices. Waits
    /// if `len` is greater than any before in that stream.
    ///
    /// # Safety
    /// - As for [`Self::by_sort`]. The launches of `search` are those of the stream.
    pub unsafe fn sort_positions(
        &self,
        stream: &Stream,
        len: usize,
        search: impl FnOnce(GlobalSlice<u32>) -> Result<()>,
    ) -> Result<Order<u32>> {
        let mut workspaces = self.workspaces();
        let work = workspace(&mut workspaces, stream)?;
        let (positions, sorted, spare) = work.keep(step_bytes::<u32>(len), |cutter| {
            let [sorted, spare] =
                [(); 2].map(|()| Order { keys: cutter.words(len), indices: cutter.words(len) });
            (cutter.words(len), sorted, spare)
        })?;
        search(positions)?;
        // SAFETY: as for `by_sort`.
        unsafe { work.sort_with_indices(positions, sorted, spare)? };
        Ok(sorted)
    }

    /// Returns the device memory in use, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.workspaces().iter().map(Workspace::memory_usage).sum()
    }

    fn workspaces(&self) -> MutexGuard<'_, Vec<Workspace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of slots for so many keys: a power of two, so that half of the slots stay free.
fn slots_for(len: usize) -> usize {
    (2 * len).next_power_of_two()
}

/// Returns the workspace of a stream.
fn workspace<'a>(workspaces: &'a mut Vec<Workspace>, stream: &Stream) -> Result<&'a mut Workspace> {
    let is_own = |workspace: &Workspace| workspace.stream() == stream;
    let new = || Workspace::new(stream, 0);
    last_used(workspaces, MOST_WORKSPACES, (is_own, |_: &Workspace| true), new)
}

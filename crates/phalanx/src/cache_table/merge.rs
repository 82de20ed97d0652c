//! Merging of the elements of a batch that have equal keys, so that no two tiles change the same slot.
use crate::Result;
use crate::number::Number;
use crate::primitives::rebuild_steps::{Order, step_bytes};
use crate::primitives::{Fold, Workspace, last_used};
use gpu::Stream;
use phalanx_kernels::primitives::words::CountUp;
use simt::{BoundedSlice, GlobalSlice, Grid};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A batch with distinct keys.
#[derive(Clone, Copy, Debug)]
pub struct Merged<K> {
    /// The keys, as many as the word of `runs` says.
    pub keys: BoundedSlice<K>,
    /// Indices of the elements, ordered by key and then by index.
    pub order: GlobalSlice<u32>,
    /// Last place of each key in `order`.
    pub ends: GlobalSlice<u32>,
    /// Number of distinct keys, one word.
    pub runs: GlobalSlice<u32>,
    /// Place for an outcome for each key.
    pub outcomes: GlobalSlice<u8>,
}

/// Maximum number of streams with a workspace. Beyond it, the least recently used workspace is dropped.
const MOST_WORKSPACES: usize = 8;

/// Workspaces for merging, a stream each, ordered by last use.
#[derive(Debug, Default)]
pub struct Merger(Mutex<Vec<Workspace>>);

impl Merger {
    /// Submits the merging of a batch: a stable sort of the keys with their indices, and a reduction of the
    /// runs of equal keys. Waits if the batch is longer than any before in that stream.
    ///
    /// # Safety
    /// - The keys live until the stream has executed the launches. The result is valid until the next call
    ///   for the stream.
    pub unsafe fn merge<K: Number>(&self, stream: &Stream, keys: GlobalSlice<K>) -> Result<Merged<K>> {
        let mut workspaces = self.workspaces();
        let work = workspace(&mut workspaces, stream)?;
        let len = keys.len();
        let (sorted, spare, runs, [positions, ends, count], outcomes) =
            work.keep(step_bytes::<K>(len), |cutter| {
                let [sorted, spare, runs] =
                    [(); 3].map(|()| Order { keys: cutter.words::<K>(len), indices: cutter.words(len) });
                let words = [len, len, 1].map(|len| cutter.words::<u32>(len));
                (sorted, spare, runs, words, cutter.words::<u8>(len))
            })?;
        let runs = Order { indices: ends, ..runs };
        // SAFETY: the caller's obligation. The workspace is dropped only after a wait for its launches, and
        // its pieces do not overlap.
        unsafe {
            stream.launch(Grid::for_items(len, 128), CountUp { words: positions })?;
            work.sort_with_indices(keys, sorted, spare)?;
            let by_place = Order { keys: sorted.keys, indices: positions };
            work.reduce_runs(Fold::Max, by_place, runs, count)?;
        }
        let keys = BoundedSlice::new(runs.keys, count);
        Ok(Merged { keys, order: sorted.indices, ends, runs: count, outcomes })
    }

    /// Submits `search`, which writes `len` positions, and then their stable sort, with their indices. Waits
    /// if `len` is greater than any before in that stream.
    ///
    /// # Safety
    /// - As for [`Self::merge`]. The launches of `search` are those of the stream.
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
        // SAFETY: as for `merge`.
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

/// Returns the workspace of a stream.
fn workspace<'a>(workspaces: &'a mut Vec<Workspace>, stream: &Stream) -> Result<&'a mut Workspace> {
    let is_own = |workspace: &Workspace| workspace.stream() == stream;
    let new = || Workspace::new(stream, 0);
    last_used(workspaces, MOST_WORKSPACES, (is_own, |_: &Workspace| true), new)
}

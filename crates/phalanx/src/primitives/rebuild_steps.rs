//! Steps of batches that rebuild ordered structures, on slices as kernels take them.
use super::sort::SortBuffers;
use super::workspace::Workspace;
use super::{Fold, Number, any_grid, choose, compact_bytes, runs_bytes};
use crate::Result;
use phalanx_kernels::primitives::analysis::AnalyzeBatch;
use phalanx_kernels::primitives::compact::{Choice, Test};
use phalanx_kernels::primitives::runs::{MarkRuns, Marks};
use phalanx_kernels::primitives::words::{CopyWords, ReverseWords, Words};
use simt::{GlobalSlice, Word};

/// Two arrays for keys and indices: the sorted ones, and those of a run each.
#[derive(Clone, Copy)]
pub struct Order<K> {
    pub keys: GlobalSlice<K>,
    pub indices: GlobalSlice<u32>,
}

/// Slices of a batch and of a structure that [`Workspace::analyze_batch`] reads, and its output.
pub struct AnalysisSlices<K> {
    pub keys: GlobalSlice<K>,
    pub counters: GlobalSlice<u64>,
    pub lows: GlobalSlice<K>,
    pub highs: GlobalSlice<K>,
    pub report: GlobalSlice<u64>,
}

/// Returns the bytes of workspace that the steps need for `len` elements.
pub fn step_bytes<K: Number>(len: usize) -> usize {
    Workspace::sort_words_bytes::<K>(len).max(runs_bytes(len)).max(compact_bytes(len))
}

/// The safety obligations of all steps: the slices live until the stream has executed the launches, are as
/// long as the input unless the step says otherwise, and nothing else accesses the output.
impl Workspace {
    /// Launches [`AnalyzeBatch`].
    ///
    /// # Safety
    /// - As stated for all steps. The output has the lengths that the kernel requires.
    pub(crate) unsafe fn analyze_batch<K: Number>(&self, slices: AnalysisSlices<K>) -> Result<()> {
        let AnalysisSlices { keys, counters, lows, highs, report } = slices;
        let grid = any_grid(keys.len().div_ceil(8).max(64));
        let kernel = AnalyzeBatch::<K::Ordered> { keys, counters, lows, highs, report };
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.stream().launch(grid, kernel)?) }
    }

    /// Sorts keys stably into `sorted`, with their indices. Uses `spare`.
    ///
    /// # Safety
    /// - As stated for all steps.
    pub(crate) unsafe fn sort_with_indices<K: Number>(
        &self,
        from: GlobalSlice<K>,
        sorted: Order<K>,
        spare: Order<K>,
    ) -> Result<()> {
        let spare = (spare.keys, spare.indices);
        // SAFETY: the caller's obligations.
        unsafe { self.sort_words(SortBuffers { from, sorted: sorted.keys, order: sorted.indices, spare }) }
    }

    /// Reduces each run of equal keys to its least or greatest index. `count` receives the number of runs.
    ///
    /// # Safety
    /// - As stated for all steps. `count` has one word.
    pub(crate) unsafe fn reduce_runs<K: Number>(
        &self,
        fold: Fold,
        sorted: Order<K>,
        runs: Order<K>,
        count: GlobalSlice<u32>,
    ) -> Result<()> {
        let (from, to) = ((sorted.keys, sorted.indices), (runs.keys, runs.indices));
        // SAFETY: the caller's obligations.
        unsafe { self.reduce_words(fold, from, to, count) }
    }

    /// Selects the numbers that are less than the one word of `limit`. `count` receives their number.
    ///
    /// # Safety
    /// - As stated for all steps. `limit` and `count` have one word.
    pub(crate) unsafe fn select_less(
        &self,
        from: GlobalSlice<u32>,
        limit: GlobalSlice<u32>,
        to: GlobalSlice<u32>,
        count: GlobalSlice<u32>,
    ) -> Result<()> {
        let choice = Choice { test: Test::Less as u32, inverted: 0, operand: limit, flags: nothing() };
        // SAFETY: the caller's obligations.
        unsafe { self.compact_words(from, choice, to, (nothing(), count)) }
    }

    /// Copies words in reverse order.
    ///
    /// # Safety
    /// - As stated for all steps.
    pub(crate) unsafe fn reverse<T: Number>(&self, from: GlobalSlice<T>, to: GlobalSlice<T>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.stream().launch(any_grid(from.len()), ReverseWords::<T::Ordered> { from, to })?) }
    }

    /// Copies words.
    ///
    /// # Safety
    /// - As stated for all steps.
    pub(crate) unsafe fn copy<T: Word>(&self, from: GlobalSlice<T>, to: GlobalSlice<T>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.stream().launch(any_grid(from.len()), CopyWords::<Words<T>> { from, to })?) }
    }

    /// Sets each element of `to` to the element of `from`, followed by `more`, whose index is at the same
    /// place in `order`.
    ///
    /// # Safety
    /// - As stated for all steps. The indices are those of existing elements.
    pub(crate) unsafe fn gather<T: Word>(
        &self,
        (from, more): (GlobalSlice<T>, GlobalSlice<T>),
        order: GlobalSlice<u32>,
        to: GlobalSlice<T>,
    ) -> Result<()> {
        if order.is_empty() {
            return Ok(());
        }
        let place = |part: GlobalSlice<T>| (part.as_ptr().cast(), part.len());
        let (from, more, to) = (place(from), place(more), to.as_ptr().cast());
        // SAFETY: the caller's obligations.
        unsafe { choose::gather(self.stream(), from, more, order, size_of::<T>(), to) }
    }

    /// Launches [`MarkRuns`] on sorted keys and their indices.
    ///
    /// # Safety
    /// - As stated for all steps. Unless they are empty, `kinds` and `before` have an element for each index
    ///   from `pairs` on.
    pub(crate) unsafe fn mark_runs<K: Number>(
        &self,
        sorted: Order<K>,
        (pairs, end): (u32, u32),
        marks: Marks,
        (kinds, before): (GlobalSlice<u8>, GlobalSlice<u32>),
    ) -> Result<()> {
        let Order { keys, indices: order } = sorted;
        let kernel = MarkRuns::<K::Ordered> { keys, order, pairs, end, marks, kinds, before };
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.stream().launch(any_grid(keys.len()), kernel)?) }
    }
}

/// Returns an empty slice.
fn nothing<T: Word>() -> GlobalSlice<T> {
    super::workspace::slice(std::ptr::dangling_mut(), 0)
}

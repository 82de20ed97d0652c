//! Large batches, executed by building the tree anew from its pairs and those of the batch.
//!
//! Single insertions or removals of neighbouring keys compete for the latch of one leaf, and even random keys
//! cost a descent each. A sort and a bulk build run at the speed of memory. So a batch that is not small
//! beside the tree is merged with it:
//!
//! ```text
//! analysis                                               order of the keys; is the tree empty, or below?
//! keys:  those of the tree, then those of the batch      index: 0, 1, 2, ...
//! sort by key, stable                                    in a run of equal keys, the tree's pair is first
//! mark the elements of the batch                         outcomes; old values
//! reduce each run to one index                           insert: the last, insert_new: the first one;
//!                                                        remove: the tree's, if its run has no other
//! gather the pairs, build the tree
//! ```
//!
//! The outcomes are those of a serial execution in the order of the batch.
//!
//! The host reads two reports: the analysis, and the number of pairs before the build. If the tree is empty,
//! and each key is above the one before it or below it, there is nothing to sort, nothing to scatter, and no
//! second report. All temporary memory is one allocation, which the tree keeps; the steps share it:
//!
//! | step | sorted keys, order | spare keys, indices |
//! |---|---|---|
//! | sort | output | every second pass |
//! | mark, reduce | input | one key and index per run |
//! | select (removals) | the tree's indices | input |
//! | gather | values | keys |
use super::analysis::{Analysis, Analyzer, KeyOrder, Numbers};
use super::bulk_build::USUAL_FILL;
use super::memory::Memory;
use super::tree::Tree;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, Scan, nothing};
use crate::map::structure::Structure as _;
use crate::primitives::rebuild_steps::{Order, step_bytes};
use crate::primitives::{Cutter, Fold, Workspace};
use crate::{Outcome, Result};
use gpu::{Device, Stream};
use phalanx_kernels::ordered::nodes;
use phalanx_kernels::primitives::runs::Marks;
use phalanx_kernels::primitives::sort::MOST;
use simt::GlobalSlice;
use std::sync::PoisonError;

/// Largest temporary memory that a tree keeps, as a multiple of the memory of its nodes.
const MOST_KEPT: usize = 4;

/// The rebuilds of a tree: their number, and memory that is kept from one to the next.
pub struct Rebuilds<K, V> {
    pub count: u64,
    kept: Option<RebuildMemory<K, V>>,
}

struct RebuildMemory<K, V> {
    analyzer: Analyzer<K, V>,
    work: Workspace,
}

impl<K, V> Default for Rebuilds<K, V> {
    fn default() -> Self {
        Self { count: 0, kept: None }
    }
}

impl<K: Word, V: Word> Rebuilds<K, V> {
    fn kept(&mut self, device: &Device) -> Result<&mut RebuildMemory<K, V>> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => {
                RebuildMemory { analyzer: Analyzer::new(device)?, work: Workspace::on_device(device, 0)? }
            }
        };
        Ok(self.kept.insert(kept))
    }

    /// Frees the memory if it is more than `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        self.kept.take_if(|kept| kept.work.memory_usage() > most);
    }

    pub fn memory_usage(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.analyzer.memory_usage() + kept.work.memory_usage())
    }
}

/// Effect of an operation on a run of equal keys: the tree's pair, if it has the key, then the elements of
/// the batch in their order.
#[derive(Clone, Copy)]
pub struct RunEffect {
    /// Outcomes of the elements.
    marks: Marks,
    /// Index of the run to keep: the last or the first one.
    keeps: Fold,
    /// Whether a run is dropped if it has an element of the batch.
    removes: bool,
}

impl RunEffect {
    /// Returns the effect of an operation, if a rebuild can execute it.
    pub fn of(op: BatchOp) -> Option<Self> {
        use Outcome::{Absent, Found, Inserted, Removed, Replaced};
        let (keeps, removes, outcomes) = match op {
            BatchOp::Insert | BatchOp::Replace => (Fold::Max, false, [Inserted, Replaced, Replaced]),
            BatchOp::InsertNew => (Fold::Min, false, [Inserted, Found, Found]),
            BatchOp::Remove | BatchOp::Take => (Fold::Max, true, [Absent, Removed, Absent]),
            _ => return None,
        };
        Some(Self { marks: marks(outcomes), keeps, removes })
    }
}

/// Returns the marks for outcomes of an element that begins a run, of one that follows the tree's pair, and
/// of all others.
fn marks([begins, second, others]: [Outcome; 3]) -> Marks {
    Marks { begins: begins as u32, second: second as u32, others: others as u32 }
}

/// Temporary memory of a rebuild: `total` elements, which are the tree's pairs and then those of the batch.
#[derive(Clone, Copy)]
struct Pieces<K, V> {
    sorted: Order<K>,
    spare: Order<K>,
    /// Keys to sort.
    from: GlobalSlice<K>,
    /// Values of the tree's pairs.
    old: GlobalSlice<V>,
    /// Output: values of the kept pairs.
    values: GlobalSlice<V>,
    /// Indices of old values, if the batch asks for them.
    before: GlobalSlice<u32>,
    handles: GlobalSlice<u32>,
}

/// Numbers of elements that a rebuild processes.
#[derive(Clone, Copy)]
struct Sizes {
    /// Pairs of the tree.
    old: usize,
    /// Elements of the batch.
    new: usize,
    removes: bool,
    /// Whether the batch asks for old values.
    asks: bool,
    /// Handles for an append.
    handles: usize,
}

impl Sizes {
    fn total(self) -> usize {
        self.old + self.new
    }
}

impl<K: Word, V: Word> Pieces<K, V> {
    /// Cuts the pieces. `batch` has the keys of the batch, which are sorted where they are if the tree has
    /// no pairs. Removals need the tree's keys again after the sort.
    fn cut(cutter: &mut Cutter, sizes: Sizes, batch: GlobalSlice<K>) -> Self {
        let total = sizes.total();
        let sorted = Order { keys: cutter.words(total), indices: cutter.words(total) };
        let spare = Order { keys: cutter.words(total), indices: cutter.words(total) };
        let from = match sizes {
            Sizes { old: 0, .. } => batch,
            Sizes { removes: true, .. } => cutter.words(total),
            _ => sorted.keys,
        };
        let values = if size_of::<V>() <= size_of::<K>() {
            // SAFETY: as many words, no larger than the keys. Nothing reads the sorted keys after the values
            // are gathered.
            unsafe { GlobalSlice::from_raw_parts(sorted.keys.as_ptr().cast(), total) }
        } else {
            cutter.words(total)
        };
        let before = cutter.words(if sizes.asks { sizes.new } else { 0 });
        let (old, handles) = (cutter.words(sizes.old), cutter.words(sizes.handles));
        Self { sorted, spare, from, old, values, before, handles }
    }
}

/// A batch that a tree executes by a rebuild. All slices live until the end of the call that executes it,
/// which waits for the stream.
pub(super) struct Rebuild<'a, K: Word, V: Word> {
    pub tree: &'a Tree<K, V>,
    pub stream: &'a Stream,
    pub memory: &'a mut Memory,
    pub analyzer: &'a Analyzer<K, V>,
    work: &'a mut Workspace,
    batch: &'a Batch<K, V>,
    keys: GlobalSlice<K>,
    effect: RunEffect,
    pub analysis: Analysis,
}

/// Pairs in key order.
pub(super) type Sorted<K, V> = (GlobalSlice<K>, GlobalSlice<V>);

impl<K: Word, V: Word> Rebuild<'_, K, V> {
    /// Executes the batch. Returns `false` if the pairs do not fit; the tree is then unchanged, as it is on
    /// error.
    fn run(&mut self) -> Result<bool> {
        if self.effect.removes && self.analysis.is_above {
            return self.finish();
        }
        if self.attempt()? {
            return Ok(true);
        }
        if self.analysis.live == 0 || !self.analysis.is_above || !self.analysis.pays_merge(self.keys.len()) {
            return Ok(false);
        }
        // The pairs cannot be appended.
        self.analysis.is_above = false;
        self.attempt()
    }

    fn attempt(&mut self) -> Result<bool> {
        let is_in_order = self.analysis.is_above && self.analysis.order != KeyOrder::Mixed;
        if is_in_order { self.put_in_order() } else { self.merge() }
    }

    /// Gives all elements the outcome of one that begins a run.
    fn finish(&self) -> Result<bool> {
        // SAFETY: the call waits for the stream.
        unsafe {
            self.stream.fill(self.batch.outcomes, self.effect.marks.begins as u8)?;
            self.stream.fill(self.batch.results, 0)?;
        }
        Ok(true)
    }

    /// Puts keys into the tree that are above its keys, and in order, ascending or descending.
    fn put_in_order(&mut self) -> Result<bool> {
        let (mut keys, mut values) = (self.keys, self.batch.arguments);
        let (falls, many) = (self.analysis.order == KeyOrder::Descending, self.handles()?);
        let len = if falls { keys.len() } else { 0 };
        let cut = |cutter: &mut Cutter| (cutter.words(len), cutter.words(len), cutter.words(many));
        let (up, moved, handles) = self.work.keep(0, cut)?;
        if falls {
            // SAFETY: pieces of this length. The call waits for the stream.
            unsafe {
                self.work.reverse(keys, up)?;
                self.work.reverse(values, moved)?;
            }
            (keys, values) = (up, moved);
        }
        if self.put((keys, values), self.analysis.has_largest, handles)? { self.finish() } else { Ok(false) }
    }

    /// Returns the number of handles that an append needs at most, if the batch may be appended.
    fn handles(&self) -> Result<usize> {
        let appends = self.analysis.is_above && self.analysis.live > 0;
        let most = nodes(self.keys.len() as u64, self.tree.pairs_at(USUAL_FILL)?) as usize + 1;
        Ok(if appends { most } else { 0 })
    }

    /// Puts pairs into the tree: appends them to its pairs, or replaces these. `has_largest` says whether the
    /// last key is the largest of all.
    fn put(&mut self, pairs: Sorted<K, V>, has_largest: bool, handles: GlobalSlice<u32>) -> Result<bool> {
        if self.analysis.live > 0 && self.analysis.is_above {
            self.append(pairs, has_largest, handles)
        } else {
            self.replace(pairs, has_largest)
        }
    }

    /// Merges the batch with the tree's pairs, or with none if it is above them.
    fn merge(&mut self) -> Result<bool> {
        let (removes, asks) = (self.effect.removes, !self.batch.results.is_empty());
        let old = if self.analysis.is_above { 0 } else { self.analysis.live };
        let sizes = Sizes { old, new: self.keys.len(), removes, asks, handles: self.handles()? };
        let keys = self.keys;
        let pieces = self
            .work
            .keep(step_bytes::<K>(sizes.total()), |cutter| Pieces::<K, V>::cut(cutter, sizes, keys))?;
        let done = self.merge_in(sizes, pieces);
        if !matches!(done, Ok(true)) {
            // SAFETY: the call waits for the stream.
            unsafe { self.stream.fill(self.batch.outcomes, Outcome::Refused as u8)? };
        }
        done
    }

    fn merge_in(&mut self, sizes: Sizes, pieces: Pieces<K, V>) -> Result<bool> {
        let numbers = self.analyzer.numbers();
        // SAFETY: the pieces have the lengths that the steps need, and the call waits for the stream.
        unsafe {
            self.stream.fill(numbers.steps, 0)?;
            self.collect(sizes, pieces, numbers)?;
            self.work.sort_with_indices(pieces.from, pieces.sorted, pieces.spare)?;
            self.write_results(sizes, pieces)?;
            self.reduce(pieces, numbers)?;
        }
        let [exported, runs, kept] = self.analyzer.read_steps()?;
        let count = if sizes.removes { kept } else { runs };
        if exported != sizes.old {
            // Kernels of the user have changed pairs without counting them.
            return Ok(false);
        }
        // SAFETY: as above.
        let pairs = unsafe { self.gather(sizes, pieces, count)? };
        let Analysis { has_largest, tree_has_largest, .. } = self.analysis;
        let largest =
            if sizes.removes { tree_has_largest && !has_largest } else { tree_has_largest || has_largest };
        self.put(pairs, largest, pieces.handles)
    }

    /// Exports the tree's pairs, and appends the keys of the batch.
    ///
    /// # Safety
    /// - The pieces are those of `sizes`, and live until the stream has executed the steps.
    unsafe fn collect(&self, sizes: Sizes, pieces: Pieces<K, V>, numbers: Numbers) -> Result<()> {
        if sizes.old == 0 {
            return Ok(());
        }
        let (kernels, tree) = (self.tree.handle.kernels(), self.memory.now());
        let (from, values) = (pieces.from, pieces.old);
        let (keys, count) = (from.part(0, sizes.old), numbers.steps.part(0, 1));
        let threads = kernels.scan_threads(tree).next_multiple_of(32);
        let scan = Scan::Export { first: 0, threads, keys, values, count };
        // SAFETY: the caller's obligation; nothing else runs on the tree.
        unsafe {
            kernels.launch_scan(self.stream, tree, scan)?;
            self.work.copy(self.keys, from.part(sizes.old, sizes.new))
        }
    }

    /// Writes the outcomes of the batch, and the old values if it asks for them.
    ///
    /// # Safety
    /// - As for [`Self::collect`].
    unsafe fn write_results(&self, sizes: Sizes, pieces: Pieces<K, V>) -> Result<()> {
        let Batch { arguments, results, outcomes, .. } = *self.batch;
        let (first, end) = (sizes.old as u32, (sizes.old + arguments.len()) as u32);
        // SAFETY: the caller's obligation. The batch's slices have an element per key unless they are empty;
        // indices are below `end`, the number of values.
        unsafe {
            self.work.mark_runs(pieces.sorted, (first, end), self.effect.marks, (outcomes, pieces.before))?;
            if sizes.asks && end > 0 {
                self.work.gather((pieces.old, arguments), pieces.before, results)?;
            }
        }
        Ok(())
    }

    /// Reduces each run to one index, and counts the pairs to keep.
    ///
    /// # Safety
    /// - As for [`Self::collect`].
    unsafe fn reduce(&self, pieces: Pieces<K, V>, numbers: Numbers) -> Result<()> {
        let count = |step: usize| low_word(numbers.steps.part(step, 1));
        let Pieces { sorted, spare, .. } = pieces;
        // SAFETY: the caller's obligation. Indices behind those of the runs are not less than any number.
        unsafe {
            if self.effect.removes {
                self.stream.fill(spare.indices, 0xff)?;
            }
            self.work.reduce_runs(self.effect.keeps, sorted, spare, count(1))?;
            if self.effect.removes {
                let limit = low_word(numbers.live);
                self.work.select_less(spare.indices, limit, sorted.indices, count(2))?;
            }
        }
        Ok(())
    }

    /// Returns the `count` pairs to keep, in key order.
    ///
    /// # Safety
    /// - As for [`Self::collect`].
    unsafe fn gather(&self, sizes: Sizes, pieces: Pieces<K, V>, count: usize) -> Result<Sorted<K, V>> {
        let Pieces { sorted, spare, from, old, values, .. } = pieces;
        let (keys, values) = (spare.keys.part(0, count), values.part(0, count));
        // SAFETY: the caller's obligation. All indices are of existing elements.
        unsafe {
            if sizes.removes {
                let chosen = sorted.indices.part(0, count);
                self.work.gather((from, nothing()), chosen, keys)?;
                self.work.gather((old, nothing()), chosen, values)?;
            } else {
                self.work.gather((old, self.batch.arguments), spare.indices.part(0, count), values)?;
            }
        }
        Ok((keys, values))
    }

    /// Replaces the tree's pairs, if they fit.
    fn replace(&mut self, (keys, values): Sorted<K, V>, has_largest: bool) -> Result<bool> {
        let (tree, fill) = (self.tree, self.tree.pairs_at(USUAL_FILL)?);
        let count = keys.len() as u64 - u64::from(has_largest);
        if !tree.grows() && nodes(count, fill) as usize > self.memory.pool.capacity() {
            return Ok(false);
        }
        let found = (count, self.analysis.is_new);
        tree.replace_nodes(self.stream, self.memory, (keys, values), found, fill)?;
        Ok(true)
    }
}

/// Returns the low half of a word.
fn low_word(word: GlobalSlice<u64>) -> GlobalSlice<u32> {
    // SAFETY: a half of the word. Hosts of CUDA devices, and the devices, are little-endian.
    unsafe { GlobalSlice::from_raw_parts(word.as_ptr().cast(), 1) }
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Executes a batch with these keys by a rebuild, if that pays, nothing prevents it and there is memory.
    /// Waits. Returns whether it was executed; if not, the tree is unchanged.
    pub fn rebuild_if_it_pays(
        &self,
        batch: &Batch<K, V>,
        keys: GlobalSlice<K>,
        effect: RunEffect,
    ) -> Result<bool> {
        self.thaw()?;
        let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
        self.handle.exclusive(|stream, memory| {
            memory.sweep_if_due(self.handle.kernels(), stream)?;
            if memory.is_remembered() || memory.pool.has_tiers() || self.is_viewed() {
                return Ok(false);
            }
            let mut rebuilds = self.rebuilds();
            let RebuildMemory { analyzer, work } = rebuilds.kept(&self.handle.device)?;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended. The caller keeps the
            // keys.
            let analysis = unsafe { analyzer.of(self, memory, work, keys)? };
            if !analysis.pays(keys.len()) || analysis.live + keys.len() > MOST {
                return Ok(false);
            }
            let mut rebuild =
                Rebuild { tree: self, stream, memory, analyzer, work, batch, keys, effect, analysis };
            let done = rebuild.run();
            rebuilds.count += u64::from(matches!(done, Ok(true)));
            if rebuilds.memory_usage() > MOST_KEPT * memory.pool.memory_usage() {
                rebuilds.shrink(0);
            }
            done
        })
    }
}

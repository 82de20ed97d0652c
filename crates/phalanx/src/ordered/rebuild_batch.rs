//! Large batches, executed by building the tree anew from its pairs and those of the batch.
//!
//! Single insertions or removals of neighbouring keys compete for the latch of one leaf, and even random keys
//! cost a descent each. A sort and a bulk build run at the speed of memory. So a batch that is not small
//! beside the tree is merged with it:
//!
//! ```text
//! keys:  those of the tree, then those of the batch      index: 0, 1, 2, ...
//! sort by key, stable                                    in a run of equal keys, the tree's pair is first
//! mark the elements of the batch                         outcomes; old values
//! reduce each run to one index                           insert: the last, insert_new: the first one;
//!                                                        remove: the tree's, if its run has no other
//! gather the pairs, build the tree
//! ```
//!
//! The outcomes are those of a serial execution in the order of the batch.
use super::bulk_build::{Runs, USUAL_FILL};
use super::memory::Memory;
use super::tree::Tree;
use crate::error::made_room;
use crate::map::encoding::Word;
use crate::map::export::Columns;
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::structure::Structure;
use crate::primitives::{Bits, Fold, Test, Workspace, compact_bytes, runs_bytes, sort_bytes};
use crate::{Outcome, Result};
use gpu::{Buffer, Stream};
use phalanx_kernels::ordered::nodes;
use phalanx_kernels::primitives::runs::Marks;
use phalanx_kernels::primitives::sort::MOST;
use simt::GlobalSlice;
use std::sync::PoisonError;

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

/// Pairs of a tree, then the elements of a batch; and the indices of all of them in the order of their keys.
struct Merged<K: Word, V: Word> {
    work: Workspace,
    old: Columns<K, V>,
    new: (GlobalSlice<K>, GlobalSlice<V>),
    sorted: Buffer<K>,
    order: Buffer<u32>,
}

impl<K: Word, V: Word> Merged<K, V> {
    /// Sorts the pairs.
    ///
    /// # Safety
    /// - The slices live as long as the returned value.
    unsafe fn new(
        stream: &Stream,
        old: Columns<K, V>,
        new: (GlobalSlice<K>, GlobalSlice<V>),
    ) -> Result<Self> {
        let (device, total) = (stream.device(), old.0.len() + new.0.len());
        let bytes = sort_bytes::<K, u32>(total).max(runs_bytes(total)).max(compact_bytes(total));
        let mut work = Workspace::new(stream, bytes)?;
        let (mut sorted, mut order) = (device.buffer(total)?, device.buffer(total)?);
        work.count_up(&mut order)?;
        // SAFETY: the caller's obligation; buffers wait for launches when they are dropped. The order has
        // each index below the total once.
        unsafe { work.gather((old.0.global(), new.0), order.global(), sorted.global())? };
        work.sort_pairs_in_place(&mut sorted, &mut order, Bits::ALL)?;
        Ok(Self { work, old, new, sorted, order })
    }

    /// Writes the outcomes of a batch whose elements these are, and the old values if it asks for them.
    fn write_results(&self, batch: &Batch<K, V>, marks: Marks) -> Result<()> {
        let first = self.old.0.len();
        let end = (first + self.new.1.len()) as u32;
        let asks = !batch.results.is_empty() && end > 0;
        let before = self.work.stream().device().buffer(if asks { self.new.0.len() } else { 0 })?;
        let (pairs, to) = ((&self.sorted, &self.order), (batch.outcomes, before.global()));
        // SAFETY: `new`'s caller keeps the batch's slices, which have an element per key unless they are
        // empty. The indices are below `end`, the number of values.
        unsafe {
            self.work.mark_runs(pairs, (first as u32, end), marks, to)?;
            if asks {
                let values = (self.old.1.global(), self.new.1);
                self.work.gather(values, before.global(), batch.results)?;
            }
        }
        Ok(())
    }

    /// Returns the pairs that an operation keeps.
    fn kept(&mut self, effect: RunEffect) -> Result<Runs<K, V>> {
        let (device, total) = (self.old.0.device().clone(), self.order.len());
        let (mut keys, mut chosen) = (device.buffer(total)?, device.buffer(total)?);
        let mut number = device.buffer::<u32>(1)?;
        let pairs = (&self.sorted, &self.order);
        self.work.reduce_by_key(effect.keeps, pairs, (&mut keys, &mut chosen), &mut number)?;
        let mut count = number.read()?[0] as usize;
        if effect.removes {
            (chosen, count) = self.untouched(&chosen, count)?;
            // SAFETY: the tree's pairs and these buffers wait for the launch when they are dropped.
            unsafe { self.gather_to((self.old.0.global(), nothing()), &chosen, count, &keys)? };
        }
        let values = device.buffer(count)?;
        // SAFETY: as above; `new`'s caller keeps the batch's values.
        unsafe { self.gather_to((self.old.1.global(), self.new.1), &chosen, count, &values)? };
        Ok(Runs { keys, values, count })
    }

    /// Returns those of the first `count` indices that are of the tree's pairs, and their number.
    fn untouched(&mut self, chosen: &Buffer<u32>, count: usize) -> Result<(Buffer<u32>, usize)> {
        let device = chosen.device();
        let first = device.from_slice(&[self.old.0.len() as u32])?;
        let (mut kept, mut number) = (device.buffer(count)?, device.buffer::<u32>(1)?);
        self.work.compact(chosen.slice(..count)?, Test::Less((&first).into()), &mut kept, &mut number)?;
        let count = number.read()?[0] as usize;
        Ok((kept, count))
    }

    /// Gathers the elements with the first `count` indices.
    ///
    /// # Safety
    /// - As for [`Workspace::gather`].
    unsafe fn gather_to<T: Word>(
        &self,
        from: (GlobalSlice<T>, GlobalSlice<T>),
        indices: &Buffer<u32>,
        count: usize,
        to: &Buffer<T>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the caller's obligations.
        unsafe { self.work.gather(from, indices.global().part(0, count), to.global()) }
    }
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Executes a batch with these keys by a rebuild, if nothing prevents it and there is memory. Waits.
    /// Returns whether it was executed; if not, the tree is unchanged.
    pub fn rebuild_with(&self, batch: &Batch<K, V>, keys: GlobalSlice<K>, effect: RunEffect) -> Result<bool> {
        self.thaw()?;
        let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
        made_room(self.handle.exclusive(|stream, memory| {
            memory.sweep_if_due(self.handle.kernels(), stream)?;
            if memory.is_remembered() || memory.pool.has_tiers() || self.is_viewed() {
                return Ok(false);
            }
            let old = self.export_alone(stream, memory, memory.counts()?.live)?;
            if old.0.len() + keys.len() > MOST {
                return Ok(false);
            }
            // SAFETY: this call waits for the stream before it returns, and the batch's slices live longer.
            let merged = unsafe { Merged::new(stream, old, (keys, batch.arguments))? };
            self.replace_by(stream, memory, batch, (merged, effect))
        }))
    }

    /// Writes the results of a batch and replaces the tree by the pairs that its operation keeps, if they
    /// fit. Otherwise, all elements are marked as refused.
    fn replace_by(
        &self,
        stream: &Stream,
        memory: &mut Memory,
        batch: &Batch<K, V>,
        (mut merged, effect): (Merged<K, V>, RunEffect),
    ) -> Result<bool> {
        let Runs { keys, values, count } = merged.kept(effect)?;
        let fill = self.pairs_at(USUAL_FILL)?;
        if !self.grows() && nodes(count as u64, fill) as usize > memory.pool.capacity() {
            return Ok(false);
        }
        let pairs = (keys.global().part(0, count), values.global());
        let done = merged
            .write_results(batch, effect.marks)
            .and_then(|()| self.rebuild_from_sorted_in(stream, memory, pairs, fill));
        if done.is_err() {
            merged.write_results(&Batch { results: nothing(), ..*batch }, marks([Outcome::Refused; 3]))?;
        }
        done.map(|()| true)
    }
}

//! Large batches whose keys are above all keys of a tree: their pairs are appended, at a cost that does not
//! depend on the size of the tree. `phalanx_kernels::ordered` has the picture.
use super::analysis::Numbers;
use super::bulk_build::USUAL_FILL;
use super::kernels::Task;
use super::rebuild_batch::{Rebuild, Sorted};
use crate::Result;
use crate::error::or_later;
use crate::map::encoding::Word;
use crate::map::structure::Structure as _;
use phalanx_kernels::ordered::AppendPlan;
use simt::GlobalSlice;

impl<K: Word, V: Word> Rebuild<'_, K, V> {
    /// Appends sorted distinct pairs, of which the last one may have the largest key of all. Uses `handles`.
    /// Returns `false` if that is impossible; the tree is then unchanged.
    pub(super) fn append(
        &mut self,
        pairs: Sorted<K, V>,
        has_largest: bool,
        handles: GlobalSlice<u32>,
    ) -> Result<bool> {
        let count = pairs.0.len() as u64 - u64::from(has_largest);
        let Some(plan) = self.plan(count)? else { return Ok(false) };
        let handles = handles.part(0, plan.nodes as usize);
        Ok(self.try_append(pairs, handles, plan)?
            || (self.grow(plan.nodes as usize)? && self.try_append(pairs, handles, plan)?))
    }

    /// Returns the dimensions of an append, if the new keys are above all bounds of the last nodes.
    fn plan(&self, count: u64) -> Result<Option<AppendPlan>> {
        let (fill, slots) = (self.tree.pairs_at(USUAL_FILL)?, self.tree.handle.kernels().shape().slots);
        let (root, bound, levels) =
            (self.analysis.spine[0], self.analysis.spine[1], &self.analysis.spine[2..]);
        if count == 0 || root == u64::MAX || bound >= self.analysis.least {
            return Ok(None);
        }
        let used = |level: u32| (levels[level as usize] >> 32) as u32;
        Ok(AppendPlan::new(count, fill, slots, root as u32, used))
    }

    /// Appends the pairs unless slabs are missing. Waits.
    fn try_append(
        &mut self,
        (keys, values): Sorted<K, V>,
        handles: GlobalSlice<u32>,
        plan: AppendPlan,
    ) -> Result<bool> {
        let (kernels, Numbers { steps, spine, .. }) = (self.tree.handle.kernels(), self.analyzer.numbers());
        let (missing, seed) = (steps.part(0, 1), self.memory.generation as u32 ^ self.analysis.live as u32);
        // Before anything is allocated, since that may fail for lack of memory.
        kernels.prepare_append(self.stream.device())?;
        let append = Task::Append { keys, values, handles, spine, missing, plan };
        // SAFETY: nothing else runs on the tree, and the call waits for the stream. All keys are above the
        // tree's, whose spine this is, and there is a handle for each new node.
        unsafe {
            self.stream.fill(missing, 0)?;
            kernels.launch_task(self.stream, self.memory.now(), Task::Claim { seed, handles, missing })?;
            kernels.launch_task(self.stream, self.memory.now(), append)?;
        }
        let [missing, ..] = self.analyzer.read_steps()?;
        if missing == 0 {
            self.memory.directory.forgotten((self.analysis.live + keys.len()) as u64);
        }
        Ok(missing == 0)
    }

    /// Grows the pool for at least `needed` nodes, if the policy allows and there is memory. Handles stay
    /// valid.
    fn grow(&mut self, needed: usize) -> Result<bool> {
        let wanted = needed.max(self.memory.pool.capacity() / 2);
        if !self.tree.grows() || !self.memory.pool.grow_if_possible(wanted, needed)? {
            return Ok(false);
        }
        self.memory.generation += 1;
        or_later(self.tree.fit_directory(self.memory))?;
        Ok(true)
    }
}

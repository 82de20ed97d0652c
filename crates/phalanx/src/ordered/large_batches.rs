//! The decision which batches rebuild a tree or are appended to it: a policy of the builder, the size of
//! batch and tree, and the order of the batch.
use super::analysis::{Analysis, Neighbours};
use super::rebuild_batch::RunEffect;
use super::tree::Tree;
use crate::Result;
use crate::error::made_room;
use crate::map::encoding::Word;
use crate::map::host::LEAST_CHUNK;
use crate::map::launch::{Batch, BatchOp};
use crate::map::structure::HostKeys;

/// How a B-tree or skip list executes large batches of `insert`, `insert_new`, `replace`, `remove` and
/// `take`.
///
/// A *rebuild* sorts a batch together with all pairs and builds all nodes anew. Its time depends on the
/// number of pairs, but not on the order of the keys, while tiles that insert or remove neighbouring keys
/// wait for each other. A batch whose keys are above all others is *appended* instead: new nodes are built
/// for it alone. Outcomes are those of a serial execution in the order of the batch. Meanwhile all other
/// calls on the tree wait.
///
/// A batch is executed element by element, whatever the policy is, if a rebuild would not be faster or lacks
/// temporary memory, if the pairs would not fit, if a snapshot is alive, if nodes have several memory tiers,
/// or if the variant sorts batches itself. The same holds after a call of `view`, until `clear`, `compact` or
/// `bulk_build`, since kernels may use the view. The pages of `docs/structures` have the conditions and
/// costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LargeBatches {
    /// No batch rebuilds the tree.
    Concurrent,
    /// Batches of blocking calls rebuild the tree if that is faster. Batches on device buffers do not.
    #[default]
    RebuildIfBlocking,
    /// Batches on device buffers rebuild the tree, too, if that is faster. The call then waits for the
    /// device, and returns after the rebuild. It may also grow the pool, as blocking calls do.
    Rebuild,
}

/// Smallest batch in any order for which the tree is rebuilt. A rebuild is about twenty launches; smaller
/// batches take less time.
const LEAST: usize = 1 << 14;

/// Largest number of pairs of a tree, as a multiple of the batch's length, that batches in any order
/// rebuild. Single insertions run at 350 to 2 000 M/s. A rebuild reads and writes each pair about ten times,
/// so it must not process many more pairs than the batch has. Single removals run at 3 000 to 4 000 M/s.
const MOST_PAIRS: u64 = 1;

/// Smallest crowded batch for which the tree is rebuilt: see [`Analysis::is_crowded`]. Key by key, it takes
/// 0.1 to 3 ms, as a rebuild of the largest tree that it may rebuild does. Also the smallest batch that is
/// appended.
const LEAST_CROWDED: usize = 1 << 11;

/// Largest number of pairs of a tree, as a multiple of the batch's length, that a crowded batch rebuilds.
/// Tiles that insert neighbouring keys reach 1 to 30 M/s, a hundredth of the speed of a rebuild.
const MOST_PAIRS_CROWDED: u64 = 128;

/// Returns whether a tree of `pairs` pairs is small enough for a batch of `len` elements in any order.
fn pays_in_any_order(len: usize, pairs: u64) -> bool {
    len >= LEAST && pairs <= MOST_PAIRS.saturating_mul(len as u64)
}

/// Returns whether a tree of `pairs` pairs is small enough for a crowded batch of `len` elements.
fn pays_if_crowded(len: usize, pairs: u64) -> bool {
    len >= LEAST_CROWDED && pairs <= MOST_PAIRS_CROWDED.saturating_mul(len as u64)
}

impl Analysis {
    /// Returns whether a rebuild of the tree, or an append to it, is probably faster than single
    /// operations of a batch of `len` elements.
    pub fn pays(&self, len: usize) -> bool {
        (self.is_above && len >= LEAST_CROWDED) || self.pays_merge(len)
    }

    /// Returns whether a rebuild is probably faster.
    pub fn pays_merge(&self, len: usize) -> bool {
        let pairs = self.live as u64;
        pays_in_any_order(len, pairs) || (self.is_crowded && pays_if_crowded(len, pairs))
    }
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Returns whether a rebuild or an append may pay, from what the host knows. `keys` are those of a
    /// blocking call.
    fn may_pay(&self, len: usize, keys: Option<&HostKeys<'_, K>>) -> bool {
        let pairs = self.handle.read().directory.estimated_pairs();
        let may_be_near = || keys.is_none_or(|keys| Neighbours::of_host(keys).are_near());
        pays_in_any_order(len, pairs) || (len >= LEAST_CROWDED && may_be_near())
    }

    /// Returns whether all elements of a blocking call's batch must be on the device at once: a rebuild may
    /// pay, or passes over the whole batch insert its elements in an order that avoids contention.
    pub fn may_rebuild(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> bool {
        let is_allowed = self.large_batches != LargeBatches::Concurrent && RunEffect::of(op).is_some();
        op.writes() && (keys.len > LEAST_CHUNK || (is_allowed && self.may_pay(keys.len, Some(keys))))
    }

    /// Executes a batch by a rebuild, if the policy allows that and it pays. `host` has the keys of the batch
    /// of a blocking call. Returns whether the batch was executed.
    pub fn rebuild_for(&self, batch: &Batch<K, V>, host: Option<&HostKeys<'_, K>>) -> Result<bool> {
        let is_allowed = match self.large_batches {
            LargeBatches::Concurrent => false,
            LargeBatches::RebuildIfBlocking => host.is_some(),
            LargeBatches::Rebuild => true,
        };
        match (RunEffect::of(batch.op), batch.keys.unbounded()) {
            (Some(effect), Some(keys))
                if is_allowed && !self.sorts_batches() && self.may_pay(keys.len(), host) =>
            {
                made_room(self.rebuild_if_it_pays(batch, keys, effect))
            }
            _ => Ok(false),
        }
    }
}

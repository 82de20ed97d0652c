//! The decision which batches rebuild a tree: a policy of the builder, the size of batch and tree, and the
//! order of the batch.
use super::kernels::Search;
use super::rebuild_batch::RunEffect;
use super::tree::Tree;
use crate::Result;
use crate::error::made_room;
use crate::map::encoding::Word;
use crate::map::host::LEAST_CHUNK;
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::structure::HostKeys;
use crate::primitives::Workspace;
use gpu::Stream;
use simt::GlobalSlice;

/// How a B-tree or skip list executes large batches of `insert`, `insert_new`, `replace`, `remove` and
/// `take`.
///
/// A *rebuild* sorts a batch together with all pairs and builds all nodes anew. Its time depends on the
/// number of pairs, but not on the order of the keys, while tiles that insert or remove neighbouring keys
/// wait for each other. Outcomes are those of a serial execution in the order of the batch. While a rebuild
/// runs, all other calls on the tree wait.
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

/// Largest number of pairs of a tree, as a multiple of the batch's length, that insertions in any order
/// rebuild. Single insertions run at 350 to 2 000 M/s. A rebuild reads and writes each pair about ten times,
/// so it must not process many more pairs than the batch has. Single removals in random order are faster than
/// a rebuild.
const MOST_PAIRS: u64 = 1;

/// Smallest crowded batch for which the tree is rebuilt: see [`Tree::is_crowded`]. Key by key, it takes 0.1
/// to 3 ms, as a rebuild of the largest tree that it may rebuild does.
const LEAST_CROWDED: usize = 1 << 11;

/// Largest number of pairs of a tree, as a multiple of the batch's length, that a crowded batch rebuilds.
/// Tiles that insert neighbouring keys reach 1 to 30 M/s, a hundredth of the speed of a rebuild.
const MOST_PAIRS_CROWDED: u64 = 128;

/// Number of places of a batch that are examined.
const SAMPLES: usize = 64;

/// Distance of the two elements at a place: the next but one, so that two runs of keys that alternate, or
/// alternate from both ends, count as ordered.
const DISTANCE: usize = 2;

/// Fraction of the range of a batch's keys within which the two elements at most places lie, if the batch is
/// ordered. Of keys in random order, two elements lie within a 32nd at one place in sixteen.
const NEAR: u64 = 32;

/// Number of the tree's pairs between the two elements at a place below which they usually share a leaf,
/// which has about ten pairs.
const SHARED: u32 = 8;

/// Keys of the two elements at each of [`SAMPLES`] places of a batch, the lower one and the higher one.
struct Neighbours<K> {
    lows: Vec<K>,
    highs: Vec<K>,
}

impl<K: Word> Neighbours<K> {
    /// Returns the indices of the elements in a batch of `len` elements, two for each place.
    fn indices(len: usize) -> impl Iterator<Item = usize> {
        let last = len.saturating_sub(1 + DISTANCE);
        (0..SAMPLES)
            .map(move |place| place * last / (SAMPLES - 1))
            .flat_map(|index| [index, index + DISTANCE])
    }

    /// Returns the neighbours among keys, which are on the device, and in a blocking call also on the host.
    fn of(stream: &Stream, keys: GlobalSlice<K>, host: Option<&HostKeys<'_, K>>) -> Result<Self> {
        if let Some(host) = host {
            return Ok(Self::of_host(host));
        }
        let indices = Self::indices(keys.len());
        let order = stream.device().from_slice(&indices.map(|index| index as u32).collect::<Vec<_>>())?;
        let found = stream.device().buffer(order.len())?;
        // SAFETY: the read below waits for the launch, and the caller keeps the keys. The indices are below
        // their number.
        unsafe { Workspace::new(stream, 0)?.gather((keys, nothing()), order.global(), found.global())? };
        Ok(Self::sorted(&found.read()?))
    }

    /// Returns the neighbours among keys on the host.
    fn of_host(keys: &HostKeys<'_, K>) -> Self {
        Self::sorted(&Self::indices(keys.len).map(keys.at).collect::<Vec<_>>())
    }

    /// Returns the neighbours of which `keys` has two for each place.
    fn sorted(keys: &[K]) -> Self {
        let ends = |pair: &[K]| (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let (lows, highs) = keys.chunks_exact(2).map(ends).unzip();
        Self { lows, highs }
    }

    /// Returns whether neighbours are near each other, compared with the range of all of them.
    fn are_near(&self) -> bool {
        let number = |key: Option<&K>| key.map_or(0, |key| key.to_u64());
        let distance = |(low, high): (&K, &K)| high.to_u64() - low.to_u64();
        let mut distances: Vec<u64> = self.lows.iter().zip(&self.highs).map(distance).collect();
        distances.sort_unstable();
        distances[SAMPLES / 2] <= (number(self.highs.iter().max()) - number(self.lows.iter().min())) / NEAR
    }
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Returns whether all elements of a blocking call's batch must be on the device at once: a rebuild may
    /// pay, or passes over the whole batch insert its elements in an order that avoids contention.
    pub fn may_rebuild(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> bool {
        let pairs = self.handle.read().directory.estimated_pairs();
        let pays =
            |least: usize, times: u64| keys.len >= least && pairs <= times.saturating_mul(keys.len as u64);
        let may_pay = || {
            pays(LEAST, MOST_PAIRS)
                || (pays(LEAST_CROWDED, MOST_PAIRS_CROWDED) && Neighbours::of_host(keys).are_near())
        };
        let is_allowed = self.large_batches != LargeBatches::Concurrent && RunEffect::of(op).is_some();
        op.writes() && (keys.len > LEAST_CHUNK || (is_allowed && may_pay()))
    }

    /// Executes a batch by a rebuild, if the policy allows that and it pays. `host` has the keys of the batch
    /// of a blocking call. Returns whether the batch was executed.
    pub fn rebuild_for(
        &self,
        stream: &Stream,
        batch: &Batch<K, V>,
        host: Option<&HostKeys<'_, K>>,
    ) -> Result<bool> {
        let is_allowed = match self.large_batches {
            LargeBatches::Concurrent => false,
            LargeBatches::RebuildIfBlocking => host.is_some(),
            LargeBatches::Rebuild => true,
        };
        match (RunEffect::of(batch.op), batch.keys.unbounded()) {
            (Some(effect), Some(keys)) if is_allowed && !self.sorts_batches() => {
                let pays = made_room(self.pays_rebuild(stream, (batch.op, keys), host))?;
                if pays { self.rebuild_with(batch, keys, effect) } else { Ok(false) }
            }
            _ => Ok(false),
        }
    }

    /// Returns whether a rebuild is probably faster than single operations.
    fn pays_rebuild(
        &self,
        stream: &Stream,
        (op, keys): (BatchOp, GlobalSlice<K>),
        host: Option<&HostKeys<'_, K>>,
    ) -> Result<bool> {
        let (len, pairs) = (keys.len(), self.handle.read().directory.estimated_pairs());
        let most = |times: u64| times.saturating_mul(len as u64);
        let removes = matches!(op, BatchOp::Remove | BatchOp::Take);
        if len >= LEAST && pairs <= most(MOST_PAIRS) && !removes {
            return Ok(true);
        }
        Ok(len >= LEAST_CROWDED
            && pairs <= most(MOST_PAIRS_CROWDED)
            && self.is_crowded(stream, &Neighbours::of(stream, keys, host)?)?)
    }

    /// Returns whether a batch is crowded: most elements have a neighbour in the batch that is near by key,
    /// and probably in the same leaf. Tiles that run at the same time would compete for the latches of few
    /// leaves.
    fn is_crowded(&self, stream: &Stream, neighbours: &Neighbours<K>) -> Result<bool> {
        if !neighbours.are_near() {
            return Ok(false);
        }
        let (device, len) = (&self.handle.device, SAMPLES * SHARED as usize);
        let (lows, highs) = (device.from_slice(&neighbours.lows)?, device.from_slice(&neighbours.highs)?);
        let (keys, values, counts) = (device.buffer(len)?, device.buffer(len)?, device.buffer(SAMPLES)?);
        let search = Search::Range {
            lows: lows.global().into(),
            highs: highs.global(),
            offsets: nothing(),
            room: SHARED,
            keys: keys.global(),
            values: values.global(),
            counts: counts.global(),
        };
        self.search(stream, search)?;
        let apart = counts.read()?.into_iter().filter(|&count| count >= u64::from(SHARED)).count();
        Ok(apart <= SAMPLES / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether neighbours in a batch of `len` keys are near each other.
    fn is_ordered(len: usize, key: impl Fn(usize) -> u64) -> bool {
        Neighbours::sorted(&Neighbours::<u64>::indices(len).map(key).collect::<Vec<_>>()).are_near()
    }

    #[test]
    fn orders_are_recognized() {
        const LEN: usize = 1 << 12;
        let orders: [fn(usize) -> u64; 7] = [
            |n| n as u64,
            |n| u64::MAX - n as u64,
            |_| 7,
            |n| (n / 2 + n % 2 * 1_000_000) as u64, // two runs that alternate
            |n| if n % 2 == 0 { n as u64 } else { (LEN - n) as u64 }, // from both ends
            |n| (n % 256 * 1_000_000 + n / 256) as u64 / 1_000_000 % 256 + (n / 256 * 10_000) as u64, // 16 runs
            |n| if n % 50 == 0 { simt::hash::mix64(n as u64) % LEN as u64 } else { n as u64 }, // nearly sorted
        ];
        for (number, order) in orders.into_iter().enumerate() {
            assert!(is_ordered(LEN, order), "{number}");
        }
        for bits in [0, 32, 50] {
            assert!(!is_ordered(LEN, |n| simt::hash::mix64(n as u64) >> bits), "{bits}");
        }
    }

    #[test]
    fn the_first_and_the_last_element_are_examined() {
        for len in [3, 64, 1000, 1 << 30] {
            let indices: Vec<usize> = Neighbours::<u32>::indices(len).collect();
            assert_eq!((indices.len(), indices[0], indices[127]), (2 * SAMPLES, 0, len - 1));
        }
    }
}

//! Benchmarks of `phalanx::MultiVersionBTree`, with batches on device buffers.
//!
//! | param | of | what |
//! |---|---|---|
//! | `mode` | all | how updates save the previous contents: `in_place` (default) or `out_of_place`; default variant only |
//! | `range_results` | `range`, `insert_range` | pairs in each range, default 16 |
//! | `update_ratio` | `find_remove`, `insert_range` | fraction of updates among the operations |
//! | `initial_n` | `find_remove`, `insert_range` | number of initial pairs |
//! | `batch` | `soak` | pairs per launch |
//!
//! `find_snapshot` looks up all keys in a snapshot. After the snapshot was taken, all values were replaced
//! and half of the keys removed.
use super::both_widths::{BothWidths, DEFAULT, usual};
use super::concurrent_mix::{FIND_REMOVE, INSERT_RANGE, InsertRange, Stays, as_mix};
use super::driver::{self, Batch, Prepared, Tested};
use super::map_plan::{Call, Plan};
use super::mv_soak::Soak;
use super::ordered::{Asking, ByOrder, Query, RANGE, SUCCESSOR, large_batches};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Stream};
use phalanx::MultiVersionBTree;
use phalanx::map::Word as MapWord;
use phalanx::mvbtree::{Builder, Growth, Snapshot, Updates, variants};
use phalanx_kernels::keyed::{Outcome, Packed};
use phalanx_kernels::mvbtree::{InPlace, OutOfPlace, Tree, Versioned};
use phalanx_kernels::slab::Spread;
use rayon::prelude::*;
use workloads::parallel;
use workloads::{Key as Word, UniqueKeys, value_of};

/// Look-ups in a snapshot.
pub const FIND_SNAPSHOT: &str = "find_snapshot";

const OPS: &[&str] = &[
    "insert", "find_hit", "find_miss", "remove_half", "mixed_50i50f", RANGE, SUCCESSOR, FIND_SNAPSHOT,
    INSERT_RANGE, FIND_REMOVE, "soak",
];

/// Variants of the tree.
#[derive(Debug)]
pub struct VersionedTrees<'a>(pub &'a Gpu);

impl BothWidths for VersionedTrees<'_> {
    const NAME: &'static str = "MultiVersionBTree";
    const OPS: &'static [&'static [&'static str]] = &[OPS];

    fn gpu(&self) -> &Gpu {
        self.0
    }

    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let gpu = self.0;
        let made = builder::<K, V>(gpu, case)?.growth(Growth::Pool).large_batches(large_batches(case)?);
        if let Some(prepared) = usual(
            gpu,
            case,
            move |capacity| made.clone().capacity(capacity).build(),
            None,
            Some(|map: &MultiVersionBTree<K, V>, ranges| map.range(ranges)),
        )? {
            return Ok(prepared);
        }
        let versioned = |pairs: u64| versioned::<K, V>(gpu, case, pairs);
        Ok(match case.op.as_str() {
            RANGE | SUCCESSOR => Box::new(Asking::new(gpu, case, versioned(case.n)?)?),
            "soak" => Box::new(Soak::new(gpu, case, tree::<K, V>(gpu, case, case.n)?)?),
            FIND_SNAPSHOT => Box::new(OldReads::new(gpu, case, tree::<K, V>(gpu, case, case.n)?)?),
            INSERT_RANGE => return insert_range(gpu, case),
            _ => {
                let plan = Plan::<K, V>::new(&as_mix(case)?)?;
                let tested = versioned(plan.keys)?;
                Box::new(Prepared::new(gpu, plan, tested)?)
            }
        })
    }
}

/// Default variant for pairs of 32 bits.
type Usual<U> = Tree<Versioned<Packed>, Spread<128>, U, 4, 4>;

/// Prepares concurrent insertions and range queries, for pairs of 32 bits.
fn insert_range<'a>(gpu: &'a Gpu, case: &Case) -> Result<Box<dyn Benchmark + 'a>> {
    ensure!(
        (case.key_bits, case.value_bits) == (32, 32) && case.variant == DEFAULT,
        "{INSERT_RANGE} is of the default variant and of pairs of 32 bits"
    );
    let pairs = case.number("initial_n")? as u64 + case.n;
    let tree = tree::<u32, u32>(gpu, case, pairs)?;
    Ok(match updates(case)? {
        Updates::InPlace => Box::new(InsertRange::<_, Usual<InPlace>>::new(gpu, case, tree)?),
        Updates::OutOfPlace => Box::new(InsertRange::<_, Usual<OutOfPlace>>::new(gpu, case, tree)?),
    })
}

fn updates(case: &Case) -> Result<Updates> {
    Ok(case.choice("mode", &[("in_place", Updates::InPlace), ("out_of_place", Updates::OutOfPlace)])?)
}

/// Creates an empty tree for `pairs` pairs, with memory for versions.
fn tree<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case, pairs: u64) -> Result<MultiVersionBTree<K, V>> {
    let builder = builder(gpu, case)?.growth(Growth::Fixed);
    // Additional memory for a version of each leaf, and for small trees a version of each pair, because all
    // of them may be changed before anything is freed.
    Ok(builder.capacity(2 * pairs as usize + 8 * pairs.min(1 << 16) as usize).build()?)
}

/// Returns a builder of the case's variant.
fn builder<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Result<Builder<K, V>> {
    let builder = Builder::default().device(&gpu.device).updates(updates(case)?);
    Ok(if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) })
}

/// Creates a tree as a subject of plans.
fn versioned<K: MapWord, V: MapWord>(
    gpu: &Gpu,
    case: &Case,
    pairs: u64,
) -> Result<Tested<MultiVersionBTree<K, V>>> {
    let checked = Tested::new(tree(gpu, case, pairs)?, |tree| Ok(tree.validate()?));
    // Frees the versions from loading, so that timed operations do not encounter them.
    Ok(Tested { settle: |tree| Ok(tree.drain().map(drop)?), ..checked })
}

impl<K: MapWord + Word, V: MapWord + Word> ByOrder<K, V> for Tested<MultiVersionBTree<K, V>> {
    fn ask_by_order(&mut self, stream: &Stream, query: &mut Query<K, V>) -> Result<()> {
        query.submit(&self.map.ordered_on(stream))
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Stays<K, V> for MultiVersionBTree<K, V> {
    fn build(&mut self, keys: &Buffer<K>, values: &Buffer<V>) -> Result<()> {
        Ok(self.bulk_build_sorted(keys, values, 0.7)?)
    }

    unsafe fn kernels_view<M>(&self) -> Result<phalanx_kernels::ordered::TreeView<M>>
    where
        M: phalanx_kernels::ordered::Config<Key = K, Value = V> + simt::Instance,
    {
        // SAFETY: the caller fulfils the obligations of `view`.
        Ok(unsafe { self.view::<M>()? })
    }

    fn look_through(&self) -> Result<()> {
        Ok(self.validate()?)
    }

    fn live(&self) -> Result<u64> {
        let stats = self.stats()?;
        Ok((stats.live + stats.retired) as u64)
    }

    fn free_versions(&self) -> Result<()> {
        self.drain()?;
        let left = self.versions()?;
        ensure!(left == 0, "no snapshot lives, and {left} versions are left");
        Ok(())
    }

    fn epochs(&self) -> Result<Vec<[u64; 3]>> {
        let told = self.reclaimed()?;
        Ok(told.log.iter().map(|line| [line.epoch, 128 * line.retired, 128 * line.reclaimed]).collect())
    }
}

/// Look-ups in a snapshot after all pairs have changed.
struct OldReads<'a, K: MapWord, V: MapWord> {
    gpu: &'a Gpu,
    /// Snapshot of `tree`. It is declared before the tree because fields are dropped in declaration order.
    then: Option<Snapshot<'static, K, V>>,
    tree: Box<MultiVersionBTree<K, V>>,
    keys: Buffer<K>,
    asked: Vec<K>,
    values: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<'a, K: MapWord + Word, V: MapWord + Word> OldReads<'a, K, V> {
    fn new(gpu: &'a Gpu, case: &Case, tree: MultiVersionBTree<K, V>) -> Result<Self> {
        let asked = UniqueKeys::<K>::new(case.seed).present(case.n as usize)?;
        let device = &gpu.device;
        Ok(Self {
            gpu,
            then: None,
            tree: Box::new(tree),
            keys: device.from_slice(&asked)?,
            values: device.zeroed(asked.len())?,
            outcomes: device.filled(asked.len(), driver::UNWRITTEN)?,
            asked,
        })
    }

    /// Inserts all keys, takes the snapshot and changes all pairs.
    fn load(&mut self) -> Result<()> {
        let tree = &*self.tree;
        let mut batch = Batch::inserts(&self.gpu.device, &self.asked)?;
        driver::ask(tree, &self.gpu.stream, Call::Insert, &mut batch)?;
        self.gpu.stream.synchronize()?;
        ensure!(batch.count(Outcome::Inserted)? == self.asked.len(), "not all keys could be loaded");
        tree.drain()?;
        let then = tree.snapshot()?;
        // SAFETY: the tree is in a box; it is neither moved out nor dropped before the snapshot.
        self.then = Some(unsafe { std::mem::transmute::<Snapshot<'_, K, V>, Snapshot<'static, K, V>>(then) });
        let others: Vec<V> = self
            .asked
            .par_iter()
            .map(|key| <V as Word>::truncate(!Word::widen(value_of::<K, V>(*key))))
            .collect();
        let refused = tree.insert(&self.asked, &others)?.contains(&Outcome::Refused);
        ensure!(!refused, "the pool has no room for the versions of all leaves");
        let half = &self.asked[..self.asked.len() / 2];
        let removed = tree.remove(half)?.into_iter().all(|removed| removed);
        ensure!(removed, "not all keys could be removed");
        Ok(())
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for OldReads<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        if self.then.is_none() {
            self.load()?;
        }
        self.values.fill_bytes(0)?;
        self.outcomes.fill_bytes(driver::UNWRITTEN)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let Self { gpu, then, tree, keys, values, outcomes, .. } = self;
        let Some(then) = then else { bail!("nothing is loaded") };
        Ok(tree.at(then)?.get_on(&gpu.stream, keys, values, outcomes)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (values, outcomes) = (self.values.read()?, self.outcomes.read()?);
        let is_right = |index: usize| {
            outcomes[index] == Outcome::Found as u8 && values[index] == value_of::<K, V>(self.asked[index])
        };
        let n = self.asked.len();
        let wrong = parallel::count(n, |index| !is_right(index));
        ensure!(wrong == 0, "{wrong} of {n} look-ups as of a snapshot were answered wrongly");
        Ok(Verified::all(n))
    }

    fn operations(&self) -> u64 {
        self.asked.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.tree.memory_usage() as u64)]
    }
}

//! Benchmarks of `phalanx::BTree`, with batches on device buffers.
//!
//! | param | of | what |
//! |---|---|---|
//! | `built` | all but `insert`, `bulk_build` | `insert` (default): the initial pairs were inserted; `bulk`: the tree was then rebuilt by a bulk build |
//! | `fill` | `bulk_build`, and trees with `built = "bulk"` | used fraction of each node, default 0.7 |
//! | `range_results` | `range` | pairs in each range, default 16 |
//! | `frozen` | `find_hit`, `find_miss`, `ycsb_c`, `batch_get`, `successor`, `range` | `true`: use the read-only kernels of frozen trees |
//! | `start` | all | node where searches begin: `directory` (default) or `root` |
//!
//! `find_hit_lines` is `find_hit` that also counts the 128-byte lines read at each level.
use super::both_widths::{BothWidths, DEFAULT, usual};
use super::bulk::{Bulk, check_nodes};
use super::concurrent_mix::{FIND_REMOVE, INSERT_RANGE, InsertRange, as_mix};
use super::driver::{self, Batch, Get, Prepared, Subject};
use super::map_plan::{Call, OPS, Plan};
use super::ordered::{Asking, ByOrder, Query, RANGE, SUCCESSOR, large_batches};
use super::soak::Soak;
use crate::engine::benchmark::{Benchmark, Metric};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::{Buffer, Stream};
use phalanx::BTree;
use phalanx::btree::{Builder, Growth, Walks, variants};
use phalanx::map::Word as MapWord;
use workloads::Key as Word;

/// Bulk build of a tree from sorted pairs.
pub const BULK: &str = "bulk_build";
/// Look-ups, with counts of the lines read.
pub const LINES: &str = "find_hit_lines";
/// Soak test: insertions of new keys into an empty tree in each repetition, with all checks.
pub const SOAK: &str = "soak";
/// Read-only operations.
const READS: &[&str] = &["find_hit", "find_miss", "ycsb_c", "batch_get", RANGE, SUCCESSOR];

/// Operations beside those of plans.
const MORE_OPS: &[&str] = &[BULK, RANGE, SUCCESSOR, LINES, SOAK, INSERT_RANGE, FIND_REMOVE];

/// Default variant for pairs of 32 bits.
type Usual = phalanx_kernels::btree::Tree<
    phalanx_kernels::keyed::Packed,
    phalanx_kernels::slab::Spread<128>,
    phalanx_kernels::btree::Concurrent,
    4,
    4,
>;

/// Variants of the tree.
#[derive(Debug)]
pub struct Trees<'a>(pub &'a Gpu);

impl BothWidths for Trees<'_> {
    const NAME: &'static str = "BTree";
    const OPS: &'static [&'static [&'static str]] = &[OPS, MORE_OPS];

    fn gpu(&self) -> &Gpu {
        self.0
    }

    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let gpu = self.0;
        let made = builder::<K, V>(gpu, case)?.growth(Growth::Pool).large_batches(large_batches(case)?);
        let get: Option<Get<BTree<K, V>>> = driver::frozen(case, READS)?.then_some(|tree, stream, batch| {
            let Batch { keys, results, outcomes, .. } = batch;
            Ok(tree.frozen()?.on(stream).get(&*keys, results, outcomes)?)
        });
        let make = move |capacity| made.clone().capacity(capacity).build();
        if let Some(prepared) =
            usual(gpu, case, make, get, Some(|tree: &BTree<K, V>, ranges| tree.range(ranges)))?
        {
            return Ok(prepared);
        }
        let planted = |pairs: u64| Planted::<K, V>::new(gpu, case, pairs);
        Ok(match case.op.as_str() {
            BULK => Box::new(Bulk::new(gpu, case, tree::<K, V>(gpu, case, case.n)?, fill(case)?)?),
            INSERT_RANGE => {
                let is_right = (case.key_bits, case.value_bits) == (32, 32);
                ensure!(is_right, "{INSERT_RANGE} is of pairs of 32 bits");
                let pairs = case.number("initial_n")? as u64 + case.n;
                let tree = tree::<u32, u32>(gpu, case, pairs)?;
                Box::new(InsertRange::<_, Usual>::new(gpu, case, tree)?)
            }
            SOAK => Box::new(Soak::<K, V>::new(gpu, case, tree(gpu, case, case.n)?)?),
            RANGE | SUCCESSOR => Box::new(Asking::new(gpu, case, planted(case.n)?)?),
            LINES => {
                let plan = Plan::new(&Case { op: "find_hit".to_owned(), ..case.clone() })?;
                Box::new(Prepared::new(gpu, plan, planted(case.n)?)?.measuring(lines))
            }
            _ => {
                let plan = Plan::<K, V>::new(&as_mix(case)?)?;
                let (is_empty, planted) = (plan.preload.is_empty(), planted(plan.keys)?);
                let is_right = !is_empty || planted.fill.is_none();
                ensure!(is_right, "`built` is 'bulk', and {} starts empty: leave it out", case.op);
                Box::new(Prepared::new(gpu, plan, planted)?)
            }
        })
    }
}

/// Creates an empty tree with a capacity of `pairs`.
fn tree<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case, pairs: u64) -> Result<BTree<K, V>> {
    Ok(builder(gpu, case)?.capacity(pairs as usize).build()?)
}

fn builder<K: MapWord, V: MapWord>(gpu: &Gpu, case: &Case) -> Result<Builder<K, V>> {
    let has_directory = case.choice("start", &[("directory", true), ("root", false)])?;
    let builder = BTree::builder().device(&gpu.device).growth(Growth::Fixed).directory(has_directory);
    Ok(if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) })
}

fn fill(case: &Case) -> Result<f64> {
    Ok(case.number_if_given("fill")?.unwrap_or(0.7))
}

/// Returns the fill of the nodes if the tree is rebuilt by a bulk build, or `None` if it is left as
/// insertions built it.
fn bulk_fill(case: &Case) -> Result<Option<f64>> {
    if case.choice("built", &[("insert", false), ("bulk", true)])? {
        return Ok(Some(fill(case)?));
    }
    let is_given = case.params.contains_key("fill");
    ensure!(!is_given, "`fill` is of trees whose `built` is 'bulk': insertions fill nodes as they do");
    Ok(None)
}

/// Tree, and the fill of its nodes after its pairs are loaded.
pub struct Planted<K: MapWord, V: MapWord> {
    /// Tree.
    pub tree: BTree<K, V>,
    fill: Option<f64>,
    /// Whether the read-only kernels of frozen trees are used.
    frozen: bool,
}

impl<K: MapWord, V: MapWord> Planted<K, V> {
    fn new(gpu: &Gpu, case: &Case, pairs: u64) -> Result<Self> {
        Ok(Self {
            tree: tree(gpu, case, pairs)?,
            fill: bulk_fill(case)?,
            frozen: driver::frozen(case, READS)?,
        })
    }
}

impl<K: MapWord + Word, V: MapWord + Word> ByOrder<K, V> for Planted<K, V> {
    fn ask_by_order(&mut self, stream: &Stream, query: &mut Query<K, V>) -> Result<()> {
        if self.frozen {
            return query.submit(&self.tree.frozen()?.ordered_on(stream));
        }
        query.submit(&self.tree.ordered_on(stream))
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Subject<K, V> for Planted<K, V> {
    const TELLS: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<K, V>) -> Result<()> {
        if self.frozen && call == Call::Get {
            let Batch { keys, results, outcomes, .. } = batch;
            return Ok(self.tree.frozen()?.on(stream).get(keys, results, outcomes)?);
        }
        driver::ask(&self.tree, stream, call, batch)
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.tree.clear()?)
    }

    fn memory_usage(&self) -> usize {
        self.tree.memory_usage()
    }

    fn settle(&mut self) -> Result<()> {
        if let Some(fill) = self.fill {
            self.tree.compact(fill)?;
            check_nodes(&self.tree, fill)?;
        }
        if self.frozen {
            // Once is enough: the tree stays frozen until the next write.
            self.tree.frozen()?;
        }
        Ok(())
    }

    /// Checks the invariants of the tree's nodes.
    fn check_fill(&self) -> Result<()> {
        Ok(self.tree.validate()?)
    }
}

/// Searches for all keys once more, and counts the 128-byte lines read.
fn lines<K: MapWord + Word, V: MapWord + Word>(
    planted: &Planted<K, V>,
    keys: &Buffer<K>,
) -> Result<Vec<Metric>> {
    let (walks, depth) = (planted.tree.walks(keys)?, u64::from(planted.tree.depth()?));
    // The reserved key has its own leaf, which is read directly.
    let is_topmost = |key: &&K| **key == <K as Word>::truncate(u64::MAX);
    let topmost = keys.read()?.iter().filter(is_topmost).count() as u64;
    check_walks(&walks, (walks.keys - topmost) * depth + topmost)?;
    let a_node = if <K as Word>::BITS + <V as Word>::BITS > 64 { 2 } else { 1 };
    let lines = |nodes: &u64| (nodes * a_node) as f64 / walks.keys as f64;
    let levels = walks.nodes.iter().rposition(|nodes| *nodes > 0).map_or(0, |top| top + 1);
    let bytes = 128 * a_node * walks.nodes.iter().sum::<u64>();
    Ok(vec![Metric::BytesMoved(bytes), Metric::Lines(walks.nodes[..levels].iter().map(lines).collect())])
}

/// Checks that each search has read a leaf, and only nodes on its levels and nodes reached by links.
fn check_walks(walks: &Walks, most: u64) -> Result<()> {
    let (read, leaves) = (walks.nodes.iter().sum::<u64>(), walks.nodes[0]);
    let own = read - walks.links;
    ensure!(leaves >= walks.keys, "{} walks read {leaves} leaves", walks.keys);
    ensure!(own <= most, "{} walks read {own} nodes by their parents, and there are {most}", walks.keys);
    Ok(())
}

//! `phalanx::BTree`, by the batches on device buffers.
//!
//! | param | of | what |
//! |---|---|---|
//! | `built` | all but `insert`, `bulk_build` | `insert` (default): the pairs that are there before came by insertions; `bulk`: they were then built anew |
//! | `fill` | `bulk_build`, and trees that are `bulk` | the part of each node that is used, 0.7 if not given |
//! | `range_results` | `range` | pairs in each range, 16 if not given |
use super::both_widths::{BothWidths, DEFAULT};
use super::driver::{self, Batch, Prepared, Subject};
use super::map_plan::{Call, OPS, Plan};
use super::ordered::{Asking, Bulk, Neighbours, Ranges};
use crate::benchmark::Benchmark;
use crate::structures::{Gpu, first_launch};
use crate::suite::Case;
use anyhow::{Result, bail, ensure};
use gpu::Stream;
use phalanx::btree::{Builder, Growth, variants};
use phalanx::{BTree, Key, Map, Value};
use workloads::Key as Word;

/// A tree is built from sorted pairs at once.
pub const BULK: &str = "bulk_build";
/// The pairs of as many random ranges as there are keys.
pub const RANGE: &str = "range";
/// The next pair of as many random keys as there are in the tree.
pub const SUCCESSOR: &str = "successor";

/// The operations of plans, and what else there is.
const WITH_BULK: [&str; OPS.len() + 1] = first_launch::with(BULK, OPS);
const WITH_RANGE: [&str; OPS.len() + 2] = first_launch::with(RANGE, &WITH_BULK);
const ALL_OPS: [&str; OPS.len() + 3] = first_launch::with(SUCCESSOR, &WITH_RANGE);

/// Pairs of a node, in trees of every kind.
const SLOTS: f64 = 14.0;

/// The variants of the tree.
#[derive(Debug)]
pub struct Trees<'a> {
    gpu: &'a Gpu,
}

impl<'a> Trees<'a> {
    /// The trees of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }
}

impl BothWidths for Trees<'_> {
    const NAME: &'static str = "BTree";
    const OPS: &'static [&'static str] = &ALL_OPS;

    fn gpu(&self) -> &Gpu {
        self.gpu
    }

    fn variants<K: Key, V: Value>() -> Vec<&'static str> {
        variants::<K, V>()
    }

    fn open<K: Key + Word, V: Value + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let builder = builder::<K, V>(self.gpu, case);
        let tree = || builder.clone().capacity(case.n as usize).build();
        match case.op.as_str() {
            BULK => return Ok(Box::new(Bulk::new(self.gpu, case, tree()?, fill(case)?)?)),
            RANGE => {
                let planted = Planted { tree: tree()?, fill: bulk_fill(case)? };
                return Ok(Box::new(Asking::<_, _, Ranges<K, V>>::new(self.gpu, case, planted)?));
            }
            SUCCESSOR => {
                let planted = Planted { tree: tree()?, fill: bulk_fill(case)? };
                return Ok(Box::new(Asking::<_, _, Neighbours<K, V>>::new(self.gpu, case, planted)?));
            }
            _ => {}
        }
        let plan = Plan::<K, V>::new(case)?;
        let fill = bulk_fill(case)?;
        let is_empty = plan.preload.is_empty();
        ensure!(!is_empty || fill.is_none(), "`built` is 'bulk', and {} starts empty: leave it out", case.op);
        let planted = Planted { tree: builder.capacity(plan.keys as usize).build()?, fill };
        Ok(Box::new(Prepared::new(self.gpu, plan, planted)?))
    }
}

fn builder<K: Key, V: Value>(gpu: &Gpu, case: &Case) -> Builder<K, V> {
    let builder = BTree::builder().device(&gpu.device).growth(Growth::Fixed);
    if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }
}

fn fill(case: &Case) -> Result<f64> {
    Ok(case.number_if_given("fill")?.unwrap_or(0.7))
}

/// How full the nodes are of the tree that is asked about, where it is not as insertions left it.
fn bulk_fill(case: &Case) -> Result<Option<f64>> {
    let built = case.params.get("built").map(ToString::to_string);
    match built.as_deref() {
        Some("bulk") => Ok(Some(fill(case)?)),
        None | Some("insert") => {
            let is_given = case.params.contains_key("fill");
            ensure!(
                !is_given,
                "`fill` is of trees whose `built` is 'bulk': insertions fill nodes as they do"
            );
            Ok(None)
        }
        Some(other) => bail!("`built` is '{other}'; it can be 'insert' or 'bulk'"),
    }
}

/// A tree, and how full its nodes are to be once its pairs are loaded.
pub struct Planted<K, V> {
    /// The tree.
    pub tree: BTree<K, V>,
    fill: Option<f64>,
}

impl<K: Key + Word, V: Value + Word> Subject<K, V> for Planted<K, V> {
    const TELLS: bool = true;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<K, V>) -> Result<()> {
        driver::ask(&self.tree, stream, call, batch)
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.tree.clear()?)
    }

    fn bytes(&self) -> usize {
        self.tree.memory_usage()
    }

    fn settle(&mut self) -> Result<()> {
        let Some(fill) = self.fill else { return Ok(()) };
        self.tree.compact(fill)?;
        check_nodes(&self.tree, fill)
    }

    /// What a tree says of itself is that its nodes are in order.
    fn check_fill(&self) -> Result<()> {
        Ok(self.tree.validate()?)
    }
}

/// Checks that a tree which was built at once has as many nodes as its pairs ask for. Where `m` pairs or children are in each node,
/// there is a node for each `m - 1` pairs: leaves, and those above.
///
/// # Errors
/// It has not; what the machine says.
pub fn check_nodes<K: Key, V: Value>(tree: &BTree<K, V>, fill: f64) -> Result<()> {
    let (pairs, nodes) = (tree.len()? as f64, tree.stats()?.live as f64);
    let expected = pairs / ((SLOTS * fill).round() - 1.0);
    // A node of each level may be thin, and the root and the leaf of one key are there always.
    let is_right = (nodes - expected).abs() <= 0.02 * expected + 16.0;
    ensure!(is_right, "{pairs} pairs are in {nodes} nodes, and at a fill of {fill} it is some {expected:.0}");
    Ok(())
}

//! Kernels of the skip list's variants, beside those that they share with B-trees.
use super::passes::Pass;
use crate::map::launch::{self, Batch, BatchOp, THREADS};
use crate::map::variant::{VariantTag, variants};
use crate::ordered::kernels::Kernels as TreeKernels;
use crate::ordered::memory::TreeRef;
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::Kind;
use phalanx_kernels::skiplist::kernels::{
    Claim, CodedPass, Gather, Index, InsertNewPass, InsertPass, InsertRuns, Relink, Sweep, passing,
};
use phalanx_kernels::skiplist::{self, Layers, Layout};
use simt::{GlobalSlice, Instance};

/// The data nodes that stay in a list during a compaction: low keys and handles.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<K> {
    pub lows: GlobalSlice<K>,
    pub handles: GlobalSlice<u32>,
}

/// A step of a compaction. All steps are exclusive.
#[derive(Clone, Copy, Debug)]
pub enum CompactStep<K> {
    /// Counts the data nodes that stay, and lists as many as `nodes` has elements for.
    Gather { nodes: Nodes<K>, count: GlobalSlice<u64> },
    /// Frees all other nodes.
    Sweep,
    /// Links the data nodes that stay, which are sorted.
    Relink { nodes: Nodes<K> },
    /// Allocates slabs for the index: from each layer's part of the pool, or from `anywhere`. Both launches
    /// use the same `counts`.
    Claim { slabs: GlobalSlice<u32>, counts: GlobalSlice<u64>, layout: Layout, anywhere: bool },
    /// Builds the index.
    Index { nodes: Nodes<K>, slabs: GlobalSlice<u32>, layout: Layout },
}

/// Launches on skip lists of one variant, with keys `K` and values `V`.
pub trait Kernels<K, V>: TreeKernels<K, V> {
    /// Returns an owned copy, which takes no memory.
    fn boxed_list(&self) -> Box<dyn Kernels<K, V>>;

    /// Launches a pass of a batch that inserts.
    ///
    /// # Safety
    /// - As for [`TreeKernels::launch_batch`].
    unsafe fn launch_pass(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        batch: Batch<K, V>,
        pass: Pass,
    ) -> gpu::Result<()>;

    /// Launches insertions by tiles that each take `keys` neighboring pairs, in `blocks` thread blocks, or in
    /// as many as there are such runs of pairs.
    ///
    /// # Safety
    /// - As for [`TreeKernels::launch_batch`].
    unsafe fn launch_runs(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        batch: Batch<K, V>,
        keys: u32,
        blocks: Option<u32>,
    ) -> gpu::Result<()>;

    /// Launches a step of a compaction.
    ///
    /// # Safety
    /// - As for [`TreeKernels::launch_scan`].
    unsafe fn launch_compaction(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        step: CompactStep<K>,
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all variants with these key and value types, the defaults first.
    all: Kernels, skiplist, Layers
}

impl<M: Layers + Instance> Kernels<M::Key, M::Value> for VariantTag<M> {
    fn boxed_list(&self) -> Box<dyn Kernels<M::Key, M::Value>> {
        Box::new(Self::NEW)
    }

    unsafe fn launch_pass(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        batch: Batch<M::Key, M::Value>,
        pass: Pass,
    ) -> gpu::Result<()> {
        let Batch { op, codes, keys, arguments, results, outcomes } = batch;
        let Pass { step, ratio } = pass;
        let grid = launch::grid::<M>(stream, passing(keys.max_len(), step, ratio));
        // SAFETY: the caller's obligations. The grid has at least one thread for every element of the pass.
        unsafe {
            let list = list.view::<M>();
            match op {
                BatchOp::Insert => stream
                    .launch(grid, InsertPass::<M> { list, keys, values: arguments, outcomes, step, ratio }),
                BatchOp::InsertNew => stream.launch(
                    grid,
                    InsertNewPass::<M> { list, keys, values: arguments, outcomes, step, ratio },
                ),
                _ => {
                    let code = op.coded().code();
                    let pass =
                        CodedPass::<M> { list, code, codes, keys, arguments, results, outcomes, step, ratio };
                    stream.launch(grid, pass)
                }
            }
        }
    }

    unsafe fn launch_runs(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        batch: Batch<M::Key, M::Value>,
        keys: u32,
        blocks: Option<u32>,
    ) -> gpu::Result<()> {
        // A run is no longer than the batch, and there are no more blocks than runs for them.
        let longest = batch.keys.max_len().clamp(1, 1 << 31) as u32;
        let run = keys.clamp(1, longest).next_multiple_of(M::TILE);
        let runs = batch.keys.max_len().div_ceil(run as usize);
        let whole = Grid::for_items(runs * M::TILE as usize, THREADS);
        let grid = blocks.map_or(whole, |blocks| Grid::new(blocks.clamp(1, whole.blocks), THREADS));
        let Batch { keys, arguments: values, outcomes, .. } = batch;
        // SAFETY: the caller's obligations. The kernel works with any grid.
        unsafe {
            let list = list.view::<M>();
            stream.launch(grid, InsertRuns::<M> { list, keys, values, outcomes, run })
        }
    }

    unsafe fn launch_compaction(
        &self,
        stream: &Stream,
        list: TreeRef<'_>,
        step: CompactStep<M::Key>,
    ) -> gpu::Result<()> {
        let (over, tile) = (|len: usize| Grid::for_items(len, THREADS), <M as Kind>::TILE as usize);
        // SAFETY: the caller's obligations. Each grid has a thread or a tile for every slab, or a tile for
        // every node.
        unsafe {
            let list = list.view::<M>();
            let units = list.units();
            match step {
                CompactStep::Gather { nodes: Nodes { lows, handles }, count } => {
                    stream.launch(over(units), Gather::<M> { list, lows, handles, count })
                }
                CompactStep::Sweep => stream.launch(over(units * tile), Sweep::<M> { list }),
                CompactStep::Relink { nodes: Nodes { lows, handles } } => {
                    let nodes = handles.len() as u64;
                    stream.launch(over(handles.len() * tile), Relink::<M> { list, lows, handles, nodes })
                }
                CompactStep::Claim { slabs, counts, layout, anywhere } => {
                    let (first, second) = (layout.slabs_upto(1), layout.slabs_upto(2));
                    let anywhere = anywhere.into();
                    let claim = Claim::<M> { list, slabs, counts, first, second, anywhere };
                    stream.launch(over(units), claim)
                }
                CompactStep::Index { nodes: Nodes { lows, handles }, slabs, layout } => {
                    let grid = over((slabs.len() + 1) * tile);
                    let Layout { nodes, stride, fill } = layout;
                    stream.launch(grid, Index::<M> { list, lows, handles, slabs, nodes, stride, fill })
                }
            }
        }
    }
}

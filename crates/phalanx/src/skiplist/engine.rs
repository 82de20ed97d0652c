//! Maps variant names to types: launches on skip lists, besides those on trees.
use super::passes::Pass;
use crate::btree::engine::{Engine as TreeEngine, Parts};
use crate::map::launch::{self, Batch, BatchOp, THREADS};
use crate::map::launcher::{Of, Viewed, engines};
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::{Kind, Scalar};
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
pub enum Tidy<K> {
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

/// A variant of the skip list.
pub trait Engine<K, V>: TreeEngine<K, V> {
    /// Launches a pass of a batch that inserts.
    ///
    /// # Safety
    /// - As for [`crate::map::launcher::Launcher::launch`].
    unsafe fn pass(&self, stream: &Stream, parts: Parts, batch: Batch<K, V>, pass: Pass) -> gpu::Result<()>;

    /// Launches insertions by tiles that each take `keys` neighboring pairs, in `blocks` thread blocks, or in
    /// as many as there are such runs of pairs.
    ///
    /// # Safety
    /// - As for [`Self::pass`].
    unsafe fn runs(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<K, V>,
        keys: u32,
        blocks: Option<u32>,
    ) -> gpu::Result<()>;

    /// Launches a step of a compaction.
    ///
    /// # Safety
    /// - As for [`crate::map::launcher::Launcher::scan`].
    unsafe fn tidy(&self, stream: &Stream, parts: Parts, step: Tidy<K>) -> gpu::Result<()>;
}

/// Returns the engine called `name` if its key and value types are `K` and `V`.
pub fn find<K: Scalar, V: Scalar>(name: &str) -> Option<Box<dyn Engine<K, V>>> {
    any(name)?.downcast::<Box<dyn Engine<K, V>>>().ok().map(|engine| *engine)
}

engines!(skiplist: Layers);

impl<M: Layers + Instance> Engine<M::Key, M::Value> for Of<M> {
    unsafe fn pass(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<M::Key, M::Value>,
        pass: Pass,
    ) -> gpu::Result<()> {
        let list = <M as Viewed<Parts>>::view(parts);
        let Batch { op: ask, codes, keys, arguments, results, outcomes } = batch;
        let Pass { step, ratio } = pass;
        let grid = launch::grid::<M>(stream, passing(keys.len(), step, ratio));
        // SAFETY: the caller's obligations. The grid has at least one thread for every element of the pass.
        unsafe {
            match ask {
                BatchOp::Insert => stream
                    .launch(grid, InsertPass::<M> { list, keys, values: arguments, outcomes, step, ratio }),
                BatchOp::InsertNew => stream.launch(
                    grid,
                    InsertNewPass::<M> { list, keys, values: arguments, outcomes, step, ratio },
                ),
                _ => {
                    let code = ask.coded().code();
                    let pass =
                        CodedPass::<M> { list, code, codes, keys, arguments, results, outcomes, step, ratio };
                    stream.launch(grid, pass)
                }
            }
        }
    }

    unsafe fn runs(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch<M::Key, M::Value>,
        keys: u32,
        blocks: Option<u32>,
    ) -> gpu::Result<()> {
        let list = <M as Viewed<Parts>>::view(parts);
        // A run is no longer than the batch, and there are no more blocks than runs for them.
        let longest = batch.keys.len().clamp(1, 1 << 31) as u32;
        let run = keys.clamp(1, longest).next_multiple_of(M::TILE);
        let runs = batch.keys.len().div_ceil(run as usize);
        let whole = Grid::for_items(runs * M::TILE as usize, THREADS);
        let grid = blocks.map_or(whole, |blocks| Grid::new(blocks.clamp(1, whole.blocks), THREADS));
        let Batch { keys, arguments: values, outcomes, .. } = batch;
        // SAFETY: the caller's obligations. The kernel works with any grid.
        unsafe { stream.launch(grid, InsertRuns::<M> { list, keys, values, outcomes, run }) }
    }

    unsafe fn tidy(&self, stream: &Stream, parts: Parts, step: Tidy<M::Key>) -> gpu::Result<()> {
        let list = <M as Viewed<Parts>>::view(parts);
        let units = list.units();
        let (over, tile) = (|len: usize| Grid::for_items(len, THREADS), <M as Kind>::TILE as usize);
        // SAFETY: the caller's obligations. Each grid has a thread or a tile for every slab, or a tile for
        // every node.
        unsafe {
            match step {
                Tidy::Gather { nodes: Nodes { lows, handles }, count } => {
                    stream.launch(over(units), Gather::<M> { list, lows, handles, count })
                }
                Tidy::Sweep => stream.launch(over(units * tile), Sweep::<M> { list }),
                Tidy::Relink { nodes: Nodes { lows, handles } } => {
                    let nodes = handles.len() as u64;
                    stream.launch(over(handles.len() * tile), Relink::<M> { list, lows, handles, nodes })
                }
                Tidy::Claim { slabs, counts, layout, anywhere } => {
                    let (first, second) = (layout.slabs_upto(1), layout.slabs_upto(2));
                    let anywhere = anywhere.into();
                    let claim = Claim::<M> { list, slabs, counts, first, second, anywhere };
                    stream.launch(over(units), claim)
                }
                Tidy::Index { nodes: Nodes { lows, handles }, slabs, layout } => {
                    let grid = over((slabs.len() + 1) * tile);
                    let Layout { nodes, stride, fill } = layout;
                    stream.launch(grid, Index::<M> { list, lows, handles, slabs, nodes, stride, fill })
                }
            }
        }
    }
}

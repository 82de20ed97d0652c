//! Sorting of batches by key before they are launched: see `tree_sorted_...` in `docs/structures/btree.md`.
use super::memory::TreeRef;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, THREADS};
use crate::map::variant::{HasVariant, Variant, VariantTag};
use crate::primitives::{Workspace, last_used, sort_bytes};
use gpu::{Buffer, Grid, Stream};
use phalanx_kernels::btree::kernels::{CodedSorted, InsertSorted, RemoveSorted, sorted_threads};
use phalanx_kernels::ordered::Config;
use simt::{GlobalSlice, Instance};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of elements sorted at once. A longer batch is submitted in chunks, which bounds the
/// workspace.
const MOST: usize = 1 << 24;
/// Minimum number of elements of a workspace.
const LEAST: usize = 1 << 12;
/// Maximum number of streams with a workspace. Beyond it, the least recently used workspace is dropped.
const MOST_WORKSPACES: usize = 32;

/// Returns the keys of a batch that is to be sorted. Sorting does not pay for lookups, needs the number of
/// elements on the host, and no kernel for sorted batches returns removed values.
pub fn takes<K: Word, V>(batch: &Batch<K, V>) -> Option<GlobalSlice<K>> {
    let is_sorted = !matches!(batch.op, BatchOp::Get | BatchOp::ContainsKey | BatchOp::Take);
    batch.keys.unbounded().filter(|_| is_sorted)
}

/// Sorts batches and launches them.
pub struct Sorter<K, V> {
    kernels: Box<dyn SortedKernels<K, V>>,
    /// Ordered by last use, the most recent one last.
    workspaces: Mutex<Vec<SortWorkspace<K>>>,
}

/// Workspace of one stream for sorting.
struct SortWorkspace<K> {
    work: Workspace,
    keys: Buffer<K>,
    /// The numbers 0, 1, 2, ...
    numbers: Buffer<u32>,
    order: Buffer<u32>,
}

impl<K: Word, V: Word> Sorter<K, V> {
    /// Returns the sorter for trees of a variant, if the variant sorts batches.
    pub fn for_variant(variant: Variant) -> Option<Self> {
        Some(Self { kernels: sorted_kernels(variant)?.boxed(), workspaces: Mutex::default() })
    }

    /// Submits to a stream the sort of a batch, which has the keys `unsorted`, and then the batch. Waits if
    /// the batch is longer than any before in that stream.
    ///
    /// # Safety
    /// - As for [`Kernels::launch_batch`](super::kernels::Kernels::launch_batch).
    pub unsafe fn submit(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<K, V>,
        unsorted: GlobalSlice<K>,
    ) -> Result<()> {
        let (len, mut first) = (unsorted.len(), 0);
        let mut workspaces = self.workspaces();
        let workspace = SortWorkspace::of(&mut workspaces, stream, len.min(MOST))?;
        while first < len {
            let chunk = batch.part(first, MOST);
            let SortWorkspace { work, keys, numbers, order } = &mut *workspace;
            work.sort_numbered(unsorted.part(first, MOST), &mut *keys, numbers, &mut *order)?;
            let sorted = (keys.global(), order.global());
            // SAFETY: the caller's obligations. The workspace lives as long as the tree, and later work of
            // the stream uses it only after this work.
            unsafe { self.kernels.launch_sorted(stream, tree, chunk, sorted)? };
            first += MOST;
        }
        Ok(())
    }

    /// Returns the device memory in use, in bytes.
    pub fn memory_usage(&self) -> usize {
        self.workspaces().iter().map(SortWorkspace::memory_usage).sum()
    }

    fn workspaces(&self) -> MutexGuard<'_, Vec<SortWorkspace<K>>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Word> SortWorkspace<K> {
    /// Returns the stream's workspace, for at least `len` elements.
    fn of<'a>(workspaces: &'a mut Vec<Self>, stream: &Stream, len: usize) -> Result<&'a mut Self> {
        let is_own = |workspace: &Self| workspace.work.stream() == stream;
        let fits = |workspace: &Self| workspace.numbers.len() >= len;
        last_used(workspaces, MOST_WORKSPACES, (is_own, fits), || Self::new(stream, len))
    }

    fn new(stream: &Stream, len: usize) -> Result<Self> {
        let len = len.next_power_of_two().clamp(LEAST, MOST);
        let device = stream.device();
        let mut work = Workspace::new(stream, sort_bytes::<K, u32>(len))?;
        let mut numbers = device.buffer(len)?;
        work.count_up(&mut numbers)?;
        Ok(Self { work, keys: device.buffer(len)?, numbers, order: device.buffer(len)? })
    }

    fn memory_usage(&self) -> usize {
        self.work.memory_usage() + self.keys.byte_len() + self.numbers.byte_len() + self.order.byte_len()
    }
}

/// Launches of batches sorted by key, on trees of one variant.
pub trait SortedKernels<K, V>: HasVariant + Send + Sync {
    /// Returns an owned copy, which takes no memory.
    fn boxed(&self) -> Box<dyn SortedKernels<K, V>>;

    /// Launches a batch. `sorted` has its keys in order, and the original index of each.
    ///
    /// # Safety
    /// - As for [`Kernels::launch_batch`](super::kernels::Kernels::launch_batch).
    unsafe fn launch_sorted(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<K, V>,
        sorted: (GlobalSlice<K>, GlobalSlice<u32>),
    ) -> gpu::Result<()>;
}

#[cfg(all(feature = "btree", feature = "variants"))]
crate::map::variant::variants! {
    /// Returns the kernels for sorted batches of all variants that sort, with these key and value types.
    sorting: SortedKernels, phalanx_kernels::btree::sorted, Config
}

/// Returns the kernels for sorted batches of a variant, if it sorts batches.
#[cfg(all(feature = "btree", feature = "variants"))]
fn sorted_kernels<K: Word, V: Word>(variant: Variant) -> Option<&'static dyn SortedKernels<K, V>> {
    sorting::<K, V>().find(|kernels| kernels.variant() == variant)
}

#[cfg(not(all(feature = "btree", feature = "variants")))]
fn sorted_kernels<K, V>(_: Variant) -> Option<&'static dyn SortedKernels<K, V>> {
    None
}

impl<M: Config + Instance> SortedKernels<M::Key, M::Value> for VariantTag<M> {
    fn boxed(&self) -> Box<dyn SortedKernels<M::Key, M::Value>> {
        Box::new(Self::NEW)
    }

    unsafe fn launch_sorted(
        &self,
        stream: &Stream,
        tree: TreeRef<'_>,
        batch: Batch<M::Key, M::Value>,
        (keys, order): (GlobalSlice<M::Key>, GlobalSlice<u32>),
    ) -> gpu::Result<()> {
        let len = batch.keys.max_len();
        let Batch { op, codes, arguments, results, outcomes, .. } = batch;
        let (keys, code) = (keys.part(0, len), op.coded().code());
        // As many positions as tiles that run at once, but not more than there are groups of keys.
        let tiles = stream.device().resident_threads() as usize / M::TILE as usize;
        let apart = tiles.min(len.div_ceil(M::TILE as usize)).max(1) as u32;
        let grid = Grid::for_items(sorted_threads(M::TILE, len, apart), THREADS);
        // SAFETY: the caller's obligations. The grid has a thread for every element.
        unsafe {
            let tree = tree.view::<M>();
            match op {
                BatchOp::Insert => {
                    stream.launch(grid, InsertSorted::<M> { tree, keys, order, apart, arguments, outcomes })
                }
                BatchOp::Remove => {
                    stream.launch(grid, RemoveSorted::<M> { tree, keys, order, apart, arguments, outcomes })
                }
                _ => {
                    let launch =
                        CodedSorted { tree, code, codes, keys, order, apart, arguments, results, outcomes };
                    stream.launch(grid, launch)
                }
            }
        }
    }
}

//! Read-only access while nothing writes.
use super::BTree;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
pub use crate::map::frozen::Lookups;
use crate::map::frozen::{LookUp, as_a_whole, by_key, read_only};
use crate::map::launch::Batch;
use crate::map::variant::{Variant, VariantTag};
use crate::ordered::kernels::{Reader, Search};
use crate::ordered::queries::{Searched, by_order};
use crate::{Key, Result, Value};
use gpu::{Device, Stream};
use phalanx_kernels::btree::{ReadOnly, phased};
use phalanx_kernels::ordered::{Config, TreeView};
use simt::Instance;
use std::fmt;

/// A read-only handle of a tree. It borrows the tree, so nothing writes while it lives, and lookups use
/// faster kernels: they may read nodes from the L1 cache, and need not read a leaf again when they miss a
/// key. Created by [`BTree::frozen`].
///
/// ```
/// use phalanx::BTree;
///
/// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[30, 10, 20], &[3, 1, 2])?.all_placed());
/// let frozen = tree.frozen()?;
/// assert_eq!(frozen.get(&[10, 11])?, [Some(1), None]);
/// assert_eq!(frozen.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(frozen.last()?, Some((30, 3)));
/// assert!(tree.insert(&[40], &[4])?.all_placed()); // the borrow has ended
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Such kernels exist for the default variants. Trees of other variants are read by their own kernels
/// ([`Self::variant`] returns which).
///
/// ```
/// use phalanx::kernels::btree::{Phased, Tree};
/// use phalanx::kernels::keyed::Packed;
/// use phalanx::kernels::slab::Spread;
/// use phalanx::BTree;
///
/// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[1, 2], &[10, 20])?.all_placed());
/// let frozen = tree.frozen()?;
/// assert_eq!((frozen.len()?, frozen.is_empty()?), (2, false));
/// assert_eq!(frozen.contains_key(&[1, 3])?, [true, false]);
/// assert_eq!(frozen.iter()?.collect::<Vec<_>>(), [(1, 10), (2, 20)]);
/// assert_eq!(frozen.export()?.0.len(), 2);
/// frozen.save(Vec::new())?;
/// assert_eq!(frozen.variant(), "tree_phased_spread_128_4x4_u32_u32");
/// // SAFETY: no kernel takes this view.
/// let _view = unsafe { frozen.view::<Tree<Packed, Spread<128>, Phased, 4, 4>>()? };
/// let device = frozen.device();
/// let (keys, mut outcomes) = (device.from_slice(&[1u32, 3])?, device.zeroed::<u8>(2)?);
/// frozen.on(&device.default_stream()).contains_key(&keys, &mut outcomes)?;
/// assert_ne!(outcomes.read()?, [0, 0]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// All operations here may run concurrently, from several threads and in several streams. While the handle
/// lives, the borrow checker prevents writes. Batches in streams may outlive it: the next operation on the
/// tree waits for them.
///
/// # Cost
///
/// A hit or a miss reads one node per level below the directory; the L1 cache serves the upper levels. `get`
/// and `contains_key` cost as much as those of [`Map`](crate::Map): one launch and a wait for a small call.
/// So do the operations by key order, as those of [`BTree`]. `len`, `is_empty`, `iter`, `export` and `save`
/// cost as much as those of the tree: they wait for the device. `view` is O(1) on the host and launches
/// nothing.
pub struct Frozen<'a, K: Key, V: Value> {
    tree: &'a BTree<K, V>,
    /// Read-only kernels, or those of the tree if its variant has none.
    reader: &'a dyn Reader<K::Word, V::Word>,
}

impl<K: Key, V: Value> fmt::Debug for Frozen<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("tree", self.tree).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value> BTree<K, V> {
    /// Returns a read-only handle, whose kernels are compiled for reading without writers. Waits for all
    /// earlier launches, and rebuilds the directory.
    ///
    /// Cost: waits for the device; if the tree may have changed since the last call, it also copies 8 KiB of
    /// counters and launches a rebuild of the directory.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn frozen(&mut self) -> Result<Frozen<'_, K, V>> {
        self.tree.freeze()?;
        let kernels = self.tree.handle.kernels();
        let reader = read_only(kernels.variant()).unwrap_or(kernels);
        Ok(Frozen { reader, tree: self })
    }

    /// Returns whether the tree is frozen. For this package's tests.
    #[doc(hidden)]
    pub fn is_frozen(&self) -> bool {
        self.tree.freezer.is_frozen()
    }
}

as_a_whole! {
    /// Operations on the whole tree.
    BTree in tree
}

impl<K: Key, V: Value> Frozen<'_, K, V> {
    /// Returns a view of the tree for your own read-only kernels. `M` is the type of the variant that
    /// [`Self::variant`] names.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the tree is read by kernels of another variant.
    ///
    /// # Safety
    /// - The view may be used only while this handle lives, on the tree's device, and the kernels must have
    ///   ended when the borrow ends.
    /// - The kernels may only read: get values, check keys, seek.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K::Word, Value = V::Word> + Instance,
    {
        self.reader.variant().check::<M>()?;
        // SAFETY: a tree of the variant whose nodes this one reads; the caller keeps the memory.
        self.tree.tree.read(|tree| Ok(unsafe { tree.view() }))
    }
}

by_key! {
    /// Operations on single keys.
    Frozen<'_, K, V>
}

impl<K: Key, V: Value> LookUp<K::Word, V::Word> for Frozen<'_, K, V> {
    fn device(&self) -> &Device {
        self.tree.device()
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K::Word, V::Word>) -> Result<()> {
        // SAFETY: as for `Tree::submit_concurrently`. Nothing writes while `self` lives, and later writers
        // first wait: see `Freezer::thaw`.
        self.tree.tree.read(|tree| unsafe { self.reader.launch_look_up(stream, tree, batch) })
    }
}

impl<K: Key, V: Value> Searched<K::Word, V::Word> for Frozen<'_, K, V> {
    fn search_device(&self) -> &Device {
        self.tree.device()
    }

    fn search(&self, stream: &Stream, search: Search<K::Word, V::Word>) -> Result<()> {
        // SAFETY: as for `Self::look_up`.
        self.tree.tree.read(|tree| unsafe { self.reader.launch_search(stream, tree, search) })
    }
}

by_order! {
    /// Operations by key order, in batches.
    Frozen<'_, K, V>
}

read_only! { read_only: Reader, phased, ReadOnly }

//! An ordered map: a B-link tree in device memory.
mod builder;
mod frozen;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::Map;
use crate::map::structure::Structure;
use crate::ordered::bulk_build::bulk_methods;
pub use crate::ordered::growth::Growth;
pub use crate::ordered::inspect::Walks;
use crate::ordered::kernels::Search;
pub use crate::ordered::large_batches::LargeBatches;
pub use crate::ordered::queries::Ordered;
use crate::ordered::queries::{Searched, by_order};
use crate::ordered::tree::Tree;
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::{Builder, variants};
pub use frozen::{Frozen, Lookups};
use gpu::{AsSlice, Device, Stream};
use phalanx_kernels::ordered::{Config, TreeView};
use simt::Instance;

/// An ordered map from [keys](Key) to [values](Value) in device memory: a B-link tree of nodes of 14 pairs.
///
/// Reads take no latch; an update latches one leaf. Full nodes are split during the descent. The tree grows
/// within launches. The operations on single keys are those of [`Map`]; this type and [`Ordered`] add those
/// by key order. The page `docs/structures/btree.md` describes layout, proofs and costs. Source: chapter 3 of
/// the thesis on dynamic GPU structures.
///
/// ```
/// use phalanx::BTree;
///
/// let tree = BTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[30, 10, 20], &[3, 1, 2])?.all_placed());
/// assert_eq!(tree.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(tree.successor(&[10, 30])?, [Some((20, 2)), None]);
/// assert_eq!(tree.last()?, Some((30, 3)));
/// tree.remove(&[10])?;
/// assert_eq!(tree.first()?, Some((20, 2)));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::BTree;
///
/// let mut tree = BTree::<u32, u32>::builder().capacity(1000).build()?;
/// let (keys, values) = (tree.device().from_slice(&[1, 5, 7])?, tree.device().from_slice(&[10, 50, 70])?);
/// tree.bulk_build_sorted(&keys, &values, 1.0)?;
/// tree.remove(&[5])?;
/// tree.compact(0.7)?;
/// assert_eq!(tree.iter()?.collect::<Vec<_>>(), [(1, 10), (7, 70)]); // in key order
/// assert_eq!(tree.frozen()?.get(&[1])?, [Some(10)]); // by faster kernels, since nothing writes
/// let mut file = Vec::new();
/// tree.save(&mut file)?;
/// let loaded = BTree::<u32, u32>::load(&file[..], BTree::builder())?;
/// loaded.validate()?;
/// assert_eq!((loaded.depth()?, loaded.stats()?.retired), (2, 0));
/// assert_eq!(loaded.variant(), "tree_spread_128_4x4_u32_u32");
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Operations on single keys: as for [`Map`]. Operations by key order may run concurrently with all others.
/// Each returned pair was in the tree at some time during the call, and a pair that is in the tree throughout
/// the call is returned exactly once. But the pairs of one result need not have been in the tree all at the
/// same time. `bulk_build`, `compact` and `clear` take `&mut self`; the pool grows between the launches of a
/// blocking call. A [large batch](LargeBatches) of a blocking call may wait for the device, and rebuild the
/// tree while all other calls wait. [`Self::frozen`] returns a read-only handle without concurrent writers.
///
/// # Cost
///
/// The number of levels is the logarithm of the number of pairs to base 14 × fill. A lookup searches the
/// directory (8 keys per step, at most 5 steps), then reads one node of 128 or 256 bytes per level below it:
/// 2 nodes for 2^20 pairs, 3 for 2^24. An update reads the same nodes, and latches and changes one leaf. A
/// range of r pairs reads a leaf per 14 × fill pairs. Calls on the whole tree:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | allocates and fills the pool: nodes of 128 bytes (256 for 16-byte pairs) for half-full leaves, 2 bits of bitmaps per node, 8 KiB of counters; launches the build of the empty tree, and waits |
/// | `successor`, `predecessor`, `ceiling`, `floor`, `first`, `last` | as `get` of [`Map`]: one launch for up to 1024 keys, else chunks with their copies |
/// | `count`, `range` | the same; `range` of up to 1024 ranges has room for 2048 pairs in its first launch, shared evenly. If a range may have more, it counts, allocates buffers, launches again to collect, and copies the pairs |
/// | `stats` | waits for the device; one launch reads the bitmaps |
/// | `depth`, `validate` | waits for the device; one launch reads all nodes |
/// | `walks` | one launch, and a wait; allocates 64 bytes |
/// | `bulk_build` | copies the pairs to the device, sorts them there (3 launches and more, see [`crate::primitives`]), and builds as the next |
/// | `bulk_build_sorted` | waits; launches that check the pairs, free the old nodes, read the pairs once and write each node once; allocates if the pool is too small |
/// | `compact` | waits; copies the pairs within the device, sorts them and builds; allocates three copies of the pairs |
/// | `load` | reads the file on the host, then `bulk_build` |
/// | `reserve` | waits; one launch counts the free nodes; allocates nodes if they are too few, or rebuilds as `compact` does |
/// | `view` | O(1) on the host; waits for the device once after [`Self::frozen`] was used |
pub struct BTree<K: Key, V: Value> {
    tree: Tree<K::Word, V::Word>,
}

impl<K: Key, V: Value> std::fmt::Debug for BTree<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BTree")
            .field("variant", &self.tree.handle.kernels().variant())
            .field("device", &self.tree.handle.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction, and operations on the whole tree.
impl<K: Key, V: Value> BTree<K, V> {
    /// Creates a tree on [`Device::from_environment`] with a pool for `capacity` pairs, which grows when
    /// needed.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// Returns a builder to set the parameters.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Returns the name of the tree's variant.
    pub fn variant(&self) -> &str {
        self.tree.handle.kernels().variant().name
    }

    /// Returns the statistics of the node pool. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.tree.stats()
    }

    /// Returns the number of levels including the leaf level, which is at least 2. Waits for all earlier
    /// launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.tree.examine()?.depth)
    }

    /// Checks the whole tree: order and bounds of all pairs, parents, links, levels, latches, that every live
    /// slab of the pool is a reachable node, and that the pair counter is right. For tests, and for authors
    /// of kernels.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the violated invariant; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.tree.examine().map(drop)
    }

    /// Descends to each key as a lookup does, and counts the nodes read, by level: the cost of a lookup.
    /// Waits.
    ///
    /// ```
    /// use phalanx::BTree;
    ///
    /// let tree = BTree::<u32, u32>::with_capacity(100)?;
    /// assert!(tree.insert(&[1, 2, 3], &[1, 2, 3])?.all_placed());
    /// let walks = tree.walks(&tree.device().from_slice(&[1, 2])?)?;
    /// assert_eq!(walks.nodes[..2], [2, 2]); // a leaf and the root, twice
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the buffer is not of the tree's device; [`Error::Device`] if the device is
    /// lost or lacks the memory.
    pub fn walks(&self, keys: impl AsSlice<K::Word>) -> Result<Walks> {
        self.tree.walks(keys)
    }

    /// Grows the pool so that `additional` more pairs fit, whatever their keys. Batches in streams do not
    /// grow the pool. If a rebuild frees half of the nodes, the tree is first rebuilt, as by
    /// [`Self::compact`]. Waits.
    ///
    /// ```
    /// use phalanx::BTree;
    ///
    /// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
    /// tree.reserve(50_000)?;
    /// let stats = tree.stats()?;
    /// assert!(stats.free > 50_000 / 7);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Budget`] if the pool would exceed its budget; [`Error::TooManySlabs`] if it would have too
    /// many slabs; [`Error::Device`] if the device lacks the memory. The pairs are then unchanged.
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        self.tree.reserve(additional)
    }

    /// Returns a view of the tree for your own kernels. `M` is the type of the variant that [`Self::variant`]
    /// names. In the kernel, open a [`Session`](phalanx_kernels::keyed::Session) on it.
    ///
    /// ```
    /// use phalanx::btree::Growth;
    /// use phalanx::gpu::Grid;
    /// use phalanx::kernels::btree::{Concurrent, Tree};
    /// use phalanx::kernels::keyed::{Packed, PerLane, Session};
    /// use phalanx::kernels::ordered::TreeView;
    /// use phalanx::kernels::slab::Spread;
    /// use phalanx::{BTree, Device};
    /// use simt::{Thread, kernel};
    ///
    /// #[kernel]
    /// fn fill(tree: TreeView<Tree<Packed, Spread<128>, Concurrent, 4, 4>>) {
    ///     let mut session = Session::new(tree, PerLane);
    ///     session.insert(Some((Thread::index() as u32, 7)));
    ///     session.finish();
    /// }
    ///
    /// let device = Device::emulator(Default::default());
    /// let tree = BTree::<u32, u32>::builder().device(&device).growth(Growth::Fixed).build()?;
    /// // SAFETY: the tree does not grow, and it is read after the kernel has ended.
    /// unsafe { device.default_stream().launch(Grid::new(2, 128), Fill { tree: tree.view()? })? };
    /// device.synchronize()?;
    /// assert_eq!(tree.len()?, 256);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Since kernels may then run at any time, no [large batch](LargeBatches) rebuilds the tree until the
    /// next call of `clear`, `compact` or `bulk_build`.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the tree is of another variant.
    ///
    /// # Safety
    /// The view does not keep the tree alive, nor its memory at its address:
    /// - From this call until the launch of the last kernel that takes the view, nothing may replace the
    ///   memory: no thread may call a method that takes `&mut self`, nor, on a tree that grows, a blocking
    ///   call that inserts.
    /// - Those kernels must run on the tree's device. They must have ended before the tree is dropped, and
    ///   before any call that takes `&mut self`, [`Map::iter`] or [`Map::export`].
    /// - They must change the tree only through the view's functions, and count what they change: sessions do
    ///   so automatically.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K::Word, Value = V::Word> + Instance,
    {
        self.tree.thaw()?;
        self.tree.handle.kernels().variant().check::<M>()?;
        // SAFETY: of this variant; the caller keeps the memory.
        Ok(unsafe { self.tree.view() })
    }
}

by_order! {
    /// Operations by key order, in batches. *Concurrency* of [`BTree`] states what holds while others write.
    BTree<K, V>
}

impl<K: Key, V: Value> Searched<K::Word, V::Word> for BTree<K, V> {
    fn search_device(&self) -> &Device {
        &self.tree.handle.device
    }

    fn search(&self, stream: &Stream, search: Search<K::Word, V::Word>) -> Result<()> {
        self.tree.search(stream, search)
    }
}

bulk_methods!(BTree, tree);

impl<K: Key, V: Value> Map for BTree<K, V> {
    type Key = K;
    type Value = V;

    fn with_capacity(capacity: usize) -> Result<Self> {
        Self::with_capacity(capacity)
    }

    fn inner(&self) -> &dyn Structure<Key = K::Word, Value = V::Word> {
        &self.tree
    }

    fn inner_mut(&mut self) -> &mut dyn Structure<Key = K::Word, Value = V::Word> {
        &mut self.tree
    }
}

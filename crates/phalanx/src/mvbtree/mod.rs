//! An ordered map that keeps versions: a B-link tree with snapshots.
mod builder;
pub(crate) mod clock;
mod snapshot;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::Map;
use crate::map::structure::Structure;
use crate::ordered::bulk_build::bulk_methods;
pub use crate::ordered::growth::Growth;
use crate::ordered::history::History;
pub use crate::ordered::history::{EpochLine, MOST, Reclaimed};
use crate::ordered::kernels::Search;
pub use crate::ordered::large_batches::LargeBatches;
use crate::ordered::queries::{Ordered, Searched};
use crate::ordered::tree::Tree;
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::{Builder, Updates, variants};
use gpu::{Device, Stream};
use phalanx_kernels::ordered::{Config, TreeView};
use simt::Instance;
pub use snapshot::{At, Snapshot};
use std::ops::RangeBounds;

/// An ordered map from [keys](Key) to [values](Value) in device memory, with [snapshots](Self::snapshot): a
/// B-link tree whose leaves keep versions. A past state stays readable while writers continue.
///
/// The operations on single keys are those of [`Map`]; this type adds those by key order and those on
/// snapshots. The page `docs/structures/multiversion-b-tree.md` describes layout, proofs and costs. Source:
/// chapter 4 of the thesis on dynamic GPU structures.
///
/// ```
/// use phalanx::MultiVersionBTree;
///
/// let tree = MultiVersionBTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[30, 10, 20], &[3, 1, 2])?.all_placed());
/// let before = tree.snapshot()?;
/// assert!(tree.insert(&[20, 40], &[7, 4])?.all_placed());
/// tree.remove(&[10])?;
/// assert_eq!(tree.at(&before)?.range(&[..])?, [[(10, 1), (20, 2), (30, 3)]]);
/// assert_eq!(tree.range(&[..])?, [[(20, 7), (30, 3), (40, 4)]]);
/// assert_eq!(tree.at(&before)?.get(&[10, 40])?, [Some(1), None]);
/// assert_eq!(tree.at(&before)?.iter()?.map(|(key, _)| key).collect::<Vec<_>>(), [10, 20, 30]);
/// drop(before);
/// tree.drain()?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::mvbtree::Updates;
/// use phalanx::MultiVersionBTree;
///
/// let mut tree = MultiVersionBTree::<u32, u32>::builder().capacity(1000).build()?;
/// tree.bulk_build(&[10, 20, 30], &[1, 2, 3], 0.7)?;
/// assert_eq!(tree.variant(), "mvtree_in_place_spread_128_4x4_u32_u32");
/// assert_eq!(tree.updates(), Updates::InPlace);
/// assert_eq!([tree.successor(&[20])?, tree.predecessor(&[20])?], [[Some((30, 3))], [Some((10, 1))]]);
/// assert_eq!([tree.ceiling(&[15])?, tree.floor(&[15])?], [[Some((20, 2))], [Some((10, 1))]]);
/// assert_eq!((tree.first()?, tree.last()?), (Some((10, 1)), Some((30, 3))));
/// assert_eq!(tree.count(&[10..30])?, [2]);
/// let before = tree.snapshot()?;
/// tree.remove(&[10])?; // copies the leaf, since the snapshot reads it
/// assert_eq!(tree.versions()?, 1);
/// drop(before);
/// assert_eq!((tree.drain()?, tree.versions()?), (1, 0));
/// assert_eq!(tree.reclaimed()?.reclaimed, 0); // with updates in place, no kernel frees versions
/// tree.compact(1.0)?;
/// let (keys, values) = (tree.device().from_slice(&[1, 5])?, tree.device().from_slice(&[10, 50])?);
/// tree.bulk_build_sorted(&keys, &values, 0.7)?;
/// let mut file = Vec::new();
/// tree.save(&mut file)?;
/// let loaded = MultiVersionBTree::<u32, u32>::load(&file[..], MultiVersionBTree::builder())?;
/// loaded.validate()?;
/// assert_eq!((loaded.depth()?, loaded.stats()?.retired), (2, 0));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Operations on single keys: as for [`Map`]. Blocking operations by key order, of this type and of [`At`],
/// read as of one point in time, which is within the call or the snapshot's: they are linearizable. With
/// [out-of-place updates](Updates::OutOfPlace), so is each query of [`Self::ordered_on`]; concurrently with
/// in-place updates, its queries have only the guarantees of those of [`crate::BTree`]. [`At::ordered_on`]
/// always reads as of its snapshot.
///
/// A [large batch](LargeBatches) of a blocking call may wait for the device, and, while no snapshot lives,
/// rebuild the tree while all other calls wait.
///
/// A snapshot lives until it is dropped. It borrows the tree, so no method that takes `&mut self` can be
/// called until then.
///
/// # Cost
///
/// In addition to the accesses of a [`BTree`](crate::BTree): in place, the first update of a leaf after a
/// snapshot allocates a slab and copies the leaf, 128 bytes or 256; out of place, every update does so. A
/// read as of a snapshot reads the leaf's pairs again, its version word, and one version per step back. Calls
/// on the whole tree:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | as [`BTree::with_capacity`](crate::BTree::with_capacity); 4 KiB for snapshots, and memory for epochs |
/// | `snapshot` | waits for the device; after snapshots were dropped, launches a sweep; copies the timestamp and the clock, 20 bytes at most |
/// | `snapshot_on` | one launch, without waiting; waits and sweeps only if all slots for snapshots are taken |
/// | `at` | O(1) on the host |
/// | `successor`, `predecessor`, `ceiling`, `floor`, `first`, `last`, `count`, `range` | `snapshot` (out of place, `snapshot_on`), then as [`BTree`](crate::BTree) |
/// | `drain` | a sweep: waits for the device; launches that read each slab's header, each leaf's version word and each version |
/// | `stats` | waits for the device; one launch reads the bitmaps |
/// | `versions`, `depth`, `validate` | waits for the device; one launch reads all nodes |
/// | `reclaimed` | waits for the device, copies the memory of the epochs to the host |
/// | `bulk_build`, `bulk_build_sorted`, `compact`, `load` | as those of [`BTree`](crate::BTree); they also sweep |
/// | `view` | O(1) on the host; no launch |
pub struct MultiVersionBTree<K: Key, V: Value> {
    tree: Tree<K::Word, V::Word>,
}

impl<K: Key, V: Value> std::fmt::Debug for MultiVersionBTree<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiVersionBTree")
            .field("variant", &self.tree.handle.kernels().variant())
            .field("device", &self.tree.handle.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction, and operations on the whole tree.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// Creates a tree on [`Device::from_environment`] with a pool for `capacity` pairs, which grows when
    /// needed. Updates are in place.
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

    /// Returns how updates keep versions, which determines whether streams and kernels can take snapshots.
    pub fn updates(&self) -> Updates {
        if self.tree.handle.kernels().shape().moves { Updates::OutOfPlace } else { Updates::InPlace }
    }

    /// Returns the statistics of the pool of nodes and versions. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.tree.stats()
    }

    /// Returns the number of old versions of leaves that are not freed. Waits for all earlier launches, and
    /// reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn versions(&self) -> Result<usize> {
        Ok(self.tree.examine()?.versions as usize)
    }

    /// Returns the numbers of versions that kernels have retired and freed by epochs. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reclaimed(&self) -> Result<Reclaimed> {
        self.with_history(History::reclaimed)
    }

    /// Returns the number of levels including the leaf level, which is at least 2. Waits for all earlier
    /// launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.tree.examine()?.depth)
    }

    /// Checks the whole tree: everything that [`crate::BTree::validate`] checks, that every live slab that is
    /// not a node is an old version, and that every leaf has its timestamp.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the violated invariant; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.tree.examine().map(drop)
    }

    /// Frees all versions that no live snapshot reads, including those that kernels have retired but not
    /// freed. Returns the number of freed versions. Waits for all earlier launches. Blocking calls that write
    /// do this automatically after snapshots were dropped.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn drain(&self) -> Result<usize> {
        self.tree.sweep()
    }

    /// Returns a view of the tree for your own kernels. `M` is the type of the variant that [`Self::variant`]
    /// names. All threads of each block, which must have at least 128 threads, must call `M::enter` before
    /// and `M::leave` after they use the view. What they read as of a snapshot of their own must also be
    /// between the two.
    ///
    /// ```
    /// use phalanx::gpu::Grid;
    /// use phalanx::kernels::btree::Tree;
    /// use phalanx::kernels::keyed::{Kind, Packed, PerLane, Session};
    /// use phalanx::kernels::mvbtree::{InPlace, Versioned};
    /// use phalanx::kernels::ordered::TreeView;
    /// use phalanx::kernels::slab::Spread;
    /// use phalanx::mvbtree::Growth;
    /// use phalanx::{Device, MultiVersionBTree};
    /// use simt::{Thread, kernel};
    ///
    /// type Variant = Tree<Versioned<Packed>, Spread<128>, InPlace, 4, 4>;
    ///
    /// #[kernel]
    /// fn fill(tree: TreeView<Variant>) {
    ///     Variant::enter(tree);
    ///     let mut session = Session::new(tree, PerLane);
    ///     session.insert(Some((Thread::index() as u32, 7)));
    ///     session.finish();
    ///     Variant::leave(tree);
    /// }
    ///
    /// let device = Device::emulator(Default::default());
    /// let tree = MultiVersionBTree::<u32, u32>::builder().device(&device).growth(Growth::Fixed).build()?;
    /// // SAFETY: the tree does not grow, nobody takes snapshots, and the tree is read after the kernel has
    /// // ended.
    /// unsafe { device.default_stream().launch(Grid::new(2, 128), Fill { tree: tree.view()? })? };
    /// device.synchronize()?;
    /// assert_eq!(tree.len()?, 256);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// As for [`crate::BTree::view`], no [large batch](LargeBatches) rebuilds the tree afterwards.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the tree is of another variant.
    ///
    /// # Safety
    /// - As for [`crate::BTree::view`], where blocking removals count as insertions, since they may replace
    ///   the memory too.
    /// - If updates are in place: until the last kernel that takes the view has ended, no thread may take a
    ///   [snapshot](Self::snapshot), drop one, or call [`Self::drain`].
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K::Word, Value = V::Word> + Instance,
    {
        self.tree.handle.kernels().variant().check::<M>()?;
        // SAFETY: of this variant; the caller keeps the memory.
        Ok(unsafe { self.tree.view() })
    }

    fn with_history<T>(&self, run: impl FnOnce(&History) -> Result<T>) -> Result<T> {
        let memory = self.tree.handle.read();
        match &memory.history {
            Some(history) => run(history),
            None => Err(Error::ClockStands),
        }
    }
}

/// Operations by key order, in batches, as of one point in time within the call.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// Returns for each key the pair with the next higher key. The key itself need not be in the tree.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory. The call takes a snapshot of its own, so
    /// also [`Error::Snapshots`] if too many snapshots are alive and, if updates are in place,
    /// [`Error::Moments`] if all timestamps are used up.
    #[doc(alias = "upper_bound")]
    pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.successor(keys))
    }

    /// Returns for each key the pair with the next lower key. The key itself need not be in the tree.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.predecessor(keys))
    }

    /// Returns for each key its own pair or, if it is not in the tree, the pair with the next higher key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "lower_bound")]
    pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.ceiling(keys))
    }

    /// Returns for each key its own pair or, if it is not in the tree, the pair with the next lower key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.floor(keys))
    }

    /// Returns the pair with the lowest key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "first_key_value")]
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.now(|now| now.first())
    }

    /// Returns the pair with the highest key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.now(|now| now.last())
    }

    /// Returns the number of keys in each range.
    ///
    /// # Errors
    /// [`Error::Range`] if the lower end of a range is above its upper end; otherwise as [`Self::successor`].
    pub fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
        self.now(|now| now.count(ranges))
    }

    /// Returns the pairs in each range, in key order.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
        self.now(|now| now.range(ranges))
    }

    /// Returns the operations by key order on device buffers, submitted to a stream. They read the tree as it
    /// is when their kernels run: see *Concurrency* of this type.
    ///
    /// ```
    /// use phalanx::MultiVersionBTree;
    ///
    /// let tree = MultiVersionBTree::<u32, u32>::with_capacity(100)?;
    /// assert!(tree.insert(&[1, 5], &[10, 50])?.all_placed());
    /// let (device, stream) = (tree.device(), tree.device().stream()?);
    /// let (lows, highs) = (device.from_slice(&[0u32])?, device.from_slice(&[5u32])?);
    /// let mut counts = device.zeroed::<u64>(1)?;
    /// tree.ordered_on(&stream).count(&lows, &highs, &mut counts)?;
    /// assert_eq!(counts.read()?, [2]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K::Word, V::Word> {
        Ordered::new(self, stream)
    }
}

impl<K: Key, V: Value> Searched<K::Word, V::Word> for MultiVersionBTree<K, V> {
    fn search_device(&self) -> &Device {
        Map::device(self)
    }

    fn search(&self, stream: &Stream, search: Search<K::Word, V::Word>) -> Result<()> {
        self.tree.search(stream, search)
    }
}

bulk_methods!(MultiVersionBTree, tree);

impl<K: Key, V: Value> Map for MultiVersionBTree<K, V> {
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

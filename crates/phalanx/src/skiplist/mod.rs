//! An ordered map: a skip list of super-nodes in device memory.
mod builder;
mod compact;
mod dirty_flags;
pub(crate) mod kernels;
mod list;
pub(crate) mod passes;

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
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::{Builder, variants};
use gpu::{AsSlice, Device, Stream};
use list::List;
pub use passes::Assignment;
use phalanx_kernels::ordered::{COUNTERS, TreeView};
use phalanx_kernels::skiplist::{Event, Layers};
use simt::Instance;

/// An ordered map from [keys](Key) to [values](Value) in device memory: a skip list whose layers are linked
/// nodes of 14 or 30 pairs.
///
/// Reads take no latch; an update latches one node, and also the next one if the two merge. A key enters the
/// layer above when a full node is split and the key begins the new node. Sparse nodes merge; the merged ones
/// are reclaimed when memory runs short. The operations on single keys are those of [`Map`]; this type and
/// [`Ordered`] add those by key order. The page `docs/structures/skip-list.md` describes layout, proofs and
/// costs. Source: GFSL as described in section 2.2 of the OOPSLA 2026 paper on oversubscribed memory, with
/// the improvements of its section 4.2.1.
///
/// ```
/// use phalanx::SkipList;
///
/// let list = SkipList::<u32, u32>::with_capacity(100)?;
/// assert!(list.insert(&[30, 10, 20], &[3, 1, 2])?.all_placed());
/// assert_eq!(list.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(list.predecessor(&[30, 10])?, [Some((20, 2)), None]);
/// list.remove(&[10])?;
/// assert_eq!(list.first()?, Some((20, 2)));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SkipList;
///
/// let mut list = SkipList::<u32, u32>::builder().capacity(1000).build()?;
/// list.bulk_build(&[30, 10, 20], &[3, 1, 2], 0.7)?;
/// let walks = list.walks(&list.device().from_slice(&[10, 20])?)?;
/// assert_eq!((walks.keys, list.depth()?, list.index_nodes()?), (2, 2, 1));
/// list.remove(&[10, 20])?;
/// assert_eq!((list.merged()?, list.reclaim()?), (0, 0)); // a single node does not merge
/// list.reserve(10_000)?;
/// assert!(list.stats()?.free > 10_000 / 14);
/// let (keys, values) = (list.device().from_slice(&[1, 5])?, list.device().from_slice(&[10, 50])?);
/// list.bulk_build_sorted(&keys, &values, 1.0)?;
/// list.compact(0.7)?;
/// assert_eq!(list.iter()?.collect::<Vec<_>>(), [(1, 10), (5, 50)]);
/// assert_eq!(list.counters()?.latches, 0); // only variants `list_counted_...` count
/// let mut file = Vec::new();
/// list.save(&mut file)?;
/// let loaded = SkipList::<u32, u32>::load(&file[..], SkipList::builder())?;
/// loaded.validate()?;
/// assert_eq!(loaded.variant(), "list_spread_128_8x2_u32_u32");
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Operations on single keys: as for [`Map`]. Operations by key order may run concurrently with all others.
/// Each returned pair was in the list at some time during the call, and a pair that is in the list throughout
/// the call is returned exactly once. But the pairs of one result need not have been in the list all at the
/// same time. `bulk_build`, `compact` and `clear` take `&mut self`; between the launches of a blocking call,
/// the pool grows and merged nodes are reclaimed. A [large batch](LargeBatches) of a blocking call may wait
/// for the device, and rebuild the list while all other calls wait.
///
/// # Cost
///
/// The number of layers is the logarithm of the number of pairs to base 14 × fill. A lookup searches the
/// directory, then reads one node of 128 or 256 bytes per layer below it: two or three nodes for 2^20 to 2^24
/// pairs; a miss reads one node more. An update latches one node of the data layer. Calls on the whole list:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | as [`BTree::with_capacity`](crate::BTree::with_capacity) |
/// | `stats` | waits for the device; one launch reads the bitmaps |
/// | `depth`, `index_nodes`, `validate` | waits for the device; one launch reads all nodes |
/// | `walks` | one launch, and a wait; allocates 64 bytes |
/// | `merged` | waits for the device, copies 8 KiB of counters |
/// | `counters` | waits for the device, copies 32 bytes |
/// | `reclaim` | waits; launches that read all data nodes twice, sort their low keys and handles, and write their tails and the index, an eighth of the nodes; allocates the lists of nodes |
/// | `bulk_build`, `bulk_build_sorted`, `compact`, `reserve`, `load` | as those of [`BTree`](crate::BTree) |
/// | `view` | O(1) on the host; no launch |
///
/// The operations by key order cost the launches and copies of those of [`BTree`](crate::BTree).
pub struct SkipList<K: Key, V: Value> {
    list: List<K::Word, V::Word>,
}

impl<K: Key, V: Value> std::fmt::Debug for SkipList<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SkipList")
            .field("variant", &self.list.kernels.variant())
            .field("device", &self.list.tree.handle.device.name())
            .finish_non_exhaustive()
    }
}

/// Event counts since a list was created, for variants that count (`list_counted_...`): table 1 of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Attempts to acquire a latch.
    pub attempts: u64,
    /// Acquired latches.
    pub latches: u64,
    /// Links followed within a layer.
    pub lateral: u64,
    /// Links followed to the layer below.
    pub down: u64,
}

/// Construction, and operations on the whole list.
impl<K: Key, V: Value> SkipList<K, V> {
    /// Creates a list on [`Device::from_environment`] with a pool for `capacity` pairs, which grows when
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

    /// Returns the name of the list's variant.
    pub fn variant(&self) -> &str {
        self.list.kernels.variant().name
    }

    /// Returns the statistics of the node pool; merged nodes count as live. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.list.tree.stats()
    }

    /// Returns the number of layers including the data layer, which is at least 2. Waits for all earlier
    /// launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.list.tree.examine()?.depth)
    }

    /// Returns the number of nodes in index layers. Waits for all earlier launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn index_nodes(&self) -> Result<usize> {
        Ok(self.list.tree.examine()?.inner as usize)
    }

    /// Checks the whole list: order and bounds of all pairs, that every index entry is correct, that the
    /// links connect each layer from end to end and reach every live slab of the pool, latches, and that the
    /// pair counter is right.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the violated invariant; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.list.tree.examine().map(drop)
    }

    /// Descends to each key as a lookup does, and counts the nodes read, by layer: see
    /// [`crate::BTree::walks`]. Waits.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the buffer is not of the list's device; [`Error::Device`] if the device is
    /// lost or lacks the memory.
    pub fn walks(&self, keys: impl AsSlice<K::Word>) -> Result<Walks> {
        self.list.tree.walks(keys)
    }

    /// Returns the number of merged nodes that still occupy slabs. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn merged(&self) -> Result<usize> {
        self.list.merged()
    }

    /// Returns the event counts, which are 0 for variants that do not count. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn counters(&self) -> Result<Counters> {
        self.list.tree.handle.exclusive(|_, memory| {
            let mut words = [0; Event::ALL.len()];
            memory.directory.words().read_into(COUNTERS, &mut words)?;
            let [attempts, latches, lateral, down] = words;
            Ok(Counters { attempts, latches, lateral, down })
        })
    }

    /// Frees the slabs of merged nodes and of data nodes without pairs, and rebuilds the index layers. Waits
    /// until nothing runs. Returns the number of freed slabs.
    ///
    /// Blocking calls do this automatically: if a quarter of the nodes have merged, or were emptied by
    /// `retain_keys` or `retain_values`; before the pool grows, if that frees an eighth of its slabs; and
    /// before elements are refused, if that frees any slab.
    ///
    /// # Errors
    /// [`Error::Device`] if the device has no memory for the list of nodes; the skip list is then unchanged.
    pub fn reclaim(&self) -> Result<usize> {
        self.list.reclaim(0)
    }

    /// Grows the pool so that `additional` more pairs fit: see [`crate::BTree::reserve`].
    ///
    /// # Errors
    /// As [`crate::BTree::reserve`].
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        self.list.tree.reserve(additional)
    }

    /// Returns a view of the list for your own kernels. `M` is the type of the variant that [`Self::variant`]
    /// names. In the kernel, open a [`Session`](phalanx_kernels::keyed::Session) on it.
    ///
    /// ```
    /// use phalanx::gpu::Grid;
    /// use phalanx::kernels::keyed::{Packed, PerLane, Session};
    /// use phalanx::kernels::ordered::TreeView;
    /// use phalanx::kernels::skiplist::{List, Unsorted};
    /// use phalanx::kernels::slab::Spread;
    /// use phalanx::skiplist::Growth;
    /// use phalanx::{Device, SkipList};
    /// use simt::{Thread, kernel};
    ///
    /// #[kernel]
    /// fn fill(list: TreeView<List<Packed, Spread<128>, Unsorted, 8, 2>>) {
    ///     let mut session = Session::new(list, PerLane);
    ///     session.insert(Some((Thread::index() as u32, 7)));
    ///     session.finish();
    /// }
    ///
    /// let device = Device::emulator(Default::default());
    /// let list = SkipList::<u32, u32>::builder().device(&device).growth(Growth::Fixed).build()?;
    /// // SAFETY: the list does not grow, and it is read after the kernel has ended.
    /// unsafe { device.default_stream().launch(Grid::new(2, 128), Fill { list: list.view()? })? };
    /// device.synchronize()?;
    /// assert_eq!(list.len()?, 256);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// As for [`crate::BTree::view`], no [large batch](LargeBatches) rebuilds the list afterwards.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the list is of another variant.
    ///
    /// # Safety
    /// The view does not keep the list alive, nor its memory at its address:
    /// - From this call until the launch of the last kernel that takes the view, nothing may replace the
    ///   memory: no thread may call a method that takes `&mut self`, [`Self::reclaim`], or a blocking call
    ///   that inserts or removes.
    /// - Those kernels must run on the list's device. They must have ended before the list is dropped, and
    ///   before any call that takes `&mut self`, [`Map::iter`] or [`Map::export`].
    /// - They must change the list only through the view's functions, and count what they change: sessions do
    ///   so automatically.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Layers<Key = K::Word, Value = V::Word> + Instance,
    {
        self.list.kernels.variant().check::<M>()?;
        // SAFETY: of this variant; the caller keeps the memory.
        Ok(unsafe { self.list.tree.view() })
    }
}

by_order! {
    /// Operations by key order, in batches. *Concurrency* of [`SkipList`] states what holds while others
    /// write.
    SkipList<K, V>
}

impl<K: Key, V: Value> Searched<K::Word, V::Word> for SkipList<K, V> {
    fn search_device(&self) -> &Device {
        Map::device(self)
    }

    fn search(&self, stream: &Stream, search: Search<K::Word, V::Word>) -> Result<()> {
        self.list.tree.search(stream, search)
    }
}

bulk_methods!(SkipList, list.tree);

impl<K: Key, V: Value> Map for SkipList<K, V> {
    type Key = K;
    type Value = V;

    fn with_capacity(capacity: usize) -> Result<Self> {
        Self::with_capacity(capacity)
    }

    fn inner(&self) -> &dyn Structure<Key = K::Word, Value = V::Word> {
        &self.list
    }

    fn inner_mut(&mut self) -> &mut dyn Structure<Key = K::Word, Value = V::Word> {
        &mut self.list
    }
}

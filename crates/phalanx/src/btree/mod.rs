//! An ordered map: a B-link tree in device memory.
pub(crate) mod builder;
pub(crate) mod directory;
pub(crate) mod engine;
mod frozen;
pub(crate) mod ordered;
pub(crate) mod sorter;
pub(crate) mod trees;

#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::map::batches::belongs;
use crate::map::export::Columns;
use crate::map::launch::Batch;
use crate::map::structure::{Room, Scans, Structure};
use crate::map::{Map, file};
use crate::primitives::{Bits, Fold, Workspace, runs_bytes, sort_bytes};
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::Builder;
pub use frozen::{Frozen, Lookups};
use gpu::{Buffer, Device, Stream};
pub use ordered::Ordered;
use phalanx_kernels::btree::{Config, TreeView};
use simt::Instance;
use std::io::Read;
pub use trees::Growth;
pub use trees::Walks;
use trees::{Trees, USUAL_FILL};

/// An ordered map from `u32` or `u64` to `u32` or `u64` in device memory: a B-link tree of nodes of 14 pairs.
///
/// Reads take no latch, writes that of one leaf; nodes that are full are split on the way. It grows inside of
/// launches. What it can do with single keys is in [`Map`]; what goes by order is here. The page
/// `docs/structures/btree.md` has layout, proofs and costs. Source: chapter 3 of the thesis on dynamic GPU
/// structures.
///
/// ```
/// use phalanx::{BTree, Map};
///
/// let tree = BTree::<u32, u32>::with_capacity(100)?;
/// tree.insert(&[30, 10, 20], &[3, 1, 2])?;
/// assert_eq!(tree.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(tree.successor(&[10, 30])?, [Some((20, 2)), None]);
/// assert_eq!(tree.last()?, Some((30, 3)));
/// tree.remove(&[10])?;
/// assert_eq!(tree.first()?, Some((20, 2)));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// That of [`Map`], for operations on one key. What goes by order may run beside everything too: each pair
/// that it gives was there at some moment of the call, and a pair that is there throughout is given, once;
/// but the pairs of one answer need not have been there at one moment. `bulk_build`, `compact` and `clear`
/// take `&mut self`; the pool grows between the launches of a blocking call. [`Self::frozen`] gives readers
/// the tree alone.
pub struct BTree<K, V> {
    trees: Trees<K, V>,
}

impl<K, V> std::fmt::Debug for BTree<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BTree")
            .field("variant", &self.trees.owner.name)
            .field("device", &self.trees.owner.device.name())
            .finish_non_exhaustive()
    }
}

/// The names of all kinds of tree for these types of key and value: pool, bytes a node, lanes a tile x words
/// a lane, bits of key and value.
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::names::<K, V>()
}

/// Making one, and the tree as a whole.
impl<K: Key, V: Value> BTree<K, V> {
    /// One on [`Device::from_environment`] for `capacity` pairs, which takes more.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// All parameters.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// The name of the kind of tree.
    pub fn variant(&self) -> &str {
        &self.trees.owner.name
    }

    /// What the pool of nodes holds. Waits for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.trees.stats()
    }

    /// Levels, that of the leaves among them: 2 at least. Waits for the launches asked for before, and looks
    /// at all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.trees.examine()?.depth)
    }

    /// Examines the whole tree: order and bounds of all pairs, parents, links, levels, latches, that every
    /// live slab of the pool is a node that can be reached, and that as many pairs are there as are counted.
    /// For tests, and for those who write kernels of their own.
    ///
    /// # Errors
    /// [`Error::Invalid`], which says what is wrong; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.trees.examine().map(drop)
    }

    /// Walks to each key as a look-up does, and counts the nodes that are read on the way, by level: what a
    /// look-up costs. Waits.
    ///
    /// ```
    /// use phalanx::{BTree, Map};
    ///
    /// let tree = BTree::<u32, u32>::with_capacity(100)?;
    /// tree.insert(&[1, 2, 3], &[1, 2, 3])?;
    /// let walks = tree.walks(&tree.device().from_slice(&[1, 2])?)?;
    /// assert_eq!(walks.nodes[..2], [2, 2]); // a leaf and the root, twice
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`] when the buffer is not of the tree's device; [`Error::Device`] when the device
    /// is lost or lacks the memory.
    pub fn walks(&self, keys: &Buffer<K>) -> Result<Walks> {
        belongs(self.device(), "keys", keys.device())?;
        self.trees.walks(keys)
    }

    /// Replaces everything by these pairs, which are sorted on the device and built level by level from the
    /// leaves up: much faster than insertions. `fill` is the part of each node that is used, above 0 and at
    /// most 1: full nodes make a low tree, and are split by the first insertions. Of several pairs with one
    /// key the one with the highest value stays.
    ///
    /// ```
    /// use phalanx::BTree;
    ///
    /// let mut tree = BTree::<u32, u32>::with_capacity(10)?;
    /// tree.bulk_build(&[5, 3, 5, 9], &[1, 2, 7, 4], 0.7)?;
    /// assert_eq!(tree.range(&[..])?, [[(3, 2), (5, 7), (9, 4)]]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] when the slices differ in length; [`Error::TooMany`] beyond 2^30 - 1 pairs;
    /// [`Error::Fill`]; [`Error::Budget`]; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        self.trees.bulk_build(keys, values, fill)
    }

    /// [`Self::bulk_build`] from device buffers whose keys are in order, each below the next. Waits.
    ///
    /// # Errors
    /// [`Error::Unsorted`] when they are not; [`Error::OtherDevice`]; else as [`Self::bulk_build`]. The tree
    /// is then as it was.
    pub fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
        self.trees.bulk_build_sorted(keys, values, fill)
    }

    /// Builds the tree anew with nodes of the same `fill`: removals leave nodes that are thin or empty. The
    /// pairs stay on the device, which needs room for three copies of them beside the tree.
    ///
    /// # Errors
    /// As [`Self::bulk_build`].
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        self.trees.compact(fill)
    }

    /// Reads a map that [`Map::save`] wrote, into a tree with the builder's parameters, and with room for all
    /// pairs where its capacity is less. It is built as [`Self::bulk_build`] builds one, with nodes 0.7 full.
    ///
    /// # Errors
    /// [`Error::Format`] when it is none, of another version or other types, or damaged; [`Error::Io`]; those
    /// of [`Builder::build`] and of [`Self::bulk_build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        file::load_at_once(reader, |keys, values| {
            let mut tree = builder.at_least(keys.len()).build()?;
            tree.bulk_build(keys, values, USUAL_FILL)?;
            Ok(tree)
        })
    }

    /// Makes room for `additional` more pairs than there are now, whatever their keys, so that launches in
    /// streams, which do not grow the pool, find it. Where that frees half of the nodes the tree is built
    /// anew first, as [`Self::compact`] does. Waits.
    ///
    /// ```
    /// use phalanx::{BTree, Map};
    ///
    /// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
    /// tree.reserve(50_000)?;
    /// let stats = tree.stats()?;
    /// assert!(stats.free > 50_000 / 7);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Budget`]; [`Error::TooManySlabs`]; the device's when it lacks the memory. The pairs are then
    /// as they were.
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        self.trees.reserve(additional)
    }

    /// The tree as kernels of your own take it: `M` is the kind that [`Self::variant`] names. In the kernel,
    /// open a [`Session`](phalanx_kernels::keyed::Session) on it.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] when the tree is of another kind.
    ///
    /// # Safety
    /// The view does not keep the tree alive, nor its memory in its place:
    /// - From this call until the launch of the last kernel that takes the view, nothing replaces the memory:
    ///   no method that takes `&mut self`, and on a tree that grows no blocking call that inserts, in any
    ///   thread.
    /// - Those kernels run on the tree's device, and have ended when the tree is dropped, or asked for
    ///   anything that takes `&mut self`, [`Map::iter`] or [`Map::export`].
    /// - They change the tree through the view's functions alone, and count what they do: sessions do so by
    ///   themselves.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        self.trees.thaw()?;
        self.trees.owner.view::<M>()
    }
}

/// Pairs on the device in the order of keys, one a key: the first `count` of the buffers.
pub(crate) struct Runs<K: Key, V: Value> {
    pub(crate) keys: Buffer<K>,
    pub(crate) values: Buffer<V>,
    pub(crate) count: usize,
}

impl<K: Key, V: Value> Runs<K, V> {
    /// Those of pairs in any order; of several with one key, that with the highest value.
    pub(crate) fn of((mut unsorted, mut arguments): Columns<K, V>) -> Result<Self> {
        let (device, len) = (unsorted.device().clone(), unsorted.len());
        let (mut keys, mut values) = (device.buffer(len)?, device.buffer(len)?);
        let mut count = device.buffer::<u32>(1)?;
        let mut work = Workspace::on_device(&device, sort_bytes::<K, V>(len).max(runs_bytes(len)))?;
        work.sort_pairs_in_place(&mut unsorted, &mut arguments, Bits::ALL)?;
        work.reduce_by_key(Fold::Max, (&unsorted, &arguments), (&mut keys, &mut values), &mut count)?;
        let count = count.read()?[0] as usize;
        Ok(Self { keys, values, count })
    }
}

/// Pairs in the order of keys, one a key.
pub(crate) fn sorted<K: Key, V: Value>(pairs: impl Iterator<Item = (K, V)>) -> crate::map::Pairs<K, V> {
    let mut pairs: Vec<(K, V)> = pairs.collect();
    pairs.sort_unstable_by_key(|&(key, _)| key);
    pairs.dedup_by_key(|&mut (key, _)| key);
    pairs.into_iter().unzip()
}

impl<K: Key, V: Value> Structure for BTree<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.trees.owner.device
    }

    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.trees.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.trees.scans(run)
    }

    fn age(&self) -> u64 {
        self.trees.age()
    }

    fn grows(&self) -> bool {
        self.trees.grows()
    }

    fn make_room(&self) -> Result<()> {
        self.trees.make_room()
    }

    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        self.trees.make_room_for(refused, seen)
    }

    fn pairs(&self) -> Result<usize> {
        self.trees.pairs()
    }

    fn empty(&mut self) -> Result<()> {
        self.trees.empty()
    }

    fn bytes(&self) -> usize {
        self.trees.bytes()
    }
}

impl<K: Key, V: Value> Map for BTree<K, V> {}

//! An ordered map that keeps versions: a B-link tree of which snapshots can be taken.
mod builder;
pub(crate) mod history;
mod snapshot;

#[allow(unused_imports)] // documentation names it
use crate::Error;
pub use crate::btree::Growth;
use crate::btree::engine::Search;
use crate::btree::ordered::{Ordered, Searched};
use crate::btree::trees::{Trees, USUAL_FILL};
use crate::map::launch::Batch;
use crate::map::structure::{Room, Scans, Structure};
use crate::map::{IntoIter, Map, file};
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::{Builder, Updates};
use gpu::{Buffer, Device, Stream};
pub use history::{EpochLine, MOST, Reclaimed};
pub(crate) use history::{History, Moment};
use phalanx_kernels::btree::{Config, TreeView};
use simt::Instance;
pub use snapshot::{At, Snapshot};
use std::io::Read;
use std::ops::RangeBounds;
use std::sync::{PoisonError, RwLock};

/// An ordered map from `u32` or `u64` to `u32` or `u64` in device memory, of which
/// [snapshots](Self::snapshot) can be taken: a B-link tree whose leaves keep versions.
///
/// What it can do with single keys is in [`Map`]; what goes by order, and what is asked of the past, is here.
/// The page `docs/structures/multiversion-b-tree.md` has layout, proofs and costs. Source: chapter 4 of the
/// thesis on dynamic GPU structures.
///
/// ```
/// use phalanx::{Map, MultiVersionBTree};
///
/// let tree = MultiVersionBTree::<u32, u32>::with_capacity(100)?;
/// tree.insert(&[30, 10, 20], &[3, 1, 2])?;
/// let before = tree.snapshot()?;
/// tree.insert(&[20, 40], &[7, 4])?;
/// tree.remove(&[10])?;
/// assert_eq!(tree.at(&before)?.range(&[..])?, [[(10, 1), (20, 2), (30, 3)]]);
/// assert_eq!(tree.range(&[..])?, [[(20, 7), (30, 3), (40, 4)]]);
/// assert_eq!(tree.at(&before)?.get(&[10, 40])?, [Some(1), None]);
/// assert_eq!(tree.iter(&before)?.map(|(key, _)| key).collect::<Vec<_>>(), [10, 20, 30]);
/// drop(before);
/// tree.drain()?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// That of [`Map`], for operations on one key. The blocking calls by order, here and of [`At`], answer as of
/// one moment, which is within the call or that of the snapshot: they are linearizable. So are those of
/// [`Self::ordered_on`] for each question, where updates are [out of place](Updates::OutOfPlace); beside
/// updates in place they are what those of [`crate::BTree`] are, but for [`At::ordered_on`], which answers as
/// of its snapshot always.
///
/// A snapshot lives until it is dropped, and as long as it does nobody can ask for what takes `&mut self`.
pub struct MultiVersionBTree<K, V> {
    trees: Trees<K, V>,
    /// Held shared by questions that read as of a snapshot of their own, and alone by who makes room, which
    /// such a snapshot would be in the way of.
    asked: RwLock<()>,
}

impl<K, V> std::fmt::Debug for MultiVersionBTree<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiVersionBTree")
            .field("variant", &self.trees.owner.name)
            .field("device", &self.trees.owner.device.name())
            .finish_non_exhaustive()
    }
}

/// The names of all kinds of tree for these types of key and value: the way of updates, bytes a node, lanes a
/// tile x words a lane, bits of key and value.
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::names::<K, V>()
}

/// Making one, and the tree as a whole.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// One on [`Device::from_environment`] for `capacity` pairs, which takes more, and changes in place.
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

    /// Whether snapshots can be taken in streams and by kernels.
    pub fn updates(&self) -> Updates {
        if self.trees.owner.engine.shape().moves { Updates::OutOfPlace } else { Updates::InPlace }
    }

    /// What the pool of nodes and versions holds. Waits for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.trees.stats()
    }

    /// Old versions of leaves that are not freed. Waits, and looks at all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn versions(&self) -> Result<usize> {
        Ok(self.trees.examine()?.versions as usize)
    }

    /// What kernels have freed by epochs. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn reclaimed(&self) -> Result<Reclaimed> {
        self.with_history(History::reclaimed)
    }

    /// Levels, that of the leaves among them: 2 at least. Waits, and looks at all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.trees.examine()?.depth)
    }

    /// Examines the whole tree: all that [`crate::BTree::validate`] does, and that every live slab that is no
    /// node is an old version, and every leaf's time is fixed.
    ///
    /// # Errors
    /// [`Error::Invalid`], which says what is wrong; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.trees.examine().map(drop)
    }

    /// Frees all versions that no live snapshot can ask for. Waits for the launches asked for before, and
    /// gives how many were freed. Blocking calls do this by themselves where snapshots were dropped; what
    /// kernels have retired and not freed is freed here too.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn drain(&self) -> Result<usize> {
        self.trees.sweep()
    }

    /// Replaces everything by these pairs, as [`crate::BTree::bulk_build`] does.
    ///
    /// # Errors
    /// As there.
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

    /// Builds the tree anew with nodes of the same `fill`.
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

    /// The tree as kernels of your own take it: `M` is the kind that [`Self::variant`] names. Around what
    /// they do with it they call `M::enter` and `M::leave`, by all threads of each block, whose threads are
    /// 128 at least; what they read of a snapshot that they took lies between the same two.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] when the tree is of another kind.
    ///
    /// # Safety
    /// - As for [`crate::BTree::view`], where blocking removals count as insertions do, for they make room
    ///   too; and until the last kernel that takes the view has ended nobody takes a
    ///   [snapshot](Self::snapshot), drops one, or asks for [`Self::drain`], where updates are in place.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        self.trees.owner.view::<M>()
    }

    fn with_history<T>(&self, ask: impl FnOnce(&History) -> Result<T>) -> Result<T> {
        let memory = self.trees.owner.read();
        match &memory.history {
            Some(history) => ask(history),
            None => Err(Error::ClockStands),
        }
    }
}

/// By order, as of one moment within the call. Each takes a batch.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// Of each key, the pair with the next higher key, whether the key itself is there or not.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "upper_bound")]
    pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.successor(keys))
    }

    /// Of each key, the pair with the next lower key, whether the key itself is there or not.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.predecessor(keys))
    }

    /// Of each key, its own pair or, where it is not there, that with the next higher key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "lower_bound")]
    pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.ceiling(keys))
    }

    /// Of each key, its own pair or, where it is not there, that with the next lower key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.now(|now| now.floor(keys))
    }

    /// The pair with the lowest key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "first_key_value")]
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.now(|now| now.first())
    }

    /// The pair with the highest key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.now(|now| now.last())
    }

    /// How many keys there are in each range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends of a range are swapped; [`Error::Device`] when the device is lost or
    /// lacks the memory.
    pub fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
        self.now(|now| now.count(ranges))
    }

    /// The pairs in each range, in the order of keys.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
        self.now(|now| now.range(ranges))
    }

    /// Batches by order on device buffers, asked of a stream, as of when their kernels run. See
    /// *Concurrency*.
    pub fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K, V> {
        Ordered::new(self, stream)
    }

    /// All pairs as of a snapshot, in the order of keys, copied to the host before the first is given. Waits
    /// for all launches. For those of now give a new [snapshot](Self::snapshot).
    ///
    /// # Errors
    /// [`Error::OtherTree`]; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn iter(&self, snapshot: &Snapshot<'_, K, V>) -> Result<IntoIter<K, V>> {
        self.at(snapshot)?.iter()
    }
}

impl<K: Key, V: Value> Searched<K, V> for MultiVersionBTree<K, V> {
    fn home(&self) -> &Device {
        Structure::home(self)
    }

    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.trees.search(stream, search)
    }
}

impl<K: Key, V: Value> Structure for MultiVersionBTree<K, V> {
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
        let _nobody_asks = self.asked.write().unwrap_or_else(PoisonError::into_inner);
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

impl<K: Key, V: Value> Map for MultiVersionBTree<K, V> {}

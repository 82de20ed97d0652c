//! An ordered map: a skip list of super-nodes in device memory.
mod builder;
mod compact;
mod dirty_flags;
mod engine;
mod passes;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::btree::engine::Search;
use crate::btree::ordered::{Searched, by_order};
use crate::btree::trees::{Trees, USUAL_FILL};
pub use crate::btree::{Growth, Ordered, Walks};
use crate::btree::{directory, sorted};
use crate::error::made_room;
use crate::map::batches::check_same_device;
use crate::map::launch::{Batch, BatchOp, Scan};
use crate::map::owner::Memory as _;
use crate::map::structure::{Room, Scanner, Scans, Structure};
use crate::map::{IntoIter, Map, file};
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::Builder;
use dirty_flags::{DirtyFlags, SharedDirtyFlags};
use engine::Engine;
use gpu::{Buffer, Device, Stream};
pub use passes::Assignment;
use passes::{Pass, passes};
use phalanx_kernels::btree::{COUNTERS, TreeView};
use phalanx_kernels::skiplist::{Event, Layers};
use simt::Instance;
use std::io::Read;

/// An ordered map from `u32` or `u64` to `u32` or `u64` in device memory: a skip list whose layers are linked
/// nodes of 14 or 30 pairs.
///
/// Reads take no latch; an update latches one node, and also the next one if the two merge. A key enters the
/// layer above when a full node is split and the key begins the new node. Sparse nodes merge; the merged ones
/// are reclaimed when memory runs short. [`Map`] has the operations on single keys; this type and [`Ordered`]
/// have those by key order. The page `docs/structures/skip-list.md` describes layout, proofs and costs.
/// Source: GFSL as described in section 2.2 of the OOPSLA 2026 paper on oversubscribed memory, with the
/// improvements of its section 4.2.1.
///
/// ```
/// use phalanx::{Map, SkipList};
///
/// let list = SkipList::<u32, u32>::with_capacity(100)?;
/// list.insert(&[30, 10, 20], &[3, 1, 2])?;
/// assert_eq!(list.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(list.predecessor(&[30, 10])?, [Some((20, 2)), None]);
/// list.remove(&[10])?;
/// assert_eq!(list.first()?, Some((20, 2)));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Operations on single keys: as for [`Map`]. Operations by key order may run concurrently with all others.
/// Each returned pair was in the list at some time during the call, and a pair that is in the list throughout
/// the call is returned exactly once. But the pairs of one result need not have been in the list all at the
/// same time. `bulk_build`, `compact` and `clear` take `&mut self`; between the launches of a blocking call,
/// the pool grows and merged nodes are reclaimed.
pub struct SkipList<K, V> {
    trees: Trees<K, V, dyn Engine<K, V>>,
    assignment: Assignment,
    notes: SharedDirtyFlags,
}

impl<K, V> std::fmt::Debug for SkipList<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SkipList")
            .field("variant", &self.trees.owner.name)
            .field("device", &self.trees.owner.device.name())
            .finish_non_exhaustive()
    }
}

/// Returns the names of all variants for these key and value types. A name consists of pool, bytes per node,
/// lanes per tile x words per lane, and bits of key and value.
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::names::<K, V>()
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
        &self.trees.owner.name
    }

    /// Returns the statistics of the node pool; merged nodes count as live. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.trees.stats()
    }

    /// Returns the number of layers including the data layer, which is at least 2. Waits for all earlier
    /// launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.trees.examine()?.depth)
    }

    /// Returns the number of nodes in index layers. Waits for all earlier launches, and reads all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn index_nodes(&self) -> Result<usize> {
        Ok(self.trees.examine()?.inner as usize)
    }

    /// Checks the whole list: order and bounds of all pairs, that every index entry is correct, that the
    /// links connect each layer from end to end and reach every live slab of the pool, latches, and that the
    /// pair counter is right.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the violated invariant; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.trees.examine().map(drop)
    }

    /// Descends to each key as a lookup does, and counts the nodes read, by layer: see
    /// [`crate::BTree::walks`]. Waits.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the buffer is not of the list's device; [`Error::Device`] if the device is
    /// lost or lacks the memory.
    pub fn walks(&self, keys: &Buffer<K>) -> Result<Walks> {
        check_same_device(self.device(), "keys", keys.device())?;
        self.trees.walks(keys)
    }

    /// Returns the number of merged nodes that still occupy slabs. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn merged(&self) -> Result<usize> {
        Ok(self.trees.owner.counts()?.long)
    }

    /// Returns the event counts, which are 0 for variants that do not count. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn counters(&self) -> Result<Counters> {
        self.trees.owner.exclusive(|_, _, memory| {
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
        self.give_back(0)
    }

    /// Replaces all pairs by the given ones. They are sorted on the device and the list is built layer by
    /// layer: see [`crate::BTree::bulk_build`].
    ///
    /// # Errors
    /// As [`crate::BTree::bulk_build`].
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        self.trees.bulk_build(keys, values, fill)
    }

    /// [`Self::bulk_build`] from device buffers whose keys are strictly ascending. Waits.
    ///
    /// # Errors
    /// [`Error::Unsorted`] if the keys are not strictly ascending; [`Error::OtherDevice`] if a buffer is not
    /// of the list's device; otherwise as [`Self::bulk_build`]. The list is then unchanged.
    pub fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
        self.trees.bulk_build_sorted(keys, values, fill)
    }

    /// Rebuilds the list with the given `fill` of nodes. The pairs stay on the device, which needs memory for
    /// three copies of them beside the list.
    ///
    /// # Errors
    /// As [`Self::bulk_build`].
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        self.trees.compact(fill)
    }

    /// Grows the pool so that `additional` more pairs fit: see [`crate::BTree::reserve`].
    ///
    /// # Errors
    /// As [`crate::BTree::reserve`].
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        self.trees.reserve(additional)
    }

    /// Loads a map that [`Map::save`] wrote, with the builder's parameters; its capacity is raised to the
    /// number of saved pairs if needed. The list is built as by [`Self::bulk_build`] with a fill of 0.7.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is damaged;
    /// [`Error::Io`] if the reader fails; otherwise as [`Builder::build`] and [`Self::bulk_build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        file::load_at_once(reader, |keys, values| {
            let mut list = builder.at_least(keys.len()).build()?;
            list.bulk_build(keys, values, USUAL_FILL)?;
            Ok(list)
        })
    }

    /// Returns all pairs as they are now, in key order. They are copied to the host before the iterator is
    /// returned. Waits for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = sorted(Map::iter(self)?);
        Ok(keys.into_iter().zip(values))
    }

    /// Returns a view of the list for your own kernels. `M` is the type of the variant that [`Self::variant`]
    /// names. In the kernel, open a [`Session`](phalanx_kernels::keyed::Session) on it.
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
        M: Layers<Key = K, Value = V> + Instance,
    {
        self.trees.owner.view::<M>()
    }

    /// [`Self::reclaim`], if that frees at least `least` slabs. Counting them reads all nodes once. A failed
    /// attempt does not clear the dirty flag.
    fn give_back(&self, least: usize) -> Result<usize> {
        self.notes.looked();
        compact::tidy(&self.trees, least).inspect_err(|_| self.notes.not_looked())
    }

    /// Reclaims nodes if the operations in `asked` may have left many.
    fn give_back_many(&self, asked: DirtyFlags) -> Result<()> {
        if !asked.removals && !asked.retained {
            return Ok(());
        }
        let live = self.stats()?.live;
        let least = MANY.max(live / 4);
        if live > MANY && self.merged()? > least {
            self.give_back(1)?;
        } else if live > MANY && asked.retained {
            // The removing scan has read all nodes: reading them once more at most doubles its cost.
            self.give_back(least)?;
        }
        Ok(())
    }

    /// Launches a batch that may insert, as the assignment prescribes.
    fn insert_as_assigned(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let len = batch.keys.len();
        let many =
            |pass: Pass| phalanx_kernels::skiplist::kernels::passing(len, pass.step, pass.ratio) as u64;
        let (pairs, most) = {
            let memory = self.trees.owner.read();
            (memory.directory.pairs(), memory.directory.most())
        };
        let mut left = match self.assignment {
            Assignment::Spread => passes(len as u64, pairs),
            _ => vec![Pass::WHOLE],
        }
        .into_iter();
        while let Some(pass) = left.next() {
            let memory = self.trees.owner.read();
            memory.directory.wait_for_growth(stream)?;
            self.trees.rebuild_directory_if_due(stream, &memory)?;
            let (engine, parts) = (&*self.trees.owner.engine, memory.parts());
            // SAFETY: as in `Owner::launch`.
            unsafe {
                match (self.assignment, batch.op) {
                    (Assignment::Blocks { keys, thread_blocks }, BatchOp::Insert) => {
                        engine.runs(stream, parts, batch, keys, thread_blocks)?;
                    }
                    _ if pass == Pass::WHOLE => engine.launch(stream, parts, batch)?,
                    _ => engine.pass(stream, parts, batch, pass)?,
                }
            }
            let more_follow = len as u64 > most && left.len() > 0;
            memory.directory.submitted(stream, many(pass), more_follow);
        }
        Ok(())
    }
}

by_order! {
    /// Operations by key order, in batches. *Concurrency* of [`SkipList`] states what holds while others
    /// write.
    SkipList<K, V>
}

impl<K: Key, V: Value> Searched<K, V> for SkipList<K, V> {
    fn home(&self) -> &Device {
        Structure::home(self)
    }

    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.trees.search(stream, search)
    }
}

impl<K: Key, V: Value> Structure for SkipList<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.trees.owner.device
    }

    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        if matches!(batch.op, BatchOp::Remove | BatchOp::Mixed) {
            self.notes.removals();
        }
        if directory::places(batch.op) {
            return self.insert_as_assigned(stream, batch);
        }
        self.trees.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.trees.scans(&mut |scanner| {
            let scan = |scan: Scan<K, V>| {
                if matches!(scan, Scan::RetainBetween { .. }) {
                    self.notes.retained();
                }
                scanner.run(scan)
            };
            run(Scanner { scan: &scan, ..scanner })
        })
    }

    fn generation(&self) -> u64 {
        self.trees.generation()
    }

    fn grows(&self) -> bool {
        self.trees.grows()
    }

    /// Reclaims nodes that have merged or that scans have emptied, if there are many.
    fn grow(&self) -> Result<()> {
        let asked = self.notes.take();
        let made = self.trees.grow().and_then(|()| self.give_back_many(asked));
        made.inspect_err(|_| self.notes.put_back(asked))
    }

    /// Reclaims nodes, or grows the pool if the policy allows. If nothing was removed since the nodes were
    /// last scanned, there is nothing to reclaim: so a full list is not scanned by each call that it refuses.
    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if seen.is_some_and(|age| age != self.generation()) {
            // Another thread has freed or allocated nodes meanwhile.
            return Ok(Room::More);
        }
        // Instead of growing, many must be freed; instead of refusing, one suffices.
        let least = if self.trees.grows() { (self.stats()?.live / 8).max(1) } else { 1 };
        let gives_back = seen.is_some() || !self.trees.grows();
        if gives_back && (self.notes.is_due() || self.merged()? > 0) && made_room(self.give_back(least))? > 0
        {
            return Ok(Room::Freed);
        }
        self.trees.grow_for(refused, seen)
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

/// Number of nodes up to which a reclamation is not worthwhile.
const MANY: usize = 64;

impl<K: Key, V: Value> Map for SkipList<K, V> {}

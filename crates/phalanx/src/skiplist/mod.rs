//! An ordered map: a skip list of super-nodes in device memory.
mod builder;
mod engine;
mod notes;
mod passes;
mod tidy;

#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::btree::engine::Search;
use crate::btree::ordered::{Searched, by_order};
use crate::btree::trees::{Trees, USUAL_FILL};
pub use crate::btree::{Growth, Ordered, Walks};
use crate::btree::{directory, sorted};
use crate::error::made_room;
use crate::map::batches::belongs;
use crate::map::launch::{Ask, Batch, Scan};
use crate::map::owner::Memory as _;
use crate::map::structure::{Room, Scanner, Scans, Structure};
use crate::map::{IntoIter, Map, file};
use crate::slab_alloc::Stats;
use crate::{Key, Result, Value};
pub use builder::Builder;
use engine::Engine;
use gpu::{Buffer, Device, Stream};
use notes::{Asked, Notes};
pub use passes::Assignment;
use passes::{Pass, passes};
use phalanx_kernels::btree::{COUNTERS, TreeView};
use phalanx_kernels::skiplist::{Event, Layers};
use simt::Instance;
use std::io::Read;

/// An ordered map from `u32` or `u64` to `u32` or `u64` in device memory: a skip list whose layers are linked
/// nodes of 14 or 30 pairs.
///
/// Reads take no latch; writes take that of one node, and of the next where two merge. A key comes into the
/// layer above when the node that it begins is cut off from a full one. Nodes that become thin merge, and are
/// given back when memory runs short. What the list can do with single keys is in [`Map`]; what goes by order
/// is here. The page `docs/structures/skip-list.md` has layout, proofs and costs. Source: GFSL, as section
/// 2.2 of the OOPSLA 2026 paper on oversubscribed memory has it, with the improvements of its section 4.2.1.
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
/// That of [`Map`], for operations on one key. What goes by order may run beside everything too: each pair
/// that it gives was there at some moment of the call, and a pair that is there throughout is given, once;
/// but the pairs of one answer need not have been there at one moment. `bulk_build`, `compact` and `clear`
/// take `&mut self`; the pool grows, and merged nodes are given back, between the launches of a blocking
/// call.
pub struct SkipList<K, V> {
    trees: Trees<K, V, dyn Engine<K, V>>,
    assignment: Assignment,
    notes: Notes,
}

impl<K, V> std::fmt::Debug for SkipList<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SkipList")
            .field("variant", &self.trees.owner.name)
            .field("device", &self.trees.owner.device.name())
            .finish_non_exhaustive()
    }
}

/// The names of all kinds of list for these types of key and value: pool, bytes a node, lanes a tile x words
/// a lane, bits of key and value.
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::names::<K, V>()
}

/// What lists count whose kind says so (`list_counted_...`), since they were made: table 1 of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Latches that were tried.
    pub attempts: u64,
    /// Latches that were had.
    pub latches: u64,
    /// Links that were followed, within a layer.
    pub lateral: u64,
    /// Entries that were followed, to the layer below.
    pub down: u64,
}

/// Making one, and the list as a whole.
impl<K: Key, V: Value> SkipList<K, V> {
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

    /// The name of the kind of list.
    pub fn variant(&self) -> &str {
        &self.trees.owner.name
    }

    /// What the pool of nodes holds, merged ones too. Waits for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        self.trees.stats()
    }

    /// Layers, that of the data among them: 2 at least. Waits for the launches asked for before, and looks at
    /// all nodes.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn depth(&self) -> Result<u32> {
        Ok(self.trees.examine()?.depth)
    }

    /// Nodes of index layers. As [`Self::depth`].
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn index_nodes(&self) -> Result<usize> {
        Ok(self.trees.examine()?.inner as usize)
    }

    /// Examines the whole list: order and bounds of all pairs, that every entry of the index is true, that
    /// links go through each layer from end to end, that every live slab of the pool is reached by them,
    /// latches, and that as many pairs are there as are counted.
    ///
    /// # Errors
    /// [`Error::Invalid`], which says what is wrong; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        self.trees.examine().map(drop)
    }

    /// Walks to each key as a look-up does, and counts the nodes that are read on the way, by layer: see
    /// [`crate::BTree::walks`]. Waits.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] when the buffer is not of the list's device; [`Error::Device`] when the device
    /// is lost or lacks the memory.
    pub fn walks(&self, keys: &Buffer<K>) -> Result<Walks> {
        belongs(self.device(), "keys", keys.device())?;
        self.trees.walks(keys)
    }

    /// Nodes that have merged with others since they were last given back, and that occupy slabs still. Waits
    /// for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn merged(&self) -> Result<usize> {
        Ok(self.trees.owner.counts()?.long)
    }

    /// What was counted, by lists whose kind counts; else nothing. Waits for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn counters(&self) -> Result<Counters> {
        self.trees.owner.alone(|_, _, memory| {
            let mut words = [0; Event::ALL.len()];
            memory.directory.words().read_into(COUNTERS, &mut words)?;
            let [attempts, latches, lateral, down] = words;
            Ok(Counters { attempts, latches, lateral, down })
        })
    }

    /// Gives back the slabs of nodes that have merged and of data nodes without a pair, and makes the index
    /// layers anew. Waits until nothing runs. Lists do so by themselves, in blocking calls: where a quarter
    /// of the nodes have merged, or were emptied by `retain_keys` or `retain_values`; before the pool grows,
    /// if an eighth of its slabs become free by it; and before it refuses, if one does. Returns how many
    /// slabs became free.
    ///
    /// # Errors
    /// The device's, when it has no memory for a list of the nodes; the list is then as it was.
    pub fn reclaim(&self) -> Result<usize> {
        self.give_back(0)
    }

    /// Replaces everything by these pairs, which are sorted on the device and built layer by layer: see
    /// [`crate::BTree::bulk_build`].
    ///
    /// # Errors
    /// As [`crate::BTree::bulk_build`].
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        self.trees.bulk_build(keys, values, fill)
    }

    /// [`Self::bulk_build`] from device buffers whose keys are in order, each below the next. Waits.
    ///
    /// # Errors
    /// [`Error::Unsorted`] when they are not; [`Error::OtherDevice`]; else as [`Self::bulk_build`]. The list
    /// is then as it was.
    pub fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
        self.trees.bulk_build_sorted(keys, values, fill)
    }

    /// Builds the list anew with nodes of the same `fill`. The pairs stay on the device, which needs room for
    /// three copies of them beside the list.
    ///
    /// # Errors
    /// As [`Self::bulk_build`].
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        self.trees.compact(fill)
    }

    /// Makes room for `additional` more pairs than there are now: see [`crate::BTree::reserve`].
    ///
    /// # Errors
    /// As for [`crate::BTree::reserve`].
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        self.trees.reserve(additional)
    }

    /// Reads a map that [`Map::save`] wrote, into a list with the builder's parameters, and with room for all
    /// pairs where its capacity is less. It is built as [`Self::bulk_build`] builds one, with nodes 0.7 full.
    ///
    /// # Errors
    /// [`Error::Format`] when it is none, of another version or other types, or damaged; [`Error::Io`]; those
    /// of [`Builder::build`] and of [`Self::bulk_build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        file::load_at_once(reader, |keys, values| {
            let mut list = builder.at_least(keys.len()).build()?;
            list.bulk_build(keys, values, USUAL_FILL)?;
            Ok(list)
        })
    }

    /// All pairs as they are now, in the order of keys, copied to the host before the first is given. Waits
    /// for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = sorted(Map::iter(self)?);
        Ok(keys.into_iter().zip(values))
    }

    /// The list as kernels of your own take it: `M` is the kind that [`Self::variant`] names. In the kernel,
    /// open a [`Session`](phalanx_kernels::keyed::Session) on it.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] when the list is of another kind.
    ///
    /// # Safety
    /// The view does not keep the list alive, nor its memory in its place:
    /// - From this call until the launch of the last kernel that takes the view, nothing replaces the memory:
    ///   no method that takes `&mut self`, nor [`Self::reclaim`], and no blocking call that inserts or
    ///   removes, in any thread.
    /// - Those kernels run on the list's device, and have ended when the list is dropped, or asked for
    ///   anything that takes `&mut self`, [`Map::iter`] or [`Map::export`].
    /// - They change the list through the view's functions alone, and count what they do: sessions do so by
    ///   themselves.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Layers<Key = K, Value = V> + Instance,
    {
        self.trees.owner.view::<M>()
    }

    /// [`Self::reclaim`], if `least` slabs become free by it. To count them takes one look at all nodes. One
    /// that fails does not count.
    fn give_back(&self, least: usize) -> Result<usize> {
        self.notes.looked();
        tidy::tidy(&self.trees, least).inspect_err(|_| self.notes.not_looked())
    }

    /// Gives nodes back where what was asked for may have left many.
    fn give_back_many(&self, asked: Asked) -> Result<()> {
        if !asked.removals && !asked.retained {
            return Ok(());
        }
        let live = self.stats()?.live;
        let least = MANY.max(live / 4);
        if live > MANY && self.merged()? > least {
            self.give_back(1)?;
        } else if live > MANY && asked.retained {
            // The scan has read all nodes: to look at them once more is no more than that.
            self.give_back(least)?;
        }
        Ok(())
    }

    /// Launches a batch that may insert, as the assignment says.
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
            self.trees.list(stream, &memory)?;
            let (engine, parts) = (&*self.trees.owner.engine, memory.parts());
            // SAFETY: as in `Owner::launch`.
            unsafe {
                match (self.assignment, batch.ask) {
                    (Assignment::Blocks { keys, thread_blocks }, Ask::Insert) => {
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
    /// By order. Each takes a batch; see *Concurrency* of [`SkipList`] for what holds while others write.
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
        if matches!(batch.ask, Ask::Remove | Ask::Mixed) {
            self.notes.removals();
        }
        if directory::places(batch.ask) {
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

    fn age(&self) -> u64 {
        self.trees.age()
    }

    fn grows(&self) -> bool {
        self.trees.grows()
    }

    /// Gives nodes back that have merged or that scans have emptied, where they are many.
    fn make_room(&self) -> Result<()> {
        let asked = self.notes.take();
        let made = self.trees.make_room().and_then(|()| self.give_back_many(asked));
        made.inspect_err(|_| self.notes.put_back(asked))
    }

    /// Gives nodes back, or has the pool grow, if that is the policy. Where nothing was removed since the
    /// nodes were last looked at, there are none to give back: a full list is not looked at with each call
    /// that it refuses.
    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if seen.is_some_and(|age| age != self.age()) {
            // Another thread has made room meanwhile.
            return Ok(Room::More);
        }
        // Rather than grow, many; rather than refuse, one.
        let least = if self.trees.grows() { (self.stats()?.live / 8).max(1) } else { 1 };
        let gives_back = seen.is_some() || !self.trees.grows();
        if gives_back && (self.notes.is_due() || self.merged()? > 0) && made_room(self.give_back(least))? > 0
        {
            return Ok(Room::Freed);
        }
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

/// Nodes that are not worth being given back.
const MANY: usize = 64;

impl<K: Key, V: Value> Map for SkipList<K, V> {}

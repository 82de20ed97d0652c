//! Reading while nobody writes.
use super::BTree;
use super::engine::{Reader, Search, find_phased};
use super::ordered::Searched;
#[allow(unused_imports)] // documentation names it
use crate::map::Batches;
use crate::map::launch::{Ask, Batch};
use crate::map::launcher::Viewed;
use crate::map::structure::Structure;
use crate::map::{IntoIter, Map, Pairs, batches, run};
use crate::{Error, Key, Outcome, Result, Value};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::btree::{Config, TreeView};
use simt::Instance;
use std::any::TypeId;
use std::fmt;
use std::io::Write;

/// A tree that nobody writes as long as this borrows it, and that is therefore read by other kernels: theirs
/// may take nodes from the L1 cache, and need not look twice at a leaf that has not what they look for. Made
/// by [`BTree::frozen`].
///
/// ```
/// use phalanx::{BTree, Map};
///
/// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
/// tree.insert(&[30, 10, 20], &[3, 1, 2])?;
/// let frozen = tree.frozen()?;
/// assert_eq!(frozen.get(&[10, 11])?, [Some(1), None]);
/// assert_eq!(frozen.range(&[10..21])?, [[(10, 1), (20, 2)]]);
/// assert_eq!(frozen.last()?, Some((30, 3)));
/// tree.insert(&[40], &[4])?; // the borrow has ended
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// There are such kernels for the kinds of tree that are taken when none is named; other kinds are read by
/// their own kernels ([`Self::variant`] tells).
///
/// # Concurrency
/// Everything here may run beside everything here, from several threads and in several streams. While it
/// lives, the borrow checker lets nobody write. Batches in streams may outlive it: what the tree is asked
/// next waits for them.
pub struct Frozen<'a, K, V> {
    tree: &'a BTree<K, V>,
    reader: Option<Box<dyn Reader<K, V>>>,
}

impl<K, V> fmt::Debug for Frozen<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("tree", self.tree).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value> BTree<K, V> {
    /// The tree for reading alone, by kernels that are compiled for that. Waits for the launches asked for
    /// before, and makes the directory anew.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn frozen(&mut self) -> Result<Frozen<'_, K, V>> {
        self.trees.freeze()?;
        Ok(Frozen { reader: find_phased(self.variant()), tree: self })
    }

    /// Whether it is. For this package's tests.
    #[doc(hidden)]
    pub fn is_frozen(&self) -> bool {
        *self.trees.frozen()
    }
}

/// By key, and as a whole.
impl<'a, K: Key, V: Value> Frozen<'a, K, V> {
    /// The name of the kind of tree whose kernels read.
    pub fn variant(&self) -> &str {
        self.reader().name()
    }

    /// The values of the keys, or nothing where a key is not there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "find")]
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        Ok(self.asked(Ask::Get, keys, true)?.values_where(|outcome| outcome == Outcome::Found))
    }

    /// Whether the keys are there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        Ok(self.asked(Ask::ContainsKey, keys, false)?.whether(Outcome::Found))
    }

    /// Pairs. Waits for the launches asked for before.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn len(&self) -> Result<usize> {
        self.tree.len()
    }

    /// Whether there are no pairs. As [`Self::len`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn is_empty(&self) -> Result<bool> {
        self.tree.is_empty()
    }

    /// All pairs in the order of keys: see [`BTree::iter`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        self.tree.iter()
    }

    /// All keys and, at the same places, their values: see [`Map::export`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn export(&self) -> Result<Pairs<K, V>> {
        self.tree.export()
    }

    /// Writes the tree: see [`Map::save`].
    ///
    /// # Errors
    /// [`Error::Io`] when the writer fails; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        self.tree.save(writer)
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &'a Device {
        self.tree.device()
    }

    /// Batches by key on device buffers, asked of a stream.
    pub fn on(&'a self, stream: &'a Stream) -> Lookups<'a, K, V> {
        Lookups { frozen: self, stream }
    }

    /// The tree as kernels of your own take it, to read it alone: `M` is the kind that [`Self::variant`]
    /// names.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] when the kernels that read are of another kind.
    ///
    /// # Safety
    /// - The view is used while this lives, on the tree's device, and those kernels have ended when the
    ///   borrow ends.
    /// - They only read: get, look whether a key is there, seek.
    pub unsafe fn view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        if TypeId::of::<M>() != self.reader().reads() {
            return Err(Error::OtherVariant { asked: M::NAME, found: self.variant().to_owned() });
        }
        self.tree.trees.read(|parts| Ok(M::view(parts)))
    }

    fn asked(&self, ask: Ask, keys: &[K], wants_values: bool) -> Result<run::Results<V>> {
        run::look_up(self.device(), &|stream, batch| self.look_up(stream, batch), ask, keys, wants_values)
    }

    /// The kernels that read.
    fn reader(&self) -> &dyn Reader<K, V> {
        match &self.reader {
            Some(reader) => &**reader,
            None => &*self.tree.trees.owner.engine,
        }
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        // SAFETY: as in `Owner::launch`; while `self` lives nobody writes, and who does afterwards waits
        // first: see `Trees::thaw`.
        self.tree.trees.read(|parts| unsafe { self.reader().look_up(stream, parts, batch) })
    }
}

impl<K: Key, V: Value> Searched<K, V> for Frozen<'_, K, V> {
    fn home(&self) -> &Device {
        Structure::home(self.tree)
    }

    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        // SAFETY: as for `Self::look_up`.
        self.tree.trees.read(|parts| unsafe { self.reader().search(stream, parts, search) })
    }
}

/// Batches by key on device buffers, which return when they are asked for: those of [`Batches`] that only
/// read. Made by [`Frozen::on`].
#[derive(Debug)]
pub struct Lookups<'a, K, V> {
    frozen: &'a Frozen<'a, K, V>,
    stream: &'a Stream,
}

impl<K: Key, V: Value> Lookups<'_, K, V> {
    fn launch(&self, batch: Batch<K, V>) -> Result<()> {
        batches::belongs(self.frozen.device(), "stream", self.stream.device())?;
        self.frozen.look_up(self.stream, batch)
    }

    /// [`Frozen::get`]: values, and [`Outcome::Found`] where they mean something.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffers differ in length; [`Error::OtherDevice`] when a buffer or the
    /// stream is not of the tree's device; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn get(&self, keys: &Buffer<K>, values: &mut Buffer<V>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(batches::get(self.frozen.device(), keys, values, outcomes)?)
    }

    /// [`Frozen::contains_key`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(batches::contains_key(self.frozen.device(), keys, outcomes)?)
    }
}

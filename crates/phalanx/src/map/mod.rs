//! Operations that all maps of this crate have: batches of operations by key, and operations on the whole
//! map.
pub(crate) mod batches;
pub(crate) mod checks;
pub(crate) mod counts;
#[doc(hidden)]
pub mod derive;
pub(crate) mod encoding;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod fresh;
pub(crate) mod frozen;
pub(crate) mod handle;
pub(crate) mod host;
pub(crate) mod launch;
mod outcomes;
pub(crate) mod parallel;
pub(crate) mod run;
pub(crate) mod sketch;
pub(crate) mod structure;
pub(crate) mod variant;

use crate::{Error, Result};
pub use batches::Batches;
pub use encoding::{Additive, Key, Merge, Value, Word};
use gpu::{Device, Stream};
use launch::BatchOp;
pub(crate) use outcomes::outcome_of;
pub use outcomes::{OldValues, Outcomes};
pub use phalanx_kernels::keyed::{OpCode, Outcome};
use phalanx_macros::inherent;
use run::Results;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::ops::RangeInclusive;
use structure::Structure;

/// Type of the words of a map's keys.
pub(crate) type KeyWord<M> = <<M as Map>::Key as Key>::Word;

/// Type of the words of a map's values.
pub(crate) type ValueWord<M> = <<M as Map>::Value as Value>::Word;

/// Keys and, at the same indices, their values.
pub type Pairs<K, V> = (Vec<K>, Vec<V>);

/// Iterator over the pairs of a map, copied to the host.
pub type IntoIter<K, V> = std::iter::Zip<std::vec::IntoIter<K>, std::vec::IntoIter<V>>;

/// One operation of a mixed batch (see [`Map::execute`]).
///
/// ```
/// use phalanx::Op;
/// use phalanx::map::OpCode;
///
/// assert_eq!(Op::Insert(7u32, 70u32).parts(), (OpCode::INSERT, 7, 70));
/// assert_eq!(Op::<u32, u32>::Remove(7).parts(), (OpCode::REMOVE, 7, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<K, V> {
    /// Looks up the value.
    Get(K),
    /// Inserts the pair, or replaces the value.
    Insert(K, V),
    /// Inserts the pair if the key is absent.
    InsertNew(K, V),
    /// Inserts the pair, or merges the values.
    Upsert(Merge<V>, K, V),
    /// Inserts the pair if the key is absent, and returns the key's value.
    GetOrInsert(K, V),
    /// Removes the key.
    Remove(K),
}

impl<K: Key, V: Value> Op<K, V> {
    /// Returns the operation's code, and the words of its key and argument, as [`Batches::execute`] takes
    /// them. The word of an argument that the operation does not have is 0.
    pub fn parts(self) -> (OpCode, K::Word, V::Word) {
        let (code, key, value) = match self {
            Self::Get(key) => (OpCode::GET, key, None),
            Self::Insert(key, value) => (OpCode::INSERT, key, Some(value)),
            Self::InsertNew(key, value) => (OpCode::INSERT_NEW, key, Some(value)),
            Self::Upsert(merge, key, value) => (merge.operation(), key, Some(value)),
            Self::GetOrInsert(key, value) => (OpCode::GET_OR_INSERT, key, Some(value)),
            Self::Remove(key) => (OpCode::REMOVE, key, None),
        };
        (code, key.encode(), value.map_or(V::Word::default(), V::encode))
    }
}

/// Operations of all maps, for generic code: each map has them as inherent methods too. Batches on host
/// slices block until the results are available; [`Map::on`] returns those that do not block.
///
/// No key is reserved. A batch may contain a key several times. The operations of a batch run in no
/// particular order.
///
/// ```
/// use phalanx::{HashMap, Merge, Op, Outcome};
///
/// let map = HashMap::<u64, u64>::with_capacity(100)?;
/// assert_eq!(map.insert(&[7, 8], &[70, 80])?, [Outcome::Inserted, Outcome::Inserted]);
/// assert_eq!(map.upsert(Merge::Add, &[7, 7, 9], &[1, 1, 1])?[2], Outcome::Inserted);
/// assert_eq!(map.get(&[7, 8, 10])?, [Some(72), Some(80), None]);
/// assert_eq!(map.remove(&[8, 11])?, [true, false]);
/// let results = map.execute(&[Op::Get(7), Op::GetOrInsert(12, 5)])?;
/// assert_eq!(results, [(Outcome::Found, Some(72)), (Outcome::Inserted, Some(5))]);
/// assert_eq!(map.len()?, 3);
/// assert_eq!(map.replace(&[7, 8], &[70, 80])?, [Some(72), None]);
/// assert_eq!(map.take(&[7, 11])?, [Some(70), None]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::{HashMap, Outcome};
///
/// let mut map = HashMap::<u32, u32>::with_capacity(100)?;
/// assert_eq!(map.insert_new(&[1, 2], &[10, 20])?, [Outcome::Inserted; 2]);
/// assert_eq!(map.get_or_insert(&[2, 3, 4], &[0, 30, 40])?, [Some(20), Some(30), Some(40)]);
/// map.retain(|key, _| key != 1)?; // on the host; the others on the device
/// map.retain_keys(2..=3)?;
/// map.retain_values(0..=20)?;
/// assert_eq!(map.contains_key(&[2, 3, 4])?, [true, false, false]);
/// assert_eq!(map.iter()?.collect::<Vec<_>>(), [(2, 20)]);
/// assert_eq!(map.export()?, (vec![2], vec![20]));
/// let mut file = Vec::new();
/// map.save(&mut file)?;
/// let used = map.memory_usage();
/// map.clear()?;
/// assert!(map.is_empty()? && map.memory_usage() == used);
/// let (stream, keys) = (map.device().stream()?, map.device().from_slice(&[5u32, 6])?);
/// map.on(&stream).insert(&keys, &keys, None)?; // does not block
/// assert_eq!(map.len()?, 2); // waits
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::BTree;
///
/// let tree = BTree::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
/// assert_eq!(BTree::try_from_iter([(1, 7), (2, 20), (1, 10)])?, tree); // the last pair of a key remains
/// let empty = BTree::<u32, u32>::try_new()?;
/// empty.try_extend(&tree)?;
/// assert!(empty.try_eq(&tree)?);
/// for (key, value) in &tree {
///     assert_eq!(value, 10 * key);
/// }
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Traits of the standard library
///
/// Maps implement [`Default`], [`FromIterator`], [`Extend`], [`PartialEq`] and [`IntoIterator`] (for maps and
/// references to them). These panic where the calls that return errors do not: [`Map::try_new`],
/// [`Map::try_from_iter`], [`Map::try_extend`], [`Map::try_eq`] and [`Map::iter`].
///
/// ```
/// use phalanx::HashMap;
///
/// let mut map: HashMap<u32, u32> = [(1, 10), (2, 20)].into_iter().collect();
/// map.extend([(3, 30)]);
/// assert_eq!(map.into_iter().map(|(_, value)| value).sum::<u32>(), 60);
/// ```
///
/// With the feature `serde`, they also implement `Serialize` and `Deserialize`.
///
/// # Concurrency
///
/// All operations that take `&self` may run concurrently: from several threads by blocking calls, and in
/// several streams by [`Map::on`]. Each operation on a key is linearizable: it takes effect at one write or
/// one read. Operations that change the structure as a whole take `&mut self`, or wait until no launch runs
/// (growth, and reading all pairs).
///
/// There is one exception. In a hash map or a slab hash, an `insert` or `upsert` that changes the value of a
/// present key may overlap with a `take` of this key. Both are then done, in this order, but the value that
/// `take` returns may be the one from before the change. The same holds for a `replace` of pairs of 16 bytes
/// on a device without a 16-byte compare-and-swap, where both calls may then return the same value.
///
/// # Lack of memory
///
/// A blocking call in which some elements do not fit allocates memory, if that is the map's policy, and tries
/// them again. If there is no memory, the call returns [`Error::NoRoom`], which holds the outcome of every
/// element. A map of fixed capacity returns `Ok` with [`Outcome::Refused`] for such elements. So do `take`
/// and `replace` of every map, because an error would lose the values of the other elements.
///
/// Maintenance after a call (the rehash of a table that is too full, freeing versions that no snapshot reads)
/// does not affect the result. If it finds no memory, the call still succeeds, and the next blocking call
/// that inserts or removes repeats the maintenance. Read-only calls do no maintenance.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `insert`, `insert_new`, `upsert`, `get_or_insert`, `get`, `get_into`, `contains_key`, `contains_into`, `remove`, `take`, `replace`, `execute` | up to 1024 elements: one launch, whose arguments and results are in pinned memory, and a wait for it. More elements: in chunks of up to 8 MiB, several of which are in flight; each copies its arguments to the device, launches a kernel, and copies its results back (a byte per outcome, and the values that the call returns) |
/// | `len`, `is_empty` | waits for the device, copies 8 KiB |
/// | `clear` | waits for the device, and writes or frees the memory that the structure uses |
/// | `retain_keys`, `retain_values` | waits for the device; one launch that reads the whole structure |
/// | `export` | waits for the device; launches that read the whole structure, 2^22 threads at a time; copies all pairs to the host |
/// | `iter` | `export`; for an ordered map then a sort on the host, O(n log n) |
/// | `try_new`, `with_capacity` | as the type's page states |
/// | `from_pairs`, `try_from_iter` | `with_capacity`, then `insert` |
/// | `try_extend` | one pass over the pairs on the host, then `insert` |
/// | `try_eq` | `len`, then `export` of both maps and sorts on the host, O(n log n) |
/// | `save` | `export`, and one pass over the bytes on the host |
/// | `retain` | `export`, then `remove` of the rejected keys |
///
/// These calls take their memory from [`Device::staging`](gpu::Device::staging) and allocate it only if the
/// device has too little. Large batches that may grow a hash map or rebuild an ordered map, and those of more
/// than 2^16 elements that change an ordered map, are copied to the device as a whole, into buffers of the
/// call. The host converts elements by threads of the library's own, as many as rayon's default. If work was
/// submitted to a stream before, a call first waits for it.
///
/// A call that changes a growing map also checks whether maintenance is due: if the map may be too full, hash
/// maps and slab hashes then copy 8 KiB more. Elements that did not fit are launched again after growth,
/// which the page of the structure describes. Ordered maps submit a large batch that inserts into a small map
/// as several launches. A call of another thread may run between the launches: an `export` then lists some of
/// the call's pairs and lacks others.
#[inherent(map_methods)]
pub trait Map {
    /// Type of the keys.
    type Key: Key;
    /// Type of the values.
    type Value: Value;

    /// Returns the map's implementation, for this crate.
    #[doc(hidden)]
    fn inner(&self) -> &dyn Structure<Key = KeyWord<Self>, Value = ValueWord<Self>>;

    /// Returns the map's implementation, for this crate.
    #[doc(hidden)]
    fn inner_mut(&mut self) -> &mut dyn Structure<Key = KeyWord<Self>, Value = ValueWord<Self>>;

    /// Creates an empty map on [`Device::from_environment`] for `capacity` pairs, which grows when needed.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] if `capacity` is 0; [`Error::TooLarge`] if it is too large; [`Error::Device`]
    /// if no device is available, or it lacks the memory.
    fn with_capacity(capacity: usize) -> Result<Self>
    where
        Self: Sized;

    /// Creates an empty map for 1024 pairs: see [`Self::with_capacity`].
    ///
    /// # Errors
    /// [`Error::Device`] if no device is available, or it lacks the memory.
    #[doc(alias = "new")]
    fn try_new() -> Result<Self>
    where
        Self: Sized,
    {
        Self::with_capacity(1024)
    }

    /// Creates a map of pairs: see [`Self::with_capacity`] and [`Self::insert`].
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::Device`] or [`Error::NoRoom`] if no device
    /// is available, or it lacks the memory.
    fn from_pairs(keys: &[Self::Key], values: &[Self::Value]) -> Result<Self>
    where
        Self: Sized,
    {
        check("values", keys.len(), values.len())?;
        let map = Self::with_capacity(keys.len().max(1))?;
        map.insert(keys, values)?.or_no_room()?;
        Ok(map)
    }

    /// Creates a map of pairs, as [`FromIterator`] does. Of several pairs with the same key, the last one
    /// remains.
    ///
    /// # Errors
    /// [`Error::Device`] or [`Error::NoRoom`] if no device is available, or it lacks the memory.
    fn try_from_iter(pairs: impl IntoIterator<Item = (Self::Key, Self::Value)>) -> Result<Self>
    where
        Self: Sized,
    {
        let (keys, values) = run::last_of_each(pairs);
        Self::from_pairs(&keys, &values)
    }

    /// Inserts pairs, as [`Extend`] does. Of several pairs with the same key, the last one remains.
    ///
    /// # Errors
    /// As [`Self::insert`], and [`Error::NoRoom`] also if some pairs do not fit a map of fixed capacity. It
    /// holds one outcome per distinct key, in the order in which the keys first occur.
    fn try_extend(&self, pairs: impl IntoIterator<Item = (Self::Key, Self::Value)>) -> Result<()>
    where
        Self: Sized,
    {
        let (keys, values) = run::last_of_each(pairs);
        self.insert(&keys, &values)?.or_no_room()
    }

    /// Inserts pairs, replacing the values of existing keys. If the batch has several pairs with the same
    /// key, any one of them remains.
    ///
    /// Returns for each pair [`Outcome::Inserted`], [`Outcome::Replaced`] or, if it does not fit a map of
    /// fixed capacity, [`Outcome::Refused`]. [`Self::replace`] also returns the replaced values.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] if some pairs do not fit a map that grows and there is no memory for more. The
    ///   other pairs are inserted; the error holds the outcome of each.
    /// - [`Error::Length`] if the slices differ in length.
    /// - [`Error::Device`] if the device fails, or has no memory for the batch itself: then nothing is
    ///   inserted.
    #[doc(alias = "insert_or_assign")]
    fn insert(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Outcomes> {
        run::with_values(self.inner(), BatchOp::Insert, keys, values).map(Results::into_outcomes)
    }

    /// Inserts the pairs whose keys are absent. Returns for each pair [`Outcome::Inserted`],
    /// [`Outcome::Found`] or, if it does not fit a map of fixed capacity, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_if_absent")]
    fn insert_new(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Outcomes> {
        run::with_values(self.inner(), BatchOp::InsertNew, keys, values).map(Results::into_outcomes)
    }

    /// Inserts pairs, merging their values with those of existing keys. If the batch has several pairs with
    /// the same key, all of them are merged. Returns for each pair [`Outcome::Inserted`],
    /// [`Outcome::Replaced`] for a merge or, if it does not fit a map of fixed capacity,
    /// [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`]. After [`Error::NoRoom`], retry only the refused pairs: the others are already
    /// merged.
    #[doc(alias = "insert_or_apply")]
    #[doc(alias = "entry")]
    fn upsert(
        &self,
        merge: Merge<Self::Value>,
        keys: &[Self::Key],
        values: &[Self::Value],
    ) -> Result<Outcomes> {
        run::with_values(self.inner(), BatchOp::Upsert(merge.operation()), keys, values)
            .map(Results::into_outcomes)
    }

    /// Returns the values of the keys; absent keys are first inserted with the given values. Returns `None`
    /// for a pair that does not fit a map of fixed capacity.
    ///
    /// # Errors
    /// As [`Self::insert`] and [`Self::get`]. [`Error::NoRoom`] holds outcomes but no values: use
    /// [`Self::get`] for those.
    #[doc(alias = "insert_and_find")]
    fn get_or_insert(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Vec<Option<Self::Value>>> {
        let results = run::with_values(self.inner(), BatchOp::GetOrInsert, keys, values)?;
        results.values_where(|outcome| outcome != Outcome::Refused)
    }

    /// Returns the values of the keys, `None` for an absent key.
    ///
    /// # Errors
    /// [`Error::Format`] if a stored word is no value of the map's type, which only kernels and batches on
    /// device buffers can store; [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "find")]
    fn get(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>> {
        run::look_up(self.inner(), keys)
    }

    /// Writes the values of the keys to `values`, and whether each key is in the map to `found`: as
    /// [`Self::get`], without allocating memory for the results. The value of an absent key is unspecified.
    ///
    /// ```
    /// use phalanx::HashMap;
    ///
    /// let map = HashMap::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
    /// let (mut values, mut found) = ([0; 3], [false; 3]);
    /// map.get_into(&[2, 3, 1], &mut values, &mut found)?;
    /// assert_eq!((values[0], values[2], found), (20, 10, [true, false, true]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::get`]. If slices of more than 1024 elements lie in buffers on
    /// [`Tier::Pinned`](gpu::Tier::Pinned), the device copies from and to them: the host converts nothing.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::get`], after which the contents
    /// of both slices are unspecified.
    fn get_into(&self, keys: &[Self::Key], values: &mut [Self::Value], found: &mut [bool]) -> Result<()> {
        run::look_up_into(self.inner(), keys, values, found)
    }

    /// Returns for each key whether it is in the map.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    fn contains_key(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        run::contains(self.inner(), keys)
    }

    /// Writes for each key to `found` whether it is in the map: as [`Self::contains_key`], without allocating
    /// memory for the results.
    ///
    /// ```
    /// use phalanx::BTree;
    ///
    /// let tree = BTree::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
    /// let mut found = [false; 3];
    /// tree.contains_into(&[2, 3, 1], &mut found)?;
    /// assert_eq!(found, [true, false, true]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::contains_key`], and as [`Self::get_into`] for pinned slices.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::contains_key`], after which the
    /// contents of `found` are unspecified.
    fn contains_into(&self, keys: &[Self::Key], found: &mut [bool]) -> Result<()> {
        run::contains_into(self.inner(), keys, found)
    }

    /// Removes keys. Returns for each whether it was removed; of several equal keys in the batch, only one
    /// returns `true`. [`Self::take`] also returns the removed values.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] if the map must keep the removed pairs for its snapshots and lacks the memory,
    ///   whether it grows or not. Keys whose outcome is [`Outcome::Refused`] are still in the map; the others
    ///   are removed or were absent.
    /// - [`Error::Device`] if the device fails, or has no memory for the batch itself: then nothing is
    ///   removed.
    #[doc(alias = "erase")]
    fn remove(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        run::removed(self.inner(), keys)
    }

    /// Removes keys and returns their values, `None` for an absent key; of several equal keys in the batch,
    /// only one gets the value. [`OldValues::outcomes`] distinguishes absent keys from those that the map
    /// could not remove ([`Outcome::Refused`]): this happens only if it must keep the removed pairs for its
    /// snapshots and lacks the memory. Unlike [`Self::remove`] the call then returns `Ok`, so that no value
    /// is lost.
    ///
    /// In a hash map or a slab hash, [concurrently](Self#concurrency) with a change of a key's value, the
    /// returned value may be the one from before the change.
    ///
    /// # Errors
    /// - [`Error::Device`] if the device fails, or has no memory for the batch itself: then nothing is
    ///   removed.
    /// - [`Error::Format`] as [`Self::get`]; the keys are removed.
    #[doc(alias = "pop")]
    fn take(&self, keys: &[Self::Key]) -> Result<OldValues<Self::Value>> {
        run::taken(self.inner(), keys)
    }

    /// Inserts pairs as [`Self::insert`] does, and returns the old values: `None` for a key that was absent,
    /// and for a pair that does not fit. [`OldValues::outcomes`] distinguishes them. Each value that a batch
    /// replaces is returned once, also that of a pair of the same batch with the same key.
    ///
    /// If a map that grows lacks the memory for more, the call returns `Ok` with [`Outcome::Refused`] for the
    /// pairs that do not fit, unlike [`Self::insert`], so that no value is lost.
    ///
    /// # Errors
    /// - [`Error::Length`] if the slices differ in length.
    /// - [`Error::Device`] if the device fails, or has no memory for the batch itself: then nothing is
    ///   inserted.
    /// - [`Error::Format`] as [`Self::get`]; the pairs are inserted.
    #[doc(alias = "swap")]
    #[doc(alias = "exchange")]
    fn replace(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<OldValues<Self::Value>> {
        run::replaced(self.inner(), keys, values)
    }

    /// Executes a mixed batch: each element has its own operation; all run in one launch, in no particular
    /// order. Returns for each its outcome and a value: the key's value before the operation or, if the
    /// operation inserted the key, the argument. Removals, lookups of absent keys and operations that do not
    /// fit a map of fixed capacity ([`Outcome::Refused`]) have no value.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] if some operations do not fit a map that grows and there is no memory for more.
    ///   The others are done; the error holds the outcome of each, but no values.
    /// - [`Error::Device`] if the device fails, or has no memory for the batch itself: then nothing is done.
    /// - [`Error::Format`] as [`Self::get`]; the operations are done.
    fn execute(
        &self,
        operations: &[Op<Self::Key, Self::Value>],
    ) -> Result<Vec<(Outcome, Option<Self::Value>)>> {
        use Outcome::{Found, Inserted, Replaced};
        let parts = operations.iter().map(|operation| operation.parts());
        let coded = parts.map(|(code, key, argument)| (code, key, Some(argument)));
        let results = run::coded(self.inner(), coded)?;
        results.pairs_where(|outcome| matches!(outcome, Found | Inserted | Replaced))
    }

    /// Returns the batches on device buffers, submitted to a stream; see [`Batches`] for an example.
    fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, Self> {
        Batches::new(self, stream)
    }

    /// Returns the device that holds the map.
    fn device(&self) -> &Device {
        self.inner().device()
    }

    /// Returns the number of pairs. Waits for all earlier launches, and is then exact. Reads 8 KiB.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "size")]
    fn len(&self) -> Result<usize> {
        self.inner().len()
    }

    /// Returns whether there are no pairs. Waits, as [`Self::len`] does.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the bytes of device memory that the map holds between calls, without the memory that calls on
    /// host slices share: [`Device::staging_usage`](gpu::Device::staging_usage).
    fn memory_usage(&self) -> usize {
        self.inner().memory_usage()
    }

    /// Removes all pairs. The map keeps its memory.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory. Then a map may have lost its pairs
    /// although [`Self::len`] still counts them.
    fn clear(&mut self) -> Result<()> {
        self.inner().device().synchronize()?;
        self.inner_mut().clear()
    }

    /// Keeps the pairs for which `keep` returns true. All pairs are copied to the host, and the rejected keys
    /// back to the device. For a range of keys or values use [`Self::retain_keys`] or
    /// [`Self::retain_values`], which work on the device.
    ///
    /// # Errors
    /// As [`Self::remove`] for the rejected keys, some of which may then be removed. The outcomes in
    /// [`Error::NoRoom`] are those of the rejected keys, in the order in which `keep` received them.
    fn retain(&mut self, mut keep: impl FnMut(Self::Key, Self::Value) -> bool) -> Result<()>
    where
        Self: Sized,
    {
        let (keys, values) = self.export()?;
        let pairs = keys.into_iter().zip(values);
        let rejected: Vec<_> = pairs.filter(|&(key, value)| !keep(key, value)).map(|(key, _)| key).collect();
        self.remove(&rejected).map(drop)
    }

    /// Keeps the pairs whose keys are in the range.
    ///
    /// # Errors
    /// [`Error::Range`] if the lower end is above the upper end; [`Error::Device`] if the device is lost or
    /// lacks the memory.
    fn retain_keys(&mut self, range: RangeInclusive<Self::Key>) -> Result<()> {
        run::retain_keys(self.inner_mut(), &range)
    }

    /// Keeps the pairs whose values are in the range.
    ///
    /// # Errors
    /// [`Error::Range`] if the lower end is above the upper end; [`Error::Device`] if the device is lost or
    /// lacks the memory.
    fn retain_values(&mut self, range: RangeInclusive<Self::Value>) -> Result<()> {
        run::retain_values(self.inner_mut(), &range)
    }

    /// Returns all pairs as they are now: those of an ordered map in key order, those of a hash map in no
    /// particular order. They are copied to the host before the iterator is returned. Waits for all launches.
    ///
    /// # Errors
    /// As [`Self::export`].
    fn iter(&self) -> Result<IntoIter<Self::Key, Self::Value>> {
        let (keys, values): Pairs<Self::Key, Self::Value> =
            encoding::decode_pairs(export::listed(self.inner())?)?;
        Ok(keys.into_iter().zip(values))
    }

    /// Returns all keys and, at the same indices, their values, in no particular order. Takes up to 256 MiB
    /// of device memory, and less if there is less.
    ///
    /// # Errors
    /// [`Error::Format`] if a stored word is no key or value of the map's types; [`Error::Device`] if the
    /// device is lost or lacks the memory.
    #[doc(alias = "retrieve_all")]
    fn export(&self) -> Result<Pairs<Self::Key, Self::Value>> {
        encoding::decode_pairs(export::all(self.inner())?)
    }

    /// Returns whether both maps have the same pairs, as [`PartialEq`] does: keys and values are equal if
    /// their [words](Key::Word) are. Devices and variants may differ.
    ///
    /// # Errors
    /// [`Error::Device`] if a device is lost or lacks the memory.
    fn try_eq(&self, other: &Self) -> Result<bool>
    where
        Self: Sized,
    {
        let words = |map: &Self| export::all(map.inner()).map(export::sorted);
        Ok(self.len()? == other.len()? && words(self)? == words(other)?)
    }

    /// Saves the map: version, checksum and all pairs, independent of variant and device. Writes few large
    /// blocks and flushes, so a file needs no buffered writer.
    ///
    /// # Errors
    /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost or lacks the memory.
    fn save(&self, writer: impl Write) -> Result<()>
    where
        Self: Sized,
    {
        file::save::<Self::Key, Self::Value>(export::all(self.inner())?, writer)
    }
}

/// Returns a random seed, from the keys that the standard library draws from the system for its hash maps.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn check(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

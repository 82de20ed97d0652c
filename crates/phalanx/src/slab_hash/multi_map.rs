//! A map with many values a key.
use super::engine::Task;
use super::{Builder, Lists, common, owner};
use crate::map::batches::{belongs, slice};
use crate::map::launch::{Ask, Batch, nothing};
use crate::map::structure::Structure;
use crate::map::{IntoIter, export, file, run};
use crate::{Key, Outcome, Result, Value};
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Coded;
use simt::{GlobalSlice, Word};
use std::io::{Read, Write};
use std::ops::RangeInclusive;

/// A map from `u32` or `u64` to any number of `u32` or `u64` a key, in device memory, made of slab lists. No
/// key is reserved.
///
/// The pairs of a key lie in the order in which they were inserted, and [`Self::flush`] and [`Self::rehash`]
/// keep it. Source: the slab-hash paper, section III-B (INSERT, SEARCHALL, DELETE, DELETEALL).
///
/// ```
/// use phalanx::SlabMultiMap;
///
/// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
/// map.insert(&[1, 2], &[10, 20])?;
/// map.insert(&[1], &[11])?;
/// assert_eq!(map.count(&[1, 2, 3])?, [2, 1, 0]);
/// let values = map.get_all(&[1, 3])?;
/// assert_eq!((values.of(0), values.of(1)), (&[10, 11][..], &[][..]));
/// assert_eq!(map.remove_one(&[1])?, [true]);
/// assert_eq!(map.remove_all(&[1])?, [1]);
/// assert_eq!(map.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// All operations on keys take `&self` and may run side by side. `insert`, `remove_one`, `contains_key` and
/// `execute` are linearizable by key. Those that deal with all pairs of a key pass along its list once: they
/// deal with every pair that is there from before they begin until they end, and may or may not with those
/// that come or go meanwhile. The rest takes `&mut self`, or waits by itself until no launch runs.
pub struct SlabMultiMap<K, V> {
    pub(super) lists: Lists<K, V>,
}

common!(SlabMultiMap<K: Key, V: Value>, K, V);
owner!(SlabMultiMap<K: Key, V: Value>);

impl<K: Key, V: Value> Builder<SlabMultiMap<K, V>> {
    /// Makes the map, empty.
    ///
    /// # Errors
    /// Those of a [`SlabHash`](super::SlabHash)'s builder.
    pub fn build(self) -> Result<SlabMultiMap<K, V>> {
        Ok(SlabMultiMap { lists: self.lists(true, true)? })
    }
}

/// One operation of a mixed batch (see [`SlabMultiMap::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiOp<K, V> {
    /// Inserts a pair, behind those that are there.
    Insert(K, V),
    /// Looks up the first value.
    GetFirst(K),
    /// Removes the first value.
    RemoveOne(K),
}

impl<K: Key, V: Value> MultiOp<K, V> {
    fn parts(self) -> (Coded, K, Option<V>) {
        let none = Some(V::from_u64(0));
        match self {
            Self::Insert(key, value) => (Coded::INSERT, key, Some(value)),
            Self::GetFirst(key) => (Coded::GET, key, none),
            Self::RemoveOne(key) => (Coded::REMOVE, key, none),
        }
    }
}

/// The values of several keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values<V> {
    offsets: Vec<usize>,
    values: Vec<V>,
}

impl<V> Values<V> {
    /// The values of the key that was asked for as number `index`.
    ///
    /// # Panics
    /// When fewer keys were asked for.
    pub fn of(&self, index: usize) -> &[V] {
        &self.values[self.offsets[index]..self.offsets[index + 1]]
    }

    /// Keys that were asked for.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether none were.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of each key, in the order asked for.
    pub fn iter(&self) -> impl Iterator<Item = &[V]> {
        (0..self.len()).map(|index| self.of(index))
    }
}

/// Batches on host slices. They block until the results are there.
impl<K: Key, V: Value> SlabMultiMap<K, V> {
    /// Inserts pairs, beside those that are there. Says of each [`Outcome::Inserted`] or, where a pool of
    /// fixed capacity has no slab, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Map::insert`](crate::Map::insert).
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        Ok(run::pairs(&self.lists, Ask::Insert, keys, values)?.outcomes)
    }

    /// Whether the keys have a value.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::whether(&self.lists, Ask::ContainsKey, keys, Outcome::Found)
    }

    /// How many values the keys have.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn count(&self, keys: &[K]) -> Result<Vec<u32>> {
        self.counts(keys, |keys, counts| Task::Count { keys, counts })
    }

    /// Removes the first value of each key; of several equal keys, each removes one more. Says whether there
    /// was one.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn remove_one(&self, keys: &[K]) -> Result<Vec<bool>> {
        let removed = run::whether(&self.lists, Ask::Remove, keys, Outcome::Removed)?;
        self.lists.make_room()?;
        Ok(removed)
    }

    /// A mixed batch: every element an operation of its own, all in one launch, in no order. Gives each
    /// outcome, and a value that means something where a look-up says [`Outcome::Found`].
    ///
    /// ```
    /// use phalanx::slab_hash::MultiOp;
    /// use phalanx::{Outcome, SlabMultiMap};
    ///
    /// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let done = map.execute(&[MultiOp::GetFirst(1), MultiOp::RemoveOne(2), MultiOp::Insert(3, 30)])?;
    /// assert_eq!(done[0], (Outcome::Found, 10));
    /// assert_eq!((done[1].0, done[2].0), (Outcome::Removed, Outcome::Inserted));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::execute`](crate::Map::execute).
    pub fn execute(&self, operations: &[MultiOp<K, V>]) -> Result<Vec<(Outcome, V)>> {
        let results = run::coded(&self.lists, operations.iter().map(|operation| operation.parts()))?;
        Ok(results.outcomes.into_iter().zip(results.values).collect())
    }

    /// Removes all values of the keys, and says how many there were.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn remove_all(&self, keys: &[K]) -> Result<Vec<u32>> {
        self.counts(keys, |keys, counts| Task::RemoveAll { keys, counts })
    }

    /// The values of the keys, each key's in the order of insertion. Counts them, then copies them: two
    /// passes along each list. What is inserted between the two is left out.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    #[doc(alias = "search_all")]
    pub fn get_all(&self, keys: &[K]) -> Result<Values<V>> {
        let counted = self.count(keys)?;
        let ends = counted.iter().scan(0usize, |end, &count| {
            *end += count as usize;
            Some(*end)
        });
        let bounds: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let total = bounds[keys.len()];
        let device = &self.lists.owner.device;
        let offsets: Vec<u64> = bounds[..keys.len()].iter().map(|&offset| offset as u64).collect();
        let (offsets, keys) = (device.from_slice(&offsets)?, device.from_slice(keys)?);
        let (counts, values) = (device.from_slice(&counted)?, device.buffer::<V>(total)?);
        let (keys, offsets) = (keys.slice(), offsets.slice());
        let task = Task::Collect { keys, offsets, values: values.slice(), counts: counts.slice() };
        self.lists.task(&device.default_stream(), task)?;
        Ok(pack(&bounds, &counted, &counts.read()?, values.read()?))
    }

    /// A task that gives a number for each key.
    fn counts(
        &self,
        keys: &[K],
        task: impl FnOnce(simt::GlobalSlice<K>, simt::GlobalSlice<u32>) -> Task<K, V>,
    ) -> Result<Vec<u32>> {
        let keys = self.lists.owner.device.from_slice(keys)?;
        let counts = self.lists.owner.device.buffer::<u32>(keys.len())?;
        self.lists.task(&self.lists.owner.device.default_stream(), task(keys.slice(), counts.slice()))?;
        Ok(counts.read()?)
    }

    /// Batches on device buffers, asked of a stream.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> MultiBatches<'a, K, V> {
        MultiBatches { map: self, stream }
    }
}

/// The values that were found, without the places of those that went between the two passes.
fn pack<V: Copy>(bounds: &[usize], room: &[u32], found: &[u32], values: Vec<V>) -> Values<V> {
    let kept = room.iter().zip(found).map(|(&room, &found)| room.min(found) as usize);
    let mut offsets = vec![0];
    let mut packed = Vec::with_capacity(values.len());
    for (index, count) in kept.enumerate() {
        packed.extend_from_slice(&values[bounds[index]..bounds[index] + count]);
        offsets.push(packed.len());
    }
    Values { offsets, values: packed }
}

/// The map as a whole.
impl<K: Key, V: Value> SlabMultiMap<K, V> {
    /// All pairs, copied to the host at once, in no order.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = export::all(&self.lists)?;
        Ok(keys.into_iter().zip(values))
    }

    /// Keeps the pairs whose keys lie in the range. Stays on the device.
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) when the ends are swapped;
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn retain_keys(&mut self, range: RangeInclusive<K>) -> Result<()> {
        run::retain_between(&mut self.lists, false, range.start().to_u64(), range.end().to_u64())
    }

    /// Keeps the pairs whose values lie in the range. Stays on the device.
    ///
    /// # Errors
    /// As [`Self::retain_keys`].
    pub fn retain_values(&mut self, range: RangeInclusive<V>) -> Result<()> {
        run::retain_between(&mut self.lists, true, range.start().to_u64(), range.end().to_u64())
    }

    /// Writes the map: version, checksum and all pairs.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the writer fails; [`Error::Device`](crate::Error::Device) when
    /// the device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        let (keys, values) = export::all(&self.lists)?;
        file::save(&keys, &values, writer)
    }

    /// Reads a map that [`Self::save`] wrote, into one with the builder's parameters, and with room for all
    /// pairs where its capacity is less.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) when it is none, of another version or other types, or
    /// damaged; [`Error::DoesNotFit`](crate::Error::DoesNotFit) when not all of it finds room;
    /// [`Error::Io`](crate::Error::Io); those of [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        file::load_into(reader, |pairs| builder.at_least(pairs).build(), Self::insert)
    }
}

/// Batches on device buffers, which return when they are asked for. Made by [`SlabMultiMap::on`]. Outcomes
/// are the codes of [`Outcome`], a byte an element. Nothing grows here: what finds no room is refused.
#[derive(Debug)]
pub struct MultiBatches<'a, K, V> {
    map: &'a SlabMultiMap<K, V>,
    stream: &'a Stream,
}

impl<K: Key, V: Value> MultiBatches<'_, K, V> {
    fn slice<T: Word>(&self, what: &'static str, buffer: &Buffer<T>, len: usize) -> Result<GlobalSlice<T>> {
        slice(&self.map.lists.owner.device, what, buffer, len)
    }

    fn task(&self, task: Task<K, V>) -> Result<()> {
        belongs(&self.map.lists.owner.device, "stream", self.stream.device())?;
        self.map.lists.task(self.stream, task)
    }

    /// [`SlabMultiMap::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) when the buffers differ in length;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) when a buffer or the stream is not of the map's
    /// device; [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn insert(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        let (values, keys) =
            (self.slice("values", values, keys.len())?, self.slice("keys", keys, keys.len())?);
        let outcomes = outcomes
            .map_or_else(|| Ok(nothing()), |outcomes| self.slice("outcomes", outcomes, keys.len()))?;
        self.task(Task::Append { keys, values, outcomes })
    }

    /// [`SlabMultiMap::count`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn count(&self, keys: &Buffer<K>, counts: &mut Buffer<u32>) -> Result<()> {
        let (counts, keys) =
            (self.slice("counts", counts, keys.len())?, self.slice("keys", keys, keys.len())?);
        self.task(Task::Count { keys, counts })
    }

    /// Writes the values of the key with index `i` to `values`, from `offsets[i]` on and at most `counts[i]`
    /// of them; then to `counts` how many there are.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_all(
        &self,
        keys: &Buffer<K>,
        offsets: &Buffer<u64>,
        values: &mut Buffer<V>,
        counts: &mut Buffer<u32>,
    ) -> Result<()> {
        let keys = self.slice("keys", keys, keys.len())?;
        let offsets = self.slice("offsets", offsets, keys.len())?;
        let counts = self.slice("counts", counts, keys.len())?;
        let values = self.slice("values", values, values.len())?;
        self.task(Task::Collect { keys, offsets, values, counts })
    }

    /// [`SlabMultiMap::remove_one`]: [`Outcome::Removed`] or [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove_one(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        belongs(&self.map.lists.owner.device, "stream", self.stream.device())?;
        let keys = self.slice("keys", keys, keys.len())?;
        let outcomes = self.slice("outcomes", outcomes, keys.len())?;
        self.map.lists.launch(self.stream, Batch { outcomes, ..Batch::new(Ask::Remove, keys) })
    }

    /// [`SlabMultiMap::execute`]: `codes` are those of [`Coded`], a byte an element. [`Coded::INSERT`]
    /// appends; the others do with the first value of a key what they do with a map's only one, and a byte
    /// that is none looks it up.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: &Buffer<u8>,
        keys: &Buffer<K>,
        arguments: &Buffer<V>,
        results: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let len = keys.len();
        self.task(Task::Mixed {
            codes: self.slice("codes", codes, len)?,
            keys: self.slice("keys", keys, len)?,
            arguments: self.slice("arguments", arguments, len)?,
            results: self.slice("results", results, len)?,
            outcomes: self.slice("outcomes", outcomes, len)?,
        })
    }

    /// [`SlabMultiMap::remove_all`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove_all(&self, keys: &Buffer<K>, counts: &mut Buffer<u32>) -> Result<()> {
        let (counts, keys) =
            (self.slice("counts", counts, keys.len())?, self.slice("keys", keys, keys.len())?);
        self.task(Task::RemoveAll { keys, counts })
    }
}

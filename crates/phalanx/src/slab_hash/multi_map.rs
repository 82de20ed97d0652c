//! A map with several values per key.
use super::kernels::Task;
use super::{Builder, Lists, common, properties};
use crate::map::batches::{check_same_device, contains_key, elements_of, optional_slice, slice};
use crate::map::encoding::decode_pairs;
use crate::map::launch::{Batch, BatchOp};
use crate::map::run::Results;
use crate::map::structure::Structure;
use crate::map::{IntoIter, Pairs, check, export, file, run};
use crate::{Error, Key, Outcome, Outcomes, Result, Value};
use gpu::{AsBounded, AsSlice, AsSliceMut, OptionalSliceMut, Stream};
use phalanx_kernels::keyed::OpCode;
use simt::{BoundedSlice, GlobalSlice, Word};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::ops::RangeInclusive;

/// A map from [keys](Key) to any number of [values](Value) per key, in device memory, made of slab lists. No
/// key is reserved.
///
/// The pairs of a key are stored in insertion order, which [`Self::flush`] and [`Self::rehash`] preserve.
/// Source: the slab-hash paper, section III-B (INSERT, SEARCHALL, DELETE, DELETEALL).
///
/// ```
/// use phalanx::SlabMultiMap;
///
/// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
/// assert!(map.insert(&[1], &[11])?.all_placed());
/// assert_eq!(map.count(&[1, 2, 3])?, [2, 1, 0]);
/// let values = map.get_all(&[1, 3])?;
/// assert_eq!((values.of(0), values.of(1)), (&[10, 11][..], &[][..]));
/// assert_eq!(map.remove_one(&[1])?, [true]);
/// assert_eq!(map.remove_all(&[1])?, [1]);
/// assert_eq!(map.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SlabMultiMap;
///
/// let mut map = SlabMultiMap::<u32, u32>::builder().capacity(100).build()?;
/// assert!(map.insert(&[1, 1, 2, 3], &[10, 11, 20, 30])?.all_placed());
/// map.retain_keys(1..=2)?;
/// map.retain_values(11..=99)?;
/// assert_eq!(map.contains_key(&[1, 3])?, [true, false]);
/// assert_eq!(map.iter()?.count(), 2);
/// let mut file = Vec::new();
/// map.save(&mut file)?;
/// let loaded = SlabMultiMap::<u32, u32>::load(&file[..], SlabMultiMap::builder())?;
/// let (stream, keys) = (loaded.device().stream()?, loaded.device().from_slice(&[1u32, 2])?);
/// let mut counts = loaded.device().zeroed::<u32>(2)?;
/// loaded.on(&stream).count(&keys, &mut counts)?; // does not block
/// assert_eq!(counts.read()?, [1, 1]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SlabMultiMap;
///
/// let map = SlabMultiMap::<u32, u32>::from_pairs(&[1, 2, 1], &[10, 20, 11])?;
/// assert_eq!(map.get_all(&[1])?.of(0), [10, 11]);
/// assert!(SlabMultiMap::try_from_iter([(1, 10), (1, 11), (2, 20)])?.try_eq(&map)?);
/// let other = SlabMultiMap::<u32, u32>::try_new()?;
/// other.try_extend([(1, 10), (2, 20)])?;
/// assert_ne!(other, map); // the traits of the standard library panic where these calls return errors
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// All operations on keys take `&self` and may run concurrently. `insert`, `remove_one`, `contains_key` and
/// `execute` are linearizable per key. Operations on all pairs of a key traverse its list once: they process
/// every pair that is in the map throughout the call, and may or may not process pairs that are inserted or
/// removed meanwhile. The others take `&mut self`, or wait until no launch runs.
///
/// # Cost
///
/// An insertion reads the key's list up to its end; `get_all`, `count` and `remove_all` read the whole list.
/// `contains_key` takes 20 to 30 % longer than that of a [`SlabHash`](super::SlabHash), and twice as long
/// for absent keys if lists have slots of removed pairs.
///
/// | call | cost |
/// |---|---|
/// | `insert`, `contains_key`, `remove_one`, `execute` | as [`Map`](crate::Map): one launch for up to 1024 elements, else chunks with their copies |
/// | `count`, `remove_all` | allocates buffers, copies the arguments to the device, launches a kernel, waits, copies the results back |
/// | `get_all` | `count`; then the same with 8 bytes more per key, and copies the values back |
/// | `from_pairs`, `try_from_iter`, `try_extend` | one pass over the pairs on the host, then an `insert` of the first value of each key, one of the second values, and so on |
/// | `try_eq` | `len`, then `iter` of both maps and sorts on the host, O(n log n) |
/// | `retain` | `iter`, a sort of the keys on the host, and `get_all`; unless all pairs are kept, it then allocates a new pool, and inserts the kept pairs as `from_pairs` does |
/// | `len`, `is_empty` | waits for the device, copies 8 KiB |
/// | `iter` | waits; launches that read all lists; copies all pairs to the host |
/// | `retain_keys`, `retain_values` | waits; one launch that reads all lists |
/// | `save` | `iter`, and one pass over the bytes on the host |
/// | `load` | reads the file on the host, then an insertion in batches of 2^22 pairs |
/// | `clear` | waits; one launch that reads all lists and frees their slabs |
/// | others | as those of [`SlabHash`](super::SlabHash) |
pub struct SlabMultiMap<K: Key, V: Value> {
    pub(super) lists: Lists<K::Word, V::Word>,
}

common!(SlabMultiMap<K: Key, V: Value>, K, V::Word);
properties!(SlabMultiMap<K: Key, V: Value>);

impl<K: Key, V: Value> Builder<SlabMultiMap<K, V>> {
    /// Creates an empty map.
    ///
    /// # Errors
    /// As the builder of a [`SlabHash`](super::SlabHash).
    pub fn build(self) -> Result<SlabMultiMap<K, V>> {
        Ok(SlabMultiMap { lists: self.lists(true, true)? })
    }
}

/// One operation of a mixed batch (see [`SlabMultiMap::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiOp<K, V> {
    /// Inserts a pair after the key's existing ones.
    Insert(K, V),
    /// Looks up the first value.
    GetFirst(K),
    /// Removes the first value.
    RemoveOne(K),
}

impl<K: Key, V: Value> MultiOp<K, V> {
    fn parts(self) -> (OpCode, K::Word, Option<V::Word>) {
        let (code, key, value) = match self {
            Self::Insert(key, value) => (OpCode::INSERT, key, value.encode()),
            Self::GetFirst(key) => (OpCode::GET, key, V::Word::default()),
            Self::RemoveOne(key) => (OpCode::REMOVE, key, V::Word::default()),
        };
        (code, key.encode(), Some(value))
    }
}

/// The values of several keys.
///
/// ```
/// use phalanx::SlabMultiMap;
///
/// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[1, 1], &[10, 11])?.all_placed());
/// let values = map.get_all(&[1, 2])?;
/// assert_eq!((values.len(), values.is_empty()), (2, false)); // two keys
/// assert_eq!(values.of(0).len(), 2);
/// assert_eq!(values.iter().map(<[u32]>::len).collect::<Vec<_>>(), [2, 0]);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values<V> {
    offsets: Vec<usize>,
    values: Vec<V>,
}

impl<V> Values<V> {
    /// Returns the values of the key at `index` of the request.
    ///
    /// # Panics
    /// If the request had `index` keys or fewer.
    pub fn of(&self, index: usize) -> &[V] {
        &self.values[self.offsets[index]..self.offsets[index + 1]]
    }

    /// Returns the number of keys in the request.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether the request had no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the values of each key, in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = &[V]> {
        (0..self.len()).map(|index| self.of(index))
    }
}

/// Construction of a map with pairs, and comparison.
impl<K: Key, V: Value> SlabMultiMap<K, V> {
    /// Creates a map of pairs: see [`Self::with_capacity`]. The values of a key keep their order.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::Device`] or [`Error::NoRoom`] if no device
    /// is available, or it lacks the memory.
    pub fn from_pairs(keys: &[K], values: &[V]) -> Result<Self> {
        check("values", keys.len(), values.len())?;
        let map = Self::with_capacity(keys.len().max(1))?;
        map.insert_in_order(keys, values)?;
        Ok(map)
    }

    /// Creates a map of pairs, as [`FromIterator`] does. The values of a key are in the order of the pairs.
    ///
    /// # Errors
    /// As [`Self::from_pairs`].
    pub fn try_from_iter(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let (keys, values): Pairs<K, V> = run::all_of(pairs).into_iter().unzip();
        Self::from_pairs(&keys, &values)
    }

    /// Inserts pairs, as [`Extend`] does. The values of a key are inserted in the order of the pairs.
    ///
    /// # Errors
    /// As [`Self::insert`], and [`Error::NoRoom`] also if some pairs do not fit a map of fixed capacity.
    pub fn try_extend(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let (keys, values): Pairs<K, V> = run::all_of(pairs).into_iter().unzip();
        self.insert_in_order(&keys, &values)
    }

    /// Returns whether both maps have the same pairs, each as often, as [`PartialEq`] does: keys and values
    /// are equal if their words are. The order of the values of a key does not matter. Devices and variants
    /// may differ.
    ///
    /// # Errors
    /// [`Error::Device`] if a device is lost or lacks the memory.
    pub fn try_eq(&self, other: &Self) -> Result<bool> {
        let sorted = |map: &Self| -> Result<Vec<(K::Word, V::Word)>> {
            let (keys, values) = export::all(&map.lists)?;
            let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
            pairs.sort_unstable();
            Ok(pairs)
        };
        Ok(self.len()? == other.len()? && sorted(self)? == sorted(other)?)
    }

    /// Inserts pairs, those of a key in their order: a batch has no order, so each has a key at most once.
    fn insert_in_order(&self, keys: &[K], values: &[V]) -> Result<()> {
        let mut outcomes = vec![Outcome::Refused; keys.len()];
        for batch in batches_of_distinct(keys) {
            let pairs: Pairs<K, V> = batch.iter().map(|&index| (keys[index], values[index])).unzip();
            let (done, has_failed) = match self.insert(&pairs.0, &pairs.1) {
                Err(Error::NoRoom { outcomes, .. }) => (outcomes, true),
                inserted => (inserted?, false),
            };
            batch.iter().zip(done).for_each(|(&index, outcome)| outcomes[index] = outcome);
            if has_failed {
                break;
            }
        }
        Outcomes::from(outcomes).or_no_room()
    }
}

/// Returns the indices of the keys in batches: the first of each key, then the second of each, and so on.
fn batches_of_distinct<K: Key>(keys: &[K]) -> Vec<Vec<usize>> {
    let (mut batches, mut counts) = (Vec::<Vec<usize>>::new(), HashMap::<K::Word, usize>::new());
    for (index, &key) in keys.iter().enumerate() {
        let count = counts.entry(key.encode()).or_default();
        if *count == batches.len() {
            batches.push(Vec::new());
        }
        batches[*count].push(index);
        *count += 1;
    }
    batches
}

/// Batches on host slices. They block until the results are available.
impl<K: Key, V: Value> SlabMultiMap<K, V> {
    /// Inserts pairs in addition to existing ones. Returns for each [`Outcome::Inserted`] or, if it does not
    /// fit a map of fixed capacity, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Map::insert`](crate::Map::insert).
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.insert_words(&K::encode_all(keys), &V::encode_all(values))
    }

    fn insert_words(&self, keys: &[K::Word], values: &[V::Word]) -> Result<Outcomes> {
        run::with_values(&self.lists, BatchOp::Insert, keys, values).map(Results::into_outcomes)
    }

    /// Returns for each key whether it has a value.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::contains(&self.lists, keys)
    }

    /// Returns the number of values of each key.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn count(&self, keys: &[K]) -> Result<Vec<u32>> {
        self.counts(keys, |keys, counts| Task::Count { keys, counts })
    }

    /// Removes the first value of each key. Returns for each whether there was one. Of several equal keys in
    /// the batch, each removes another value.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn remove_one(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::removed(&self.lists, keys)
    }

    /// Executes a mixed batch: each element has its own operation; all run in one launch, in no particular
    /// order. Returns for each its outcome, and the value of a lookup with the outcome [`Outcome::Found`].
    ///
    /// ```
    /// use phalanx::slab_hash::MultiOp;
    /// use phalanx::{Outcome, SlabMultiMap};
    ///
    /// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
    /// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
    /// let done = map.execute(&[MultiOp::GetFirst(1), MultiOp::RemoveOne(2), MultiOp::Insert(3, 30)])?;
    /// assert_eq!(done[0], (Outcome::Found, Some(10)));
    /// assert_eq!(done[1..], [(Outcome::Removed, None), (Outcome::Inserted, None)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::execute`](crate::Map::execute).
    pub fn execute(&self, operations: &[MultiOp<K, V>]) -> Result<Vec<(Outcome, Option<V>)>> {
        let results = run::coded(&self.lists, operations.iter().map(|operation| operation.parts()))?;
        results.pairs_where(|outcome| outcome == Outcome::Found)
    }

    /// Removes all values of the keys. Returns the number of removed values of each key.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn remove_all(&self, keys: &[K]) -> Result<Vec<u32>> {
        self.counts(keys, |keys, counts| Task::RemoveAll { keys, counts })
    }

    /// Returns the values of the keys, each key's in insertion order. Traverses each list twice: to count the
    /// values, and to copy them. Values inserted between the two are not returned.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    #[doc(alias = "search_all")]
    pub fn get_all(&self, keys: &[K]) -> Result<Values<V>> {
        let counted = self.count(keys)?;
        let ends = counted.iter().scan(0usize, |end, &count| {
            *end += count as usize;
            Some(*end)
        });
        let bounds: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let total = bounds[keys.len()];
        let device = &self.lists.handle.device;
        let offsets: Vec<u64> = bounds[..keys.len()].iter().map(|&offset| offset as u64).collect();
        let (offsets, keys) = (device.from_slice(&offsets)?, device.from_slice(&K::encode_all(keys))?);
        let (counts, values) = (device.from_slice(&counted)?, device.buffer::<V::Word>(total)?);
        let (keys, offsets) = (keys.global().into(), offsets.global());
        let task = Task::Collect { keys, offsets, values: values.global(), counts: counts.global() };
        self.lists.task(&device.default_stream(), task)?;
        let Values { offsets, values } = pack(&bounds, &counted, &counts.read()?, values.read()?);
        Ok(Values { offsets, values: V::decode_all(values)? })
    }

    /// Runs a task that returns a number for each key.
    fn counts(
        &self,
        keys: &[K],
        task: impl FnOnce(BoundedSlice<K::Word>, GlobalSlice<u32>) -> Task<K::Word, V::Word>,
    ) -> Result<Vec<u32>> {
        let keys = self.lists.handle.device.from_slice(&K::encode_all(keys))?;
        let counts = self.lists.handle.device.buffer::<u32>(keys.len())?;
        self.lists
            .task(&self.lists.handle.device.default_stream(), task(keys.global().into(), counts.global()))?;
        Ok(counts.read()?)
    }

    /// Returns the batches on device buffers, submitted to a stream.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> MultiBatches<'a, K, V> {
        MultiBatches { map: self, stream }
    }
}

/// Packs the values that were found: removes the gaps of those that were removed between counting and
/// copying.
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

/// Operations on the whole map.
impl<K: Key, V: Value> SlabMultiMap<K, V> {
    /// Returns all pairs, in no particular order. They are copied to the host before the iterator is
    /// returned.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = decode_pairs::<K, V>(export::all(&self.lists)?)?;
        Ok(keys.into_iter().zip(values))
    }

    /// Keeps the pairs for which `keep` returns true, which is called for the values of a key in their order.
    /// All pairs are copied to the host; unless all are kept, the kept ones are copied to a new pool, which
    /// exists beside the old one during the call. For a range of keys or values use [`Self::retain_keys`] or
    /// [`Self::retain_values`], which work on the device.
    ///
    /// ```
    /// use phalanx::SlabMultiMap;
    ///
    /// let mut map = SlabMultiMap::<u32, u32>::from_pairs(&[1, 1, 2, 1], &[10, 11, 20, 12])?;
    /// map.retain(|key, value| key == 1 && value != 11)?;
    /// assert_eq!(map.get_all(&[1, 2])?.iter().collect::<Vec<_>>(), [&[10, 12][..], &[]]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`] or [`Error::NoRoom`] if the device is lost or lacks the memory. On error the map is
    /// unchanged.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) -> Result<()> {
        let mut words = export::all(&self.lists)?.0;
        let pairs = words.len();
        words.sort_unstable();
        words.dedup();
        let keys = K::decode_all(words)?;
        let values = self.get_all(&keys)?;
        let all =
            keys.iter().zip(values.iter()).flat_map(|(&key, of)| of.iter().map(move |&value| (key, value)));
        let (keys, values): Pairs<K, V> = all.filter(|&(key, value)| keep(key, value)).unzip();
        if keys.len() == pairs {
            return Ok(());
        }
        let old = self.lists.exchange_for_empty()?;
        let kept = self.insert_in_order(&keys, &values);
        if kept.is_err() {
            *self.lists.handle.get_mut() = old;
        }
        kept
    }

    /// Keeps the pairs whose keys are in the range. Works on the device.
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if the lower end is above the upper end;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn retain_keys(&mut self, range: RangeInclusive<K>) -> Result<()> {
        run::retain_keys(&mut self.lists, &range)
    }

    /// Keeps the pairs whose values are in the range. Works on the device.
    ///
    /// # Errors
    /// As [`Self::retain_keys`].
    pub fn retain_values(&mut self, range: RangeInclusive<V>) -> Result<()> {
        run::retain_values(&mut self.lists, &range)
    }

    /// Saves the map: version, checksum and all pairs.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the writer fails; [`Error::Device`](crate::Error::Device) if the
    /// device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        file::save::<K, V>(export::all(&self.lists)?, writer)
    }

    /// Loads a map that [`Self::save`] wrote, with the builder's parameters; its capacity is raised to the
    /// number of saved pairs if needed.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) if the data is not a saved map, is of another version or other
    /// types, or is damaged; [`Error::DoesNotFit`](crate::Error::DoesNotFit) if some pairs do not fit;
    /// [`Error::Io`](crate::Error::Io) if the reader fails; otherwise as [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        let build = |pairs| builder.at_least(pairs).build();
        file::load_into::<K, V, Self>(reader, build, |map, keys, values| map.insert_words(keys, values))
    }
}

/// Batches on device buffers, which have words as those of [`Batches`](crate::map::Batches). The calls submit
/// work to a stream and do not wait for it. Created by [`SlabMultiMap::on`]. Outcomes are the codes of
/// [`Outcome`], one byte per element. These calls never grow the pool: pairs that do not fit are refused.
///
/// ```
/// use phalanx::map::OpCode;
/// use phalanx::{Outcome, SlabMultiMap};
///
/// let map = SlabMultiMap::<u32, u32>::with_capacity(100)?;
/// let (device, stream) = (map.device(), map.device().stream()?);
/// let (keys, ones) = (device.from_slice(&[1u32, 2])?, device.from_slice(&[7u32, 8])?);
/// let (mut values, mut outcomes) = (device.zeroed::<u32>(4)?, device.zeroed::<u8>(2)?);
/// let (mut counts, offsets) = (device.from_slice(&[2u32, 2])?, device.from_slice(&[0u64, 2])?);
/// let batches = map.on(&stream);
/// batches.insert(&keys, &ones, None)?;
/// let codes = device.filled::<u8>(2, OpCode::INSERT.code() as u8)?;
/// batches.execute(&codes, &keys, &keys, &mut device.zeroed::<u32>(2)?, &mut outcomes)?;
/// batches.get_all(&keys, &offsets, &mut values, &mut counts)?; // at most two values of each key
/// assert_eq!((values.read()?, counts.read()?), (vec![7, 1, 8, 2], vec![2, 2]));
/// batches.count(&keys, &mut counts)?;
/// batches.contains_key(&keys, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8; 2]);
/// batches.remove_one(&keys, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Removed as u8; 2]);
/// batches.remove_all(&keys, &mut counts)?;
/// assert_eq!(counts.read()?, [1, 1]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Each call launches one kernel. It allocates and copies nothing and does not wait.
#[derive(Debug)]
pub struct MultiBatches<'a, K: Key, V: Value> {
    map: &'a SlabMultiMap<K, V>,
    stream: &'a Stream,
}

impl<K: Key, V: Value> MultiBatches<'_, K, V> {
    fn slice<T: Word>(
        &self,
        what: &'static str,
        elements: impl AsSlice<T>,
        len: usize,
    ) -> Result<GlobalSlice<T>> {
        slice(&self.map.lists.handle.device, what, elements, len)
    }

    fn keys(&self, keys: impl AsBounded<K::Word>) -> Result<BoundedSlice<K::Word>> {
        elements_of(&self.map.lists.handle.device, "keys", keys)
    }

    fn task(&self, task: Task<K::Word, V::Word>) -> Result<()> {
        check_same_device(&self.map.lists.handle.device, "stream", self.stream.device())?;
        self.map.lists.task(self.stream, task)
    }

    /// Submits [`SlabMultiMap::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the buffers differ in length;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) if a buffer or the stream is not of the map's
    /// device; [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn insert(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let keys = self.keys(keys)?;
        let values = self.slice("values", values, keys.max_len())?;
        let outcomes = optional_slice(&self.map.lists.handle.device, "outcomes", outcomes, keys.max_len())?;
        self.task(Task::Append { keys, values, outcomes })
    }

    /// Submits [`SlabMultiMap::count`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn count(&self, keys: impl AsBounded<K::Word>, counts: impl AsSliceMut<u32>) -> Result<()> {
        let keys = self.keys(keys)?;
        let counts = self.slice("counts", counts, keys.max_len())?;
        self.task(Task::Count { keys, counts })
    }

    /// Writes the first `counts[i]` values of the key with index `i` to `values`, from index `offsets[i]` on,
    /// and then the key's total number of values to `counts[i]`.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_all(
        &self,
        keys: impl AsBounded<K::Word>,
        offsets: impl AsSlice<u64>,
        values: impl AsSliceMut<V::Word>,
        counts: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let keys = self.keys(keys)?;
        let offsets = self.slice("offsets", offsets, keys.max_len())?;
        let counts = self.slice("counts", counts, keys.max_len())?;
        let values = values.view();
        let values = self.slice("values", values, values.len())?;
        self.task(Task::Collect { keys, offsets, values, counts })
    }

    /// Submits [`SlabMultiMap::contains_key`]. Outcomes are [`Outcome::Found`] and [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        check_same_device(&self.map.lists.handle.device, "stream", self.stream.device())?;
        let batch = contains_key(&self.map.lists.handle.device, keys, outcomes)?;
        self.map.lists.submit(self.stream, batch)
    }

    /// Submits [`SlabMultiMap::remove_one`]. Outcomes are [`Outcome::Removed`] and [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove_one(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        check_same_device(&self.map.lists.handle.device, "stream", self.stream.device())?;
        let batch = contains_key(&self.map.lists.handle.device, keys, outcomes)?;
        self.map.lists.submit(self.stream, Batch { op: BatchOp::Remove, ..batch })
    }

    /// Submits [`SlabMultiMap::execute`]. `codes` has the operations' codes, one byte per element:
    /// [`OpCode::code`] as a `u8`. [`OpCode::INSERT`] appends. The other operations treat the first value of
    /// a key as a map treats its only one; a byte that is no code looks it up.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: impl AsSlice<u8>,
        keys: impl AsBounded<K::Word>,
        arguments: impl AsSlice<V::Word>,
        results: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let keys = self.keys(keys)?;
        let len = keys.max_len();
        self.task(Task::Mixed {
            codes: self.slice("codes", codes, len)?,
            keys,
            arguments: self.slice("arguments", arguments, len)?,
            results: self.slice("results", results, len)?,
            outcomes: self.slice("outcomes", outcomes, len)?,
        })
    }

    /// Submits [`SlabMultiMap::remove_all`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove_all(&self, keys: impl AsBounded<K::Word>, counts: impl AsSliceMut<u32>) -> Result<()> {
        let keys = self.keys(keys)?;
        let counts = self.slice("counts", counts, keys.max_len())?;
        self.task(Task::RemoveAll { keys, counts })
    }
}

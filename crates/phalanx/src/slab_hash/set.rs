//! A set of keys.
use super::{Builder, Lists, common, properties};
#[allow(unused_imports)] // for links in the documentation
use crate::Outcome;
use crate::map::batches::{check_same_device, contains_key, slice};
use crate::map::launch::{Batch, BatchOp};
use crate::map::run::Results;
use crate::map::structure::Structure;
use crate::map::{export, file, run};
use crate::{Key, Outcomes, Result};
use gpu::{AsBounded, AsSlice, AsSliceMut, Stream};
use phalanx_kernels::keyed::OpCode;
use std::io::{Read, Write};
use std::ops::RangeInclusive;

/// A set of [keys](Key) in device memory, made of slab lists with 30 keys of 32 bits or 15 of 64 bits per
/// slab. No key is reserved.
///
/// Source: the thesis on dynamic GPU structures, section 5.4, whose adjacency lists are such sets; the
/// slab-hash paper, section III.
///
/// ```
/// use phalanx::{Outcome, SlabSet};
///
/// let set = SlabSet::<u32>::with_capacity(100)?;
/// assert_eq!(set.insert(&[1, 2])?, [Outcome::Inserted; 2]);
/// assert_eq!(set.insert(&[2])?, [Outcome::Found]);
/// assert_eq!(set.contains_key(&[2, 3])?, [true, false]);
/// assert_eq!(set.remove(&[1])?, [true]);
/// assert_eq!(set.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::slab_hash::SetOp;
/// use phalanx::{Outcome, SlabSet};
///
/// let mut set = SlabSet::<u32>::builder().capacity(100).build()?;
/// let done = set.execute(&[SetOp::Insert(1), SetOp::Insert(5), SetOp::ContainsKey(2), SetOp::Insert(9)])?;
/// assert_eq!(done[2], Outcome::Absent);
/// set.retain(|key| key != 5)?;
/// set.retain_keys(0..=8)?;
/// assert_eq!(set.iter()?.collect::<Vec<_>>(), [1]);
/// let mut file = Vec::new();
/// set.save(&mut file)?;
/// let loaded = SlabSet::<u32>::load(&file[..], SlabSet::builder())?;
/// let (stream, keys) = (loaded.device().stream()?, loaded.device().from_slice(&[1u32, 2])?);
/// let mut outcomes = loaded.device().zeroed::<u8>(2)?;
/// loaded.on(&stream).contains_key(&keys, &mut outcomes)?; // does not block
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8, Outcome::Absent as u8]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SlabSet;
///
/// let set = SlabSet::<u32>::from_keys(&[1, 2])?;
/// assert!(SlabSet::try_from_iter([2, 1, 2])?.try_eq(&set)?);
/// let empty = SlabSet::<u32>::try_new()?;
/// empty.try_extend(&set)?;
/// assert_eq!(empty, set); // the traits of the standard library panic where these calls return errors
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// `insert`, `contains_key`, `remove` and `execute` may run concurrently; each operation on a key is
/// linearizable. The others take `&mut self`, or wait until no launch runs.
///
/// # Cost
///
/// Accesses per key are those of a [`SlabHash`](super::SlabHash) with the same number of slabs per list.
///
/// | call | cost |
/// |---|---|
/// | `insert`, `contains_key`, `remove`, `execute` | as [`Map`](crate::Map): one launch for up to 1024 keys, else chunks with their copies |
/// | `from_keys`, `try_from_iter`, `try_extend` | one pass over the keys on the host, then `insert` |
/// | `try_eq` | `len`, then `iter` of both sets and sorts on the host, O(n log n) |
/// | `len`, `is_empty` | waits for the device, copies 8 KiB |
/// | `iter` | waits; launches that read all lists; copies all keys to the host |
/// | `retain` | `iter`, then `remove` of the rejected keys |
/// | `retain_keys` | waits; one launch that reads all lists |
/// | `save` | `iter`, and one pass over the bytes on the host |
/// | `load` | reads the file on the host, then an insertion in batches of 2^22 keys |
/// | `clear` | waits; one launch that reads all lists and frees their slabs |
/// | others | as those of [`SlabHash`](super::SlabHash) |
pub struct SlabSet<K: Key> {
    pub(super) lists: Lists<K::Word, u32>,
}

common!(SlabSet<K: Key>, K, u32);
properties!(SlabSet<K: Key>);

/// One operation of a mixed batch (see [`SlabSet::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp<K> {
    /// Inserts the key.
    Insert(K),
    /// Looks up the key.
    ContainsKey(K),
    /// Removes the key.
    Remove(K),
}

impl<K: Key> SetOp<K> {
    fn parts(self) -> (OpCode, K::Word, Option<u32>) {
        let (code, key) = match self {
            Self::Insert(key) => (OpCode::INSERT_NEW, key),
            Self::ContainsKey(key) => (OpCode::GET, key),
            Self::Remove(key) => (OpCode::REMOVE, key),
        };
        (code, key.encode(), None)
    }
}

impl<K: Key> Builder<SlabSet<K>> {
    /// Creates an empty set.
    ///
    /// # Errors
    /// As the builder of a [`SlabHash`](super::SlabHash).
    pub fn build(self) -> Result<SlabSet<K>> {
        Ok(SlabSet { lists: self.lists(false, false)? })
    }
}

/// Construction of a set with keys, and comparison.
impl<K: Key> SlabSet<K> {
    /// Creates a set of keys: see [`Self::with_capacity`] and [`Self::insert`].
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) or [`Error::NoRoom`](crate::Error::NoRoom) if no device is
    /// available, or it lacks the memory.
    pub fn from_keys(keys: &[K]) -> Result<Self> {
        let set = Self::with_capacity(keys.len().max(1))?;
        set.insert(keys)?.or_no_room()?;
        Ok(set)
    }

    /// Creates a set of keys, as [`FromIterator`] does.
    ///
    /// # Errors
    /// As [`Self::from_keys`].
    pub fn try_from_iter(keys: impl IntoIterator<Item = K>) -> Result<Self> {
        Self::from_keys(&run::all_of(keys))
    }

    /// Inserts keys, as [`Extend`] does.
    ///
    /// # Errors
    /// As [`Self::insert`], and [`Error::NoRoom`](crate::Error::NoRoom) also if some keys do not fit a set of
    /// fixed capacity.
    pub fn try_extend(&self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        self.insert(&run::all_of(keys))?.or_no_room()
    }

    /// Returns whether both sets have the same keys, as [`PartialEq`] does. Devices and variants may differ.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if a device is lost or lacks the memory.
    pub fn try_eq(&self, other: &Self) -> Result<bool> {
        let sorted = |set: &Self| -> Result<Vec<K::Word>> {
            let mut keys = export::all(&set.lists)?.0;
            keys.sort_unstable();
            Ok(keys)
        };
        Ok(self.len()? == other.len()? && sorted(self)? == sorted(other)?)
    }
}

/// Batches on host slices. They block until the results are available.
impl<K: Key> SlabSet<K> {
    /// Inserts keys. Returns for each [`Outcome::Inserted`], [`Outcome::Found`] or, if it does not fit a set
    /// of fixed capacity, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Map::insert`](crate::Map::insert), except [`Error::Length`](crate::Error::Length).
    pub fn insert(&self, keys: &[K]) -> Result<Outcomes> {
        run::new_keys(&self.lists, keys)
    }

    /// Returns for each key whether it is in the set.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::contains(&self.lists, keys)
    }

    /// Removes keys. Returns for each whether it was removed; of several equal keys in the batch, only one
    /// returns `true`.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::removed(&self.lists, keys)
    }

    /// Executes a mixed batch: each element has its own operation; all run in one launch, in no particular
    /// order.
    ///
    /// # Errors
    /// As [`Map::execute`](crate::Map::execute).
    pub fn execute(&self, operations: &[SetOp<K>]) -> Result<Outcomes> {
        run::coded(&self.lists, operations.iter().map(|operation| operation.parts()))
            .map(Results::into_outcomes)
    }

    /// Returns the batches on device buffers, submitted to a stream.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> SetBatches<'a, K> {
        SetBatches { set: self, stream }
    }
}

/// Operations on the whole set.
impl<K: Key> SlabSet<K> {
    /// Returns all keys, in no particular order. They are copied to the host before the iterator is returned.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<std::vec::IntoIter<K>> {
        Ok(K::decode_all(export::all(&self.lists)?.0)?.into_iter())
    }

    /// Keeps the keys for which `keep` returns true. All keys are copied to the host, and the rejected ones
    /// back to the device.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn retain(&mut self, keep: impl Fn(K) -> bool) -> Result<()> {
        let rejected: Vec<K> = self.iter()?.filter(|&key| !keep(key)).collect();
        self.remove(&rejected).map(drop)
    }

    /// Keeps the keys in the range. Works on the device.
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if the lower end is above the upper end;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn retain_keys(&mut self, range: RangeInclusive<K>) -> Result<()> {
        run::retain_keys(&mut self.lists, &range)
    }

    /// Saves the set: version, checksum and all keys.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the writer fails; [`Error::Device`](crate::Error::Device) if the
    /// device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        file::save_keys::<K>(&export::all(&self.lists)?.0, writer)
    }

    /// Loads a set that [`Self::save`] wrote, with the builder's parameters; its capacity is raised to the
    /// number of saved keys if needed.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) if the data is not a saved set, is of another version or type,
    /// or is damaged; [`Error::DoesNotFit`](crate::Error::DoesNotFit) if some keys do not fit;
    /// [`Error::Io`](crate::Error::Io) if the reader fails; otherwise as [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        let build = |keys| builder.at_least(keys).build();
        file::load_keys::<K, Self>(reader, build, |set, keys| run::new_keys(&set.lists, keys))
    }
}

/// Batches on device buffers, which have words as those of [`Batches`](crate::map::Batches). The calls submit
/// work to a stream and do not wait for it. Created by [`SlabSet::on`]. Outcomes are the codes of
/// [`Outcome`], one byte per element. These calls never grow the pool: keys that do not fit are refused.
///
/// # Cost
///
/// `insert`, `contains_key`, `remove` and `execute` launch one kernel each. They allocate and copy nothing
/// and do not wait.
#[derive(Debug)]
pub struct SetBatches<'a, K: Key> {
    set: &'a SlabSet<K>,
    stream: &'a Stream,
}

impl<K: Key> SetBatches<'_, K> {
    fn submit(
        &self,
        op: BatchOp,
        keys: impl AsBounded<K::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.set.lists.submit(self.stream, self.batch(op, keys, outcomes)?)
    }

    fn batch(
        &self,
        op: BatchOp,
        keys: impl AsBounded<K::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<Batch<K::Word, u32>> {
        let device = &self.set.lists.handle.device;
        check_same_device(device, "stream", self.stream.device())?;
        Ok(Batch { op, ..contains_key(device, keys, outcomes)? })
    }

    /// Submits [`SlabSet::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the buffers differ in length;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) if a buffer or the stream is not of the set's
    /// device; [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn insert(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(BatchOp::InsertNew, keys, outcomes)
    }

    /// Submits [`SlabSet::contains_key`]. Outcomes are [`Outcome::Found`] and [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(BatchOp::ContainsKey, keys, outcomes)
    }

    /// Submits [`SlabSet::remove`]. Outcomes are [`Outcome::Removed`] and [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(BatchOp::Remove, keys, outcomes)
    }

    /// Submits [`SlabSet::execute`]. `codes` has the operations' codes, one byte per element:
    /// [`OpCode::code`] as a `u8`. All inserting operations insert the key; a byte that is no code looks it
    /// up.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: impl AsSlice<u8>,
        keys: impl AsBounded<K::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.batch(BatchOp::Mixed, keys, outcomes)?;
        let codes = slice(&self.set.lists.handle.device, "codes", codes, batch.keys.max_len())?;
        self.set.lists.submit(self.stream, Batch { codes, ..batch })
    }
}

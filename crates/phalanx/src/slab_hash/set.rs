//! A set of keys.
use super::{Builder, Lists, common, owner};
use crate::map::batches::{belongs, slice};
use crate::map::launch::{Ask, Batch};
use crate::map::structure::Structure;
use crate::map::{export, file, run};
use crate::{Key, Outcome, Result};
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Coded;
use std::io::{Read, Write};
use std::ops::RangeInclusive;

/// A set of `u32` or `u64` in device memory, made of slab lists with 30 (or 15) keys a slab. No key is
/// reserved.
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
/// assert_eq!(set.contains(&[2, 3])?, [true, false]);
/// assert_eq!(set.remove(&[1])?, [true]);
/// assert_eq!(set.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// `insert`, `contains`, `remove` and `execute` may run side by side, each linearizable by key; the rest
/// takes `&mut self`, or waits by itself until no launch runs.
pub struct SlabSet<K> {
    pub(super) lists: Lists<K, u32>,
}

common!(SlabSet<K: Key>, K, u32);
owner!(SlabSet<K: Key>);

/// One operation of a mixed batch (see [`SlabSet::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp<K> {
    /// Inserts.
    Insert(K),
    /// Looks the key up.
    Contains(K),
    /// Removes.
    Remove(K),
}

impl<K: Key> SetOp<K> {
    fn parts(self) -> (Coded, K, Option<u32>) {
        match self {
            Self::Insert(key) => (Coded::INSERT_NEW, key, None),
            Self::Contains(key) => (Coded::GET, key, None),
            Self::Remove(key) => (Coded::REMOVE, key, None),
        }
    }
}

impl<K: Key> Builder<SlabSet<K>> {
    /// Makes the set, empty.
    ///
    /// # Errors
    /// Those of a [`SlabHash`](super::SlabHash)'s builder.
    pub fn build(self) -> Result<SlabSet<K>> {
        Ok(SlabSet { lists: self.lists(false, false)? })
    }
}

/// Batches on host slices. They block until the results are there.
impl<K: Key> SlabSet<K> {
    /// Inserts keys. Says of each [`Outcome::Inserted`], [`Outcome::Found`] or, where a pool of fixed
    /// capacity has no slab, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Map::insert`](crate::Map::insert), but that there is one slice.
    pub fn insert(&self, keys: &[K]) -> Result<Vec<Outcome>> {
        run::new_keys(&self.lists, keys)
    }

    /// Whether the keys are there.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    #[doc(alias = "contains_key")]
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>> {
        run::whether(&self.lists, Ask::ContainsKey, keys, Outcome::Found)
    }

    /// Removes keys. Says of each whether it was there; of several that are equal, one.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let removed = run::whether(&self.lists, Ask::Remove, keys, Outcome::Removed)?;
        self.lists.make_room()?;
        Ok(removed)
    }

    /// A mixed batch: every element an operation of its own, all in one launch, in no order.
    ///
    /// # Errors
    /// As [`Map::execute`](crate::Map::execute).
    pub fn execute(&self, operations: &[SetOp<K>]) -> Result<Vec<Outcome>> {
        Ok(run::coded(&self.lists, operations.iter().map(|operation| operation.parts()))?.outcomes)
    }

    /// Batches on device buffers, asked of a stream.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> SetBatches<'a, K> {
        SetBatches { set: self, stream }
    }
}

/// The set as a whole.
impl<K: Key> SlabSet<K> {
    /// All keys, copied to the host at once, in no order.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<std::vec::IntoIter<K>> {
        Ok(export::all(&self.lists)?.0.into_iter())
    }

    /// Keeps the keys of which `keep` is true. The keys travel to the host and the rejected ones back.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn retain(&mut self, keep: impl Fn(K) -> bool) -> Result<()> {
        let rejected: Vec<K> = self.iter()?.filter(|&key| !keep(key)).collect();
        self.remove(&rejected).map(drop)
    }

    /// Keeps the keys in the range. Stays on the device.
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) when the ends are swapped;
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn retain_range(&mut self, range: RangeInclusive<K>) -> Result<()> {
        run::retain_between(&mut self.lists, false, range.start().to_u64(), range.end().to_u64())
    }

    /// Writes the set: version, checksum and all keys.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the writer fails; [`Error::Device`](crate::Error::Device) when
    /// the device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        file::save_keys(&export::all(&self.lists)?.0, writer)
    }

    /// Reads a set that [`Self::save`] wrote, into one with the builder's parameters, and with room for all
    /// keys where its capacity is less.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) when it is none, of another version or type, or damaged;
    /// [`Error::DoesNotFit`](crate::Error::DoesNotFit) when not all of it finds room;
    /// [`Error::Io`](crate::Error::Io); those of [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        file::load_keys(reader, |keys| builder.at_least(keys).build(), Self::insert)
    }
}

/// Batches on device buffers, which return when they are asked for. Made by [`SlabSet::on`]. Outcomes are the
/// codes of [`Outcome`], a byte an element. Nothing grows here: what finds no room is refused.
#[derive(Debug)]
pub struct SetBatches<'a, K> {
    set: &'a SlabSet<K>,
    stream: &'a Stream,
}

impl<K: Key> SetBatches<'_, K> {
    fn launch(&self, ask: Ask, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.set.lists.launch(self.stream, self.batch(ask, keys, outcomes)?)
    }

    fn batch(&self, ask: Ask, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<Batch<K, u32>> {
        let home = &self.set.lists.owner.device;
        belongs(home, "stream", self.stream.device())?;
        let keys = slice(home, "keys", keys, keys.len())?;
        let outcomes = slice(home, "outcomes", outcomes, keys.len())?;
        Ok(Batch { outcomes, ..Batch::new(ask, keys) })
    }

    /// [`SlabSet::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) when the buffers differ in length;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) when a buffer or the stream is not of the set's
    /// device; [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn insert(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(Ask::InsertNew, keys, outcomes)
    }

    /// [`SlabSet::contains`]: [`Outcome::Found`] or [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(Ask::ContainsKey, keys, outcomes)
    }

    /// [`SlabSet::remove`]: [`Outcome::Removed`] or [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(Ask::Remove, keys, outcomes)
    }

    /// [`SlabSet::execute`]: `codes` are those of [`Coded`], a byte an element. One that inserts by another
    /// name inserts; a byte that is none looks its key up.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(&self, codes: &Buffer<u8>, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let codes = slice(&self.set.lists.owner.device, "codes", codes, keys.len())?;
        self.set.lists.launch(self.stream, Batch { codes, ..self.batch(Ask::Mixed, keys, outcomes)? })
    }
}

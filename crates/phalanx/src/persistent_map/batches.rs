//! Batches on device buffers, submitted to a stream.
use super::kernels::Launch;
use super::{PersistentMap, Plain};
use crate::Result;
use crate::map::batches::{check_same_device, optional_slice};
use crate::map::check;
use crate::map::launch::nothing;
use gpu::{AsBounded, AsSlice, AsSliceMut, Bounded, OptionalSliceMut, Slice, Stream};
use phalanx_kernels::persistent::{Changes, Lookups};
use simt::{BoundedSlice, GlobalSlice, Word};

/// Batches on device buffers. The calls submit work to a stream and do not wait for it. Created by
/// [`PersistentMap::on`].
///
/// Outcomes are the codes of [`Outcome`](crate::Outcome), one byte per element. These calls never grow the
/// map: elements that do not fit are refused.
///
/// ```
/// use phalanx::{Outcome, PersistentMap};
///
/// let map = PersistentMap::<u64, u64>::with_capacity(1000)?;
/// let (device, stream) = (map.device(), map.device().stream()?);
/// let (keys, values) = (device.from_slice(&[7u64, 8])?, device.from_slice(&[70u64, 80])?);
/// let (mut found, mut outcomes) = (device.zeroed::<u64>(2)?, device.zeroed::<u8>(2)?);
/// let batches = map.on(&stream);
/// batches.insert(&keys, &values, None)?;
/// batches.insert_new(&keys, &values, None)?;
/// batches.update(&keys, &values, None)?;
/// batches.get(&keys, &mut found, &mut outcomes)?;
/// assert_eq!((found.read()?, outcomes.read()?), (vec![70, 80], vec![Outcome::Found as u8; 2]));
/// let count = device.from_slice(&[1u32])?; // on the device: the batch has the first key only
/// batches.remove(keys.bounded_by(&count)?, None)?;
/// batches.remove(&keys, None)?;
/// batches.contains_key(&keys, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Absent as u8; 2]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Batches of several streams and host threads run concurrently. Each element takes effect at one moment
/// between the call and the end of its kernel.
///
/// # Cost
///
/// `get`, `contains_key`, `insert`, `insert_new`, `update` and `remove` launch one kernel each. Calls do not
/// wait for the device, except while another thread grows the map or copies the last pages of a
/// [`sync`](PersistentMap::sync).
#[derive(Debug)]
pub struct Batches<'a, K, V> {
    map: &'a PersistentMap<K, V>,
    stream: Stream,
}

impl<'a, K: Plain, V: Plain> Batches<'a, K, V> {
    pub(super) fn new(map: &'a PersistentMap<K, V>, stream: &Stream) -> Self {
        Self { map, stream: stream.clone() }
    }

    /// Writes the values of keys that are present to `values`, and outcomes `Found` or `Absent`. The values
    /// of absent keys are arbitrary.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if lengths differ;
    /// [`Error::TooLarge`](crate::Error::TooLarge) for 2^32 keys or more;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) if a buffer or the stream is of another device;
    /// [`Error::Alignment`](crate::Error::Alignment) if keys are not aligned to 8 bytes or values to 4;
    /// [`Error::Device`](crate::Error::Device) if the device is lost.
    pub fn get(
        &self,
        keys: impl AsBounded<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let (len, keys) = self.keys(keys.bounded())?;
        let values = self.values(values.view(), len)?;
        self.submit(Launch::Get(Lookups { keys, values, outcomes: self.codes(outcomes, len)? }))
    }

    /// Writes outcomes `Found` or `Absent`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: impl AsBounded<K>, outcomes: impl OptionalSliceMut<u8>) -> Result<()> {
        let (len, keys) = self.keys(keys.bounded())?;
        let outcomes = self.codes(outcomes, len)?;
        self.submit(Launch::Contains(Lookups { keys, values: nothing(), outcomes }))
    }

    /// Inserts keys, and replaces the values of those that are present. Outcomes: `Inserted`, `Replaced`,
    /// `Refused`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn insert(
        &self,
        keys: impl AsBounded<K>,
        values: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit(Launch::Insert(self.changes(keys.bounded(), values.view(), outcomes)?))
    }

    /// Inserts the keys that are absent. Outcomes: `Inserted`, `Found`, `Refused`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn insert_new(
        &self,
        keys: impl AsBounded<K>,
        values: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit(Launch::InsertNew(self.changes(keys.bounded(), values.view(), outcomes)?))
    }

    /// Replaces the values of keys that are present. Outcomes: `Replaced`, `Absent`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn update(
        &self,
        keys: impl AsBounded<K>,
        values: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit(Launch::Update(self.changes(keys.bounded(), values.view(), outcomes)?))
    }

    /// Removes keys. Outcomes: `Removed`, `Absent`.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: impl AsBounded<K>, outcomes: impl OptionalSliceMut<u8>) -> Result<()> {
        let (len, keys) = self.keys(keys.bounded())?;
        let outcomes = self.codes(outcomes, len)?;
        self.submit(Launch::Remove(Changes { keys, values: nothing(), outcomes }))
    }

    fn changes(
        &self,
        keys: Bounded<'_, K>,
        values: Slice<'_, V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Changes> {
        let (len, keys) = self.keys(keys)?;
        let values = self.values(values, len)?;
        Ok(Changes { keys, values, outcomes: self.codes(outcomes, len)? })
    }

    /// Returns the maximum number of keys, and their words.
    fn keys(&self, keys: Bounded<'_, K>) -> Result<(usize, BoundedSlice<u64>)> {
        let (asked, most) = (keys.elements().len(), u32::MAX as usize);
        if asked > most {
            return Err(crate::Error::TooLarge { what: "keys of a batch", asked, most });
        }
        let words = self.words("keys", keys.elements())?;
        let Some(count) = keys.count() else { return Ok((asked, words.into())) };
        check_same_device(self.map.device(), "count", count.device())?;
        Ok((asked, BoundedSlice::new(words, count.global())))
    }

    fn values(&self, values: Slice<'_, V>, len: usize) -> Result<GlobalSlice<u32>> {
        check("values", len, values.len())?;
        self.words("values", values)
    }

    fn codes(&self, outcomes: impl OptionalSliceMut<u8>, len: usize) -> Result<GlobalSlice<u8>> {
        optional_slice(self.map.device(), "outcomes", outcomes, len)
    }

    /// Returns elements as words, or an error unless they are on the map's device and aligned to words.
    fn words<T: Plain, W: Word>(&self, what: &'static str, elements: Slice<'_, T>) -> Result<GlobalSlice<W>> {
        check_same_device(self.map.device(), what, elements.device())?;
        if elements.is_empty() {
            return Ok(nothing());
        }
        let (pointer, words) = (elements.pointer().cast::<W>(), size_of::<T>() / size_of::<W>());
        if !pointer.is_aligned() {
            return Err(crate::Error::Alignment { what, bytes: size_of::<W>() });
        }
        // SAFETY: the elements are plain bytes, as many as these words have, and aligned to them. The caller
        // of the launch keeps them.
        Ok(unsafe { GlobalSlice::from_raw_parts(pointer, elements.len() * words) })
    }

    fn submit(&self, launch: Launch) -> Result<()> {
        self.map.launch(&self.stream, launch)
    }
}

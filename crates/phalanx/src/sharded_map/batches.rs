//! Batches on device buffers.
use super::ShardedMap;
use super::shape::Call;
use crate::map::batches::{contains_key, elements_of, get, slice};
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::{Key, Map, Merge, Value};
use crate::{Error, Result};
use gpu::{AsSlice, AsSliceMut, OptionalSliceMut};

/// Batches of a [`ShardedMap`] on buffers of this rank's device. Made by [`ShardedMap::batches`].
///
/// All ranks call the same operation, each with its own batch, which may be empty. Buffers have words of keys
/// and values, and outcomes are codes, as for [`Batches`](crate::map::Batches). Results are in the order of
/// the batch, and are available when [`ShardedMap::stream`] has executed the call: see
/// [`ShardedMap::wait`]. The buffers must be filled in the order of this stream, or before the call by work
/// that has ended. These calls never grow a shard: elements that do not fit are refused.
///
/// ```
/// use phalanx::exchange::{Exchange, Limits};
/// use phalanx::sharded_map::on_devices;
/// use phalanx::{Device, HashMap, Outcome, ShardedMap};
///
/// let devices = [(); 2].map(|()| Device::emulator(Default::default()));
/// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
/// on_devices(&devices, limits, |exchange| {
///     let shard = HashMap::<u32, u32>::builder().device(exchange.device()).capacity(1000).build()?;
///     let mut map = ShardedMap::new(exchange, shard)?;
///     let device = map.device().clone();
///     let first = 100 * map.rank() as u32; // each rank has keys of its own
///     let keys = device.from_slice(&(first..first + 100).collect::<Vec<_>>())?;
///     let (mut values, mut outcomes) = (device.zeroed::<u32>(100)?, device.zeroed::<u8>(100)?);
///     map.batches().insert(&keys, &keys, None)?;
///     map.batches().get(&keys, &mut values, &mut outcomes)?;
///     map.wait()?;
///     assert_eq!(values.read()?, keys.read()?);
///     assert_eq!(outcomes.read()?, [Outcome::Found as u8; 100]);
///     Ok(())
/// })?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// One call at a time. Calls of [`ShardedMap::shard`] may run concurrently, as [`Map`] describes.
///
/// # Cost
/// Each call waits for the device, for the counts of the batch, or of each chunk but not for its operations;
/// with 2^20 elements or more once more, for a sample of the keys, and once more if equal keys are combined.
/// A call with a small batch does not wait between devices with peer access. A lookup waits for the device if
/// the shard's own calls may have changed it since the last one. A chunk of up to 2^24 elements
/// takes two or three launches of its own and one for each other rank, and without peer access two transfers
/// and further launches for each round. Memory is allocated only for a batch that is longer than all before,
/// or the first one that is combined (about 45 bytes per element, which stay): then the call waits for the
/// device before it begins.
#[derive(Debug)]
pub struct ShardedBatches<'a, K: Key, V: Value, M>(&'a mut ShardedMap<K, V, M>);

impl<'a, K: Key, V: Value, M: Map<Key = K, Value = V>> ShardedBatches<'a, K, V, M> {
    pub(super) fn new(map: &'a mut ShardedMap<K, V, M>) -> Self {
        Self(map)
    }

    fn submit_pairs(
        &mut self,
        op: BatchOp,
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let (device, outcomes) = (self.0.device().clone(), outcomes.optional_view());
        let answers = outcomes.is_some();
        let batch = || {
            let keys = elements_of(&device, "keys", keys.view())?;
            let outcomes = match outcomes {
                Some(outcomes) => slice(&device, "outcomes", outcomes, keys.max_len())?,
                None => nothing(),
            };
            let arguments = slice(&device, "values", values, keys.max_len())?;
            Ok::<_, Error>(Batch { arguments, outcomes, ..Batch::new(op, keys) })
        };
        let batch = batch();
        self.0.run(Call::on_device(op, answers), batch.map(|batch| (batch, ())))
    }

    /// Submits [`ShardedMap::insert`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer is on another
    /// device; [`Error::TooMany`] for 2^31 elements or more; [`Error::Device`] if the device is lost or lacks
    /// the memory; [`Error::Exchange`] if another rank has such an error
    /// ([`Refused`](exchange::Error::Refused)), executes another operation or requests other results
    /// ([`Mismatch`](exchange::Error::Mismatch)), or is lost ([`PeerLost`](exchange::Error::PeerLost)).
    pub fn insert(
        &mut self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Insert, keys, values, outcomes)
    }

    /// Submits [`ShardedMap::insert_new`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(
        &mut self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::InsertNew, keys, values, outcomes)
    }

    /// Submits [`ShardedMap::upsert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(
        &mut self,
        merge: Merge<V>,
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Upsert(merge.operation()), keys, values, outcomes)
    }

    /// Submits [`ShardedMap::get`]. Writes the values, which are valid where the outcome is
    /// [`Outcome::Found`](crate::Outcome::Found).
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(
        &mut self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = get(self.0.device(), keys.view(), values, outcomes);
        self.0.run(Call::on_device(BatchOp::Get, true), batch.map(|batch| (batch, ())))
    }

    /// Submits [`ShardedMap::get_remote`]. Only this rank calls it.
    ///
    /// No rank may change the map until [`ShardedMap::stream`] has executed the lookups: later operations of
    /// other ranks, and so those of all ranks, are not ordered after them. [`ShardedMap::wait`] waits for
    /// them.
    ///
    /// # Errors
    /// [`Error::NotReadable`] unless [`ShardedMap::is_readable`]; [`Error::Length`] if the buffers differ in
    /// length; [`Error::OtherDevice`] if a buffer is on another device; [`Error::Device`] if a device is
    /// lost; [`Error::Exchange`] if a rank was lost before ([`PeerLost`](exchange::Error::PeerLost)).
    pub fn get_remote(
        &mut self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = get(self.0.device(), keys.view(), values, outcomes)?;
        self.0.check_shard()?;
        self.0.is_running = true;
        self.0.engine.get_alone(&batch)
    }

    /// Submits [`ShardedMap::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&mut self, keys: impl AsSlice<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        let batch = contains_key(self.0.device(), keys.view(), outcomes);
        self.0.run(Call::on_device(BatchOp::ContainsKey, true), batch.map(|batch| (batch, ())))
    }

    /// Submits [`ShardedMap::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&mut self, keys: impl AsSlice<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        let batch = contains_key(self.0.device(), keys.view(), outcomes);
        let batch = batch.map(|batch| (Batch { op: BatchOp::Remove, ..batch }, ()));
        self.0.run(Call::on_device(BatchOp::Remove, true), batch)
    }
}

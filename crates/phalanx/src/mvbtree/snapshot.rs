//! Snapshots taken by hosts, and reads as of them.
use super::{MultiVersionBTree, Updates};
#[allow(unused_imports)] // for links in the documentation
use crate::Outcome;
use crate::error::or_later;
use crate::map::encoding::decode_pairs;
use crate::map::frozen::{LookUp, by_key};
use crate::map::launch::Batch;
use crate::map::structure::Scans;
use crate::map::{IntoIter, batches, export};
use crate::ordered::history::{History, ReadTimestamp};
use crate::ordered::kernels::Search;
use crate::ordered::queries::{Searched, by_order};
use crate::{Error, Key, Result, Value};
use gpu::{AsSlice, AsSliceMut, Device, Stream};
use std::fmt;

/// A past state of a tree, which stays readable while this lives. Created by [`MultiVersionBTree::snapshot`]
/// and [`MultiVersionBTree::snapshot_on`].
///
/// Dropping it does not block; the next sweep frees the versions that it kept (see
/// [`MultiVersionBTree::drain`]).
///
/// ```
/// use phalanx::MultiVersionBTree;
///
/// let tree = MultiVersionBTree::<u32, u32>::with_capacity(100)?;
/// let (first, second) = (tree.snapshot()?, tree.snapshot()?);
/// assert!(first.stamp()? <= second.stamp()?);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `stamp` waits for the device and copies 4 bytes. Dropping a snapshot neither launches nor waits.
#[must_use = "a snapshot keeps versions as long as it lives"]
pub struct Snapshot<'a, K: Key, V: Value> {
    tree: &'a MultiVersionBTree<K, V>,
    slot: u32,
    timestamp: ReadTimestamp,
    /// Whether the snapshot was taken for one blocking query, all of whose kernels run in the default stream,
    /// or have ended when it is dropped.
    is_own: bool,
}

impl<K: Key, V: Value> fmt::Debug for Snapshot<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("tree", self.tree).field("slot", &self.slot).finish()
    }
}

impl<K: Key, V: Value> Drop for Snapshot<'_, K, V> {
    fn drop(&mut self) {
        let handle = &self.tree.tree.handle;
        match &handle.read().history {
            Some(history) if self.is_own => history.release(&handle.device.default_stream(), self.slot),
            Some(history) => history.drop_slot(self.slot),
            None => {}
        }
    }
}

impl<K: Key, V: Value> Snapshot<'_, K, V> {
    /// Returns the timestamp: the number of snapshots that hosts and kernels have taken since the clock was
    /// last restarted (see the tree's page). Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stamp(&self) -> Result<u32> {
        self.tree.device().synchronize()?;
        self.tree.with_history(|history| history.stamp(self.slot))
    }
}

/// Snapshots.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// Takes a snapshot of the tree after all earlier launches, for which it waits.
    ///
    /// # Errors
    /// [`Error::Snapshots`] if [`super::MOST`] snapshots are alive; [`Error::Moments`] if all timestamps are
    /// used up while others are alive; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn snapshot(&self) -> Result<Snapshot<'_, K, V>> {
        let (slot, timestamp) = self.tree.handle.exclusive(|stream, memory| {
            let kernels = self.tree.handle.kernels();
            if memory.history.as_ref().is_some_and(History::is_due) {
                or_later(memory.sweep(kernels, stream))?;
            }
            match memory.history.as_mut().ok_or(Error::ClockStands)?.take() {
                Err(Error::Moments) => {
                    // Kernels have used up the timestamps; a sweep may restart the clock.
                    memory.sweep(kernels, stream)?;
                    memory.history.as_mut().ok_or(Error::ClockStands)?.take()
                }
                taken => taken,
            }
        })?;
        Ok(Snapshot { tree: self, slot, timestamp, is_own: false })
    }

    /// Takes a snapshot in stream order, concurrently with writers and without waiting. The tree must have
    /// [out-of-place updates](Updates::OutOfPlace). Other streams that read as of the snapshot must wait for
    /// this one. Waits for the device only if [`super::MOST`] snapshots were taken since the last sweep.
    ///
    /// ```
    /// use phalanx::mvbtree::Updates;
    /// use phalanx::MultiVersionBTree;
    ///
    /// let tree = MultiVersionBTree::<u32, u32>::builder().updates(Updates::OutOfPlace).build()?;
    /// let stream = tree.device().stream()?;
    /// let (keys, values) = (tree.device().from_slice(&[1, 2])?, tree.device().from_slice(&[10, 20])?);
    /// let empty = tree.snapshot_on(&stream)?;
    /// tree.on(&stream).insert(&keys, &values, None)?;
    /// let full = tree.snapshot_on(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(tree.at(&empty)?.count(&[..])?, [0]);
    /// assert_eq!(tree.at(&full)?.count(&[..])?, [2]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ClockStands`] if updates are in place; [`Error::Snapshots`] if [`super::MOST`] snapshots are
    /// alive; [`Error::OtherDevice`] if the stream is not of the tree's device; [`Error::Device`] if the
    /// device is lost or lacks the memory.
    pub fn snapshot_on(&self, stream: &Stream) -> Result<Snapshot<'_, K, V>> {
        batches::check_same_device(self.device(), "stream", stream.device())?;
        let take = || self.with_history(|history| history.take_on(stream));
        let (slot, timestamp) = match take() {
            // Dropped snapshots keep their slots until the next sweep.
            Err(Error::Snapshots { .. }) => {
                self.tree.sweep()?;
                take()?
            }
            taken => taken?,
        };
        Ok(Snapshot { tree: self, slot, timestamp, is_own: false })
    }

    /// Returns the tree as of a snapshot.
    ///
    /// # Errors
    /// [`Error::OtherTree`] if the snapshot is of another tree.
    pub fn at<'a>(&'a self, snapshot: &'a Snapshot<'_, K, V>) -> Result<At<'a, K, V>> {
        if !std::ptr::eq(self, snapshot.tree) {
            return Err(Error::OtherTree);
        }
        Ok(At { tree: self, timestamp: snapshot.timestamp })
    }

    /// Runs a query as of a timestamp within this call. The [`At`] does not own the snapshot: it would then
    /// have drop glue, and a caller could not drop a snapshot before the end of the scope of an [`At`] that
    /// borrows it.
    pub(super) fn now<T>(&self, read: impl FnOnce(At<'_, K, V>) -> Result<T>) -> Result<T> {
        let _read = self.tree.begin_read();
        let mut own = match self.updates() {
            Updates::InPlace => self.snapshot()?,
            Updates::OutOfPlace => self.snapshot_on(&self.device().default_stream())?,
        };
        own.is_own = true;
        read(self.at(&own)?)
    }
}

/// A tree as of a snapshot, for reading. Created by [`MultiVersionBTree::at`].
///
/// ```
/// use phalanx::{Merge, MultiVersionBTree};
///
/// let accounts = MultiVersionBTree::<u32, u64>::with_capacity(100)?;
/// assert!(accounts.insert(&[1, 2, 5], &[100, 100, 100])?.all_placed());
/// let evening = accounts.snapshot()?;
/// let then = accounts.at(&evening)?;
/// assert!(accounts.upsert(Merge::Add, &[1, 9], &[50, 7])?.all_placed());
/// accounts.remove(&[2])?;
/// assert_eq!(then.get(&[1, 2, 9])?, [Some(100), Some(100), None]);
/// assert_eq!(then.contains_key(&[2, 9])?, [true, false]);
/// assert_eq!(then.iter()?.map(|(_, value)| value).sum::<u64>(), 300);
/// assert_eq!(then.floor(&[4])?, [Some((2, 100))]);
/// assert_eq!(accounts.floor(&[4])?, [Some((1, 150))]);
/// let (device, keys) = (accounts.device(), accounts.device().from_slice(&[5u32])?);
/// let (mut values, mut outcomes) = (device.zeroed::<u64>(1)?, device.zeroed::<u8>(1)?);
/// then.get_on(&device.stream()?, &keys, &mut values, &mut outcomes)?;
/// assert_eq!(values.read()?, [100]);
/// drop(evening); // the versions that it kept can be freed
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// All operations may run concurrently with everything, and read as of the snapshot's timestamp.
///
/// # Cost
///
/// `get` and `contains_key` cost as much as those of [`Map`](crate::Map), the operations by key order as
/// those of [`BTree`](crate::BTree): one launch and a wait for a small call. `get_on` launches one kernel and
/// does not wait. `iter` waits; launches that read the whole tree; copies all pairs to the host and sorts
/// them there, O(n log n).
pub struct At<'a, K: Key, V: Value> {
    tree: &'a MultiVersionBTree<K, V>,
    timestamp: ReadTimestamp,
}

impl<K: Key, V: Value> fmt::Debug for At<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("At").field("tree", self.tree).field("timestamp", &self.timestamp).finish()
    }
}

impl<K: Key, V: Value> At<'_, K, V> {
    /// Submits a batch of lookups on device buffers to a stream. Writes the values, which are valid where the
    /// outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the tree's device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get_on(
        &self,
        stream: &Stream,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let device = self.tree.device();
        batches::check_same_device(device, "stream", stream.device())?;
        self.look_up(stream, batches::get(device, keys, values, outcomes)?)
    }

    /// Returns all pairs, in key order. They are copied to the host before the iterator is returned. Waits
    /// for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let scans = |run: Scans<'_, K::Word, V::Word>| self.tree.tree.scans_at(run, self.timestamp);
        let (keys, values) = export::sorted(export::scanned(self.tree.device(), &scans)?);
        let (keys, values) = decode_pairs::<K, V>((keys, values))?;
        Ok(keys.into_iter().zip(values))
    }
}

by_key! {
    /// Operations on single keys, as of the snapshot's timestamp.
    At<'_, K, V>
}

impl<K: Key, V: Value> LookUp<K::Word, V::Word> for At<'_, K, V> {
    fn device(&self) -> &Device {
        self.tree.device()
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K::Word, V::Word>) -> Result<()> {
        self.tree.tree.look_up_at(stream, batch, self.timestamp)
    }
}

by_order! {
    /// Operations by key order, in batches, as of the snapshot's timestamp.
    At<'_, K, V>
}

impl<K: Key, V: Value> Searched<K::Word, V::Word> for At<'_, K, V> {
    fn search_device(&self) -> &Device {
        self.tree.device()
    }

    fn search(&self, stream: &Stream, search: Search<K::Word, V::Word>) -> Result<()> {
        self.tree.tree.search_at(stream, search, self.timestamp)
    }
}

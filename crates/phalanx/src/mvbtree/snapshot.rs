//! Snapshots taken by hosts, and reads as of them.
use super::history::Moment;
use super::{History, MultiVersionBTree, Updates};
use crate::btree::engine::Search;
use crate::btree::ordered::{self, Ordered, Searched};
use crate::error::or_later;
use crate::map::launch::{Batch, BatchOp};
use crate::map::structure::{Scans, Structure};
use crate::map::{IntoIter, batches, export, run};
use crate::{Error, Key, Outcome, Result, Value};
use gpu::{Buffer, Device, Stream};
use std::fmt;
use std::ops::RangeBounds;
use std::sync::PoisonError;

/// A past state of a tree, which stays readable while this lives. Created by [`MultiVersionBTree::snapshot`]
/// and [`MultiVersionBTree::snapshot_on`].
///
/// Dropping it does not block; the next sweep frees the versions that it kept (see
/// [`MultiVersionBTree::drain`]).
#[must_use = "a snapshot keeps versions as long as it lives"]
pub struct Snapshot<'a, K, V> {
    tree: &'a MultiVersionBTree<K, V>,
    slot: u32,
    moment: Moment,
    /// Whether the snapshot was taken for one blocking query, all of whose kernels run in the default stream.
    is_own: bool,
}

impl<K, V> fmt::Debug for Snapshot<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("tree", self.tree).field("slot", &self.slot).finish()
    }
}

impl<K, V> Drop for Snapshot<'_, K, V> {
    fn drop(&mut self) {
        let owner = &self.tree.trees.owner;
        match &owner.read().history {
            Some(history) if self.is_own => history.release(&owner.device.default_stream(), self.slot),
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
        self.tree.trees.owner.device.synchronize()?;
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
        let (slot, moment) = self.trees.owner.exclusive(|engine, stream, memory| {
            if memory.history.as_ref().is_some_and(History::is_due) {
                or_later(memory.sweep(engine, stream))?;
            }
            match memory.history.as_mut().ok_or(Error::ClockStands)?.take() {
                Err(Error::Moments) => {
                    // Kernels have used up the timestamps; a sweep may restart the clock.
                    memory.sweep(engine, stream)?;
                    memory.history.as_mut().ok_or(Error::ClockStands)?.take()
                }
                taken => taken,
            }
        })?;
        Ok(Snapshot { tree: self, slot, moment, is_own: false })
    }

    /// Takes a snapshot in stream order, concurrently with writers and without waiting. The tree must have
    /// [out-of-place updates](Updates::OutOfPlace). Other streams that read as of the snapshot must wait for
    /// this one. Waits for the device only if [`super::MOST`] snapshots were taken since the last sweep.
    ///
    /// ```
    /// use phalanx::mvbtree::Updates;
    /// use phalanx::{Map, MultiVersionBTree};
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
        batches::check_same_device(Structure::home(self), "stream", stream.device())?;
        let take = || self.with_history(|history| history.take_on(stream));
        let (slot, moment) = match take() {
            // Dropped snapshots keep their slots until the next sweep.
            Err(Error::Snapshots { .. }) => {
                self.trees.sweep()?;
                take()?
            }
            taken => taken?,
        };
        Ok(Snapshot { tree: self, slot, moment, is_own: false })
    }

    /// Returns the tree as of a snapshot.
    ///
    /// # Errors
    /// [`Error::OtherTree`] if the snapshot is of another tree.
    pub fn at<'a>(&'a self, snapshot: &'a Snapshot<'_, K, V>) -> Result<At<'a, K, V>> {
        if !std::ptr::eq(self, snapshot.tree) {
            return Err(Error::OtherTree);
        }
        Ok(At { tree: self, moment: snapshot.moment })
    }

    /// Runs a query as of a timestamp within this call. The [`At`] does not own the snapshot: it would then
    /// have drop glue, and a caller could not drop a snapshot before the end of the scope of an [`At`] that
    /// borrows it.
    pub(super) fn now<T>(&self, ask: impl FnOnce(At<'_, K, V>) -> Result<T>) -> Result<T> {
        let _asks = self.asked.read().unwrap_or_else(PoisonError::into_inner);
        let mut own = match self.updates() {
            Updates::InPlace => self.snapshot()?,
            Updates::OutOfPlace => self.snapshot_on(&self.trees.owner.device.default_stream())?,
        };
        own.is_own = true;
        ask(self.at(&own)?)
    }
}

/// A tree as of a snapshot, for reading. Created by [`MultiVersionBTree::at`].
///
/// ```
/// use phalanx::{Map, Merge, MultiVersionBTree};
///
/// let accounts = MultiVersionBTree::<u32, u64>::with_capacity(100)?;
/// accounts.insert(&[1, 2, 5], &[100, 100, 100])?;
/// let evening = accounts.snapshot()?;
/// let then = accounts.at(&evening)?;
/// accounts.upsert(Merge::Add, &[1, 9], &[50, 7])?;
/// accounts.remove(&[2])?;
/// assert_eq!(then.get(&[1, 2, 9])?, [Some(100), Some(100), None]);
/// assert_eq!(then.iter()?.map(|(_, value)| value).sum::<u64>(), 300);
/// assert_eq!(then.floor(&[4])?, [Some((2, 100))]);
/// assert_eq!(accounts.floor(&[4])?, [Some((1, 150))]);
/// drop(evening); // the versions that it kept can be freed
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// All operations may run concurrently with everything, and read as of the snapshot's timestamp.
pub struct At<'a, K, V> {
    tree: &'a MultiVersionBTree<K, V>,
    moment: Moment,
}

impl<K, V> fmt::Debug for At<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("At").field("tree", self.tree).field("moment", &self.moment).finish()
    }
}

impl<K: Key, V: Value> At<'_, K, V> {
    /// Returns the values of the keys, `None` for a key that was not in the tree.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "find")]
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        Ok(self.asked(BatchOp::Get, keys, true)?.values_where(|outcome| outcome == Outcome::Found))
    }

    /// Returns for each key whether it was in the tree.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        Ok(self.asked(BatchOp::ContainsKey, keys, false)?.whether(Outcome::Found))
    }

    /// Submits a batch of lookups on device buffers to a stream. Writes the values, which are valid where the
    /// outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the tree's device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let home = Structure::home(self.tree);
        batches::check_same_device(home, "stream", stream.device())?;
        self.look_up(stream, batches::get(home, keys, values, outcomes)?)
    }

    /// Returns for each key the pair with the next higher key. The key itself need not have been in the tree.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "upper_bound")]
    pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, true, false, keys)
    }

    /// Returns for each key the pair with the next lower key. The key itself need not have been in the tree.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, false, false, keys)
    }

    /// Returns for each key its own pair or, if it was not in the tree, the pair with the next higher key.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "lower_bound")]
    pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, true, true, keys)
    }

    /// Returns for each key its own pair or, if it was not in the tree, the pair with the next lower key.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, false, true, keys)
    }

    /// Returns the pair with the lowest key.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "first_key_value")]
    pub fn first(&self) -> Result<Option<(K, V)>> {
        Ok(ordered::next(self, true, true, &[K::from_u64(0)])?.pop().flatten())
    }

    /// Returns the pair with the highest key.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<(K, V)>> {
        Ok(ordered::next(self, false, true, &[K::MAX])?.pop().flatten())
    }

    /// Returns the number of keys in each range.
    ///
    /// # Errors
    /// [`Error::Range`] if the lower end of a range is above its upper end; [`Error::Device`] if the device
    /// is lost or lacks the memory.
    pub fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
        Ok(ordered::count(self, &ordered::on_device(self, ranges)?)?.read()?)
    }

    /// Returns the pairs in each range, in key order.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
        ordered::range(self, &ordered::on_device(self, ranges)?)
    }

    /// Returns the operations by key order on device buffers, submitted to a stream.
    pub fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K, V> {
        Ordered::new(self, stream)
    }

    /// Returns all pairs, in key order. They are copied to the host before the iterator is returned. Waits
    /// for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let scans = |run: Scans<'_, K, V>| self.tree.trees.scans_at(run, self.moment);
        let (keys, values) = export::scanned(Structure::home(self.tree), &scans)?;
        let (keys, values) = crate::btree::sorted(keys.into_iter().zip(values));
        Ok(keys.into_iter().zip(values))
    }

    fn asked(&self, ask: BatchOp, keys: &[K], wants_values: bool) -> Result<run::Results<V>> {
        let launch = |stream: &Stream, batch: Batch<K, V>| self.look_up(stream, batch);
        run::look_up(Structure::home(self.tree), &launch, ask, keys, wants_values)
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.tree.trees.look_up_at(stream, batch, self.moment)
    }
}

impl<K: Key, V: Value> Searched<K, V> for At<'_, K, V> {
    fn home(&self) -> &Device {
        Structure::home(self.tree)
    }

    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.tree.trees.search_at(stream, search, self.moment)
    }
}

//! Snapshots that hosts take, and reading as of them.
use super::history::Moment;
use super::{History, MultiVersionBTree, Updates};
use crate::btree::engine::Search;
use crate::btree::ordered::{self, Ordered, Searched};
use crate::error::or_later;
use crate::map::launch::{Ask, Batch};
use crate::map::structure::{Scans, Structure};
use crate::map::{IntoIter, batches, export, run};
use crate::{Error, Key, Outcome, Result, Value};
use gpu::{Buffer, Device, Stream};
use std::fmt;
use std::ops::RangeBounds;
use std::sync::PoisonError;

/// A past moment of a tree, which can be read as long as this lives. Made by [`MultiVersionBTree::snapshot`]
/// and [`MultiVersionBTree::snapshot_on`].
///
/// Dropping it returns at once; what it kept is freed by the next sweep (see [`MultiVersionBTree::drain`]).
#[must_use = "a snapshot keeps versions as long as it lives"]
pub struct Snapshot<'a, K, V> {
    tree: &'a MultiVersionBTree<K, V>,
    slot: u32,
    moment: Moment,
    /// It was taken for one blocking question, all of whose kernels run in the default stream.
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
    /// How many snapshots were taken before, by hosts and by kernels, since time began anew (see the page of
    /// the tree). Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn stamp(&self) -> Result<u32> {
        self.tree.trees.owner.device.synchronize()?;
        self.tree.with_history(|history| history.stamp(self.slot))
    }
}

/// Snapshots.
impl<K: Key, V: Value> MultiVersionBTree<K, V> {
    /// Takes a snapshot of the tree as it is once all that was asked for before has ended: waits for that.
    ///
    /// # Errors
    /// [`Error::Snapshots`] where [`super::MOST`] live; [`Error::Moments`] where stamps are used up while
    /// others live; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn snapshot(&self) -> Result<Snapshot<'_, K, V>> {
        let (slot, moment) = self.trees.owner.alone(|engine, stream, memory| {
            if memory.history.as_ref().is_some_and(History::is_due) {
                or_later(memory.sweep(engine, stream))?;
            }
            match memory.history.as_mut().ok_or(Error::ClockStands)?.take() {
                Err(Error::Moments) => {
                    // Tiles have used them up; a sweep may let time begin anew.
                    memory.sweep(engine, stream)?;
                    memory.history.as_mut().ok_or(Error::ClockStands)?.take()
                }
                taken => taken,
            }
        })?;
        Ok(Snapshot { tree: self, slot, moment, is_own: false })
    }

    /// Takes a snapshot when the stream has come so far, whatever others do meanwhile, and does not wait: of
    /// a tree whose updates are [out of place](Updates::OutOfPlace). What is asked as of it in other streams
    /// than this must wait for this one. Waits for the device only where [`super::MOST`] were taken since the
    /// last sweep.
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
    /// [`Error::ClockStands`] where updates are in place; [`Error::Snapshots`]; [`Error::OtherDevice`]; the
    /// device's.
    pub fn snapshot_on(&self, stream: &Stream) -> Result<Snapshot<'_, K, V>> {
        batches::belongs(Structure::home(self), "stream", stream.device())?;
        let take = || self.with_history(|history| history.take_on(stream));
        let (slot, moment) = match take() {
            // Those that were dropped have places until the next sweep.
            Err(Error::Snapshots { .. }) => {
                self.trees.sweep()?;
                take()?
            }
            taken => taken?,
        };
        Ok(Snapshot { tree: self, slot, moment, is_own: false })
    }

    /// The tree as of a snapshot.
    ///
    /// # Errors
    /// [`Error::OtherTree`] when the snapshot is of another one.
    pub fn at<'a>(&'a self, snapshot: &'a Snapshot<'_, K, V>) -> Result<At<'a, K, V>> {
        if !std::ptr::eq(self, snapshot.tree) {
            return Err(Error::OtherTree);
        }
        Ok(At { tree: self, moment: snapshot.moment })
    }

    /// Asks the tree as of a moment within this call. The snapshot is not the [`At`]'s: that would have
    /// something to drop, and who holds one of a snapshot of their own could not drop that before the end of
    /// its scope.
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

/// A tree as of a snapshot, to be read. Made by [`MultiVersionBTree::at`].
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
/// drop(evening); // what it kept can be freed
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Everything here may run beside everything, and answers as of the snapshot's moment.
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
    /// The values of the keys, or nothing where a key was not there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "find")]
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        Ok(self.asked(Ask::Get, keys, true)?.values_where(|outcome| outcome == Outcome::Found))
    }

    /// Whether the keys were there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        Ok(self.asked(Ask::ContainsKey, keys, false)?.whether(Outcome::Found))
    }

    /// Batch of look-ups on device buffers, asked of a stream: values, and [`Outcome::Found`] where they mean
    /// something.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffers differ in length; [`Error::OtherDevice`]; [`Error::Device`] when
    /// the device is lost or lacks the memory.
    pub fn get_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let home = Structure::home(self.tree);
        batches::belongs(home, "stream", stream.device())?;
        self.look_up(stream, batches::get(home, keys, values, outcomes)?)
    }

    /// Of each key, the pair with the next higher key, whether the key itself is there or not.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "upper_bound")]
    pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, true, false, keys)
    }

    /// Of each key, the pair with the next lower key, whether the key itself is there or not.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, false, false, keys)
    }

    /// Of each key, its own pair or, where it was not there, that with the next higher key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "lower_bound")]
    pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, true, true, keys)
    }

    /// Of each key, its own pair or, where it was not there, that with the next lower key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        ordered::next(self, false, true, keys)
    }

    /// The pair with the lowest key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "first_key_value")]
    pub fn first(&self) -> Result<Option<(K, V)>> {
        Ok(ordered::next(self, true, true, &[K::from_u64(0)])?.pop().flatten())
    }

    /// The pair with the highest key.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<(K, V)>> {
        Ok(ordered::next(self, false, true, &[K::MAX])?.pop().flatten())
    }

    /// How many keys there were in each range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends of a range are swapped; [`Error::Device`] when the device is lost or
    /// lacks the memory.
    pub fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
        Ok(ordered::count(self, &ordered::on_device(self, ranges)?)?.read()?)
    }

    /// The pairs in each range, in the order of keys.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
        ordered::range(self, &ordered::on_device(self, ranges)?)
    }

    /// Batches by order on device buffers, asked of a stream.
    pub fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K, V> {
        Ordered::new(self, stream)
    }

    /// All pairs, in the order of keys, copied to the host before the first is given. Waits for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let scans = |run: Scans<'_, K, V>| self.tree.trees.scans_at(run, self.moment);
        let (keys, values) = export::scanned(Structure::home(self.tree), &scans)?;
        let (keys, values) = crate::btree::sorted(keys.into_iter().zip(values));
        Ok(keys.into_iter().zip(values))
    }

    fn asked(&self, ask: Ask, keys: &[K], wants_values: bool) -> Result<run::Results<V>> {
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

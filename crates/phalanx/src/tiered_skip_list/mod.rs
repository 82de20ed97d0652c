//! Ordered map that may be larger than the device memory that it uses. The repository's page
//! `docs/structures/tiered-skip-list.md` describes guarantees, layout, algorithm and costs.
mod builder;
mod divide;
mod lists;
mod order;
mod plan;
mod sample;
mod staging;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::encoding::decode_pairs;
use crate::map::{IntoIter, Pairs, file};
use crate::ordered::queries::all_ends;
use crate::tiered_map::ledger::Ledger;
use crate::tiered_map::operations::prelude::*;
use crate::tiered_map::operations::tiered_methods;
use crate::tiered_map::plan::Form;
pub use crate::tiered_map::{Batches, Costs, Placement, Progress, Traffic};
pub use builder::{Builder, variants};
use divide::ListTiers;
use gpu::Stream;
use std::io::{Read, Write};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

/// An ordered map whose pairs lie in pinned host memory. The device memory that it uses never exceeds its
/// *budget*, batches and workspace included.
///
/// The keys are divided into ranges, and each range has a skip list: an *inner list*. A batch is sorted by
/// inner list on the device. Each inner list of which the batch has many keys is copied to the device once;
/// operations on the others are executed in place, over the bus ([`Placement`]). Inner lists are split when
/// they are full, and merged when they are sparse.
///
/// No key is reserved. A batch may contain a key several times. The operations of a batch run in no
/// particular order, and each is linearizable.
///
/// ```
/// use phalanx::{Merge, Op, Outcome, TieredSkipList};
///
/// let list = TieredSkipList::<u64, u64>::builder().capacity(1000).budget(4 << 20).build()?;
/// assert_eq!(list.insert(&[7, 8], &[70, 80])?, [Outcome::Inserted, Outcome::Inserted]);
/// assert_eq!(list.insert_new(&[8, 9], &[0, 90])?, [Outcome::Found, Outcome::Inserted]);
/// assert_eq!(list.upsert(Merge::Add, &[7, 7], &[1, 1])?, [Outcome::Replaced; 2]);
/// assert_eq!(list.get(&[7, 8, 10])?, [Some(72), Some(80), None]);
/// assert_eq!(list.get_or_insert(&[7, 10], &[0, 100])?, [Some(72), Some(100)]);
/// assert_eq!(list.contains_key(&[7, 11])?, [true, false]);
/// assert_eq!(list.remove(&[8, 11])?, [true, false]);
/// assert_eq!(list.take(&[9, 11])?, [Some(90), None]);
/// assert_eq!(list.replace(&[7, 12], &[71, 120])?, [Some(72), None]);
/// let results = list.execute(&[Op::Get(7), Op::Remove(12)])?;
/// assert_eq!(results, [(Outcome::Found, Some(71)), (Outcome::Removed, None)]);
/// assert_eq!((list.len(), list.is_empty()), (2, false));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Queries by key order:
///
/// ```
/// use phalanx::TieredSkipList;
///
/// let list = TieredSkipList::<u32, u32>::builder().list_capacity(100).build()?;
/// let keys: Vec<u32> = (0..1000).map(|number| 10 * number).collect();
/// assert!(list.insert(&keys, &keys)?.all_placed());
/// assert!(list.lists() > 1);
/// assert_eq!(list.successor(&[15, 20])?, [Some((20, 20)), Some((30, 30))]);
/// assert_eq!(list.predecessor(&[15, 20])?, [Some((10, 10)); 2]);
/// assert_eq!(list.ceiling(&[15, 20])?, [Some((20, 20)); 2]);
/// assert_eq!(list.floor(&[9, 20])?, [Some((0, 0)), Some((20, 20))]);
/// assert_eq!((list.first()?, list.last()?), (Some((0, 0)), Some((9990, 9990))));
/// assert_eq!(list.count(&[..5000, ..20])?, [500, 2]);
/// assert_eq!(list.range(&[15..45])?, [[(20, 20), (30, 30), (40, 40)]]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Batches in slices of the caller, all pairs, and files:
///
/// ```
/// use phalanx::{Merge, Outcome, SkipList, TieredSkipList};
///
/// let mut list = TieredSkipList::<u32, u32>::builder().list_capacity(100).build()?;
/// let mut outcomes = [0; 3];
/// list.insert_into(&[1, 2, 3], &[10, 20, 30], &mut outcomes)?;
/// assert_eq!(outcomes, [Outcome::Inserted as u8; 3]);
/// list.upsert_into(Merge::Add, &[2, 4], &[0, 40], &mut outcomes[..2])?;
/// assert_eq!(outcomes[..2], [Outcome::Replaced as u8, Outcome::Inserted as u8]);
/// list.remove_into(&[4], &mut outcomes[..1])?;
/// let (mut values, mut found) = ([0; 2], [false; 2]);
/// list.get_into(&[2, 4], &mut values, &mut found)?;
/// assert_eq!((values[0], found), (20, [true, false]));
/// list.remove_into(&[1, 4], &mut outcomes[..2])?;
/// assert_eq!(outcomes[..2], [Outcome::Removed as u8, Outcome::Absent as u8]);
/// list.contains_into(&[1, 3], &mut found)?;
/// assert_eq!(found, [false, true]);
///
/// list.retain(|key, _| key != 2)?;
/// assert_eq!((list.iter()?.collect::<Vec<_>>(), list.export()?), (vec![(3, 30)], (vec![3], vec![30])));
/// let mut file = Vec::new();
/// list.save(&mut file)?;
/// list.clear()?;
/// list.release_host_memory()?;
/// assert!(list.is_empty());
/// let loaded = TieredSkipList::<u32, u32>::load(&file[..], TieredSkipList::builder())?;
/// assert_eq!(loaded.get(&[2, 3])?, [None, Some(30)]);
/// assert_eq!(SkipList::<u32, u32>::load(&file[..], SkipList::builder())?.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Streams of batches, and what the list needs and does:
///
/// ```
/// use phalanx::TieredSkipList;
/// use phalanx::tiered_skip_list::{Placement, Progress};
/// use std::ops::ControlFlow;
///
/// let mut list = TieredSkipList::<u32, u32>::builder().list_capacity(100).build()?;
/// let batches = [(vec![1, 2], vec![10, 20]), (vec![3], vec![30]), (vec![4], vec![40])];
/// let stop = |progress: &Progress| match progress.batches {
///     2 => ControlFlow::Break(()),
///     _ => ControlFlow::Continue(()),
/// };
/// let done = list.insert_stream(batches, stop)?;
/// assert_eq!((done.batches, done.elements, list.len()), (2, 3, 3)); // the third batch is not inserted
/// let mut all = Vec::new();
/// let sink = |_: &[u32], values: Vec<Option<u32>>| all.extend(values);
/// list.get_stream([vec![1], vec![3, 4]], sink, |_| ControlFlow::Continue(()))?;
/// assert_eq!(all, [Some(10), Some(30), None]);
///
/// list.set_placement(Placement::AlwaysCopy);
/// assert!(list.chunk() > 0 && list.min_budget() <= list.budget());
/// assert!(list.device_bytes() <= list.peak_device_bytes() && list.peak_device_bytes() <= list.budget());
/// let (traffic, costs) = (list.traffic(), list.costs());
/// assert!(traffic.on_device + traffic.in_place == 6 && costs.copy_rate > 0.0 && list.host_bytes() > 0);
/// println!("{} on {}", list.variant(), list.device().name());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Calls of several threads on one list run one after the other. Calls on several lists of one device run
/// concurrently.
///
/// # Errors
///
/// Memory: if inner lists cannot be split, a call returns [`Error::NoRoom`] with the outcome of each element.
/// If the device or the driver fails during a batch that changes the list, the call returns
/// [`Error::Interrupted`], which says which elements are done, or the cause alone if none is. In each case
/// the list is valid: each element is done as a whole, or not at all.
///
/// # Cost
///
/// Batches of operations on single keys cost what those of [`TieredMap`](crate::TieredMap) cost. S stands for
/// the bytes of the inner lists that are executed on the device: some 15 to 20 bytes for each of their pairs,
/// if pairs have 8 bytes. An operation in place reads a node of 128 bytes per layer over the bus; one that
/// writes also executes two atomic operations there.
///
/// A query by key order writes its key, and reads its result, in pinned memory; a range reads a node per 14 ×
/// fill pairs. `first` and `last` are one such query each. `count` knows the pairs of inner lists that a
/// range includes as a whole. `export`, `iter` and `save` read all inner lists in place.
///
/// | call | bytes to the device | bytes from the device |
/// |---|---|---|
/// | `successor`, `predecessor`, `ceiling`, `floor` | n k + S | n (k + v + 1) |
/// | `count` | 4 n k + S | 16 n |
/// | `range` | 8 n k + S | the pairs |
/// | `export`, `iter`, `save` | none | the pairs; kernels read all nodes twice over the bus |
/// | `clear`, `len`, `lists` | none: O(inner lists) on the host | |
/// | `release_host_memory` | none: frees the images that no inner list has | |
///
/// Before a batch that inserts, the host sorts a sample of its keys. The split of a list reads its nodes
/// three times in place, and writes each new list once. `retain` exports each inner list, and removes the
/// rejected keys. `load` inserts the pairs of the file in batches of 2^22.
pub struct TieredSkipList<K: Key, V: Value> {
    tiers: Mutex<TiersOf<K, V>>,
    device: Device,
    ledger: Arc<Ledger>,
    least_budget: usize,
}

/// The state that the lock of a list protects.
type TiersOf<K, V> = ListTiers<<K as Key>::Word, <V as Value>::Word>;

impl<K: Key, V: Value> std::fmt::Debug for TieredSkipList<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredSkipList")
            .field("budget", &self.ledger.budget())
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction and properties.
impl<K: Key, V: Value> TieredSkipList<K, V> {
    /// Returns a builder to set the parameters.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Returns the name of the variant of the inner lists, one of [`variants`].
    pub fn variant(&self) -> String {
        self.tiers().inner.kernels.variant().name.to_owned()
    }

    /// Returns the number of inner lists.
    pub fn lists(&self) -> usize {
        self.tiers().shards.len()
    }

    /// Returns the number of pairs for which an inner list is planned.
    pub fn list_capacity(&self) -> usize {
        self.tiers().inner.size.target
    }

    /// Changes where operations on inner lists are executed from now on. A list that was built with
    /// [`Placement::Remote`] or [`Placement::Managed`] stays as it is; for others, these two stand for
    /// [`Placement::AlwaysInPlace`].
    pub fn set_placement(&mut self, placement: Placement) {
        let tiers = self.tiers_mut();
        if tiers.plan.form != Form::Flat {
            let is_flat = placement.is_flat();
            tiers.config.placement = if is_flat { Placement::AlwaysInPlace } else { placement };
        }
    }
}

tiered_methods!(TieredSkipList);

/// Batches on device buffers.
impl<K: Key, V: Value> TieredSkipList<K, V> {
    /// Returns the operations by key on device buffers, in the order of a stream. Each call waits for the
    /// stream, and then for its batch. Inner lists are split and merged as in batches on host slices; what
    /// does not fit is refused.
    ///
    /// Cost: none. [`Batches`] states the cost of each operation.
    ///
    /// ```
    /// use phalanx::{Merge, Outcome, TieredSkipList};
    ///
    /// let list = TieredSkipList::<u32, u32>::builder().list_capacity(100).build()?;
    /// let (device, stream) = (list.device(), list.device().stream()?);
    /// let keys = device.from_slice(&(0..1000).collect::<Vec<u32>>())?;
    /// let mut outcomes = device.zeroed::<u8>(1000)?;
    /// list.on(&stream).insert(&keys, &keys, &mut outcomes)?;
    /// assert_eq!(outcomes.read()?, [Outcome::Inserted as u8; 1000]);
    /// assert!(list.len() == 1000 && list.lists() >= 10);
    /// list.on(&stream).upsert(Merge::Add, &keys, &keys, None)?;
    /// let mut values = device.zeroed::<u32>(1000)?;
    /// list.on(&stream).take(&keys, &mut values, &mut outcomes)?;
    /// assert_eq!((values.read()?[7], list.is_empty()), (14, true));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, K, V> {
        Batches::new(&self.tiers, &self.device, stream)
    }
}

/// Queries by key order.
impl<K: Key, V: Value> TieredSkipList<K, V> {
    fn next(&self, keys: &[K], direction: (bool, bool)) -> Result<Vec<Option<(K, V)>>> {
        let found = self.tiers().next(&K::encode_all(keys), direction)?;
        found.into_iter().map(|pair| pair.map(decode_pair).transpose()).collect()
    }

    /// Returns for each key the pair with the next higher key. The key itself need not be in the list.
    ///
    /// # Errors
    /// [`Error::Format`] if a stored word is no key or value of the list's types; [`Error::Device`] if the
    /// device is lost or lacks the memory.
    #[doc(alias = "upper_bound")]
    pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.next(keys, (true, false))
    }

    /// Returns for each key the pair with the next lower key. The key itself need not be in the list.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.next(keys, (false, false))
    }

    /// Returns for each key its own pair or, if it is not in the list, the pair with the next higher key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "lower_bound")]
    pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.next(keys, (true, true))
    }

    /// Returns for each key its own pair or, if it is not in the list, the pair with the next lower key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.next(keys, (false, true))
    }

    /// Returns the pair with the lowest key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "first_key_value")]
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.tiers().outermost(true)?.map(decode_pair).transpose()
    }

    /// Returns the pair with the highest key.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "last_key_value")]
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.tiers().outermost(false)?.map(decode_pair).transpose()
    }

    /// Returns the number of keys in each range. All ranges have one type; to mix kinds of ranges, use pairs
    /// of [`std::ops::Bound`].
    ///
    /// # Errors
    /// [`Error::Range`] if the lower end of a range is above its upper end; [`Error::Device`] if the device
    /// is lost or lacks the memory.
    pub fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
        self.tiers().count_ranges(&all_ends(ranges)?)
    }

    /// Returns the pairs in each range, in key order. All ranges have one type, as for [`Self::count`].
    ///
    /// # Errors
    /// As [`Self::count`], and [`Error::Format`] as [`Self::successor`].
    pub fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
        let found = self.tiers().ranges(&all_ends(ranges)?)?;
        found.into_iter().map(|pairs| pairs.into_iter().map(decode_pair).collect()).collect()
    }
}

/// Operations on all pairs.
impl<K: Key, V: Value> TieredSkipList<K, V> {
    /// Returns all keys in order and, at the same indices, their values.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "retrieve_all")]
    pub fn export(&self) -> Result<Pairs<K, V>> {
        decode_pairs(self.tiers().export_all()?)
    }

    /// Returns all pairs, in key order. They are copied to the host before the iterator is returned.
    ///
    /// # Errors
    /// As [`Self::export`].
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = self.export()?;
        Ok(keys.into_iter().zip(values))
    }

    /// Keeps the pairs for which `keep` returns true, in key order.
    ///
    /// # Errors
    /// As [`Self::export`] and [`Self::remove`]; some of the rejected keys may then be removed.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) -> Result<()> {
        // Removals may merge inner lists, so the next one begins behind the last key.
        let mut from = Some(K::Word::default());
        while let Some(low) = from {
            let tiers = self.tiers_mut();
            let list = tiers.inner.list_of(low);
            let high = tiers.inner.range_of(list).1;
            let pairs = tiers.ranges(&[[low, high]])?.pop().unwrap_or_default();
            let mut rejected = Vec::new();
            for pair in pairs {
                let (key, value) = decode_pair(pair)?;
                if !keep(key, value) {
                    rejected.push(key);
                }
            }
            self.remove(&rejected)?;
            from = next_word(high);
        }
        Ok(())
    }
}

/// Files.
impl<K: Key, V: Value> TieredSkipList<K, V> {
    /// Saves the pairs, as [`Map::save`](crate::Map::save) does: other maps can load them.
    ///
    /// # Errors
    /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        let pairs = self.tiers().export_all()?;
        file::save::<K, V>(pairs, writer)
    }

    /// Loads a list that [`Self::save`] or [`Map::save`](crate::Map::save) wrote, with the builder's
    /// parameters; its capacity is raised to the number of saved pairs if needed.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is damaged;
    /// [`Error::DoesNotFit`] if some pairs do not fit; [`Error::Io`] if the reader fails; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        let build = |pairs| builder.at_least(pairs).build();
        file::load_into::<K, V, _>(reader, build, Self::insert_new_words)
    }
}

/// Returns the pair for which two words stand.
fn decode_pair<K: Key, V: Value>((key, value): (K::Word, V::Word)) -> Result<(K, V)> {
    Ok((decoded(key, K::decode)?, decoded(value, V::decode)?))
}

/// Returns the next higher word.
fn next_word<W: phalanx_kernels::keyed::Scalar>(word: W) -> Option<W> {
    (word.to_u64() < W::MAX.to_u64()).then(|| W::from_u64(word.to_u64() + 1))
}

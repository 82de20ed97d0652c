//! What goes by the order of keys.
use super::BTree;
use super::engine::Search;
use super::frozen::Frozen;
use crate::map::batches::{belongs, slice};
use crate::map::launch::nothing;
use crate::map::structure::Structure;
use crate::map::{IntoIter, Map};
use crate::{Error, Key, Outcome, Result, Value};
use gpu::{Buffer, Device, Stream};
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// What answers by order: a tree, or one that nobody writes.
pub trait Searched<K, V>: Debug + Sync {
    /// The device that holds it.
    fn home(&self) -> &Device;

    /// Asks a stream for a search.
    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()>;
}

impl<K: Key, V: Value> Searched<K, V> for BTree<K, V> {
    fn home(&self) -> &Device {
        Structure::home(self)
    }

    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()> {
        self.trees.search(stream, search)
    }
}

/// The lowest and the highest key of a range; nothing for one that is empty.
fn ends<K: Key>(range: &impl RangeBounds<K>) -> Result<Option<(K, K)>> {
    let low = match range.start_bound() {
        Bound::Included(&low) => Some(low.to_u64()),
        Bound::Excluded(&low) => low.to_u64().checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let high = match range.end_bound() {
        Bound::Included(&high) => Some(high.to_u64()),
        Bound::Excluded(&end) => end.to_u64().checked_sub(1),
        Bound::Unbounded => Some(K::MAX.to_u64()),
    };
    if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) =
        (range.start_bound(), range.end_bound())
        && low > high
    {
        return Err(Error::Range { low: low.to_u64(), high: high.to_u64() });
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
    let exists = low <= high && low <= K::MAX.to_u64();
    Ok(exists.then(|| (K::from_u64(low), K::from_u64(high))))
}

/// The ends of ranges, in slices of their own.
struct Ends<K> {
    lows: Vec<K>,
    highs: Vec<K>,
}

impl<K: Key> Ends<K> {
    /// An empty range becomes one whose ends are swapped, which kernels take for empty.
    fn of(ranges: &[impl RangeBounds<K>]) -> Result<Self> {
        let none = (K::from_u64(1), K::from_u64(0));
        let ends: Result<Vec<(K, K)>> = ranges.iter().map(|range| Ok(ends(range)?.unwrap_or(none))).collect();
        let (lows, highs) = ends?.into_iter().unzip();
        Ok(Self { lows, highs })
    }
}

/// The ends of ranges on the device.
pub(crate) struct DeviceEnds<K> {
    lows: Buffer<K>,
    highs: Buffer<K>,
}

/// The calls by order, of what is [`Searched`].
macro_rules! by_order {
    ($(#[doc = $title:literal])* $type:ty) => {
        $(#[doc = $title])*
        impl<K: Key, V: Value> $type {
            /// Of each key, the pair with the next higher key, whether the key itself is there or not.
            ///
            /// # Errors
            /// [`Error::Device`] when the device is lost or lacks the memory. For trees that keep versions
            /// also [`Error::Snapshots`] and [`Error::Moments`]: the question takes a snapshot of its own.
            #[doc(alias = "upper_bound")]
            pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::btree::ordered::next(self, true, false, keys)
            }

            /// Of each key, the pair with the next lower key, whether the key itself is there or not.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::btree::ordered::next(self, false, false, keys)
            }

            /// Of each key, its own pair or, where it is not there, that with the next higher key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "lower_bound")]
            pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::btree::ordered::next(self, true, true, keys)
            }

            /// Of each key, its own pair or, where it is not there, that with the next lower key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::btree::ordered::next(self, false, true, keys)
            }

            /// The pair with the lowest key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "first_key_value")]
            pub fn first(&self) -> Result<Option<(K, V)>> {
                Ok($crate::btree::ordered::next(self, true, true, &[K::from_u64(0)])?.pop().flatten())
            }

            /// The pair with the highest key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "last_key_value")]
            pub fn last(&self) -> Result<Option<(K, V)>> {
                Ok($crate::btree::ordered::next(self, false, true, &[K::MAX])?.pop().flatten())
            }

            /// How many keys there are in each range. All ranges are of one type: for several kinds give
            /// pairs of [`std::ops::Bound`].
            ///
            /// # Errors
            /// [`Error::Range`] when the ends of a range are swapped; those of [`Self::successor`].
            pub fn count(&self, ranges: &[impl std::ops::RangeBounds<K>]) -> Result<Vec<u64>> {
                let ends = $crate::btree::ordered::on_device(self, ranges)?;
                Ok($crate::btree::ordered::count(self, &ends)?.read()?)
            }

            /// The pairs in each range, in the order of keys. Counts first, so that memory is asked for as
            /// much as is needed; pairs that come into a range between counting and collecting may push
            /// others out at its end. All ranges are of one type, as for [`Self::count`].
            ///
            /// # Errors
            /// As [`Self::count`].
            pub fn range(&self, ranges: &[impl std::ops::RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
                $crate::btree::ordered::range(self, &$crate::btree::ordered::on_device(self, ranges)?)
            }

            /// Batches by order on device buffers, asked of a stream.
            pub fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K, V> {
                Ordered::new(self, stream)
            }
        }
    };
}

pub(crate) use by_order;

by_order! {
    /// By order. Each takes a batch; see *Concurrency* of [`BTree`] for what holds while others write.
    BTree<K, V>
}

by_order! {
    /// By order. Each takes a batch.
    Frozen<'_, K, V>
}

impl<K: Key, V: Value> BTree<K, V> {
    /// All pairs as they are now, in the order of keys, copied to the host before the first is given. Waits
    /// for all launches.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = super::sorted(Map::iter(self)?);
        Ok(keys.into_iter().zip(values))
    }
}

/// The next pair of each key in a direction, or the key's own where it is `inclusive`.
pub(crate) fn next<K: Key, V: Value>(
    of: &impl Searched<K, V>,
    up: bool,
    inclusive: bool,
    keys: &[K],
) -> Result<Vec<Option<(K, V)>>> {
    let device = of.home();
    let (asked, stream) = (device.from_slice(keys)?, device.default_stream());
    let (found, values) = (device.buffer::<K>(keys.len())?, device.buffer::<V>(keys.len())?);
    let outcomes = device.buffer::<u8>(keys.len())?;
    let (keys, found_slice, value_slice) = (asked.slice(), found.slice(), values.slice());
    let search = Search::Next {
        up,
        inclusive,
        keys,
        found: found_slice,
        values: value_slice,
        outcomes: outcomes.slice(),
    };
    of.search(&stream, search)?;
    let pairs = found.read()?.into_iter().zip(values.read()?);
    let is_found = |code| code == Outcome::Found as u8;
    Ok(pairs.zip(outcomes.read()?).map(|(pair, code)| is_found(code).then_some(pair)).collect())
}

/// The ends of ranges, brought to the device.
pub(crate) fn on_device<K: Key, V: Value>(
    of: &impl Searched<K, V>,
    ranges: &[impl RangeBounds<K>],
) -> Result<DeviceEnds<K>> {
    let (device, Ends { lows, highs }) = (of.home(), Ends::of(ranges)?);
    Ok(DeviceEnds { lows: device.from_slice(&lows)?, highs: device.from_slice(&highs)? })
}

/// How many keys there are in each range.
pub(crate) fn count<K: Key, V: Value>(of: &impl Searched<K, V>, ends: &DeviceEnds<K>) -> Result<Buffer<u64>> {
    let counts = of.home().buffer::<u64>(ends.lows.len())?;
    let (lows, highs) = (ends.lows.slice(), ends.highs.slice());
    of.search(&of.home().default_stream(), Search::Count { lows, highs, counts: counts.slice() })?;
    Ok(counts)
}

/// The pairs in each range.
pub(crate) fn range<K: Key, V: Value>(
    of: &impl Searched<K, V>,
    ends: &DeviceEnds<K>,
) -> Result<Vec<Vec<(K, V)>>> {
    let (device, counts) = (of.home(), count(of, ends)?);
    let mut offsets = vec![0u64];
    offsets.extend(counts.read()?.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    let total = offsets[offsets.len() - 1] as usize;
    let places = device.from_slice(&offsets)?;
    let (keys, values) = (device.buffer::<K>(total)?, device.buffer::<V>(total)?);
    let search = Search::Range {
        lows: ends.lows.slice(),
        highs: ends.highs.slice(),
        offsets: places.slice(),
        room: 0,
        keys: keys.slice(),
        values: values.slice(),
        counts: counts.slice(),
    };
    of.search(&device.default_stream(), search)?;
    let written = counts.read()?;
    let pairs: Vec<(K, V)> = keys.read()?.into_iter().zip(values.read()?).collect();
    let part = |(offset, many): (&u64, u64)| pairs[*offset as usize..][..many as usize].to_vec();
    Ok(offsets.iter().zip(written).map(part).collect())
}

/// Batches by the order of keys on device buffers, which return when they are asked for. Made by
/// [`BTree::ordered_on`], [`Frozen::ordered_on`], [`SkipList::ordered_on`](crate::SkipList::ordered_on) and
/// those of [`crate::MultiVersionBTree`].
///
/// Ranges have both their ends here, so that one can reach the largest key there is. One whose lower end is
/// above its upper end is empty.
#[derive(Debug)]
pub struct Ordered<'a, K, V> {
    of: &'a dyn Searched<K, V>,
    stream: &'a Stream,
}

impl<'a, K: Key, V: Value> Ordered<'a, K, V> {
    pub(crate) fn new(of: &'a dyn Searched<K, V>, stream: &'a Stream) -> Self {
        Self { of, stream }
    }

    fn search(&self, search: Search<K, V>) -> Result<()> {
        belongs(self.of.home(), "stream", self.stream.device())?;
        self.of.search(self.stream, search)
    }

    fn slice<T: simt::Word>(
        &self,
        what: &'static str,
        buffer: &Buffer<T>,
        len: usize,
    ) -> Result<simt::GlobalSlice<T>> {
        slice(self.of.home(), what, buffer, len)
    }

    /// Of each key the pair with the next higher key, and [`Outcome::Found`] where there is one.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffers differ in length; [`Error::OtherDevice`]; [`Error::Device`] when
    /// the device is lost or lacks the memory.
    pub fn successor(
        &self,
        keys: &Buffer<K>,
        found: &mut Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        self.next(true, false, keys, found, values, outcomes)
    }

    /// Of each key the pair with the next lower key, and [`Outcome::Found`] where there is one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn predecessor(
        &self,
        keys: &Buffer<K>,
        found: &mut Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        self.next(false, false, keys, found, values, outcomes)
    }

    /// Of each key its own pair or, where it is not there, that with the next higher key, and
    /// [`Outcome::Found`] where there is one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "lower_bound")]
    pub fn ceiling(
        &self,
        keys: &Buffer<K>,
        found: &mut Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        self.next(true, true, keys, found, values, outcomes)
    }

    /// Of each key its own pair or, where it is not there, that with the next lower key, and
    /// [`Outcome::Found`] where there is one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn floor(
        &self,
        keys: &Buffer<K>,
        found: &mut Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        self.next(false, true, keys, found, values, outcomes)
    }

    fn next(
        &self,
        up: bool,
        inclusive: bool,
        keys: &Buffer<K>,
        found: &mut Buffer<K>,
        values: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let len = keys.len();
        self.search(Search::Next {
            up,
            inclusive,
            keys: self.slice("keys", keys, len)?,
            found: self.slice("found", found, len)?,
            values: self.slice("values", values, len)?,
            outcomes: self.slice("outcomes", outcomes, len)?,
        })
    }

    /// How many keys there are from each of `lows` to the one of `highs`.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn count(&self, lows: &Buffer<K>, highs: &Buffer<K>, counts: &mut Buffer<u64>) -> Result<()> {
        let len = lows.len();
        self.search(Search::Count {
            lows: self.slice("lows", lows, len)?,
            highs: self.slice("highs", highs, len)?,
            counts: self.slice("counts", counts, len)?,
        })
    }

    /// The pairs from each of `lows` to the one of `highs`, both included, in the order of keys, the first
    /// `room` of them: those of range `i` go to `keys` and `values` from `i * room` on. `counts` takes how
    /// many were written, `room` at most; [`Self::count`] tells how many there are. Where a low end is above
    /// the high one there are none.
    ///
    /// # Errors
    /// As [`Self::successor`]; `keys` and `values` have `room` elements for each range.
    pub fn range(
        &self,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        room: u32,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        let (len, places) = (lows.len(), lows.len().saturating_mul(room as usize));
        self.search(Search::Range {
            lows: self.slice("lows", lows, len)?,
            highs: self.slice("highs", highs, len)?,
            offsets: nothing(),
            room,
            keys: self.slice("keys", keys, places)?,
            values: self.slice("values", values, places)?,
            counts: self.slice("counts", counts, len)?,
        })
    }
}

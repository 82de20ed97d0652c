//! Operations by key order.
use super::kernels::Search;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::batches::{check_same_device, elements_of, slice};
use crate::map::encoding::{self, Word, decoded};
use crate::map::export;
use crate::map::fresh::room_for;
use crate::map::host::{self, Chunk, Pipeline};
use crate::map::launch::nothing;
use crate::{Key, Outcome, Result, Value};
use gpu::{AsBounded, AsSlice, AsSliceMut, Buffer, Column, Device, Layout, Reach, Staging, Stream};
use phalanx_kernels::keyed::Scalar;
use std::fmt::Debug;
use std::ops::{Bound, Range, RangeBounds};

/// A source for searches by key order: a tree, or a read-only view of one.
pub trait Searched<K, V>: Debug + Sync {
    /// Returns the device that holds the tree.
    fn search_device(&self) -> &Device;

    /// Submits a search to a stream.
    fn search(&self, stream: &Stream, search: Search<K, V>) -> Result<()>;
}

/// Returns the words of the lowest and the highest key of a range, or `None` for an empty one.
fn ends<K: Key>(range: &impl RangeBounds<K>) -> Result<Option<(K::Word, K::Word)>> {
    let word = |key: K| key.encode().to_u64();
    let low = match range.start_bound() {
        Bound::Included(&low) => Some(word(low)),
        Bound::Excluded(&low) => word(low).checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let high = match range.end_bound() {
        Bound::Included(&high) => Some(word(high)),
        Bound::Excluded(&end) => word(end).checked_sub(1),
        Bound::Unbounded => Some(K::Word::MAX.to_u64()),
    };
    if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) =
        (range.start_bound(), range.end_bound())
    {
        encoding::ends(low, high, K::encode)?;
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
    let exists = low <= high && low <= K::Word::MAX.to_u64();
    Ok(exists.then(|| (K::Word::from_u64(low), K::Word::from_u64(high))))
}

/// Returns the words of the ends of ranges, those of an empty one swapped, which kernels treat as empty.
pub(crate) fn all_ends<K: Key>(ranges: &[impl RangeBounds<K>]) -> Result<Vec<[K::Word; 2]>> {
    let none = (K::Word::from_u64(1), K::Word::from_u64(0));
    let words = |range| ends(range).map(|ends| <[K::Word; 2]>::from(ends.unwrap_or(none)));
    ranges.iter().map(words).collect()
}

/// Implements the blocking calls by key order for a [`Searched`] type.
macro_rules! by_order {
    ($(#[doc = $title:literal])* $type:ty) => {
        $(#[doc = $title])*
        impl<K: Key, V: Value> $type {
            /// Returns for each key the pair with the next higher key. The key itself need not be in the
            /// tree.
            ///
            /// # Errors
            /// [`Error::Format`] if a stored word is no key or value of the tree's types; [`Error::Device`]
            /// if the device is lost or lacks the memory.
            #[doc(alias = "upper_bound")]
            pub fn successor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next(self, true, false, keys)
            }

            /// Returns for each key the pair with the next lower key. The key itself need not be in the tree.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next(self, false, false, keys)
            }

            /// Returns for each key its own pair or, if it is not in the tree, the pair with the next higher
            /// key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "lower_bound")]
            pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next(self, true, true, keys)
            }

            /// Returns for each key its own pair or, if it is not in the tree, the pair with the next lower
            /// key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next(self, false, true, keys)
            }

            /// Returns the pair with the lowest key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "first_key_value")]
            pub fn first(&self) -> Result<Option<(K, V)>> {
                $crate::ordered::queries::outermost(self, true)
            }

            /// Returns the pair with the highest key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "last_key_value")]
            pub fn last(&self) -> Result<Option<(K, V)>> {
                $crate::ordered::queries::outermost(self, false)
            }

            /// Returns the number of keys in each range. All ranges have one type; to mix kinds of ranges,
            /// use pairs of [`std::ops::Bound`].
            ///
            /// # Errors
            /// [`Error::Range`] if the lower end of a range is above its upper end; [`Error::Device`] if the
            /// device is lost or lacks the memory.
            pub fn count(&self, ranges: &[impl std::ops::RangeBounds<K>]) -> Result<Vec<u64>> {
                $crate::ordered::queries::count::<K, V>(self, ranges)
            }

            /// Returns the pairs in each range, in key order. Ranges with many pairs are counted first, to
            /// allocate exactly the needed memory. Pairs that other threads insert into a range between
            /// counting and collecting may displace pairs at its end. All ranges have one type, as for
            /// [`Self::count`].
            ///
            /// # Errors
            /// As [`Self::count`].
            pub fn range(&self, ranges: &[impl std::ops::RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
                $crate::ordered::queries::range(self, ranges)
            }

            /// Returns the operations by key order on device buffers, submitted to a stream.
            pub fn ordered_on<'a>(
                &'a self,
                stream: &'a Stream,
            ) -> $crate::ordered::queries::Ordered<'a, K::Word, V::Word> {
                $crate::ordered::queries::Ordered::new(self, stream)
            }
        }
    };
}

pub(crate) use by_order;

/// Returns the pair with the lowest key or, if not `lowest`, with the highest.
pub(crate) fn outermost<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    lowest: bool,
) -> Result<Option<(K, V)>> {
    let from = if lowest { K::Word::default() } else { K::Word::MAX };
    let pair = next::<K::Word, V::Word>(of, lowest, true, &[from])?.pop().flatten();
    pair.map(decoded_pair).transpose()
}

/// Returns the next pair of each key in a direction or, if `inclusive`, the key's own pair.
pub(crate) fn next<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    up: bool,
    inclusive: bool,
    keys: &[K],
) -> Result<Vec<Option<(K, V)>>> {
    let mut pairs = Vec::with_capacity(keys.len());
    let mut drain = |staging: &mut Staging, range: Range<usize>| {
        let columns = NextColumns::<K::Word, V::Word>::new(range.len())?;
        staging.wait()?;
        let (found, values) = (staging.read(columns.found)?, staging.read(columns.values)?);
        let mut words = found.iter().zip(values).map(|(&key, &value)| (key, value));
        for &code in staging.read(columns.outcomes)? {
            let pair = words.next().filter(|_| code == Outcome::Found as u8);
            pairs.push(pair.map(decoded_pair).transpose()?);
        }
        Ok(())
    };
    let bytes_each = 2 * size_of::<K::Word>() + size_of::<V::Word>() + 1;
    let mut pipeline = Pipeline::new(of.search_device(), keys.len(), bytes_each);
    while let Some(Chunk { mut staging, range }) = pipeline.next(&mut drain)? {
        let columns = NextColumns::<K::Word, V::Word>::new(range.len())?;
        host::put(&mut staging, columns.keys, &keys[range.clone()], K::encode)?;
        let search = columns.search(&staging, (up, inclusive))?;
        of.search(staging.stream(), search)?;
        staging.download(columns.found)?;
        staging.download(columns.values)?;
        staging.download(columns.outcomes)?;
        pipeline.push(Chunk { staging, range });
    }
    pipeline.finish(&mut drain)?;
    Ok(pairs)
}

/// Columns of a search for next pairs.
struct NextColumns<K, V> {
    keys: Column<K>,
    found: Column<K>,
    values: Column<V>,
    outcomes: Column<u8>,
}

impl<K: Word, V: Word> NextColumns<K, V> {
    fn new(len: usize) -> Result<Self> {
        let mut layout = Layout::default();
        let (keys, found) = (layout.column(len)?, layout.column(len)?);
        Ok(Self { keys, found, values: layout.column(len)?, outcomes: layout.column(len)? })
    }

    fn search(&self, staging: &Staging, (up, inclusive): (bool, bool)) -> Result<Search<K, V>> {
        Ok(Search::Next {
            up,
            inclusive,
            keys: staging.global(self.keys)?.into(),
            found: staging.global(self.found)?,
            values: staging.global(self.values)?,
            outcomes: staging.global(self.outcomes)?,
        })
    }
}

/// Returns the pair for which two words stand.
fn decoded_pair<K: Key, V: Value>((key, value): (K::Word, V::Word)) -> Result<(K, V)> {
    Ok((decoded(key, K::decode)?, decoded(value, V::decode)?))
}

/// Returns the number of keys in each range.
pub(crate) fn count<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ranges: &[impl RangeBounds<K>],
) -> Result<Vec<u64>> {
    counted(of, &all_ends(ranges)?)
}

/// [`count`] for the words of the ends.
fn counted<K: Word, V: Word>(of: &impl Searched<K, V>, ends: &[[K; 2]]) -> Result<Vec<u64>> {
    let mut all = Vec::with_capacity(ends.len());
    let columns = |len: usize| -> Result<(Column<K>, Column<K>, Column<u64>)> {
        let mut layout = Layout::default();
        Ok((layout.column(len)?, layout.column(len)?, layout.column(len)?))
    };
    let mut drain = |staging: &mut Staging, range: Range<usize>| {
        staging.wait()?;
        all.extend_from_slice(staging.read(columns(range.len())?.2)?);
        Ok(())
    };
    let mut pipeline = Pipeline::new(of.search_device(), ends.len(), 2 * size_of::<K>() + 8);
    while let Some(Chunk { mut staging, range }) = pipeline.next(&mut drain)? {
        let (lows, highs, counts) = columns(range.len())?;
        host::put(&mut staging, lows, &ends[range.clone()], |[low, _]| low)?;
        host::put(&mut staging, highs, &ends[range.clone()], |[_, high]| high)?;
        let (highs, written) = (staging.global(highs)?, staging.global(counts)?);
        let search = Search::Count { lows: staging.global(lows)?.into(), highs, counts: written };
        of.search(staging.stream(), search)?;
        staging.download(counts)?;
        pipeline.push(Chunk { staging, range });
    }
    pipeline.finish(&mut drain)?;
    Ok(all)
}

/// Number of pairs for which a call on few ranges has room in its first launch: 32 for each of 1024 ranges.
const GUESSED: usize = 1 << 15;

/// Returns the pairs in each range.
pub(crate) fn range<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ranges: &[impl RangeBounds<K>],
) -> Result<Vec<Vec<(K, V)>>> {
    let ends = all_ends(ranges)?;
    if ends.len() <= host::SMALL
        && let Some(pairs) = short_ranges(of, &ends)?
    {
        return Ok(pairs);
    }
    long_ranges(of, &ends)
}

/// The pairs in each range.
type InRanges<K, V> = Vec<Vec<(K, V)>>;

/// Returns the pairs in each of few ranges, by one launch with room for the same number of pairs of each; or
/// `None` if there may be more.
fn short_ranges<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ends: &[[K::Word; 2]],
) -> Result<Option<InRanges<K, V>>> {
    let (len, mut layout) = (ends.len(), Layout::default());
    let room = (GUESSED / len.max(1)).max(1);
    let (lows, highs) = (layout.column(len)?, layout.column(len)?);
    let (keys, values) = (layout.column(room * len)?, layout.column(room * len)?);
    let counts = layout.column(len)?;
    let mut staging = of.search_device().staging(layout.byte_len(), Reach::Mapped)?;
    host::put(&mut staging, lows, ends, |[low, _]| low)?;
    host::put(&mut staging, highs, ends, |[_, high]| high)?;
    let search = Search::Range {
        lows: staging.global(lows)?.into(),
        highs: staging.global(highs)?,
        offsets: nothing(),
        room: room as u32,
        keys: staging.global(keys)?,
        values: staging.global(values)?,
        counts: staging.global(counts)?,
    };
    of.search(staging.stream(), search)?;
    staging.wait()?;
    let (keys, values) = (staging.read(keys)?, staging.read(values)?);
    let part = |(index, &count): (usize, &u64)| {
        let part = index * room..index * room + count as usize;
        keys[part.clone()]
            .iter()
            .zip(&values[part])
            .map(|(&key, &value)| decoded_pair((key, value)))
            .collect()
    };
    let counts: &[u64] = staging.read(counts)?;
    let are_complete = counts.iter().all(|&count| (count as usize) < room);
    are_complete.then(|| counts.iter().enumerate().map(part).collect()).transpose()
}

/// Returns the pairs in each range, which are counted first.
fn long_ranges<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ends: &[[K::Word; 2]],
) -> Result<Vec<Vec<(K, V)>>> {
    let (device, mut offsets) = (of.search_device(), vec![0u64]);
    offsets.extend(counted(of, ends)?.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    let total = offsets[offsets.len() - 1] as usize;
    let places = host::upload(device, &offsets, |offset| offset)?;
    let (lows, highs) =
        (host::upload(device, ends, |[low, _]| low)?, host::upload(device, ends, |[_, high]| high)?);
    let (keys, values) = (device.buffer::<K::Word>(total)?, device.buffer::<V::Word>(total)?);
    let counts = device.buffer::<u64>(ends.len())?;
    let search = Search::Range {
        lows: lows.global().into(),
        highs: highs.global(),
        offsets: places.global(),
        room: 0,
        keys: keys.global(),
        values: values.global(),
        counts: counts.global(),
    };
    of.search(&device.default_stream(), search)?;
    let (keys, values) = (read(&keys)?, read(&values)?);
    let part = |(offset, many): (&u64, u64)| {
        let part = *offset as usize..*offset as usize + many as usize;
        keys[part.clone()]
            .iter()
            .zip(&values[part])
            .map(|(&key, &value)| decoded_pair((key, value)))
            .collect()
    };
    offsets.iter().zip(read(&counts)?).map(part).collect()
}

/// Copies a buffer to the host. Waits for all earlier launches.
fn read<T: Scalar>(buffer: &Buffer<T>) -> Result<Vec<T>> {
    let mut words = room_for(buffer.len());
    export::append(&mut words, buffer, buffer.len())?;
    Ok(words)
}

/// Batches of operations by key order on device buffers. The calls submit work to a stream and do not wait
/// for it. Created by [`BTree::ordered_on`](crate::BTree::ordered_on),
/// [`Frozen::ordered_on`](crate::btree::Frozen::ordered_on),
/// [`SkipList::ordered_on`](crate::SkipList::ordered_on) and the `ordered_on` methods of [`crate::mvbtree`].
///
/// `K` and `V` are the types of the [words](Key::Word) of keys and values. Ranges include both ends, so that
/// a range can include the largest key. A range whose lower end is above its upper end is empty.
///
/// ```
/// use phalanx::BTree;
///
/// let tree = BTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[10, 20, 30], &[1, 2, 3])?.all_placed());
/// let (device, stream) = (tree.device(), tree.device().stream()?);
/// let keys = device.from_slice(&[20u32, 25])?;
/// let (mut found, mut values) = (device.zeroed::<u32>(2)?, device.zeroed::<u32>(2)?);
/// let mut outcomes = device.zeroed::<u8>(2)?;
/// let queries = tree.ordered_on(&stream);
/// queries.successor(&keys, &mut found, &mut values, &mut outcomes)?;
/// assert_eq!(found.read()?, [30, 30]);
/// queries.predecessor(&keys, &mut found, &mut values, &mut outcomes)?;
/// assert_eq!(found.read()?, [10, 20]);
/// queries.ceiling(&keys, &mut found, &mut values, &mut outcomes)?;
/// assert_eq!(found.read()?, [20, 30]);
/// queries.floor(&keys, &mut found, &mut values, &mut outcomes)?;
/// assert_eq!((found.read()?, values.read()?), (vec![20, 20], vec![2, 2]));
/// let (highs, mut counts) = (device.from_slice(&[30u32, 28])?, device.zeroed::<u64>(2)?);
/// queries.count(&keys, &highs, &mut counts)?; // keys from 20 to 30, and from 25 to 28
/// assert_eq!(counts.read()?, [2, 0]);
/// queries.range(&keys, &highs, 1, &mut found, &mut values, &mut counts)?; // at most one pair of each
/// assert_eq!((found.read()?[0], counts.read()?), (20, vec![1, 0]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `successor`, `predecessor`, `ceiling`, `floor`, `count` and `range` launch one kernel each; they allocate
/// and copy nothing and do not wait. (If the directory is due, a launch that rebuilds it comes before.) A
/// search reads the nodes of a lookup, at times one leaf more. A count or range also reads one leaf per 14 ×
/// fill pairs.
#[derive(Debug)]
pub struct Ordered<'a, K, V> {
    of: &'a dyn Searched<K, V>,
    stream: &'a Stream,
}

impl<'a, K: Word, V: Word> Ordered<'a, K, V> {
    pub(crate) fn new(of: &'a dyn Searched<K, V>, stream: &'a Stream) -> Self {
        Self { of, stream }
    }

    fn search(&self, search: Search<K, V>) -> Result<()> {
        check_same_device(self.of.search_device(), "stream", self.stream.device())?;
        self.of.search(self.stream, search)
    }

    fn slice<T: simt::Word>(
        &self,
        what: &'static str,
        elements: impl AsSlice<T>,
        len: usize,
    ) -> Result<simt::GlobalSlice<T>> {
        slice(self.of.search_device(), what, elements, len)
    }

    /// Writes for each key the pair with the next higher key, and the outcome [`Outcome::Found`] if there is
    /// one.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the tree's device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn successor(
        &self,
        keys: impl AsBounded<K>,
        found: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.next(true, false, keys, found, values, outcomes)
    }

    /// Writes for each key the pair with the next lower key, and the outcome [`Outcome::Found`] if there is
    /// one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn predecessor(
        &self,
        keys: impl AsBounded<K>,
        found: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.next(false, false, keys, found, values, outcomes)
    }

    /// Writes for each key its own pair or, if it is not in the tree, the pair with the next higher key, and
    /// the outcome [`Outcome::Found`] if there is one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    #[doc(alias = "lower_bound")]
    pub fn ceiling(
        &self,
        keys: impl AsBounded<K>,
        found: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.next(true, true, keys, found, values, outcomes)
    }

    /// Writes for each key its own pair or, if it is not in the tree, the pair with the next lower key, and
    /// the outcome [`Outcome::Found`] if there is one.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn floor(
        &self,
        keys: impl AsBounded<K>,
        found: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.next(false, true, keys, found, values, outcomes)
    }

    fn next(
        &self,
        up: bool,
        inclusive: bool,
        keys: impl AsBounded<K>,
        found: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let keys = elements_of(self.of.search_device(), "keys", keys)?;
        let len = keys.max_len();
        self.search(Search::Next {
            up,
            inclusive,
            keys,
            found: self.slice("found", found, len)?,
            values: self.slice("values", values, len)?,
            outcomes: self.slice("outcomes", outcomes, len)?,
        })
    }

    /// Writes to `counts[i]` the number of keys from `lows[i]` to `highs[i]`, both included.
    ///
    /// # Errors
    /// As [`Self::successor`].
    pub fn count(
        &self,
        lows: impl AsBounded<K>,
        highs: impl AsSlice<K>,
        counts: impl AsSliceMut<u64>,
    ) -> Result<()> {
        let lows = elements_of(self.of.search_device(), "lows", lows)?;
        let len = lows.max_len();
        self.search(Search::Count {
            lows,
            highs: self.slice("highs", highs, len)?,
            counts: self.slice("counts", counts, len)?,
        })
    }

    /// Writes the first `room` pairs from `lows[i]` to `highs[i]`, both included, in key order. The pairs of
    /// range `i` go to `keys` and `values` from index `i * room` on, and their number, at most `room`, to
    /// `counts[i]`. [`Self::count`] returns the full number. If `lows[i]` is above `highs[i]` there are none.
    ///
    /// # Errors
    /// As [`Self::successor`]. `keys` and `values` must have `room` elements for each range.
    pub fn range(
        &self,
        lows: impl AsBounded<K>,
        highs: impl AsSlice<K>,
        room: u32,
        keys: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        counts: impl AsSliceMut<u64>,
    ) -> Result<()> {
        let lows = elements_of(self.of.search_device(), "lows", lows)?;
        let (len, places) = (lows.max_len(), lows.max_len().saturating_mul(room as usize));
        self.search(Search::Range {
            lows,
            highs: self.slice("highs", highs, len)?,
            offsets: nothing(),
            room,
            keys: self.slice("keys", keys, places)?,
            values: self.slice("values", values, places)?,
            counts: self.slice("counts", counts, len)?,
        })
    }
}

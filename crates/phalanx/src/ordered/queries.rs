//! Operations by key order.
use super::kernels::Search;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::batches::{check_same_device, elements_of, slice};
use crate::map::encoding::{self, Word, decoded};
use crate::map::launch::nothing;
use crate::{Key, Outcome, Result, Value};
use gpu::{AsBounded, AsSlice, AsSliceMut, Buffer, Device, Stream};
use phalanx_kernels::keyed::Scalar;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

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

/// The ends of ranges, in two columns.
struct Ends<K> {
    lows: Vec<K>,
    highs: Vec<K>,
}

impl<K: Word> Ends<K> {
    /// Encodes an empty range by swapped ends, which kernels treat as empty.
    fn of<T: Key<Word = K>>(ranges: &[impl RangeBounds<T>]) -> Result<Self> {
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
                $crate::ordered::queries::next::<K, V>(self, true, false, &K::encode_all(keys))
            }

            /// Returns for each key the pair with the next lower key. The key itself need not be in the tree.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn predecessor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next::<K, V>(self, false, false, &K::encode_all(keys))
            }

            /// Returns for each key its own pair or, if it is not in the tree, the pair with the next higher
            /// key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            #[doc(alias = "lower_bound")]
            pub fn ceiling(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next::<K, V>(self, true, true, &K::encode_all(keys))
            }

            /// Returns for each key its own pair or, if it is not in the tree, the pair with the next lower
            /// key.
            ///
            /// # Errors
            /// As [`Self::successor`].
            pub fn floor(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
                $crate::ordered::queries::next::<K, V>(self, false, true, &K::encode_all(keys))
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
                let ends = $crate::ordered::queries::on_device::<K, V>(self, ranges)?;
                Ok($crate::ordered::queries::count(self, &ends)?.read()?)
            }

            /// Returns the pairs in each range, in key order. The ranges are counted first, to allocate
            /// exactly the needed memory. Pairs that other threads insert into a range between counting and
            /// collecting may displace pairs at its end. All ranges have one type, as for [`Self::count`].
            ///
            /// # Errors
            /// As [`Self::count`].
            pub fn range(&self, ranges: &[impl std::ops::RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
                let ends = $crate::ordered::queries::on_device::<K, V>(self, ranges)?;
                $crate::ordered::queries::range(self, &ends)
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
    Ok(next::<K, V>(of, lowest, true, &[from])?.pop().flatten())
}

/// Returns the next pair of each word of a key in a direction or, if `inclusive`, the key's own pair.
pub(crate) fn next<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    up: bool,
    inclusive: bool,
    keys: &[K::Word],
) -> Result<Vec<Option<(K, V)>>> {
    let device = of.search_device();
    let (uploaded, stream) = (device.from_slice(keys)?, device.default_stream());
    let (found, values) = (device.buffer::<K::Word>(keys.len())?, device.buffer::<V::Word>(keys.len())?);
    let outcomes = device.buffer::<u8>(keys.len())?;
    let (keys, found_slice, value_slice) = (uploaded.global(), found.global(), values.global());
    let search = Search::Next {
        up,
        inclusive,
        keys: keys.into(),
        found: found_slice,
        values: value_slice,
        outcomes: outcomes.global(),
    };
    of.search(&stream, search)?;
    let pairs = found.read()?.into_iter().zip(values.read()?);
    let is_found = |code| code == Outcome::Found as u8;
    let pairs = pairs.zip(outcomes.read()?).map(|(pair, code)| is_found(code).then_some(pair));
    pairs.map(|pair| pair.map(decoded_pair).transpose()).collect()
}

/// Returns the pair for which two words stand.
fn decoded_pair<K: Key, V: Value>((key, value): (K::Word, V::Word)) -> Result<(K, V)> {
    Ok((decoded(key, K::decode)?, decoded(value, V::decode)?))
}

/// Copies the ends of ranges to the device.
pub(crate) fn on_device<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ranges: &[impl RangeBounds<K>],
) -> Result<DeviceEnds<K::Word>> {
    let (device, Ends { lows, highs }) = (of.search_device(), Ends::of(ranges)?);
    Ok(DeviceEnds { lows: device.from_slice(&lows)?, highs: device.from_slice(&highs)? })
}

/// Returns the number of keys in each range.
pub(crate) fn count<K: Word, V: Word>(of: &impl Searched<K, V>, ends: &DeviceEnds<K>) -> Result<Buffer<u64>> {
    let counts = of.search_device().buffer::<u64>(ends.lows.len())?;
    let (lows, highs) = (ends.lows.global(), ends.highs.global());
    of.search(
        &of.search_device().default_stream(),
        Search::Count { lows: lows.into(), highs, counts: counts.global() },
    )?;
    Ok(counts)
}

/// Returns the pairs in each range.
pub(crate) fn range<K: Key, V: Value>(
    of: &impl Searched<K::Word, V::Word>,
    ends: &DeviceEnds<K::Word>,
) -> Result<Vec<Vec<(K, V)>>> {
    let (device, counts) = (of.search_device(), count(of, ends)?);
    let mut offsets = vec![0u64];
    offsets.extend(counts.read()?.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    let total = offsets[offsets.len() - 1] as usize;
    let places = device.from_slice(&offsets)?;
    let (keys, values) = (device.buffer::<K::Word>(total)?, device.buffer::<V::Word>(total)?);
    let search = Search::Range {
        lows: ends.lows.global().into(),
        highs: ends.highs.global(),
        offsets: places.global(),
        room: 0,
        keys: keys.global(),
        values: values.global(),
        counts: counts.global(),
    };
    of.search(&device.default_stream(), search)?;
    let written = counts.read()?;
    let pairs: Vec<_> = keys.read()?.into_iter().zip(values.read()?).collect();
    let part = |(offset, many): (&u64, u64)| {
        pairs[*offset as usize..][..many as usize].iter().map(|&pair| decoded_pair(pair)).collect()
    };
    offsets.iter().zip(written).map(part).collect()
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

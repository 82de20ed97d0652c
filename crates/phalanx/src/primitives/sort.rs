//! Radix sorts.
use super::radix::{self, Carried, Lane, Pieces, Sort, gather};
use super::workspace::{Cutter, Workspace, slice};
use super::{Number, PlanId, any_grid, check_count, check_len};
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{AsSlice, AsSliceMut, Stream};
use phalanx_kernels::primitives::sort::MOST;
use phalanx_kernels::primitives::words::CountUp;
use simt::GlobalSlice;

/// Range of the bits of the keys that a sort compares. Keys that are equal in these bits keep their order.
///
/// ```
/// use phalanx::Device;
/// use phalanx::primitives::{Bits, Workspace, sort_bytes};
///
/// let device = Device::from_environment()?;
/// let mut keys = device.from_slice(&[0x21u32, 0x12, 0x11])?;
/// let mut work = Workspace::on_device(&device, sort_bytes::<u32, ()>(keys.len()))?;
/// work.sort_keys_in_place(&mut keys, Bits::new(4, 8))?; // by the second hexadecimal digit only
/// assert_eq!(keys.read()?, [0x12, 0x11, 0x21]);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    first: u32,
    end: u32,
}

impl Bits {
    /// All bits.
    pub const ALL: Self = Self { first: 0, end: u32::MAX };

    /// Selects the bits from `first` up to but excluding `end`; bit 0 is the lowest. If both are the same, a
    /// sort keeps the order.
    pub const fn new(first: u32, end: u32) -> Self {
        Self { first, end }
    }

    fn of<K>(self) -> Result<(u32, u32)> {
        let bits = 8 * size_of::<K>() as u32;
        let end = if self == Self::ALL { bits } else { self.end };
        match self.first <= end && end <= bits {
            true => Ok((self.first, end)),
            false => Err(Error::Bits { first: self.first, end, bits }),
        }
    }
}

/// Memory of [`Workspace::sort_words`].
#[derive(Clone, Copy)]
pub(super) struct SortBuffers<K> {
    /// Keys to sort.
    pub from: GlobalSlice<K>,
    /// Output: the sorted keys.
    pub sorted: GlobalSlice<K>,
    /// Output: the index of each sorted key.
    pub order: GlobalSlice<u32>,
    /// Temporary keys and indices.
    pub spare: (GlobalSlice<K>, GlobalSlice<u32>),
}

/// Returns the bytes of workspace that a sort of `len` keys with values needs, in place or not, by any bits,
/// with the default tile size. For keys without values, `V` is `()`.
///
/// ```
/// use phalanx::primitives::sort_bytes;
/// assert!(sort_bytes::<u64, ()>(1 << 20) < 2 * sort_bytes::<u32, u32>(1 << 20));
/// ```
pub fn sort_bytes<K: Number, V: Pod>(len: usize) -> usize {
    let moved = Carried::of::<V>();
    let measure = |plan: PlanId| Cutter::measure(|cutter| Pieces::cut::<K>(cutter, len, plan.size, moved));
    radix::plan(moved.types::<K>(), None).map_or(0, measure)
}

/// Returns the names of the tiles for sorts of these keys and values, the default one first: see
/// [`Workspace::set_tile`].
///
/// ```
/// use phalanx::primitives::sort_tiles;
/// assert_eq!(sort_tiles::<u32, u32>()[0], "384x19");
/// ```
pub fn sort_tiles<K: Number, V: Pod>() -> Vec<&'static str> {
    radix::tiles(Carried::of::<V>().types::<K>())
}

/// Sorts.
impl Workspace {
    /// Sorts keys into another buffer of the same length, stably, in ascending order of the selected bits.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Bits, Workspace, sort_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (keys, mut sorted) = (device.from_slice(&[0x21u64, 0x12, 0x11])?, device.buffer(3)?);
    /// let mut work = Workspace::on_device(&device, sort_bytes::<u64, ()>(3))?;
    /// work.sort_keys(&keys, &mut sorted, Bits::new(0, 4))?;
    /// assert_eq!(sorted.read()?, [0x21, 0x11, 0x12]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read of the keys, and a read and a write of them for each 8 bits; one launch for each 8 bits
    /// and 2 more.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::Bits`] if the bit range is invalid;
    /// [`Error::TooMany`] for more than 2^30 - 1 elements; [`Error::Workspace`] if the workspace is too
    /// small; [`Error::Elsewhere`] if a buffer is on another device; [`Error::UnknownTile`] if the selected
    /// tile does not exist for these types; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn sort_keys<K: Number>(
        &mut self,
        keys: impl AsSlice<K>,
        sorted: impl AsSliceMut<K>,
        bits: Bits,
    ) -> Result<()> {
        let (keys, sorted) = (keys.view(), sorted.view());
        check_len("sorted keys", keys.len(), sorted.len())?;
        self.check_device("keys", keys)?;
        self.check_device("sorted keys", sorted)?;
        self.sort::<K, ()>(keys.len(), (keys.pointer(), sorted.pointer()), nowhere(), bits)
    }

    /// Sorts keys in place.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Bits, Workspace, sort_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let mut keys = device.from_slice(&[3u32, 1, 2])?;
    /// let mut work = Workspace::on_device(&device, sort_bytes::<u32, ()>(3))?;
    /// work.sort_keys_in_place(&mut keys, Bits::ALL)?;
    /// assert_eq!(keys.read()?, [1, 2, 3]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_keys`], and a copy if the number of passes is odd.
    ///
    /// # Errors
    /// As [`Self::sort_keys`].
    pub fn sort_keys_in_place<K: Number>(&mut self, keys: impl AsSliceMut<K>, bits: Bits) -> Result<()> {
        let keys = keys.view();
        self.check_device("keys", keys)?;
        self.sort::<K, ()>(keys.len(), (keys.pointer(), keys.pointer()), nowhere(), bits)
    }

    /// Sorts pairs by their keys into other buffers; pairs with equal keys keep their order. All four buffers
    /// have the same length. Values are of any plain type; those of 4, 8 and 16 bytes move with their keys,
    /// others are gathered afterwards.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Bits, Workspace, sort_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let keys = device.from_slice(&[2u32, 1, 2])?;
    /// let values = device.from_slice(&[[7u8; 3], [8; 3], [9; 3]])?;
    /// let (mut sorted, mut moved) = (device.buffer(3)?, device.buffer(3)?);
    /// let mut work = Workspace::on_device(&device, sort_bytes::<u32, [u8; 3]>(3))?;
    /// work.sort_pairs((&keys, &values), (&mut sorted, &mut moved), Bits::ALL)?;
    /// assert_eq!(sorted.read()?, [1, 2, 2]);
    /// assert_eq!(moved.read()?, [[8; 3], [7; 3], [9; 3]]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_keys`], where each read and write of a pass includes the values. Values of other
    /// sizes cost two launches, an index of 4 bytes that moves with each key in their place, and a read and a
    /// write of them at the end.
    ///
    /// # Errors
    /// As [`Self::sort_keys`].
    pub fn sort_pairs<K: Number, V: Pod>(
        &mut self,
        (keys, values): (impl AsSlice<K>, impl AsSlice<V>),
        (sorted, moved): (impl AsSliceMut<K>, impl AsSliceMut<V>),
        bits: Bits,
    ) -> Result<()> {
        let (keys, values, sorted, moved) = (keys.view(), values.view(), sorted.view(), moved.view());
        check_len("sorted keys", keys.len(), sorted.len())?;
        check_len("values", keys.len(), values.len())?;
        check_len("sorted values", keys.len(), moved.len())?;
        self.check_device("keys", keys)?;
        self.check_device("sorted keys", sorted)?;
        self.check_device("values", values)?;
        self.check_device("sorted values", moved)?;
        let ends = (values.pointer(), moved.pointer());
        self.sort::<K, V>(keys.len(), (keys.pointer(), sorted.pointer()), ends, bits)
    }

    /// Sorts pairs in place: see [`Self::sort_pairs`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Bits, Workspace, sort_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let mut keys = device.from_slice(&[2u64, 1])?;
    /// let mut values = device.from_slice(&[20u128, 10])?;
    /// let mut work = Workspace::on_device(&device, sort_bytes::<u64, u128>(2))?;
    /// work.sort_pairs_in_place(&mut keys, &mut values, Bits::new(0, 3))?;
    /// assert_eq!((keys.read()?, values.read()?), (vec![1, 2], vec![10, 20]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_pairs`], a copy if the number of passes is odd, and a copy of values of other
    /// sizes in any case.
    ///
    /// # Errors
    /// As [`Self::sort_keys`].
    pub fn sort_pairs_in_place<K: Number, V: Pod>(
        &mut self,
        keys: impl AsSliceMut<K>,
        values: impl AsSliceMut<V>,
        bits: Bits,
    ) -> Result<()> {
        let (keys, values) = (keys.view(), values.view());
        check_len("values", keys.len(), values.len())?;
        self.check_device("keys", keys)?;
        self.check_device("values", values)?;
        let (keys_at, values_at) = (keys.pointer(), values.pointer());
        self.sort::<K, V>(keys.len(), (keys_at, keys_at), (values_at, values_at), bits)
    }

    /// Writes 0, 1, 2, ...
    pub(crate) fn count_up(&mut self, numbers: impl AsSliceMut<u32>) -> Result<()> {
        // SAFETY: dropping the buffer waits for the launch.
        unsafe { count_up(self.stream(), numbers.view().global()) }
    }

    /// [`Self::sort_pairs`] of keys with the first of `numbers` as values, into the first elements of
    /// `sorted` and `order`. All three buffers must be at least as long as `keys`.
    pub(crate) fn sort_numbered<K: Number>(
        &mut self,
        keys: GlobalSlice<K>,
        sorted: impl AsSliceMut<K>,
        numbers: impl AsSlice<u32>,
        order: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (sorted, numbers, order) = (sorted.view(), numbers.view(), order.view());
        if keys.is_empty() {
            return Ok(());
        }
        let room = sorted.len().min(numbers.len()).min(order.len());
        check_len("sorted keys", keys.len(), room.min(keys.len()))?;
        let ends = (keys.at(0).as_ptr(), sorted.pointer());
        self.sort::<K, u32>(keys.len(), ends, (numbers.pointer(), order.pointer()), Bits::ALL)
    }

    /// [`Self::sort_pairs`] of some bits of words with numbers as values. All four slices have the same
    /// length, and they do not overlap.
    ///
    /// # Safety
    /// - The slices live until the stream has executed the launches.
    pub(crate) unsafe fn sort_routes(
        &mut self,
        (routes, numbers): (GlobalSlice<u32>, GlobalSlice<u32>),
        (sorted, order): (GlobalSlice<u32>, GlobalSlice<u32>),
        bits: Bits,
    ) -> Result<()> {
        let len = routes.len();
        let [routes, numbers, sorted, order] = [routes, numbers, sorted, order].map(GlobalSlice::as_ptr);
        self.sort::<u32, u32>(len, (routes, sorted), (numbers, order), bits)
    }

    /// Returns the bytes of workspace that [`Self::sort_words`] needs.
    pub(super) fn sort_words_bytes<K: Number>(len: usize) -> usize {
        let cut =
            |plan: PlanId| Cutter::measure(|cutter| Pieces::without_buffers::<K>(cutter, len, plan.size));
        radix::plan(Carried::Value(4).types::<K>(), None).map_or(0, cut)
    }

    /// Sorts keys stably, with the numbers from 0 on as values.
    ///
    /// # Safety
    /// - The buffers live until the stream has executed the launches, are as long as the keys, and do not
    ///   overlap, except that the source of the keys may be their target.
    pub(super) unsafe fn sort_words<K: Number>(&self, buffers: SortBuffers<K>) -> Result<()> {
        let SortBuffers { from, sorted, order, spare } = buffers;
        let (len, limit) = (from.len(), slice(std::ptr::dangling_mut(), 0));
        check_count("a sort", len, MOST)?;
        let plan = radix::plan(Carried::Value(4).types::<K>(), None)?;
        let pieces = self.cut("a sort", |cutter| Pieces::without_buffers::<K>(cutter, len, plan.size))?;
        let (first, end) = Bits::ALL.of::<K>()?;
        let lane = |from: *mut u8, to: *mut u8, spare: *mut u8, bytes| Lane { from, to, spare, bytes };
        let number = order.as_ptr().cast();
        let keys =
            lane(from.as_ptr().cast(), sorted.as_ptr().cast(), spare.0.as_ptr().cast(), size_of::<K>());
        let values = lane(number, number, spare.1.as_ptr().cast(), size_of::<u32>());
        let stream = self.stream();
        // SAFETY: the caller's obligations; the workspace outlives the launches. The number of passes is
        // even, so that the first one does not read where it writes.
        unsafe {
            count_up(stream, order)?;
            Sort { plan, stream, pieces, keys, values, len, limit, first, end }.launch::<K>()
        }
    }

    /// Sorts keys and values, each given by source and target.
    fn sort<K: Number, V: Pod>(
        &mut self,
        len: usize,
        keys: (*mut K, *mut K),
        values: (*mut V, *mut V),
        bits: Bits,
    ) -> Result<()> {
        let (first, end) = bits.of::<K>()?;
        check_count("a sort", len, MOST)?;
        let carried = Carried::of::<V>();
        let plan = radix::plan(carried.types::<K>(), self.tile())?;
        let pieces = self.cut("a sort", |cutter| Pieces::cut::<K>(cutter, len, plan.size, carried))?;
        if len == 0 {
            return Ok(());
        }
        let stream = self.stream();
        let keys = Lane { from: keys.0.cast(), to: keys.1.cast(), spare: pieces.keys, bytes: size_of::<K>() };
        let mut moved =
            Lane { from: values.0.cast(), to: values.1.cast(), spare: pieces.values, bytes: carried.moved() };
        if let Carried::Number(_) = carried {
            (moved.from, moved.to) = (pieces.numbers, pieces.numbers);
        }
        let limit = slice(std::ptr::dangling_mut(), 0);
        let sort = Sort { plan, stream, pieces, keys, values: moved, len, limit, first, end };
        // SAFETY: buffers and workspace outlive the launches (dropping them waits). All lengths were checked.
        unsafe {
            if let Carried::Number(_) = carried {
                count_up(stream, slice(pieces.numbers, len))?;
            }
            sort.launch::<K>()?;
            match carried {
                Carried::Number(bytes) => {
                    let (order, ends) = (slice(pieces.numbers, len), (values.0.cast(), values.1.cast()));
                    gather(stream, order, ends, bytes, pieces.old_values)
                }
                Carried::Value(_) => Ok(()),
            }
        }
    }
}

/// Submits a launch that writes 0, 1, 2, ...
///
/// # Safety
/// - The words live until the stream has executed the launch, and nothing else accesses them.
unsafe fn count_up(stream: &Stream, words: GlobalSlice<u32>) -> Result<()> {
    // SAFETY: the caller's obligations.
    unsafe { Ok(stream.launch(any_grid(words.len()), CountUp { words })?) }
}

/// Returns pointers to no values.
fn nowhere() -> (*mut (), *mut ()) {
    (std::ptr::dangling_mut(), std::ptr::dangling_mut())
}

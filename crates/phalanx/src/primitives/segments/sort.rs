//! Sorts of segments.
use super::{Marks, check_offsets};
use crate::Result;
use crate::primitives::radix::{self, Carried, Lane, Pieces, Sort, gather};
use crate::primitives::workspace::{Cutter, Workspace, slice};
use crate::primitives::{Number, PlanId, any_grid, check_count, check_len, launched, plans};
use bytemuck::Pod;
use gpu::{AsSlice, AsSliceMut, Grid, Slice, Stream};
use phalanx_kernels::primitives::instances::windows;
use phalanx_kernels::primitives::segments::Segments;
use phalanx_kernels::primitives::segments::long::{Gathered, LongPlan, PutLong, TakeLong};
use phalanx_kernels::primitives::segments::short::{Job, ShortPlan, SortShortSegments};
use phalanx_kernels::primitives::sort::{DIGIT_BITS, MOST};
use simt::{GlobalSlice, Instance};
use std::any::TypeId;

/// Returns the bytes of workspace that sorts of segments need for `len` keys with values in `segments`
/// segments. For keys without values, `V` is `()`.
///
/// ```
/// use phalanx::primitives::sort_segments_bytes;
/// // Possibly long segments need most: their elements are gathered, and sorted by segment and key.
/// ```
pub fn sort_segments_bytes<K: Number, V: Pod>(len: usize, segments: usize) -> usize {
    let bytes = |plans| Cutter::measure(|cutter| SortPieces::cut::<K, V>(cutter, plans, len, segments));
    Plans::new::<K>(None).map_or(0, bytes)
}

/// Returns the names of the windows for sorts of segments, the default one first: see
/// [`Workspace::set_tile`]. Segments of at most a third of the window are sorted by blocks.
///
/// ```
/// use phalanx::primitives::segment_windows;
/// assert_eq!(segment_windows::<u32>()[0], "384x8");
/// ```
pub fn segment_windows<K: Number>() -> Vec<&'static str> {
    tiles(TypeId::of::<K>())
}

plans!(windows: ShortPlan, |P| P::MOST);

/// The plans of a sort.
#[derive(Clone, Copy)]
struct Plans {
    /// Sort of short segments by blocks.
    short: PlanId,
    /// Radix sort of the elements of long segments.
    long: PlanId,
}

impl Plans {
    fn new<K: Number>(window: Option<&str>) -> Result<Self> {
        let long = radix::plan(Carried::Value(size_of::<K>()).types::<u64>(), None)?;
        Ok(Self { short: plan(TypeId::of::<K>(), window)?, long })
    }
}

/// Workspace of a sort.
#[derive(Clone, Copy)]
struct SortPieces {
    marks: Marks,
    /// Source index of each key, if values must be gathered.
    order: GlobalSlice<u32>,
    old_values: *mut u8,
    long: Option<LongPieces>,
}

/// Workspace for segments that are too long for a block.
#[derive(Clone, Copy)]
struct LongPieces {
    /// Two buffers of a word per element.
    firsts: *mut u8,
    besides: *mut u8,
    radix: Pieces,
    /// The radix sort's plan.
    plan: PlanId,
    /// Number of bits of segment numbers.
    number_bits: u32,
}

impl SortPieces {
    fn cut<K: Number, V: Pod>(cutter: &mut Cutter, plans: Plans, len: usize, segments: usize) -> Self {
        let most_long = len / (plans.short.size + 1);
        let listed = most_long.min(segments);
        let valued = if size_of::<V>() > 0 { len } else { 0 };
        Self {
            marks: Marks::cut(cutter, len, segments, listed, listed),
            order: cutter.words(valued),
            old_values: cutter.take_bytes(valued.saturating_mul(size_of::<V>())),
            long: (listed > 0).then(|| LongPieces::cut::<K>(cutter, plans.long, len, listed)),
        }
    }
}

impl LongPieces {
    fn cut<K: Number>(cutter: &mut Cutter, plan: PlanId, len: usize, listed: usize) -> Self {
        let carried = Carried::Value(size_of::<K>());
        Self {
            firsts: cutter.take_bytes(len.saturating_mul(8)),
            besides: cutter.take_bytes(len.saturating_mul(size_of::<K>())),
            radix: Pieces::cut::<u64>(cutter, len, plan.size, carried),
            plan,
            number_bits: listed.next_power_of_two().trailing_zeros(),
        }
    }

    /// Sorts the gathered elements by key and segment. Returns the pointers to the sorted words.
    ///
    /// # Safety
    /// - The workspace lives until the stream has executed the sort.
    unsafe fn sort<K: Number>(
        &self,
        stream: &Stream,
        len: usize,
        limit: GlobalSlice<u32>,
    ) -> Result<(*mut u8, *mut u8)> {
        let bits = 8 * size_of::<K>() as u32;
        let (firsts, besides) = ((self.firsts, self.radix.keys), (self.besides, self.radix.values));
        let sort = |keys: (Lane, Lane), first, end| Sort {
            plan: self.plan,
            stream,
            pieces: self.radix,
            keys: keys.0,
            values: keys.1,
            len,
            limit,
            first,
            end,
        };
        let is_short = bits == 32;
        let end = if is_short { bits + self.number_bits } else { bits };
        let lanes = (lane(firsts, 8, end), lane(besides, size_of::<K>(), end));
        // SAFETY: the caller's obligations.
        unsafe { sort(lanes, 0, end).launch::<u64>()? };
        if is_short || self.number_bits == 0 {
            return Ok((lanes.0.to, lanes.1.to));
        }
        // Eight passes left both arrays in place. Now the segment numbers are the keys.
        let (end, bits) = (32 + self.number_bits, self.number_bits);
        let lanes = (lane(besides, 8, bits), lane(firsts, 8, bits));
        // SAFETY: the caller's obligations.
        unsafe { sort(lanes, 32, end).launch::<u64>()? };
        Ok((lanes.1.to, lanes.0.to))
    }
}

/// Returns a lane between two buffers, for elements of `bytes` bytes that are sorted by `bits` bits. The
/// first buffer holds them, and no pass reads where it writes.
fn lane((from, other): (*mut u8, *mut u8), bytes: usize, bits: u32) -> Lane {
    match bits.div_ceil(DIGIT_BITS).is_multiple_of(2) {
        true => Lane { from, to: from, spare: other, bytes },
        false => Lane { from, to: other, spare: from, bytes },
    }
}

/// A sort of short segments to launch.
struct Launch<'a> {
    plan: PlanId,
    stream: &'a Stream,
    segments: Segments,
    from: *mut u8,
    to: *mut u8,
    order: GlobalSlice<u32>,
    len: usize,
}

impl windows::Visitor for Launch<'_> {
    type Output = Result<()>;

    fn visit<P: ShortPlan + Instance>(&mut self) -> Option<Result<()>> {
        self.plan.is::<P>().then(|| self.launch::<P>())
    }
}

impl Launch<'_> {
    fn launch<P: ShortPlan + Instance>(&self) -> Result<()> {
        let job = Job {
            from: slice(self.from, self.len),
            to: slice(self.to, self.len),
            order: self.order,
            segments: self.segments,
        };
        let grid = Grid::new(self.len.div_ceil(P::CHUNK) as u32, P::THREADS);
        // SAFETY: buffers and workspace outlive the launch (dropping them waits). Lengths were checked.
        unsafe { Ok(self.stream.launch(grid, SortShortSegments::<P> { job })?) }
    }
}

/// Sorts of segments.
///
/// Each segment is sorted stably by all bits of its keys. Elements in no segment (before the first offset, or
/// from the last one on) are unchanged. See [`Self::reduce_segments`] for segments and offsets.
impl Workspace {
    /// Sorts the keys of each segment into another buffer.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, sort_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (keys, offsets) = (device.from_slice(&[3u32, 1, 9, 4, 1])?, device.from_slice(&[0u32, 2, 2, 5])?);
    /// let mut sorted = device.buffer(5)?;
    /// let mut work = Workspace::on_device(&device, sort_segments_bytes::<u32, ()>(5, 3))?;
    /// work.sort_segments(&keys, &offsets, &mut sorted)?;
    /// assert_eq!(sorted.read()?, [1, 3, 1, 4, 9]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: for segments of at most 1024 keys, a read and a write of each key; an atomic and 8 bytes per
    /// segment; 4 launches. If the array has more keys than that, 8 to 17 more launches, which perform a
    /// radix sort of the longer segments' elements: see the page.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the buffers' lengths do not match;
    /// [`Error::Workspace`](crate::Error::Workspace) if the workspace is too small;
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) if a buffer is on another device;
    /// [`Error::UnknownTile`](crate::Error::UnknownTile) if the selected window does not exist for this type;
    /// [`Error::TooMany`](crate::Error::TooMany) for more than 2^30 - 1 elements or 2^32 - 1 segments;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    #[doc(alias = "segmented_sort")]
    pub fn sort_segments<K: Number>(
        &mut self,
        keys: impl AsSlice<K>,
        offsets: impl AsSlice<u32>,
        sorted: impl AsSliceMut<K>,
    ) -> Result<()> {
        let (keys, offsets, sorted) = (keys.view(), offsets.view(), sorted.view());
        check_len("sorted keys", keys.len(), sorted.len())?;
        self.check_device("keys", keys)?;
        self.check_device("sorted keys", sorted)?;
        self.sort_each::<K, ()>(keys.len(), (keys.pointer(), sorted.pointer()), nowhere(), offsets)
    }

    /// Sorts the keys of each segment in place.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, sort_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let mut keys = device.from_slice(&[3u64, 1, 9, 4, 1])?;
    /// let offsets = device.from_slice(&[1u32, 3, 5])?;
    /// let mut work = Workspace::on_device(&device, sort_segments_bytes::<u64, ()>(5, 2))?;
    /// work.sort_segments_in_place(&mut keys, &offsets)?;
    /// assert_eq!(keys.read()?, [3, 1, 9, 1, 4]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_segments`].
    ///
    /// # Errors
    /// As [`Self::sort_segments`].
    pub fn sort_segments_in_place<K: Number>(
        &mut self,
        keys: impl AsSliceMut<K>,
        offsets: impl AsSlice<u32>,
    ) -> Result<()> {
        let (keys, offsets) = (keys.view(), offsets.view());
        self.check_device("keys", keys)?;
        self.sort_each::<K, ()>(keys.len(), (keys.pointer(), keys.pointer()), nowhere(), offsets)
    }

    /// Sorts the pairs of each segment by their keys into other buffers; pairs with equal keys keep their
    /// order. Values are of any plain type.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, sort_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (keys, offsets) = (device.from_slice(&[3u32, 1, 9, 4, 4])?, device.from_slice(&[0u32, 2, 5])?);
    /// let values = device.from_slice(&[30u16, 10, 90, 40, 41])?;
    /// let (mut sorted, mut moved) = (device.buffer(5)?, device.buffer(5)?);
    /// let mut work = Workspace::on_device(&device, sort_segments_bytes::<u32, u16>(5, 2))?;
    /// work.sort_segment_pairs((&keys, &values), &offsets, (&mut sorted, &mut moved))?;
    /// assert_eq!((sorted.read()?, moved.read()?), (vec![1, 3, 4, 4, 9], vec![10, 30, 40, 41, 90]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_segments`], plus 8 bytes and a read and a write of each value, and one launch.
    ///
    /// # Errors
    /// As [`Self::sort_segments`].
    pub fn sort_segment_pairs<K: Number, V: Pod>(
        &mut self,
        (keys, values): (impl AsSlice<K>, impl AsSlice<V>),
        offsets: impl AsSlice<u32>,
        (sorted, moved): (impl AsSliceMut<K>, impl AsSliceMut<V>),
    ) -> Result<()> {
        let (offsets, keys, values, sorted, moved) =
            (offsets.view(), keys.view(), values.view(), sorted.view(), moved.view());
        check_len("sorted keys", keys.len(), sorted.len())?;
        check_len("values", keys.len(), values.len())?;
        check_len("sorted values", keys.len(), moved.len())?;
        self.check_device("keys", keys)?;
        self.check_device("sorted keys", sorted)?;
        self.check_device("values", values)?;
        self.check_device("sorted values", moved)?;
        let ends = (values.pointer(), moved.pointer());
        self.sort_each::<K, V>(keys.len(), (keys.pointer(), sorted.pointer()), ends, offsets)
    }

    /// Sorts the pairs of each segment in place: see [`Self::sort_segment_pairs`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, sort_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (mut keys, offsets) = (device.from_slice(&[3u32, 1, 9, 4])?, device.from_slice(&[0u32, 2, 4])?);
    /// let mut values = device.from_slice(&[30u64, 10, 90, 40])?;
    /// let mut work = Workspace::on_device(&device, sort_segments_bytes::<u32, u64>(4, 2))?;
    /// work.sort_segment_pairs_in_place((&mut keys, &mut values), &offsets)?;
    /// assert_eq!((keys.read()?, values.read()?), (vec![1, 3, 4, 9], vec![10, 30, 40, 90]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::sort_segment_pairs`], and a copy of the values.
    ///
    /// # Errors
    /// As [`Self::sort_segments`].
    pub fn sort_segment_pairs_in_place<K: Number, V: Pod>(
        &mut self,
        (keys, values): (impl AsSliceMut<K>, impl AsSliceMut<V>),
        offsets: impl AsSlice<u32>,
    ) -> Result<()> {
        let (offsets, keys, values) = (offsets.view(), keys.view(), values.view());
        check_len("values", keys.len(), values.len())?;
        self.check_device("keys", keys)?;
        self.check_device("values", values)?;
        let (keys_at, values_at) = (keys.pointer(), values.pointer());
        self.sort_each::<K, V>(keys.len(), (keys_at, keys_at), (values_at, values_at), offsets)
    }

    /// Sorts keys and values, each given by source and target.
    fn sort_each<K: Number, V: Pod>(
        &mut self,
        len: usize,
        keys: (*mut K, *mut K),
        values: (*mut V, *mut V),
        offsets: Slice<'_, u32>,
    ) -> Result<()> {
        let count = check_offsets(offsets)?;
        self.check_device("offsets of segments", offsets)?;
        check_count("a sort of segments", len, MOST)?;
        check_count("segments", count, u32::MAX as usize)?;
        let plans = Plans::new::<K>(self.tile())?;
        let pieces =
            self.cut("a sort of segments", |cutter| SortPieces::cut::<K, V>(cutter, plans, len, count))?;
        if len == 0 {
            return Ok(());
        }
        let (stream, order) = (self.stream(), pieces.order);
        // SAFETY: buffers and workspace outlive the launches (dropping them waits). All lengths were checked.
        unsafe {
            let segments = pieces.marks.launch(stream, offsets, len, plans.short.size)?;
            let (from, to) = (keys.0.cast(), keys.1.cast());
            let mut launch = Launch { plan: plans.short, stream, segments, from, to, order, len };
            launched(windows::visit(&mut launch))?;
            if let Some(long) = pieces.long {
                let keys = (slice(keys.0.cast(), len), slice(keys.1.cast(), len));
                sort_long::<K>(stream, long, (segments, pieces.marks), keys, order)?;
            }
            match size_of::<V>() {
                0 => Ok(()),
                bytes => gather(stream, order, (values.0.cast(), values.1.cast()), bytes, pieces.old_values),
            }
        }
    }
}

/// Sorts long segments.
///
/// # Safety
/// - All memory lives until the stream has executed the launches.
unsafe fn sort_long<K: Number>(
    stream: &Stream,
    long: LongPieces,
    (segments, marks): (Segments, Marks),
    (keys, sorted): (GlobalSlice<K>, GlobalSlice<K>),
    order: GlobalSlice<u32>,
) -> Result<()> {
    let len = keys.len();
    let gathered = |(firsts, besides): (*mut u8, *mut u8)| Gathered::<<K::Keys as LongPlan>::Beside> {
        segments,
        list: marks.list,
        firsts: slice(firsts, len),
        besides: slice(besides, len),
    };
    let grid = any_grid(len);
    // SAFETY: the caller's obligations.
    unsafe {
        let to = gathered((long.firsts, long.besides));
        stream.launch(grid, TakeLong::<K::Keys> { keys, to })?;
        let from = gathered(long.sort::<K>(stream, len, marks.published.total())?);
        Ok(stream.launch(grid, PutLong::<K::Keys> { from, keys: sorted, order })?)
    }
}

/// Returns pointers to no values.
fn nowhere() -> (*mut (), *mut ()) {
    (std::ptr::dangling_mut(), std::ptr::dangling_mut())
}

//! Reductions and scans of segments.
use super::{Marks, check_offsets};
use crate::Result;
use crate::primitives::scan::Published;
use crate::primitives::workspace::{Cutter, Workspace, slice};
use crate::primitives::{Fold, Number, PlanId, any_grid, check_count, check_len, launched, plans};
use gpu::{AsSlice, AsSliceMut, Grid, Slice, Stream};
use phalanx_kernels::primitives::instances::{reductions, segmented};
use phalanx_kernels::primitives::reduce::{ReduceBegin, Reduced};
use phalanx_kernels::primitives::segments::scan::{Job, ReduceSegments, ScanSegments, SegmentPlan};
use phalanx_kernels::primitives::segments::{List, Segments};
use simt::Instance;
use std::any::TypeId;

plans!(segmented: SegmentPlan, |P| P::THREADS as usize * P::ITEMS);

/// Allocates the pieces of a call.
fn scan_pieces<T: Number>(
    cutter: &mut Cutter,
    plan: PlanId,
    len: usize,
    count: usize,
    listed: usize,
) -> (Marks, Published) {
    let marks = Marks::cut(cutter, len, count, listed, 0);
    (marks, Published::cut(cutter, len.div_ceil(plan.size), 1 + size_of::<T>() / 4))
}

fn measure<T: Number>(len: usize, count: usize, listed: usize) -> usize {
    let bytes = |plan| Cutter::measure(|cutter| scan_pieces::<T>(cutter, plan, len, count, listed));
    plan(Fold::Sum.operator::<T>(), None).map_or(0, bytes)
}

/// Returns the bytes of workspace that [`Workspace::reduce_segments`] needs for `len` elements in `segments`
/// segments, with the default tile size.
///
/// ```
/// use phalanx::primitives::reduce_segments_bytes;
/// assert!(reduce_segments_bytes::<u32>(1 << 20, 1000) < 1 << 18);
/// ```
pub fn reduce_segments_bytes<T: Number>(len: usize, segments: usize) -> usize {
    measure::<T>(len, segments, segments)
}

/// Returns the bytes of workspace that scans of segments need for `len` elements, with the default tile size.
///
/// ```
/// use phalanx::primitives::scan_segments_bytes;
/// assert!(scan_segments_bytes::<u32>(1 << 20) < 1 << 18);
/// ```
pub fn scan_segments_bytes<T: Number>(len: usize) -> usize {
    measure::<T>(len, 0, 0)
}

/// Returns the names of the tiles for reductions and scans of segments, the default one first: see
/// [`Workspace::set_tile`].
///
/// ```
/// use phalanx::primitives::{Fold, segment_tiles};
/// assert_eq!(segment_tiles::<u64>(Fold::Max), ["256x8"]);
/// ```
pub fn segment_tiles<T: Number>(fold: Fold) -> Vec<&'static str> {
    tiles(fold.operator::<T>())
}

/// A scan or a reduction of segments to launch.
struct Launch<'a> {
    plan: PlanId,
    stream: &'a Stream,
    segments: Segments,
    published: Published,
    from: (*mut u8, usize),
    what: What,
}

/// Target of the results.
#[derive(Clone, Copy)]
enum What {
    Scan { to: *mut u8, inclusive: bool },
    Reduce { list: List, results: (*mut u8, usize) },
}

impl segmented::Visitor for Launch<'_> {
    type Output = Result<()>;

    fn visit<P: SegmentPlan + Instance>(&mut self) -> Option<Result<()>> {
        self.plan.is::<P>().then(|| self.launch::<P>())
    }
}

impl Launch<'_> {
    fn launch<P: SegmentPlan + Instance>(&self) -> Result<()> {
        let (from, len) = self.from;
        let grid = Grid::new(len.div_ceil(self.plan.size) as u32, P::THREADS);
        let job = Job {
            from: slice(from, len),
            segments: self.segments,
            status: self.published.status(),
            tickets: self.published.tickets(),
        };
        // SAFETY: buffers and workspace outlive the launch (dropping them waits). Lengths were checked.
        unsafe {
            match self.what {
                What::Scan { to, inclusive } => {
                    let (to, inclusive) = (slice(to, len), inclusive.into());
                    self.stream.launch(grid, ScanSegments::<P> { job, to, inclusive })?;
                }
                What::Reduce { list, results: (results, count) } => {
                    let results = slice(results, count);
                    self.stream.launch(grid, ReduceSegments::<P> { job, list, results })?;
                }
            }
        }
        Ok(())
    }
}

/// Fills results with the identity.
struct Fill<'a> {
    operator: TypeId,
    stream: &'a Stream,
    results: (*mut u8, usize),
}

impl reductions::Visitor for Fill<'_> {
    type Output = Result<()>;

    fn visit<R: Reduced + Instance>(&mut self) -> Option<Result<()>> {
        (TypeId::of::<R::Operator>() == self.operator).then(|| self.launch::<R>())
    }
}

impl Fill<'_> {
    fn launch<R: Reduced + Instance>(&self) -> Result<()> {
        let results = slice(self.results.0, self.results.1);
        // SAFETY: the buffer outlives the launch.
        unsafe { Ok(self.stream.launch(any_grid(results.len()), ReduceBegin::<R> { results })?) }
    }
}

/// Reductions and scans of segments.
///
/// Segment `s` has the elements from `offsets[s]` up to but excluding `offsets[s + 1]`. There is one offset
/// more than segments, as [`Workspace::offsets`] writes them, and offsets ascend. Segments may be empty, and
/// of any length. (If offsets descend or are beyond the elements, results are unspecified; nothing else is
/// affected.)
impl Workspace {
    /// Writes to `results[s]` the combination of the elements of segment `s`. For an empty segment it is the
    /// identity, as in [`Self::exclusive_scan`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, reduce_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, offsets) = (device.from_slice(&[3u32, 1, 4, 1, 5])?, device.from_slice(&[0u32, 2, 2, 5])?);
    /// let mut sums = device.buffer(3)?;
    /// let mut work = Workspace::on_device(&device, reduce_segments_bytes::<u32>(5, 3))?;
    /// work.reduce_segments(Fold::Sum, &from, &offsets, &mut sums)?;
    /// assert_eq!(sums.read()?, [4, 0, 10]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read of each element and of a quarter of a byte besides; an atomic, 16 bytes and a result per
    /// segment; 6 launches.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the buffers' lengths do not match;
    /// [`Error::Workspace`](crate::Error::Workspace) if the workspace is too small;
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) if a buffer is on another device;
    /// [`Error::UnknownTile`](crate::Error::UnknownTile) if the selected tile does not exist for this type;
    /// [`Error::TooMany`](crate::Error::TooMany) for more than 2^32 - 1 elements or segments;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    #[doc(alias = "segmented_reduce")]
    pub fn reduce_segments<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        offsets: impl AsSlice<u32>,
        results: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, offsets, results) = (from.view(), offsets.view(), results.view());
        let count = check_offsets(offsets)?;
        check_len("results of segments", count, results.len())?;
        self.check_device("results of segments", results)?;
        let results = (results.pointer().cast(), count);
        let mut fill = Fill { operator: fold.operator::<T>(), stream: self.stream(), results };
        let what = |list| What::Reduce { list, results };
        self.segments(fold, from, offsets, count, what, || launched(reductions::visit(&mut fill)))
    }

    /// Runs [`Self::exclusive_scan`] on each segment. Results for elements in no segment (before the first
    /// offset, or from the last one on) are unchanged.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, offsets) = (device.from_slice(&[3u32, 1, 4, 1, 5])?, device.from_slice(&[0u32, 2, 5])?);
    /// let mut to = device.buffer(5)?;
    /// let mut work = Workspace::on_device(&device, scan_segments_bytes::<u32>(5))?;
    /// work.exclusive_scan_segments(Fold::Sum, &from, &offsets, &mut to)?;
    /// assert_eq!(to.read()?, [0, 3, 0, 4, 5]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read and a write of each element and of a quarter of a byte besides; an atomic and 8 bytes per
    /// segment; 5 launches.
    ///
    /// # Errors
    /// As [`Self::reduce_segments`].
    #[doc(alias = "segmented_scan")]
    pub fn exclusive_scan_segments<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        offsets: impl AsSlice<u32>,
        to: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, offsets, to) = (from.view(), offsets.view(), to.view());
        self.scan_segments(fold, from, offsets, to, false)
    }

    /// Runs [`Self::inclusive_scan`] on each segment; otherwise as [`Self::exclusive_scan_segments`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, offsets) = (device.from_slice(&[3u64, 1, 4, 1, 5])?, device.from_slice(&[0u32, 2, 5])?);
    /// let mut to = device.buffer(5)?;
    /// let mut work = Workspace::on_device(&device, scan_segments_bytes::<u64>(5))?;
    /// work.inclusive_scan_segments(Fold::Max, &from, &offsets, &mut to)?;
    /// assert_eq!(to.read()?, [3, 3, 4, 4, 5]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::exclusive_scan_segments`].
    ///
    /// # Errors
    /// As [`Self::reduce_segments`].
    pub fn inclusive_scan_segments<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        offsets: impl AsSlice<u32>,
        to: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, offsets, to) = (from.view(), offsets.view(), to.view());
        self.scan_segments(fold, from, offsets, to, true)
    }

    /// Scans segments in place: as [`Self::inclusive_scan_segments`] if `inclusive` is true, otherwise as
    /// [`Self::exclusive_scan_segments`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_segments_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (mut numbers, offsets) = (device.from_slice(&[3u32, 1, 4])?, device.from_slice(&[0u32, 1, 3])?);
    /// let mut work = Workspace::on_device(&device, scan_segments_bytes::<u32>(3))?;
    /// work.scan_segments_in_place(Fold::Sum, &mut numbers, &offsets, true)?;
    /// assert_eq!(numbers.read()?, [3, 1, 5]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::exclusive_scan_segments`].
    ///
    /// # Errors
    /// As [`Self::reduce_segments`].
    pub fn scan_segments_in_place<T: Number>(
        &mut self,
        fold: Fold,
        numbers: impl AsSliceMut<T>,
        offsets: impl AsSlice<u32>,
        inclusive: bool,
    ) -> Result<()> {
        let (numbers, offsets) = (numbers.view(), offsets.view());
        check_offsets(offsets)?;
        let to = numbers.pointer().cast();
        self.segments(fold, numbers, offsets, 0, |_| What::Scan { to, inclusive }, || Ok(()))
    }

    fn scan_segments<T: Number>(
        &mut self,
        fold: Fold,
        from: Slice<'_, T>,
        offsets: Slice<'_, u32>,
        to: Slice<'_, T>,
        inclusive: bool,
    ) -> Result<()> {
        check_offsets(offsets)?;
        check_len("results of a scan", from.len(), to.len())?;
        self.check_device("results of a scan", to)?;
        let to = to.pointer().cast();
        self.segments(fold, from, offsets, 0, |_| What::Scan { to, inclusive }, || Ok(()))
    }

    /// Marks segments, lists `listed` of them, and launches the operation, after the launches of `before`.
    fn segments<T: Number>(
        &self,
        fold: Fold,
        from: Slice<'_, T>,
        offsets: Slice<'_, u32>,
        listed: usize,
        what: impl Fn(List) -> What,
        before: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.check_device("elements of segments", from)?;
        self.check_device("offsets of segments", offsets)?;
        let (len, count) = (from.len(), offsets.len() - 1);
        check_count("segments of elements", len.max(count), u32::MAX as usize)?;
        let plan = plan(fold.operator::<T>(), self.tile())?;
        let (marks, published) =
            self.cut("segments", |cutter| scan_pieces::<T>(cutter, plan, len, count, listed))?;
        before()?;
        if len == 0 {
            return Ok(());
        }
        let stream = self.stream();
        // SAFETY: buffers and workspace outlive the launches (dropping them waits).
        let segments = unsafe {
            published.clear(stream)?;
            marks.launch(stream, offsets, len, 0)?
        };
        let from = (from.pointer().cast(), len);
        let mut launch = Launch { plan, stream, segments, published, from, what: what(marks.list) };
        launched(segmented::visit(&mut launch))
    }
}

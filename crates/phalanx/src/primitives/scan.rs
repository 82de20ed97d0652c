//! Scans and reductions.
use super::workspace::{Cutter, Workspace, slice};
use super::{Number, PlanId, any_grid, check_count, check_len, launched, plans};
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::Result;
use gpu::{AsSlice, AsSliceMut, Grid, Slice, Stream};
use phalanx_kernels::primitives::instances::{reductions, scans};
use phalanx_kernels::primitives::lookback;
use phalanx_kernels::primitives::operator::{Max, Min, Sum};
use phalanx_kernels::primitives::reduce::{Reduce, ReduceBegin, Reduced};
use phalanx_kernels::primitives::scan::{Job, Scan, ScanPlan};
use phalanx_kernels::primitives::words::ClearWords;
use simt::{GlobalSlice, Instance};
use std::any::TypeId;

/// Operation that combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Wrapping sum.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

impl Fold {
    /// Returns the type of the operator in kernels.
    pub(super) fn operator<T: Number>(self) -> TypeId {
        match self {
            Self::Sum => TypeId::of::<Sum<T>>(),
            Self::Min => TypeId::of::<Min<T>>(),
            Self::Max => TypeId::of::<Max<T>>(),
        }
    }
}

/// Memory in which the tiles of a scan publish their status and draw tickets.
#[derive(Clone, Copy)]
pub(super) struct Published {
    memory: *mut u8,
    words: usize,
}

/// Words of 4 bytes before the published status: the tile counter, and padding to a cache line.
const COUNTERS: usize = 64;

impl Published {
    /// Allocates for a number of tiles, each of whose values has `words` words of 32 bits besides its flags.
    pub fn cut(cutter: &mut Cutter, tiles: usize, words: usize) -> Self {
        let words = tiles.saturating_mul(lookback::stride(words));
        let bytes = words.saturating_mul(8).saturating_add(4 * COUNTERS);
        Self { memory: cutter.take_bytes(bytes), words }
    }

    /// Submits a launch that clears the memory.
    ///
    /// # Safety
    /// - The workspace lives until the stream has executed the launch.
    pub unsafe fn clear(self, stream: &Stream) -> Result<()> {
        let words = 2 * self.words + COUNTERS;
        // SAFETY: the caller's obligations.
        unsafe { stream.launch(any_grid(words), ClearWords { words: slice(self.memory, words) })? };
        Ok(())
    }

    pub fn status(self) -> GlobalSlice<u64> {
        slice(self.memory.wrapping_add(4 * COUNTERS), self.words)
    }

    pub fn tickets(self) -> GlobalSlice<u32> {
        slice(self.memory, 1)
    }

    /// Returns two further words that [`Self::clear`] zeroes.
    pub fn counts(self) -> GlobalSlice<u32> {
        slice(self.memory.wrapping_add(4), 2)
    }

    /// Returns the second of these words.
    pub fn total(self) -> GlobalSlice<u32> {
        slice(self.memory.wrapping_add(8), 1)
    }
}

/// Returns the bytes of workspace that a scan of `len` elements needs, with the default tile size.
///
/// ```
/// use phalanx::primitives::scan_bytes;
/// assert!(scan_bytes::<u32>(1 << 20) < 1 << 14);
/// ```
pub fn scan_bytes<T: Number>(len: usize) -> usize {
    let bytes = |plan: PlanId| {
        Cutter::measure(|cutter| Published::cut(cutter, len.div_ceil(plan.size), size_of::<T>() / 4))
    };
    plan(Fold::Sum.operator::<T>(), None).map_or(0, bytes)
}

/// Returns the names of the tiles for scans of these elements, the default one first: see
/// [`Workspace::set_tile`].
///
/// ```
/// use phalanx::primitives::{Fold, scan_tiles};
/// assert_eq!(scan_tiles::<u64>(Fold::Max), ["512x8"]);
/// ```
pub fn scan_tiles<T: Number>(fold: Fold) -> Vec<&'static str> {
    tiles(fold.operator::<T>())
}

plans!(scans: ScanPlan, |P| P::THREADS as usize * P::ITEMS);

/// A scan to launch.
struct Launch<'a> {
    plan: PlanId,
    stream: &'a Stream,
    published: Published,
    from: (*mut u8, usize),
    to: (*mut u8, usize),
    inclusive: bool,
}

impl scans::Visitor for Launch<'_> {
    type Output = Result<()>;

    fn visit<P: ScanPlan + Instance>(&mut self) -> Option<Result<()>> {
        self.plan.is::<P>().then(|| self.launch::<P>())
    }
}

impl Launch<'_> {
    fn launch<P: ScanPlan + Instance>(&self) -> Result<()> {
        let job = Job {
            from: slice(self.from.0, self.from.1),
            to: slice(self.to.0, self.to.1),
            status: self.published.status(),
            tickets: self.published.tickets(),
            inclusive: self.inclusive.into(),
        };
        let mut grid = Grid::new(self.from.1.div_ceil(self.plan.size) as u32, P::THREADS);
        if P::AHEAD {
            let resident = self.stream.device().occupancy_grid::<Scan<P>>(P::THREADS)?;
            grid.blocks = grid.blocks.min(resident.blocks);
        }
        // SAFETY: buffers and workspace outlive the launches (dropping them waits). Lengths were checked.
        unsafe { Ok(self.stream.launch(grid, Scan::<P> { job })?) }
    }
}

/// A reduction to launch.
struct Reduction<'a> {
    operator: TypeId,
    stream: &'a Stream,
    from: (*mut u8, usize),
    result: *mut u8,
}

impl reductions::Visitor for Reduction<'_> {
    type Output = Result<()>;

    fn visit<R: Reduced + Instance>(&mut self) -> Option<Result<()>> {
        (TypeId::of::<R::Operator>() == self.operator).then(|| self.launch::<R>())
    }
}

impl Reduction<'_> {
    fn launch<R: Reduced + Instance>(&self) -> Result<()> {
        let (from, result) = (slice(self.from.0, self.from.1), slice(self.result, 1));
        // SAFETY: as for a scan.
        unsafe {
            self.stream.launch(Grid::new(1, 32), ReduceBegin::<R> { results: result })?;
            let grid = any_grid(self.from.1.div_ceil(8));
            Ok(self.stream.launch(grid, Reduce::<R> { from, result })?)
        }
    }
}

/// Scans and reductions.
impl Workspace {
    /// Writes to `to[i]` the combination of all elements of `from` before `i`. For `i = 0` this is the
    /// identity: 0 for [`Fold::Sum`] and [`Fold::Max`], the largest number for [`Fold::Min`]. `to` has as
    /// many elements as `from`.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, mut to) = (device.from_slice(&[3u32, 1, 4])?, device.buffer(3)?);
    /// let mut work = Workspace::on_device(&device, scan_bytes::<u32>(3))?;
    /// work.exclusive_scan(Fold::Sum, &from, &mut to)?;
    /// assert_eq!(to.read()?, [0, 3, 4]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read and a write of each element; 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::Workspace`] if the workspace is too small;
    /// [`Error::Elsewhere`] if a buffer is on another device; [`Error::UnknownTile`] if the selected tile
    /// does not exist for this type; [`Error::TooMany`] for more than 2^40 elements; [`Error::Device`] if the
    /// device is lost or lacks the memory.
    pub fn exclusive_scan<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        to: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, to) = (from.view(), to.view());
        self.scan_into("results of a scan", fold, from, (to, from.len()), false)
    }

    /// Writes to `to[i]` the combination of the elements of `from` up to and including `i`. `to` has as many
    /// elements as `from`.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, mut to) = (device.from_slice(&[3u64, 1, 4])?, device.buffer(3)?);
    /// let mut work = Workspace::on_device(&device, scan_bytes::<u64>(3))?;
    /// work.inclusive_scan(Fold::Max, &from, &mut to)?;
    /// assert_eq!(to.read()?, [3, 3, 4]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// As [`Self::exclusive_scan`].
    pub fn inclusive_scan<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        to: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, to) = (from.view(), to.view());
        self.scan_into("results of a scan", fold, from, (to, from.len()), true)
    }

    /// Scans in place: as [`Self::inclusive_scan`] if `inclusive` is true, otherwise as
    /// [`Self::exclusive_scan`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, scan_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let mut numbers = device.from_slice(&[3u32, 1, 4])?;
    /// let mut work = Workspace::on_device(&device, scan_bytes::<u32>(3))?;
    /// work.scan_in_place(Fold::Sum, &mut numbers, true)?;
    /// assert_eq!(numbers.read()?, [3, 4, 8]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// As [`Self::exclusive_scan`].
    pub fn scan_in_place<T: Number>(
        &mut self,
        fold: Fold,
        numbers: impl AsSliceMut<T>,
        inclusive: bool,
    ) -> Result<()> {
        let numbers = numbers.view();
        let (to, len) = (numbers.pointer(), numbers.len());
        self.scan(fold, numbers, to, len, inclusive)
    }

    /// Writes the offset at which each segment begins, given their lengths, and at the end the offset at
    /// which the last one ends: `offsets` has one element more than `counts`.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, scan_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (counts, mut offsets) = (device.from_slice(&[2u32, 0, 3])?, device.buffer(4)?);
    /// let mut work = Workspace::on_device(&device, scan_bytes::<u32>(3))?;
    /// work.offsets(&counts, &mut offsets)?;
    /// assert_eq!(offsets.read()?, [0, 2, 2, 5]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// As [`Self::exclusive_scan`].
    pub fn offsets<T: Number>(&mut self, counts: impl AsSlice<T>, offsets: impl AsSliceMut<T>) -> Result<()> {
        let (counts, offsets) = (counts.view(), offsets.view());
        self.scan_into("offsets", Fold::Sum, counts, (offsets, counts.len() + 1), false)
    }

    /// Scans into another buffer, called `what` in errors, which must have `expected` elements.
    fn scan_into<T: Number>(
        &mut self,
        what: &'static str,
        fold: Fold,
        from: Slice<'_, T>,
        (to, expected): (Slice<'_, T>, usize),
        inclusive: bool,
    ) -> Result<()> {
        check_len(what, expected, to.len())?;
        self.check_device(what, to)?;
        self.scan(fold, from, to.pointer(), to.len(), inclusive)
    }

    fn scan<T: Number>(
        &mut self,
        fold: Fold,
        from: Slice<'_, T>,
        to: *mut T,
        to_len: usize,
        inclusive: bool,
    ) -> Result<()> {
        self.check_device("elements to scan", from)?;
        check_count("a scan", from.len(), 1 << 40)?;
        let plan = plan(fold.operator::<T>(), self.tile())?;
        let tiles = from.len().div_ceil(plan.size);
        let published = self.cut("a scan", |cutter| Published::cut(cutter, tiles, size_of::<T>() / 4))?;
        let stream = self.stream();
        if from.is_empty() {
            // The only possible result is the total, which is an empty sum.
            let words = slice(to.cast(), to_len * size_of::<T>() / 4);
            // SAFETY: the buffer outlives the launch.
            unsafe { stream.launch(any_grid(words.len()), ClearWords { words })? };
            return Ok(());
        }
        // SAFETY: the workspace outlives the launch.
        unsafe { published.clear(stream)? };
        let (from, to) = ((from.pointer().cast(), from.len()), (to.cast(), to_len));
        launched(scans::visit(&mut Launch { plan, stream, published, from, to, inclusive }))
    }

    /// Writes the combination of all elements to `result`, which has one element. Without elements it is the
    /// identity, as in [`Self::exclusive_scan`].
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace};
    ///
    /// let device = Device::from_environment()?;
    /// let (numbers, mut smallest) = (device.from_slice(&[3u32, 1, 4])?, device.buffer(1)?);
    /// Workspace::on_device(&device, 0)?.reduce(Fold::Min, &numbers, &mut smallest)?;
    /// assert_eq!(smallest.read()?, [1]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read of each element; 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`] if `result` does not have one element; [`Error::Elsewhere`] if a buffer is on
    /// another device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reduce<T: Number>(
        &mut self,
        fold: Fold,
        from: impl AsSlice<T>,
        result: impl AsSliceMut<T>,
    ) -> Result<()> {
        let (from, result) = (from.view(), result.view());
        check_len("the result of a reduction", 1, result.len())?;
        self.check_device("elements to reduce", from)?;
        self.check_device("the result of a reduction", result)?;
        let mut launch = Reduction {
            operator: fold.operator::<T>(),
            stream: self.stream(),
            from: (from.pointer().cast(), from.len()),
            result: result.pointer().cast(),
        };
        launched(reductions::visit(&mut launch))
    }
}

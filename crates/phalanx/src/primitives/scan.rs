//! Scans and reductions.
use super::workspace::{Cutter, Workspace, slice};
use super::{Number, any_grid, check_count, check_len, instance, tiles};
use crate::{Error, Result};
use gpu::{Buffer, Grid, Stream};
use phalanx_kernels::primitives::instances::{reductions, scans};
use phalanx_kernels::primitives::lookback;
use phalanx_kernels::primitives::reduce::{Reduce, ReduceBegin, Reduced, Visitor as ReduceVisitor};
use phalanx_kernels::primitives::scan::{Job, Scan, ScanPlan, Visitor};
use phalanx_kernels::primitives::words::ClearWords;
use simt::{GlobalSlice, Instance};

/// How two elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Their sum, wrapping.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Fold {
    /// Its name in those of kernels.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    pub(super) fn family<T: Number>(self) -> String {
        format!("{}_{}", self.name(), T::NAME)
    }
}

/// What scans publish and count in.
#[derive(Clone, Copy)]
pub(super) struct Published {
    memory: *mut u8,
    words: usize,
}

/// Words of 4 bytes before what is published: the counter of tiles, and what fills it up to a line.
const COUNTERS: usize = 64;

impl Published {
    /// For as many tiles, whose values have so many words of 32 bits beside their flags.
    pub fn cut(cutter: &mut Cutter, tiles: usize, words: usize) -> Self {
        let words = tiles.saturating_mul(lookback::stride(words));
        let bytes = words.saturating_mul(8).saturating_add(4 * COUNTERS);
        Self { memory: cutter.bytes(bytes), words }
    }

    /// Asks the stream to clear it.
    ///
    /// # Safety
    /// - The workspace lives until the stream has done it.
    pub unsafe fn clear(self, stream: &Stream) -> Result<()> {
        let words = 2 * self.words + COUNTERS;
        // SAFETY: the caller's.
        unsafe { stream.launch(any_grid(words), ClearWords { words: slice(self.memory, words) })? };
        Ok(())
    }

    pub fn status(self) -> GlobalSlice<u64> {
        slice(self.memory.wrapping_add(4 * COUNTERS), self.words)
    }

    pub fn tickets(self) -> GlobalSlice<u32> {
        slice(self.memory, 1)
    }

    /// Two more words that are zero before.
    pub fn counts(self) -> GlobalSlice<u32> {
        slice(self.memory.wrapping_add(4), 2)
    }

    /// The second of them.
    pub fn total(self) -> GlobalSlice<u32> {
        slice(self.memory.wrapping_add(8), 1)
    }
}

/// Bytes of workspace that a scan of `len` elements needs, with tiles of the usual size.
///
/// ```
/// use phalanx::primitives::scan_bytes;
/// assert!(scan_bytes::<u32>(1 << 20) < 1 << 14);
/// ```
pub fn scan_bytes<T: Number>(len: usize) -> usize {
    let name = instance(&Fold::Sum.family::<T>(), None, scans::NAMES);
    let size = name.ok().and_then(|name| scans::visit(name, TileSize)).unwrap_or(1);
    Cutter::measure(|cutter| Published::cut(cutter, len.div_ceil(size), size_of::<T>() / 4))
}

/// The tiles that there are for scans of these elements, the usual one first: see [`Workspace::set_tile`].
///
/// ```
/// use phalanx::primitives::{Fold, scan_tiles};
/// assert_eq!(scan_tiles::<u64>(Fold::Max), ["512x8"]);
/// ```
pub fn scan_tiles<T: Number>(fold: Fold) -> Vec<&'static str> {
    tiles(&fold.family::<T>(), scans::NAMES)
}

/// Elements of a plan's tile.
struct TileSize;

impl Visitor for TileSize {
    type Output = usize;

    fn visit<P: ScanPlan + Instance>(self) -> usize {
        P::THREADS as usize * P::ITEMS
    }
}

/// A scan to launch.
struct Launch<'a> {
    stream: &'a Stream,
    published: Published,
    from: (*mut u8, usize),
    to: (*mut u8, usize),
    inclusive: bool,
}

impl Visitor for Launch<'_> {
    type Output = Result<()>;

    fn visit<P: ScanPlan + Instance>(self) -> Result<()> {
        let job = Job {
            from: slice(self.from.0, self.from.1),
            to: slice(self.to.0, self.to.1),
            status: self.published.status(),
            tickets: self.published.tickets(),
            inclusive: self.inclusive.into(),
        };
        let mut grid = Grid::new(self.from.1.div_ceil(P::THREADS as usize * P::ITEMS) as u32, P::THREADS);
        if P::AHEAD {
            let resident = self.stream.device().occupancy_grid::<Scan<P>>(P::THREADS)?;
            grid.blocks = grid.blocks.min(resident.blocks);
        }
        // SAFETY: buffers and workspace outlive the launches (dropping them waits); lengths were checked.
        unsafe { Ok(self.stream.launch(grid, Scan::<P> { job })?) }
    }
}

/// A reduction to launch.
struct Reduction<'a> {
    stream: &'a Stream,
    from: (*mut u8, usize),
    result: *mut u8,
}

impl ReduceVisitor for Reduction<'_> {
    type Output = Result<()>;

    fn visit<R: Reduced + Instance>(self) -> Result<()> {
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
    /// Writes to `to[i]` what all elements of `from` before `i` come to; for the first that is 0 of a sum,
    /// the largest number of [`Fold::Min`], 0 of [`Fold::Max`]. There are as many results as elements.
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
    /// Cost: a read and a write of each element, in 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Workspace`], [`Error::Elsewhere`], [`Error::UnknownTile`];
    /// [`Error::TooMany`] beyond 2^40 elements; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    pub fn exclusive_scan<T: Number>(
        &mut self,
        fold: Fold,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<()> {
        self.scan_into("results of a scan", fold, from, (to, from.len()), false)
    }

    /// Writes to `to[i]` what the elements of `from` up to `i` come to, that one included. There are as many
    /// results as elements.
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
    /// Cost: that of [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// Those of [`Self::exclusive_scan`].
    pub fn inclusive_scan<T: Number>(
        &mut self,
        fold: Fold,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<()> {
        self.scan_into("results of a scan", fold, from, (to, from.len()), true)
    }

    /// [`Self::exclusive_scan`] or, where `inclusive` says so, [`Self::inclusive_scan`], in place.
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
    /// Cost: that of [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// Those of [`Self::exclusive_scan`].
    pub fn scan_in_place<T: Number>(
        &mut self,
        fold: Fold,
        numbers: &mut Buffer<T>,
        inclusive: bool,
    ) -> Result<()> {
        let (to, len) = (numbers.pointer(), numbers.len());
        self.scan(fold, numbers, to, len, inclusive)
    }

    /// Where each of the segments of these lengths begins, and, in the last place, where the last one ends:
    /// `offsets` has one element more.
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
    /// Cost: that of [`Self::exclusive_scan`].
    ///
    /// # Errors
    /// Those of [`Self::exclusive_scan`].
    pub fn offsets<T: Number>(&mut self, counts: &Buffer<T>, offsets: &mut Buffer<T>) -> Result<()> {
        self.scan_into("offsets", Fold::Sum, counts, (offsets, counts.len() + 1), false)
    }

    /// Scans into another buffer, called `what`, which must have `expected` elements.
    fn scan_into<T: Number>(
        &mut self,
        what: &'static str,
        fold: Fold,
        from: &Buffer<T>,
        (to, expected): (&mut Buffer<T>, usize),
        inclusive: bool,
    ) -> Result<()> {
        check_len(what, expected, to.len())?;
        self.check_device(what, to)?;
        self.scan(fold, from, to.pointer(), to.len(), inclusive)
    }

    fn scan<T: Number>(
        &mut self,
        fold: Fold,
        from: &Buffer<T>,
        to: *mut T,
        to_len: usize,
        inclusive: bool,
    ) -> Result<()> {
        self.check_device("elements to scan", from)?;
        check_count("a scan", from.len(), 1 << 40)?;
        let name = instance(&fold.family::<T>(), self.tile(), scans::NAMES)?;
        let size = scans::visit(name, TileSize).unwrap_or(1);
        let tiles = from.len().div_ceil(size);
        let published = self.cut("a scan", |cutter| Published::cut(cutter, tiles, size_of::<T>() / 4))?;
        let stream = self.stream();
        if from.is_empty() {
            // The only result there may be is the whole's, which is an empty sum.
            let words = slice(to.cast(), to_len * size_of::<T>() / 4);
            // SAFETY: the buffer outlives the launch.
            unsafe { stream.launch(any_grid(words.len()), ClearWords { words })? };
            return Ok(());
        }
        // SAFETY: the workspace outlives the launch.
        unsafe { published.clear(stream)? };
        let (from, to) = ((from.pointer().cast(), from.len()), (to.cast(), to_len));
        scans::visit(name, Launch { stream, published, from, to, inclusive }).unwrap_or(Ok(()))
    }

    /// Writes to `result`, which has one element, what all elements come to; what [`Self::exclusive_scan`]
    /// has for the first one, if there are none.
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
    /// Cost: a read of each element, in 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Elsewhere`]; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    pub fn reduce<T: Number>(&mut self, fold: Fold, from: &Buffer<T>, result: &mut Buffer<T>) -> Result<()> {
        check_len("the result of a reduction", 1, result.len())?;
        self.check_device("elements to reduce", from)?;
        self.check_device("the result of a reduction", result)?;
        let launch = Reduction {
            stream: self.stream(),
            from: (from.pointer().cast(), from.len()),
            result: result.pointer().cast(),
        };
        reductions::visit(&fold.family::<T>(), launch)
            .unwrap_or_else(|| Err(Error::Invalid(format!("no kernel reduces by {}", fold.family::<T>()))))
    }
}

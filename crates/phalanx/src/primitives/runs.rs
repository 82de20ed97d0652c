//! Runs of equal adjacent keys.
use super::scan::Published;
use super::workspace::{Cutter, Workspace, slice};
use super::{Fold, Number, check_count, check_len, launched};
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::Result;
use gpu::{AsSlice, AsSliceMut, Grid, Slice, Stream};
use phalanx_kernels::primitives::instances::runs;
use phalanx_kernels::primitives::runs::{RUN_ITEMS, RUN_THREADS, ReduceRuns, Runs};
use phalanx_kernels::primitives::words::ClearWords;
use simt::{GlobalSlice, Instance};
use std::any::TypeId;

const TILE: usize = RUN_THREADS as usize * RUN_ITEMS;

/// Returns the bytes of workspace that [`Workspace::reduce_by_key`] and [`Workspace::run_lengths`] need for
/// `len` keys of any type.
///
/// ```
/// use phalanx::primitives::runs_bytes;
/// assert!(runs_bytes(1 << 20) < 1 << 15);
/// ```
pub fn runs_bytes(len: usize) -> usize {
    Cutter::measure(|cutter| cut(cutter, len))
}

fn cut(cutter: &mut Cutter, len: usize) -> Published {
    Published::cut(cutter, len.div_ceil(TILE), 3)
}

/// A reduction of runs to launch.
struct Launch<'a> {
    /// Types of the keys and of the operator.
    key: TypeId,
    operator: TypeId,
    stream: &'a Stream,
    published: Published,
    len: usize,
    keys: *mut u8,
    values: (*mut u8, usize),
    run_keys: (*mut u8, usize),
    run_values: *mut u8,
    count: *mut u8,
}

impl runs::Visitor for Launch<'_> {
    type Output = Result<()>;

    fn visit<R: Runs + Instance>(&mut self) -> Option<Result<()>> {
        let fits = (TypeId::of::<R::Key>(), TypeId::of::<R::Operator>()) == (self.key, self.operator);
        fits.then(|| self.launch::<R>())
    }
}

impl Launch<'_> {
    fn launch<R: Runs + Instance>(&self) -> Result<()> {
        let kernel = ReduceRuns::<R> {
            keys: slice(self.keys, self.len),
            values: slice(self.values.0, self.values.1),
            run_keys: slice(self.run_keys.0, self.run_keys.1),
            run_values: slice(self.run_values, self.run_keys.1),
            count: slice(self.count, 1),
            status: self.published.status(),
            tickets: self.published.tickets(),
        };
        let blocks = self.len.div_ceil(TILE) as u32;
        // SAFETY: buffers and workspace outlive the launch (dropping them waits). Lengths were checked.
        unsafe { Ok(self.stream.launch(Grid::new(blocks, RUN_THREADS), kernel)?) }
    }
}

/// Runs.
impl Workspace {
    /// Reduces the values of each run of equal adjacent keys. Writes the key of run `r` to `run_keys[r]`, the
    /// reduced value to `run_values[r]`, and the number of runs to `count`. `run_keys` and `run_values` have
    /// as many elements as `keys`; their remaining elements are unchanged.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Fold, Workspace, runs_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (keys, values) = (device.from_slice(&[7u32, 7, 9])?, device.from_slice(&[1u64, 2, 3])?);
    /// let (mut of, mut sums, mut count) = (device.zeroed(3)?, device.zeroed(3)?, device.buffer(1)?);
    /// let mut work = Workspace::on_device(&device, runs_bytes(3))?;
    /// work.reduce_by_key(Fold::Sum, (&keys, &values), (&mut of, &mut sums), &mut count)?;
    /// assert_eq!((of.read()?, sums.read()?, count.read()?), (vec![7, 9, 0], vec![3, 3, 0], vec![2]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: up to four reads of each key, most of which hit the L1 cache, one of each value, and a write per
    /// run; 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::Workspace`] if the workspace is too small;
    /// [`Error::Elsewhere`] if a buffer is on another device; [`Error::TooMany`] for more than 2^32 - 1
    /// elements; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reduce_by_key<K: Number, T: Number>(
        &mut self,
        fold: Fold,
        (keys, values): (impl AsSlice<K>, impl AsSlice<T>),
        (run_keys, run_values): (impl AsSliceMut<K>, impl AsSliceMut<T>),
        count: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (count, keys, values, run_keys, run_values) =
            (count.view(), keys.view(), values.view(), run_keys.view(), run_values.view());
        check_len("values", keys.len(), values.len())?;
        self.check_device("values", values)?;
        self.runs(fold, keys, (values.pointer(), values.len()), (run_keys, run_values), count)
    }

    /// Writes the key and the length of each run of equal adjacent keys, as [`Self::reduce_by_key`] of ones.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, runs_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let keys = device.from_slice(&[7u64, 7, 9])?;
    /// let (mut of, mut lengths, mut count) = (device.zeroed(3)?, device.zeroed(3)?, device.buffer(1)?);
    /// let mut work = Workspace::on_device(&device, runs_bytes(3))?;
    /// work.run_lengths(&keys, (&mut of, &mut lengths), &mut count)?;
    /// assert_eq!((of.read()?, lengths.read()?, count.read()?), (vec![7, 9, 0], vec![2u32, 1, 0], vec![2]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::reduce_by_key`] without the values.
    ///
    /// # Errors
    /// As [`Self::reduce_by_key`].
    pub fn run_lengths<K: Number>(
        &mut self,
        keys: impl AsSlice<K>,
        runs: (impl AsSliceMut<K>, impl AsSliceMut<u32>),
        count: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (keys, count, runs) = (keys.view(), count.view(), (runs.0.view(), runs.1.view()));
        self.runs(Fold::Sum, keys, (std::ptr::dangling_mut(), 0), runs, count)
    }

    fn runs<K: Number, T: Number>(
        &mut self,
        fold: Fold,
        keys: Slice<'_, K>,
        values: (*mut T, usize),
        (run_keys, run_values): (Slice<'_, K>, Slice<'_, T>),
        count: Slice<'_, u32>,
    ) -> Result<()> {
        check_len("keys of runs", keys.len(), run_keys.len())?;
        check_len("values of runs", keys.len(), run_values.len())?;
        check_len("the number of runs", 1, count.len())?;
        check_count("runs", keys.len(), u32::MAX as usize)?;
        self.check_device("keys", keys)?;
        self.check_device("keys of runs", run_keys)?;
        self.check_device("values of runs", run_values)?;
        self.check_device("the number of runs", count)?;
        let values = slice(values.0.cast(), values.1);
        let runs = (run_keys.global(), run_values.global());
        // SAFETY: the buffers outlive the launches (dropping them waits). Lengths were checked.
        unsafe { self.reduce_words(fold, (keys.global(), values), runs, count.global()) }
    }

    /// Launches a reduction of runs: see [`ReduceRuns`] for the arguments.
    ///
    /// # Safety
    /// - The slices live until the stream has executed the launches. Each is as long as `keys`, but `count`
    ///   has one word, and `values` may be empty.
    pub(super) unsafe fn reduce_words<K: Number, T: Number>(
        &self,
        fold: Fold,
        (keys, values): (GlobalSlice<K>, GlobalSlice<T>),
        (run_keys, run_values): (GlobalSlice<K>, GlobalSlice<T>),
        count: GlobalSlice<u32>,
    ) -> Result<()> {
        let published = self.cut("runs", |cutter| cut(cutter, keys.len()))?;
        let stream = self.stream();
        if keys.is_empty() {
            // SAFETY: the caller's obligations.
            unsafe { stream.launch(Grid::new(1, 32), ClearWords { words: count })? };
            return Ok(());
        }
        // SAFETY: the workspace outlives the launch.
        unsafe { published.clear(stream)? };
        let mut launch = Launch {
            key: TypeId::of::<K>(),
            operator: fold.operator::<T>(),
            stream,
            published,
            len: keys.len(),
            keys: keys.as_ptr().cast(),
            values: (values.as_ptr().cast(), values.len()),
            run_keys: (run_keys.as_ptr().cast(), run_keys.len()),
            run_values: run_values.as_ptr().cast(),
            count: count.as_ptr().cast(),
        };
        launched(runs::visit(&mut launch))
    }
}

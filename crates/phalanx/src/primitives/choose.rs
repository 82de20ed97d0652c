//! Selection of elements, histograms, and merges.
use super::scan::Published;
use super::workspace::{Cutter, Workspace, slice};
use super::{Number, any_grid, check_count, check_len};
use crate::Result;
use bytemuck::Pod;
use gpu::{AsSlice, AsSliceMut, Grid, Slice, Stream};
use phalanx_kernels::primitives::compact::{self, Choice, Compact};
use phalanx_kernels::primitives::merge::{self, Merge};
use phalanx_kernels::primitives::reduce::BinWords;
use phalanx_kernels::primitives::words::{ClearWords, GatherWords, Words};
use simt::GlobalSlice;

/// Test that selects elements.
#[derive(Clone, Copy, Debug)]
pub enum Test<'a, T> {
    /// Elements whose flag, the byte at the same index, is not zero. There are as many flags as elements.
    Flagged(Slice<'a, u8>),
    /// Elements equal to the only element of the slice.
    Equal(Slice<'a, T>),
    /// Elements less than the only element of the slice.
    Less(Slice<'a, T>),
    /// The first element of each run of equal adjacent elements.
    BeginsRun,
}

const TILE: usize = compact::THREADS as usize * compact::ITEMS;
const MERGED: usize = merge::THREADS as usize * merge::ITEMS;

/// Returns the bytes of workspace that [`Workspace::compact`], [`Workspace::partition`] and
/// [`Workspace::unique`] need for `len` elements.
///
/// ```
/// use phalanx::primitives::compact_bytes;
/// assert!(compact_bytes(1 << 20) < 1 << 14);
/// ```
pub fn compact_bytes(len: usize) -> usize {
    Cutter::measure(|cutter| cut(cutter, len))
}

fn cut(cutter: &mut Cutter, len: usize) -> Published {
    Published::cut(cutter, len.div_ceil(TILE), 1)
}

/// Returns the bytes of workspace that [`Workspace::merge_pairs`] needs for `len` pairs in total.
/// ([`Workspace::merge_keys`] needs none.)
///
/// ```
/// use phalanx::primitives::merge_bytes;
/// assert!(merge_bytes(1000) >= 4000);
/// ```
pub fn merge_bytes(len: usize) -> usize {
    Cutter::measure(|cutter| cutter.words::<u32>(len))
}

impl<T: Number> Test<'_, T> {
    fn choice(self, work: &Workspace, len: usize) -> Result<Choice<T>> {
        let nothing = || slice(std::ptr::dangling_mut(), 0);
        let (test, operand, flags) = match self {
            Self::Flagged(flags) => {
                check_len("flags", len, flags.len())?;
                work.check_device("flags", flags)?;
                (compact::Test::Flagged, nothing(), flags.global())
            }
            Self::Equal(operand) | Self::Less(operand) => {
                check_len("what elements are compared with", 1, operand.len())?;
                work.check_device("what elements are compared with", operand)?;
                let is_less = matches!(self, Self::Less(_));
                let test = if is_less { compact::Test::Less } else { compact::Test::Equal };
                (test, operand.global(), slice(std::ptr::dangling_mut(), 0))
            }
            Self::BeginsRun => (compact::Test::BeginsRun, nothing(), slice(std::ptr::dangling_mut(), 0)),
        };
        Ok(Choice { test: test as u32, inverted: 0, operand, flags })
    }
}

/// Selection and histograms.
impl Workspace {
    /// Writes the elements that pass the test to the beginning of `to`, in their order, and their number to
    /// `count`. `to` has as many elements as `from`; its remaining elements are unchanged.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Test, Workspace, compact_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, limit) = (device.from_slice(&[5u32, 1, 7, 2])?, device.from_slice(&[5u32])?);
    /// let (mut to, mut count) = (device.zeroed(4)?, device.buffer(1)?);
    /// let mut work = Workspace::on_device(&device, compact_bytes(4))?;
    /// work.compact(&from, Test::Less((&limit).into()), &mut to, &mut count)?;
    /// assert_eq!((to.read()?, count.read()?), (vec![1, 2, 0, 0], vec![2]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read of elements and flags, another read and a write of the selected elements; 2 launches.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the buffers differ in length;
    /// [`Error::Workspace`](crate::Error::Workspace) if the workspace is too small;
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) if a buffer is on another device;
    /// [`Error::TooMany`](crate::Error::TooMany) for more than 2^32 - 1 elements;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn compact<T: Number>(
        &mut self,
        from: impl AsSlice<T>,
        test: Test<'_, T>,
        to: impl AsSliceMut<T>,
        count: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (from, to, count) = (from.view(), to.view(), count.view());
        let choice = self.chosen(from, test, to, count)?;
        self.launch_compact(from, choice, to, None, Some(count))
    }

    /// [`Self::compact`], followed by the elements that fail the test, also in their order.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Test, Workspace, compact_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (from, flags) = (device.from_slice(&[5u64, 1, 7, 2])?, device.from_slice(&[0u8, 1, 0, 9])?);
    /// let (mut to, mut count) = (device.buffer(4)?, device.buffer(1)?);
    /// let mut work = Workspace::on_device(&device, compact_bytes(4))?;
    /// work.partition(&from, Test::Flagged((&flags).into()), &mut to, &mut count)?;
    /// assert_eq!((to.read()?, count.read()?), (vec![1, 2, 5, 7], vec![2]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: twice that of [`Self::compact`].
    ///
    /// # Errors
    /// As [`Self::compact`].
    pub fn partition<T: Number>(
        &mut self,
        from: impl AsSlice<T>,
        test: Test<'_, T>,
        to: impl AsSliceMut<T>,
        count: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (from, to, count) = (from.view(), to.view(), count.view());
        let choice = self.chosen(from, test, to, count)?;
        self.launch_compact(from, choice, to, None, Some(count))?;
        self.launch_compact(from, Choice { inverted: 1, ..choice }, to, Some(count), None)
    }

    /// Writes the first element of each run of equal adjacent elements: of sorted elements, each distinct one
    /// once. See [`Self::compact`] for `to` and `count`.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, compact_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let from = device.from_slice(&[1u32, 1, 3, 3])?;
    /// let (mut to, mut count) = (device.zeroed(4)?, device.buffer(1)?);
    /// Workspace::on_device(&device, compact_bytes(4))?.unique(&from, &mut to, &mut count)?;
    /// assert_eq!((to.read()?, count.read()?), (vec![1, 3, 0, 0], vec![2]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::compact`].
    ///
    /// # Errors
    /// As [`Self::compact`].
    pub fn unique<T: Number>(
        &mut self,
        from: impl AsSlice<T>,
        to: impl AsSliceMut<T>,
        count: impl AsSliceMut<u32>,
    ) -> Result<()> {
        self.compact(from, Test::BeginsRun, to, count)
    }

    fn chosen<T: Number>(
        &self,
        from: Slice<'_, T>,
        test: Test<'_, T>,
        to: Slice<'_, T>,
        count: Slice<'_, u32>,
    ) -> Result<Choice<T>> {
        check_len("chosen elements", from.len(), to.len())?;
        check_len("the number of chosen elements", 1, count.len())?;
        check_count("a compaction", from.len(), u32::MAX as usize)?;
        self.check_device("elements", from)?;
        self.check_device("chosen elements", to)?;
        self.check_device("the number of chosen elements", count)?;
        test.choice(self, from.len())
    }

    fn launch_compact<T: Number>(
        &self,
        from: Slice<'_, T>,
        choice: Choice<T>,
        to: Slice<'_, T>,
        begin: Option<Slice<'_, u32>>,
        count: Option<Slice<'_, u32>>,
    ) -> Result<()> {
        let words = |words: Option<Slice<'_, u32>>| {
            words.map_or_else(|| slice(std::ptr::dangling_mut(), 0), |word| word.global())
        };
        // SAFETY: the buffers outlive the launches (dropping them waits). Lengths were checked.
        unsafe { self.compact_words(from.global(), choice, to.global(), (words(begin), words(count))) }
    }

    /// Launches a compaction: see [`Compact`] for the arguments.
    ///
    /// # Safety
    /// - The slices live until the stream has executed the launches. `to` is as long as `from`.
    pub(crate) unsafe fn compact_words<T: Number>(
        &self,
        from: GlobalSlice<T>,
        choice: Choice<T>,
        to: GlobalSlice<T>,
        (begin, count): (GlobalSlice<u32>, GlobalSlice<u32>),
    ) -> Result<()> {
        let published = self.cut("a compaction", |cutter| cut(cutter, from.len()))?;
        let (status, tickets) = (published.status(), published.tickets());
        let grid = Grid::new(from.len().div_ceil(TILE) as u32, compact::THREADS);
        // SAFETY: the caller's obligations; the workspace outlives the launches.
        unsafe {
            if from.is_empty() {
                return Ok(self.stream().launch(Grid::new(1, 32), ClearWords { words: count })?);
            }
            published.clear(self.stream())?;
            let kernel = Compact::<T::Ordered> { from, choice, to, begin, count, status, tickets };
            Ok(self.stream().launch(grid, kernel)?)
        }
    }

    /// Writes to `bins[v]` the number of elements `e` with `e >> shift == v`. There may be any number of
    /// bins; elements beyond them are not counted.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::Workspace;
    ///
    /// let device = Device::from_environment()?;
    /// let (elements, mut bins) = (device.from_slice(&[0x10u32, 0x1f, 0x01, 0x44])?, device.buffer(3)?);
    /// Workspace::on_device(&device, 0)?.histogram(&elements, 4, &mut bins)?;
    /// assert_eq!(bins.read()?, [1, 2, 0]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read of each element, and an atomic addition, which is in shared memory for up to 2048 bins; 2
    /// launches.
    ///
    /// # Errors
    /// [`Error::Bits`](crate::Error::Bits) if `shift` is not less than the number of bits;
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) if a buffer is on another device;
    /// [`Error::TooMany`](crate::Error::TooMany) for more than 2^32 - 1 elements;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn histogram<T: Number>(
        &mut self,
        from: impl AsSlice<T>,
        shift: u32,
        bins: impl AsSliceMut<u32>,
    ) -> Result<()> {
        let (from, bins) = (from.view(), bins.view());
        let bits = 8 * size_of::<T>() as u32;
        if shift >= bits {
            return Err(crate::Error::Bits { first: shift, end: bits, bits });
        }
        check_count("a histogram", from.len(), u32::MAX as usize)?;
        self.check_device("elements", from)?;
        self.check_device("bins", bins)?;
        let (from, bins) = (from.global(), bins.global());
        // SAFETY: the buffers outlive the launches.
        unsafe {
            self.stream().launch(any_grid(bins.len()), ClearWords { words: bins })?;
            let kernel = BinWords::<T::Ordered> { from, shift, bins };
            Ok(self.stream().launch(any_grid(from.len().div_ceil(16)), kernel)?)
        }
    }
}

/// Merges.
impl Workspace {
    /// Merges two sorted arrays into `to`, which has as many elements as both. Of equal elements, those of
    /// `first` come first. If an array is not sorted, the order of the result is unspecified.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::Workspace;
    ///
    /// let device = Device::from_environment()?;
    /// let (first, second) = (device.from_slice(&[1u32, 4])?, device.from_slice(&[2u32, 3, 5])?);
    /// let mut to = device.buffer(5)?;
    /// Workspace::on_device(&device, 0)?.merge_keys(&first, &second, &mut to)?;
    /// assert_eq!(to.read()?, [1, 2, 3, 4, 5]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a read and a write of each element; 1 launch.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if `to` has the wrong length;
    /// [`Error::Elsewhere`](crate::Error::Elsewhere) if a buffer is on another device;
    /// [`Error::TooMany`](crate::Error::TooMany) for more than 2^32 - 1 elements;
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn merge_keys<K: Number>(
        &mut self,
        first: impl AsSlice<K>,
        second: impl AsSlice<K>,
        to: impl AsSliceMut<K>,
    ) -> Result<()> {
        let (first, second, to) = (first.view(), second.view(), to.view());
        self.merge(first, second, to, slice(std::ptr::dangling_mut(), 0))
    }

    /// [`Self::merge_keys`] with values of any plain type, one per key.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Workspace, merge_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (first, second) = (device.from_slice(&[1u64, 4])?, device.from_slice(&[1u64, 2])?);
    /// let (near, far) = (device.from_slice(&[10u16, 40])?, device.from_slice(&[11u16, 20])?);
    /// let (mut to, mut values) = (device.buffer(4)?, device.buffer(4)?);
    /// let mut work = Workspace::on_device(&device, merge_bytes(4))?;
    /// work.merge_pairs((&first, &near), (&second, &far), (&mut to, &mut values))?;
    /// assert_eq!((to.read()?, values.read()?), (vec![1, 1, 2, 4], vec![10, 11, 20, 40]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::merge_keys`], plus 8 bytes and a read and a write of each value; 2 launches.
    ///
    /// # Errors
    /// As [`Self::merge_keys`], and [`Error::Workspace`](crate::Error::Workspace) if the workspace is too
    /// small.
    pub fn merge_pairs<K: Number, V: Pod>(
        &mut self,
        first: (impl AsSlice<K>, impl AsSlice<V>),
        second: (impl AsSlice<K>, impl AsSlice<V>),
        to: (impl AsSliceMut<K>, impl AsSliceMut<V>),
    ) -> Result<()> {
        let (first, second, to) = (
            (first.0.view(), first.1.view()),
            (second.0.view(), second.1.view()),
            (to.0.view(), to.1.view()),
        );
        check_len("first values", first.0.len(), first.1.len())?;
        check_len("second values", second.0.len(), second.1.len())?;
        check_len("merged values", to.0.len(), to.1.len())?;
        self.check_device("first values", first.1)?;
        self.check_device("second values", second.1)?;
        self.check_device("merged values", to.1)?;
        let order = self.cut("a merge", |cutter| cutter.words::<u32>(to.0.len()))?;
        self.merge(first.0, second.0, to.0, order)?;
        let place = |values: Slice<'_, V>| (values.pointer().cast(), values.len());
        let target = to.1.pointer().cast();
        // SAFETY: buffers and workspace outlive the launch. The merge wrote an order of as many elements.
        unsafe { gather(self.stream(), place(first.1), place(second.1), order, size_of::<V>(), target) }
    }

    fn merge<K: Number>(
        &self,
        first: Slice<'_, K>,
        second: Slice<'_, K>,
        to: Slice<'_, K>,
        order: GlobalSlice<u32>,
    ) -> Result<()> {
        check_len("merged keys", first.len() + second.len(), to.len())?;
        check_count("a merge", to.len(), u32::MAX as usize)?;
        self.check_device("first keys", first)?;
        self.check_device("second keys", second)?;
        self.check_device("merged keys", to)?;
        let grid = Grid::new(to.len().div_ceil(MERGED) as u32, merge::THREADS);
        let (first, second, to) = (first.global(), second.global(), to.global());
        // SAFETY: buffers and workspace outlive the launch.
        unsafe { Ok(self.stream().launch(grid, Merge::<K::Ordered> { first, second, to, order })?) }
    }
}

/// Gathers elements of `bytes` bytes from `from` followed by `more`, each of which is a pointer and a number
/// of elements.
///
/// # Safety
/// - All memory lives until the stream has executed the launch, and `order` has only indices of existing
///   elements.
pub(super) unsafe fn gather(
    stream: &Stream,
    from: (*mut u8, usize),
    more: (*mut u8, usize),
    order: GlobalSlice<u32>,
    bytes: usize,
    to: *mut u8,
) -> Result<()> {
    // The widest word that divides a value.
    let word = [16, 8, 4, 1].into_iter().find(|word| bytes.is_multiple_of(*word)).unwrap_or(1);
    let words = bytes / word;
    let grid = any_grid(order.len() * words);
    // SAFETY: the caller's obligations. Arrays are aligned to the word: they begin at an
    // element of a buffer, whose size is a multiple of it.
    unsafe {
        match word {
            16 => stream.launch(grid, gatherer::<u128>(from, more, order, words, to))?,
            8 => stream.launch(grid, gatherer::<u64>(from, more, order, words, to))?,
            4 => stream.launch(grid, gatherer::<u32>(from, more, order, words, to))?,
            _ => stream.launch(grid, gatherer::<u8>(from, more, order, words, to))?,
        }
    }
    Ok(())
}

fn gatherer<T: simt::Word>(
    from: (*mut u8, usize),
    more: (*mut u8, usize),
    order: GlobalSlice<u32>,
    words: usize,
    to: *mut u8,
) -> GatherWords<Words<T>>
where
    Words<T>: simt::Instance,
{
    let place = |(pointer, len): (*mut u8, usize)| slice(pointer, len * words);
    let to = slice(to, order.len() * words);
    GatherWords { from: place(from), more: place(more), order, words: words as u32, to }
}

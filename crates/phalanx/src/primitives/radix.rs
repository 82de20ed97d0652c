//! Parts of sorts: pieces of the workspace, and passes over digits.
use super::workspace::{Cutter, slice};
use super::{Number, PlanId, any_grid, launched, plans};
use crate::Result;
use gpu::{Grid, Stream};
use phalanx_kernels::primitives::instances::passes;
use phalanx_kernels::primitives::sort::{
    DIGIT_BITS, DIGITS, Moved, Pass, PassParts, Plan, RadixHistograms, RadixPass, tile,
};
use phalanx_kernels::primitives::words::{ClearWords, CopyWords, Words};
use simt::{GlobalSlice, Instance, Word};
use std::any::TypeId;

/// Data that moves with a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carried {
    /// The value itself, of this number of bytes, which may be 0.
    Value(usize),
    /// The element's index. Values of this number of bytes are gathered by it at the end.
    Number(usize),
}

impl Carried {
    pub fn of<V>() -> Self {
        match size_of::<V>() {
            bytes @ (0 | 4 | 8 | 16) => Self::Value(bytes),
            bytes => Self::Number(bytes),
        }
    }

    /// Returns the bytes that passes move besides a key.
    pub fn moved(self) -> usize {
        match self {
            Self::Value(bytes) => bytes,
            Self::Number(_) => size_of::<u32>(),
        }
    }

    /// Returns the bytes of a value that is gathered afterwards; 0 for one that moves with its key.
    pub fn gathered(self) -> usize {
        match self {
            Self::Value(_) => 0,
            Self::Number(bytes) => bytes,
        }
    }

    /// Returns the types of the plans that move such data with keys of type `K`.
    pub fn types<K: Number>(self) -> TypeId {
        match self.moved() {
            0 => TypeId::of::<(K, ())>(),
            4 => TypeId::of::<(K, u32)>(),
            8 => TypeId::of::<(K, u64)>(),
            _ => TypeId::of::<(K, u128)>(),
        }
    }
}

/// Workspace of a sort.
#[derive(Clone, Copy)]
pub struct Pieces {
    counts: *mut u8,
    tickets: *mut u8,
    /// Number of words of `counts` and `tickets`.
    counters: usize,
    status: [GlobalSlice<u32>; 2],
    /// Second buffers for keys and values.
    pub keys: *mut u8,
    pub values: *mut u8,
    /// Indices of elements, and a copy of their values, for values that do not move with their keys.
    pub numbers: *mut u8,
    pub old_values: *mut u8,
}

impl Pieces {
    pub fn cut<K: Number>(cutter: &mut Cutter, len: usize, tile: usize, carried: Carried) -> Self {
        let gathered = carried.gathered();
        let counted = Self::without_buffers::<K>(cutter, len, tile);
        Self {
            keys: cutter.take_bytes(len.saturating_mul(size_of::<K>())),
            values: cutter.take_bytes(len.saturating_mul(carried.moved())),
            numbers: cutter.take_bytes(if gathered > 0 { len.saturating_mul(4) } else { 0 }),
            old_values: cutter.take_bytes(len.saturating_mul(gathered)),
            ..counted
        }
    }

    /// Cuts the pieces of a sort whose caller has the second buffers.
    pub fn without_buffers<K: Number>(cutter: &mut Cutter, len: usize, tile: usize) -> Self {
        let digits = 8 * size_of::<K>() / DIGIT_BITS as usize;
        let counters = digits * DIGITS as usize + digits;
        let words = len.div_ceil(tile).saturating_mul(DIGITS as usize);
        let counts = cutter.take_bytes(4 * counters);
        let nowhere = std::ptr::dangling_mut();
        Self {
            counts,
            tickets: counts.wrapping_add(4 * digits * DIGITS as usize),
            counters,
            status: [cutter.words(words), cutter.words(words)],
            keys: nowhere,
            values: nowhere,
            numbers: nowhere,
            old_values: nowhere,
        }
    }
}

plans!(pub passes: Plan, |P| tile::<P>());

/// An array that passes move between buffers.
#[derive(Clone, Copy)]
pub struct Lane {
    pub from: *mut u8,
    pub to: *mut u8,
    pub spare: *mut u8,
    /// Bytes per element.
    pub bytes: usize,
}

impl Lane {
    /// Returns where pass `number` of `count` reads and writes. The last pass writes to `to`.
    fn ends(self, number: u32, count: u32) -> (*mut u8, *mut u8) {
        let at = |after: u32| if (count - after).is_multiple_of(2) { self.to } else { self.spare };
        (if number == 0 { self.from } else { at(number) }, at(number + 1))
    }

    /// Ensures that no pass reads where it writes, and copies the elements to `to` if there are no passes.
    ///
    /// # Safety
    /// - As for [`copy`].
    unsafe fn begin(&mut self, stream: &Stream, len: usize, count: u32) -> Result<()> {
        if count == 0 {
            if self.from != self.to {
                // SAFETY: the caller's obligations.
                unsafe { copy(stream, self.from, self.to, len * self.bytes)? };
            }
            return Ok(());
        }
        let (from, to) = self.ends(0, count);
        if from == to {
            // SAFETY: the caller's obligations.
            unsafe { copy(stream, self.from, self.spare, len * self.bytes)? };
            self.from = self.spare;
        }
        Ok(())
    }
}

/// Copies bytes on the device.
///
/// # Safety
/// - Both pointers have `bytes` bytes that do not overlap and live until the stream has executed the copy.
pub unsafe fn copy(stream: &Stream, from: *mut u8, to: *mut u8, bytes: usize) -> Result<()> {
    let aligned = (from.addr() | to.addr()).is_multiple_of(16);
    let whole = if aligned { bytes / 16 * 16 } else { 0 };
    let (rest_from, rest_to) = (from.wrapping_add(whole), to.wrapping_add(whole));
    // SAFETY: the caller's obligations. Words of 16 bytes are used where both arrays are aligned to them.
    unsafe {
        copy_words::<u128>(stream, from, to, whole)?;
        match (bytes | rest_from.addr() | rest_to.addr()).is_multiple_of(4) {
            true => copy_words::<u32>(stream, rest_from, rest_to, bytes - whole),
            false => copy_words::<u8>(stream, rest_from, rest_to, bytes - whole),
        }
    }
}

/// Copies the words of an array of `bytes` bytes on the device.
///
/// # Safety
/// - As for [`copy`], and both pointers are aligned for words.
unsafe fn copy_words<T: Word>(stream: &Stream, from: *mut u8, to: *mut u8, bytes: usize) -> Result<()>
where
    Words<T>: Instance,
{
    let words = bytes / size_of::<T>();
    if words > 0 {
        let kernel = CopyWords::<Words<T>> { from: slice(from, words), to: slice(to, words) };
        // SAFETY: the caller's obligations.
        unsafe { stream.launch(any_grid(words), kernel)? };
    }
    Ok(())
}

/// A sort to launch.
pub struct Sort<'a> {
    pub plan: PlanId,
    pub stream: &'a Stream,
    pub pieces: Pieces,
    pub keys: Lane,
    /// Data that moves with the keys; of 0 bytes if there is none.
    pub values: Lane,
    pub len: usize,
    /// Number of elements to sort, at most `len`, in one word, if only the device knows it; otherwise empty.
    pub limit: GlobalSlice<u32>,
    /// Range of the bits that the sort compares.
    pub first: u32,
    pub end: u32,
}

impl Sort<'_> {
    /// Submits the histograms and all passes.
    ///
    /// # Safety
    /// - Lanes and pieces have at least `len` elements, and live until the stream has executed the sort.
    ///   Spare buffers are neither keys nor values.
    pub unsafe fn launch<K: Number>(mut self) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { self.prepare::<K>()? };
        launched(passes::visit(&mut self))
    }

    /// Clears the counters of the passes, and computes the histograms.
    ///
    /// # Safety
    /// - As for [`Self::launch`].
    unsafe fn prepare<K: Number>(&self) -> Result<()> {
        let counters = slice(self.pieces.counts, self.pieces.counters);
        let counts =
            slice(self.pieces.counts, self.pieces.counters / (DIGITS as usize + 1) * DIGITS as usize);
        let kernel = RadixHistograms::<K::Keys> {
            keys: slice(self.keys.from, self.len),
            limit: self.limit,
            first: self.first,
            end: self.end,
            counts,
            status: self.pieces.status[0],
        };
        // SAFETY: the caller's obligations.
        unsafe {
            self.stream.launch(any_grid(self.pieces.counters), ClearWords { words: counters })?;
            Ok(self.stream.launch(any_grid(self.len.div_ceil(16)), kernel)?)
        }
    }
}

impl passes::Visitor for Sort<'_> {
    type Output = Result<()>;

    fn visit<P: Plan + Instance>(&mut self) -> Option<Result<()>> {
        self.plan.is::<P>().then(|| self.launch_passes::<P>())
    }
}

impl Sort<'_> {
    fn launch_passes<P: Plan + Instance>(&mut self) -> Result<()> {
        let count = (self.end - self.first).div_ceil(DIGIT_BITS);
        // SAFETY: the pointers are those of buffers and of the workspace, which outlive the launches.
        unsafe {
            self.keys.begin(self.stream, self.len, count)?;
            self.values.begin(self.stream, self.len, count)?;
        }
        for number in 0..count {
            let kernel = RadixPass::<P> { pass: self.pass::<P>(number, count) };
            let blocks = self.len.div_ceil(tile::<P>()) as u32;
            // SAFETY: as above. `begin` ensured that a pass does not write what it reads, and lengths were
            // checked.
            unsafe { self.stream.launch(Grid::new(blocks, P::THREADS), kernel)? };
        }
        Ok(())
    }

    fn pass<P: Plan>(&self, number: u32, count: u32) -> Pass<P::Key, Moved<P>> {
        let (from, to) = self.keys.ends(number, count);
        let (values, values_to) = self.values.ends(number, count);
        let valued = if self.values.bytes > 0 { self.len } else { 0 };
        let shift = self.first + number * DIGIT_BITS;
        let left = self.end - shift;
        let digits = DIGITS as usize;
        let counts = self.pieces.counts.wrapping_add(4 * number as usize * digits);
        let tickets = self.pieces.tickets.wrapping_add(4 * number as usize);
        let [status, next_status] = match number % 2 {
            0 => self.pieces.status,
            _ => [self.pieces.status[1], self.pieces.status[0]],
        };
        let parts = PassParts {
            from: slice(from, self.len),
            limit: self.limit,
            to: slice(to, self.len),
            values: slice(values, valued),
            values_to: slice(values_to, valued),
            counts: slice(counts, digits),
            tickets: slice(tickets, 1),
            status,
            next_status,
            shift,
            mask: if left < DIGIT_BITS { (1 << left) - 1 } else { DIGITS - 1 },
        };
        // SAFETY: the histograms' kernel has counted the digits of these keys and cleared the first pass's
        // words, each pass clears the next one's, and all slices but the status are of `len` elements.
        unsafe { Pass::new(parts) }
    }
}

/// Permutes values of `bytes` bytes into an order. If they are permuted in place, they are first copied to
/// `old`.
///
/// # Safety
/// - As for [`copy`].
pub unsafe fn gather(
    stream: &Stream,
    order: GlobalSlice<u32>,
    (from, to): (*mut u8, *mut u8),
    bytes: usize,
    old: *mut u8,
) -> Result<()> {
    let (mut source, len) = (from, order.len());
    // SAFETY: the caller's obligations.
    unsafe {
        if from == to {
            copy(stream, from, old, len * bytes)?;
            source = old;
        }
        super::choose::gather(stream, (source, len), (source, 0), order, bytes, to)
    }
}

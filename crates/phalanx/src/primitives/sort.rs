//! Radix sorts.
use super::workspace::{Cutter, Workspace, slice};
use super::{Number, any_grid, check_count, check_len, instance, tiles};
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Buffer, Grid, Stream};
use phalanx_kernels::primitives::instances::passes;
use phalanx_kernels::primitives::sort::{
    DIGIT_BITS, DIGITS, MOST, Moved, Pass, Plan, RadixHistograms, RadixPass, Visitor, tile,
};
use phalanx_kernels::primitives::words::{ClearWords, CopyWords, CountUp, Words};
use simt::{GlobalSlice, Instance};

/// Which bits of keys a sort looks at. Keys that agree in these keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    first: u32,
    end: u32,
}

impl Bits {
    /// All.
    pub const ALL: Self = Self { first: 0, end: u32::MAX };

    /// Those from `first` up to `end`, which is not one of them; bit 0 is the lowest.
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

/// Bytes of workspace that a sort of `len` keys with values needs, in place or not, by any of its bits, with tiles of the usual size. `()` is the value
/// of keys alone.
///
/// ```
/// use phalanx::primitives::sort_bytes;
/// assert!(sort_bytes::<u64, ()>(1 << 20) < 2 * sort_bytes::<u32, u32>(1 << 20));
/// ```
pub fn sort_bytes<K: Number, V: Pod>(len: usize) -> usize {
    let moved = Carried::of::<V>();
    let measure = |name: &'static str| {
        let size = passes::visit(name, TileSize).unwrap_or(1);
        Cutter::measure(|cutter| Pieces::cut::<K>(cutter, len, size, moved))
    };
    instance(&moved.family::<K>(), None, passes::NAMES).map_or(0, measure)
}

/// The tiles that there are for sorts of these keys and values, the usual one first: see [`Workspace::set_tile`].
///
/// ```
/// use phalanx::primitives::sort_tiles;
/// assert_eq!(sort_tiles::<u32, u32>()[0], "384x19");
/// ```
pub fn sort_tiles<K: Number, V: Pod>() -> Vec<&'static str> {
    tiles(&Carried::of::<V>().family::<K>(), passes::NAMES)
}

/// What goes with a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Carried {
    /// Nothing, or the value itself: its bytes.
    Value(usize),
    /// The element's number, by which values of so many bytes are gathered in the end.
    Number(usize),
}

impl Carried {
    fn of<V>() -> Self {
        match size_of::<V>() {
            bytes @ (0 | 4 | 8 | 16) => Self::Value(bytes),
            bytes => Self::Number(bytes),
        }
    }

    /// Bytes that passes move beside a key.
    fn moved(self) -> usize {
        match self {
            Self::Value(bytes) => bytes,
            Self::Number(_) => size_of::<u32>(),
        }
    }

    /// Bytes of a value that is gathered afterwards; 0 for one that moves with its key.
    fn gathered(self) -> usize {
        match self {
            Self::Value(_) => 0,
            Self::Number(bytes) => bytes,
        }
    }

    fn family<K: Number>(self) -> String {
        format!("{}_{}", K::NAME, self.moved())
    }
}

/// The workspace of a sort.
#[derive(Clone, Copy)]
struct Pieces {
    counts: *mut u8,
    tickets: *mut u8,
    /// Words of both.
    counters: usize,
    status: [GlobalSlice<u32>; 2],
    keys: *mut u8,
    values: *mut u8,
    /// Numbers of elements, and their values where they lay, for values that do not go with their keys.
    numbers: *mut u8,
    old_values: *mut u8,
}

impl Pieces {
    fn cut<K: Number>(cutter: &mut Cutter, len: usize, tile: usize, carried: Carried) -> Self {
        let digits = 8 * size_of::<K>() / DIGIT_BITS as usize;
        let counters = digits * DIGITS as usize + digits;
        let words = len.div_ceil(tile).saturating_mul(DIGITS as usize);
        let counts = cutter.bytes(4 * counters);
        let gathered = carried.gathered();
        Self {
            counts,
            tickets: counts.wrapping_add(4 * digits * DIGITS as usize),
            counters,
            status: [cutter.words(words), cutter.words(words)],
            keys: cutter.bytes(len.saturating_mul(size_of::<K>())),
            values: cutter.bytes(len.saturating_mul(carried.moved())),
            numbers: cutter.bytes(if gathered > 0 { len.saturating_mul(4) } else { 0 }),
            old_values: cutter.bytes(len.saturating_mul(gathered)),
        }
    }
}

/// Elements of a plan's tile.
struct TileSize;

impl Visitor for TileSize {
    type Output = usize;

    fn visit<P: Plan + Instance>(self) -> usize {
        tile::<P>()
    }
}

/// An array that passes move from one place to another.
#[derive(Clone, Copy)]
struct Lane {
    from: *mut u8,
    to: *mut u8,
    spare: *mut u8,
    /// Bytes of an element.
    bytes: usize,
}

impl Lane {
    /// Where pass `number` of `count` reads and writes: the last one writes to `to`.
    fn ends(self, number: u32, count: u32) -> (*mut u8, *mut u8) {
        let at = |after: u32| if (count - after).is_multiple_of(2) { self.to } else { self.spare };
        (if number == 0 { self.from } else { at(number) }, at(number + 1))
    }

    /// Sees to it that no pass reads where it writes, and that the elements get to `to` if there is no pass.
    ///
    /// # Safety
    /// - As [`copy`].
    unsafe fn begin(&mut self, stream: &Stream, len: usize, count: u32) -> Result<()> {
        if count == 0 {
            if self.from != self.to {
                // SAFETY: the caller's.
                unsafe { copy(stream, self.from, self.to, len * self.bytes)? };
            }
            return Ok(());
        }
        let (from, to) = self.ends(0, count);
        if from == to {
            // SAFETY: the caller's.
            unsafe { copy(stream, self.from, self.spare, len * self.bytes)? };
            self.from = self.spare;
        }
        Ok(())
    }
}

/// Copies on the device.
///
/// # Safety
/// - Both places have as many bytes, do not overlap, and live until the stream has done it.
unsafe fn copy(stream: &Stream, from: *mut u8, to: *mut u8, bytes: usize) -> Result<()> {
    let words = bytes / 16;
    let rest = bytes % 16;
    // SAFETY: the caller's; buffers and pieces of workspaces are aligned to 256 bytes.
    unsafe {
        let kernel = CopyWords::<Words<u128>> { from: slice(from, words), to: slice(to, words) };
        stream.launch(any_grid(words), kernel)?;
        if rest > 0 {
            let (from, to) = (from.wrapping_add(16 * words), to.wrapping_add(16 * words));
            stream.launch(
                Grid::new(1, 32),
                CopyWords::<Words<u8>> { from: slice(from, rest), to: slice(to, rest) },
            )?;
        }
    }
    Ok(())
}

/// All passes of a sort.
struct Passes<'a> {
    stream: &'a Stream,
    pieces: Pieces,
    keys: Lane,
    values: Lane,
    len: usize,
    first: u32,
    end: u32,
}

impl Visitor for Passes<'_> {
    type Output = Result<()>;

    fn visit<P: Plan + Instance>(mut self) -> Result<()> {
        let count = (self.end - self.first).div_ceil(DIGIT_BITS);
        // SAFETY: the places are those of buffers and of the workspace, which outlive the launches.
        unsafe {
            self.keys.begin(self.stream, self.len, count)?;
            self.values.begin(self.stream, self.len, count)?;
        }
        for number in 0..count {
            let kernel = RadixPass::<P> { pass: self.pass::<P>(number, count) };
            let blocks = self.len.div_ceil(tile::<P>()) as u32;
            // SAFETY: as above; `begin` saw to it that a pass does not write what it reads, and lengths were checked.
            unsafe { self.stream.launch(Grid::new(blocks, P::THREADS), kernel)? };
        }
        Ok(())
    }
}

impl Passes<'_> {
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
        Pass {
            from: slice(from, self.len),
            to: slice(to, self.len),
            values: slice(values, valued),
            values_to: slice(values_to, valued),
            counts: slice(counts, digits),
            tickets: slice(tickets, 1),
            status,
            next_status,
            shift,
            mask: if left < DIGIT_BITS { (1 << left) - 1 } else { DIGITS - 1 },
        }
    }
}

/// Sorts.
impl Workspace {
    /// Sorts keys into another buffer.
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
    /// # Errors
    /// [`Error::Length`], [`Error::Bits`], [`Error::TooMany`] beyond 2^30 - 1 elements, [`Error::Workspace`], [`Error::Elsewhere`],
    /// [`Error::UnknownTile`]; the device's.
    pub fn sort_keys<K: Number>(
        &mut self,
        keys: &Buffer<K>,
        sorted: &mut Buffer<K>,
        bits: Bits,
    ) -> Result<()> {
        check_len("sorted keys", keys.len(), sorted.len())?;
        self.check_device("keys", keys)?;
        self.check_device("sorted keys", sorted)?;
        self.sort::<K, ()>(keys.len(), (keys.pointer(), sorted.pointer()), nowhere(), bits)
    }

    /// Sorts keys where they are.
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
    /// # Errors
    /// Those of [`Self::sort_keys`].
    pub fn sort_keys_in_place<K: Number>(&mut self, keys: &mut Buffer<K>, bits: Bits) -> Result<()> {
        self.check_device("keys", keys)?;
        self.sort::<K, ()>(keys.len(), (keys.pointer(), keys.pointer()), nowhere(), bits)
    }

    /// Sorts pairs by their keys into other buffers; pairs of equal keys keep their order. Values are of any plain type; those of 4, 8
    /// and 16 bytes go with their keys, others are gathered afterwards.
    ///
    /// ```
    /// use phalanx::Device;
    /// use phalanx::primitives::{Bits, Workspace, sort_bytes};
    ///
    /// let device = Device::from_environment()?;
    /// let (keys, values) = (device.from_slice(&[2u32, 1, 2])?, device.from_slice(&[[7u8; 3], [8; 3], [9; 3]])?);
    /// let (mut sorted, mut moved) = (device.buffer(3)?, device.buffer(3)?);
    /// let mut work = Workspace::on_device(&device, sort_bytes::<u32, [u8; 3]>(3))?;
    /// work.sort_pairs((&keys, &values), (&mut sorted, &mut moved), Bits::ALL)?;
    /// assert_eq!(sorted.read()?, [1, 2, 2]);
    /// assert_eq!(moved.read()?, [[8; 3], [7; 3], [9; 3]]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::sort_keys`].
    pub fn sort_pairs<K: Number, V: Pod>(
        &mut self,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        (sorted, moved): (&mut Buffer<K>, &mut Buffer<V>),
        bits: Bits,
    ) -> Result<()> {
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

    /// [`Self::sort_pairs`] where they are.
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
    /// # Errors
    /// Those of [`Self::sort_keys`].
    pub fn sort_pairs_in_place<K: Number, V: Pod>(
        &mut self,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        bits: Bits,
    ) -> Result<()> {
        check_len("values", keys.len(), values.len())?;
        self.check_device("keys", keys)?;
        self.check_device("values", values)?;
        let (keys_at, values_at) = (keys.pointer(), values.pointer());
        self.sort::<K, V>(keys.len(), (keys_at, keys_at), (values_at, values_at), bits)
    }

    /// Keys and values, each from where to where.
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
        let name = instance(&carried.family::<K>(), self.tile(), passes::NAMES)?;
        let size = passes::visit(name, TileSize).unwrap_or(1);
        let pieces = self.cut("a sort", |cutter| Pieces::cut::<K>(cutter, len, size, carried))?;
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
        // SAFETY: buffers and workspace outlive the launches (dropping them waits); all lengths were checked.
        unsafe {
            prepare::<K>(stream, &pieces, slice(keys.from, len), (first, end))?;
            if let Carried::Number(_) = carried {
                stream.launch(any_grid(len), CountUp { words: slice(pieces.numbers, len) })?;
            }
        }
        let passes = Passes { stream, pieces, keys, values: moved, len, first, end };
        passes::visit(name, passes).unwrap_or(Ok(()))?;
        match carried {
            // SAFETY: as above.
            Carried::Number(bytes) => unsafe {
                gather(stream, &pieces, (values.0.cast(), values.1.cast()), bytes, len)
            },
            Carried::Value(_) => Ok(()),
        }
    }
}

/// No values.
fn nowhere() -> (*mut (), *mut ()) {
    (std::ptr::dangling_mut(), std::ptr::dangling_mut())
}

/// Clears what passes count in, and makes the histograms.
///
/// # Safety
/// - The keys and the workspace live until the stream has done it.
unsafe fn prepare<K: Number>(
    stream: &Stream,
    pieces: &Pieces,
    keys: GlobalSlice<K>,
    (first, end): (u32, u32),
) -> Result<()> {
    let counters = slice(pieces.counts, pieces.counters);
    let (counts, status) =
        (slice(pieces.counts, pieces.counters / (DIGITS as usize + 1) * DIGITS as usize), pieces.status[0]);
    let grid = any_grid(keys.len().div_ceil(16));
    // SAFETY: the caller's.
    unsafe {
        stream.launch(any_grid(pieces.counters), ClearWords { words: counters })?;
        stream.launch(grid, RadixHistograms::<K::Keys> { keys, first, end, counts, status })?;
    }
    Ok(())
}

/// Brings values of `bytes` bytes into the order of the sorted numbers.
///
/// # Safety
/// - As for [`copy`]; values may be gathered to where they are.
unsafe fn gather(
    stream: &Stream,
    pieces: &Pieces,
    (from, to): (*mut u8, *mut u8),
    bytes: usize,
    len: usize,
) -> Result<()> {
    let mut source = from;
    let order = slice(pieces.numbers, len);
    // SAFETY: the caller's.
    unsafe {
        if from == to {
            copy(stream, from, pieces.old_values, len * bytes)?;
            source = pieces.old_values;
        }
        super::choose::gather(stream, (source, len), (source, 0), order, bytes, to)
    }
}

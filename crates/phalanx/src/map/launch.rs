//! Launches. A batch or a scan is a value that any variant of a structure can run.
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::kernels::{
    ContainsKey, Export, Get, GetOrInsert, Insert, InsertNew, Mixed, Rehash, Remove, Replace, RetainBetween,
    SketchAbsent, Take, Upsert, spread,
};
use phalanx_kernels::keyed::{Kind, OpCode};
use simt::{BoundedSlice, GlobalSlice, Instance};

/// Threads per block. In measurements 128 is slightly faster than 256.
pub const THREADS: u32 = 128;

/// Operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchOp {
    /// Runs [`Insert`].
    Insert,
    /// Runs [`InsertNew`].
    InsertNew,
    /// Runs [`Get`].
    Get,
    /// Runs [`ContainsKey`].
    ContainsKey,
    /// Runs [`Remove`].
    Remove,
    /// Runs [`Take`].
    Take,
    /// Runs [`Replace`].
    Replace,
    /// Runs [`Upsert`] with a merging operation.
    Upsert(OpCode),
    /// Runs [`GetOrInsert`].
    GetOrInsert,
    /// Runs for each key the operation of its code.
    Mixed,
}

impl BatchOp {
    /// Returns the operation of each key, or an arbitrary one if each key has its own. Under a latch
    /// [`OpCode::INSERT`] returns the old value, as [`Replace`] does; no code returns the value of a removed
    /// key, as [`Take`] does.
    pub fn coded(self) -> OpCode {
        match self {
            Self::Insert | Self::Replace => OpCode::INSERT,
            Self::InsertNew => OpCode::INSERT_NEW,
            Self::Get | Self::ContainsKey | Self::Mixed => OpCode::GET,
            Self::Remove | Self::Take => OpCode::REMOVE,
            Self::Upsert(operation) => operation,
            Self::GetOrInsert => OpCode::GET_OR_INSERT,
        }
    }

    /// Returns whether a batch may add pairs.
    pub fn places(self) -> bool {
        match self {
            Self::Insert | Self::InsertNew | Self::Replace | Self::Mixed => true,
            Self::Upsert(_) | Self::GetOrInsert => true,
            Self::Get | Self::ContainsKey | Self::Remove | Self::Take => false,
        }
    }

    /// Returns whether a batch may change the structure.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::ContainsKey)
    }

    /// Returns whether the batch adds each of its keys that is absent.
    pub fn places_all(self) -> bool {
        self.places() && !matches!(self, Self::Mixed)
    }
}

/// A batch: its operation, and the device memory that it reads and writes. Unused slices are empty.
#[derive(Clone, Copy, Debug)]
pub struct Batch<K, V> {
    /// The operation.
    pub op: BatchOp,
    /// Operation codes of the keys, for [`BatchOp::Mixed`].
    pub codes: GlobalSlice<u8>,
    /// Keys: one per element of the batch. A count on the device may bound them, and so the batch.
    pub keys: BoundedSlice<K>,
    /// Values to insert or merge.
    pub arguments: GlobalSlice<V>,
    /// Output: the values found, if requested.
    pub results: GlobalSlice<V>,
    /// Output: the outcomes, if requested.
    pub outcomes: GlobalSlice<u8>,
}

impl<K: simt::Word, V: simt::Word> Batch<K, V> {
    /// Creates a batch without results.
    pub fn new(op: BatchOp, keys: impl Into<BoundedSlice<K>>) -> Self {
        let keys = keys.into();
        let (codes, arguments, results) = (nothing(), nothing(), nothing());
        Self { op, codes, keys, arguments, results, outcomes: nothing() }
    }

    /// Returns the elements from `first` on, at most `len`.
    pub fn part(self, first: usize, len: usize) -> Self {
        Self {
            op: self.op,
            codes: self.codes.part(first, len),
            keys: self.keys.part(first, len),
            arguments: self.arguments.part(first, len),
            results: self.results.part(first, len),
            outcomes: self.outcomes.part(first, len),
        }
    }
}

/// An exclusive operation on the whole structure.
#[derive(Clone, Copy, Debug)]
pub enum Scan<K, V> {
    /// Writes the pairs of a part, and their number.
    Export {
        /// First of the scan's threads for the part.
        first: usize,
        /// Number of threads for the part.
        threads: usize,
        /// Output: the keys.
        keys: GlobalSlice<K>,
        /// Output: the values.
        values: GlobalSlice<V>,
        /// Output: the number of pairs, one word, zero before the scan.
        count: GlobalSlice<u64>,
    },
    /// Removes the pairs outside a range.
    RetainBetween {
        /// Whether the range is one of values rather than keys.
        by_value: bool,
        /// Lower end.
        low: u64,
        /// Upper end, included.
        high: u64,
    },
}

/// Returns an empty slice, for results that are not requested.
pub fn nothing<T: simt::Word>() -> GlobalSlice<T> {
    // SAFETY: no word of an empty slice is ever accessed.
    unsafe { GlobalSlice::from_raw_parts(std::ptr::dangling_mut(), 0) }
}

/// Returns the grid for a batch of `len` elements. While all tiles fit on the device at once, each tile gets
/// only one element. The batch then waits for one element rather than for a tile's width of them, one after
/// the other (see `keyed::kernels`).
pub fn grid<M: Kind>(stream: &Stream, len: usize) -> Grid {
    let resident = stream.device().resident_threads() as usize;
    let mut spread = spread(M::TILE);
    while spread > 1 && len.saturating_mul(spread) > resident {
        spread /= 2;
    }
    Grid::for_items(len * spread, THREADS)
}

/// Launches a batch on a structure of variant `M`.
///
/// # Safety
/// - The view's memory and the slices live until the kernel has ended.
/// - No scan and no change of the whole structure runs meanwhile.
pub unsafe fn batch<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    batch: Batch<M::Key, M::Value>,
) -> gpu::Result<()> {
    let Batch { op, codes, keys, arguments, results, outcomes } = batch;
    let grid = grid::<M>(stream, keys.max_len());
    // SAFETY: the caller's obligations. The grid has at least one thread per element.
    unsafe {
        match op {
            BatchOp::Insert => stream.launch(grid, Insert::<M> { map, keys, values: arguments, outcomes }),
            BatchOp::InsertNew => {
                stream.launch(grid, InsertNew::<M> { map, keys, values: arguments, outcomes })
            }
            BatchOp::Get | BatchOp::ContainsKey => look_up::<M>(stream, map, batch),
            BatchOp::Remove => stream.launch(grid, Remove::<M> { map, keys, values: results, outcomes }),
            BatchOp::Take => stream.launch(grid, Take::<M> { map, keys, values: results, outcomes }),
            BatchOp::Replace => {
                stream.launch(grid, Replace::<M> { map, keys, values: arguments, results, outcomes })
            }
            BatchOp::Upsert(operation) => {
                let code = operation.code();
                stream.launch(grid, Upsert::<M> { map, code, keys, values: arguments, outcomes })
            }
            BatchOp::GetOrInsert => {
                stream.launch(grid, GetOrInsert::<M> { map, keys, values: arguments, results, outcomes })
            }
            BatchOp::Mixed => {
                stream.launch(grid, Mixed::<M> { map, codes, keys, arguments, results, outcomes })
            }
        }
    }
}

/// Launches a read-only batch: [`ContainsKey`] for [`BatchOp::ContainsKey`], otherwise [`Get`], whatever the
/// operation is.
///
/// # Safety
/// - As for [`batch`].
pub unsafe fn look_up<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    batch: Batch<M::Key, M::Value>,
) -> gpu::Result<()> {
    let Batch { op, keys, results: values, outcomes, .. } = batch;
    let grid = grid::<M>(stream, keys.max_len());
    // SAFETY: the caller's obligations. The grid has at least one thread per element.
    unsafe {
        match op {
            BatchOp::ContainsKey => stream.launch(grid, ContainsKey::<M> { map, keys, values, outcomes }),
            _ => stream.launch(grid, Get::<M> { map, keys, values, outcomes }),
        }
    }
}

/// Launches a sketch of the keys that are absent: [`SketchAbsent`].
///
/// # Safety
/// - As for [`batch`]. `registers` has [`SKETCH_REGISTERS`](phalanx_kernels::keyed::SKETCH_REGISTERS) words.
pub unsafe fn sketch<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    keys: BoundedSlice<M::Key>,
    registers: GlobalSlice<u32>,
) -> gpu::Result<()> {
    let grid = grid::<M>(stream, keys.max_len());
    // SAFETY: the caller's obligations. The grid has at least one thread per element.
    unsafe { stream.launch(grid, SketchAbsent::<M> { map, keys, registers }) }
}

/// Launches a scan of a structure of variant `M`.
///
/// # Safety
/// - The view's memory and the slices live until the kernel has ended.
/// - Nothing else runs on the structure meanwhile.
pub unsafe fn scan<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    scan: Scan<M::Key, M::Value>,
) -> gpu::Result<()> {
    let whole = Grid::for_items(M::scan_threads(map), THREADS);
    // SAFETY: the caller's obligations. The grids have the threads that the variant or the caller requires.
    unsafe {
        match scan {
            Scan::Export { first, threads, keys, values, count } => {
                let (grid, first) = (Grid::for_items(threads, THREADS), first as u64);
                let threads = threads as u64;
                stream.launch(grid, Export::<M> { map, first, threads, keys, values, count })
            }
            Scan::RetainBetween { by_value, low, high } => {
                stream.launch(whole, RetainBetween::<M> { map, by_value: by_value.into(), low, high })
            }
        }
    }
}

/// Inserts the pairs of a structure of variant `M` whose keys are absent from another into it, and counts
/// those that do not fit.
///
/// # Safety
/// - As for [`scan`], for both structures.
pub unsafe fn rehash<M: Kind + Instance>(
    stream: &Stream,
    from: M::View,
    into: M::View,
    refused: GlobalSlice<u64>,
) -> gpu::Result<()> {
    let grid = Grid::for_items(M::scan_threads(from), THREADS);
    // SAFETY: the caller's obligations. The grid has the threads that a scan needs.
    unsafe { stream.launch(grid, Rehash::<M> { from, into, refused }) }
}

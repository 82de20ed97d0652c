//! Launches: a batch or a scan is a value, and any kind of structure can be asked to run it.
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::kernels::{
    Apply, ContainsKey, Export, Get, Insert, InsertNew, Mixed, Remove, RetainBetween, spread,
};
use phalanx_kernels::keyed::{Coded, Kind};
use simt::{GlobalSlice, Instance};

/// Threads a block: measured, 128 is a little faster than 256.
pub const THREADS: u32 = 128;

/// What a batch asks for each of its keys.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// The kernel of this name.
    Insert,
    /// As above.
    InsertNew,
    /// As above.
    Get,
    /// As above.
    ContainsKey,
    /// As above.
    Remove,
    /// One operation for all keys, chosen when it runs.
    Apply(Coded),
    /// An operation of its own for each key, by its code.
    Mixed,
}

impl Ask {
    /// The operation of each key; where each has its own, any.
    pub fn coded(self) -> Coded {
        match self {
            Self::Insert => Coded::INSERT,
            Self::InsertNew => Coded::INSERT_NEW,
            Self::Get | Self::ContainsKey | Self::Mixed => Coded::GET,
            Self::Remove => Coded::REMOVE,
            Self::Apply(operation) => operation,
        }
    }
}

/// A batch: what is asked, and the device's memory that it reads and writes. Slices that it does not need are
/// empty.
#[derive(Clone, Copy, Debug)]
pub struct Batch<K, V> {
    /// What is asked.
    pub ask: Ask,
    /// The operation of each key, for [`Ask::Mixed`].
    pub codes: GlobalSlice<u8>,
    /// The keys: one element of the batch each.
    pub keys: GlobalSlice<K>,
    /// What is inserted or merged.
    pub arguments: GlobalSlice<V>,
    /// Takes the values found, where they are wanted.
    pub results: GlobalSlice<V>,
    /// Takes the outcomes, where they are wanted.
    pub outcomes: GlobalSlice<u8>,
}

impl<K: simt::Word, V: simt::Word> Batch<K, V> {
    /// A batch that wants no results yet.
    pub fn new(ask: Ask, keys: GlobalSlice<K>) -> Self {
        let (codes, arguments, results) = (nothing(), nothing(), nothing());
        Self { ask, codes, keys, arguments, results, outcomes: nothing() }
    }

    /// The elements from `first` on, `len` at most.
    pub fn part(self, first: usize, len: usize) -> Self {
        Self {
            ask: self.ask,
            codes: self.codes.part(first, len),
            keys: self.keys.part(first, len),
            arguments: self.arguments.part(first, len),
            results: self.results.part(first, len),
            outcomes: self.outcomes.part(first, len),
        }
    }
}

/// A pass over a whole structure that nothing else may run beside.
#[derive(Clone, Copy, Debug)]
pub enum Scan<K, V> {
    /// Writes the pairs of a part, and how many there are.
    Export {
        /// The first of the scan's threads that see the part.
        first: usize,
        /// How many of them.
        threads: usize,
        /// Takes the keys.
        keys: GlobalSlice<K>,
        /// Takes the values.
        values: GlobalSlice<V>,
        /// Takes the number of pairs: one word, zero before.
        count: GlobalSlice<u64>,
    },
    /// Removes the pairs outside a range.
    RetainBetween {
        /// Whether the range is one of values.
        by_value: bool,
        /// Its lower end.
        low: u64,
        /// Its upper end, which belongs to it.
        high: u64,
    },
}

/// A slice of nothing, for results that are not wanted.
pub fn nothing<T: simt::Word>() -> GlobalSlice<T> {
    // SAFETY: no word of it is ever accessed.
    unsafe { GlobalSlice::from_raw_parts(std::ptr::dangling_mut(), 0) }
}

/// The grid for a batch of `len` elements. While all its tiles are on the device at once each gets but one of
/// them, which a batch then waits for instead of a tile's width of them, one after the other (see
/// `keyed::kernels`).
pub fn grid<M: Kind>(stream: &Stream, len: usize) -> Grid {
    let resident = stream.device().resident_threads() as usize;
    let mut spread = spread(M::TILE);
    while spread > 1 && len.saturating_mul(spread) > resident {
        spread /= 2;
    }
    Grid::for_items(len * spread, THREADS)
}

/// Launches a batch on a structure of the kind `M`.
///
/// # Safety
/// - The view's memory and the slices live until the kernel has ended.
/// - No scan or change of the whole structure runs meanwhile.
pub unsafe fn batch<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    batch: Batch<M::Key, M::Value>,
) -> gpu::Result<()> {
    let Batch { ask, codes, keys, arguments, results, outcomes } = batch;
    let grid = grid::<M>(stream, keys.len());
    // SAFETY: the caller's promises; the grid has a thread for every element or more.
    unsafe {
        match ask {
            Ask::Insert => stream.launch(grid, Insert::<M> { map, keys, values: arguments, outcomes }),
            Ask::InsertNew => stream.launch(grid, InsertNew::<M> { map, keys, values: arguments, outcomes }),
            Ask::Get | Ask::ContainsKey => look_up::<M>(stream, map, batch),
            Ask::Remove => stream.launch(grid, Remove::<M> { map, keys, values: results, outcomes }),
            Ask::Apply(operation) => {
                let code = operation.code();
                stream.launch(grid, Apply::<M> { map, code, keys, arguments, results, outcomes })
            }
            Ask::Mixed => stream.launch(grid, Mixed::<M> { map, codes, keys, arguments, results, outcomes }),
        }
    }
}

/// Launches a batch that looks for keys, or for their values where it does not ask for [`Ask::ContainsKey`]:
/// it changes nothing, whatever it asks.
///
/// # Safety
/// - As for [`batch`].
pub unsafe fn look_up<M: Kind + Instance>(
    stream: &Stream,
    map: M::View,
    batch: Batch<M::Key, M::Value>,
) -> gpu::Result<()> {
    let Batch { ask, keys, results: values, outcomes, .. } = batch;
    let grid = grid::<M>(stream, keys.len());
    // SAFETY: the caller's promises; the grid has a thread for every element or more.
    unsafe {
        match ask {
            Ask::ContainsKey => stream.launch(grid, ContainsKey::<M> { map, keys, values, outcomes }),
            _ => stream.launch(grid, Get::<M> { map, keys, values, outcomes }),
        }
    }
}

/// Launches a scan of a structure of the kind `M`.
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
    // SAFETY: the caller's promises; the grids have the threads that the kind or the caller asks for.
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

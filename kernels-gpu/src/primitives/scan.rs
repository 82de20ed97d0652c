//! Scans in one pass: each tile sums its elements, obtains the sum before it by [look-back](super::lookback),
//! and writes its results. `super::tiles` describes how.
//!
//! # Cost
//!
//! Reads and writes each element once.
use super::lookback::Monoid;
use super::operator::Operator;
use super::tiles::{Summed, Walk, Whole};
use super::{Tiled, plan_name, tile_name};
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, device, kernel};

/// The operator of a scan and the size of its tiles.
///
/// ```
/// use phalanx_kernels::primitives::scan::{Job, ScanPlan, Scanned};
///
/// /// Scans, as the entry point does.
/// fn scan_by<P: ScanPlan>(job: Job<Scanned<P>>) {
///     P::scan(job);
/// }
/// ```
pub trait ScanPlan: Tiled {
    /// Type of the operator.
    type Operator: Operator;
    /// Number of threads per block.
    const THREADS: u32;
    /// Number of elements per thread.
    const ITEMS: usize;
    /// Whether blocks process several tiles in sequence and load one tile ahead; otherwise each block
    /// processes one.
    const AHEAD: bool;

    /// Body of [`scan`], for one thread.
    fn scan(scan: Job<Scanned<Self>>);
}

/// Type of the elements that a plan scans.
pub type Scanned<P> = <<P as ScanPlan>::Operator as Monoid>::Value;

/// The arguments of a scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job<T> {
    /// Elements to scan.
    pub from: GlobalSlice<T>,
    /// Destination of the results: as many as `from` has, or one more, which receives the total. May be
    /// `from` itself.
    pub to: GlobalSlice<T>,
    /// Words in which tiles publish their sums; zero before.
    pub status: GlobalSlice<u64>,
    /// Ticket counter for the tiles' numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
    /// Whether the scan is inclusive.
    pub inclusive: u32,
}

/// A scan by a `Walk` with these parameters.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<
    O,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool = false,
    const NAP: u32 = 0,
>(PhantomData<fn() -> O>);

impl<
    O: Operator,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> Instance for Vectors<O, THREADS, VECTORS, WIDE, AHEAD, NAP>
{
    const NAME: &'static str = const { &plan_name::<Self>() }.as_str();
}

impl<
    O: Operator,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> Tiled for Vectors<O, THREADS, VECTORS, WIDE, AHEAD, NAP>
{
    type Types = O;
    const TYPES: &'static str = O::NAME;
    const TILE: &'static str = const {
        &tile_name(THREADS, VECTORS * WIDE).part(if AHEAD { "ahead" } else { "" }).part(if NAP > 0 {
            "nap"
        } else {
            ""
        })
    }
    .as_str();
}

impl<
    O: Operator,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> ScanPlan for Vectors<O, THREADS, VECTORS, WIDE, AHEAD, NAP>
{
    type Operator = O;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = VECTORS * WIDE;
    const AHEAD: bool = AHEAD;

    #[device(caller)]
    fn scan(job: Job<O::Value>) {
        let Job { from, to, status, tickets, inclusive } = job;
        let walk = Walk::<_, THREADS, VECTORS, WIDE, AHEAD, NAP> {
            from,
            status,
            tickets,
            grouping: Whole::<O>(PhantomData),
        };
        let write = |summed: Summed<_, VECTORS, WIDE>| {
            summed.part.store(to, summed.results(inclusive != 0), (0, from.len()));
        };
        walk.run(write, |whole| {
            if to.len() > from.len() {
                to.write(from.len(), whole);
            }
        });
    }
}

/// Scans `from`. The grid has one block for each [`ScanPlan::THREADS`]` * `[`ScanPlan::ITEMS`] elements or,
/// with [`ScanPlan::AHEAD`], any number of blocks.
#[kernel]
pub fn scan<P: ScanPlan + Instance>(job: Job<Scanned<P>>) {
    P::scan(job);
}

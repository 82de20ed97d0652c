//! Scans of all segments in one pass, and sums of segments.
//!
//! The scan works as for a whole array (`crate::primitives::tiles`), but the summed elements are pairs: the
//! number of segments that begin, and the combination of the elements since the last beginning. So a segment
//! may span any number of tiles, and a tile any number of segments. The sum of a segment is the value at its
//! last element; the number of segments that begin up to there is the segment's index in the list of the
//! non-empty segments.
//!
//! # Cost
//!
//! Reads each element and 1/4 of a byte besides, and writes it, or a result per segment.
use super::{List, Segments};
use crate::primitives::lookback::Monoid;
use crate::primitives::operator::Operator;
use crate::primitives::runs::InRuns;
use crate::primitives::tiles::{Grouping, Summed, Walk};
use crate::primitives::{Tiled, plan_name, tile_name};
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, device, kernel};

/// The operator of a segmented scan and the size of its tiles.
///
/// ```
/// use phalanx_kernels::primitives::segments::List;
/// use phalanx_kernels::primitives::segments::scan::{Job, SegmentPlan, Value};
/// use simt::GlobalSlice;
///
/// /// Scans or reduces the segments, as the entry points do.
/// fn scan_or_reduce<P: SegmentPlan>(job: Job<Value<P>>, list: Option<List>, to: GlobalSlice<Value<P>>) {
///     match list {
///         Some(list) => P::reduce(job, list, to),
///         None => P::scan(job, to, true),
///     }
/// }
/// ```
pub trait SegmentPlan: Tiled {
    /// Type of the operator.
    type Operator: Operator;
    /// Number of threads per block.
    const THREADS: u32;
    /// Number of elements per thread.
    const ITEMS: usize;

    /// Body of [`scan_segments`], for one thread.
    fn scan(job: Job<Value<Self>>, to: GlobalSlice<Value<Self>>, inclusive: bool);

    /// Body of [`reduce_segments`], for one thread.
    fn reduce(job: Job<Value<Self>>, list: List, results: GlobalSlice<Value<Self>>);
}

/// Element type of a plan.
pub type Value<P> = <<P as SegmentPlan>::Operator as Monoid>::Value;

/// The arguments of a segmented scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job<T> {
    /// Elements to scan.
    pub from: GlobalSlice<T>,
    /// Segments of the elements.
    pub segments: Segments,
    /// Words in which tiles publish their sums; zero before.
    pub status: GlobalSlice<u64>,
    /// Ticket counter for the tiles' numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
}

/// Grouping of elements by segments.
#[derive(Clone, Copy, Debug)]
struct InSegments<O> {
    segments: Segments,
    of: PhantomData<O>,
}

#[device]
impl<O: Operator> Grouping for InSegments<O> {
    type Operator = O;
    type Monoid = InRuns<O>;

    fn heads(self, place: usize, count: usize) -> u32 {
        self.segments.word(place / 32) >> (place % 32) & ((1 << count) - 1)
    }

    fn sum(element: O::Value, begins: bool) -> (u32, O::Value) {
        (begins as u32, element)
    }

    fn value(sum: (u32, O::Value)) -> O::Value {
        sum.1
    }
}

/// A scan by `THREADS` threads per block with `VECTORS` vectors each, of `WIDE` elements.
#[derive(Clone, Copy, Debug)]
pub struct Segmented<O, const THREADS: u32, const VECTORS: usize, const WIDE: usize>(PhantomData<fn() -> O>);

impl<O: Operator, const THREADS: u32, const VECTORS: usize, const WIDE: usize>
    Segmented<O, THREADS, VECTORS, WIDE>
{
    #[device(caller)]
    fn walk(job: Job<O::Value>) -> Walk<InSegments<O>, THREADS, VECTORS, WIDE, false, 0> {
        let Job { from, segments, status, tickets } = job;
        Walk { from, status, tickets, grouping: InSegments { segments, of: PhantomData } }
    }
}

impl<O: Operator, const THREADS: u32, const VECTORS: usize, const WIDE: usize> Instance
    for Segmented<O, THREADS, VECTORS, WIDE>
{
    const NAME: &'static str = const { &plan_name::<Self>() }.as_str();
}

impl<O: Operator, const THREADS: u32, const VECTORS: usize, const WIDE: usize> Tiled
    for Segmented<O, THREADS, VECTORS, WIDE>
{
    type Types = O;
    const TYPES: &'static str = O::NAME;
    const TILE: &'static str = const { &tile_name(THREADS, VECTORS * WIDE) }.as_str();
}

#[device(caller)]
impl<O: Operator, const THREADS: u32, const VECTORS: usize, const WIDE: usize> SegmentPlan
    for Segmented<O, THREADS, VECTORS, WIDE>
{
    type Operator = O;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = VECTORS * WIDE;

    fn scan(job: Job<O::Value>, to: GlobalSlice<O::Value>, inclusive: bool) {
        let write = |summed: Summed<_, VECTORS, WIDE>| {
            let range = job.segments.range(job.from.len());
            summed.part.store(to, summed.results(inclusive), range);
        };
        Self::walk(job).run(write, |_| ());
    }

    fn reduce(job: Job<O::Value>, list: List, results: GlobalSlice<O::Value>) {
        let write = |summed: Summed<_, VECTORS, WIDE>| {
            let (begin, end) = job.segments.range(job.from.len());
            let (begin, end) = (summed.part.distance(begin), summed.part.distance(end));
            let listed = list.len();
            summed.each(|v, i, _, (count, value)| {
                let distance = summed.part.place(v, i) - summed.part.place(0, 0);
                let is_last = match i + 1 < WIDE {
                    true => summed.begins(v, i + 1),
                    false => job.segments.begins(summed.part.place(v, i + 1)),
                };
                let is_ours = (begin..end).contains(&(distance as u32));
                if is_last && is_ours && count > 0 && count as usize <= listed {
                    results.write(list.segments.read(count as usize - 1) as usize, value);
                }
            });
        };
        Self::walk(job).run(write, |_| ());
    }
}

/// Scans each segment of `from`. Writes no results for elements outside all segments. The grid has one block
/// for each [`SegmentPlan::THREADS`]` * `[`SegmentPlan::ITEMS`] elements.
#[kernel]
pub fn scan_segments<P: SegmentPlan + Instance>(
    job: Job<Value<P>>,
    to: GlobalSlice<Value<P>>,
    inclusive: u32,
) {
    P::scan(job, to, inclusive != 0);
}

/// Writes the combination of the elements of each segment to the segment's element of `results`, except for
/// empty segments. `list` contains the segments that are not empty. The grid has one block for each
/// [`SegmentPlan::THREADS`]` * `[`SegmentPlan::ITEMS`] elements.
#[kernel]
pub fn reduce_segments<P: SegmentPlan + Instance>(
    job: Job<Value<P>>,
    list: List,
    results: GlobalSlice<Value<P>>,
) {
    P::reduce(job, list, results);
}

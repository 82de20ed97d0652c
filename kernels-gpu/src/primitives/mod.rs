//! Primitives on arrays: radix sort, scan, reduce, compaction, histogram, runs, segments, merge.
//! `docs/structures/primitives.md` has the pictures.
//!
//! | file | contents |
//! |---|---|
//! | [`sort`] | radix sort: one read computes all histograms, then one kernel per digit |
//! | [`scan`] | scans in one pass, over any [`Operator`](operator::Operator) |
//! | [`operator`] | the operators of scans and reductions |
//! | [`runs`] | sums over runs of equal keys |
//! | [`compact`] | selection of the elements that pass a test, in their order |
//! | [`merge`] | merge of two sorted arrays |
//! | [`reduce`] | sums over an array, and histograms |
//! | [`words`] | filling, copying, gathering |
//! | [`analysis`] | order of the keys of a batch, for structures that rebuild themselves |
//! | [`segments`] | scans, sums and sorts of each of many segments |
//! | `tiles` | iteration of blocks over a scanned array |
//! | [`lookback`] | communication of prefixes between tiles within a launch |
//! | `carry` | communication of prefixes between the warps of a block |
//!
//! # Tiles and tickets
//!
//! An array is divided into tiles, and a block processes one of them, or several in sequence. A tile of a
//! sort or scan needs the sum over all tiles before it. It must not wait for a block that itself waits to be
//! scheduled, so blocks draw their numbers from a counter when they begin to run (`ticket`): every block
//! with a smaller number is already running or has finished.
//!
//! # Cost
//!
//! A primitive reads and writes each element once or twice; its module states which. `ticket` is one atomic
//! in device memory and a barrier of the block; `unrolled` is the cost of its steps.
pub mod analysis;
pub(crate) mod carry;
pub mod compact;
#[cfg(feature = "primitives")]
pub mod instances;
pub mod lookback;
pub mod merge;
pub mod operator;
pub mod reduce;
pub mod runs;
pub mod scan;
pub mod segments;
pub mod sort;
pub(crate) mod tiles;
pub mod words;

use simt::{Block, Global, GlobalSlice, Instance, Name, Order, Scope, Thread, Word, device, shared};

/// A plan of a primitive: the types of its elements, and the tiles that blocks process. A primitive may have
/// several plans for the same types.
pub trait Tiled: Instance + Send + Sync {
    /// Types of the elements, or their operator.
    type Types: 'static;
    /// Names of these types.
    const TYPES: &'static str;
    /// Name of the tile: threads x elements per thread, and further properties.
    const TILE: &'static str;
}

/// Returns the name of a plan.
const fn plan_name<P: Tiled>() -> Name {
    Name::of(P::TYPES).part(P::TILE)
}

/// Returns the name of tiles with this number of threads, and of elements per thread.
const fn tile_name(threads: u32, each: usize) -> Name {
    Name::of("").number(threads as usize).text("x").number(each)
}

/// Returns `true` if vectors of `wide` elements of the array are aligned. The array may be a part of a buffer
/// and begin at any of its elements; whoever accesses vectors then accesses single elements instead.
#[device]
pub(crate) fn is_aligned<T: Word>(array: GlobalSlice<T>, wide: usize) -> bool {
    array.as_ptr().addr() & (wide * size_of::<T>() - 1) == 0
}

/// Calls `body` with 0 to `N - 1`, fully unrolled: arrays indexed by the argument stay in registers, however
/// long `body` is.
#[device(caller)]
pub(crate) fn unrolled<const N: usize>(mut body: impl FnMut(usize)) {
    const { assert!(N <= 32, "spelt out up to 32 times") };
    macro_rules! each {
        ($($place:literal)*) => {$(
            if N > $place {
                body($place);
            }
        )*};
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
}

/// Returns the block's number in the order in which blocks begin to run, from a counter that was zero before
/// the launch. Contains a barrier of the block.
///
/// Relaxed: the counter publishes nothing but the number.
#[device(caller)]
pub(crate) fn ticket(counter: Global<u32>) -> u32 {
    let number = shared!([u32; 1]);
    if Thread::index_in_block() == 0 {
        number.store(0, counter.fetch_add(1, Order::Relaxed, Scope::Device));
    }
    Block::sync();
    number.load(0)
}

/// Returns the first `limit[0]` words, or all of them if `limit` is empty. So a kernel can pass the length to
/// the kernels after it without a round trip to the host.
#[device(caller)]
fn limited<T: Word>(words: GlobalSlice<T>, limit: GlobalSlice<u32>) -> GlobalSlice<T> {
    if words.is_empty() || limit.is_empty() {
        return words;
    }
    let len = words.len().min(limit.read(0) as usize);
    // SAFETY: a part of the words.
    unsafe { GlobalSlice::from_raw_parts(words.at(0).as_ptr(), len) }
}

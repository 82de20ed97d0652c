//! Primitives on arrays: radix sort, scan, reduce, compaction, histogram, runs, segments, merge.
//! `docs/structures/primitives.md` has the pictures.
//!
//! | file | what it holds |
//! |---|---|
//! | [`sort`] | radix sort: one read makes all histograms, then one kernel a digit |
//! | [`scan`] | scans in one pass, over any [`scan::Operator`] |
//! | [`runs`] | sums over runs of equal keys |
//! | [`compact`] | the elements that pass a test, in their order |
//! | [`merge`] | two sorted arrays into one |
//! | [`reduce`] | sums over an array, and histograms |
//! | [`words`] | filling, copying, gathering |
//! | [`segments`] | scans, sums and sorts of each of many segments |
//! | [`tiles`] | how blocks walk over what is scanned |
//! | [`lookback`] | how a tile learns what stands before it, without waiting for a launch |
//! | [`carry`] | the same for each warp of a block |
//!
//! # Tiles and tickets
//!
//! An array is cut into tiles, and a block works on one, or on one after the other. A sort's or scan's tile
//! needs what all tiles before it add up to. It must not wait for a block that waits in turn for a place on
//! the machine, so blocks take their numbers from a counter when they begin to run ([`ticket`]): whoever has
//! a smaller number is running already, or done.
pub mod carry;
pub mod compact;
pub mod instances;
pub mod lookback;
pub mod merge;
pub mod reduce;
pub mod runs;
pub mod scan;
pub mod segments;
pub mod sort;
pub mod tiles;
pub mod words;

use simt::{Block, Global, GlobalSlice, Order, Scope, Thread, Word, shared};

/// Calls `body` with 0 to `N - 1`, spelt out: arrays that are indexed by it stay in registers, however long
/// the body is.
#[inline(always)]
#[track_caller]
pub fn unrolled<const N: usize>(mut body: impl FnMut(usize)) {
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

/// The block's number in the order in which blocks begin to run, from a counter that was zero before the
/// launch. A barrier of the block.
///
/// Relaxed: the number is all that the counter tells.
#[inline(always)]
#[track_caller]
pub fn ticket(counter: Global<u32>) -> u32 {
    let number = shared!([u32; 1]);
    if Thread::index_in_block() == 0 {
        number.store(0, counter.fetch_add(1, Order::Relaxed, Scope::Device));
    }
    Block::sync();
    number.load(0)
}

/// The first `limit[0]` words, where `limit` is not empty; else all. So a kernel may tell the next ones how
/// much there is, and no host has to wait for it.
#[inline(always)]
#[track_caller]
fn limited<T: Word>(words: GlobalSlice<T>, limit: GlobalSlice<u32>) -> GlobalSlice<T> {
    if words.is_empty() || limit.is_empty() {
        return words;
    }
    let len = words.len().min(limit.read(0) as usize);
    // SAFETY: a part of the words.
    unsafe { GlobalSlice::from_raw_parts(words.at(0).as_ptr(), len) }
}

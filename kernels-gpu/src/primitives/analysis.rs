//! AnalyzeBatch of a batch before a structure executes it: the order of its keys, samples of neighbours, and
//! the structure's counters, all in one report that the host reads once.
//!
//! # Cost
//!
//! [`analyze_batch`] reads each key twice, mostly from the L1 cache, and the counters once. A warp stores a
//! flag if it is the first one to find a violation, and executes an atomic minimum unless a smaller key is
//! known.
use super::compact::Element;
use super::lookback::Monoid;
use super::operator::{Min, Operator, Sum};
use super::words::Ordered;
use crate::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use simt::{Global, GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Number of places of a batch that are sampled.
pub const PLACES: usize = 64;

/// Distance of the two elements at a place: the next but one, so that two runs of keys that alternate, or
/// alternate from both ends, count as ordered.
pub const DISTANCE: usize = 2;

/// Number of pairs of bounds that an analysis prepares: one for each place, one from the batch's lowest key
/// to the largest key of all, and one of only the largest key of all.
pub const SPANS: usize = PLACES + 2;

/// Indices in the report of [`analyze_batch`]. Before the launch, all bits of the report and of the bounds
/// are 1.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// 0 unless each key is below the next one.
    Ascending = 0,
    /// 0 unless each key is above the next one.
    Descending = 1,
    /// Number of the structure's pairs.
    Live = 2,
    /// Number of the structure's taken slots.
    Taken = 3,
    /// 0 if the batch has the largest key of all.
    LacksLargest = 4,
}

/// Number of words of a report.
pub const FIELDS: usize = 5;

/// A type of keys.
pub trait Analyzed: Element {
    /// The minimum of keys.
    type Least: Operator + Monoid<Value = Self::Word>;
}

impl Analyzed for Ordered<u32> {
    type Least = Min<u32>;
}

impl Analyzed for Ordered<u64> {
    type Least = Min<u64>;
}

/// Returns the index of the first of the two elements at a place of a batch of `len` elements.
///
/// ```
/// use phalanx_kernels::primitives::analysis::{DISTANCE, PLACES, sampled};
///
/// // The places are spread from the first element to the last one.
/// assert_eq!((sampled(0, 1000), sampled(PLACES - 1, 1000) + DISTANCE), (0, 999));
/// ```
#[device]
pub fn sampled(place: usize, len: usize) -> usize {
    place * len.saturating_sub(1 + DISTANCE) / (PLACES - 1)
}

/// Stores 0 unless a thread has done so before. Relaxed: the host reads the word after the launch.
#[device(caller)]
fn clear(word: Global<u64>) {
    if word.load(Order::Relaxed, Scope::Device) != 0 {
        word.store(0, Order::Relaxed, Scope::Device);
    }
}

/// Findings of a thread about its share of the keys.
struct Share<E: Analyzed> {
    rises: bool,
    falls: bool,
    has_largest: bool,
    least: E::Word,
}

#[device(caller)]
fn share<E: Analyzed>(keys: GlobalSlice<E::Word>) -> Share<E> {
    let least = <E::Least as Monoid>::IDENTITY;
    let mut found = Share::<E> { rises: true, falls: true, has_largest: false, least };
    let mut place = Thread::index();
    while place < keys.len() {
        let key = keys.read(place);
        // The largest key is the identity of the minimum.
        found.has_largest |= key == least;
        found.least = <E::Least as Monoid>::combine(found.least, key);
        if place + 1 < keys.len() {
            let next = keys.read(place + 1);
            found.rises &= key < next;
            found.falls &= key > next;
        }
        place += Thread::count();
    }
    found
}

/// Writes the sums of the counters, by the first warp.
#[device(caller)]
fn sum_counters(counters: GlobalSlice<u64>, report: GlobalSlice<u64>) {
    let warp = Tile::<32>::lockstep();
    let (mut live, mut taken, mut shard) = (0u64, 0u64, warp.rank() as usize);
    while shard < COUNTER_SHARDS {
        let word =
            |index: usize| counters.at(shard * SHARD_WORDS + index).load(Order::Relaxed, Scope::Device);
        live = live.wrapping_add(word(0));
        taken = taken.wrapping_add(word(1));
        shard += 32;
    }
    let (live, taken) = (Sum::<u64>::fold(warp, live), Sum::<u64>::fold(warp, taken));
    if warp.rank() == 0 {
        report.write(Field::Live as usize, live);
        report.write(Field::Taken as usize, taken);
    }
}

/// Analyzes the keys of a batch and the counters of a structure: see [`Field`]. Writes the lower one of the
/// keys at each place to `lows` and the higher one to `highs`, and behind those of the places the lowest key
/// to `lows`. Any grid of whole warps with at least [`PLACES`] threads.
#[kernel]
pub fn analyze_batch<E: Analyzed + Instance>(
    keys: GlobalSlice<E::Word>,
    counters: GlobalSlice<u64>,
    lows: GlobalSlice<E::Word>,
    highs: GlobalSlice<E::Word>,
    report: GlobalSlice<u64>,
) {
    let (warp, mine) = (Tile::<32>::lockstep(), share::<E>(keys));
    let (rises, falls) = (warp.all(mine.rises), warp.all(mine.falls));
    let has_largest = warp.any(mine.has_largest);
    let least = <E::Least as Monoid>::fold(warp, mine.least);
    if warp.rank() == 0 {
        let known = lows.at(PLACES);
        if least < known.load(Order::Relaxed, Scope::Device) {
            <E::Least as Operator>::combine_at(known, least);
        }
        if !rises {
            clear(report.at(Field::Ascending as usize));
        }
        if !falls {
            clear(report.at(Field::Descending as usize));
        }
        if has_largest {
            clear(report.at(Field::LacksLargest as usize));
        }
    }
    if Thread::index() < 32 {
        sum_counters(counters, report);
    }
    let place = Thread::index();
    if place < PLACES && keys.len() > DISTANCE {
        let first = sampled(place, keys.len());
        let (one, other) = (keys.read(first), keys.read(first + DISTANCE));
        lows.write(place, if one < other { one } else { other });
        highs.write(place, if one < other { other } else { one });
    }
}

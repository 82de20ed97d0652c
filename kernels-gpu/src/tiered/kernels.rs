//! Kernels that bring elements into the order of the shards, and results back.
//!
//! # Cost
//!
//! Each kernel reads and writes each element once; [`tiered_route_range`] also reads a splitter for each bit
//! of their number. [`tiered_gather`] reads at random addresses;
//! [`tiered_scatter`] and [`tiered_scatter_outcomes`] write at random addresses. [`tiered_bounds`] reads two
//! routes per thread, and writes each bound once. [`tiered_scatter_outcomes`] and [`tiered_count_refused`]
//! also execute a reduction per warp, and an atomic for each warp with refused elements.
use super::route::{Routed, not_above, route, route_in_range};
use crate::keyed::kernels::add_up;
use crate::keyed::{COUNTER_SHARDS, Outcome, SHARD_WORDS, Scalar};
use crate::primitives::words::Moved;
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Writes the route of each key, of which `bits` bits of a hash select the shard. If `is_picked` is not 0,
/// only the keys whose indices `numbers` has are routed; otherwise the index of each key is written there.
#[kernel]
pub fn tiered_route<R: Routed + Instance>(
    keys: GlobalSlice<R::Key>,
    routes: GlobalSlice<u32>,
    numbers: GlobalSlice<u32>,
    bits: u32,
    seed: u64,
    is_picked: u32,
) {
    let place = Thread::index();
    if place >= routes.len() {
        return;
    }
    let mut number = place as u32;
    if is_picked != 0 {
        number = numbers.read(place);
    } else {
        numbers.write(place, number);
    }
    routes.write(place, route::<R::Key, R::Stored>(keys.read(number as usize), bits, seed));
}

/// Writes the route and the index of each key. The shard of a key is the number of `splitters` that are not
/// above it; they are sorted. `bits` bits of a route are the shard.
#[kernel]
pub fn tiered_route_range<R: Routed + Instance>(
    keys: GlobalSlice<R::Key>,
    routes: GlobalSlice<u32>,
    numbers: GlobalSlice<u32>,
    splitters: GlobalSlice<R::Key>,
    bits: u32,
) {
    let place = Thread::index();
    if place >= keys.len() {
        return;
    }
    let key = keys.read(place);
    let shard = not_above(splitters, key);
    let low = if shard == 0 { R::Key::from_u64(0) } else { splitters.read(shard - 1) };
    let end = if shard == splitters.len() { R::Key::MAX } else { splitters.read(shard) };
    routes.write(place, route_in_range(key, (low, end), shard as u32, bits));
    numbers.write(place, place as u32);
}

/// Writes the shard of each route, the high `bits` bits, of which there are at most 8.
#[kernel]
pub fn tiered_keep_shards(routes: GlobalSlice<u32>, bits: u32, shards: GlobalSlice<u8>) {
    let place = Thread::index();
    if place < routes.len() {
        shards.write(place, shard_at(routes, place, bits) as u8);
    }
}

/// Writes routes of which only the shard is known, and the index of each element.
#[kernel]
pub fn tiered_route_kept(
    shards: GlobalSlice<u8>,
    routes: GlobalSlice<u32>,
    numbers: GlobalSlice<u32>,
    bits: u32,
) {
    let place = Thread::index();
    if place < routes.len() {
        routes.write(place, ((shards.read(place) as u64) << (32 - bits)) as u32);
        numbers.write(place, place as u32);
    }
}

/// Writes for each shard the index of the first sorted route that belongs to it or to a later one, and at the
/// end their number. Takes a thread for each route and one more.
#[kernel]
pub fn tiered_bounds(routes: GlobalSlice<u32>, bits: u32, bounds: GlobalSlice<u32>) {
    let place = Thread::index();
    if place > routes.len() {
        return;
    }
    let mut shard = if place == 0 { 0 } else { shard_at(routes, place - 1, bits) + 1 };
    let end = if place == routes.len() { bounds.len() } else { shard_at(routes, place, bits) + 1 };
    while shard < end {
        bounds.write(shard, place as u32);
        shard += 1;
    }
}

/// Returns the shard of a route.
#[device(caller)]
fn shard_at(routes: GlobalSlice<u32>, place: usize, bits: u32) -> usize {
    (routes.read(place) as u64 >> (32 - bits)) as usize
}

/// Sets element `i` of `to` to element `order[i]` of `from`.
#[kernel]
pub fn tiered_gather<M: Moved + Instance>(
    from: GlobalSlice<M::Word>,
    order: GlobalSlice<u32>,
    to: GlobalSlice<M::Word>,
) {
    let place = Thread::index();
    if place < order.len() {
        to.write(place, from.read(order.read(place) as usize));
    }
}

/// Sets element `order[i]` of `to` to element `i` of `from`.
#[kernel]
pub fn tiered_scatter<M: Moved + Instance>(
    from: GlobalSlice<M::Word>,
    order: GlobalSlice<u32>,
    to: GlobalSlice<M::Word>,
) {
    let place = Thread::index();
    if place < order.len() {
        to.write(order.read(place) as usize, from.read(place));
    }
}

/// Scatters outcomes as [`tiered_scatter`] does, and adds the number of refused elements to `refused`. If
/// `as_bools` is not 0, writes 1 for [`Outcome::Found`] and 0 for others.
#[kernel]
pub fn tiered_scatter_outcomes(
    from: GlobalSlice<u8>,
    order: GlobalSlice<u32>,
    to: GlobalSlice<u8>,
    as_bools: u32,
    refused: GlobalSlice<u64>,
) {
    let (place, mut outcome) = (Thread::index(), Outcome::Absent as u8);
    if place < order.len() {
        outcome = from.read(place);
        to.write(order.read(place) as usize, shown(outcome, as_bools));
    }
    add_up(refused.at(0), (outcome == Outcome::Refused as u8).into());
}

/// Adds the number of refused elements to `refused`. If `as_bools` is not 0, replaces outcomes as
/// [`tiered_scatter_outcomes`] does.
#[kernel]
pub fn tiered_count_refused(outcomes: GlobalSlice<u8>, as_bools: u32, refused: GlobalSlice<u64>) {
    let (place, mut outcome) = (Thread::index(), Outcome::Absent as u8);
    if place < outcomes.len() {
        outcome = outcomes.read(place);
        if as_bools != 0 {
            outcomes.write(place, shown(outcome, as_bools));
        }
    }
    add_up(refused.at(0), (outcome == Outcome::Refused as u8).into());
}

/// Returns the byte that stands for an outcome.
#[device]
fn shown(outcome: u8, as_bools: u32) -> u8 {
    if as_bools != 0 { (outcome == Outcome::Found as u8) as u8 } else { outcome }
}

/// Adds a table's counters to the three words of `sums`, and sets them to zero. Takes one thread for each
/// shard of the counters.
#[kernel]
pub fn tiered_fold(counters: GlobalSlice<u64>, sums: GlobalSlice<u64>) {
    let (warp, shard) = (Tile::<32>::lockstep(), Thread::index());
    let mut word = 0;
    while word < SHARD_WORDS - 1 {
        let place = shard * SHARD_WORDS + word;
        let mut sum = if shard < COUNTER_SHARDS { counters.read(place) } else { 0 };
        if sum != 0 {
            counters.write(place, 0);
        }
        let mut distance = 16;
        while distance > 0 {
            sum = sum.wrapping_add(warp.shuffle_xor(sum, distance));
            distance /= 2;
        }
        if warp.rank() == 0 && sum != 0 {
            sums.at(word).fetch_add(sum, Order::Relaxed, Scope::Device);
        }
        word += 1;
    }
}

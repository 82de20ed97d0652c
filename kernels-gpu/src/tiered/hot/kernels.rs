//! Kernels of a cache of hot pairs.
//!
//! # Cost
//!
//! Each kernel reads a line of 128 bytes per key. [`tiered_look_up`] executes an atomic for each key that is
//! found and has not the highest score; [`tiered_forget`] one for each key that is found; [`tiered_keep`] one
//! for each key that was found in a shard, and for each that is new in the cache writes a pair and a state.
//! [`tiered_sample`] does so for the keys of the buckets that are there, and reads only the other keys
//! themselves; each warp adds its count by an atomic.
use super::state::State;
use super::{BUCKET_WORDS, Bucket, LANES, Pair};
use crate::keyed::Outcome;
use crate::keyed::kernels::add_up;
use simt::{GlobalSlice, Instance, Lockstep, Order, Scope, Thread, Tile, device, kernel};

/// Looks up keys. Writes the values of those that are in the cache, unless `values` is empty, and for each
/// key to `outcomes` the byte `found` or 0. If `touches` is not 0, raises the scores of the pairs. Writes the
/// index of each key to `numbers`.
#[kernel]
pub fn tiered_look_up<P: Pair + Instance>(
    words: GlobalSlice<u64>,
    seed: u64,
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
    numbers: GlobalSlice<u32>,
    found: u32,
    touches: u32,
) {
    let (tile, place) = (Tile::<LANES>::lockstep(), Thread::index());
    let own = own_key::<P>(keys, place);
    let (mut value, mut is_found, mut turn) = (P::Value::default(), false, 0);
    while turn < LANES {
        let asked = of_turn::<P>(tile, own, turn);
        let bucket = Bucket::<P>::of(words, seed, asked.0);
        let (state, slot) = (bucket.state(), tile.rank());
        // Both are read before either is known to be wanted: they are in the same line. Weak: only states are
        // written during this launch.
        let key = bucket.key(slot).load(Order::Weak, Scope::Device);
        let its_value = bucket.value(slot).load(Order::Weak, Scope::Device);
        let is_its = asked.1 && slot < P::SLOTS && state.score(slot) > 0 && key == asked.0;
        let votes = tile.ballot(is_its);
        let its_value = tile.shuffle(its_value, votes.trailing_zeros());
        if slot == turn && votes != 0 {
            (value, is_found) = (its_value, true);
        }
        if is_its && touches != 0 {
            bucket.touch(state, slot);
        }
        turn += 1;
    }
    if place < keys.len() {
        outcomes.write(place, if is_found { found as u8 } else { 0 });
        numbers.write(place, place as u32);
        if is_found && !values.is_empty() {
            values.write(place, value);
        }
    }
}

/// Removes the pairs of keys from the cache.
#[kernel]
pub fn tiered_forget<P: Pair + Instance>(words: GlobalSlice<u64>, seed: u64, keys: GlobalSlice<P::Key>) {
    let (tile, place) = (Tile::<LANES>::lockstep(), Thread::index());
    let (own, mut turn) = (own_key::<P>(keys, place), 0);
    while turn < LANES {
        let asked = of_turn::<P>(tile, own, turn);
        let bucket = Bucket::<P>::of(words, seed, asked.0);
        let (state, slot) = (bucket.state(), tile.rank());
        let key = bucket.key(slot).load(Order::Weak, Scope::Device);
        if asked.1 && slot < P::SLOTS && state.score(slot) > 0 && key == asked.0 {
            // Relaxed: the launch that reads the state next comes later.
            bucket.words.fetch_and(!State::mask(slot), Order::Relaxed, Scope::Device);
        }
        turn += 1;
    }
}

/// Adds the pairs whose outcome is `found` to the cache. A pair is left out if another tile changes its
/// bucket at the same time, and if the element before has the same key.
#[kernel]
pub fn tiered_keep<P: Pair + Instance>(
    words: GlobalSlice<u64>,
    seed: u64,
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (tile, place) = (Tile::<LANES>::lockstep(), Thread::index());
    let mut own = own_key::<P>(keys, place);
    let mut value = P::Value::default();
    if own.1 {
        own.1 = outcomes.read(place) == Outcome::Found as u8 && (place == 0 || keys.read(place - 1) != own.0);
        value = values.read(place);
    }
    let mut turn = 0;
    while turn < LANES {
        let asked = of_turn::<P>(tile, own, turn);
        let its_value = tile.shuffle(value, turn);
        let bucket = Bucket::<P>::of(words, seed, asked.0);
        keep(tile, bucket, asked, its_value);
        turn += 1;
    }
}

/// Adds a pair to its bucket, if it is wanted and not there.
#[device]
fn keep<P: Pair>(
    tile: Tile<LANES, Lockstep>,
    bucket: Bucket<P>,
    (key, is_wanted): (P::Key, bool),
    value: P::Value,
) {
    let (slot, state) = (tile.rank(), bucket.state());
    // All lanes go on with the state that the first one has locked.
    let has_lock = tile.any(slot == 0 && is_wanted && bucket.try_lock(state));
    let state = State::from_word(tile.shuffle(state.word(), 0));
    // The other lanes read and write pairs between the first one's lock and its release.
    tile.sync();
    let (is_slot, score) = (slot < P::SLOTS, state.score(slot));
    let there = bucket.key(slot).load(Order::Relaxed, Scope::Device);
    let is_there = tile.any(is_slot && score > 0 && there == key);
    let least = tile.reduce_min(if is_slot { score } else { u32::MAX });
    let victim = state.victim(tile.ballot(is_slot && score == least));
    let places = has_lock && !is_there;
    if places && slot == victim {
        bucket.key(slot).store(key, Order::Relaxed, Scope::Device);
        bucket.value(slot).store(value, Order::Relaxed, Scope::Device);
    }
    tile.sync();
    if has_lock && slot == 0 {
        bucket.unlock(if places { state.admit(victim, least, P::SLOTS) } else { state });
    }
}

/// Simulates a cache of `buckets` buckets, of which `words` has the first ones: looks up the keys of these
/// buckets, and adds those that are not there, without values. Adds their number to the first word of
/// `missed`.
#[kernel]
pub fn tiered_sample<P: Pair + Instance>(
    words: GlobalSlice<u64>,
    buckets: u32,
    seed: u64,
    keys: GlobalSlice<P::Key>,
    missed: GlobalSlice<u64>,
) {
    let (tile, warp, place) = (Tile::<LANES>::lockstep(), Tile::<32>::lockstep(), Thread::index());
    let mut own = own_key::<P>(keys, place);
    own.1 = own.1 && Bucket::<P>::index(buckets, seed, own.0) < words.len() / BUCKET_WORDS;
    let (votes, mut misses) = (warp.ballot(own.1), 0);
    // The tiles of a warp take the same turns, and only those in which one of them has a key.
    let mut turns = (votes | votes >> LANES) & ((1 << LANES) - 1);
    while turns != 0 {
        let asked = of_turn::<P>(tile, own, turns.trailing_zeros());
        misses += sample::<P>(tile, words, Bucket::<P>::index(buckets, seed, asked.0), asked);
        turns &= turns - 1;
    }
    if votes != 0 {
        add_up(missed.at(0), if tile.rank() == 0 { misses } else { 0 });
    }
}

/// Looks up a key of a sample, and adds it if it is wanted and not there. Returns 1 if it was not there.
#[device(caller)]
fn sample<P: Pair>(
    tile: Tile<LANES, Lockstep>,
    words: GlobalSlice<u64>,
    index: usize,
    (key, is_wanted): (P::Key, bool),
) -> u32 {
    // A tile without a key takes part in the collectives, on any bucket.
    let bucket = Bucket::<P>::at(words, if is_wanted { index } else { 0 });
    let (state, slot) = (bucket.state(), tile.rank());
    // Relaxed: other tiles may write keys. A key that is half read is a wrong count, no wrong result.
    let there = bucket.key(slot).load(Order::Relaxed, Scope::Device);
    let is_its = is_wanted && slot < P::SLOTS && state.score(slot) > 0 && there == key;
    if is_its {
        bucket.touch(state, slot);
    }
    let is_there = tile.any(is_its);
    let is_missed = is_wanted && !is_there;
    keep(tile, bucket, (key, is_missed), P::Value::default());
    is_missed as u32
}

/// Returns the key of a thread, and whether it has one.
#[device(caller)]
fn own_key<P: Pair>(keys: GlobalSlice<P::Key>, place: usize) -> (P::Key, bool) {
    let is_one = place < keys.len();
    (if is_one { keys.read(place) } else { P::Key::default() }, is_one)
}

/// Returns the key of the lane whose turn it is, and whether it has one.
#[device(caller)]
fn of_turn<P: Pair>(tile: Tile<LANES, Lockstep>, own: (P::Key, bool), turn: u32) -> (P::Key, bool) {
    (tile.shuffle(own.0, turn), tile.ballot(own.1) >> turn & 1 != 0)
}

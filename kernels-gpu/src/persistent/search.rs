//! The search of a key among the fingerprints of its buckets: the one probe loop of all operations.
//!
//! ```text
//! for the buckets of the key, LANES at a time, from those of the first hash location on
//!     read the version of the bucket's group
//!     read the fingerprints of the bucket               16 bytes a load
//!     compare the keys of the slots with the hash of the key's fingerprint
//!     read the version again                            another one: read the bucket again
//! ```
//!
//! The page's proofs say which searches need the versions.
use super::hashed::Hashed;
use super::keys::{Keys, Wanted, find_key};
use super::kind::{Config, Levels};
use super::layout::NOWHERE;
use super::mode::Mode;
use super::states::{States, slot_of, without};
use super::view::PersistentView;
use simt::{Convergence, CurrentOp, Order, Scope, Tile, bound, device, recheck, share_work};

/// A kind of table with its search. All kinds implement it. [`Config`] has the numbers alone, since the
/// search needs views, which need the numbers.
pub trait Search: Config {
    /// Searches the keys of all lanes that pass as pending, each by the lane's tile. All lanes of the warp
    /// call it together. A lane passes the position of the slot that it has claimed, or [`NOWHERE`].
    #[doc(hidden)]
    fn search<M: Mode>(view: PersistentView<Self>, keys: Keys, lane: (bool, Wanted, u32)) -> Sought;
}

impl<const K: u32, const V: u32, const L: u32, const H: u32, const S: u32, const W: u32> Search
    for Levels<K, V, L, H, S, W>
{
    #[device]
    fn search<M: Mode>(view: PersistentView<Self>, keys: Keys, lane: (bool, Wanted, u32)) -> Sought {
        search::<Self, M, W>(view, keys, lane)
    }
}

/// Result of a search.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    /// Position of the key's slot, or [`NOWHERE`].
    pub(super) position: u32,
    /// Version of the slot's group before the key was read.
    pub(super) version: u32,
    /// The value, if it is a constant of the kind and the search is a lookup.
    pub(super) value: u64,
    /// Position of a free slot in the bucket with the fewest taken ones of the highest level that has any, or
    /// [`NOWHERE`].
    pub(super) free: u32,
    /// Number of slots taken there, and more for lower levels.
    pub(super) load: u32,
    /// Whether a slot may become free, since an operation on it is in progress. For a lane that has claimed a
    /// slot: whether it must wait, since an aborted claim of the key comes before its own.
    pub(super) waits: bool,
    /// Position of another insertion's claim, or [`NOWHERE`].
    pub(super) rival: u32,
}

#[device]
impl Sought {
    pub(super) const NOTHING: Self = Self {
        position: NOWHERE,
        version: 0,
        value: 0,
        free: NOWHERE,
        load: u32::MAX,
        waits: false,
        rival: NOWHERE,
    };
}

/// Searches the keys of all lanes that pass `pending`. `own` is the position that the lane has claimed. All
/// lanes of the warp call it together.
#[device]
pub(super) fn search<C: Config, M: Mode, const W: u32>(
    view: PersistentView<C>,
    keys: Keys,
    (pending, wanted, own): (bool, Wanted, u32),
) -> Sought {
    let (mut step, mut result) = (0, Sought::NOTHING);
    share_work(Tile::<W>::lockstep(), pending, |turn| {
        let theirs = shared_key(&turn, wanted);
        let (step_now, own) = (turn.from_owner(step), turn.from_owner(own));
        let candidate = step_now * W + turn.tile().rank();
        let mine = if turn.is_active() {
            examine::<C, M>(view, keys, (theirs, candidate, own))
        } else {
            Sought::NOTHING
        };
        let found = combine::<M, W>(&turn, mine);
        if turn.is_mine() {
            result = note(result, found);
            step += 1;
        }
        // mutation: less unreached, because tables of explorers have one group, where the last bucket of a
        // key is also its second one.
        found.position != NOWHERE || (step_now + 1) * W >= bound(C::CANDIDATES)
    });
    result
}

/// Returns the key of the current operation's owner, in all lanes of the tile.
#[device]
fn shared_key<const W: u32>(turn: &CurrentOp<W, impl Convergence>, wanted: Wanted) -> Wanted {
    Wanted {
        hashed: Hashed {
            first: turn.from_owner(wanted.hashed.first),
            second: turn.from_owner(wanted.hashed.second),
        },
        first: turn.from_owner(wanted.first),
        index: turn.from_owner(wanted.index),
    }
}

/// Returns what the lanes of a tile have found, in all of them.
#[device]
fn combine<M: Mode, const W: u32>(turn: &CurrentOp<W, impl Convergence>, mine: Sought) -> Sought {
    if W == 1 {
        return mine;
    }
    let (tile, mut found) = (turn.tile(), Sought::NOTHING);
    let holder = tile.ballot(mine.position != NOWHERE).trailing_zeros() % W;
    found.position = tile.shuffle(mine.position, holder);
    found.version = tile.shuffle(mine.version, holder);
    found.value = tile.shuffle(mine.value, holder);
    if M::PLACES {
        let load = if mine.free == NOWHERE { u32::MAX } else { mine.load * W + tile.rank() };
        let least = tile.reduce_min(load);
        found.free = tile.shuffle(mine.free, least % W);
        found.load = tile.shuffle(mine.load, least % W);
    }
    if M::PLACES || M::CHECKS {
        found.waits = tile.any(mine.waits);
    }
    if M::CHECKS {
        let holder = tile.ballot(mine.rival != NOWHERE).trailing_zeros() % W;
        found.rival = tile.shuffle(mine.rival, holder);
    }
    found
}

/// Adds what a step has found to what the steps before have found.
#[device]
fn note(before: Sought, step: Sought) -> Sought {
    let is_better = step.free != NOWHERE && (before.free == NOWHERE || step.load < before.load);
    let (free, load) = if is_better { (step.free, step.load) } else { (before.free, before.load) };
    let rival = if before.rival == NOWHERE { step.rival } else { before.rival };
    Sought { free, load, rival, waits: before.waits || step.waits, ..step }
}

/// Searches a key in one of its buckets.
#[device]
fn examine<C: Config, M: Mode>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, candidate, own): (Wanted, u32, u32),
) -> Sought {
    let bucket = view.candidate(wanted.hashed, candidate);
    // SAFETY: a key's buckets are those of the table.
    let version = unsafe { view.version(bucket) };
    loop {
        let is_watched = M::IS_FINAL || !C::IS_SMALL;
        // mutation: early performance, because an older version differs from that of the second read, and the
        // bucket is read again.
        let before = if is_watched { version.load(Order::Acquire, Scope::Device) } else { 0 };
        let mut sought = read_bucket::<C, M>(view, keys, (wanted, bucket, own));
        sought.version = before;
        // No item moves within a bucket of small ones, so that a miss there needs no second look.
        let is_sure = C::IS_SMALL && sought.position == NOWHERE;
        if !is_watched || is_sure || recheck(version.load(Order::Relaxed, Scope::Device) == before) {
            return sought;
        }
        simt::spin_hint();
    }
}

/// Reads a bucket's fingerprints, and compares the keys of the slots whose fingerprints agree.
#[device]
fn read_bucket<C: Config, M: Mode>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, bucket, own): (Wanted, u32, u32),
) -> Sought {
    let (mut sought, mut taken, mut first) = (Sought::NOTHING, 0, 0);
    let depth = PersistentView::<C>::depth(bucket);
    let hash = wanted.hashed.fingerprint();
    // mutation: less equivalent, because a step reads eight slots, and their number is 4 or a multiple of 8.
    while first < bound(C::SLOTS) {
        let states = States::read::<C>(view, bucket, first);
        let base = bucket * C::SLOTS + first;
        let live = compare::<C, M>(view, keys, (wanted, base), states.items(hash) & !states.locked());
        let found = if live.0 == NOWHERE {
            compare::<C, M>(view, keys, (wanted, base), states.items(hash) & states.locked())
        } else {
            live
        };
        if live.0 != NOWHERE || sought.position == NOWHERE {
            (sought.position, sought.value) = found;
        }
        if M::PLACES {
            let free = states.free();
            taken += if C::SLOTS < 8 { C::SLOTS } else { 8 } - free.count_ones();
            if sought.free == NOWHERE && free != 0 {
                sought.free = base + slot_of(free);
            }
            let changing = if C::IS_SMALL { 0 } else { states.locked() };
            sought.waits |= (states.in_progress() | changing) != 0;
        }
        if M::CHECKS {
            let claims = without(states.claims(hash), own.wrapping_sub(base));
            if claims != 0 {
                sought.rival = base + slot_of(claims);
            }
            sought.waits |= comes_before(view, (states.aborted(hash), base), own);
        }
        first += 8;
    }
    if M::PLACES {
        // Slots of a higher level first: a lower bucket serves more keys, for which the others may be full.
        sought.load = taken + depth * C::SLOTS;
        if taken >= C::USABLE {
            sought.free = NOWHERE;
        }
    }
    sought
}

/// Returns whether a slot of a set comes before the slot `own`. `base` is the position of the set's first
/// slot.
#[device]
fn comes_before<C: Config>(view: PersistentView<C>, (mut set, base): (u32, u32), own: u32) -> bool {
    let mut is_before = false;
    while set != 0 {
        is_before |= view.rank(base + slot_of(set)) < view.rank(own);
        set &= set - 1;
    }
    is_before
}

/// Returns the position and the value of the slot of a set that has the key, or [`NOWHERE`]. `base` is the
/// position of the set's first slot.
#[device]
fn compare<C: Config, M: Mode>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, base): (Wanted, u32),
    mut set: u32,
) -> (u32, u64) {
    while set != 0 {
        let position = base + slot_of(set);
        let (is_same, value) = find_key::<C, M>(view, keys, (wanted, position));
        if is_same {
            return (position, value);
        }
        set &= set - 1;
    }
    (NOWHERE, 0)
}

//! Merging of the elements of a batch that have equal keys, by a hash table in scratch memory.
//!
//! ```text
//! slots    | 0 | 5 | 0 | 0 | 2 | ...    1 plus the index of the element that claimed the slot, or 0
//!
//! cache_claim    each element finds the slot of its key, or claims it; the element that claimed it, the
//!                owner, stands for the key, and counts the key's other elements
//! cache_number   each owner reserves a number for its key, and as many places as the key has elements
//! cache_place    the elements between a key's first and last one take the other places
//! ```
//!
//! The result is that of a sort: the distinct keys, and the elements by keys. Two differences: the keys are
//! in any order, and so are the elements of a key except the first and the last one.
//!
//! The batch may be one of several tables ([`Sections`]). Each section has its own keys, numbers and places,
//! from the index of its first element on.
//!
//! # Why a search ends with the right owner
//!
//! A slot changes only once, from 0 to its owner's number, by a compare-and-swap. So a slot that an element
//! has passed never gets its key: the slot's owner has another key. All elements with equal keys read the
//! same slots in the same order, and stop at the first one whose owner has their key. There are at least
//! twice as many slots as elements, so there always is one that is 0 or has this owner.
//!
//! # Cost
//!
//! Per element: a slot and a key in `cache_claim`, both at random addresses, and a word of output; a word in
//! `cache_number` and in `cache_place`. Lanes of a warp with equal keys search once. A key with several
//! elements costs three atomics per warp that has one of them.
use super::layout::NOWHERE;
use super::rows::{Chunk, CopyOut, RowSlice, move_rows};
use super::sections::{Section, Sections};
use super::view::Rows;
use crate::keyed::Outcome;
use crate::keyed::kernels::{read_if, write_if};
use crate::primitives::words::Moved;
use simt::hash::mix64;
use simt::{GlobalSlice, Instance, Order, Scope, Tile, Word, bound, device, kernel};

/// The keys of a batch, and the slots that they claim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClaimTable<K> {
    /// Keys of the elements.
    pub keys: GlobalSlice<K>,
    /// A power of two of words, at least twice as many as keys, all 0 before the first claim.
    pub slots: GlobalSlice<u32>,
}

/// Difference between the hashes of this module and those of tables, so that keys that share a bucket do not
/// share a slot.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a key of a section.
#[device]
fn hash_of<K: Word>(key: K, section: Section) -> u32 {
    mix64((key.widen() as u64 ^ SALT).wrapping_add((section.table as u64) << 40)) as u32
}

#[device]
impl<K: Word> ClaimTable<K> {
    /// Returns the owner of a key of the section. It is `index`, the caller's element, if no element with
    /// this key has claimed a slot before.
    pub(super) fn owner(self, section: Section, key: K, index: u32) -> u32 {
        let last = self.slots.len() - 1;
        let mut at = hash_of(key, section) as usize & last;
        loop {
            let slot = self.slots.at(at);
            // mutation: early equivalent, because a slot changes once, from 0: the compare-and-swap with a 0
            // that was overwritten fails, and returns the owner.
            let mut seen = slot.load(Order::Relaxed, Scope::Device);
            if seen == 0 {
                match slot.compare_exchange(0, index + 1, Order::Relaxed, Scope::Device) {
                    Ok(_) => return index,
                    Err(now) => seen = now,
                }
            }
            let other = seen - 1;
            if section.has(other) && self.keys.read(other as usize) == key {
                return other;
            }
            at = (at + 1) & last;
        }
    }
}

/// Notes of `cache_claim` on the elements, a word of each kind per element. All are zero before, except the
/// owners.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owners {
    /// The owner of the element's key.
    pub owners: GlobalSlice<u32>,
    /// For an owner: the number of other elements with the key. Later the key's next free place.
    pub others: GlobalSlice<u32>,
    /// For an owner: the complement of the lowest index of these elements.
    pub lowest: GlobalSlice<u32>,
    /// For an owner: the highest index of these elements.
    pub highest: GlobalSlice<u32>,
}

#[device(caller)]
impl Owners {
    /// Returns the indices of the first and the last element with the owner's key.
    fn ends(self, owner: u32, has_others: bool) -> (u32, u32) {
        if !has_others {
            return (owner, owner);
        }
        let (lowest, highest) = (self.lowest.read(owner as usize), self.highest.read(owner as usize));
        (if !lowest < owner { !lowest } else { owner }, if highest > owner { highest } else { owner })
    }
}

/// The elements of a batch by keys.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ByKeys<K> {
    /// The distinct keys of each section.
    pub keys: GlobalSlice<K>,
    /// For each of them, the last of its places. Its first place follows the last one of the key before.
    pub ends: GlobalSlice<u32>,
    /// Indices of the elements, by places.
    pub order: GlobalSlice<u32>,
    /// For each table, the number of places that are taken, in the low half, and that of distinct keys, in
    /// the high half.
    pub counts: GlobalSlice<u64>,
}

/// ClaimTable a slot for each distinct key, and counts its elements. A warp for 32 elements of a section.
#[kernel]
pub fn cache_claim<M: Moved + Instance>(claims: ClaimTable<M::Word>, found: Owners, sections: Sections) {
    let (warp, section) = (Tile::<32>::lockstep(), sections.of_warp(1));
    let index = section.index(1);
    let exists = index < bound(section.end);
    let key = read_if(claims.keys, index as usize, exists);
    // The lanes with the same hash, of which the first one searches for all that have its key.
    let same = warp.match_any(hash_of(key, section)) & warp.ballot(exists);
    let leader = if same == 0 { 0 } else { same.trailing_zeros() };
    let theirs = shuffle_key(warp, key, leader);
    let follows = exists && theirs == key;
    let same = same & warp.ballot(follows);
    let (rank, mut owner) = (warp.rank(), 0);
    let searches = exists && !(follows && leader != rank);
    if searches {
        owner = claims.owner(section, key, index);
        let group = if follows { same } else { 1 << rank };
        let first = index - rank;
        let others = group.count_ones() - (owner == index) as u32;
        if others > 0 {
            let (low, high) = (first + group.trailing_zeros(), first + 31 - group.leading_zeros());
            let place = owner as usize;
            found.others.at(place).fetch_add(others, Order::Relaxed, Scope::Device);
            found.lowest.at(place).fetch_max(!low, Order::Relaxed, Scope::Device);
            found.highest.at(place).fetch_max(high, Order::Relaxed, Scope::Device);
        }
    }
    let theirs = warp.shuffle(owner, leader);
    if exists {
        // mutation: late equivalent, because only later launches read the output.
        found.owners.write(index as usize, if searches { owner } else { theirs });
    }
}

/// Returns the key of lane `rank`.
#[device(caller)]
fn shuffle_key<K: Word>(warp: Tile<32>, key: K, rank: u32) -> K {
    let theirs = warp.shuffle(key.widen() as u64, rank);
    K::narrow(theirs as u128)
}

/// Number of elements that a thread of `cache_number` processes: fewer reservations.
pub const NUMBERED: u32 = 4;

/// Numbers the distinct keys of each section, reserves places for their elements, and places the first and
/// the last one of each. A thread for [`NUMBERED`] elements of a section.
#[kernel]
pub fn cache_number<M: Moved + Instance>(
    claims: ClaimTable<M::Word>,
    found: Owners,
    by_keys: ByKeys<M::Word>,
    sections: Sections,
) {
    let (warp, section) = (Tile::<32>::lockstep(), sections.of_warp(NUMBERED));
    let first = section.index(NUMBERED);
    let mut mine = 0u64;
    let mut each = 0;
    while each < bound(NUMBERED) {
        mine += needed(found, section, first + each);
        each += 1;
    }
    let mut next = reserve_places(warp, by_keys.counts, section, mine);
    let mut each = 0;
    while each < bound(NUMBERED) {
        let index = first + each;
        let needed = needed(found, section, index);
        if needed != 0 {
            let (number, place, len) = (next >> 32, next as u32, needed as u32);
            let base = section.first as usize;
            let (lowest, highest) = found.ends(index, len > 1);
            let at = base + number as usize;
            // mutation: late equivalent, because only later launches read the output.
            by_keys.keys.write(at, claims.keys.read(index as usize));
            // mutation: late equivalent, because only later launches read the output.
            by_keys.ends.write(at, place + len - 1);
            // mutation: late equivalent, because only later launches read the output.
            by_keys.order.write(base + place as usize, lowest);
            if len > 1 {
                // mutation: late equivalent, because only later launches read the output.
                by_keys.order.write(base + (place + len - 1) as usize, highest);
                // mutation: late equivalent, because only later launches read the output.
                found.others.write(index as usize, place + 1);
            }
        }
        next += needed;
        each += 1;
    }
}

/// Returns what an element reserves: if it is an owner, a number, in the high half, and a place for each
/// element with its key.
#[device(caller)]
fn needed(found: Owners, section: Section, index: u32) -> u64 {
    if index >= bound(section.end) || found.owners.read(index as usize) != index {
        return 0;
    }
    let others = found.others.at(index as usize).load(Order::Weak, Scope::Device);
    (1 << 32) + 1 + others as u64
}

/// Reserves numbers and places of the section for each lane, by one atomic per warp. Returns the lane's
/// first.
#[device]
fn reserve_places(warp: Tile<32>, counts: GlobalSlice<u64>, section: Section, mine: u64) -> u64 {
    let (mut sum, mut by) = (mine, 1);
    // mutation: less more equivalent, because distances are powers of two, and one of 32 is beyond all lanes.
    while by < bound(32) {
        let before = warp.shuffle_up(sum, by);
        if warp.rank() >= by {
            sum += before;
        }
        by *= 2;
    }
    let mut base = 0;
    if warp.rank() == 31 && sum != 0 {
        base = counts.at(section.table as usize).fetch_add(sum, Order::Relaxed, Scope::Device);
    }
    warp.shuffle(base, 31) + sum - mine
}

/// Places the elements that are neither the first nor the last one of their key. A warp for 32 elements of a
/// section.
#[kernel]
pub fn cache_place(found: Owners, order: GlobalSlice<u32>, sections: Sections) {
    let (warp, section) = (Tile::<32>::lockstep(), sections.of_warp(1));
    let index = section.index(1);
    // mutation: less equivalent, because the last element of a section is the last one of its key.
    let (exists, mut owner, mut is_inner) = (index < bound(section.end), index, false);
    if exists {
        owner = found.owners.read(index as usize);
        let (lowest, highest) = found.ends(owner, true);
        is_inner = index != lowest && index != highest && lowest != highest;
    }
    if !warp.any(is_inner) {
        return;
    }
    let same = warp.match_any(owner) & warp.ballot(is_inner);
    let (rank, leader) = (warp.rank(), if same == 0 { 0 } else { same.trailing_zeros() });
    let mut place = 0;
    if is_inner && rank == leader {
        place = found.others.at(owner as usize).fetch_add(same.count_ones(), Order::Relaxed, Scope::Device);
    }
    let place = warp.shuffle(place, leader) + (same & ((1 << rank) - 1)).count_ones();
    if is_inner {
        // mutation: late equivalent, because only later launches read the output.
        order.write((section.first + place) as usize, index);
    }
}

/// The elements of a merged batch by keys, and the outputs of all elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MergedBatch {
    /// Indices of the elements, by places.
    pub order: GlobalSlice<u32>,
    /// For each key, the last of its places.
    pub ends: GlobalSlice<u32>,
    /// Two words for each table, of which the second is the number of its keys.
    pub counts: GlobalSlice<u32>,
    /// An outcome for each key.
    pub merged: GlobalSlice<u8>,
    /// Outcome of the elements of a key that was placed, except the first one, which has the key's.
    pub present: u32,
    /// Number of words that a lane moves at once.
    pub chunk: Chunk,
    /// Output: an outcome for each element.
    pub outcomes: GlobalSlice<u8>,
    /// Output, if wanted: the rows of the elements. That of a key's last element is there before.
    pub rows: RowSlice,
    /// The same rows, by position.
    pub sources: Rows,
}

/// Passes the outcomes and rows of merged elements on to all of them. A warp for 32 elements of a section.
#[kernel]
pub fn cache_spread(sections: Sections, batch: MergedBatch) {
    let MergedBatch { order, ends, counts, merged, present, chunk, outcomes, rows, sources } = batch;
    let section = sections.of_warp(1);
    let (index, base) = (section.index(1), section.first as usize);
    let (mut element, mut source) = (0, NOWHERE);
    if index < section.end {
        let ends = ends.part(base, counts.read(2 * section.table as usize + 1) as usize);
        let place = index - section.first;
        let run = first_at_least(ends, place);
        let first = if run == 0 { 0 } else { ends.read(run - 1) + 1 };
        element = order.read(index as usize);
        let outcome = merged.read(base + run) as u32;
        let was_placed = outcome == Outcome::Inserted as u32 && place != first;
        // mutation: late equivalent, because only later launches read the output.
        write_if(outcomes, element as usize, if was_placed { present } else { outcome } as u8);
        let last = order.read(base + ends.read(run) as usize);
        if last != element {
            source = last;
        }
    }
    if !rows.is_empty() {
        move_rows(sources, chunk, Tile::lockstep(), (source, element), CopyOut::<false> { to: rows });
    }
}

/// Returns the index of the first word that is at least `least`, among ascending words of which the last one
/// is.
#[device]
fn first_at_least(words: GlobalSlice<u32>, least: u32) -> usize {
    let (mut low, mut high) = (0, words.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if words.read(middle) < least { low = middle + 1 } else { high = middle }
    }
    low
}

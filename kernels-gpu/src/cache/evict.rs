//! Eviction: tiles look for the key with the lowest score in the buckets of a key that found no free slot,
//! and the key's lane locks its slot.
use super::digest::{Digest, Digests, equal_bytes, taken_bytes};
use super::hashed::Hashed;
use super::layout::{DIGEST_WORDS, NOWHERE, SLOTS};
use super::summary::CLASSES;
use super::view::{CacheView, Config};
use crate::keyed::Scalar;
use simt::{Lockstep, Order, Scope, Tile, bound, device, recheck, share_work};

/// A slot that may be evicted.
#[derive(Clone, Copy)]
struct Victim<S> {
    /// Position of the slot; [`NOWHERE`] if every slot is locked.
    position: u32,
    score: S,
    /// The word of digests that was read for the slot.
    seen: u32,
    /// Whether a slot of the bucket is locked.
    is_locked: bool,
}

/// Result of the eviction for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// The slot of this position is locked. Its key is to be evicted.
    Locked(u32),
    /// All keys of the buckets have higher scores, or leases hold their rows.
    Refused,
    /// Other tiles changed the slot that was chosen, or have locked all slots.
    Failed,
}

/// Evicts a key for each lane that `wants` a slot: the key with the lowest score in the lane's buckets,
/// unless that is above the lane's score, which `score` returns. Of lanes with the same bucket, it serves
/// one, since they would choose the same key.
#[device]
pub(super) fn evict<C: Config>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    wants: bool,
    hashed: Hashed,
    score: impl Fn() -> C::Score,
) -> Eviction {
    let buckets = [0, 1].map(|choice| hashed.bucket(choice, view.buckets()));
    let peers = warp.match_any(if wants { buckets[0] } else { NOWHERE });
    let is_served = wants && peers.trailing_zeros() == warp.rank();
    let victim = if view.summary().exists() {
        victims(view, Tile::<SUMMARY_LANES>::lockstep(), is_served, buckets, lowest_of_class)
    } else {
        victims(view, warp, is_served, buckets, lowest)
    };
    if is_served { take(view, victim, score()) } else { Eviction::Failed }
}

/// Returns the victim of each lane that `wants` one. `lowest` shows a tile the lowest key of a bucket, if it
/// is active. A tile serves one lane after the other.
#[device(caller)]
fn victims<C: Config, const W: u32>(
    view: CacheView<C>,
    tile: Tile<W, Lockstep>,
    wants: bool,
    buckets: [u32; 2],
    lowest: impl Fn(CacheView<C>, Tile<W, Lockstep>, u32, bool) -> Victim<C::Score>,
) -> Victim<C::Score> {
    let mut mine = Victim::NONE;
    share_work(tile, wants, |turn| {
        let (mut victim, mut choice) = (Victim::NONE, 0);
        while choice < bound(view.choices()) {
            let bucket = turn.from_owner(if choice == 0 { buckets[0] } else { buckets[1] });
            victim = victim.or(lowest(view, tile, bucket, turn.is_active()));
            choice += 1;
        }
        if turn.is_mine() {
            mine = victim;
        }
        true
    });
    mine
}

#[device]
impl<S: Scalar> Victim<S> {
    const NONE: Self = Self { position: NOWHERE, score: S::MAX, seen: 0, is_locked: false };

    /// Returns the victim with the lower score.
    fn or(self, other: Self) -> Self {
        let is_lower = other.position != NOWHERE && other.score < self.score;
        let lower = if is_lower || self.position == NOWHERE { other } else { self };
        Self { is_locked: self.is_locked || other.is_locked, ..lower }
    }
}

/// Locks the slot of a victim for a key of this score.
#[device]
fn take<C: Config>(view: CacheView<C>, victim: Victim<C::Score>, score: C::Score) -> Eviction {
    let Victim { position, seen, .. } = victim;
    if position == NOWHERE {
        // A slot that is locked will be released; a leased one may stay.
        return if victim.is_locked { Eviction::Failed } else { Eviction::Refused };
    }
    if score < victim.score {
        return Eviction::Refused;
    }
    let digest = Digest::in_word(seen, position % 4);
    // SAFETY: the position is that of a slot that was read; it is released only if it was locked here.
    unsafe {
        if !view.lock(position, digest, seen) {
            return Eviction::Failed;
        }
        // Meanwhile another tile may have used the key, or evicted it and placed one with the same digest.
        // mutation: weak block equivalent, because the lock has acquired the writes of the last holder, and
        // nobody else writes to the slot until the release.
        let is_same = view.score(position).load(Order::Relaxed, Scope::Device) == victim.score;
        if !recheck(is_same) {
            // mutation: relaxed equivalent, because the lane has written nothing, and its two updates of the
            // word pass the release of the last holder on.
            view.release(position, digest);
            return Eviction::Failed;
        }
    }
    Eviction::Locked(position)
}

/// Number of slots whose scores a lane reads.
const EACH: usize = (SLOTS / 32) as usize;

/// Returns the slot with the lowest score of a bucket among those that have a key and are not locked, in all
/// lanes.
#[device]
fn lowest<C: Config>(view: CacheView<C>, warp: Tile<32, Lockstep>, bucket: u32, _: bool) -> Victim<C::Score> {
    let first = bucket * SLOTS + warp.rank() * EACH as u32;
    // SAFETY: the lane's word of digests and its scores are those of the bucket's slots.
    let (seen, scores) = unsafe {
        let seen = view.digest_word(bucket * SLOTS + warp.rank() * (SLOTS / DIGEST_WORDS));
        // mutation: early equivalent, because the lock compares the digest with the word in memory, and
        // `take` the score of the victim. Changes of other slots are not ordered before this read.
        (seen.load(Order::Relaxed, Scope::Device), view.four_scores(first))
    };
    let (leased, mut is_locked) = (view.leased(first, 4), false);
    let (mut best, mut score, mut slot) = (NOWHERE, C::Score::MAX, 0);
    while slot < bound(EACH as u32) as usize {
        let digest = Digest::in_word(seen, slot as u32);
        let may = digest.has_key() && leased >> slot & 1 == 0;
        is_locked |= !digest.has_key();
        if may && (best == NOWHERE || scores[slot] < score) {
            (best, score) = (first + slot as u32, scores[slot]);
        }
        slot += 1;
    }
    let (rank, is_locked) = (lowest_rank(warp, best != NOWHERE, score), warp.any(is_locked));
    let ((position, seen), score) = warp.shuffle(((best, seen), score), rank);
    Victim { position, score, seen, is_locked }
}

/// Number of lanes that look for a victim by the summary: each reads the classes of 16 slots.
const SUMMARY_LANES: u32 = 8;

/// Number of words of digests, and of classes, that such a lane reads.
const WORDS: usize = (DIGEST_WORDS / SUMMARY_LANES) as usize;

/// The slots of a lane that have the lowest class among its slots.
#[derive(Clone, Copy)]
struct Class {
    /// The class; [`CLASSES`] if no slot may be evicted.
    class: u32,
    /// A bit for each slot of the class.
    slots: u32,
    /// Whether a slot is locked.
    is_locked: bool,
}

/// [`lowest`] by the summary of the scores, for a tile that reads the whole line of classes.
#[device]
fn lowest_of_class<C: Config>(
    view: CacheView<C>,
    tile: Tile<SUMMARY_LANES, Lockstep>,
    bucket: u32,
    active: bool,
) -> Victim<C::Score> {
    let first = bucket * SLOTS + tile.rank() * 16;
    // SAFETY: the bucket is one of the table.
    let (digests, classes) = unsafe {
        // mutation: early equivalent, because the lock compares the digest with the word in memory. Changes
        // of other slots are not ordered before this read.
        let digests = view.read::<WORDS>(bucket * DIGEST_WORDS, (tile.rank(), SUMMARY_LANES), active);
        (digests, view.summary().read(first, active))
    };
    let leased = if active { view.leased(first, 16) } else { 0 };
    let mine = lowest_class(&digests, &classes, leased);
    let class = tile.reduce_min(if active { mine.class } else { CLASSES as u32 });
    let slots = if mine.class == class && class < CLASSES as u32 { mine.slots } else { 0 };
    let (position, score) = match view.summary().only_score(class) {
        _ if slots == 0 => (NOWHERE, C::Score::MAX),
        // If the class is not that of the slot's score, the victim's lock will tell.
        Some(only) => (first + slots.trailing_zeros(), only),
        None => lowest_of(view, first, (slots, class)),
    };
    let rank = lowest_rank(tile, position != NOWHERE, score);
    // A slot whose class another tile changes is as one that it has locked.
    let is_locked = tile.any(active && (mine.is_locked || (slots != 0 && position == NOWHERE)));
    let seen = digests.word(position % 16 / 4);
    let ((position, seen), score) = tile.shuffle(((position, seen), score), rank);
    Victim { position, score, seen, is_locked }
}

/// Returns the slot with the lowest score among those whose bits are set, from the position `first` on, or
/// [`NOWHERE`]. Leaves slots out whose score is above the class.
#[device]
fn lowest_of<C: Config>(view: CacheView<C>, first: u32, (mut slots, class): (u32, u32)) -> (u32, C::Score) {
    let (mut best, mut score) = (NOWHERE, C::Score::MAX);
    while slots != 0 {
        let position = first + slots.trailing_zeros();
        // SAFETY: the position is that of a slot of the bucket.
        // mutation: early equivalent, because `take` compares the score of the victim again, and changes of
        // other slots are not ordered before this read.
        let own = unsafe { view.score(position) }.load(Order::Relaxed, Scope::Device);
        let is_fresh = recheck(!view.summary().is_above(class, own));
        if is_fresh && (best == NOWHERE || own < score) {
            (best, score) = (position, own);
        }
        slots &= slots - 1;
    }
    (best, score)
}

/// Returns the slots with the lowest class among those of a lane that may be evicted. `leased` has a bit for
/// each.
#[device]
fn lowest_class(digests: &Digests<WORDS>, classes: &[u32; WORDS], leased: u32) -> Class {
    let (mut found, mut word) = (Class { class: CLASSES as u32, slots: 0, is_locked: false }, 0);
    while word < bound(WORDS as u32) as usize {
        let taken = taken_bytes(digests.words[word]);
        found.is_locked |= taken != TOP_BITS;
        let may = taken & !(spread(leased >> (4 * word)) << 7);
        let class = lowest_byte(classes[word], may);
        if class <= found.class {
            let slots = gather((equal_bytes(classes[word], class) & may) >> 7) << (4 * word);
            found.slots = if class < found.class { slots } else { found.slots | slots };
            found.class = class;
        }
        word += 1;
    }
    found
}

/// Returns the lowest of those bytes of a word whose top bits are set in `wanted`; 256 or more if none is.
#[device]
fn lowest_byte(word: u32, wanted: u32) -> u32 {
    let others = wanted ^ TOP_BITS;
    // Halves of 16 bits with a byte each, and a bit above it if it is not wanted.
    let even = word & 0x00ff_00ff | others << 1 & 0x0100_0100;
    let odd = word >> 8 & 0x00ff_00ff | others >> 7 & 0x0100_0100;
    (even & 0xffff).min(even >> 16).min(odd & 0xffff).min(odd >> 16)
}

/// The top bits of a word's bytes.
const TOP_BITS: u32 = 0x8080_8080;

/// Returns a word whose bytes are the lowest four bits.
#[device]
fn spread(bits: u32) -> u32 {
    // The product has bit `i` at `i`, `i + 7`, `i + 14` and `i + 21`: bit `i` comes to byte `i`.
    (bits & 0xf).wrapping_mul(0x0020_4081) & 0x0101_0101
}

/// Returns the bits of a word whose bytes are 0 or 1, as the lowest four.
#[device]
fn gather(bytes: u32) -> u32 {
    bytes.wrapping_mul(0x0102_0408) >> 24
}

/// Returns the rank of a lane with the lowest score among those that `have` one; of any lane if none has.
#[device(caller)]
pub(super) fn lowest_rank<S: Scalar, const W: u32>(tile: Tile<W, Lockstep>, has: bool, score: S) -> u32 {
    let score = score.to_u64();
    let (high, low) = ((score >> 32) as u32, score as u32);
    let mut leads = has;
    if S::BITS > 32 {
        let lowest = tile.reduce_min(if has { high } else { u32::MAX });
        leads = has && high == lowest;
    }
    let lowest = tile.reduce_min(if leads { low } else { u32::MAX });
    tile.ballot(leads && low == lowest).trailing_zeros() % W
}

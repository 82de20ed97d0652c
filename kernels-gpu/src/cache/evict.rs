//! Eviction: the warp looks for the key with the lowest score in the buckets of a key that found no free
//! slot, and locks its slot.
use super::digest::Digest;
use super::hashed::Hashed;
use super::view::{CacheView, Config, DIGEST_WORDS, NOWHERE, SLOTS};
use crate::keyed::{Chunk, Scalar};
use simt::{Lockstep, Order, Scope, Tile, device};

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
/// unless that is above the lane's `score`. The warp serves one lane after the other.
#[device]
pub(super) fn evict<C: Config>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    wants: bool,
    (hashed, score): (Hashed, C::Score),
) -> Eviction {
    let (mut queue, mut mine) = (warp.ballot(wants), Eviction::Failed);
    let buckets = [0, 1].map(|choice| hashed.bucket(choice, view.buckets()));
    while queue != 0 {
        let owner = queue.trailing_zeros();
        let mut victim = lowest(view, warp, warp.shuffle(buckets[0], owner));
        if view.choices() > 1 {
            let other = lowest(view, warp, warp.shuffle(buckets[1], owner));
            let is_lower = other.position != NOWHERE && other.score < victim.score;
            let is_locked = victim.is_locked || other.is_locked;
            victim = if is_lower || victim.position == NOWHERE { other } else { victim };
            victim.is_locked = is_locked;
        }
        if warp.rank() == owner {
            mine = take(view, victim, score);
        }
        queue &= queue - 1;
    }
    mine
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
        if view.score(position).load(Order::Relaxed, Scope::Device) != victim.score {
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
fn lowest<C: Config>(view: CacheView<C>, warp: Tile<32, Lockstep>, bucket: u32) -> Victim<C::Score> {
    let first = bucket * SLOTS + warp.rank() * EACH as u32;
    // SAFETY: the lane's word of digests and its scores are those of the bucket's slots.
    let (seen, scores) = unsafe {
        let seen = view.digest_word(bucket * SLOTS + warp.rank() * (SLOTS / DIGEST_WORDS));
        (seen.load(Order::Relaxed, Scope::Device), four_scores(view, first))
    };
    let (leased, mut is_locked) = (view.leased(first), false);
    let (mut best, mut score, mut slot) = (NOWHERE, C::Score::MAX, 0);
    while slot < EACH {
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

/// Loads the scores of four slots from the position `first` on, 16 bytes at once.
///
/// # Safety
/// - The positions are those of slots of the table, and `first` is a multiple of four.
#[device(caller)]
pub(super) unsafe fn four_scores<C: Config>(view: CacheView<C>, first: u32) -> [C::Score; EACH] {
    let each = 128 / C::Score::BITS as usize;
    let (mut scores, mut slot) = ([C::Score::MAX; EACH], 0);
    while slot < EACH {
        // SAFETY: the caller's obligation; scores are aligned to 128 bytes.
        let chunk = unsafe {
            let place = view.score(first + slot as u32);
            <C::Score as Scalar>::Chunk::load_if(place, true, Order::Relaxed)
        };
        let mut i = 0;
        while i < each {
            scores[slot + i] = chunk.word(i);
            i += 1;
        }
        slot += each;
    }
    scores
}

/// Returns the rank of a lane with the lowest score among those that `have` one; of any lane if none has.
#[device(caller)]
pub(super) fn lowest_rank<S: Scalar>(warp: Tile<32, Lockstep>, has: bool, score: S) -> u32 {
    let score = score.to_u64();
    let (high, low) = ((score >> 32) as u32, score as u32);
    let mut leads = has;
    if S::BITS > 32 {
        let lowest = warp.reduce_min(if has { high } else { u32::MAX });
        leads = has && high == lowest;
    }
    let lowest = warp.reduce_min(if leads { low } else { u32::MAX });
    warp.ballot(leads && low == lowest).trailing_zeros() % 32
}

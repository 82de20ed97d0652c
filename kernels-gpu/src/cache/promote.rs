//! Promotion: keys with high scores move to the slots of their bucket whose rows are near.
//!
//! A key may move within its bucket if the bucket has no EMPTY slot, since then no search ends before it has
//! read all sectors. Nothing else uses the table meanwhile.
use super::digest::{Digest, Digests};
use super::evict::lowest_rank;
use super::layout::{NOWHERE, SLOTS};
use super::view::{CacheView, Config};
use crate::keyed::Scalar;
use simt::{Global, Lockstep, Order, Scope, Tile, device};

/// The slots of a bucket that a lane has read.
#[derive(Clone, Copy)]
struct Four<S> {
    first: u32,
    digests: u32,
    scores: [S; 4],
    leased: u32,
}

/// A slot of a bucket, the same in all lanes; [`NOWHERE`] if there is none.
#[derive(Clone, Copy)]
struct Chosen<S> {
    position: u32,
    score: S,
    has_key: bool,
}

/// Exchanges the key with the highest score whose row is far for that with the lowest score whose row is
/// near, or moves it to a near slot whose key was removed. Returns whether a key has moved: it does not if
/// the far one has no higher score, or one below `least`.
#[device]
pub(super) fn promote_one<C: Config>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    bucket: u32,
    least: C::Score,
) -> bool {
    let first = bucket * SLOTS + warp.rank() * 4;
    // SAFETY: the lane's slots are those of the bucket.
    let (digests, scores) = unsafe {
        let digests = view.digest_word(first).load(Order::Relaxed, Scope::Device);
        (digests, view.four_scores(first))
    };
    let four = Four { first, digests, scores, leased: view.leased(first, 4) };
    let has_empty = warp.any(!Digests { words: [digests] }.equal_to(Digest::EMPTY).is_empty());
    let near_slots = view.rows().near_slots();
    let near = choose::<C, false>(warp, four, |position| position % SLOTS < near_slots);
    let far = choose::<C, true>(warp, four, |position| position % SLOTS >= near_slots);
    let exists = near.position != NOWHERE && far.position != NOWHERE;
    let is_higher = far.score >= least && (!near.has_key || far.score > near.score);
    let pays = exists && !has_empty && is_higher;
    if pays {
        exchange(view, warp, (near.position, near.has_key), far.position);
    }
    // The next step reads what the lanes have written.
    warp.sync();
    pays
}

/// Returns the slot with the highest score, or with the lowest one, among those that are `wanted`, have a key
/// and are not leased. If the lowest is asked for, a slot whose key was removed is lower than all.
#[device]
fn choose<C: Config, const HIGHEST: bool>(
    warp: Tile<32, Lockstep>,
    four: Four<C::Score>,
    wanted: impl Fn(u32) -> bool,
) -> Chosen<C::Score> {
    let (mut best, mut rank_of_best, mut score, mut slot) = (NOWHERE, C::Score::MAX, C::Score::MAX, 0);
    while slot < 4 {
        let position = four.first + slot as u32;
        let digest = Digest::in_word(four.digests, slot as u32);
        let is_hole = !HIGHEST && digest == Digest::ERASED;
        let may = wanted(position) && (digest.has_key() || is_hole) && four.leased >> slot & 1 == 0;
        // The lowest number is chosen: the score, its complement, or 0 for a hole.
        let own = four.scores[slot];
        let number = if HIGHEST { own ^ C::Score::MAX } else { own };
        let number = if is_hole { C::Score::default() } else { number };
        if may && (best == NOWHERE || number < rank_of_best) {
            (best, rank_of_best, score) = (position, number, own);
        }
        slot += 1;
    }
    let rank = lowest_rank(warp, best != NOWHERE, rank_of_best);
    let has_key = best != NOWHERE && Digest::in_word(four.digests, best % 4).has_key();
    let ((position, has_key), score) = warp.shuffle(((best, has_key), score), rank);
    Chosen { position, score, has_key }
}

/// Exchanges two slots, or moves the far one to the near one, if that has no key.
#[device]
fn exchange<C: Config>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    (near, near_has_key): (u32, bool),
    far: u32,
) {
    // SAFETY: the positions are those of slots that were read, and nothing else uses the table.
    unsafe {
        if warp.rank() == 0 {
            swap(view.key(near), view.key(far));
            swap(view.score(near), view.score(far));
            for position in [near, far] {
                view.summary().note(position, view.score(position).load(Order::Relaxed, Scope::Device));
            }
            let [a, b] = [near, far].map(|position| view.digest_word(position));
            let digest = |word: Global<u32>, position: u32| {
                Digest::in_word(word.load(Order::Relaxed, Scope::Device), position % 4)
            };
            let (of_near, of_far) = (digest(a, near), digest(b, far));
            let put = |word: Global<u32>, position: u32, digest: Digest| {
                let digests = word.load(Order::Relaxed, Scope::Device);
                word.store(digest.put_in(digests, position % 4), Order::Relaxed, Scope::Device);
            };
            put(a, near, of_far);
            put(b, far, of_near);
        }
        let (a, b) = (view.rows().of(near), view.rows().of(far));
        let mut word = warp.rank() as usize;
        while word < view.rows().words() as usize {
            if near_has_key {
                swap(a.offset(word), b.offset(word));
            } else {
                a.offset(word).store(
                    b.offset(word).load(Order::Relaxed, Scope::Device),
                    Order::Relaxed,
                    Scope::Device,
                );
            }
            word += 32;
        }
    }
}

/// Exchanges two words.
#[device]
fn swap<T: simt::Word>(a: Global<T>, b: Global<T>) {
    let old = a.load(Order::Relaxed, Scope::Device);
    a.store(b.load(Order::Relaxed, Scope::Device), Order::Relaxed, Scope::Device);
    b.store(old, Order::Relaxed, Scope::Device);
}

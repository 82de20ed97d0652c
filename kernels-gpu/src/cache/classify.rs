//! Entry points that fit the classes of a [summary](super::summary) to the scores of the table:
//! [`cache_sample`], a sort of the samples, [`cache_set_bounds`] and [`cache_classify`].
//!
//! # Cost
//!
//! [`cache_sample`] reads a digest and a score for each sample, [`cache_set_bounds`] 255 samples, and
//! [`cache_classify`] all scores; it writes a byte per slot. A class is found in eight steps of a binary
//! search, which read the bounds from the L1 cache.
use super::digest::Digest;
use super::layout::SLOTS;
use super::summary::CLASSES;
use super::view::{CacheView, Config};
use crate::keyed::Scalar;
use simt::hash::{mix64, reduce};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, kernel};

/// Writes a score from each of as many buckets as there are `samples`, spread over the table; the maximum for
/// a slot without a key. A thread for each sample.
#[kernel]
pub fn cache_sample<C: Config + Instance>(view: CacheView<C>, samples: GlobalSlice<C::Score>) {
    let index = Thread::index();
    if index >= samples.len() {
        return;
    }
    let bucket = (index as u64 * view.buckets() as u64 / samples.len() as u64) as u32;
    let position = bucket * SLOTS + reduce(mix64(index as u64) as u32, SLOTS);
    // SAFETY: the position is that of a slot.
    let (digests, score) = unsafe { (view.digest_word(position), view.score(position)) };
    let digest = Digest::in_word(digests.load(Order::Relaxed, Scope::Device), position % 4);
    let score = score.load(Order::Relaxed, Scope::Device);
    samples.write(index, if digest.has_key() { score } else { C::Score::MAX });
}

/// Sets the bounds of the classes to quantiles of sorted samples. A thread for each bound.
#[kernel]
pub fn cache_set_bounds<C: Config + Instance>(view: CacheView<C>, samples: GlobalSlice<C::Score>) {
    let (index, bounds) = (Thread::index(), view.summary().bounds);
    if index < bounds.len() {
        bounds.write(index, samples.read((index + 1) * samples.len() / CLASSES));
    }
}

/// Writes the classes of all slots. A thread for four slots. Nothing may change the table meanwhile.
#[kernel]
pub fn cache_classify<C: Config + Instance>(view: CacheView<C>) {
    let first = 4 * Thread::index() as u64;
    if first < view.buckets() as u64 * SLOTS as u64 {
        // SAFETY: the positions are those of slots of the table.
        unsafe { view.summary().note_four(first as u32, view.four_scores(first as u32)) };
    }
}

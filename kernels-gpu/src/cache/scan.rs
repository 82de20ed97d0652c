//! Scans of a table: the keys that a predicate selects are counted, copied or removed; keys with high scores
//! come near.
//!
//! A warp reads a bucket after the other, four slots a lane.
//!
//! ```
//! use phalanx_kernels::cache::scan::{count_selected, export_selected, remove_selected};
//! use phalanx_kernels::cache::{BuiltIn, Cache, CacheView, Chunk, Evicted, Select, Span};
//! use simt::{GlobalSlice, kernel};
//!
//! /// Selects keys whose score is a multiple of a number.
//! #[derive(Clone, Copy, Debug)]
//! struct Multiples(u64);
//!
//! impl Select<u64, u64> for Multiples {
//!     fn selects(self, _key: u64, score: u64) -> bool {
//!         score.is_multiple_of(self.0)
//!     }
//!
//!     fn reads_keys(self) -> bool {
//!         false
//!     }
//! }
//!
//! type View = CacheView<Cache<u64, u64, BuiltIn, 8, 4>>;
//!
//! #[kernel]
//! fn count_multiples(view: View, of: u64, count: GlobalSlice<u64>) {
//!     count_selected(view, Multiples(of), count);
//! }
//!
//! #[kernel]
//! fn export_multiples(view: View, of: u64, to: Evicted<u64, u64>) {
//!     export_selected(view, Span { first: 0, count: u32::MAX }, Multiples(of), to, Chunk::One);
//! }
//!
//! #[kernel]
//! fn remove_multiples(view: View, of: u64, count: GlobalSlice<u64>) {
//!     remove_selected(view, Multiples(of), count);
//! }
//! ```
//!
//! # Cost
//!
//! A scan reads the digests of its buckets, and the keys and scores of taken slots if the predicate reads
//! them. An export also reads and writes what it returns, with four atomics a bucket for the places in its
//! output. A removal writes the word of digests of each key that it removes. `promote` reads the digests and
//! scores of every bucket, again for each key that it moves.
use super::action::{Evicted, reserve};
use super::digest::Digest;
use super::filter::{Filter, Select};
use super::layout::{NOWHERE, SLOTS};
use super::promote::promote_one;
use super::rows::{Chunk, CopyOut, move_rows};
use super::view::{CacheView, Config};
use crate::keyed::kernels::{add_up, write_if};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Neighbouring buckets.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first bucket.
    pub first: u32,
    /// Number of buckets. Those beyond the table's last one are left out.
    pub count: u32,
}

#[device]
impl Span {
    /// Returns all buckets of a table.
    fn whole<C: Config>(view: CacheView<C>) -> Self {
        Self { first: 0, count: view.buckets() }
    }

    /// Returns the part of the span that the table has.
    fn within<C: Config>(self, view: CacheView<C>) -> Self {
        let rest = view.buckets().saturating_sub(self.first);
        Self { first: self.first, count: self.count.min(rest) }
    }
}

/// Shows each warp its buckets, one after the other.
#[device(caller)]
fn each_bucket(span: Span, mut see: impl FnMut(u32)) {
    let (mut index, warps) = ((Thread::index() / 32) as u32, (Thread::count() / 32) as u32);
    while index < span.count {
        see(span.first + index);
        index += warps;
    }
}

/// Shows each warp the slots of its buckets, a bucket after the other and four slots a lane, one after the
/// other: its position, and whether it has a key that is selected.
#[device(caller)]
fn each_slot<C: Config, P: Select<C::Key, C::Score>>(
    view: CacheView<C>,
    span: Span,
    select: P,
    mut see: impl FnMut(u32, bool),
) {
    let warp = Tile::<32>::lockstep();
    each_bucket(span.within(view), |bucket| {
        let first = bucket * SLOTS + warp.rank() * 4;
        // SAFETY: the positions are those of the bucket's slots.
        let digests = unsafe { view.digest_word(first) }.load(Order::Relaxed, Scope::Device);
        let mut slot = 0;
        while slot < 4 {
            let has_key = Digest::in_word(digests, slot).has_key();
            see(first + slot, has_key && is_selected(view, first + slot, select));
            slot += 1;
        }
    });
}

/// Returns whether the key of a taken slot is selected.
#[device]
fn is_selected<C: Config, P: Select<C::Key, C::Score>>(view: CacheView<C>, position: u32, select: P) -> bool {
    let (mut key, mut score) = (C::Key::default(), C::Score::default());
    if select.reads_keys() {
        // SAFETY: the position is that of a slot.
        key = unsafe { view.key(position) }.load(Order::Relaxed, Scope::Device);
    }
    if select.reads_scores() {
        // SAFETY: as above.
        score = unsafe { view.score(position) }.load(Order::Relaxed, Scope::Device);
    }
    select.selects(key, score)
}

/// Adds the number of keys that `select` selects to `count`. Called by whole warps, any number of them.
/// Nothing may change the table meanwhile.
#[device]
pub fn count_selected<C: Config, P: Select<C::Key, C::Score>>(
    view: CacheView<C>,
    select: P,
    count: GlobalSlice<u64>,
) {
    let mut many = 0;
    each_slot(view, Span::whole(view), select, |_, is_chosen| many += is_chosen as u32);
    add_up(count.at(0), many);
}

/// Writes the keys in a span of buckets that `select` selects, their scores and their rows, and their number
/// to `output.count`, which is zero before. An output that is not wanted is empty. Keys that do not fit are
/// counted and left out. Called by whole warps, any number of them. Nothing may change the table meanwhile.
#[device]
pub fn export_selected<C: Config, P: Select<C::Key, C::Score>>(
    view: CacheView<C>,
    span: Span,
    select: P,
    output: Evicted<C::Key, C::Score>,
    chunk: Chunk,
) {
    let warp = Tile::<32>::lockstep();
    each_slot(view, span, select, |position, is_chosen| {
        let index = reserve(warp, output.count, is_chosen);
        if is_chosen {
            // SAFETY: the position is that of a slot.
            let (key, score) = unsafe { (view.key(position), view.score(position)) };
            write_if(output.keys, index as usize, key.load(Order::Relaxed, Scope::Device));
            write_if(output.scores, index as usize, score.load(Order::Relaxed, Scope::Device));
        }
        if !output.rows.is_empty() {
            let fits = is_chosen && (index as usize) < output.keys.len();
            let position = if fits { position } else { NOWHERE };
            move_rows(view.rows(), chunk, warp, (position, index), CopyOut::<false> { to: output.rows });
        }
    });
}

/// Removes the keys that `select` selects and whose rows are not leased, and adds their number to `count`.
/// Called by whole warps, any number of them. Nothing may use the table meanwhile.
#[device]
pub fn remove_selected<C: Config, P: Select<C::Key, C::Score>>(
    view: CacheView<C>,
    select: P,
    count: GlobalSlice<u64>,
) {
    let mut many = 0;
    each_slot(view, Span::whole(view), select, |position, is_chosen| {
        let is_chosen = is_chosen && !view.is_leased(position);
        if is_chosen {
            // SAFETY: the position is that of a slot, whose word this lane alone changes.
            let word = unsafe { view.digest_word(position) };
            let digests = word.load(Order::Relaxed, Scope::Device);
            word.store(Digest::ERASED.put_in(digests, position % 4), Order::Relaxed, Scope::Device);
        }
        many += is_chosen as u32;
    });
    add_up(count.at(0), many);
}

/// [`count_selected`] for a filter.
#[kernel]
pub fn cache_count<C: Config + Instance>(
    view: CacheView<C>,
    filter: Filter<C::Key, C::Score>,
    count: GlobalSlice<u64>,
) {
    count_selected(view, filter, count);
}

/// [`export_selected`] for a filter.
#[kernel]
pub fn cache_export<C: Config + Instance>(
    view: CacheView<C>,
    span: Span,
    filter: Filter<C::Key, C::Score>,
    output: Evicted<C::Key, C::Score>,
    chunk: Chunk,
) {
    export_selected(view, span, filter, output, chunk);
}

/// [`remove_selected`] for a filter.
#[kernel]
pub fn cache_remove_if<C: Config + Instance>(
    view: CacheView<C>,
    filter: Filter<C::Key, C::Score>,
    count: GlobalSlice<u64>,
) {
    remove_selected(view, filter, count);
}

/// Moves keys with scores of `least` or more to slots whose rows are near: at most `most` keys in each
/// bucket. Adds the number of keys that moved to `count`. Any number of whole warps. Nothing may use the
/// table meanwhile.
#[kernel]
pub fn cache_promote<C: Config + Instance>(
    view: CacheView<C>,
    most: u32,
    least: C::Score,
    count: GlobalSlice<u64>,
) {
    let (warp, mut many) = (Tile::<32>::lockstep(), 0);
    each_bucket(Span::whole(view), |bucket| {
        let mut moves = 0;
        while moves < most && promote_one(view, warp, bucket, least) {
            moves += 1;
        }
        many += moves;
    });
    if warp.rank() == 0 && many > 0 {
        count.at(0).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }
}

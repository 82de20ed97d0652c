//! Changes of slots: the one loop by which a warp places, updates and removes the keys of its elements.
//!
//! ```text
//! while an element of the warp is not done
//!     search the keys                                            tiles, an element each
//!     lock the slots: those of the keys, or free ones            a lane for each element
//!     evict for the elements that found no free slot             tiles, an element each; up to three times
//!     write keys and scores                                      a lane for each element
//!     move the rows                                              the warp, 16 bytes a lane
//!     release the slots
//! ```
//!
//! No lane waits while it holds a lock: an element whose slot is locked by another tile tries again in the
//! next iteration, when the warp has released its own slots.
use super::digest::Digest;
use super::evict::{Eviction, evict};
use super::hashed::Hashed;
use super::layout::NOWHERE;
use super::mode::{End, Mode, Sought};
use super::policy::{Scoring, Time};
use super::rows::{Chunk, Mover, RowSlice, move_rows};
use super::versions::{begin_write, end_write, order_versions};
use super::view::{CacheView, Config};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{Outcome, Scalar};
use simt::{BoundedSlice, GlobalSlice, Lockstep, Order, Scope, Thread, Tile, bound, device, recheck};

/// Elements that change the table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Changes<K, S> {
    /// Keys, all distinct.
    pub keys: BoundedSlice<K>,
    /// A score for each element, or empty.
    pub scores: GlobalSlice<S>,
    /// A row for each element, or empty.
    pub rows: RowSlice,
    /// Output: an outcome for each key, if wanted.
    pub outcomes: GlobalSlice<u8>,
    /// If elements with equal keys were merged: for each key, the last of its places in `order`. Its first
    /// place follows the last one of the key before. Otherwise empty: each key is an element.
    pub ends: GlobalSlice<u32>,
    /// Indices of the elements, those with equal keys next to each other, in the order of the batch.
    pub order: GlobalSlice<u32>,
    /// Time of the batch.
    pub time: Time,
    /// Parameter of the score policy, or [`EXACTLY`](super::EXACTLY).
    pub parameter: u32,
    /// Number of words that a lane moves at once.
    pub chunk: Chunk,
}

/// The element or the merged elements of a lane.
#[derive(Clone, Copy)]
pub(super) struct Change<C: Config> {
    key: C::Key,
    given: C::Score,
    /// First and last place in the batch's order, or the index of the element.
    pub(super) places: (u32, u32),
    /// Index of the row.
    pub(super) row: u32,
}

#[device]
impl<K: Scalar, S: Scalar> Changes<K, S> {
    /// Returns whether the calling thread has an element.
    fn exists(&self) -> bool {
        Thread::index() < self.keys.resolve().len()
    }

    /// Returns the change of the calling thread.
    fn change<C: Config<Key = K, Score = S>>(&self) -> Change<C> {
        let (keys, index) = (self.keys.resolve(), Thread::index());
        let exists = index < keys.len();
        let key = read_if(keys, index, exists);
        let index = index as u32;
        let (mut places, mut row) = ((index, index), index);
        if exists && !self.ends.is_empty() {
            let first = if index == 0 { 0 } else { self.ends.read(index as usize - 1) + 1 };
            places = (first, self.ends.read(index as usize));
            row = self.order.read(places.1 as usize);
        }
        let given = if exists && !self.scores.is_empty() {
            self.scores.read(row as usize)
        } else {
            S::narrow((places.1 - places.0) as u128 + 1)
        };
        Change { key, given, places, row }
    }
}

/// A slot that a lane has locked.
#[derive(Clone, Copy)]
pub(super) struct LockedSlot {
    /// Position of the slot; [`NOWHERE`] if the lane has none.
    pub(super) position: u32,
    /// Whether the key was not in the table.
    pub(super) is_new: bool,
    /// Whether the slot has another key.
    pub(super) evicts: bool,
    /// Index of the evicted row in the action's output, or [`NOWHERE`].
    pub(super) output: u32,
}

#[device]
impl LockedSlot {
    const NOTHING: Self = Self { position: NOWHERE, is_new: false, evicts: false, output: NOWHERE };
}

/// A batch's effect on the slots of its keys.
pub(super) trait Action<C: Config>: Copy {
    /// Search that the batch needs.
    type Mode: Mode;
    /// Move of a row.
    type Mover: Mover;
    /// Whether the keys are removed.
    const REMOVES: bool = false;
    /// Outcome of a key that was present.
    const PRESENT: Outcome;

    /// Copies the keys and scores of the slots from which keys are evicted to the action's output, if it has
    /// one. Returns the index of the lane's slot in the output, or [`NOWHERE`].
    #[device]
    fn keep_evicted(self, _view: CacheView<C>, _warp: Tile<32, Lockstep>, _held: LockedSlot) -> u32 {
        NOWHERE
    }

    /// Returns the mover of the rows of locked slots, or `None` if the batch moves none.
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover>;

    /// Returns the mover's task for the row of a lane.
    fn task(element: &Change<C>, held: LockedSlot) -> <Self::Mover as Mover>::Task;
}

/// Executes the changes of a batch.
#[device]
pub(super) fn change<C: Config, A: Action<C>>(
    view: CacheView<C>,
    batch: Changes<C::Key, C::Score>,
    action: A,
) {
    let warp = Tile::<32>::lockstep();
    let policy = Scoring::<C::Policy>::new::<C::Score>(batch.time, batch.parameter);
    let (mut waits, mut outcome) = (batch.exists(), Outcome::Refused);
    while warp.any(waits) {
        let (mut held, done) = hold::<C, A>(view, warp, (waits, &batch), policy);
        // Read again: a search and an eviction need the registers.
        let element = batch.change::<C>();
        held.output = action.keep_evicted(view, warp, held);
        let (slot_is_held, writes) = (held.position != NOWHERE, held.position != NOWHERE && !A::REMOVES);
        begin_write(view, (writes, held.position));
        if writes {
            write_key_and_score(view, element, held, policy);
        }
        // A lane's lock is before the accesses of all lanes to the row.
        warp.sync();
        order_versions(view);
        if let Some(mover) = action.mover(&batch) {
            move_rows(view.rows(), batch.chunk, warp, (held.position, A::task(&element, held)), mover);
        }
        // The lanes' writes to a row are before the release by its owner.
        warp.sync();
        end_write(view, (writes, held.position));
        if slot_is_held {
            let digest =
                if A::REMOVES { Digest::ERASED } else { Hashed::of(element.key, view.seed()).digest() };
            // SAFETY: the lane has locked the slot.
            unsafe { view.release(held.position, digest) };
        }
        if slot_is_held || done.is_some() {
            let reached = if held.is_new { Outcome::Inserted } else { A::PRESENT };
            outcome = done.unwrap_or(reached);
            waits = false;
        } else if waits {
            simt::spin_hint();
        }
    }
    if batch.exists() {
        // mutation: late equivalent, because only later launches read the output.
        write_if(batch.outcomes, Thread::index(), outcome as u8);
    }
}

/// Locks a slot for the element of each lane that `waits`. Returns the slot, or the outcome if the element is
/// done without one; neither if the lane must try again.
#[device]
fn hold<C: Config, A: Action<C>>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    (waits, batch): (bool, &Changes<C::Key, C::Score>),
    policy: Scoring<C::Policy>,
) -> (LockedSlot, Option<Outcome>) {
    let key = batch.change::<C>().key;
    let sought = C::search::<A::Mode>(view, waits, key);
    let (mut held, mut done) = (LockedSlot::NOTHING, None);
    let has_slot = sought.end == End::Present || sought.end == End::Free;
    if A::REMOVES && waits && has_slot && view.is_leased(sought.position) {
        done = Some(Outcome::Refused);
    } else if waits && has_slot {
        held = lock(view, sought, key);
    }
    let found_none = waits && sought.end == End::Absent;
    if A::Mode::PLACES {
        let hashed = Hashed::of(key, view.seed());
        let (mut wants, mut tries) = (found_none, 0);
        // mutation: less more half performance, because a lane without a slot searches again.
        while tries < bound(EVICTIONS) && warp.any(wants) {
            match evict(view, warp, wants, hashed, || policy.placed(batch.change::<C>().given)) {
                Eviction::Locked(position) if wants => {
                    held = LockedSlot { position, is_new: true, evicts: true, output: NOWHERE };
                    wants = false;
                }
                Eviction::Refused if wants => {
                    done = Some(Outcome::Refused);
                    wants = false;
                }
                _ => {}
            }
            tries += 1;
        }
    } else if found_none {
        done = Some(Outcome::Absent);
    }
    (held, done)
}

/// Number of evictions that a lane tries before its warp moves the rows of the slots that other lanes hold.
/// In a full table, two tiles often choose the same victim. The one that comes late takes another at once,
/// instead of going through the whole loop for it.
const EVICTIONS: u32 = 3;

/// Locks the slot of a search's result, if it still has or can take the key.
#[device]
fn lock<C: Config>(view: CacheView<C>, sought: Sought, key: C::Key) -> LockedSlot {
    let (position, digest, is_new) = (sought.position, sought.digest(), sought.end == End::Free);
    // SAFETY: the position is that of a slot that was read; it is released only if it was locked here.
    unsafe {
        if is_new {
            // mutation: relaxed equivalent, because launches that place keys free no slot: the last release
            // of a free slot was in an earlier launch.
            let position = view.lock_free(position, sought.seen);
            return LockedSlot { position, is_new, ..LockedSlot::NOTHING };
        }
        if !view.lock(position, digest, sought.seen) {
            return LockedSlot::NOTHING;
        }
        // Meanwhile the key may have been evicted, and one with the same digest been placed.
        // mutation: weak block equivalent, because the lock has acquired the writes of the last holder, and
        // nobody else writes to the slot until the release.
        let is_same = view.key(position).load(Order::Relaxed, Scope::Device) == key;
        if !recheck(is_same) {
            // mutation: relaxed equivalent, because the lane has written nothing, and its two updates of the
            // word pass the release of the last holder on.
            view.release(position, digest);
            return LockedSlot::NOTHING;
        }
    }
    LockedSlot { position, ..LockedSlot::NOTHING }
}

/// Writes the key of a new slot, and the score.
#[device]
fn write_key_and_score<C: Config>(
    view: CacheView<C>,
    element: Change<C>,
    held: LockedSlot,
    policy: Scoring<C::Policy>,
) {
    // SAFETY: the position is that of a slot that the lane has locked.
    unsafe {
        let score = view.score(held.position);
        let new = if held.is_new {
            // mutation: late equivalent, because the lane's next write, of the score, is before the release,
            // too.
            view.key(held.position).store(element.key, Order::Relaxed, Scope::Device);
            policy.placed(element.given)
        } else {
            // mutation: weak block equivalent, because the lock has acquired the writes of the last holder,
            // and nobody else writes to the slot until the release.
            policy.used(score.load(Order::Relaxed, Scope::Device), element.given)
        };
        score.store(new, Order::Relaxed, Scope::Device);
        view.summary().note(held.position, new);
    }
}

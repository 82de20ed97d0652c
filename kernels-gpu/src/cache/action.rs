//! The actions of batches that change the table: what each does with the rows of the slots that it holds.
use super::change::{Action, Change, Changes, LockedSlot};
use super::layout::NOWHERE;
use super::mode::{Changing, Mode, Placing};
use super::rows::{Add, CopyIn, Element, Exchange, PlaceOrRead, RowSlice};
use super::view::{CacheView, Config};
use crate::keyed::Outcome;
use core::marker::PhantomData;
use simt::{GlobalSlice, Lockstep, Order, Scope, Tile, device};

/// Places keys with their rows, and replaces the rows of keys that are present.
#[derive(Clone, Copy)]
pub(super) struct Insert;

impl<C: Config> Action<C> for Insert {
    type Mode = Placing;
    type Mover = CopyIn;
    const PRESENT: Outcome = Outcome::Replaced;

    #[device]
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        Some(CopyIn { from: batch.rows })
    }

    #[device]
    fn task(element: &Change<C>, _: LockedSlot) -> u32 {
        element.row
    }
}

/// Output of an insertion that keeps what it evicts. Keys, rows and scores have room for as many elements as
/// the batch has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Evicted<K, S> {
    /// Output: the evicted keys.
    pub keys: GlobalSlice<K>,
    /// Output: their scores.
    pub scores: GlobalSlice<S>,
    /// Output: their rows.
    pub rows: RowSlice,
    /// Output: their number, one word, zero before the batch.
    pub count: GlobalSlice<u32>,
}

/// [`Insert`], which copies the evicted keys, scores and rows to an output.
#[derive(Clone, Copy)]
pub(super) struct InsertEvict<K, S> {
    pub evicted: Evicted<K, S>,
}

impl<C: Config> Action<C> for InsertEvict<C::Key, C::Score> {
    type Mode = Placing;
    type Mover = Exchange;
    const PRESENT: Outcome = Outcome::Replaced;

    #[device]
    fn keep_evicted(self, view: CacheView<C>, warp: Tile<32, Lockstep>, held: LockedSlot) -> u32 {
        let (mut key, mut score) = (C::Key::default(), C::Score::default());
        if held.evicts {
            // SAFETY: the position is that of a slot that the lane has locked.
            unsafe {
                // mutation: weak block equivalent, because the lock has acquired the writes of the last
                // holder, and nobody else writes to the slot until the release.
                key = view.key(held.position).load(Order::Relaxed, Scope::Device);
                // mutation: weak block equivalent, because of the same.
                score = view.score(held.position).load(Order::Relaxed, Scope::Device);
            }
        }
        // Beside the loads, which nothing has waited for yet.
        let index = reserve(warp, self.evicted.count, held.evicts);
        if held.evicts {
            // mutation: late equivalent, because only later launches read the output.
            self.evicted.keys.write(index as usize, key);
            // mutation: late equivalent, because only later launches read the output.
            self.evicted.scores.write(index as usize, score);
        }
        if held.evicts { index } else { NOWHERE }
    }

    #[device]
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        Some(Exchange { from: batch.rows, evicted: self.evicted.rows })
    }

    #[device]
    fn task(element: &Change<C>, held: LockedSlot) -> (u32, u32) {
        (element.row, held.output)
    }
}

/// Copies the rows of keys that are present to an output, and updates their scores. If the mode places keys,
/// places the others with their rows.
#[derive(Clone, Copy)]
pub(super) struct ReadRows<M> {
    to: RowSlice,
    mode: PhantomData<M>,
}

#[device]
impl<M: Mode> ReadRows<M> {
    /// Returns the action with this output.
    pub fn to(to: RowSlice) -> Self {
        Self { to, mode: PhantomData }
    }
}

impl<C: Config, M: Mode> Action<C> for ReadRows<M> {
    type Mode = M;
    type Mover = PlaceOrRead;
    const PRESENT: Outcome = Outcome::Found;

    #[device]
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        Some(PlaceOrRead { from: batch.rows, to: self.to })
    }

    #[device]
    fn task(element: &Change<C>, held: LockedSlot) -> (u32, bool) {
        (element.row, held.is_new)
    }
}

/// Adds rows to those of keys that are present; places the others.
#[derive(Clone, Copy)]
pub(super) struct Accumulate {
    pub element: Element,
}

impl<C: Config> Action<C> for Accumulate {
    type Mode = Placing;
    type Mover = Add;
    const PRESENT: Outcome = Outcome::Replaced;

    #[device]
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        Some(Add { from: batch.rows, order: batch.order, element: self.element })
    }

    #[device]
    fn task(element: &Change<C>, held: LockedSlot) -> ((u32, u32), bool) {
        (element.places, held.is_new)
    }
}

/// Replaces the rows of keys that are present, and updates their scores.
#[derive(Clone, Copy)]
pub(super) struct Assign;

impl<C: Config> Action<C> for Assign {
    type Mode = Changing;
    type Mover = CopyIn;
    const PRESENT: Outcome = Outcome::Replaced;

    #[device]
    fn mover(self, batch: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        if batch.rows.is_empty() { None } else { Some(CopyIn { from: batch.rows }) }
    }

    #[device]
    fn task(element: &Change<C>, _: LockedSlot) -> u32 {
        element.row
    }
}

/// Removes keys.
#[derive(Clone, Copy)]
pub(super) struct Remove;

impl<C: Config> Action<C> for Remove {
    type Mode = Changing;
    type Mover = CopyIn;
    const REMOVES: bool = true;
    const PRESENT: Outcome = Outcome::Removed;

    #[device]
    fn mover(self, _: &Changes<C::Key, C::Score>) -> Option<Self::Mover> {
        None
    }

    #[device]
    fn task(element: &Change<C>, _: LockedSlot) -> u32 {
        element.row
    }
}

/// Reserves an element of an output for each lane that `wants` one, by one atomic per warp. Returns its
/// index.
#[device(caller)]
pub(super) fn reserve(warp: Tile<32, Lockstep>, count: GlobalSlice<u32>, wants: bool) -> u32 {
    let all = warp.ballot(wants);
    let mut base = 0;
    if warp.rank() == 0 && all != 0 {
        base = count.at(0).fetch_add(all.count_ones(), Order::Relaxed, Scope::Device);
    }
    warp.shuffle(base, 0) + (all & warp.lower_ranks()).count_ones()
}

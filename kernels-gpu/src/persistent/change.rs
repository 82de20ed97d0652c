//! Changes: the one loop by which a warp places, updates and removes the keys of its elements.
//!
//! ```text
//! group the elements with equal keys           one lane changes the table for all
//! while an element of the warp is not done
//!     search the keys                                    tiles, an element each
//!     lock the slots that have them, or claim free ones  a lane for each element
//!     check that nobody else has placed the key          tiles, an element each
//!     write keys and values                              a lane for each key; the warp moves values
//!     set and clear slot bits, mark the pages            a lane for each element, from here on
//!     release the slots
//! ```
//!
//! No lane waits while it holds a slot. An element that found its slot locked, or lost a claim, tries again
//! in the next iteration, when the warp has released its own slots.
//!
//! | step of | linearization point |
//! |---|---|
//! | an insertion | the claimed fingerprint becomes live |
//! | an update in place | the store of the value |
//! | an update by a new item | the new item is shown, or the old one is retired: see `replace` |
//! | a removal | the fingerprint is retired: it no longer has an item |
use super::equal::EqualKeys;
use super::fingerprint::Fingerprint;
use super::keys::{Keys, Wanted, has_key};
use super::kind::Config;
use super::layout::{NOWHERE, Place};
use super::mode::{Changing, Checking, Mode, Placing, PlacingNew};
use super::rows::{CopyIn, move_rows, value_at};
use super::search::{Search, Sought};
use super::supersede::{Seen, settle, small_value};
use super::view::PersistentView;
use crate::keyed::Outcome;
use crate::keyed::kernels::write_if;
use simt::{
    BoundedSlice, Global, GlobalSlice, Lockstep, Order, Scope, Tile, bound, device, fence_sc, recheck,
};

/// Elements that change the table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Words of the keys, one key behind the other. A count is one of keys.
    pub keys: BoundedSlice<u64>,
    /// Words of the values, one value behind the other. Empty if keys are removed.
    pub values: GlobalSlice<u32>,
    /// Output: an outcome for each key, if wanted.
    pub outcomes: GlobalSlice<u8>,
}

/// Treatment of keys that are present, and of those that are not, by a batch.
pub(super) trait Action {
    /// The batch's first search.
    type Mode: Mode;
    /// Whether the values of present keys are replaced.
    const REPLACES: bool = false;
    /// Whether present keys are removed.
    const REMOVES: bool = false;
}

/// Places keys, and replaces the values of those that are present.
pub(super) struct Insert;

impl Action for Insert {
    type Mode = Placing;
    const REPLACES: bool = true;
}

/// Places the keys that are absent.
pub(super) struct InsertNew;

impl Action for InsertNew {
    type Mode = PlacingNew;
}

/// Replaces the values of keys that are present.
pub(super) struct Update;

impl Action for Update {
    type Mode = Changing;
    const REPLACES: bool = true;
}

/// Removes keys.
pub(super) struct Remove;

impl Action for Remove {
    type Mode = Changing;
    const REMOVES: bool = true;
}

/// The slots that a lane holds for its element.
#[derive(Clone, Copy)]
struct HeldSlots {
    /// The slot to which the value is written, or [`NOWHERE`]: claimed, or locked for an update in place.
    slot: u32,
    /// The locked slot of the item that is removed, or [`NOWHERE`].
    old: u32,
    /// Whether the key was absent.
    is_new: bool,
}

#[device]
impl HeldSlots {
    const NOTHING: Self = Self { slot: NOWHERE, old: NOWHERE, is_new: false };

    /// Returns whether the slot is claimed, and not locked.
    fn is_claimed<C: Config>(self) -> bool {
        self.slot != NOWHERE && (self.is_new || !C::IS_SMALL)
    }
}

/// Executes the changes of a batch.
#[device]
pub(super) fn change<C: Search, A: Action>(view: PersistentView<C>, batch: Changes) {
    let (warp, keys) = (Tile::<32>::lockstep(), Keys::of::<C>(batch.keys));
    let Some((exists, wanted)) = keys.element::<C>(view.seed()) else { return };
    let equal = EqualKeys::of::<C>(warp, keys, (exists, wanted));
    let mut pending = exists && equal.leader(A::REPLACES) == warp.rank();
    let (mut outcome, mut seen) = (Outcome::Refused, Seen::NOTHING);
    while warp.any(pending) {
        let sought = C::search::<A::Mode>(view, keys, (pending, wanted, NOWHERE));
        // mutation: early load Acquire unreached, because the item has been in the slot since `Seen::of`, or
        // has left it, and then the update is over in any case. So another lane of the warp must have read
        // the version after a refresh, by a load that does not acquire, and this lane then miss the link of
        // the copy. Threads of explorers that read what they have updated are alone in their warps.
        let mut is_over = A::REPLACES && pending && seen.is_superseded(view, keys, (wanted, sought));
        let (mut held, mut done) = (HeldSlots::NOTHING, None);
        if pending && !is_over {
            (held, done) = hold::<C, A>(view, keys, (wanted, sought));
        }
        if A::REPLACES {
            let is_locked = pending && sought.position != NOWHERE && held.slot == NOWHERE;
            if is_locked && !is_over {
                // mutation: early load Relaxed unreached, because a lane that has missed the link of a copy
                // must read its own value in the image while another update has not written it to the copy,
                // and its thread must then read the copy: one of 40 000 seeds of explorers finds that.
                // mutation: early load Acquire unreached, because of the same state, in which the last read
                // of the version was the second one of `is_superseded`, which does not acquire. If the item
                // has left the slot since the search, the update counts as one before that.
                (seen, is_over) = Seen::of(view, (keys, batch.values), (wanted, sought.position));
            }
            if is_over {
                // mutation: skip block device fence unreached, because crashes are compared with the contents
                // after a round, and not after one of its batches: then the other update has ended, too.
                // mutation: skip update unreached, because marks are looked at after a round: then the other
                // update has marked the page, too.
                // mutation: relaxed equivalent, because the other update's mark is before this one, which
                // continues its release, or after it, and marks the page again.
                // mutation: tear unreached, because a copy must read this mark as the last one, after that of
                // the other update, and the value as it was before.
                settle(view, sought.position);
                done = Some(Outcome::Replaced);
            }
        }
        if A::Mode::PLACES {
            held = confirm(view, warp, keys, (wanted, held));
        }
        if A::Mode::PLACES || A::REPLACES {
            write_items(view, warp, (keys, batch.values), (wanted, held));
        }
        if done.is_none() && (held.slot != NOWHERE || held.old != NOWHERE) {
            done = release(view, wanted.hashed.fingerprint(), held);
        }
        if let Some(reached) = done
            && pending
        {
            outcome = reached;
            pending = false;
        }
        if pending {
            simt::spin_hint();
        }
    }
    let outcome = equal.outcome(warp, A::REPLACES, outcome);
    if exists {
        // mutation: late equivalent, because only later launches read the output.
        write_if(batch.outcomes, wanted.index as usize, outcome as u8);
    }
}

/// Locks or claims slots for the element of a lane. Returns them, or the outcome if the element is done
/// without one; neither if the lane must try again.
#[device]
fn hold<C: Config, A: Action>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, sought): (Wanted, Sought),
) -> (HeldSlots, Option<Outcome>) {
    let hash = wanted.hashed.fingerprint();
    if sought.position != NOWHERE {
        if !A::REPLACES && !A::REMOVES {
            return (HeldSlots::NOTHING, Some(Outcome::Found));
        }
        return (hold_item(view, keys, (wanted, sought.position), A::REMOVES), None);
    }
    if !A::Mode::PLACES {
        return (HeldSlots::NOTHING, Some(Outcome::Absent));
    }
    if sought.free != NOWHERE {
        return (claim(view, hash, sought), None);
    }
    (HeldSlots::NOTHING, if sought.waits { None } else { Some(Outcome::Refused) })
}

/// Claims a free slot for a new item.
#[device]
fn claim<C: Config>(view: PersistentView<C>, hash: u32, sought: Sought) -> HeldSlots {
    let slot = sought.free;
    if !view.reserve(slot) {
        return HeldSlots::NOTHING;
    }
    let states = (Fingerprint::FREE, Fingerprint::claimed(hash));
    // SAFETY: the search has read the slot. Acquires the last release of the slot: the item may be written.
    // mutation: early performance, because the compare-and-swap decides; without a slot the lane tries again.
    // mutation: relaxed equivalent, because `write_items` fences between the claim and the first write of the
    // item.
    if unsafe { view.replace(slot, states, Order::Acquire) } {
        return HeldSlots { slot, old: NOWHERE, is_new: true };
    }
    view.unreserve(slot);
    HeldSlots::NOTHING
}

/// Locks the slot of a key's item. An update that does not write in place also claims a slot of the same
/// bucket. Returns nothing if another operation holds the slot or no slot is free, or if the slot has
/// another key by now.
#[device]
fn hold_item<C: Config>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, position): (Wanted, u32),
    removes: bool,
) -> HeldSlots {
    let live = Fingerprint::live(wanted.hashed.fingerprint());
    // SAFETY: the search has read the slot; it is released only if it was locked here.
    unsafe {
        // mutation: early performance, because the compare-and-swap decides; without a lock the lane tries
        // again.
        if !view.replace(position, (live, live.locked()), Order::Acquire) {
            return HeldSlots::NOTHING;
        }
        let is_same = recheck(has_key::<C>(view, keys, (wanted, position), Order::Relaxed).0);
        let in_place = C::IS_SMALL && !removes;
        let slot = if !is_same || removes {
            NOWHERE
        } else if in_place {
            position
        } else {
            claim_beside(view, wanted.hashed.fingerprint(), position)
        };
        if !is_same || !removes && slot == NOWHERE {
            // mutation: relaxed equivalent, because the lane has changed nothing under the lock.
            view.unlock(position);
            return HeldSlots::NOTHING;
        }
        HeldSlots { slot, old: if in_place { NOWHERE } else { position }, is_new: false }
    }
}

/// Claims a free slot in the bucket of a key's slot, for an update. Returns it, or [`NOWHERE`] if none is
/// free, or if an aborted claim of the key comes before it, as in [`confirm`].
#[device]
fn claim_beside<C: Config>(view: PersistentView<C>, hash: u32, position: u32) -> u32 {
    let (first, mut slot) = (position / C::SLOTS * C::SLOTS, 0);
    while slot < bound(C::SLOTS) {
        let states = (Fingerprint::FREE, Fingerprint::claimed(0));
        // SAFETY: the slot is one of the bucket.
        unsafe {
            // mutation: early unreached, because a crash must follow while an insertion of the key, which was
            // aborted after the warp had last read its slot, still has its slot bit. Free slots are decided
            // by the compare-and-swap.
            let state = view.fingerprint(first + slot);
            if !recheck(state != Fingerprint::claimed(hash).aborted()) {
                return NOWHERE;
            }
            // mutation: early performance, because the compare-and-swap decides; without a slot the lane
            // tries again.
            // mutation: relaxed equivalent, because `write_items` fences between the claim and the first
            // write of the item.
            if state == states.0 && view.replace(first + slot, states, Order::Acquire) {
                return first + slot;
            }
        }
        slot += 1;
    }
    NOWHERE
}

/// Confirms the claims of new items: gives up those whose keys are present by now, or are about to be placed
/// by insertions that go first; aborts the claims of insertions that do not.
///
/// An aborted insertion may have set its slot bit. Until it has cleared the bit, recovery could take its item
/// for the key's. So claims that come behind it are given up, too.
#[device]
fn confirm<C: Search>(
    view: PersistentView<C>,
    warp: Tile<32, Lockstep>,
    keys: Keys,
    (wanted, mut held): (Wanted, HeldSlots),
) -> HeldSlots {
    let mut checks = held.is_new;
    if checks {
        // Of two insertions of a key, at least one sees the other's claim.
        fence_sc(Scope::Device);
    }
    if C::LANES > 1 {
        // The fence is before the reads of all lanes of the tile.
        warp.sync();
    }
    while warp.any(checks) {
        let found = C::search::<Checking>(view, keys, (checks, wanted, held.slot));
        if !checks {
            continue;
        }
        let is_free = found.rival == NOWHERE;
        let is_first = !is_free && view.rank(held.slot) < view.rank(found.rival);
        let is_absent = recheck(found.position == NOWHERE);
        if !is_absent || !recheck(!found.waits) || !is_free && !is_first {
            give_up(view, held.slot);
            held = HeldSlots::NOTHING;
        } else if is_first {
            let claim = Fingerprint::claimed(wanted.hashed.fingerprint());
            // SAFETY: the search has read the slot.
            // mutation: early performance, because the compare-and-swap decides, and the search is repeated.
            unsafe { view.replace(found.rival, (claim, claim.aborted()), Order::Relaxed) };
        }
        checks = held.is_new && !is_free;
    }
    held
}

/// Frees a claimed slot that has got no item.
#[device]
fn give_up<C: Config>(view: PersistentView<C>, slot: u32) {
    // SAFETY: the caller has claimed the slot.
    // mutation: relaxed equivalent, because the lane has written no item, or has fenced after it has cleared
    // the slot bit; as an update it continues the last release of the slot.
    unsafe { view.free(slot) };
    view.unreserve(slot);
}

/// Writes the keys and values of all lanes to the slots that they hold.
#[device]
fn write_items<C: Config>(
    view: PersistentView<C>,
    warp: Tile<32, Lockstep>,
    (keys, values): (Keys, GlobalSlice<u32>),
    (wanted, held): (Wanted, HeldSlots),
) {
    let (slot, index) = (held.slot, wanted.index);
    if held.is_claimed::<C>() {
        // Whoever reads what is written from here on also sees that the slot's last item has gone.
        // mutation: skip block unreached, because `confirm` fences for insertions and the next fence for
        // values. An update's key is left: a lookup must read it in the last slot of its own key, must miss
        // that key's new slot, and read a version before the last slot was freed, twice.
        simt::fence(Scope::Device);
    }
    if C::IS_SMALL {
        if slot != NOWHERE {
            write_small(view, values, (wanted, held));
        }
        return;
    }
    if slot != NOWHERE {
        write_key(view, keys, (wanted, slot));
    }
    // A lane's claim is before the accesses of all lanes to the item.
    warp.sync();
    simt::fence(Scope::Device);
    // SAFETY: a slot that is not `NOWHERE` is one of the table.
    unsafe {
        let address = if slot == NOWHERE { 0 } else { value_at(view, slot) };
        let words = view.value_words();
        move_rows(warp, words, (address, index), CopyIn { from: values, words });
    }
    view.order_image();
    // The lanes' writes to an item are before the release by its owner.
    warp.sync();
}

/// Writes the key and the value of a small item, or only the value in place.
#[device]
fn write_small<C: Config>(
    view: PersistentView<C>,
    values: GlobalSlice<u32>,
    (wanted, held): (Wanted, HeldSlots),
) {
    let value = small_value(values, wanted.index);
    // SAFETY: the lane holds the slot. Small items are aligned to 16 bytes.
    unsafe {
        let item = view.item(view.place(held.slot)).cast::<u64>();
        if held.is_new {
            item.store_vec([wanted.first, value], Order::Relaxed, Scope::Device);
            return;
        }
        match view.copy_of(held.slot, Order::Relaxed) {
            // An update that sees the value may end without a store of its own: see `settle`.
            None => item.offset(1).store(value, Order::Relaxed, Scope::System),
            Some(copy) => write_through(view, (item.offset(1), copy.cast::<u64>().offset(1)), value),
        }
    }
}

/// Writes a value to an item in the image, and then to its copy, which is what lookups read.
#[device]
fn write_through<C: Config>(view: PersistentView<C>, (item, copy): (Global<u64>, Global<u64>), value: u64) {
    // Whoever has missed the copy, and reads the new value in the image, sees another version.
    simt::fence(Scope::Device);
    // mutation: late unreached, because crashes are compared with the changes of a round, and not with what
    // its lookups have read.
    item.store(value, Order::Relaxed, Scope::Device);
    // Whoever reads the new value finds it in the image after a crash.
    // mutation: skip block device unreached, because crashes are compared with the changes of a round, and
    // not with what its lookups have read.
    view.order_image();
    // mutation: late unreached, because the lane's next write is the mark of the page, which explorers'
    // tables have: the store is still before the release of the slot, and `sync` reads no copies.
    copy.store(value, Order::Relaxed, Scope::Device);
}

/// Writes the key of an item.
#[device]
fn write_key<C: Config>(view: PersistentView<C>, keys: Keys, (wanted, slot): (Wanted, u32)) {
    let mut word = 0;
    while word < bound(C::KEY_WORDS) {
        let key = if word == 0 { wanted.first } else { keys.word::<C>(wanted.index, word) };
        // SAFETY: the lane has claimed the slot.
        let place = unsafe { view.item(view.place(slot)).cast::<u64>().offset(word as usize) };
        place.store(key, Order::Relaxed, Scope::Device);
        word += 1;
    }
}

/// Makes the change durable and visible, and releases the lane's slots. Returns the outcome, or `None` if the
/// lane must try again.
#[device]
fn release<C: Config>(view: PersistentView<C>, hash: u32, held: HeldSlots) -> Option<Outcome> {
    if held.is_new {
        return publish(view, hash, held.slot).then_some(Outcome::Inserted);
    }
    if held.old == NOWHERE {
        view.mark_dirty(view.place(held.slot));
        // SAFETY: the lane has locked the slot.
        unsafe { view.unlock(held.slot) };
        return Some(Outcome::Replaced);
    }
    if held.slot == NOWHERE {
        remove(view, held.old);
        return Some(Outcome::Removed);
    }
    replace(view, hash, held);
    Some(Outcome::Replaced)
}

/// Publishes a new item. Returns whether its claim had not been aborted; else the slot is free again.
#[device]
fn publish<C: Config>(view: PersistentView<C>, hash: u32, slot: u32) -> bool {
    let place = view.place(slot);
    if C::IS_SMALL {
        view.order_image();
    }
    // SAFETY: the lane has claimed the slot. The item is ordered before its bit.
    unsafe {
        let (word, bit) = view.slot_bit(place);
        word.fetch_or(bit, Order::Release, Scope::Device);
        // mutation: tear unreached, because a copy of the page must read this mark as the last one, after
        // that of another slot's change, and what that change has replaced.
        view.mark_dirty(place);
        let states = (Fingerprint::claimed(hash), Fingerprint::live(hash));
        // mutation: early performance, because the compare-and-swap decides; it is repeated if only the other
        // slot's half of the word has changed.
        if view.replace(slot, states, Order::Release) {
            return true;
        }
        word.fetch_and(!bit, Order::Relaxed, Scope::Device);
    }
    // mutation: tear unreached, because a copy of the page must read this mark as the last one, after that of
    // another slot's change, and what that change has replaced.
    // mutation: relaxed unreached, because a copy of the page must read this mark as the last one, and the
    // slot bit as it was before.
    // mutation: skip update unreached, because a copy must read the slot bit when this is the only change of
    // the page that has not ended: one of 3200 seeds of `pages_are_marked_by_aborted_insertions` finds that,
    // which explores a quarter of them by default.
    view.mark_dirty(place);
    // mutation: skip block device unreached, because the rounds whose crashes are explored seldom abort an
    // insertion whose slot is taken again.
    view.order_image();
    give_up(view, slot);
    false
}

/// Removes the item of a locked slot.
#[device]
fn remove<C: Config>(view: PersistentView<C>, old: u32) {
    let place = view.place(old);
    // SAFETY: the lane has locked the slot.
    unsafe {
        let (word, bit) = view.slot_bit(place);
        word.fetch_and(!bit, Order::Relaxed, Scope::Device);
        // mutation: tear unreached, because a copy of the page must read this mark as the last one, after
        // that of another slot's change, and what that change has replaced.
        view.mark_dirty(place);
        // The cleared bit is before what the slot's next owner writes.
        view.order_image();
        // mutation: relaxed equivalent, because the advance below releases it, before the slot or the line is
        // used again.
        view.unlink(old);
        // mutation: relaxed equivalent, because the fence of `order_image` releases the slot bit and the
        // mark, and the advance below releases the link.
        view.retire(old);
        // Whoever has seen the item sees another version once the slot has another owner.
        view.advance_version(old);
        view.free(old);
    }
    view.unreserve(old);
}

/// Replaces the item of a locked slot by that of a claimed slot of the same bucket. Both bits are in one
/// word, so that one of the two items is there at any time.
///
/// For a moment both slots are locked and have an item, of which lookups return the one that their search
/// meets first. So the update takes effect when this slot gets the new item, or retires the old one.
#[device]
fn replace<C: Config>(view: PersistentView<C>, hash: u32, held: HeldSlots) {
    let place = view.place(held.slot);
    // SAFETY: the lane holds both slots. The new item is ordered before its bit.
    unsafe {
        let (word, new) = view.slot_bit(place);
        let (_, old) = view
            .slot_bit(Place { index: place.index.wrapping_sub(held.slot).wrapping_add(held.old), ..place });
        // Sets one bit and clears the other: nothing is carried, since the first was clear and the second
        // set.
        word.fetch_add(new.wrapping_sub(old), Order::Release, Scope::Device);
        // mutation: relaxed unreached, because a copy of the page must read this mark as the last one, and
        // the slot bits as they were before.
        // mutation: tear unreached, because a copy of the page must read this mark as the last one, after
        // that of another slot's change, and what that change has replaced.
        view.mark_dirty(place);
        // The new item is locked until the old one is gone: others must not change or remove it while lookups
        // may still return the old one.
        // mutation: relaxed unreached, because a lookup must read the new slot as locked, and the words that
        // other lanes have written to it as they were before, with a version before the update, twice.
        view.show_locked(held.slot, hash);
        // Whoever misses the new item sees the old one, or another version.
        // mutation: skip block equivalent, because the advance below releases the new item as well, and
        // `retire` releases the advance.
        simt::fence(Scope::Device);
        // mutation: relaxed equivalent, because the fence above releases the new item as well.
        view.advance_version(held.old);
        view.order_image();
        // mutation: relaxed equivalent, because the second advance releases it, as in `remove`.
        view.unlink(held.old);
        // mutation: relaxed equivalent, because the fence of `order_image` releases the new item and the
        // first advance, and the advance below releases the link.
        view.retire(held.old);
        // As in `remove`.
        view.advance_version(held.old);
        // mutation: relaxed unreached, because `retire` releases the first advance: a lookup must read the
        // version between the two advances, twice, and an item that another lane, which has not read the
        // second advance, has written to the slot meanwhile.
        view.free(held.old);
        // mutation: relaxed unreached, because the slot's next update must show its item before it has seen
        // the old slot retired, and a thread must read that item, and then the one that this update has
        // replaced.
        view.unlock(held.slot);
    }
}

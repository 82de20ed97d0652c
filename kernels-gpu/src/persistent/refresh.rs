//! Choice of the items that have copies in device memory, beside operations.
//!
//! ```text
//! for each group: while a free line, or the coldest item with a copy, can be exchanged for a hotter one
//!     lock the slot of the cold item, remove its link, unlock it
//!     lock the slot of the hot item
//!     advance the version                   whoever reads the line for its last item sees another version
//!     copy the item to the line
//!     set the link, advance the version     whoever has missed the link sees another version
//!     unlock the slot
//! ```
//!
//! A slot that another operation holds is left alone until the next refresh. A thread never waits.
//!
//! # Cost
//!
//! A thread for each group, in a loop. A group's fingerprints, links and bytes of heat are read once, and
//! once more for each item that is copied.
use super::fingerprint::Fingerprint;
use super::kind::Config;
use super::layout::NOWHERE;
use super::lines::MOST_LINES;
use super::rows::{CopyToLine, move_rows};
use super::view::PersistentView;
use simt::{Global, Instance, Lockstep, Order, Scope, Thread, Tile, device, fence, kernel, recheck};

/// Refreshes the cache, beside operations. One refresh of a table runs at a time.
#[kernel]
pub fn persistent_refresh<C: Config + Instance>(view: PersistentView<C>) {
    let (warp, mut group): (Tile<32, Lockstep>, usize) = (Tile::lockstep(), Thread::index());
    let groups = if view.has_cache() { view.geometry().groups() as usize } else { 0 };
    while warp.any(group < groups) {
        let lines = if group < groups { view.cache().lines_of(group as u32) } else { 0 };
        refresh_group(view, warp, (group as u32, lines));
        if lines > 0 {
            cool_down(view, group as u32);
        }
        group += Thread::count();
    }
}

/// An item that gets a copy, and one that loses its own.
#[derive(Clone, Copy)]
struct Exchange {
    /// Position of the slot whose item gets a copy, or [`NOWHERE`].
    hot: u32,
    /// Fingerprint of this slot.
    state: Fingerprint,
    /// Position of the slot whose item loses its copy, or [`NOWHERE`] if the line is free.
    cold: u32,
    /// Number of the line, from 1 on.
    link: u32,
}

#[device]
impl Exchange {
    const NOTHING: Self = Self { hot: NOWHERE, state: Fingerprint::FREE, cold: NOWHERE, link: 0 };
}

/// Exchanges copies of each lane's group, which has this many lines.
#[device]
fn refresh_group<C: Config>(view: PersistentView<C>, warp: Tile<32, Lockstep>, (group, lines): (u32, u32)) {
    let mut left = lines;
    while warp.any(left > 0) {
        let wanted = if left > 0 { choose(view, group, lines) } else { Exchange::NOTHING };
        let is_held = wanted.hot != NOWHERE && hold(view, wanted);
        // A lane's lock and version are before the copies by all lanes.
        warp.sync();
        // Whoever reads what is copied from here on also sees that the version has advanced.
        fence(Scope::Device);
        copy_items(view, warp, (is_held, wanted));
        // The lanes' writes to a line are before its link.
        warp.sync();
        if is_held {
            publish(view, wanted);
        }
        left = if is_held { left - 1 } else { 0 };
    }
}

/// Returns the exchange that raises the sum of the scores most.
#[device]
fn choose<C: Config>(view: PersistentView<C>, group: u32, lines: u32) -> Exchange {
    let each = C::SLOTS << C::LEVELS;
    let (mut best, mut hottest, mut coldest, mut used) = (Exchange::NOTHING, 0, u32::MAX, 1u32);
    let mut slot = C::SLOTS;
    while slot < each {
        let first = group * each + slot;
        // mutation: early performance, because bytes of heat only decide which items get copies.
        let scores = view.scores(first);
        // SAFETY: the positions are those of slots.
        // mutation: early performance, because `hold` looks at the slots again under their locks, and only
        // refreshes set links.
        let (states, links) = unsafe { (view.states(first), view.links(first)) };
        let mut index = 0;
        while index < 4 {
            let (score, link) = (scores >> (8 * index) & 0xff, links >> (4 * index) & 0xf);
            let word = if index < 2 { states[0] } else { states[1] };
            let state = Fingerprint::in_word(word, index % 2);
            used |= 1 << link;
            if link != 0 && score < coldest {
                (coldest, best.cold, best.link) = (score, first + index, link);
            }
            if link == 0 && state.is_live() && (best.hot == NOWHERE || score > hottest) {
                (hottest, best.hot, best.state) = (score, first + index, state);
            }
            index += 1;
        }
        slot += 4;
    }
    let free = used.trailing_ones();
    if free <= lines && free <= MOST_LINES {
        (best.cold, best.link) = (NOWHERE, free);
    } else if hottest <= coldest {
        return Exchange::NOTHING;
    }
    best
}

/// Locks the slot whose item gets a copy, after the line has been freed. Returns whether this succeeded.
#[device]
fn hold<C: Config>(view: PersistentView<C>, wanted: Exchange) -> bool {
    let Exchange { hot, state, cold, .. } = wanted;
    // SAFETY: the positions are those of slots; each is released only if it was locked here.
    unsafe {
        if cold != NOWHERE {
            // mutation: early performance, because the compare-and-swap below decides.
            let state = view.fingerprint(cold);
            // mutation: early performance, because the compare-and-swap decides; without a lock the lane
            // makes no exchange.
            // mutation: relaxed equivalent, because the fence in `refresh_group` orders the lock before the
            // lane's writes to the line, only refreshes set links, and one refresh runs at a time.
            if !recheck(state.is_live()) || !view.replace(cold, (state, state.locked()), Order::Acquire) {
                return false;
            }
            // mutation: early load equivalent, because only refreshes set links: if another operation has
            // removed this one, there is nothing left to remove.
            // mutation: relaxed equivalent, because `unlock` below releases it for the slot's next owner, and
            // `advance_version` for lookups, before the line is used again.
            view.unlink(cold);
            view.unlock(cold);
        }
        // mutation: early performance, because the compare-and-swap decides; without a lock the lane makes no
        // exchange.
        if !view.replace(hot, (state, state.locked()), Order::Acquire) {
            return false;
        }
        view.advance_version(hot);
    }
    true
}

/// Copies the items of all lanes that hold a slot.
#[device]
fn copy_items<C: Config>(
    view: PersistentView<C>,
    warp: Tile<32, Lockstep>,
    (is_held, wanted): (bool, Exchange),
) {
    let (mut from, mut to) = (0u64, 0u64);
    if is_held {
        // SAFETY: the position is that of a slot.
        from = unsafe { view.item(view.place(wanted.hot)) }.as_ptr() as u64;
        to = view.line(wanted.hot, wanted.link).as_ptr() as u64;
    }
    if C::IS_SMALL {
        if is_held {
            // SAFETY: both are small items, which are aligned to 16 bytes.
            unsafe {
                let (from, to) = (Global::new(from as *mut u64), Global::new(to as *mut u64));
                // mutation: weak block equivalent, because the lane has acquired the lock of the slot, whose
                // item does not change until it is unlocked.
                let item = from.load_vec::<2>(Order::Relaxed, Scope::Device);
                to.store_vec(item, Order::Relaxed, Scope::Device);
            }
        }
        return;
    }
    // SAFETY: the address of a lane that holds a slot is that of an item; the line has room for it.
    unsafe { move_rows(warp, view.geometry().item_words(), (from, to), CopyToLine) };
}

/// Links a slot to its copy, and unlocks it.
#[device]
fn publish<C: Config>(view: PersistentView<C>, wanted: Exchange) {
    // SAFETY: the lane has locked the slot, which had no link.
    unsafe {
        view.set_link(wanted.hot, wanted.link);
        // Whoever has missed the link sees another version before the item changes.
        view.advance_version(wanted.hot);
        view.unlock(wanted.hot);
    }
}

/// Halves the bytes of heat of a group if one of them is 128 or more. Only their order counts, and only
/// within the group.
#[device]
fn cool_down<C: Config>(view: PersistentView<C>, group: u32) {
    let (heat, words) = (view.cache().heat, (C::SLOTS << C::LEVELS) / 4);
    if heat.is_empty() {
        return;
    }
    let (mut word, mut all) = (0, 0);
    while word < words {
        // mutation: early performance, because bytes of heat only decide which items get copies.
        all |= heat.at((group * words + word) as usize).load(Order::Relaxed, Scope::Device);
        word += 1;
    }
    word = 0;
    while all & 0x8080_8080 != 0 && word < words {
        let bytes = heat.at((group * words + word) as usize);
        // A read that is noted meanwhile may be lost.
        let half = bytes.load(Order::Relaxed, Scope::Device) >> 1 & 0x7f7f_7f7f;
        bytes.store(half, Order::Relaxed, Scope::Device);
        word += 1;
    }
}

//! Scans of the whole table: rebuilding the fingerprints from the image, resolving duplicates, counts, checks
//! and exports. Nothing may change the table meanwhile.
//!
//! # Cost
//!
//! [`persistent_rebuild`] reads the slot bits and the keys of all items once, and, for each item, takes an
//! atomic and a fence and reads the fingerprints of all slots of the key. [`persistent_resolve`] reads two
//! bytes a slot, and the keys of the slots whose fingerprints agree: one of 600 with two levels, two hash
//! locations and eight slots. [`persistent_check`] reads all slot bits and keys, and searches each key.
//! [`persistent_export`] reads slot bits and items once, and takes an atomic per warp. [`persistent_count`]
//! reads two bytes a slot.
use super::hashed::Hashed;
use super::kind::Config;
use super::layout::Place;
use super::rows::{CopyOut, move_rows};
use super::states::{States, slot_of, without};
use super::view::PersistentView;
use simt::{
    Global, GlobalSlice, Instance, Lockstep, Order, Scope, Thread, Tile, bound, device, fence_sc, kernel,
};

/// Number of words of a [`persistent_check`].
pub const FINDINGS: usize = 6;

/// Index of the number of items in buckets where no search of their keys looks.
pub const MISPLACED: usize = 0;
/// Index of the number of items whose keys also have another slot, the valid one.
pub const DUPLICATES: usize = 1;
/// Index of the number of slots whose fingerprint and slot bit disagree about whether they have an item.
pub const DISAGREEING: usize = 2;
/// Index of the number of slots with the fingerprint of another key.
pub const FALSE_FINGERPRINTS: usize = 3;
/// Index of the number of slots that are claimed or locked.
pub const IN_PROGRESS: usize = 4;
/// Index of the number of slots whose cached copy is not their item, or is also that of another slot.
pub const FALSE_COPIES: usize = 5;

/// Makes the slots live whose bits are set in `pages`: whole pages of the level `above` the lowest one, from
/// page `first` on, or copies of them. A block for each page; pages that the level does not have are left
/// out. The fingerprints are 0 before the first launch.
///
/// Of two items with the same key, at least one sees the other's fingerprint. Both slots are then locked, and
/// so are those whose fingerprints agree by chance, until [`persistent_resolve`].
///
/// Adds the number of items that are in no bucket of their keys to `findings[MISPLACED]`: the image is then
/// not one of this table.
#[kernel]
pub fn persistent_rebuild<C: Config + Instance>(
    view: PersistentView<C>,
    above: u32,
    first: u32,
    pages: GlobalSlice<u32>,
    findings: GlobalSlice<u32>,
) {
    let (geometry, block) = (view.geometry(), Thread::block_index());
    let (number, words) = (first.saturating_add(block), geometry.page_words() as usize);
    if above >= C::LEVELS || number >= geometry.pages(above) {
        return;
    }
    let page = pages.part(block as usize * words, words);
    let begin = number * geometry.buckets_a_page();
    let end = geometry.buckets_a_page().min(geometry.buckets(above) - begin) * C::SLOTS;
    let mut slot = Thread::index_in_block();
    // mutation: more unreached, because explorers' pages have more slot bits than slots: the bits without a
    // slot are clear.
    while slot < bound(end) {
        if page.read((slot / 32) as usize) >> (slot % 32) & 1 != 0 {
            let word = geometry.bits_words() + slot * geometry.item_words();
            let position = view.position_at((above, begin + slot / C::SLOTS), slot % C::SLOTS);
            // SAFETY: the page has this item.
            let hashed = unsafe { hash_at(view, page.at(word as usize)) };
            revive(view, hashed, position, findings);
        }
        slot += Thread::block_size();
    }
}

/// Makes a slot live whose item's key has this hash, and locks it if its fingerprint agrees with others.
#[device]
fn revive<C: Config>(view: PersistentView<C>, hashed: Hashed, position: u32, findings: GlobalSlice<u32>) {
    if !is_candidate(view, hashed, position) {
        findings.at(MISPLACED).fetch_add(1, Order::Relaxed, Scope::Device);
        return;
    }
    // SAFETY: the position is that of a slot.
    unsafe { view.revive(position, hashed.fingerprint()) };
    // Of two slots with the same key, at least one sees the other's fingerprint.
    fence_sc(Scope::Device);
    each_alike(view, hashed, position, |other| {
        // SAFETY: both slots are live.
        unsafe {
            view.lock(position);
            view.lock(other);
        }
    });
}

/// Removes the items whose keys also have a valid item in another slot, and unlocks all other slots. Runs
/// after [`persistent_rebuild`] of all pages. Adds their number to `findings[DUPLICATES]`.
#[kernel]
pub fn persistent_resolve<C: Config + Instance>(view: PersistentView<C>, findings: GlobalSlice<u32>) {
    each_slot(view, |position| {
        // SAFETY: the position is that of a slot.
        // mutation: early block equivalent, because only this thread and earlier launches change the slot's
        // half of the word.
        if unsafe { view.fingerprint(position) }.is_locked() {
            resolve(view, position, findings);
        }
    });
}

/// Removes the item of a locked slot if its key also has a valid item in another slot, or unlocks the slot.
#[device]
fn resolve<C: Config>(view: PersistentView<C>, position: u32, findings: GlobalSlice<u32>) {
    let place = view.place(position);
    if !has_duplicate(view, position, place) {
        // SAFETY: the slot is locked.
        // mutation: relaxed equivalent, because only later launches use the slot.
        unsafe { view.unlock(position) };
        return;
    }
    // SAFETY: the slot is locked.
    unsafe {
        let (word, bit) = view.slot_bit(place);
        word.fetch_and(!bit, Order::Relaxed, Scope::Device);
        // mutation: relaxed equivalent, because only later launches use the slot.
        view.free(position);
    }
    // mutation: relaxed tear equivalent, because only later launches read marks, and all marks are alike.
    view.mark_dirty(place);
    view.unreserve(position);
    findings.at(DUPLICATES).fetch_add(1, Order::Relaxed, Scope::Device);
}

/// Adds the numbers of violations of the table's invariants to `findings`, [`FINDINGS`] words.
#[kernel]
pub fn persistent_check<C: Config + Instance>(view: PersistentView<C>, findings: GlobalSlice<u32>) {
    each_slot(view, |position| {
        let place = view.place(position);
        // SAFETY: the position and the place are those of a slot.
        // mutation: weak block equivalent, because nothing changes the table meanwhile.
        let (fingerprint, has_item) = unsafe { (view.fingerprint(position), view.has_item(place)) };
        let add = |finding: usize, is_wrong: bool| {
            if is_wrong {
                findings.at(finding).fetch_add(1, Order::Relaxed, Scope::Device);
            }
        };
        add(IN_PROGRESS, fingerprint.is_in_progress() || fingerprint.is_locked());
        add(DISAGREEING, fingerprint.has_item() != has_item);
        if has_item {
            let hashed = hash_of(view, place);
            add(MISPLACED, !is_candidate(view, hashed, position));
            add(FALSE_FINGERPRINTS, fingerprint.hash() != hashed.fingerprint());
            add(DUPLICATES, has_duplicate(view, position, place));
        }
        // SAFETY: the position is that of a slot.
        // mutation: weak block equivalent, because nothing changes the table meanwhile.
        if let Some(copy) = unsafe { view.copy_of(position, Order::Relaxed) } {
            add(FALSE_COPIES, !has_item || !is_copy(view, place, copy) || shares_line(view, position));
        }
    });
}

/// Returns whether a copy is equal to the item at a place.
#[device]
fn is_copy<C: Config>(view: PersistentView<C>, place: Place, copy: Global<u32>) -> bool {
    let (mut word, mut is_same) = (0, true);
    while word < (2 * C::KEY_WORDS + view.value_words()) as usize {
        // SAFETY: the place is that of a slot. Items and lines have this word.
        let (one, other) = unsafe { (view.item(place).offset(word), copy.offset(word)) };
        // mutation: weak block equivalent, because nothing changes the table meanwhile.
        is_same &= one.load(Order::Relaxed, Scope::Device) == other.load(Order::Relaxed, Scope::Device);
        word += 1;
    }
    is_same
}

/// Returns whether a slot with a copy has its line in common with another slot.
#[device]
fn shares_line<C: Config>(view: PersistentView<C>, position: u32) -> bool {
    let each = C::SLOTS << C::LEVELS;
    let (first, mut slot, mut number) = (position / each * each, C::SLOTS, 0);
    // SAFETY: the positions are those of slots of the same group.
    unsafe {
        // mutation: weak block equivalent, because nothing changes the table meanwhile.
        let link = view.link(position, Order::Relaxed);
        while slot < each {
            // mutation: weak block equivalent, because nothing changes the table meanwhile.
            number += (view.link(first + slot, Order::Relaxed) == link) as u32;
            slot += 1;
        }
    }
    number != 1
}

/// Adds the number of items to `count`.
#[kernel]
pub fn persistent_count<C: Config + Instance>(view: PersistentView<C>, count: GlobalSlice<u64>) {
    let mut items = 0;
    each_slot(view, |position| {
        // SAFETY: the position is that of a slot.
        items += unsafe { view.fingerprint(position) }.has_item() as u32;
    });
    let (warp, sum) = (Tile::<32>::lockstep(), Tile::<32>::lockstep().reduce_add(items));
    if warp.rank() == 0 && sum > 0 {
        count.at(0).fetch_add(sum as u64, Order::Relaxed, Scope::Device);
    }
}

/// Writes the keys and values of the items in `span.1` buckets, from bucket `span.0` on, of the level `above`
/// the lowest one, and adds their number to `count`. Buckets that the level does not have, and items beyond
/// the end of the output, are left out; the latter are counted.
#[kernel]
pub fn persistent_export<C: Config + Instance>(
    view: PersistentView<C>,
    above: u32,
    span: (u32, u32),
    keys: GlobalSlice<u64>,
    values: GlobalSlice<u32>,
    count: GlobalSlice<u32>,
) {
    let warp: Tile<32, Lockstep> = Tile::lockstep();
    let rest = view.geometry().buckets(above).saturating_sub(span.0);
    let buckets = if above < C::LEVELS { rest.min(span.1) } else { 0 };
    let (mut index, slots) = (Thread::index(), buckets as usize * C::SLOTS as usize);
    let copy = CopyOut { to: values, words: view.value_words(), order: Order::Weak };
    while warp.any(index < slots) {
        let slot = index as u32;
        let place = view.geometry().place((above, span.0 + slot / C::SLOTS), slot % C::SLOTS);
        // SAFETY: the place is that of a slot of the level.
        let has_item = index < slots && unsafe { view.has_item(place) };
        let number = reserve(warp, count, has_item);
        let fits = has_item && (number as usize) < keys.len() / C::KEY_WORDS as usize;
        let mut address = 0;
        if fits {
            export_key(view, place, number, keys);
            // SAFETY: as above. The value follows the key.
            address = unsafe { view.item(place).offset(2 * C::KEY_WORDS as usize) }.as_ptr() as u64;
        }
        // SAFETY: the addresses are those of items' values.
        unsafe { move_rows(warp, copy.words, (address, number), copy) };
        index += Thread::count();
    }
}

/// Reserves a number for each lane that `wants` one.
#[device]
fn reserve(warp: Tile<32, Lockstep>, count: GlobalSlice<u32>, wants: bool) -> u32 {
    let (wanting, mut first) = (warp.ballot(wants), 0);
    if warp.rank() == 0 && wanting != 0 {
        first = count.at(0).fetch_add(wanting.count_ones(), Order::Relaxed, Scope::Device);
    }
    warp.shuffle(first, 0) + (wanting & warp.lower_ranks()).count_ones()
}

/// Writes the key of an item to key `number` of an output.
#[device]
fn export_key<C: Config>(view: PersistentView<C>, place: Place, number: u32, keys: GlobalSlice<u64>) {
    let mut word = 0;
    while word < C::KEY_WORDS {
        keys.write((number * C::KEY_WORDS + word) as usize, key_word(view, place, word));
        word += 1;
    }
}

/// Shows each thread the positions of its slots, one after the other.
#[device]
fn each_slot<C: Config>(view: PersistentView<C>, mut see: impl FnMut(u32)) {
    let mut index = Thread::index();
    while index < bound(view.slots()) as usize {
        see(view.position_of(index as u32));
        index += Thread::count();
    }
}

/// Returns word `word` of the key of the item at a place.
#[device]
fn key_word<C: Config>(view: PersistentView<C>, place: Place, word: u32) -> u64 {
    // SAFETY: the place is that of a slot.
    unsafe { key_word_at(view.item(place), word) }
}

/// Returns word `word` of an item's key.
///
/// # Safety
/// - The address is that of an item.
#[device]
unsafe fn key_word_at(item: Global<u32>, word: u32) -> u64 {
    // SAFETY: an item begins with its key.
    // mutation: weak block equivalent, because scans run alone and write no items, and the only thread of
    // `make_room` reads what it has written itself.
    unsafe { item.cast::<u64>().offset(word as usize) }.load(Order::Relaxed, Scope::Device)
}

/// Returns the hash of the key of the item at a place.
#[device]
pub(super) fn hash_of<C: Config>(view: PersistentView<C>, place: Place) -> Hashed {
    // SAFETY: the place is that of a slot.
    unsafe { hash_at(view, view.item(place)) }
}

/// Returns the hash of an item's key.
///
/// # Safety
/// - The address is that of an item.
#[device]
unsafe fn hash_at<C: Config>(view: PersistentView<C>, item: Global<u32>) -> Hashed {
    let (mut hash, mut word) = (view.seed(), 0);
    while word < C::KEY_WORDS {
        // SAFETY: the caller's obligation.
        hash = Hashed::mix(hash, unsafe { key_word_at(item, word) });
        word += 1;
    }
    Hashed::finish(hash)
}

/// Returns whether a slot is in a bucket of a key with this hash.
#[device]
fn is_candidate<C: Config>(view: PersistentView<C>, hashed: Hashed, position: u32) -> bool {
    let (mut candidate, mut found) = (0, false);
    while candidate < C::CANDIDATES {
        found |= view.candidate(hashed, candidate) == position / C::SLOTS;
        candidate += 1;
    }
    found
}

/// Shows the positions of all slots but this one, in the buckets of a key with this hash, whose fingerprints
/// are those of items that may have the key. A slot may be shown several times.
#[device]
fn each_alike<C: Config>(view: PersistentView<C>, hashed: Hashed, position: u32, mut see: impl FnMut(u32)) {
    let (parts, mut part) = (C::SLOTS.div_ceil(8), 0);
    while part < C::CANDIDATES * parts {
        let (bucket, first) = (view.candidate(hashed, part / parts), part % parts * 8);
        let base = bucket * C::SLOTS + first;
        let items = States::read(view, bucket, first).items(hashed.fingerprint());
        let mut alike = without(items, position.wrapping_sub(base));
        while alike != 0 {
            see(base + slot_of(alike));
            alike &= alike - 1;
        }
        part += 1;
    }
}

/// Returns whether the key of an item also has an item in a slot of lower rank.
#[device]
fn has_duplicate<C: Config>(view: PersistentView<C>, position: u32, place: Place) -> bool {
    let (rank, mut found) = (view.rank(position), false);
    each_alike(view, hash_of(view, place), position, |other| {
        found = found || view.rank(other) < rank && is_same_key(view, place, view.place(other));
    });
    found
}

/// Returns whether two items have the same key.
#[device]
fn is_same_key<C: Config>(view: PersistentView<C>, one: Place, other: Place) -> bool {
    let mut word = 0;
    while word < C::KEY_WORDS {
        if key_word(view, one, word) != key_word(view, other, word) {
            return false;
        }
        word += 1;
    }
    true
}

//! Room for keys that found no slot: an item of one of the key's buckets moves to another bucket of its own
//! key. Nothing else uses the table meanwhile.
//!
//! # Cost
//!
//! One thread executes all keys, one after the other: few keys find no slot before the table is full. A key
//! reads the fingerprints of its buckets, and for each item that it considers the key and the fingerprints of
//! this key's buckets; at most one item is copied.
use super::fingerprint::Fingerprint;
use super::keys::Keys;
use super::kind::Config;
use super::layout::NOWHERE;
use super::recover::hash_of;
use super::view::PersistentView;
use simt::{Global, GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

/// Makes room for each of the keys, unless it has a free slot already or no item can move. Two keys may find
/// the same slot free. One block.
#[kernel]
pub fn persistent_make_room<C: Config + Instance>(view: PersistentView<C>, keys: GlobalSlice<u64>) {
    let (keys, mut index) = (Keys { words: keys }, 0);
    while Thread::index() == 0 && index < keys.len::<C>() {
        let hashed = keys.wanted::<C>(index as u32, view.seed()).hashed;
        let (mut candidate, mut has_room) = (0, false);
        while candidate < C::CANDIDATES {
            has_room |= free_slot(view, view.candidate(hashed, candidate)) != NOWHERE;
            candidate += 1;
        }
        candidate = 0;
        while candidate < C::CANDIDATES && !has_room {
            has_room = move_one(view, view.candidate(hashed, candidate));
            candidate += 1;
        }
        index += 1;
    }
}

/// Returns a free slot of a bucket, or [`NOWHERE`] if no item may take one.
#[device]
fn free_slot<C: Config>(view: PersistentView<C>, bucket: u32) -> u32 {
    let (mut slot, mut taken, mut free) = (0, 0, NOWHERE);
    while slot < C::SLOTS {
        let position = bucket * C::SLOTS + slot;
        // SAFETY: the bucket is one of the table.
        let is_free = unsafe { view.fingerprint(position) } == Fingerprint::FREE;
        taken += !is_free as u32;
        free = if is_free { position } else { free };
        slot += 1;
    }
    if taken < C::USABLE { free } else { NOWHERE }
}

/// Moves an item of a bucket to another bucket of its key. Returns whether one could move.
#[device]
fn move_one<C: Config>(view: PersistentView<C>, bucket: u32) -> bool {
    let mut slot = 0;
    while slot < C::SLOTS {
        let from = bucket * C::SLOTS + slot;
        // SAFETY: the bucket is one of the table.
        if unsafe { view.fingerprint(from) }.is_live() {
            let hashed = hash_of(view, view.place(from));
            let mut candidate = 0;
            while candidate < C::CANDIDATES {
                let to = free_slot(view, view.candidate(hashed, candidate));
                if to != NOWHERE {
                    move_item(view, (from, to), hashed.fingerprint());
                    return true;
                }
                candidate += 1;
            }
        }
        slot += 1;
    }
    false
}

/// Moves an item to a free slot. Between the two changes of slot bits the image has it twice.
#[device]
fn move_item<C: Config>(view: PersistentView<C>, (from, to): (u32, u32), hash: u32) {
    let (old, new) = (view.place(from), view.place(to));
    // SAFETY: both are slots of the table, which only this thread uses.
    unsafe {
        let (source, target): (Global<u32>, Global<u32>) = (view.item(old), view.item(new));
        let mut word = 0;
        while word < view.geometry().item_words() as usize {
            let value = source.offset(word).load(Order::Relaxed, Scope::Device);
            target.offset(word).store(value, Order::Relaxed, Scope::Device);
            word += 1;
        }
        view.order_image();
        let (bits, bit) = view.slot_bit(new);
        bits.fetch_or(bit, Order::Release, Scope::Device);
        view.mark_dirty(new);
        view.order_image();
        view.revive(to, hash);
        let (bits, bit) = view.slot_bit(old);
        bits.fetch_and(!bit, Order::Release, Scope::Device);
        view.mark_dirty(old);
        view.order_image();
        view.unlink(from);
        view.advance_version(from);
        view.free(from);
    }
    view.unreserve(from);
}

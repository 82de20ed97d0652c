//! Entry points of a host that has the epochs alone.
use super::epochs::Epochs;
use super::process::{Owner, Slabs};
use crate::slab::Pool;
use simt::{GlobalSlice, Instance, Order, Scope, Thread, fence, kernel};

/// Frees what places keep: slabs of a pool. Adds how many to `count`. Runs alone. The grid has a thread for
/// each place.
#[kernel]
pub fn drain_slabs<P: Pool + Instance>(epochs: Epochs, pool: P, count: GlobalSlice<u64>) {
    let place = Thread::index() as u32;
    if place >= epochs.places() {
        return;
    }
    let (owner, mut freed) = (Slabs(pool), 0);
    let mut bag = 0;
    while bag < 3 {
        let kept = epochs.kept(place, 2 + bag).load(Order::Relaxed, Scope::Device);
        let mut index = 0;
        while index < kept {
            let item = epochs.item(place, bag as u32, index).load(Order::Relaxed, Scope::Device);
            // SAFETY: the pool's, retired, and in this bag alone, which is empty then; nothing runs that
            // could reach it.
            unsafe { owner.clear(item) };
            fence(Scope::Device);
            // SAFETY: as above, and cleared.
            unsafe { owner.free(item) };
            index += 1;
        }
        epochs.kept(place, 2 + bag).store(0, Order::Relaxed, Scope::Device);
        freed += kept;
        bag += 1;
    }
    if freed > 0 {
        epochs.count_reclaimed(freed);
        count.at(0).fetch_add(freed as u64, Order::Relaxed, Scope::Device);
    }
}

/// Forgets what places keep, for hosts who find it another way. Runs alone. The grid has a thread for each
/// place.
#[kernel]
pub fn forget_places(epochs: Epochs) {
    let place = Thread::index() as u32;
    let mut bag = 0;
    while place < epochs.places() && bag < 3 {
        epochs.kept(place, 2 + bag).store(0, Order::Relaxed, Scope::Device);
        bag += 1;
    }
}

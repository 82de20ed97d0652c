//! Entry points for a host that has only the epochs.
//!
//! # Cost
//!
//! [`drain_slabs`] reads 4 bytes per item of the bags, writes each slab and executes an atomic on its bitmap.
//! [`forget_places`] writes four words per slot.
use super::epochs::{BAGS, Epochs};
use super::participant::{ItemPool, Slabs};
use crate::slab::Pool;
use simt::{GlobalSlice, Instance, Order, Scope, Thread, fence, kernel};

/// Frees the items in the bags of all participant slots, which are slabs of a pool, and adds their number to
/// `count`. Requires exclusive access. The grid has one thread per slot.
#[kernel]
pub fn drain_slabs<P: Pool + Instance>(epochs: Epochs, pool: P, count: GlobalSlice<u64>) {
    let place = Thread::index() as u32;
    if place >= epochs.places() {
        return;
    }
    let (owner, mut freed) = (Slabs(pool), 0);
    let mut bag = 0;
    while bag < BAGS as usize {
        let kept = epochs.kept(place, 2 + bag).load(Order::Relaxed, Scope::Device);
        let mut index = 0;
        while index < kept {
            let item = epochs.item(place, bag as u32, index).load(Order::Relaxed, Scope::Device);
            // SAFETY: a slab of the pool that was retired; it is in this bag alone, which is emptied, and no
            // kernel runs that could reach it.
            unsafe { owner.clear(item) };
            fence(Scope::Device);
            // SAFETY: as above, and the item has been cleared.
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

/// Empties the bags of all participant slots without freeing their items, for hosts that find the items in
/// another way. Requires exclusive access. The grid has one thread per slot.
#[kernel]
pub fn forget_places(epochs: Epochs) {
    let place = Thread::index() as u32;
    let mut bag = 0;
    while place < epochs.places() && bag < BAGS as usize {
        epochs.kept(place, 2 + bag).store(0, Order::Relaxed, Scope::Device);
        bag += 1;
    }
}

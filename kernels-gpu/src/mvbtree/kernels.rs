//! Entry points of versions: snapshots, the three steps of a sweep, and a mix of insertions and ranges.
//!
//! # Cost
//!
//! [`mark_versions`] reads the header of each slab; [`sweep_versions`] reads each leaf's version word and
//! each version; [`clear_marked_versions`] writes each marked slab. [`take_snapshot`] and
//! [`release_snapshot`] execute one atomic on the clock per attempt. [`insert_and_range`] executes an
//! insertion or a range per element.
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{Insert, PerLane, Session};
use crate::ordered::range::{Collect, Span};
use crate::ordered::sink::Sink;
use crate::ordered::versioning::{LATEST, PIN};
use crate::ordered::view::{Config, TreeView};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, fence_sc, kernel};

/// First step of a sweep (see `docs/structures/multiversion-b-tree.md`): marks every version as retired. Each
/// step requires exclusive access to the tree and has a thread for every slab of the pool.
#[kernel]
pub fn mark_versions<M: Config + Instance>(tree: TreeView<M>) {
    M::mark_version(tree, Thread::index() as u32);
}

/// Second step of a sweep: removes the marks of the versions that snapshots with the stamps `pins` can read,
/// and unlinks the others.
#[kernel]
pub fn sweep_versions<M: Config + Instance>(tree: TreeView<M>, pins: GlobalSlice<u32>) {
    M::sweep(tree, Thread::index() as u32, pins);
}

/// Third step of a sweep: makes the slabs that are still marked blank. [`crate::slab::kernels::slab_reclaim`]
/// frees them.
#[kernel]
pub fn clear_marked_versions<M: Config + Instance>(tree: TreeView<M>) {
    M::clear_marked(tree, Thread::index() as u32);
}

/// Takes a snapshot, by one thread: advances the clock, counts one more live snapshot, and writes the stamp
/// to `pin`. May run concurrently with everything. There is no stamp above [`LATEST`], so the clock
/// stops there, as it does for tiles.
#[kernel]
pub fn take_snapshot(clock: GlobalSlice<u64>, pin: GlobalSlice<u32>) {
    if Thread::index() != 0 {
        return;
    }
    let mut word = clock.at(0).load(Order::Relaxed, Scope::Device);
    loop {
        let next = word + PIN + ((word as u32) < LATEST) as u64;
        match clock.at(0).compare_exchange(word, next, Order::AcqRel, Scope::Device) {
            Ok(_) => break,
            Err(found) => word = found,
        }
    }
    // Kernels that read at the stamp follow in the stream. Concurrent writers store pairs and then read the
    // clock: if a writer read the clock as it was before this kernel, readers must see its pair. Both sides
    // need a sequentially consistent fence.
    fence_sc(Scope::Device);
    pin.at(0).store(word as u32, Order::Release, Scope::Device);
}

/// Counts one live snapshot less, by one thread, after all kernels that read at it in the same stream. May
/// run concurrently with everything.
#[kernel]
pub fn release_snapshot(clock: GlobalSlice<u64>) {
    if Thread::index() == 0 {
        clock.at(0).fetch_add(PIN.wrapping_neg(), Order::AcqRel, Scope::Device);
    }
}

/// Executes insertions and ranges concurrently, by persistent blocks, as many as fit on the device at once.
/// The work is divided into shares of as many elements as a block has threads. A share is all insertions or
/// all ranges (of `room` pairs at most), and the two kinds are evenly mixed. Each block executes an equal
/// number of consecutive shares; between two it leaves its epoch and enters another one
/// ([`TreeView::repin`]). If the tree's clock moves, each range is answered at a timestamp of its own.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::REGISTERS + 16)]
pub fn insert_and_range<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
    lows: GlobalSlice<M::Key>,
    highs: GlobalSlice<M::Key>,
    room: u32,
    found: Sink<M::Key, M::Value>,
    counts: GlobalSlice<u64>,
) {
    M::enter(tree);
    let threads = Thread::block_size() as usize;
    let (writes, reads) = (keys.len().div_ceil(threads), lows.len().div_ceil(threads));
    let (all, blocks) = (writes + reads, Thread::grid_size() as usize);
    let block = Thread::block_index() as usize;
    let mut session = Session::<M, _>::new(tree, PerLane);
    let (mut share, end) = (block * all / blocks, (block + 1) * all / blocks);
    while share < end {
        // Number of insertions among the shares before this one.
        let before = share * writes / all;
        let is_write = (share + 1) * writes / all > before;
        let first = threads * if is_write { before } else { share - before };
        let index = first + Thread::index_in_block() as usize;
        if is_write {
            let exists = index < keys.len();
            let (key, value) = (read_if(keys, index, exists), read_if(values, index, exists));
            let (outcome, _) = session.execute(exists, Insert, key, value);
            write_if(outcomes, index, outcome as u8);
        } else {
            let exists = index < lows.len();
            let (from, to) = (read_if(lows, index, exists), read_if(highs, index, exists));
            let span = Span { from, to, offset: index as u64 * room as u64, room };
            let answer = M::seek::<Collect>(tree, exists, span, found);
            write_if(counts, index, answer.count);
        }
        tree.repin();
        share += 1;
    }
    session.finish();
    M::leave(tree);
}

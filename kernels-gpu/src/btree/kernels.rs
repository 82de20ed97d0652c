//! Entry points of trees beyond those of all keyed structures (`keyed::kernels`).
use super::bulk::Input;
use super::seek::{self, Seek, Span};
use super::sink::Sink;
use super::tree::{Config, TreeView};
use crate::keyed::kernels::{batch_of, read_if, write_if};
use crate::keyed::{self, COUNTER_SHARDS, OpCode, Outcome, PerLane, Scalar, Session, Slot};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, device, fence_sc, kernel};

/// Builds a tree from sorted pairs with distinct keys in the first `nodes` slabs of a pool; [`super::nodes`]
/// computes this number. `count` is the number of pairs without the one whose key looks like an empty slot;
/// if there is one, it comes last. `fill` pairs go to a node, which makes `leaves` leaves. All other slabs
/// are free afterwards and must be blank before ([`free_nodes`]). Requires exclusive access to the tree. The
/// grid has a tile for every node and a thread for every word of the pool's bitmap and of the counters.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel]
pub fn bulk_build<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    count: u64,
    fill: u32,
    leaves: u64,
    nodes: u64,
) {
    let (thread, input) = (Thread::index() as u64, Input { keys, values, count, fill, leaves });
    if thread / (M::TILE as u64) < nodes {
        M::build(tree, thread / M::TILE as u64, input);
    }
    M::begin(tree, thread, nodes, keys.len() as u64);
}

/// Examines all nodes and adds to `report`: nodes, children, latched nodes, misplaced pairs, wrong children,
/// wrong links, pairs, levels, nodes above the leaves, versions, unstamped leaves. Requires exclusive access
/// to the tree. The grid has a thread for every slab of the pool.
#[kernel]
pub fn examine<M: Config + Instance>(tree: TreeView<M>, report: GlobalSlice<u64>) {
    let found = M::examine(tree, Thread::index() as u32);
    // One by one: an array that a loop indexes may lie in local memory.
    let add = |place: usize, many: u32| {
        if many > 0 {
            report.at(place).fetch_add(many as u64, Order::Relaxed, Scope::Device);
        }
    };
    add(0, found.nodes);
    add(1, found.children);
    add(2, found.latched);
    add(3, found.misplaced);
    add(4, found.children_wrong);
    add(5, found.link_wrong);
    add(6, found.pairs);
    add(7, found.depth);
    add(8, found.inner);
    add(9, found.versions);
    add(10, found.undated);
}

/// Frees all nodes but those of an empty tree, and makes their slabs blank. Requires exclusive access to the
/// tree. The grid has a tile for every slab of the pool.
#[kernel]
pub fn free_nodes<M: Config + Instance>(tree: TreeView<M>) {
    M::free_node(tree, Thread::index() / M::TILE as usize);
}

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
/// to `pin`. May run concurrently with everything. There is no stamp above [`super::LATEST`], so the clock
/// stops there, as it does for tiles.
#[kernel]
pub fn take_snapshot(clock: GlobalSlice<u64>, pin: GlobalSlice<u32>) {
    if Thread::index() != 0 {
        return;
    }
    let mut word = clock.at(0).load(Order::Relaxed, Scope::Device);
    loop {
        let next = word + super::PIN + ((word as u32) < super::LATEST) as u64;
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
        clock.at(0).fetch_add(super::PIN.wrapping_neg(), Order::AcqRel, Scope::Device);
    }
}

/// Rebuilds the directory of a tree. The grid is one block of [`super::DIRECTORY_THREADS`] threads. May run
/// concurrently with everything that does not require exclusive access.
#[kernel]
pub fn rebuild_directory<M: Config + Instance>(tree: TreeView<M>) {
    M::rebuild_directory(tree);
}

/// Returns the key itself or, if not `inclusive`, its neighbour in a direction; `None` if there is none.
#[device]
fn bound<K: Scalar>(key: K, inclusive: bool, up: bool) -> Option<K> {
    let last = if up { K::MAX } else { K::from_u64(0) };
    let step = if up { 1 } else { u64::MAX };
    match inclusive {
        true => Some(key),
        false if key == last => None,
        false => Some(K::from_u64(key.to_u64().wrapping_add(step))),
    }
}

/// Finds one pair in the range of each key.
#[device(caller)]
fn one<M: Config, Q: Seek>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    range: impl FnOnce(M::Key) -> Option<(M::Key, M::Key)>,
    results: Sink<M::Key, M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let index = Thread::index();
    let exists = index < keys.len();
    let range = range(read_if(keys, index, exists));
    let (from, to) = range.unwrap_or((M::Key::from_u64(0), M::Key::from_u64(0)));
    let span = Span { from, to, offset: 0, room: 1 };
    M::enter(tree);
    let answer = M::seek::<Q>(tree, exists && range.is_some(), span, results);
    M::leave(tree);
    if exists {
        write_if(results.keys, index, answer.key);
        write_if(results.values, index, answer.value);
        let outcome = if answer.count > 0 { Outcome::Found } else { Outcome::Absent };
        write_if(outcomes, index, outcome as u8);
    }
}

/// Finds the pair with the lowest key above each key or, if `inclusive` is not 0, at or above it.
#[kernel(registers = M::REGISTERS)]
pub fn successor<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    inclusive: u32,
    found: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let range = |key| Some((bound(key, inclusive != 0, true)?, M::Key::MAX));
    one::<M, seek::Lowest>(tree, keys, range, Sink { keys: found, values }, outcomes);
}

/// Finds the pair with the highest key below each key or, if `inclusive` is not 0, at or below it.
#[kernel(registers = M::REGISTERS)]
pub fn predecessor<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    inclusive: u32,
    found: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let range = |key| Some((M::Key::from_u64(0), bound(key, inclusive != 0, false)?));
    one::<M, seek::Highest>(tree, keys, range, Sink { keys: found, values }, outcomes);
}

/// Returns the sink of a query that writes no pairs.
#[device]
fn no_sink<M: Config>() -> Sink<M::Key, M::Value> {
    // SAFETY: both slices are empty, so no word of them is ever accessed.
    unsafe {
        Sink {
            keys: GlobalSlice::from_raw_parts(core::ptr::dangling_mut(), 0),
            values: GlobalSlice::from_raw_parts(core::ptr::dangling_mut(), 0),
        }
    }
}

/// Counts the keys from each of `lows` to the one of `highs`, inclusive.
#[kernel]
pub fn count_range<M: Config + Instance>(
    tree: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    highs: GlobalSlice<M::Key>,
    counts: GlobalSlice<u64>,
) {
    let index = Thread::index();
    let exists = index < lows.len();
    let (from, to) = (read_if(lows, index, exists), read_if(highs, index, exists));
    let span = Span { from, to, offset: 0, room: u32::MAX };
    M::enter(tree);
    let answer = M::seek::<seek::Count>(tree, exists, span, no_sink::<M>());
    M::leave(tree);
    if exists {
        write_if(counts, index, answer.count);
    }
}

/// Returns the index of the calling thread's element in a batch whose keys were sorted, and whether it has
/// one. The lanes of a tile take neighbouring keys. Tiles that run at the same time take theirs from `apart`
/// distant parts of the batch, because tiles with neighbouring keys would compete for the same leaves.
#[device]
fn spaced(width: u32, len: usize, apart: u32) -> (usize, bool) {
    let (tile, rank) = (Thread::index() / width as usize, Thread::index() % width as usize);
    let (groups, places) = (len.div_ceil(width as usize), apart.max(1) as usize);
    let each = groups.div_ceil(places);
    let index = (tile % places * each + tile / places) * width as usize + rank;
    (index, tile / places < each && index < len)
}

/// Returns the number of threads of a launch for `len` sorted keys, of which tiles of `width` lanes take
/// theirs from `apart` parts of the batch: see [`insert_sorted`].
pub fn sorted_threads(width: u32, len: usize, apart: u32) -> usize {
    len.div_ceil(width as usize).next_multiple_of(apart.max(1) as usize) * width as usize
}

/// Executes the calling thread's element of a batch whose `keys` were sorted: key `i` belongs to element
/// `order[i]` of the other slices.
#[device]
fn sorted<M: Config + Instance, O: keyed::Operation>(
    tree: TreeView<M>,
    operation: impl Fn(usize, bool) -> O,
    (keys, order, apart): (GlobalSlice<M::Key>, GlobalSlice<u32>, u32),
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (index, exists) = spaced(M::TILE, keys.len(), apart);
    let (key, place) = (read_if(keys, index, exists), read_if(order, index, exists) as usize);
    let request = |place, exists| {
        let argument = read_if(arguments, place, exists && place < arguments.len());
        (operation(place, exists), key, argument)
    };
    batch_of::<M, _>(tree, (place, exists), request, results, outcomes);
}

macro_rules! sorted {
    ($($(#[$doc:meta])* $name:ident: $operation:expr;)*) => {$(
        $(#[$doc])*
        #[kernel(registers = M::REGISTERS)]
        pub fn $name<M: Config + Instance>(
            tree: TreeView<M>,
            keys: GlobalSlice<M::Key>,
            order: GlobalSlice<u32>,
            apart: u32,
            arguments: GlobalSlice<M::Value>,
            outcomes: GlobalSlice<u8>,
        ) {
            // These operations return no value.
            let results = arguments.part(arguments.len(), 0);
            sorted::<M, _>(tree, |_, _| $operation, (keys, order, apart), arguments, results, outcomes);
        }
    )*};
}

sorted! {
    /// Inserts pairs whose keys were sorted: see [`coded_sorted`].
    insert_sorted: keyed::Insert;
    /// Removes keys that were sorted.
    remove_sorted: keyed::Remove;
}

/// Executes operations whose keys were sorted: each element's own if there are `codes`, else `code`. Key `i`
/// belongs to element `order[i]` of the other slices; tiles take theirs from `apart` parts of the batch. The
/// grid has [`sorted_threads`] threads.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::REGISTERS)]
pub fn coded_sorted<M: Config + Instance>(
    tree: TreeView<M>,
    code: u32,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<M::Key>,
    order: GlobalSlice<u32>,
    apart: u32,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let operation = |place, exists: bool| {
        let own = read_if(codes, place, exists && !codes.is_empty()) as u32;
        OpCode::from_code(if codes.is_empty() { code } else { own })
    };
    sorted::<M, _>(tree, operation, (keys, order, apart), arguments, results, outcomes);
}

/// Writes the pairs from each of `lows` to the one of `highs`, inclusive, in key order. Those of range `i` go
/// to `offsets[i]` up to `offsets[i + 1]` at most; without offsets, to `i * room` and up to `room` pairs.
/// `counts` receives the number of pairs written. Blocks have 128 threads at most.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::COLLECTS_IN)]
pub fn range<M: Config + Instance>(
    tree: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    highs: GlobalSlice<M::Key>,
    offsets: GlobalSlice<u64>,
    room: u32,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    counts: GlobalSlice<u64>,
) {
    let index = Thread::index();
    let exists = index < lows.len();
    let (from, to) = (read_if(lows, index, exists), read_if(highs, index, exists));
    let span = if offsets.is_empty() {
        Span { from, to, offset: index as u64 * room as u64, room }
    } else {
        let (offset, end) = (read_if(offsets, index, exists), read_if(offsets, index + 1, exists));
        Span { from, to, offset, room: end.saturating_sub(offset).min(u32::MAX as u64) as u32 }
    };
    // Not `&&`: from branches the compiler would make two kernels in one, for threads with and without a
    // range.
    let asks = exists & (span.room > 0);
    M::enter(tree);
    let answer = M::seek::<seek::Collect>(tree, asks, span, Sink { keys, values });
    M::leave(tree);
    if exists {
        write_if(counts, index, answer.count);
    }
}

/// Adds to `reads` the number of nodes that are read on the way to the leaf of each key, and in it: eight
/// words, one per byte of a [`seek::Trace`].
#[kernel]
pub fn count_reads<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    reads: GlobalSlice<u64>,
) {
    let index = Thread::index();
    let exists = index < keys.len();
    let key = read_if(keys, index, exists);
    let span = Span { from: key, to: key, offset: 0, room: 0 };
    M::enter(tree);
    let trace = M::seek::<seek::Trace>(tree, exists, span, no_sink::<M>()).count;
    M::leave(tree);
    let warp = Tile::<32>::lockstep();
    let mut place = 0;
    while place < 8 {
        let many = warp.reduce_add((trace >> (8 * place)) as u32 & 0xff);
        if warp.rank() == 0 && many != 0 {
            reads.at(place).fetch_add(many as u64, Order::Relaxed, Scope::Device);
        }
        place += 1;
    }
}

/// Checks keys before a tree is built from them. Adds to `report[0]` the number of keys that are not below
/// the next one, to `report[1]` the number of slots that were ever taken according to the tree's counters,
/// and to `report[2]` 1 if the last key looks like an empty slot. The grid has a thread for each key and for
/// each shard of the counters.
#[kernel]
pub fn check_sorted<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    report: GlobalSlice<u64>,
) {
    let index = Thread::index();
    let is_wrong = index + 1 < keys.len() && keys.read(index) >= keys.read(index + 1);
    let warp = Tile::<32>::lockstep();
    let wrong = warp.ballot(is_wrong);
    let add = |place: usize, many: u64| {
        report.at(place).fetch_add(many, Order::Relaxed, Scope::Device);
    };
    if warp.rank() == 0 && wrong != 0 {
        add(0, wrong.count_ones() as u64);
    }
    if index < COUNTER_SHARDS && M::counters(tree).taken(index) > 0 {
        add(1, M::counters(tree).taken(index));
    }
    if index + 1 == keys.len() {
        let topmost = <M::Slot as Slot>::key(<M::Slot as Slot>::EMPTY).to_u64();
        add(2, (keys.read(index).to_u64() == topmost) as u64);
    }
}

/// Executes insertions and ranges concurrently, by persistent blocks, as many as fit on the device at once.
/// The work is divided into shares of as many elements as a block has threads. A share is all insertions or
/// all ranges (of `room` pairs at most), and the two kinds are evenly mixed. Each block executes an equal
/// number of consecutive shares; between two it leaves its epoch and enters another one ([`Config::repin`]).
/// If the tree's clock moves, each range is answered at a timestamp of its own.
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
            let (outcome, _) = session.execute(exists, keyed::Insert, key, value);
            write_if(outcomes, index, outcome as u8);
        } else {
            let exists = index < lows.len();
            let (from, to) = (read_if(lows, index, exists), read_if(highs, index, exists));
            let span = Span { from, to, offset: index as u64 * room as u64, room };
            let answer = M::seek::<seek::Collect>(tree, exists, span, found);
            write_if(counts, index, answer.count);
        }
        M::repin(tree);
        share += 1;
    }
    session.finish();
    M::leave(tree);
}

//! Entry points that trees have beside those of all keyed structures (`keyed::kernels`).
use super::bulk::Input;
use super::seek::{self, Seek, Span};
use super::sink::Sink;
use super::tree::{Config, TreeView};
use crate::keyed::kernels::{batch_of, read_if, write_if};
use crate::keyed::{self, Coded, Lanes, Outcome, STRIPES, Scalar, Session, Slot};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, fence_sc, kernel};

/// Makes a tree of sorted pairs, no two with equal keys, in the first `nodes` slabs of a pool: as many as
/// [`super::nodes`] counts. `count` is how many pairs there are, but for one whose key looks like an empty
/// slot and which comes last. `fill` pairs go to a node, which makes `leaves`. Slabs that are not among the
/// first are free then and must be blank before ([`prune`]). Runs alone. The grid has a tile for every node
/// and a thread for every word of the pool's bitmap and of the tallies.
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

/// Examines all nodes and adds to `report`: nodes, children, latched nodes, pairs misplaced, children wrong,
/// links wrong, pairs, levels, nodes above the leaves, versions, leaves whose time is not fixed. Runs alone.
/// The grid has a thread for every slab of the pool.
#[kernel]
pub fn examine<M: Config + Instance>(tree: TreeView<M>, report: GlobalSlice<u64>) {
    let found = M::examine(tree, Thread::index() as u32);
    // One by one: an array that a loop goes through may lie in local memory.
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

/// Frees all nodes but those of an empty tree, and makes their slabs blank. Runs alone. The grid has a tile
/// for every slab of the pool.
#[kernel]
pub fn prune<M: Config + Instance>(tree: TreeView<M>) {
    M::prune(tree, Thread::index() / M::TILE as usize);
}

/// The first step of a sweep (see `docs/structures/multiversion-b-tree.md`): marks every version as retired.
/// Each step runs alone, on a grid that has a thread for every slab of the pool.
#[kernel]
pub fn suspect_versions<M: Config + Instance>(tree: TreeView<M>) {
    M::suspect(tree, Thread::index() as u32);
}

/// The second step: takes that back of those that snapshots of the stamps `pins` can ask for, and unlinks the
/// others.
#[kernel]
pub fn sweep_versions<M: Config + Instance>(tree: TreeView<M>, pins: GlobalSlice<u32>) {
    M::sweep(tree, Thread::index() as u32, pins);
}

/// The third step: makes what is still marked blank. [`crate::slab::kernels::slab_reclaim`] frees it.
#[kernel]
pub fn wipe_versions<M: Config + Instance>(tree: TreeView<M>) {
    M::wipe(tree, Thread::index() as u32);
}

/// Takes a snapshot: moves the clock on, counts a live snapshot more, and writes the stamp to `pin`, by one
/// thread. May run beside everything. What is above [`super::LATEST`] is no stamp, so there the clock stands
/// still, as for tiles.
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
    // Kernels that read as of the stamp follow in the stream. Beside them writers store pairs and then read
    // the clock: what they read as it was before this kernel, readers must see. Both sides need a
    // sequentially consistent fence.
    fence_sc(Scope::Device);
    pin.at(0).store(word as u32, Order::Release, Scope::Device);
}

/// Counts a live snapshot less, by one thread, behind all that read as of it in the same stream. May run
/// beside everything.
#[kernel]
pub fn release_snapshot(clock: GlobalSlice<u64>) {
    if Thread::index() == 0 {
        clock.at(0).fetch_add(super::PIN.wrapping_neg(), Order::AcqRel, Scope::Device);
    }
}

/// Makes the directory of a tree anew. The grid is one block of [`super::DIRECTORY_THREADS`]. May run beside
/// everything but what runs alone.
#[kernel]
pub fn list_nodes<M: Config + Instance>(tree: TreeView<M>) {
    M::list(tree);
}

/// The key itself or, where it is not `inclusive`, the next one in a direction; nothing where there is none.
#[inline(always)]
fn bound<K: Scalar>(key: K, inclusive: bool, up: bool) -> Option<K> {
    let last = if up { K::MAX } else { K::from_u64(0) };
    let step = if up { 1 } else { u64::MAX };
    match inclusive {
        true => Some(key),
        false if key == last => None,
        false => Some(K::from_u64(key.to_u64().wrapping_add(step))),
    }
}

/// One pair in the range of each key.
#[inline(always)]
#[track_caller]
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

/// The pair with the lowest key above each key, or, where `inclusive` is not 0, not below it.
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

/// The pair with the highest key below each key, or, where `inclusive` is not 0, not above it.
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

/// For what writes no pairs.
#[inline(always)]
fn no_sink<M: Config>() -> Sink<M::Key, M::Value> {
    // SAFETY: no word of these is ever accessed.
    unsafe {
        Sink {
            keys: GlobalSlice::from_raw_parts(core::ptr::dangling_mut(), 0),
            values: GlobalSlice::from_raw_parts(core::ptr::dangling_mut(), 0),
        }
    }
}

/// How many keys there are from each of `lows` to the one of `highs`, which belongs to it.
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

/// The key that the calling thread brings of a batch whose keys were sorted, if it brings one. Neighbouring
/// keys are those of a tile; tiles that run side by side take theirs from all over the batch, from `apart`
/// places: those that took neighbouring keys would want the same leaves.
#[inline(always)]
fn spaced(width: u32, len: usize, apart: u32) -> (usize, bool) {
    let (tile, rank) = (Thread::index() / width as usize, Thread::index() % width as usize);
    let (groups, places) = (len.div_ceil(width as usize), apart.max(1) as usize);
    let each = groups.div_ceil(places);
    let index = (tile % places * each + tile / places) * width as usize + rank;
    (index, tile / places < each && index < len)
}

/// Threads that a launch needs for `len` sorted keys, of which tiles of `width` lanes take theirs from
/// `apart` places: see [`insert_sorted`].
pub fn sorted_threads(width: u32, len: usize, apart: u32) -> usize {
    len.div_ceil(width as usize).next_multiple_of(apart.max(1) as usize) * width as usize
}

/// The operation of the calling thread's element in a batch whose `keys` were sorted: key `i` was number
/// `order[i]` of the batch, as the other slices have it.
#[inline(always)]
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
            // No value is told.
            let results = arguments.part(arguments.len(), 0);
            sorted::<M, _>(tree, |_, _| $operation, (keys, order, apart), arguments, results, outcomes);
        }
    )*};
}

sorted! {
    /// Insertions whose keys were sorted: see [`coded_sorted`].
    insert_sorted: keyed::Insert;
    /// Removals whose keys were sorted.
    remove_sorted: keyed::Remove;
}

/// Any operations whose keys were sorted, each element's own where there are `codes`, else `code`. Key `i`
/// was number `order[i]` of the batch, as the other slices have it; tiles take theirs from `apart` places of
/// it. The grid has [`sorted_threads`].
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
        Coded::from_code(if codes.is_empty() { code } else { own })
    };
    sorted::<M, _>(tree, operation, (keys, order, apart), arguments, results, outcomes);
}

/// The pairs from each of `lows` to the one of `highs`, in order. Those of range `i` go from `offsets[i]` on,
/// and to `offsets[i + 1]` at most; where there are no offsets, from `i * room` on, and are `room` at most.
/// `counts` takes how many were written. In blocks of 128 threads at most.
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
    // Not `&&`: of branches the compiler makes two kernels in one, for threads with and without a range.
    let asks = exists & (span.room > 0);
    M::enter(tree);
    let answer = M::seek::<seek::Collect>(tree, asks, span, Sink { keys, values });
    M::leave(tree);
    if exists {
        write_if(counts, index, answer.count);
    }
}

/// Adds to `reads` how many nodes are read on the way to the leaf of each key, and in it: eight words, as
/// [`seek::Trace`] has bytes.
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

/// What is to be known of keys before a tree is built of them: adds to `report[0]` how many are not below the
/// one behind them, to `report[1]` how many slots the tree's tallies say were ever taken, and to `report[2]`
/// 1 if the last key looks like an empty slot. The grid has a thread for each key and for each stripe of the
/// tallies.
#[kernel]
pub fn survey<M: Config + Instance>(tree: TreeView<M>, keys: GlobalSlice<M::Key>, report: GlobalSlice<u64>) {
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
    if index < STRIPES && M::tallies(tree).taken(index) > 0 {
        add(1, M::tallies(tree).taken(index));
    }
    if index + 1 == keys.len() {
        let topmost = <M::Slot as Slot>::key(<M::Slot as Slot>::EMPTY).to_u64();
        add(2, (keys.read(index).to_u64() == topmost) as u64);
    }
}

/// Insertions and ranges side by side, by blocks that stay: as many as are on the device at once. Shares, of
/// as many elements as a block has threads, are insertions or ranges, of `room` pairs at most, evenly mixed,
/// and each block does as many shares in a row; between two it lets go of what it has read
/// ([`Config::breathe`]). Each range is answered as of a moment of its own where the tree's clock moves.
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
    let mut session = Session::<M, _>::new(tree, Lanes);
    let (mut share, end) = (block * all / blocks, (block + 1) * all / blocks);
    while share < end {
        // So many of the shares before this one are insertions.
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
        M::breathe(tree);
        share += 1;
    }
    session.finish();
    M::leave(tree);
}

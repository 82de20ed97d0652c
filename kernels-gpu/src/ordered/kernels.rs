//! Entry points of ordered structures beyond those of all keyed structures (`keyed::kernels`).
//!
//! # Cost
//!
//! Queries read a key or two ends per thread, search as [`Config::seek`] states, and write the result of each
//! element. [`bulk_build`] reads the pairs once and writes each node once; [`build_empty`] writes three
//! nodes. [`append_pairs`] does as [`bulk_build`] for the new pairs, and writes a node per level;
//! [`claim_nodes`] executes about an atomic per warp; [`find_spine`] reads a node per level. [`examine`],
//! [`free_nodes`] and [`check_sorted`] read each node, or each key, once; [`free_nodes`] also writes each
//! word of the directory. [`rebuild_directory`] runs in one block. [`count_reads`] descends as a lookup does,
//! and adds its counts by atomics.
use super::append::{Append, AppendPlan};
use super::bulk_build::Input;
use super::fixed_nodes::EMPTY_TREE_NODES;
use super::range::{Collect, Count, Highest, Lowest, Seek, Span, Trace};
use super::sink::Sink;
use super::view::{Config, TreeView};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{COUNTER_SHARDS, Outcome, Scalar, Slot};
use crate::slab::{Handle, Resident};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Builds a tree from sorted pairs with distinct keys in the first `nodes` slabs of a pool; [`super::nodes`]
/// computes this number. `count` is the number of pairs without the one whose key looks like an empty slot;
/// if there is one, it comes last. `fill` pairs go to a node, which makes `leaves` leaves. All other slabs
/// are free afterwards and must be blank before ([`free_nodes`]); the first `nodes` may be anything. Requires
/// exclusive access to the tree. The grid has a tile for every node and a thread for every word of the pool's
/// bitmap and of the counters.
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

/// Builds an empty tree in the first [`EMPTY_TREE_NODES`] slabs of a pool. All other slabs are free
/// afterwards and must be blank before. Requires exclusive access to the tree. The grid has a tile for every
/// node and a thread for every word of the pool's bitmap and of the counters. It does what [`bulk_build`]
/// does without pairs, and is a kernel of its own because every tree begins with it: the driver compiles it
/// in a fraction of the time.
#[kernel]
pub fn build_empty<M: Config + Instance>(tree: TreeView<M>) {
    let (thread, nodes) = (Thread::index() as u64, EMPTY_TREE_NODES as u64);
    if thread / (M::TILE as u64) < nodes {
        M::build_empty(tree, (thread / M::TILE as u64) as u32);
    }
    M::begin(tree, thread, nodes, 0);
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

/// Frees all nodes from slab number `first` on, but none of an empty tree, and makes their slabs blank.
/// Clears the directory. Requires exclusive access to the tree. The grid has a tile for every slab of the
/// pool.
#[kernel]
pub fn free_nodes<M: Config + Instance>(tree: TreeView<M>, first: u64) {
    let number = Thread::index() / M::TILE as usize;
    if number as u64 >= first {
        // mutation: early load equivalent, because only the slab's own tile clears its bit, when all lanes of
        // the tile have read it.
        // mutation: late store equivalent, because nothing else runs on the tree.
        M::free_node(tree, number);
    }
    // mutation: block weak late store equivalent, because nothing else runs on the tree.
    // mutation: skip store 4 performance, because searches find no entry, and begin at the root.
    tree.directory().clear();
}

/// Lists the last node of each level: see [`SPINE_WORDS`](super::SPINE_WORDS), the length of `spine`. The
/// grid is a block of 32 threads. Requires exclusive access to the tree.
#[kernel]
pub fn find_spine<M: Config + Instance>(tree: TreeView<M>, spine: GlobalSlice<u64>) {
    M::find_spine(tree, spine);
}

/// Allocates a slab for each of `handles`, and adds to `missing[0]` the number of those that got none. Each
/// launch should have another `seed`. The grid has a thread for each handle, in whole warps.
#[kernel]
pub fn claim_nodes<M: Config + Instance>(
    tree: TreeView<M>,
    seed: u32,
    handles: GlobalSlice<u32>,
    missing: GlobalSlice<u64>,
) {
    let (warp, index) = (Tile::<32>::lockstep(), Thread::index());
    let wanted = index < handles.len();
    // SAFETY: the slabs are allocated here, and the launches that follow make them nodes or free them.
    let mut resident = Resident::new(unsafe { tree.raw_pool() }, warp, seed);
    let handle = resident.allocate(wanted);
    if wanted {
        handles.write(index, handle.unwrap_or(Handle::NONE).to_word());
    }
    let lacks = warp.ballot(wanted && handle.is_none());
    if warp.rank() == 0 && lacks != 0 {
        missing.at(0).fetch_add(lacks.count_ones() as u64, Order::Relaxed, Scope::Device);
    }
}

/// Appends sorted pairs to a tree whose keys are all below, in nodes that [`claim_nodes`] has allocated. If
/// slabs are missing, frees the others. Requires exclusive access to the tree. The grid has a tile for each
/// of [`AppendPlan::tiles`].
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel]
pub fn append_pairs<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    handles: GlobalSlice<u32>,
    spine: GlobalSlice<u64>,
    missing: GlobalSlice<u64>,
    plan: AppendPlan,
) {
    let input = Append { keys, values, handles, spine, missing, plan };
    M::append(tree, Thread::index() as u64 / M::TILE as u64, input);
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
    keys: BoundedSlice<M::Key>,
    range: impl FnOnce(M::Key) -> Option<(M::Key, M::Key)>,
    results: Sink<M::Key, M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (index, keys) = (Thread::index(), keys.resolve());
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
    keys: BoundedSlice<M::Key>,
    inclusive: u32,
    found: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let range = |key| Some((bound(key, inclusive != 0, true)?, M::Key::MAX));
    one::<M, Lowest>(tree, keys, range, Sink { keys: found, values }, outcomes);
}

/// Finds the pair with the highest key below each key or, if `inclusive` is not 0, at or below it.
#[kernel(registers = M::REGISTERS)]
pub fn predecessor<M: Config + Instance>(
    tree: TreeView<M>,
    keys: BoundedSlice<M::Key>,
    inclusive: u32,
    found: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let range = |key| Some((M::Key::from_u64(0), bound(key, inclusive != 0, false)?));
    one::<M, Highest>(tree, keys, range, Sink { keys: found, values }, outcomes);
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
    lows: BoundedSlice<M::Key>,
    highs: GlobalSlice<M::Key>,
    counts: GlobalSlice<u64>,
) {
    let (index, lows) = (Thread::index(), lows.resolve());
    let exists = index < lows.len();
    let (from, to) = (read_if(lows, index, exists), read_if(highs, index, exists));
    let span = Span { from, to, offset: 0, room: u32::MAX };
    M::enter(tree);
    let answer = M::seek::<Count>(tree, exists, span, no_sink::<M>());
    M::leave(tree);
    if exists {
        write_if(counts, index, answer.count);
    }
}

/// Writes the pairs from each of `lows` to the one of `highs`, inclusive, in key order. Those of range `i` go
/// to `offsets[i]` up to `offsets[i + 1]` at most; without offsets, to `i * room` and up to `room` pairs.
/// `counts` receives the number of pairs written. Blocks have 128 threads at most.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::COLLECTS_IN)]
pub fn range<M: Config + Instance>(
    tree: TreeView<M>,
    lows: BoundedSlice<M::Key>,
    highs: GlobalSlice<M::Key>,
    offsets: GlobalSlice<u64>,
    room: u32,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    counts: GlobalSlice<u64>,
) {
    let (index, lows) = (Thread::index(), lows.resolve());
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
    let answer = M::seek::<Collect>(tree, asks, span, Sink { keys, values });
    M::leave(tree);
    if exists {
        write_if(counts, index, answer.count);
    }
}

/// Adds to `reads` the number of nodes that are read on the way to the leaf of each key, and in it: eight
/// words, one per byte of a [`Trace`].
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
    let trace = M::seek::<Trace>(tree, exists, span, no_sink::<M>()).count;
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

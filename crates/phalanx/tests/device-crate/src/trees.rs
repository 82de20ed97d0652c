//! Kernel that updates and queries a versioned tree and records the times, and kernels that collect ranges in
//! blocks of any size.
use phalanx_kernels::keyed::{Kind, Packed, PerLane, Session};
use phalanx_kernels::mvbtree::{
    Collect, CollectWide, Concurrent, OutOfPlace, Seek, Sink, Span, Tree, TreeView, Versioned,
};
use phalanx_kernels::slab::Spread;
use simt::{GlobalSlice, Scope, Thread, Tile, fence, kernel, timer};

/// Tree with out-of-place updates and pairs of 32 bits.
pub type Moments = Tree<Versioned<Packed>, Spread<128>, OutOfPlace, 4, 4>;

/// Code of an insertion of `low` with value `high` in [`record_history`].
pub const INSERT: u8 = 0;
/// Code of a removal of `low`.
pub const REMOVE: u8 = 1;
/// Code of a look-up of `low`.
pub const GET: u8 = 2;
/// Code of a query for the pairs from `low` to `high`.
pub const RANGE: u8 = 3;

/// Executes operations by their codes, one per warp and round, and records each result with its times. For
/// [`GET`], the value is written to the first of the operation's `room` elements; for [`RANGE`], the pairs to
/// all of them.
#[allow(clippy::too_many_arguments)] // kernel arguments are named at the launch
#[kernel]
pub fn record_history(
    tree: TreeView<Moments>,
    codes: GlobalSlice<u8>,
    lows: GlobalSlice<u32>,
    highs: GlobalSlice<u32>,
    room: u32,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
) {
    Moments::enter(tree);
    let (mut session, warp) = (Session::<Moments, _>::new(tree, PerLane), Tile::<32>::lockstep());
    let mut index = Thread::index() / 32;
    while index < codes.len() {
        let (low, high, asks) = (lows.read(index), highs.read(index), warp.rank() == 0);
        let first = index * room as usize;
        let start = timer();
        let count;
        match codes.read(index) {
            INSERT => count = session.insert(if asks { Some((low, high)) } else { None }) as u64,
            REMOVE => count = session.remove(if asks { Some(low) } else { None }) as u64,
            GET => {
                let value = session.get(if asks { Some(low) } else { None });
                count = value.is_some() as u64;
                if let Some(value) = value {
                    values.write(first, value);
                }
            }
            _ => {
                let span = Span { from: low, to: high, offset: first as u64, room };
                let sink = Sink { keys, values };
                count = tree.seek::<Collect>(Tile::<4>::lockstep(), asks, span, sink).count;
            }
        }
        fence(Scope::Device);
        warp.sync();
        let end = timer();
        if asks {
            counts.write(index, count);
            starts.write(index, start);
            ends.write(index, end);
        }
        index += Thread::count() / 32;
    }
    session.finish();
    Moments::leave(tree);
}

/// Default tree type for 32-bit keys and values.
pub type Plain = Tree<Packed, Spread<128>, Concurrent, 4, 4>;

/// Collects the first `room` pairs from each of `lows` to the corresponding one of `highs`, in blocks of any
/// size.
#[allow(clippy::too_many_arguments)] // kernel arguments are named at the launch
#[kernel]
pub fn collect_ranges_wide(
    tree: TreeView<Plain>,
    lows: GlobalSlice<u32>,
    highs: GlobalSlice<u32>,
    room: u32,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
) {
    collect_by::<CollectWide>(tree, (lows, highs), room, Sink { keys, values }, counts);
}

/// Collects ranges like `collect_ranges_wide`, in blocks of at most 128 threads.
#[allow(clippy::too_many_arguments)] // as above
#[kernel]
pub fn collect_ranges(
    tree: TreeView<Plain>,
    lows: GlobalSlice<u32>,
    highs: GlobalSlice<u32>,
    room: u32,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
) {
    collect_by::<Collect>(tree, (lows, highs), room, Sink { keys, values }, counts);
}

#[inline(always)]
fn collect_by<Q: Seek>(
    tree: TreeView<Plain>,
    (lows, highs): (GlobalSlice<u32>, GlobalSlice<u32>),
    room: u32,
    sink: Sink<u32, u32>,
    counts: GlobalSlice<u64>,
) {
    let index = Thread::index();
    let exists = index < lows.len();
    let (from, to) = if exists { (lows.read(index), highs.read(index)) } else { (0, 0) };
    let span = Span { from, to, offset: index as u64 * room as u64, room };
    let answer = tree.seek::<Q>(Tile::<4>::lockstep(), exists, span, sink);
    if exists {
        counts.write(index, answer.count);
    }
}

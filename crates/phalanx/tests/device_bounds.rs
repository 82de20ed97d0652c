//! Safe device functions with indices and handles that are out of range. Each of them returns a result, or
//! ends the launch with its source line; none accesses memory outside its structure.
//! `kernels-gpu/bounds.toml` lists the functions and their behaviour.
//!
//! The emulator ends a launch that accesses memory outside all live buffers. To detect accesses to the memory
//! of another structure too, all pieces lie in one buffer, separated by guards that must not change.
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::btree::{self, Concurrent, EMPTY_TREE_NODES, Input, RawVersions, Tree, TreeView};
use phalanx_kernels::keyed::{COUNTER_SHARDS, Kind, Packed, SHARD_WORDS};
use phalanx_kernels::primitives::operator::Sum;
use phalanx_kernels::primitives::scan::{Job, ScanPlan, Vectors};
use phalanx_kernels::skiplist::{Layers, Layout, List, NodeArray, Unsorted};
use phalanx_kernels::slab::list::{Config as _, Lists, ListsView};
use phalanx_kernels::slab::{Bitmaps, Handle, Light, Pool, Spread, Supers};
use simt::emulator::{Launch, Options};
use simt::{BoundedSlice, GlobalSlice, Kernel, Thread, Tile, shared};

type Chains = Lists<Packed, Spread<128>, 4, 4>;
type Plain = Tree<Packed, Light<128>, Concurrent, 4, 4>;
type Skips = List<Packed, Light<128>, Unsorted, 4, 4>;
type Scans = Vectors<Sum<u32>, 256, 2, 4>;

/// Number of slabs in each pool.
const UNITS: usize = 32;
/// Number of buckets of the lists, without the overflow bucket behind them.
const BUCKETS: u32 = 3;
/// Number of 8-byte words before and behind each piece: more than any index below reaches, except for those
/// that leave the whole buffer.
const GUARD: usize = 1024;
/// Value of each byte of a guard.
const PATTERN: u8 = 0x5a;
/// Handles that refer to no slab: one of a missing super block, one slightly beyond the last slab, and null
/// handles.
const STRAY: [u32; 4] = [0x0012_3456, 0xFE00_0001, UNITS as u32 + 3, u32::MAX];

/// Buffer that is divided into pieces with guards between them.
struct Land {
    memory: Buffer<u64>,
    /// Start and length of each piece, in words.
    pieces: Vec<(usize, usize)>,
}

impl Land {
    fn new(device: &Device) -> Self {
        Self { memory: device.filled(48 * GUARD, PATTERN).expect("memory"), pieces: Vec::new() }
    }

    /// Allocates a piece of `words` words, all of them `word`.
    fn piece(&mut self, words: usize, word: u64) -> *mut u64 {
        let first =
            self.pieces.last().map_or(0, |(first, words)| (first + words).next_multiple_of(32)) + GUARD;
        self.memory.write_at(first, &vec![word; words]).expect("room");
        self.pieces.push((first, words));
        self.memory.pointer().wrapping_add(first)
    }

    /// Returns whether all guards are unchanged.
    fn is_whole(&self) -> bool {
        let words = self.memory.read().expect("memory");
        let is_guard =
            |place: usize| !self.pieces.iter().any(|&(first, len)| (first..first + len).contains(&place));
        let guards = words.iter().enumerate().filter(|(place, _)| is_guard(*place));
        guards.map(|(_, word)| *word).all(|word| word == u64::from_ne_bytes([PATTERN; 8]))
    }
}

/// Arguments of the kernels.
#[derive(Clone, Copy)]
struct Given {
    lists: ListsView<Chains>,
    tree: TreeView<Plain>,
    skips: TreeView<Skips>,
    pool: Spread<128>,
    /// Four handles that refer to no slab.
    strays: GlobalSlice<u32>,
    /// Words with the value zero.
    words: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
}

/// Returns the bitmaps of a pool whose first slabs are live.
fn bitmaps(land: &mut Land, live: u32) -> Bitmaps {
    let words = Bitmaps::words_for(UNITS) / 2;
    let (bits, retired, faults) = (land.piece(words, u64::MAX), land.piece(words, 0), land.piece(1, 0));
    let first = land.pieces[land.pieces.len() - 3].0;
    let taken = u64::MAX << 32 | ((1 << live) - 1);
    land.memory.write_at(first, &[taken]).expect("room");
    // SAFETY: the pieces have these sizes and live as long as the test.
    unsafe { Bitmaps::new(bits.cast(), retired.cast(), faults, UNITS as u32) }
}

/// Returns the slabs of a pool.
fn supers(land: &mut Land) -> Supers {
    let first = land.piece(UNITS * 16, u64::MAX);
    let table = land.piece(256, first.expose_provenance() as u64);
    Supers { first, joined: 1, table }
}

fn tree<M: btree::Config<Pool = Light<128>>>(land: &mut Land) -> TreeView<M> {
    let (bitmaps, supers) = (bitmaps(land, EMPTY_TREE_NODES as u32), supers(land));
    let entries = btree::directory_entries(UNITS);
    let words = btree::directory_words::<Packed>(entries);
    let (counters, directory) = (land.piece(COUNTER_SHARDS * SHARD_WORDS, 0), land.piece(words, 0));
    // SAFETY: the pieces have these sizes and live as long as the test. Blank slabs are no valid tree, but no
    // function here traverses one.
    unsafe {
        let pool = Light::from_parts(bitmaps, supers, 5);
        TreeView::new(counters, pool, directory, entries, RawVersions::NOTHING)
    }
}

fn given(land: &mut Land) -> Given {
    let (bitmaps, supers) = (bitmaps(land, 2), supers(land));
    // SAFETY: the pieces have these sizes and live as long as the test; a super block has 2^5 slabs.
    let pool: Spread<128> = unsafe { Spread::from_parts(bitmaps, supers, 5) };
    let (heads, counters) =
        (land.piece((BUCKETS as usize + 1) * 16, u64::MAX), land.piece(COUNTER_SHARDS * SHARD_WORDS, 0));
    let (strays, words, counts) = (land.piece(2, 0), land.piece(4, 0), land.piece(4, 0));
    let first = land.pieces[land.pieces.len() - 3].0;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    land.memory.write_at(first, &[pair(STRAY[0], STRAY[1]), pair(STRAY[2], STRAY[3])]).expect("room");
    // SAFETY: as above.
    unsafe {
        Given {
            lists: ListsView::new(heads, counters, pool, BUCKETS),
            tree: tree(land),
            skips: tree(land),
            pool,
            strays: GlobalSlice::from_raw_parts(strays.cast(), 4),
            words: GlobalSlice::from_raw_parts(words.cast(), 8),
            counts: GlobalSlice::from_raw_parts(counts, 4),
        }
    }
}

/// Kernel written without `unsafe`.
#[derive(Clone, Copy)]
struct Misuse<F> {
    given: Given,
    body: F,
}

impl<F: Fn(Given) + Copy + Send + Sync + 'static> Kernel for Misuse<F> {
    const PROGRAM: &'static str = "device_bounds";
    const NAME: &'static str = "misuse";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        (self.body)(self.given);
    }
}

/// Runs a kernel in one block and checks that the guards are unchanged. Returns the failure with its source
/// line.
fn run<F: Fn(Given) + Copy + Send + Sync + 'static>(threads: u32, body: F) -> Result<(), String> {
    let device = Device::emulator(Options::default());
    let mut land = Land::new(&device);
    let launch = Launch::new(Grid::new(1, threads), Misuse { given: given(&mut land), body });
    let told = device.emulator_handle().expect("an emulator").launch_all(vec![launch]);
    assert!(land.is_whole(), "memory outside was written");
    told.map(drop).map_err(|failure| failure.to_string())
}

/// Checks that the kernel is ended by a trap or a reported fault, in a line of Rust.
#[track_caller]
fn ends<F: Fn(Given) + Copy + Send + Sync + 'static>(threads: u32, how: &str, body: F) {
    let told = run(threads, body).expect_err("an index or a handle out of range was taken");
    assert!(told.contains(how), "'{how}' was expected: {told}");
    assert!(told.contains(".rs:"), "a source line was expected: {told}");
    assert!(!told.contains("outside"), "it reached outside: {told}");
}

/// Checks that the kernel runs to completion.
#[track_caller]
fn answers<F: Fn(Given) + Copy + Send + Sync + 'static>(threads: u32, body: F) {
    run(threads, body).expect("it is told of by an answer");
}

/// Discards the result of a function.
fn ignore<T>(_given: T) {}

#[test]
fn lists_end_the_launch_at_buckets_that_are_not_there() {
    for bucket in [BUCKETS + 1, BUCKETS + 9, 1_000_000, u32::MAX] {
        ends(32, "trap", move |given| given.lists.for_each_node(Tile::<4>::lockstep(), Some(bucket), |_| ()));
        ends(32, "trap", move |given| given.lists.flush(Tile::<4>::lockstep(), bucket, false));
        ends(32, "trap", move |given| Chains::flush(given.lists, Some(bucket), false));
        ends(1, "trap", move |given| ignore(given.lists.inspect(bucket)));
        ends(1, "trap", move |given| ignore(Chains::inspect(given.lists, Some(bucket))));
    }
    answers(32, |given| given.lists.for_each_node(Tile::<4>::lockstep(), Some(BUCKETS), |_| ()));
}

#[test]
fn slots_of_a_node_end_with_the_node() {
    for position in [15, 16, 1 << 20] {
        ends(32, "trap", move |given| {
            given.lists.for_each_node(Tile::<4>::lockstep(), Some(0), |node| {
                ignore(node.map(|node| node.slot(position)));
            });
        });
    }
}

#[test]
fn scans_show_nothing_beyond_the_last_place() {
    answers(32, |given| {
        Chains::scan(given.lists, (1 << 20) + Thread::index(), |place| assert!(place.is_none()));
        Plain::scan(given.tree, (1 << 20) + Thread::index(), |place| assert!(place.is_none()));
    });
}

#[test]
fn pools_refuse_handles_of_no_slab() {
    for stray in STRAY {
        let stray = Handle::from_word(stray);
        ends(1, "freed", move |given| given.pool.free(stray));
        ends(1, "retired", move |given| given.pool.retire(stray));
        answers(1, move |given| {
            assert!(!given.pool.is_live(stray) && given.pool.number(stray).is_none());
        });
    }
}

#[test]
fn bulk_builds_end_the_launch_where_slabs_or_levels_are_lacking() {
    let input = |given: Given, count, fill, leaves| Input::<Packed> {
        count,
        fill,
        leaves,
        ..Input::new(given.words, given.words, 0, 2)
    };
    // More leaves than slabs; no leaves; nodes without children.
    for (count, fill, leaves) in [(1 << 20, 2, 1 << 19), (8, 2, 0), (8, 0, 4), (8, 1, 8)] {
        for number in [0, 2, UNITS as u64 + 1] {
            ends(4, "trap", move |given| {
                <Plain as btree::Config>::build(given.tree, number, input(given, count, fill, leaves));
            });
        }
    }
}

#[test]
fn bulk_builds_make_nothing_of_a_number_behind_the_root() {
    answers(4, |given| {
        let input = Input::<Packed>::new(given.words, given.words, 0, 2);
        <Plain as btree::Config>::build(given.tree, 1 << 20, input);
    });
}

#[test]
fn appends_end_the_launch_at_handles_of_no_slab() {
    let append = |given: Given, number, nodes, fill| {
        let plan = btree::AppendPlan { count: 8, fill, parent: 1, raises: 0, nodes };
        let (keys, handles, spine) = (given.words, given.strays, given.counts);
        let missing = given.counts.part(3, 1);
        let input = btree::Append::<Packed> { keys, values: keys, handles, spine, missing, plan };
        <Plain as btree::Config>::append(given.tree, number, input);
    };
    // Handles of no slab; no nodes; nodes without children.
    for (number, nodes, fill) in [(0, 4, 2), (3, 4, 2), (0, 0, 2), (0, 4, 1)] {
        ends(4, "trap", move |given| append(given, number, nodes, fill));
    }
    answers(4, move |given| append(given, 1 << 20, 4, 2));
}

#[test]
fn scans_of_a_pool_pass_over_numbers_of_no_slab() {
    for number in [UNITS as u32, UNITS as u32 + 7, 1 << 20, u32::MAX] {
        answers(4, move |given| {
            use btree::Config;
            assert!(Plain::examine(given.tree, number).nodes == 0);
            Plain::mark_version(given.tree, number);
            Plain::sweep(given.tree, number, given.words);
            Plain::clear_marked(given.tree, number);
            Plain::free_node(given.tree, number as usize);
        });
        answers(32, move |given| {
            Skips::gather(given.skips, number as usize, given.words, given.words, given.counts);
            Skips::sweep_nodes(given.skips, number as usize);
        });
    }
}

#[test]
fn index_layers_end_the_launch_at_handles_of_no_slab() {
    let ground = |given: Given, nodes, stride, fill| NodeArray {
        layout: Layout { nodes, stride, fill },
        lows: given.words,
        handles: given.strays,
        slabs: given.strays,
    };
    for index in 0..5 {
        ends(4, "", move |given| Skips::relink(given.skips, index, ground(given, 4, 1, 2)));
        ends(4, "", move |given| Skips::index(given.skips, index as u64, ground(given, 4, 1, 2)));
        ends(4, "trap", move |given| Skips::index(given.skips, index as u64, ground(given, 4, 0, 2)));
        ends(4, "trap", move |given| Skips::index(given.skips, index as u64, ground(given, 4, 1, 1)));
    }
}

#[test]
fn scans_end_the_launch_where_slices_are_short() {
    let job = |given: Given| Job {
        from: given.words,
        to: given.words,
        status: given.counts,
        tickets: given.strays.part(0, 1),
        inclusive: 1,
    };
    // The index of the first tile is then that of a stray handle.
    ends(256, "trap", move |given| Scans::scan(job(given)));
    let first = move |given: Given| Job { tickets: given.words.part(7, 1), ..job(given) };
    ends(256, "trap", move |given| Scans::scan(Job { status: given.counts.part(0, 0), ..first(given) }));
    ends(256, "trap", move |given| Scans::scan(Job { to: given.words.part(0, 5), ..first(given) }));
    answers(256, move |given| Scans::scan(first(given)));
}

/// Returns a slice with a count.
fn bounded(given: Given) -> BoundedSlice<u32> {
    BoundedSlice::new(given.words, given.strays.part(0, 1))
}

#[test]
fn slices_and_shared_arrays_end_the_launch_beyond_their_length() {
    for index in [8, 9, 1 << 20, usize::MAX] {
        ends(1, "trap", move |given| ignore(given.words.at(index)));
        ends(1, "trap", move |given| ignore(given.words.read(index)));
        ends(1, "trap", move |given| given.words.write(index, 1));
        answers(1, move |given| assert!(given.words.part(index, 8).is_empty()));
        answers(1, move |given| assert_eq!(bounded(given).part(index, 8).max_len(), 0));
        ends(1, "", move |_| ignore(shared!([u32; 8]).load(index)));
        ends(1, "", move |_| shared!([u32; 8]).store(index, 1));
        ends(1, "", move |_| ignore(shared!([u32; 8]).fetch_add(index, 1)));
    }
    answers(1, |given| assert_eq!(given.words.part(3, 99).len(), 5));
    answers(1, |given| assert_eq!(bounded(given).part(3, 99).max_len(), 5));
}

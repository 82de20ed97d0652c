//! Mutation tests: faults injected into the kernels of graphs, one at a time. The exploration must find each
//! within a given number of seeds, and replay it.
use crate::common::replay;
use crate::setting::{Setting, told};
use crate::world::Checked;
use crate::{algorithms, batches, phases};
use phalanx::graph::Kind;
use phalanx_kernels::graph::Edges;
use phalanx_kernels::keyed::Bare;
use phalanx_kernels::slab::Spread;
use simt::Order;
use simt::emulator::{Fault, SiteId};

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 300;

/// Finds the only line with a text in a function of a file of the graph's kernels.
#[track_caller]
fn site(file: &str, function: &str, text: &str) -> SiteId {
    let file = format!("kernels-gpu/src/graph/{file}");
    SiteId::find(&file, function, text).unwrap_or_else(|error| panic!("{error}"))
}

/// Requires that one of the seeds finds the fault, and replays it.
#[track_caller]
fn is_found(fault: Fault, run: impl Fn(&Setting) -> Checked) {
    let setting = |seed| Setting { faults: vec![fault.clone()], ..Setting::new(seed) };
    let mut found = (0..SEEDS).filter_map(|seed| run(&setting(seed)).err().map(|text| (seed, text)));
    let (seed, text) = found
        .next()
        .unwrap_or_else(|| panic!("not found by {SEEDS} seeds, {} effects: {fault}", fault.effects()));
    let again = run(&setting(seed)).expect_err("it replays");
    assert_eq!(told(&again), told(&text), "{fault}; {}", replay(seed));
    assert!(fault.effects() > 0, "the fault has no effect: {fault}");
    println!("{fault}: found by seed {seed}: {text}");
}

fn directed(setting: &Setting) -> Checked {
    batches::run::<()>(setting, Kind::Directed)
}

fn undirected(setting: &Setting) -> Checked {
    batches::run::<u32>(setting, Kind::Undirected)
}

fn phase(setting: &Setting) -> Checked {
    phases::run::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>(setting)
}

/// Declares a test for each fault.
macro_rules! faults {
    ($($(#[$doc:meta])* $test:ident: $fault:expr, $run:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $test() {
            is_found($fault, $run);
        }
    )*};
}

faults! {
    /// The insertions of several warps, or their vertices, get the same places in the lists.
    a_torn_count_of_a_batch_is_found:
        Fault::tear(site("batch.rs", "add_listed", "self.add(GrowthWord::Listed")), recycled;
    /// The same, always.
    a_count_of_a_batch_that_stays_is_found:
        Fault::skip(site("batch.rs", "add_listed", "self.add(GrowthWord::Listed")), recycled;
    /// The counts of a table miss changes.
    a_torn_count_of_a_table_is_found:
        Fault::tear(site("batch.rs", "count_in_tables", "counts.fetch_add")), recycled;
    /// A vertex is listed twice, or not at all.
    a_torn_pressure_of_a_slab_is_found:
        Fault::tear(site("batch.rs", "add_pressure", "word.fetch_add(many")), directed;
    /// The first count in a link is lost, or two insertions list the vertex.
    a_torn_first_count_in_a_link_is_found:
        Fault::tear(site("batch.rs", "add_pressure", "link.compare_exchange")), rushed;
    /// Two vertices get one table.
    a_torn_extension_of_the_arena_is_found:
        Fault::tear(site("table.rs", "extend", "used.fetch_add(slabs,")), recycled;
    /// Two vertices get the same free table.
    a_torn_count_of_free_tables_is_found:
        Fault::tear(site("table.rs", "allocate", "count.fetch_add(u32::MAX")), recycled;
    /// A free table is in no place.
    a_free_table_without_its_place_is_found:
        Fault::skip(site("table.rs", "free", "store(base")), recycled;
    /// Two edges get the same slot of a bucket.
    a_torn_place_in_a_bucket_is_found:
        Fault::tear(site("moves.rs", "put_all", "count.fetch_add(1")), directed;
    /// The pressure of a vertex that has grown stays.
    a_pressure_that_is_not_reset_is_found:
        Fault::skip(site("grow.rs", "take_pressure", "word.store")), directed;
    /// The number of edges of a new table is wrong.
    a_lost_count_of_moved_edges_is_found:
        Fault::skip(site("moves.rs", "move_part", "MOVED).fetch_add")), directed;
    /// A table is installed although edges found no room in it.
    a_failed_move_that_is_not_noted_is_found:
        Fault::skip(site("moves.rs", "move_part", "FAILED).fetch_or")), crowded;
    /// A freed slab has edges.
    a_slab_that_is_freed_with_its_edges_is_found:
        Fault::skip(site("grow.rs", "blank", "store_vec")), directed;
    /// A freed slab of a compacted vertex has edges.
    a_slab_that_is_cut_with_its_edges_is_found:
        Fault::skip(site("chain.rs", "blank_alone", "store_vec")), exchanged;
    /// A compacted vertex has an edge twice.
    a_slot_behind_the_edges_that_is_not_blanked_is_found:
        Fault::skip(site("chain.rs", "cut", "store(S::EMPTY")), exchanged;
    /// The slabs behind a compacted vertex are freed, and stay linked.
    a_link_of_a_compacted_vertex_that_stays_is_found:
        Fault::skip(site("chain.rs", "cut", "link.store(Link::NONE")), exchanged;
    /// A vertex with a table keeps its old description.
    a_record_without_its_link_is_found:
        Fault::skip(site("record.rs", "describe", "self.link().store")), directed;
    /// Two warps reach a vertex, and both put it into the queue.
    a_torn_claim_of_a_vertex_is_found:
        Fault::tear(site("algorithms/search.rs", "claim", "compare_exchange(")), analysed;
    /// Vertices get the same places in the queue.
    a_torn_count_of_a_queue_is_found:
        Fault::tear(site("algorithms/search.rs", "reach", "fetch_add(")), analysed;
    /// Parts of large vertices get the same places in the list.
    a_torn_count_of_parts_is_found:
        Fault::tear(site("algorithms/parts.rs", "append", "fetch_add(")), analysed;
    /// A root gets two labels, of which one is lost.
    a_torn_join_of_components_is_found:
        Fault::tear(site("algorithms/components.rs", "join", "compare_exchange(")), analysed;
    /// A share of a rank is lost.
    a_torn_sum_of_shares_is_found:
        Fault::tear(site("algorithms/page_rank.rs", "receive", "fetch_add(")), analysed_directed;
    /// Oriented edges of a hub get the same places.
    a_torn_count_of_oriented_edges_is_found:
        Fault::tear(site("algorithms/triangles.rs", "triangle_orient_parts", "fetch_add(")), with_hubs;
    /// Two edges of a group get the same place.
    a_torn_count_of_a_group_is_found:
        Fault::tear(site("groups.rs", "join_group", "fetch_add(1,")), with_hubs;
    /// Two warps count the common neighbours of the same edge.
    a_torn_count_of_taken_edges_is_found:
        Fault::tear(site("common.rs", "take", "fetch_add(many")), with_hubs;
    /// A warp does not find neighbours.
    a_bit_that_is_not_set_is_found:
        Fault::skip(site("row_memory.rs", "or", "or_unchecked(")), with_hubs;
    /// A warp tests bits while it sets them.
    a_test_of_bits_without_a_barrier_is_found:
        Fault::skip(site("groups.rs", "set_bits", "sync();")), with_hubs;
    /// A warp sets bits while it clears them.
    bits_that_are_set_without_a_barrier_are_found:
        Fault::skip(site("row_memory.rs", "clear", "sync();")), with_hubs;
    /// Triangles of a warp are lost.
    a_torn_total_is_found:
        Fault::tear(site("algorithms/parts.rs", "add_of_warp", "fetch_add(")), kept_one;
    /// The read of a record through the L1 cache misses edges.
    a_weak_read_of_records_is_found:
        Fault::order(site("search.rs", "round", "record.read("), Order::Weak), phase;
}

/// Algorithms on an undirected graph.
fn analysed(setting: &Setting) -> Checked {
    algorithms::run(setting, Kind::Undirected)
}

/// Algorithms on a directed graph.
fn analysed_directed(setting: &Setting) -> Checked {
    algorithms::run(setting, Kind::Directed)
}

/// Triangles of a graph with hubs.
fn with_hubs(setting: &Setting) -> Checked {
    algorithms::hubs(setting)
}

/// A triangle that is counted when its edges have been inserted.
fn kept_one(setting: &Setting) -> Checked {
    algorithms::keep_one(setting)
}

/// Batches that let several vertices grow together, some into tables that others leave.
fn recycled(setting: &Setting) -> Checked {
    batches::recycle(setting)
}

/// Batches of many edges into full records with tombstones.
fn rushed(setting: &Setting) -> Checked {
    batches::rush(setting)
}

/// Batches that exchange the edges of small vertices.
fn exchanged(setting: &Setting) -> Checked {
    batches::exchange(setting, 45, 6)
}

/// Batches on a pool with few slabs.
fn crowded(setting: &Setting) -> Checked {
    batches::crowd(setting)
}

/// Batches for whose tables the arena has too little room.
fn exhausted(setting: &Setting) -> Checked {
    batches::exhaust(setting)
}

/// Operations that only rare states lead to: file, function and text of each, with an order that it does not
/// have.
const RARE: [(&str, &str, &str, Order); 8] = [
    // Other lanes have taken the last free table of the size.
    ("table.rs", "allocate", "count.fetch_add(1,", Order::AcqRel),
    // The arena is full; a free table is used again; a table grows.
    ("grow.rs", "plan_of", "growth.add(GrowthWord::NoTable", Order::AcqRel),
    ("table.rs", "allocate", "place.load(", Order::Acquire),
    ("grow.rs", "plan_table", "growth.add(GrowthWord::Groups", Order::AcqRel),
    // A new table is given up, because its edges found no slab.
    ("grow.rs", "finish", "growth.add(GrowthWord::NotMoved", Order::AcqRel),
    // Insertions are refused.
    ("batch.rs", "add_votes", "self.add(word", Order::AcqRel),
    // Several warps defer insertions into a full record.
    ("batch.rs", "add_pressure", "link.fetch_add(many", Order::AcqRel),
    // A small vertex is compacted.
    ("chain.rs", "cut", "link.store(Link::NONE", Order::Release),
];

/// Counts the operations of [`RARE`] by faults that only make their orders stronger.
#[test]
fn without_a_fault_the_same_batches_pass_and_take_rare_paths() {
    let counters = RARE.map(|(file, function, text, order)| Fault::order(site(file, function, text), order));
    let runs = [recycled as fn(&Setting) -> Checked, rushed, exchanged, crowded, exhausted, undirected];
    for (seed, run) in (0..SEEDS / 10).flat_map(|seed| runs.map(|run| (seed, run))) {
        let found = run(&Setting { faults: counters.to_vec(), ..Setting::new(seed) });
        assert!(found.is_ok(), "{}\n{}", found.unwrap_err(), replay(seed));
    }
    counters.iter().for_each(|counter| println!("{} times: {counter}", counter.effects()));
    assert!(counters.iter().all(|counter| counter.effects() >= 3), "{:?}", counters.map(|one| one.effects()));
}

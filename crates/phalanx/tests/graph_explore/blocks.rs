//! Batches, growth, operations on the whole graph and algorithms whose launches have several blocks.
use crate::algorithms;
use crate::batches::{insert, stars};
use crate::common::{Rng, replay, seeds};
use crate::setting::Setting;
use crate::world::{Checked, Sample, World, random_edges};
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Error};

/// Number of seeds.
const SEEDS: u64 = 16;

/// Number of vertices that change: more than a block has threads.
const MANY: u32 = 200;

/// Number of vertices.
const VERTICES: u32 = 240;

type Timed = Vec<(u32, u32, u64)>;

/// Returns edges of some vertices, each to `many` targets behind the `first`.
fn fans(rng: &mut Rng, sources: &[u32], first: u32, many: u32) -> Timed {
    let time = |rng: &mut Rng| rng.below(100);
    let targets = |source: u32| (1..=many).map(move |step| (source + first + step) % VERTICES);
    let edges = sources.iter().flat_map(|&source| targets(source).map(move |target| (source, target)));
    edges.map(|(source, target)| (source, target, time(rng))).collect()
}

/// Lets more vertices grow than a block has threads, a part of them into tables; then removes edges and
/// vertices.
fn grow(setting: &Setting) -> Checked {
    let text = |error: Error| error.to_string();
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<u64>::builder().device(&setting.device()).vertices(VERTICES as usize);
    let builder = builder.slabs(rng.pick(&[1, 64])).table_slabs([0, 20, 1000][setting.seed as usize % 3]);
    let mut world = World::new(builder.large_batch(rng.pick(&[1, 5000])));
    let all: Vec<u32> = (0..MANY).collect();
    // Records are full, and have a tombstone.
    insert(&mut world, &fans(&mut rng, &all, 0, 7))?;
    world.try_remove(&all.iter().map(|&source| (source, source + 1)).collect::<Vec<_>>())?;
    // A few get tables with more edges than slots.
    let large: Vec<u32> = all.iter().copied().filter(|_| rng.below(6) == 0).collect();
    insert(&mut world, &fans(&mut rng, &large, 7, 10))?;
    insert(&mut world, &fans(&mut rng, &large, 19, 40))?;
    // All grow together. Others get such tables as those had at first, or larger ones; most stay small.
    let others = |each| all.iter().copied().filter(|vertex| vertex % each == 1).collect::<Vec<u32>>();
    let mut edges = fans(&mut rng, &all, 17, 2);
    edges.extend(fans(&mut rng, &others(8), 60, 8));
    edges.extend(fans(&mut rng, &others(6), 60, 10));
    insert(&mut world, &edges)?;
    world.try_check()?;
    world.try_expire(rng.below(60))?;
    // Neighbours are removed by threads of different blocks.
    let mut gone: Vec<u32> = all.iter().map(|vertex| vertex * 7 % MANY).collect();
    gone.truncate(140);
    world.try_remove_vertices(&gone)?;
    world.try_check()?;
    world.graph.insert_vertices(gone.len()).map_err(text)?;
    world.graph.flush().map_err(text)?;
    world.try_check()
}

/// Refuses edges, which have two halves, in several blocks, since there are too few slabs for them.
fn refuse(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(VERTICES as usize);
    let builder = builder.slabs(1).table_slabs(0).fixed(true).kind(Kind::Undirected);
    let mut world = World::new(builder.large_batch(rng.pick(&[1, 5000])));
    let sources: Vec<u32> = (0..MANY / 2).map(|source| 2 * source).collect();
    for (first, many) in [(0, 4), (4, 6)] {
        let edges = fans(&mut rng, &sources, first, many);
        insert(&mut world, &edges.iter().map(|edge| (edge.0, edge.1, ())).collect::<Vec<_>>())?;
    }
    world.try_check()
}

/// Copies a graph with more tiles of vertices than one block has, a few of which have slabs or tables.
fn copy<E: Sample>(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let vertices = 500 + rng.below(200);
    let builder = DynamicGraph::<E>::builder().device(&setting.device()).vertices(vertices as usize);
    let mut world = World::new(builder);
    insert(&mut world, &random_edges::<E>(&mut rng, 150, vertices, 3))?;
    check_rows(world)
}

/// Copies a graph with tables in all tiles, of which there are more than blocks.
fn copy_tables(setting: &Setting) -> Checked {
    const TABLES: [u32; 11] = [1, 2, 3, 4, 5, 6, 200, 201, 300, 400, 550];
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<u32>::builder().device(&setting.device()).vertices(560);
    let mut world = World::new(builder.slabs(32).table_slabs(3 * TABLES.len()));
    let targets = 100..125 + rng.below(10) as u32;
    let edges = TABLES.iter().flat_map(|&source| targets.clone().map(move |target| (source, target, source)));
    insert(&mut world, &edges.filter(|edge| edge.0 != edge.1).collect::<Vec<_>>())?;
    check_rows(world)
}

/// Compares the rows of a graph with its edges.
fn check_rows<E: Sample>(world: World<E>) -> Checked {
    let text = |error: Error| error.to_string();
    world.try_check()?;
    let rows = world.graph.to_csr().and_then(|rows| rows.read()).map_err(text)?;
    same_edges((&rows.offsets, &rows.targets), |at| rows.data[at], world)
}

/// Compares rows, of which `data` returns the data of the edge at a place, with the edges of a graph.
pub fn same_edges<E: Sample>(
    (offsets, targets): (&[u64], &[u32]),
    data: impl Fn(usize) -> E,
    world: World<E>,
) -> Checked {
    let mut found = Vec::new();
    for (vertex, row) in (0..).zip(offsets.windows(2)) {
        found.extend((row[0] as usize..row[1] as usize).map(|at| ((vertex, targets[at]), data(at))));
    }
    found.sort_by_key(|edge| edge.0);
    let expected: Vec<((u32, u32), E)> = world.edges.into_iter().collect();
    if found == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
}

/// Lets a vertex grow whose buckets have slabs behind them.
fn chains(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(400);
    let mut world = World::new(builder.slabs(64).table_slabs(200));
    // Targets of a bucket, since their hashes are near each other.
    let mut targets: Vec<u32> = (1..400).collect();
    targets.sort_by_key(|&target| simt::hash::mix32(target));
    let (near, others) = targets.split_at(150);
    let edges = |targets: &[u32]| targets.iter().map(|&target| (0, target, ())).collect::<Vec<_>>();
    for part in near.chunks(30 + rng.below(30) as usize).chain([others]) {
        insert(&mut world, &edges(part))?;
        world.try_check()?;
    }
    world.try_remove_vertices(&[0])?;
    world.try_check()
}

/// Lets a few vertices grow whose tables have more buckets than a warp moves.
fn hubs(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(450);
    let mut world = World::new(builder.slabs(64).table_slabs(300));
    let hubs = 3 + rng.below(2) as u32;
    for targets in [20..190, 190..390, 390..430] {
        insert(&mut world, &stars(0..hubs, targets))?;
        world.try_check()?;
    }
    Ok(())
}

/// Inserts edges into a graph without memory for tables, which is added.
fn add_tables(setting: &Setting) -> Checked {
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(100).table_slabs(0);
    let mut world = World::new(builder);
    insert(&mut world, &(10..70).map(|target| (0, target, ())).collect::<Vec<_>>())?;
    let stats = world.graph.stats().map_err(|error| error.to_string())?;
    if stats.table_slabs == 0 {
        return Err("the vertex has no table".to_owned());
    }
    world.try_check()
}

/// Lets vertices grow of which some get no table, because the pool has no slab for the edges behind its
/// buckets, while others get theirs. Then others get the tables that were given up.
fn give_up(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(400).slabs(32);
    let mut world = World::new(builder.table_slabs(200).fixed(true));
    // Small vertices take the slabs, but for those of eight others.
    insert(&mut world, &(20..44).flat_map(|source| fan(source, 0..8)).collect::<Vec<_>>())?;
    let mut targets: Vec<u32> = (50..400).collect();
    targets.sort_by_key(|&target| simt::hash::mix32(target));
    // The first or the last bucket of any table.
    let near = if rng.below(2) == 0 { &targets[..60] } else { &targets[290..] };
    let failing = [60, 170, 60, 110].map(|many| near.iter().chain(&targets[60..]).take(many).copied());
    let mut edges = Vec::new();
    for (source, targets) in (0..).step_by(2).zip(failing) {
        edges.extend(targets.map(|target| (source, target, ())));
        edges.extend(fan(source + 1, 100..145));
    }
    insert(&mut world, &edges)?;
    world.try_check()?;
    world.try_remove_vertices(&[20, 21, 22, 23, 24])?;
    let others = (10..).zip([60, 170, 60, 110]).flat_map(|(source, many)| fan(source, 100..100 + many));
    insert(&mut world, &others.collect::<Vec<_>>())?;
    world.try_check()
}

/// Removes a vertex to which edges of all others lead, by more warps than there are counters of edges.
fn orphan(setting: &Setting) -> Checked {
    const GONE: u32 = 299;
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(300);
    let mut world = World::new(builder);
    insert(&mut world, &(0..GONE).map(|source| (source, GONE, ())).collect::<Vec<_>>())?;
    world.try_remove_vertices(&[GONE])?;
    world.try_check()
}

/// Returns edges from a vertex to some targets.
fn fan(source: u32, targets: std::ops::Range<u32>) -> impl Iterator<Item = (u32, u32, ())> {
    targets.map(move |target| (source, target, ()))
}

fn all_are_sound(run: impl Fn(&Setting) -> Checked) {
    for seed in seeds(SEEDS) {
        let found = run(&Setting { resident_threads: 512, ..Setting::new(seed) });
        assert!(found.is_ok(), "{}\n{}", found.unwrap_err(), replay(seed));
    }
}

#[test]
fn vertices_of_several_blocks_grow() {
    all_are_sound(grow);
}

#[test]
fn several_blocks_run_algorithms() {
    all_are_sound(|setting| algorithms::run(setting, Kind::Directed));
    all_are_sound(|setting| algorithms::run(setting, Kind::Undirected));
}

#[test]
fn several_blocks_find_components_of_paths() {
    all_are_sound(|setting| algorithms::paths(setting, 400));
}

#[test]
fn several_blocks_count_triangles_of_hubs() {
    all_are_sound(algorithms::hubs);
    all_are_sound(algorithms::many_hubs);
}

#[test]
fn several_blocks_keep_results() {
    all_are_sound(algorithms::keep_many);
}

#[test]
fn rows_of_many_tiles_are_right() {
    all_are_sound(copy::<()>);
    all_are_sound(copy::<u32>);
}

#[test]
fn tables_of_many_tiles_are_copied() {
    all_are_sound(copy_tables);
}

#[test]
fn tables_with_chains_are_replaced() {
    all_are_sound(chains);
}

#[test]
fn warps_of_several_blocks_move_a_table() {
    all_are_sound(hubs);
}

#[test]
fn tables_without_room_are_given_up() {
    all_are_sound(give_up);
}

#[test]
fn many_warps_remove_edges() {
    all_are_sound(orphan);
}

#[test]
fn lacking_tables_are_added() {
    all_are_sound(add_tables);
}

#[test]
fn edges_are_refused_in_several_blocks() {
    all_are_sound(refuse);
}

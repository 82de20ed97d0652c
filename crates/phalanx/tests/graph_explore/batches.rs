//! Batches with growth, whose kernels run under explored schedules.
use crate::common::{Rng, outcomes, replay, seeds};
use crate::setting::Setting;
use crate::world::{Checked, Sample, World, random_edges};
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Error};
use simt::emulator::WeakMemory;

/// Number of seeds per kind of graph.
const SEEDS: u64 = 120;

/// Runs an insertion, whose edges may be refused.
pub fn insert<E: Sample>(world: &mut World<E>, edges: &[(u32, u32, E)]) -> Checked {
    match E::insert(&world.graph, edges) {
        Err(Error::Device(error)) => Err(error.to_string()),
        Ok(said) if !said.all_placed() => Err(format!("{} refused without a cause", said.refused())),
        said => world.try_inserted(edges, &outcomes(said)),
    }
}

/// Runs the batches of a seed.
pub fn run<E: Sample>(setting: &Setting, kind: Kind) -> Checked {
    run_on::<E>(setting, kind, false)
}

/// Runs the batches of a seed on a graph that stores edges at their targets, too, if `in_edges`.
fn run_on<E: Sample>(setting: &Setting, kind: Kind, in_edges: bool) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let (slabs, tables) = (rng.pick(&[1, 32, 64]), rng.pick(&[0, 6, 40, 100]));
    let builder = DynamicGraph::<E>::builder().device(&setting.device()).vertices(120).kind(kind);
    let builder = builder.slabs(slabs).table_slabs(tables).fixed(rng.below(2) == 0);
    let mut world = World::new(builder.large_batch(rng.pick(&[1, 1000])).in_edges(in_edges));
    for _ in 0..2 + rng.below(3) {
        let count = 20 + rng.below(180) as usize;
        let hubs = rng.pick(&[0, 1, 3]);
        let vertices = rng.pick(&[12, 120]);
        let edges = random_edges::<E>(&mut rng, count, vertices, hubs);
        insert(&mut world, &edges)?;
        if rng.below(2) == 0 {
            let known: Vec<(u32, u32)> = world.edges.keys().copied().filter(|_| rng.below(3) == 0).collect();
            world.try_remove(&known)?;
        }
        world.try_check()?;
    }
    Ok(())
}

fn all_are_sound<E: Sample>(kind: Kind, count: u64) {
    all_of(count, |setting| run::<E>(setting, kind));
}

fn all_of(count: u64, run: impl Fn(&Setting) -> Checked) {
    for seed in seeds(count) {
        let is_weak = seed % 4 == 3;
        let weak_memory = if is_weak { WeakMemory::Hardware } else { WeakMemory::Off };
        let setting = Setting { weak_memory, cas128: seed % 2 == 0, ..Setting::new(seed) };
        let found = run(&setting);
        assert!(found.is_ok(), "{}\n{}", found.unwrap_err(), replay(seed));
    }
}

#[test]
fn batches_of_edges_at_both_ends_are_right() {
    all_of(SEEDS / 2, |setting| run_on::<()>(setting, Kind::Directed, true));
    all_of(SEEDS / 4, |setting| run_on::<u32>(setting, Kind::Directed, true));
    all_of(SEEDS / 4, |setting| run_on::<u64>(setting, Kind::Directed, true));
}

#[test]
fn batches_of_directed_edges_are_right() {
    all_are_sound::<()>(Kind::Directed, SEEDS);
    all_are_sound::<u32>(Kind::Directed, SEEDS / 2);
    all_are_sound::<u64>(Kind::Directed, SEEDS / 2);
}

#[test]
fn batches_of_undirected_edges_are_right() {
    all_are_sound::<()>(Kind::Undirected, SEEDS);
    all_are_sound::<u32>(Kind::Undirected, SEEDS / 2);
    all_are_sound::<u64>(Kind::Undirected, SEEDS / 2);
}

/// Runs batches that replace the edges of a few vertices by others, of degree about `degree`.
pub fn exchange(setting: &Setting, degree: u64, sources: u32) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(100);
    let mut world = World::new(builder.slabs(64).table_slabs(60));
    for _ in 0..4 {
        let edges: Vec<(u32, u32, ())> = (0..sources)
            .flat_map(|source| {
                let many = rng.below(degree) as u32;
                let first = 15 + rng.below(40) as u32;
                (first..(first + many).min(100)).map(move |target| (source, target, ()))
            })
            .collect();
        if edges.is_empty() {
            continue;
        }
        insert(&mut world, &edges)?;
        world.try_check()?;
        let known: Vec<(u32, u32)> = world.edges.keys().copied().filter(|_| rng.below(4) > 0).collect();
        world.try_remove(&known)?;
        world.try_check()?;
    }
    Ok(())
}

/// Fills tables whose full buckets need further slabs, of which the pool has none.
pub fn crowd(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(300).slabs(32);
    let mut world = World::new(builder.table_slabs(400).fixed(true));
    // Small vertices take the slabs.
    let filling = 28 + rng.below(4) as u32;
    let edges: Vec<(u32, u32, ())> =
        (20..20 + filling).flat_map(|source| (0..8).map(move |target| (source, target, ()))).collect();
    insert(&mut world, &edges)?;
    // Targets of a bucket of the new table, since their hashes are near each other.
    let mut targets: Vec<u32> = (150..300).collect();
    targets.sort_by_key(|&target| simt::hash::mix32(target));
    let first = rng.below(90) as usize;
    let edges: Vec<(u32, u32, ())> =
        targets[first..first + 60].iter().map(|&target| (1, target, ())).collect();
    for part in edges.chunks(20) {
        insert(&mut world, part)?;
        world.try_check()?;
    }
    Ok(())
}

/// Returns edges from each source to each target, in an order that mixes them.
pub fn stars(sources: std::ops::Range<u32>, targets: std::ops::Range<u32>) -> Vec<(u32, u32, ())> {
    targets.flat_map(|target| sources.clone().map(move |source| (source, target, ()))).collect()
}

/// Lets vertices grow together: from small ones to tables, and to larger tables, while others take theirs.
pub fn recycle(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(250);
    let mut world = World::new(builder.slabs(128).table_slabs(300));
    let hubs = 3 + rng.below(5) as u32;
    // In the end there are more vertices than free tables of their size.
    let steps = [(0..hubs, 20..80), (0..hubs, 80..160), (0..hubs, 160..240), (hubs..3 * hubs, 30..90)];
    for (sources, targets) in steps {
        insert(&mut world, &stars(sources, targets))?;
        world.try_check()?;
    }
    Ok(())
}

/// Lets more vertices grow together than the arena has tables for.
pub fn exhaust(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(100);
    let mut world = World::new(builder.slabs(64).table_slabs(5 + rng.below(15) as usize).fixed(true));
    insert(&mut world, &stars(0..8, 20..80))?;
    world.try_check()?;
    // What was taken in vain has been given back: no table is in another one.
    insert(&mut world, &stars(8..12, 20..80))?;
    world.try_check()
}

/// Inserts many edges at once into vertices whose records are full and have tombstones.
pub fn rush(setting: &Setting) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<()>::builder().device(&setting.device()).vertices(150);
    let mut world = World::new(builder.slabs(128).table_slabs(100));
    let hubs = 1 + rng.below(3) as u32;
    insert(&mut world, &stars(0..hubs, 20..27))?;
    let removed: Vec<(u32, u32)> =
        stars(0..hubs, 20..22).into_iter().map(|(source, target, ())| (source, target)).collect();
    world.try_remove(&removed)?;
    insert(&mut world, &stars(0..hubs, 30..90))?;
    world.try_check()
}

/// Runs operations on the whole graph between batches: expiry, flush, and removal and insertion of vertices.
fn run_whole(setting: &Setting, kind: Kind) -> Checked {
    let mut rng = Rng::new(setting.seed);
    let builder = DynamicGraph::<u64>::builder().device(&setting.device()).vertices(60).kind(kind);
    let mut world = World::new(builder.slabs(32).table_slabs(rng.pick(&[4, 40, 100])));
    let text = |error: Error| error.to_string();
    for _ in 0..3 {
        let vertices = world.graph.vertices() as u64;
        let mut edges = random_edges::<u64>(&mut rng, 150, vertices, 2);
        edges.iter_mut().for_each(|edge| edge.2 = rng.below(100));
        insert(&mut world, &edges)?;
        world.try_expire(rng.below(60))?;
        world.try_check()?;
        let gone: Vec<u32> = (0..4).map(|_| rng.below(vertices) as u32).chain([0, 1]).collect();
        world.try_remove_vertices(&gone)?;
        world.try_check()?;
        let (sources, targets) = ([gone[0], 5, gone[1]], [5, gone[0], gone[2]]);
        let said = world.graph.insert(&sources, &targets, &[1; 3]).map_err(text)?;
        if said.refused() != 3 {
            return Err(format!("{} of 3 edges of removed vertices {gone:?} are refused", said.refused()));
        }
        world.try_check()?;
        let missing = world.graph.vertices() - world.graph.vertex_count();
        world.graph.insert_vertices(missing + rng.below(3) as usize).map_err(text)?;
        world.graph.flush().map_err(text)?;
        world.try_check()?;
    }
    Ok(())
}

#[test]
fn operations_on_the_whole_graph_are_right() {
    for kind in [Kind::Directed, Kind::Undirected] {
        for seed in seeds(SEEDS) {
            let found = run_whole(&Setting { cas128: seed % 2 == 0, ..Setting::new(seed) }, kind);
            assert!(found.is_ok(), "{}\n{}", found.unwrap_err(), replay(seed));
        }
    }
}

//! Algorithms, whose kernels run under explored schedules, against the host.
use crate::common::{Rng, replay, seeds};
use crate::oracle;
use crate::setting::Setting;
use crate::world::{Checked, random_edges};
use phalanx::graph::algorithms::{Adjacent, Components, PageRank, Triangles, bfs, page_rank, triangles};
use phalanx::graph::{CsrMerge, Kind};
use phalanx::{DynamicGraph, Result};
use simt::emulator::WeakMemory;

/// Number of seeds per kind of graph.
const SEEDS: u64 = 60;

/// Number of vertices.
const VERTICES: usize = 150;

type Ends = (Vec<u32>, Vec<u32>);

/// Draws edges, one of `counts` many: of small vertices, and of hubs that have tables.
fn draw(rng: &mut Rng, counts: &[usize]) -> Vec<(u32, u32)> {
    let (count, hubs) = (rng.pick(counts), rng.pick(&[0, 2, 8]));
    let edges = random_edges::<()>(rng, count, VERTICES as u64, hubs);
    edges.into_iter().map(|edge| (edge.0, edge.1)).collect()
}

fn split(edges: &[(u32, u32)]) -> Ends {
    edges.iter().copied().unzip()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}

/// Compares the results on a graph with those on the host.
fn check(graph: &impl Adjacent, edges: &[(u32, u32)], kind: Kind) -> std::result::Result<Vec<f32>, String> {
    let text = |error: phalanx::Error| error.to_string();
    let lists = oracle::lists(VERTICES, edges, kind == Kind::Undirected);
    let found = bfs(graph, &[0, 9]).map_err(text)?;
    let expected = oracle::distances(&lists, &[0, 9]);
    same("reached", found.reached(), expected.iter().flatten().count())?;
    same("distances", found.read().map_err(text)?, expected)?;
    let components = Components::of(graph).and_then(|components| components.read()).map_err(text)?;
    same("components", components, oracle::components(&lists))?;
    if kind == Kind::Undirected {
        same("triangles", triangles(graph).map_err(text)?, oracle::triangles(&lists))?;
    }
    let parameters = PageRank { iterations: 5, tolerance: 0.0, ..PageRank::default() };
    let ranks = page_rank(graph, &parameters).and_then(|ranks| ranks.read()).map_err(text)?;
    let expected = oracle::ranks(&lists, parameters.damping.into(), &[true; VERTICES], 5);
    let is_near = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() < 1e-6;
    match ranks.iter().zip(&expected).all(is_near) {
        true => Ok(ranks),
        false => Err(format!("ranks: expected {expected:?}, found {ranks:?}")),
    }
}

/// Runs the algorithms on the graph, on its rows and on merged rows of a seed.
pub fn run(setting: &Setting, kind: Kind) -> Checked {
    let text = |error: phalanx::Error| error.to_string();
    let (mut rng, device) = (Rng::new(setting.seed), setting.device());
    let graph = DynamicGraph::<()>::builder().device(&device).vertices(VERTICES).kind(kind);
    let graph = graph.build().map_err(text)?;
    let mut merged = CsrMerge::<()>::new(&device, VERTICES, kind).map_err(text)?;
    let edges = draw(&mut rng, &[20, 150, 500]);
    let (sources, targets) = split(&edges);
    let outcomes = graph.insert(&sources, &targets).map_err(text)?;
    same("edges of merged rows", merged.insert(&sources, &targets).map_err(text)?.refused(), 0)?;
    same("refused", outcomes.refused(), 0)?;
    let ranks = check(&graph, &edges, kind)?;
    // The order of a vertex's edges does not matter.
    same("ranks of rows", check(&graph.to_csr().map_err(text)?, &edges, kind)?, ranks.clone())?;
    same("ranks of merged rows", check(&merged, &edges, kind)?, ranks)
}

type EdgeList = Vec<(u32, u32)>;

/// Returns the edges of four hubs, each of which has two parts, to leaves, those among the hubs, and the
/// number of triangles of both together.
fn four_hubs(rng: &mut Rng) -> ([EdgeList; 2], u64) {
    let first = rng.below(40) as u32;
    let hubs: Vec<u32> = (0..4).map(|hub| first + 11 * hub).collect();
    let leaves = (100..340 + rng.below(40) as u32).collect::<Vec<u32>>();
    let mut stars: EdgeList =
        hubs.iter().flat_map(|&hub| leaves.iter().map(move |&leaf| (hub, leaf))).collect();
    // A vertex whose table has one part, so that the two parts of a hub may be those of two blocks.
    stars.extend(leaves[..45].iter().map(|&leaf| (99, leaf)));
    let pairs = hubs.iter().flat_map(|&a| hubs.iter().map(move |&b| (a, b))).filter(|(a, b)| a < b);
    // Each pair of hubs with each leaf, and the triangles of hubs.
    ([stars, pairs.collect()], 6 * leaves.len() as u64 + 4)
}

/// Counts the triangles of a graph with four hubs that are neighbours. The edges between the hubs are
/// inserted last, as one batch of which the triangles are counted, too.
pub fn hubs(setting: &Setting) -> Checked {
    let ([stars, pairs], expected) = four_hubs(&mut Rng::new(setting.seed));
    let run = || -> Result<[u64; 2]> {
        let graph = DynamicGraph::<()>::builder().device(&setting.device()).vertices(400);
        let graph = graph.kind(Kind::Undirected).build()?;
        let (mut kept, (sources, targets)) = (Triangles::of(&graph)?, split(&stars));
        // Stars have no triangles.
        assert!(graph.insert(&sources, &targets)?.all_placed());
        let (sources, targets) = split(&pairs);
        let outcomes = graph.insert(&sources, &targets)?;
        kept.inserted(&graph, &sources, &targets, &outcomes)?;
        Ok([kept.count(), triangles(&graph)?])
    };
    same("triangles", run().map_err(|error| error.to_string())?, [expected; 2])
}

/// Counts the triangles of a batch with more edges between hubs than a block has threads.
pub fn many_hubs(setting: &Setting) -> Checked {
    const HUBS: u32 = 17;
    const LEAVES: u32 = 40;
    let stars = (0..HUBS).flat_map(|hub| (HUBS..HUBS + LEAVES).map(move |leaf| (hub, leaf)));
    let pairs = (0..HUBS).flat_map(|a| (a + 1..HUBS).map(move |b| (a, b)));
    let run = || -> Result<u64> {
        let graph = DynamicGraph::<()>::builder().device(&setting.device()).vertices(VERTICES);
        let graph = graph.kind(Kind::Undirected).build()?;
        let (sources, targets) = split(&stars.collect::<Vec<_>>());
        assert!(graph.insert(&sources, &targets)?.all_placed());
        let (mut kept, (sources, targets)) = (Triangles::of(&graph)?, split(&pairs.collect::<Vec<_>>()));
        let outcomes = graph.insert(&sources, &targets)?;
        kept.inserted(&graph, &sources, &targets, &outcomes)?;
        Ok(kept.count())
    };
    // Each pair of hubs with each leaf, and the triangles of hubs.
    let (hubs, leaves) = (u64::from(HUBS), u64::from(LEAVES));
    let expected = hubs * (hubs - 1) / 2 * leaves + hubs * (hubs - 1) * (hubs - 2) / 6;
    same("triangles", run().map_err(|error| error.to_string())?, expected)
}

/// Computes the components of paths, whose trees of labels are deep.
pub fn paths(setting: &Setting, vertices: u32) -> Checked {
    let text = |error: phalanx::Error| error.to_string();
    let (mut rng, device) = (Rng::new(setting.seed), setting.device());
    let graph = DynamicGraph::<()>::builder().device(&device).vertices(vertices as usize);
    let (graph, gap) = (graph.build().map_err(text)?, rng.below(vertices.into()) as u32);
    let sources: Vec<u32> = (0..vertices - 1).filter(|&vertex| vertex != gap).collect();
    let targets: Vec<u32> = sources.iter().map(|source| source + 1).collect();
    same("refused", graph.insert(&sources, &targets).map_err(text)?.refused(), 0)?;
    let components = Components::of(&graph).and_then(|components| components.read()).map_err(text)?;
    let expected = (0..vertices).map(|vertex| if vertex > gap { gap + 1 } else { 0 }).collect();
    same("components", components, expected)
}

/// Keeps components and triangles over the batches of a seed.
pub fn keep(setting: &Setting) -> Checked {
    keep_results(setting, &[10, 25, 50]).map_err(|error| error.to_string())?
}

/// As [`keep`], over batches with more edges than a block has threads.
pub fn keep_many(setting: &Setting) -> Checked {
    keep_results(setting, &[200, 300]).map_err(|error| error.to_string())?
}

fn keep_results(setting: &Setting, counts: &[usize]) -> Result<Checked> {
    let mut rng = Rng::new(setting.seed);
    let graph = DynamicGraph::<()>::builder().device(&setting.device()).vertices(VERTICES);
    let graph = graph.kind(Kind::Undirected).build()?;
    let (mut count, mut components) = (Triangles::of(&graph)?, Components::of(&graph)?);
    let mut edges = Vec::new();
    for _ in 0..3 {
        let batch = draw(&mut rng, counts);
        let (sources, targets) = split(&batch);
        let outcomes = graph.insert(&sources, &targets)?;
        count.inserted(&graph, &sources, &targets, &outcomes)?;
        components.insert(&sources, &targets, &outcomes)?;
        edges.extend(batch);
        let lists = oracle::lists(VERTICES, &edges, true);
        let checked = same("kept triangles", count.count(), oracle::triangles(&lists))
            .and_then(|()| same("kept components", components.read().unwrap(), oracle::components(&lists)));
        if checked.is_err() {
            return Ok(checked);
        }
    }
    Ok(Ok(()))
}

/// Counts the only triangle of a batch, which the warps of all three edges find at about the same time.
pub fn keep_one(setting: &Setting) -> Checked {
    let run = || -> Result<u64> {
        let graph = DynamicGraph::<()>::builder().device(&setting.device()).vertices(VERTICES);
        let graph = graph.kind(Kind::Undirected).build()?;
        let (mut count, ends) = (Triangles::of(&graph)?, ([0, 1, 2], [1, 2, 0]));
        let outcomes = graph.insert(&ends.0, &ends.1)?;
        count.inserted(&graph, &ends.0, &ends.1, &outcomes)?;
        Ok(count.count())
    };
    same("kept triangles", run().map_err(|error| error.to_string())?, 1)
}

fn all_are_sound(run: impl Fn(&Setting) -> Checked) {
    for seed in seeds(SEEDS) {
        let weak_memory = if seed % 4 == 3 { WeakMemory::Hardware } else { WeakMemory::Off };
        let found = run(&Setting { weak_memory, ..Setting::new(seed) });
        assert!(found.is_ok(), "{}\n{}", found.unwrap_err(), replay(seed));
    }
}

#[test]
fn algorithms_on_directed_graphs_are_right() {
    all_are_sound(|setting| run(setting, Kind::Directed));
}

#[test]
fn algorithms_on_undirected_graphs_are_right() {
    all_are_sound(|setting| run(setting, Kind::Undirected));
}

#[test]
fn hubs_are_served_in_parts() {
    all_are_sound(hubs);
}

#[test]
fn components_of_paths_are_right() {
    all_are_sound(|setting| paths(setting, VERTICES as u32));
}

#[test]
fn results_are_kept() {
    all_are_sound(keep);
}

//! Algorithms on whole graphs.
use crate::common::Rng;
use crate::oracle::{self, Lists};
use crate::samples::{self, Sample};
use phalanx::graph::Kind;
use phalanx::graph::algorithms::{Adjacent, Components, PageRank, bfs, page_rank, triangles};
use phalanx::{DynamicGraph, Error, Outcome};

const KINDS: [Kind; 2] = [Kind::Directed, Kind::Undirected];

pub fn split(edges: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    edges.iter().copied().unzip()
}

pub fn lists_of(sample: &Sample, kind: Kind) -> Lists {
    oracle::lists(sample.vertices, &sample.edges, kind == Kind::Undirected)
}

pub fn graph_of(sample: &Sample, kind: Kind) -> DynamicGraph<()> {
    let graph = DynamicGraph::<()>::builder().vertices(sample.vertices).kind(kind).build().unwrap();
    let (sources, targets) = split(&sample.edges);
    assert!(graph.insert(&sources, &targets).unwrap().all_placed());
    graph
}

/// Compares the results of all algorithms with those on the host.
#[track_caller]
fn check(name: &str, graph: &impl Adjacent, kind: Kind, lists: &Lists, exists: &[bool]) {
    let last = lists.len() as u32 - 1;
    for sources in [vec![], vec![0], vec![last, 0, last]] {
        let found = bfs(graph, &sources).unwrap();
        let expected = oracle::distances(lists, &sources);
        assert_eq!(found.read().unwrap(), expected, "{name}: distances");
        let reached: Vec<u32> = expected.into_iter().flatten().collect();
        assert_eq!(found.reached(), reached.len(), "{name}: reached");
        assert_eq!(found.depth(), reached.into_iter().max().unwrap_or(0), "{name}: depth");
    }
    assert_eq!(Components::of(graph).unwrap().read().unwrap(), oracle::components(lists), "{name}");
    check_ranks(name, graph, lists, exists);
    match kind {
        Kind::Undirected => assert_eq!(triangles(graph).unwrap(), oracle::triangles(lists), "{name}"),
        Kind::Directed => assert!(matches!(triangles(graph), Err(Error::Directed))),
    }
}

#[track_caller]
fn check_ranks(name: &str, graph: &impl Adjacent, lists: &Lists, exists: &[bool]) {
    let ranks = page_rank(graph, &PageRank::default()).unwrap();
    assert!(ranks.has_converged(), "{name}");
    let (found, expected) = (ranks.read().unwrap(), oracle::ranks(lists, 0.85, exists, 300));
    let sum: f64 = found.iter().map(|&rank| f64::from(rank)).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{name}: ranks add up to {sum}");
    // The ranks are at most the tolerance times d / (1 - d) away from the limit.
    let differences =
        found.iter().zip(&expected).map(|(&found, &expected)| (f64::from(found) - expected).abs());
    let difference: f64 = differences.sum();
    assert!(difference < 1e-6 * 0.85 / 0.15 + 1e-6, "{name}: ranks differ by {difference}");
}

fn samples_of(kind: Kind) {
    for sample in samples::all() {
        let (graph, lists) = (graph_of(&sample, kind), lists_of(&sample, kind));
        let exists = vec![true; sample.vertices];
        check(sample.name, &graph, kind, &lists, &exists);
        check(sample.name, graph.snapshot().unwrap().csr(), kind, &lists, &exists);
        let ranks = |graph: &DynamicGraph<()>| {
            let (parameters, csr) = (PageRank::default(), graph.to_csr().unwrap());
            [page_rank(graph, &parameters), page_rank(&csr, &parameters)].map(|ranks| ranks.unwrap().read())
        };
        let [of_graph, of_csr] = ranks(&graph);
        assert_eq!(of_graph.unwrap(), of_csr.unwrap(), "{}", sample.name);
    }
}

#[test]
fn directed_graphs_agree_with_the_host() {
    samples_of(Kind::Directed);
}

#[test]
fn undirected_graphs_agree_with_the_host() {
    samples_of(Kind::Undirected);
}

/// Batches change the graph while the ranks of a snapshot are computed. The result is that of the moment of
/// the snapshot.
#[test]
fn ranks_of_a_snapshot_are_those_of_its_moment() {
    let sample = &samples::all()[8];
    let (graph, lists) = (graph_of(sample, Kind::Undirected), lists_of(sample, Kind::Undirected));
    let snapshot = graph.snapshot().unwrap();
    let ranks = || page_rank(snapshot.csr(), &PageRank::default()).unwrap().read().unwrap();
    let frozen = ranks();
    std::thread::scope(|scope| {
        let inserting = scope.spawn(|| {
            for seed in 0..20 {
                let (sources, targets) = split(&samples::uniform(sample.vertices as u32, 300, 50 + seed));
                assert!(graph.insert(&sources, &targets).unwrap().all_placed());
            }
        });
        for _ in 0..5 {
            let is_near = |(now, then): (f32, f32)| (now - then).abs() <= 1e-6 * then;
            assert!(ranks().into_iter().zip(frozen.iter().copied()).all(is_near));
        }
        inserting.join().unwrap();
    });
    check_ranks("a snapshot", snapshot.csr(), &lists, &vec![true; sample.vertices]);
    assert_ne!(page_rank(&graph, &PageRank::default()).unwrap().read().unwrap(), frozen);
}

/// Graphs with tombstones, and with data of edges.
#[test]
fn replaced_edges_do_not_count() {
    for kind in KINDS {
        let builder = DynamicGraph::<u32>::builder().vertices(300).kind(kind);
        let graph = builder.build().unwrap();
        let mut rng = Rng::new(9);
        let first = samples::uniform(300, 1000, 4);
        let hub = (1..250).map(|leaf| (0, leaf));
        let removed: Vec<(u32, u32)> = first.iter().copied().chain(hub).collect();
        let last = samples::uniform(300, 700, 5);
        for edges in [&removed, &last] {
            let (sources, targets) = split(edges);
            let data: Vec<u32> = edges.iter().map(|_| rng.below(100) as u32).collect();
            assert!(graph.insert(&sources, &targets, &data).unwrap().all_placed());
        }
        let (sources, targets) = split(&removed);
        let outcomes = graph.remove(&sources, &targets).unwrap();
        assert!(outcomes.count(Outcome::Removed) > 900);
        let is_removed = |&(a, b): &(u32, u32)| {
            removed.contains(&(a, b)) || kind == Kind::Undirected && removed.contains(&(b, a))
        };
        let left: Vec<(u32, u32)> = last.into_iter().filter(|edge| !is_removed(edge)).collect();
        let lists = oracle::lists(300, &left, kind == Kind::Undirected);
        check("replaced", &graph, kind, &lists, &[true; 300]);
        check("replaced, rows", &graph.to_csr().unwrap(), kind, &lists, &[true; 300]);
    }
}

#[test]
fn removed_vertices_have_no_rank_and_no_neighbours() {
    for kind in KINDS {
        let sample = &samples::all()[8];
        let mut graph = graph_of(sample, kind);
        assert_eq!(graph.remove_vertices(&[0, 7, 299]).unwrap().count(Outcome::Removed), 3);
        let is_gone = |vertex: u32| [0, 7, 299].contains(&vertex);
        let left: Vec<(u32, u32)> =
            sample.edges.iter().copied().filter(|&(a, b)| !is_gone(a) && !is_gone(b)).collect();
        let lists = oracle::lists(sample.vertices, &left, kind == Kind::Undirected);
        let exists: Vec<bool> = (0..sample.vertices as u32).map(|vertex| !is_gone(vertex)).collect();
        check("vertices removed", &graph, kind, &lists, &exists);
        assert_eq!(
            graph.remove_vertices(&(0..300).collect::<Vec<_>>()).unwrap().count(Outcome::Removed),
            297
        );
        let ranks = page_rank(&graph, &PageRank::default()).unwrap().read().unwrap();
        assert!(ranks.into_iter().all(|rank| rank == 0.0));
    }
}

/// A graph whose arena has no room: chains of vertices without a table are long.
#[test]
fn long_chains_are_visited() {
    for kind in KINDS {
        let builder = DynamicGraph::<()>::builder().vertices(400).kind(kind).table_slabs(2).slabs(900);
        let graph = builder.fixed(true).build().unwrap();
        let edges: Vec<(u32, u32)> =
            (1..400).map(|leaf| (0, leaf)).chain(samples::uniform(400, 900, 6)).collect();
        let (sources, targets) = split(&edges);
        assert!(graph.insert(&sources, &targets).unwrap().all_placed());
        let lists = oracle::lists(400, &edges, kind == Kind::Undirected);
        check("long chains", &graph, kind, &lists, &[true; 400]);
    }
}

#[test]
fn self_edges_are_no_triangles() {
    let builder = DynamicGraph::<()>::builder().vertices(4).kind(Kind::Undirected).self_edges(true);
    let graph = builder.build().unwrap();
    assert!(graph.insert(&[0, 0, 1, 2, 3, 1], &[0, 1, 2, 0, 3, 1]).unwrap().all_placed());
    assert_eq!(triangles(&graph).unwrap(), 1);
    assert_eq!(Components::of(&graph).unwrap().read().unwrap(), [0, 0, 0, 3]);
}

#[test]
fn bad_parameters_are_refused() {
    let graph = graph_of(&samples::all()[2], Kind::Directed);
    assert!(matches!(bfs(&graph, &[1, 2]), Err(Error::NoVertex { vertex: 2, vertices: 2 })));
    assert!(matches!(bfs(&graph.to_csr().unwrap(), &[u32::MAX]), Err(Error::NoVertex { .. })));
    let with = |damping, tolerance| PageRank { damping, tolerance, iterations: 3 };
    for parameters in
        [with(1.5, 0.1), with(-0.1, 0.1), with(f32::NAN, 0.1), with(0.5, f32::NAN), with(0.5, -1.0)]
    {
        assert!(matches!(page_rank(&graph, &parameters), Err(Error::PageRank { .. })), "{parameters:?}");
    }
    let none = page_rank(&graph, &PageRank { iterations: 0, ..PageRank::default() }).unwrap();
    assert!(none.iterations() == 0 && !none.has_converged());
    assert_eq!(none.read().unwrap(), [0.5, 0.5]);
}

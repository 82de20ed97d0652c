//! Graphs of tests.
use crate::common::Rng;
use workloads::edges::rmat;

/// A graph as edges between the vertices below a number. Edges may repeat; none leads from a vertex to
/// itself.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: &'static str,
    pub vertices: usize,
    pub edges: Vec<(u32, u32)>,
}

impl Sample {
    fn new(name: &'static str, vertices: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let edges = edges.into_iter().filter(|(a, b)| a != b).collect();
        Self { name, vertices, edges }
    }
}

/// Returns random edges.
pub fn uniform(vertices: u32, count: usize, seed: u64) -> Vec<(u32, u32)> {
    let (mut rng, most) = (Rng::new(seed), u64::from(vertices));
    (0..count).map(|_| (rng.below(most) as u32, rng.below(most) as u32)).filter(|(a, b)| a != b).collect()
}

/// Returns graphs of all shapes that kernels treat differently.
pub fn all() -> Vec<Sample> {
    let clique = |first: u32, end: u32| (first..end).flat_map(move |a| (a + 1..end).map(move |b| (a, b)));
    // Vertex 0 has a table of several parts, and the leaves form a path.
    let hub = (1..1500).map(|leaf| (0, leaf)).chain((1..1499).map(|leaf| (leaf, leaf + 1)));
    // Two hubs with common neighbours, one of which has edges to it only.
    let hubs = (2..700).flat_map(|leaf| [(0, leaf), (leaf, 1)]).chain([(0, 1)]);
    let grid = (0..400u32).flat_map(|vertex| {
        let right = (vertex % 20 < 19).then_some((vertex, vertex + 1));
        right.into_iter().chain((vertex < 380).then_some((vertex + 20, vertex)))
    });
    vec![
        Sample::new("no edges", 5, []),
        Sample::new("one vertex", 1, []),
        Sample::new("one edge", 2, [(1, 0)]),
        Sample::new("a path", 70, (0..69).map(|vertex| (vertex, vertex + 1))),
        Sample::new("two cliques and rests", 100, clique(3, 40).chain(clique(50, 58))),
        Sample::new("a hub", 1500, hub),
        Sample::new("two hubs", 700, hubs),
        Sample::new("a grid", 400, grid),
        Sample::new("uniform", 300, uniform(300, 1500, 1)),
        Sample::new("sparse", 500, uniform(500, 300, 2)),
        Sample::new("R-MAT", 512, rmat(9, 4000, 3)),
    ]
}

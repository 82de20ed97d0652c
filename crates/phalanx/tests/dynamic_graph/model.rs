//! Random batches against a map of edges.
use crate::common::{Rng, replay, seed};
use crate::world::{Sample, World, random_edges};
use phalanx::DynamicGraph;
use phalanx::graph::{Builder, Kind};

/// Vertices, hubs among them, elements of a batch, and batches.
struct Size(u64, u64, u64, usize);

/// Runs random batches on a graph.
fn run<E: Sample>(builder: Builder<E>, Size(vertices, hubs, most, batches): Size) {
    println!("{}", replay(seed()));
    let mut rng = Rng::new(seed());
    let mut world = World::new(builder.vertices(vertices as usize));
    for batch in 0..batches {
        let count = 1 + rng.below(most) as usize;
        let edges = random_edges::<E>(&mut rng, count, vertices, hubs);
        if rng.below(3) < 2 {
            world.insert(&edges);
        } else {
            // Pairs of which some are edges.
            let mut pairs: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.0, edge.1)).collect();
            let known: Vec<(u32, u32)> = world.edges.keys().copied().collect();
            pairs.iter_mut().for_each(|pair| {
                if !known.is_empty() && rng.below(2) == 0 {
                    *pair = rng.pick(&known);
                }
            });
            world.remove(&pairs);
        }
        world.look_up(&edges.iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
        if batch % 4 == 3 || batch + 1 == batches {
            world.check();
        }
    }
}

fn small<E: Sample>(kind: Kind) {
    run::<E>(DynamicGraph::builder().kind(kind), Size(50, 2, 200, 12));
}

#[test]
fn directed_graphs_agree_with_a_map() {
    small::<()>(Kind::Directed);
    small::<u32>(Kind::Directed);
    small::<f32>(Kind::Directed);
    small::<u64>(Kind::Directed);
}

#[test]
fn undirected_graphs_agree_with_a_map() {
    small::<()>(Kind::Undirected);
    small::<u32>(Kind::Undirected);
    small::<f32>(Kind::Undirected);
    small::<u64>(Kind::Undirected);
}

#[test]
fn published_slots_agree_with_a_map() {
    let variant = "graph_published_spread_128_4x2_u32_u64";
    for kind in [Kind::Directed, Kind::Undirected] {
        run::<u64>(DynamicGraph::builder().kind(kind).variant(variant), Size(40, 2, 150, 8));
    }
}

#[test]
fn hubs_get_tables() {
    for kind in [Kind::Directed, Kind::Undirected] {
        run::<()>(DynamicGraph::builder().kind(kind), Size(1000, 3, 2000, 6));
        run::<u32>(DynamicGraph::builder().kind(kind), Size(500, 3, 1000, 4));
    }
}

#[test]
fn threads_with_eight_elements_agree_with_a_map() {
    for kind in [Kind::Directed, Kind::Undirected] {
        run::<()>(DynamicGraph::builder().kind(kind).large_batch(1), Size(200, 3, 1000, 8));
        run::<f32>(DynamicGraph::builder().kind(kind).large_batch(1), Size(100, 3, 400, 6));
    }
}

#[test]
fn edges_are_exchanged_for_long() {
    // Small vertices fill with tombstones, and are compacted.
    run::<()>(DynamicGraph::builder(), Size(12, 0, 40, 60));
    run::<u64>(DynamicGraph::builder().kind(Kind::Undirected), Size(12, 0, 40, 40));
}

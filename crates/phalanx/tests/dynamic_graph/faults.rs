//! Calls in which a copy fails: the graph is then as before, or the call is complete.
use crate::common::{Rng, emulator};
use crate::world::{World, random_edges};
use gpu::Device;
use phalanx::DynamicGraph;
use phalanx::graph::Kind;

/// The kinds of graphs, and whether edges are stored at their targets, too.
const KINDS: [(Kind, bool); 3] = [(Kind::Directed, false), (Kind::Directed, true), (Kind::Undirected, false)];

/// Number of vertices.
const VERTICES: usize = 200;

/// Returns a graph in which vertex 0 has a table, and vertex 5 has slabs.
fn filled(device: &Device, (kind, in_edges): (Kind, bool)) -> World<()> {
    let builder = DynamicGraph::builder().device(device).vertices(VERTICES).kind(kind);
    let mut world = World::new(builder.in_edges(in_edges));
    let mut edges: Vec<(u32, u32, ())> = (1..120).map(|target| (0, target, ())).collect();
    edges.extend((150..175).map(|target| (5, target, ())));
    edges.extend(random_edges(&mut Rng::new(1), 300, VERTICES as u64, 0));
    world.insert(&edges);
    world
}

/// Makes a call on graphs that `fill` returns, whose copies fail after none, one, two and so on, until it
/// succeeds. `check` gets the graphs of calls that have failed.
fn with_failing_copies<T>(
    fill: impl Fn(&Device) -> World<()>,
    call: impl Fn(&mut DynamicGraph<()>) -> phalanx::Result<T>,
    check: impl Fn(World<()>),
) {
    let device = emulator().unwrap();
    for copies in 0.. {
        let mut world = fill(&device);
        let handle = device.emulator_handle().unwrap();
        handle.fail_copy(copies);
        let said = call(&mut world.graph);
        let has_failed = handle.fail_copy(u64::MAX) == u64::MAX;
        assert_eq!(said.is_err(), has_failed, "copy {copies}");
        if !has_failed {
            assert!(copies > 2, "{copies} copies");
            return;
        }
        check(world);
    }
}

#[test]
fn removals_of_vertices_that_fail_are_complete_or_nothing() {
    for kind in KINDS {
        with_failing_copies(
            |device| filled(device, kind),
            |graph| graph.remove_vertices(&[0, 5, 5, 7]),
            |mut world| {
                let removed = VERTICES - world.graph.vertex_count();
                if removed > 0 {
                    let is_gone = |vertex: u32| [0, 5, 7].contains(&vertex);
                    world.edges.retain(|&(a, b), ()| !is_gone(a) && !is_gone(b));
                }
                world.check();
                let mut ids = world.graph.insert_vertices(removed + 1).unwrap();
                ids.sort_unstable();
                assert!(ids == [0, 5, 7, 200] || ids == [200], "{ids:?}");
            },
        );
    }
}

#[test]
fn a_graph_is_as_before_if_its_edges_cannot_be_removed() {
    for kind in KINDS {
        with_failing_copies(|device| filled(device, kind), DynamicGraph::clear, |world| world.check());
    }
}

#[test]
fn no_vertex_waits_for_growth_after_a_rehash_that_fails() {
    // A vertex with a long chain, and no room for a table: each size is tried.
    let fill = |device: &Device| {
        let builder = DynamicGraph::builder().device(device).vertices(VERTICES).slabs(32);
        let mut world = World::new(builder.table_slabs(0).fixed(true));
        world.insert(&(1..120).map(|target| (0, target, ())).collect::<Vec<_>>());
        world
    };
    with_failing_copies(
        fill,
        |graph| graph.rehash(1),
        |mut world| {
            world.check();
            world.insert(&(120..150).map(|target| (0, target, ())).collect::<Vec<_>>());
            assert_eq!(world.graph.rehash(1).unwrap(), 1);
            world.check();
        },
    );
}

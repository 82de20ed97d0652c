//! Graphs that are built from compressed sparse rows.
use crate::common::Rng;
use crate::world::{Sample, World, random_edges};
use phalanx::graph::{Builder, Csr, Kind, Rows};
use phalanx::{Device, DynamicGraph, Error, Outcome};

const KINDS: [Kind; 2] = [Kind::Directed, Kind::Undirected];

/// Returns the number of vertices that a builder gives a graph of rows, which has the edges of `world`.
fn rebuilt<E: Sample>(world: &mut World<E>, builder: Builder<E>) -> usize {
    world.graph = builder.build_from(&world.graph.to_csr().unwrap()).unwrap();
    world.check();
    world.graph.vertices()
}

fn graphs_of<E: Sample>(kind: Kind) {
    let mut rng = Rng::new(41);
    let builder = || DynamicGraph::<E>::builder().self_edges(true);
    let mut world = World::new(builder().vertices(700).kind(kind));
    assert_eq!(rebuilt(&mut world, builder()), 700);
    let mut edges = random_edges::<E>(&mut rng, 3000, 700, 3);
    edges.push((5, 5, E::random(&mut rng)));
    world.insert(&edges);
    assert_eq!(rebuilt(&mut world, builder()), 700);
    assert_eq!(rebuilt(&mut world, builder().rows_at_once(100)), 700);
    // Too little memory, so that edges are inserted again.
    assert_eq!(rebuilt(&mut world, builder().slabs(1).table_slabs(0).rows_at_once(900)), 700);
    assert_eq!(rebuilt(&mut world, builder().vertices(800)), 800);
    world.insert(&random_edges::<E>(&mut rng, 500, 800, 3));
    world.check();
}

#[test]
fn graphs_of_rows_have_their_edges() {
    for kind in KINDS {
        graphs_of::<()>(kind);
        graphs_of::<u32>(kind);
        graphs_of::<u64>(kind);
    }
}

/// Returns rows on the device.
fn csr<E: phalanx::graph::Data>(offsets: &[u64], targets: &[u32], data: &[E], kind: Kind) -> Csr<E> {
    let rows = Rows { offsets: offsets.to_vec(), targets: targets.to_vec(), data: data.to_vec() };
    Csr::from_rows(&Device::from_environment().unwrap(), &rows, kind).unwrap()
}

#[test]
fn equal_edges_of_rows_count_once_or_are_parallel() {
    let rows = csr(&[0, 3, 3, 4], &[1, 1, 2, 0], &[(); 4], Kind::Directed);
    let graph = DynamicGraph::<()>::builder().build_from(&rows).unwrap();
    assert_eq!((graph.edge_count().unwrap(), graph.degree(&[0, 1, 2]).unwrap()), (3, vec![2, 0, 1]));
    let graph = DynamicGraph::<()>::builder().parallel_edges(true).build_from(&rows).unwrap();
    assert_eq!((graph.edge_count().unwrap(), graph.degree(&[0, 1, 2]).unwrap()), (4, vec![3, 0, 1]));
}

#[test]
fn refused_edges_of_rows_are_errors() {
    let with_loop = csr(&[0, 1, 2], &[1, 1], &[(); 2], Kind::Directed);
    assert!(matches!(DynamicGraph::<()>::builder().build_from(&with_loop), Err(Error::Rows(_))));
    for kind in KINDS {
        let not_a_number = csr(&[0, 1, 2], &[1, 0], &[f32::NAN; 2], kind);
        assert!(matches!(DynamicGraph::<f32>::builder().build_from(&not_a_number), Err(Error::Rows(_))));
    }
    let no_vertex = csr(&[0], &[], &[(); 0], Kind::Directed);
    assert!(matches!(DynamicGraph::<()>::builder().build_from(&no_vertex), Err(Error::Zero { .. })));
}

#[test]
fn rows_that_do_not_fit_are_an_error() {
    let offsets: Vec<u64> = (0..=100).map(|vertex| vertex * 20).collect();
    let targets: Vec<u32> = (0..2000).map(|place| (place / 20 + 1 + place % 20) % 100).collect();
    let rows = csr(&offsets, &targets, &[(); 2000], Kind::Directed);
    let builder = DynamicGraph::<()>::builder().slabs(1).table_slabs(0).fixed(true);
    let Err(Error::NoRoom { outcomes, .. }) = builder.build_from(&rows) else {
        panic!("the edges fit into a fixed memory of one slab");
    };
    assert!(outcomes.count(Outcome::Refused) > 0);
}

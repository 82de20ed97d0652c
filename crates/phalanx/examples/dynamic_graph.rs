//! A graph of roads that are opened and closed: `cargo run --example dynamic_graph --features dynamic-graph`.
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Merge, Result};

fn main() -> Result<()> {
    let mut roads = DynamicGraph::<f32>::builder().vertices(6).kind(Kind::Undirected).build()?;
    let (from, to) = ([0, 1, 2, 3, 4], [1, 2, 3, 4, 5]);
    assert!(roads.insert(&from, &to, &[1.5, 2.0, 0.5, 3.0, 1.0])?.all_placed());

    // A shorter road between two places replaces the longer one.
    assert!(roads.upsert(Merge::Min, &[4, 1], &[3, 2], &[2.5, 9.0])?.all_placed());
    assert_eq!(roads.weight(&[3, 2], &[4, 1])?, [Some(2.5), Some(2.0)]);

    let before = roads.snapshot()?;
    assert_eq!(roads.remove_vertices(&[2])?.len(), 1); // a place and its roads
    let neighbors = roads.neighbors(&[1, 3])?;
    println!("place 1 leads to {:?}, place 3 to {:?}", neighbors.of(0), neighbors.of(1));
    println!("{} roads before, {} now", before.csr().edge_count(), roads.edge_count()?);
    Ok(())
}

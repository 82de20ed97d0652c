//! Arguments that no edge has, and buffers that do not fit.
use phalanx::graph::{Data, Kind};
use phalanx::{Device, DynamicGraph, Error, Merge, Outcome, emulator};

fn graph<E: Data>(kind: Kind) -> DynamicGraph<E> {
    DynamicGraph::builder().vertices(10).kind(kind).build().unwrap()
}

#[test]
fn ids_beyond_the_vertices_are_refused() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let graph = graph::<()>(kind);
        let (sources, targets) = ([10, 1, u32::MAX, 2, u32::MAX - 1], [1, 10, 3, u32::MAX, u32::MAX - 2]);
        assert_eq!(graph.insert(&sources, &targets).unwrap(), [Outcome::Refused; 5]);
        assert_eq!(graph.has_edge(&sources, &targets).unwrap(), [false; 5]);
        assert_eq!(graph.remove(&sources, &targets).unwrap(), [Outcome::Absent; 5]);
        assert_eq!(graph.degree(&[9, 10, u32::MAX]).unwrap(), [0; 3]);
        let found = graph.neighbors(&[10, u32::MAX]).unwrap();
        assert_eq!((found.of(0), found.of(1)), (&[][..], &[][..]));
        assert_eq!(graph.edge_count().unwrap(), 0);
        graph.validate().unwrap();
    }
}

#[test]
fn self_edges_are_refused_unless_they_are_allowed() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let refusing = graph::<u32>(kind);
        assert_eq!(refusing.insert(&[3], &[3], &[1]).unwrap(), [Outcome::Refused]);
        assert_eq!(refusing.remove(&[3], &[3]).unwrap(), [Outcome::Absent]);
        let graph = DynamicGraph::<u32>::builder().vertices(10).kind(kind).self_edges(true).build().unwrap();
        assert_eq!(graph.insert(&[3, 3], &[3, 4], &[1, 2]).unwrap(), [Outcome::Inserted; 2]);
        assert_eq!(graph.weight(&[3], &[3]).unwrap(), [Some(1)]);
        assert_eq!((graph.edge_count().unwrap(), graph.degree(&[3]).unwrap()), (2, vec![2]));
        graph.validate().unwrap();
        assert_eq!(graph.remove(&[3], &[3]).unwrap(), [Outcome::Removed]);
        graph.validate().unwrap();
    }
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let graph = graph::<f32>(Kind::Undirected);
    let weights = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
    let outcomes = graph.insert(&[0, 1, 2, 3, 4], &[1, 2, 3, 4, 5], &weights).unwrap();
    assert_eq!(outcomes[..2], [Outcome::Refused; 2]);
    assert_eq!(outcomes[2..], [Outcome::Inserted; 3]);
    let found = graph.weight(&[2, 3, 4], &[3, 4, 5]).unwrap();
    assert_eq!(found, [Some(f32::INFINITY), Some(f32::NEG_INFINITY), Some(-0.0)]);
    assert!(found[2].unwrap().is_sign_negative());
    assert_eq!(graph.upsert(Merge::Add, &[2], &[3], &[f32::NAN]).unwrap(), [Outcome::Refused]);
    graph.validate().unwrap();
}

#[test]
fn upserts_merge() {
    let graph = graph::<f32>(Kind::Undirected);
    let many = graph.upsert(Merge::Add, &[0; 100], &[1; 100], &[0.5; 100]).unwrap();
    assert_eq!((many.count(Outcome::Inserted), many.count(Outcome::Replaced)), (1, 99));
    assert!(graph.upsert(Merge::Min, &[0, 2], &[1, 3], &[70.0, -3.0]).unwrap().all_placed());
    assert!(graph.upsert(Merge::Max, &[1, 3], &[0, 2], &[-1.0, -2.0]).unwrap().all_placed());
    assert_eq!(graph.weight(&[0, 2], &[1, 3]).unwrap(), [Some(50.0), Some(-2.0)]);
    graph.validate().unwrap();
}

#[test]
fn an_empty_batch_changes_nothing() {
    let graph = graph::<u32>(Kind::Undirected);
    assert!(graph.insert(&[], &[], &[]).unwrap().is_empty());
    assert!(graph.remove(&[], &[]).unwrap().is_empty());
    assert!(graph.has_edge(&[], &[]).unwrap().is_empty());
    assert!(graph.weight(&[], &[]).unwrap().is_empty());
    assert!(graph.degree(&[]).unwrap().is_empty());
    assert!(graph.neighbors(&[]).unwrap().is_empty());
    graph.validate().unwrap();
}

#[test]
fn slices_of_different_lengths_are_errors() {
    let graph = graph::<u32>(Kind::Directed);
    assert!(matches!(graph.insert(&[1], &[], &[1]), Err(Error::Length { what: "targets", .. })));
    assert!(matches!(graph.insert(&[1], &[2], &[]), Err(Error::Length { what: "data", .. })));
    assert!(matches!(graph.remove(&[1], &[]), Err(Error::Length { .. })));
    assert!(matches!(graph.has_edge(&[1], &[]), Err(Error::Length { .. })));
    assert!(matches!(graph.weight(&[1], &[]), Err(Error::Length { .. })));
    let (device, stream) = (graph.device(), graph.device().stream().unwrap());
    let (one, two) = (device.from_slice(&[1u32]).unwrap(), device.from_slice(&[1u32, 2]).unwrap());
    let batches = graph.on(&stream);
    assert!(matches!(batches.insert(&one, &two, &one, None), Err(Error::Length { .. })));
    assert!(matches!(batches.insert(&one, &one, &two, None), Err(Error::Length { .. })));
    assert!(matches!(batches.has_edge(&two, &one, None), Err(Error::Length { .. })));
}

#[test]
fn buffers_of_another_device_are_errors() {
    let graph = graph::<()>(Kind::Directed);
    let other = Device::emulator(emulator::Options::default());
    let (own, foreign) = (graph.device().from_slice(&[1u32]).unwrap(), other.from_slice(&[1u32]).unwrap());
    let stream = graph.device().stream().unwrap();
    let error = graph.on(&stream).insert(&own, &foreign, None).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "targets", .. }), "{error}");
    let error = graph.on(&other.stream().unwrap()).insert(&own, &own, None).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "stream", .. }), "{error}");
}

#[test]
fn builders_refuse_impossible_sizes() {
    assert!(matches!(DynamicGraph::<()>::builder().build(), Err(Error::Zero { what: "vertices" })));
    let error = DynamicGraph::<()>::builder().vertices(u32::MAX as usize).build();
    assert!(matches!(error, Err(Error::TooLarge { what: "vertices", .. })));
    let error = DynamicGraph::<()>::builder().vertices(1).table_slabs(1 << 28).build();
    assert!(matches!(error, Err(Error::TooLarge { .. })));
    let error = DynamicGraph::<()>::builder().vertices(1).variant("none").build();
    assert!(matches!(error, Err(Error::UnknownVariant { .. })));
}

#[test]
fn a_count_on_the_device_bounds_a_batch() {
    let graph = graph::<()>(Kind::Undirected);
    let (device, stream) = (graph.device(), graph.device().stream().unwrap());
    let sources = device.from_slice(&[0u32, 1, 2]).unwrap();
    let targets = device.from_slice(&[3u32, 4, 5]).unwrap();
    let count = device.from_slice(&[2u32]).unwrap();
    let mut outcomes = device.filled::<u8>(3, 99).unwrap();
    graph.on(&stream).insert(sources.bounded_by(&count).unwrap(), &targets, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [Outcome::Inserted as u8, Outcome::Inserted as u8, 99]);
    assert_eq!(graph.has_edge(&[0, 1, 2], &[3, 4, 5]).unwrap(), [true, true, false]);
    graph.validate().unwrap();
}

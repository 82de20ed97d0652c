//! Algorithms on graphs: breadth-first search, connected components, PageRank and triangle counting.
//!
//! They run on a [`DynamicGraph`](super::DynamicGraph) itself, and on a [`Csr`](super::Csr), for example that
//! of a [`Snapshot`](super::Snapshot), by the same kernels. The results are in device memory. The calls wait
//! for the device.
//!
//! ```
//! use phalanx::DynamicGraph;
//! use phalanx::graph::algorithms::{Components, bfs, triangles};
//! use phalanx::graph::Kind;
//!
//! let graph = DynamicGraph::<()>::builder().vertices(5).kind(Kind::Undirected).build()?;
//! assert!(graph.insert(&[0, 1, 2, 3], &[1, 2, 0, 4])?.all_placed());
//! assert_eq!(bfs(&graph, &[0])?.read()?, [Some(0), Some(1), Some(1), None, None]);
//! assert_eq!(Components::of(&graph)?.read()?, [0, 0, 0, 3, 3]);
//! assert_eq!(triangles(&graph)?, 1);
//! assert_eq!(triangles(graph.snapshot()?.csr())?, 1);
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! | call | what it computes | directed graphs |
//! |---|---|---|
//! | [`bfs`] | number of edges from the nearest source to each vertex | along the edges |
//! | [`Components`] | the smallest vertex of each vertex's component | weakly connected components |
//! | [`page_rank`] | ranks of all vertices, which add up to 1 | along the edges |
//! | [`triangles`], [`Triangles`] | number of triangles | refused |
//!
//! # Concurrency
//! On a [`DynamicGraph`](super::DynamicGraph) an algorithm sees the state between two batches. Lookups that
//! were submitted before it run beside it. Kernels of one's own must not change the graph meanwhile. Batches
//! of other host threads wait on the host until it has ended; to let them go on, run it on a snapshot.
//!
//! # Cost
//!
//! A pass over a graph reads its records and slabs, and tombstones in them; a pass over a CSR 8 bytes per
//! vertex and 4 per edge. A vertex is served by a tile of eight lanes; one with a table (in a CSR, with more
//! than 128 neighbours) by a warp per eight buckets (256 neighbours), so hubs are spread over the device.
//! Temporary memory besides the results: 8 bytes per part of a large vertex, and what each function states.
//! `docs/structures/dynamic-graph.md` has the figures.
//!
//! Sources: level-synchronous search with queues as in Merrill, Garland and Grimshaw, "Scalable GPU Graph
//! Traversal", PPoPP 2012, without their bitmaps; hooking of roots as in Jaiganesh and Burtscher, "A
//! High-Performance Connected Components Implementation for GPUs", HPDC 2018; PageRank by Page, Brin and
//! others, 1999; triangles by oriented edges as in Latapy, "Main-memory triangle computations", 2008. The
//! sums in fixed point and the count of new triangles are ours.
mod components;
mod executed;
mod page_rank;
mod search;
mod traversal;
mod triangles;

pub use components::Components;
pub use page_rank::{PageRank, Ranks, page_rank, page_rank_from};
pub use search::{Distances, bfs};
pub use traversal::Adjacent;
pub(super) use traversal::{Bound, PartBuffers, Source, Steps, Traversal};
pub use triangles::{Triangles, triangles};

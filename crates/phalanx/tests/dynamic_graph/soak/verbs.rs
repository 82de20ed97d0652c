//! Operations that only edges with data have.
use crate::world::{Sample, ends};
use phalanx::{DynamicGraph, Merge, Outcomes, Result};

/// Edges of which scripts call all operations.
pub trait Verbs: Sample {
    /// Adds to the data of edges. `None` if edges have none.
    fn add(_graph: &DynamicGraph<Self>, _edges: &[(u32, u32, Self)]) -> Option<Result<Outcomes>> {
        None
    }

    /// Returns the sum of data.
    fn sum(self, other: Self) -> Self;

    /// Builds edges into vertices of the size that these will have.
    fn build(graph: &mut DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> Result<Outcomes>;

    /// Removes edges below a time. `None` if edges have no timestamps.
    fn expire(_graph: &DynamicGraph<Self>, _before: u64) -> Option<Result<usize>> {
        None
    }

    /// Returns whether [`Self::expire`] removes the edge.
    fn is_below(self, _before: u64) -> bool {
        false
    }
}

/// Returns the sources, targets and data of edges.
fn columns<E: Copy>(edges: &[(u32, u32, E)]) -> (Vec<u32>, Vec<u32>, Vec<E>) {
    let (sources, targets) = ends(edges);
    (sources, targets, edges.iter().map(|edge| edge.2).collect())
}

impl Verbs for () {
    fn sum(self, (): ()) {}

    fn build(graph: &mut DynamicGraph<()>, edges: &[(u32, u32, ())]) -> Result<Outcomes> {
        let (sources, targets) = ends(edges);
        graph.bulk_build(&sources, &targets)
    }
}

macro_rules! weights {
    ($($data:ty { $($more:tt)* })*) => {$(
        impl Verbs for $data {
            fn add(graph: &DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> Option<Result<Outcomes>> {
                let (sources, targets, data) = columns(edges);
                Some(graph.upsert(Merge::Add, &sources, &targets, &data))
            }

            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn build(graph: &mut DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> Result<Outcomes> {
                let (sources, targets, data) = columns(edges);
                graph.bulk_build(&sources, &targets, &data)
            }

            $($more)*
        }
    )*};
}
weights! {
    u32 {}
    u64 {
        fn expire(graph: &DynamicGraph<u64>, before: u64) -> Option<Result<usize>> {
            Some(graph.expire(before))
        }

        fn is_below(self, before: u64) -> bool {
            self < before
        }
    }
}

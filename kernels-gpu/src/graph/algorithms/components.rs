//! Connected components: a forest of labels that edges join.
//!
//! The label of a vertex is another vertex of its component, with an id that is not larger. A vertex that is
//! its own label is a root. An edge joins two trees: the larger root gets the smaller one as its label, by a
//! compare-and-swap, which fails if another thread has joined that root meanwhile. So there are no cycles,
//! and the root of a component is its smallest vertex in the end.
use super::parts::{Adjacency, PartList, visit_all};
use simt::{GlobalSlice, Instance, Order, Scope, device, kernel};

/// Returns the root of a vertex, and shortens the path to it: each vertex on the way gets the label of its
/// label.
#[device]
fn root(labels: GlobalSlice<u32>, mut vertex: u32) -> u32 {
    let load = |vertex: u32| labels.at(vertex as usize).load(Order::Relaxed, Scope::Device);
    let mut label = load(vertex);
    while label != vertex {
        let next = load(label);
        if next == label {
            return label;
        }
        // Another thread may have stored a smaller label meanwhile. Both are on the path.
        // mutation: late performance, because the label is one on the path of a vertex that is no root: an
        // older one only makes the path longer.
        // mutation: skip performance, because the path only stays as long as it is.
        labels.at(vertex as usize).store(next, Order::Relaxed, Scope::Device);
        (vertex, label) = (label, next);
    }
    vertex
}

/// Joins the components of two vertices. Returns a vertex near the root of both: a later call with it has
/// a short path.
#[device]
pub fn join(labels: GlobalSlice<u32>, one: u32, other: u32) -> u32 {
    // mutation: early equivalent, because a relaxed load may return an older label, too: it is on the path as
    // well.
    if labels.at(other as usize).load(Order::Relaxed, Scope::Device) == one {
        return one;
    }
    let (mut one, mut other) = (root(labels, one), root(labels, other));
    while one != other {
        let (low, high) = if one < other { (one, other) } else { (other, one) };
        let word = labels.at(high as usize);
        if word.compare_exchange(high, low, Order::Relaxed, Scope::Device).is_ok() {
            return low;
        }
        // The larger one is no root any more.
        (one, other) = (root(labels, high), root(labels, low));
    }
    one
}

/// Sets the label of a vertex to its root. No trees are joined in the same launch.
///
/// The paths are not shortened on the way: a thread that does so may store the label that it has read before
/// the vertex got its root, and the vertex would lose that root again.
#[device]
pub fn compress(labels: GlobalSlice<u32>, vertex: usize) {
    // mutation: early equivalent, because a relaxed load may return an older label, too: it leads to the same
    // root.
    let load = |vertex: u32| labels.at(vertex as usize).load(Order::Relaxed, Scope::Device);
    let first = load(vertex as u32);
    let (mut root, mut label) = (first, load(first));
    while label != root {
        (root, label) = (label, load(label));
    }
    if root != first {
        // mutation: late equivalent, because the old label leads to the same root: others may read either.
        labels.at(vertex).store(root, Order::Relaxed, Scope::Device);
    }
}

/// Returns the function that joins a vertex with its neighbours: all, or only those with smaller ids if each
/// edge is stored at both ends. It follows the path from the vertex to its root once.
#[device]
fn join_with(labels: GlobalSlice<u32>, vertex: u32, is_undirected: bool) -> impl FnMut(Option<u32>) {
    let mut joined = vertex;
    move |target| {
        if let Some(target) = target.filter(|&target| target < vertex || !is_undirected) {
            joined = join(labels, joined, target);
        }
    }
}

/// Joins small vertices with their neighbours, and lists the parts of large ones. Each vertex is its own
/// label before. `is_undirected` is 1 if each edge is stored at both ends, otherwise 0. The grid has any
/// number of threads.
///
/// Cost: a pass over the vertices; per edge the path from its target to the root, one or two loads at random
/// addresses if paths are short; per joined pair of trees a compare-and-swap.
#[kernel]
pub fn components_join<A: Adjacency + Instance>(
    graph: A::View,
    labels: GlobalSlice<u32>,
    is_undirected: u32,
    parts: PartList,
) {
    visit_all::<A>(graph, Some(parts), |vertex| {
        A::visit(graph, vertex, join_with(labels, vertex.unwrap_or(0), is_undirected != 0))
    });
}

/// Joins large vertices with the neighbours in the parts that [`components_join`] has listed. The grid has
/// any number of threads.
///
/// Cost: as [`components_join`].
#[kernel]
pub fn components_join_parts<A: Adjacency + Instance>(
    graph: A::View,
    labels: GlobalSlice<u32>,
    is_undirected: u32,
    parts: PartList,
) {
    parts.for_each(|part| A::visit_part(graph, part, join_with(labels, part.vertex, is_undirected != 0)));
}

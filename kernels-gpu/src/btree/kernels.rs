//! Entry points that trees have beside those of all keyed structures (`keyed::kernels`).
use super::tree::{Config, TreeView};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, kernel};

/// Makes a tree of sorted pairs, no two with equal keys, in the first slabs of a pool, which [`super::nodes`] counts and which are live. `count` is
/// how many there are, but for one whose key looks like an empty slot and which comes last. `fill` pairs go to a node. Runs alone. The
/// grid has a tile for every node.
#[kernel]
pub fn bulk_build<M: Config + Instance>(
    tree: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    count: u64,
    fill: u32,
) {
    M::build(tree, (Thread::index() / M::TILE as usize) as u64, keys, values, count, fill);
}

/// Examines all nodes and adds to `report`: nodes, children, latched nodes, pairs misplaced, children wrong, links wrong, pairs, levels.
/// Runs alone. The grid has a thread for every slab of the pool.
#[kernel]
pub fn examine<M: Config + Instance>(tree: TreeView<M>, report: GlobalSlice<u64>) {
    let found = M::examine(tree, Thread::index() as u32);
    let findings = [
        found.nodes,
        found.children,
        found.latched,
        found.misplaced,
        found.children_wrong,
        found.link_wrong,
        found.pairs,
        found.depth,
    ];
    for (place, many) in findings.into_iter().enumerate().filter(|(_, many)| *many > 0) {
        report.at(place).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }
}

/// Frees all nodes but those of an empty tree, and makes their slabs blank. Runs alone. The grid has a tile for every slab of the pool.
#[kernel]
pub fn prune<M: Config + Instance>(tree: TreeView<M>) {
    M::prune(tree, Thread::index() / M::TILE as usize);
}

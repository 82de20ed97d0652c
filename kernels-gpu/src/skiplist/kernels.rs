//! Entry points of skip lists beyond those of trees and of all keyed structures.
//!
//! # Cost
//!
//! Kernels of passes cost what those of [`crate::keyed::kernels`] cost, for the elements of their pass.
//! Kernels of a compaction read each data node once, and write its tail or the index; [`passing`] is
//! arithmetic.
use super::compact::{Layout, NodeArray, SlabReservation};
use super::list::Layers;
use crate::keyed::kernels::{Element, batch, element, read_if, write_if};
use crate::keyed::{CounterDelta, Insert, InsertNew, OpCode};
use crate::ordered::view::TreeView;
use simt::{BoundedSlice, GlobalSlice, Instance, Thread, device, kernel};

/// Returns the index in the batch of element `index` of a pass. A pass has every `step`-th element, except,
/// if `ratio` is not 0, every `ratio * step`-th one, which an earlier pass has submitted.
#[device]
fn passed(index: usize, step: u32, ratio: u32) -> usize {
    let skipped = if ratio > 1 { index / (ratio as usize - 1) + 1 } else { 0 };
    (index + skipped).saturating_mul(step as usize)
}

/// Returns the number of elements that a pass submits of a batch of `len`.
///
/// ```
/// use phalanx_kernels::skiplist::kernels::passing;
///
/// // Every eighth element; then every second one, without those.
/// assert_eq!((passing(100, 8, 0), passing(100, 2, 4)), (13, 37));
/// ```
pub fn passing(len: usize, step: u32, ratio: u32) -> usize {
    // A step of 0 counts as 1: a kernel has no code for a division by 0.
    let all = len.div_ceil(step.max(1) as usize);
    if ratio > 1 { all - all.div_ceil(ratio as usize) } else { all }
}

/// Returns the index of the calling thread's element in a pass, and whether it has one.
#[device]
fn in_pass(width: u32, len: usize, step: u32, ratio: u32) -> (usize, bool) {
    let (index, brings) = element(width, passing(len, step, ratio));
    let index = if brings { passed(index, step, ratio) } else { usize::MAX };
    (index, brings && index < len)
}

macro_rules! passes {
    ($($(#[$doc:meta])* $name:ident: $operation:expr;)*) => {$(
        $(#[$doc])*
        #[kernel(registers = M::REGISTERS)]
        pub fn $name<M: Layers + Instance>(
            list: TreeView<M>,
            keys: BoundedSlice<M::Key>,
            values: GlobalSlice<M::Value>,
            outcomes: GlobalSlice<u8>,
            step: u32,
            ratio: u32,
        ) {
            let keys = keys.resolve();
            let request = |index, brings| {
                ($operation, read_if(keys, index, brings), read_if(values, index, brings))
            };
            let place = in_pass(M::TILE, keys.len(), step, ratio);
            batch::<M, _>(list, Element::at(place), request, values, outcomes);
        }
    )*};
}

passes! {
    /// Executes a pass of insertions that replace values: see [`passing`].
    insert_pass: Insert;
    /// Executes a pass of insertions of new keys.
    insert_new_pass: InsertNew;
}

/// Executes a pass of operations: each element's own if there are `codes`, else `code`.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::CODED_IN)]
pub fn coded_pass<M: Layers + Instance>(
    list: TreeView<M>,
    code: u32,
    codes: GlobalSlice<u8>,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
    step: u32,
    ratio: u32,
) {
    let keys = keys.resolve();
    let request = |index, brings| {
        let own = read_if(codes, index, brings && !codes.is_empty()) as u32;
        let code = OpCode::from_code(if codes.is_empty() { code } else { own });
        (code, read_if(keys, index, brings), read_if(arguments, index, brings))
    };
    let place = in_pass(M::TILE, keys.len(), step, ratio);
    batch::<M, _>(list, Element::at(place), request, results, outcomes);
}

/// Inserts by tiles that take `run` neighbouring elements each and advance by as many runs as there are
/// tiles: the block-cyclic assignment of section 4.2.1. `run` is a multiple of the tile's width. The grid has
/// any number of blocks.
#[kernel(registers = M::REGISTERS)]
pub fn insert_runs<M: Layers + Instance>(
    list: TreeView<M>,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
    run: u32,
) {
    let (width, run) = (M::TILE as usize, run as usize);
    let (tile, rank) = (Thread::index() / width, Thread::index() % width);
    let tiles = Thread::count() / width;
    let mut delta = CounterDelta::default();
    // All tiles execute the same number of iterations, because those of a warp must stay together: the number
    // depends on no count, which another stream might change meanwhile.
    let (mut first, end, keys) = (0, keys.max_len(), keys.resolve());
    while first < end {
        let mut done = 0;
        while done < run {
            let index = first + tile * run + done + rank;
            let brings = done + rank < run && index < keys.len();
            let (key, value) = (read_if(keys, index, brings), read_if(values, index, brings));
            let (outcome, _) = M::execute(list, brings, Insert, key, value);
            if brings {
                delta.count(outcome);
                write_if(outcomes, index, outcome as u8);
            }
            done += width;
        }
        first += tiles * run;
    }
    M::counters(list).record(delta);
}

/// Lists the data nodes that stay when the list is compacted, and counts them in `count`, which is 0 before.
/// Requires exclusive access to the list, as do all kernels below. The grid has a thread for every slab of
/// the pool.
#[kernel]
pub fn gather<M: Layers + Instance>(
    list: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    handles: GlobalSlice<u32>,
    count: GlobalSlice<u64>,
) {
    M::gather(list, Thread::index(), lows, handles, count);
}

/// Frees all other nodes, makes their slabs blank, and clears the directory. The grid has a tile for every
/// slab of the pool.
#[kernel]
pub fn sweep<M: Layers + Instance>(list: TreeView<M>) {
    M::sweep_nodes(list, Thread::index() / M::TILE as usize);
    list.directory().clear();
}

/// Links the data nodes, which are sorted by their low keys. The grid has a tile for each of them.
#[kernel]
pub fn relink<M: Layers + Instance>(
    list: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    handles: GlobalSlice<u32>,
    nodes: u64,
) {
    let (index, layout) = (Thread::index() / M::TILE as usize, Layout { nodes, stride: 1, fill: 2 });
    if (index as u64) < nodes {
        M::relink(list, index, NodeArray { layout, lows, handles, slabs: handles });
    }
}

/// Allocates free slabs for index nodes, up to the length of `slabs`: first those of layer 1, up to index
/// `first`, then those of layer 2, up to `second`, then all others. Each slab is in its layer's part of the
/// pool, or anywhere if `anywhere` is not 0: a launch with `anywhere` fills what one without it leaves open.
/// The three `counts` are 0 before the first of the two. The grid has a thread for every slab of the pool.
#[kernel]
pub fn claim<M: Layers + Instance>(
    list: TreeView<M>,
    slabs: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
    first: u64,
    second: u64,
    anywhere: u32,
) {
    let claims = SlabReservation { slabs, counts, ends: [first, second], anywhere: anywhere != 0 };
    M::claim(list, Thread::index(), claims);
}

/// Builds the index layers. Traversals begin at the root, because [`sweep`] has cleared the directory. The
/// grid has a tile for each node, the root included.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel]
pub fn index<M: Layers + Instance>(
    list: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    handles: GlobalSlice<u32>,
    slabs: GlobalSlice<u32>,
    nodes: u64,
    stride: u64,
    fill: u64,
) {
    let layout = Layout { nodes, stride, fill };
    let number = (Thread::index() / M::TILE as usize) as u64;
    if number <= slabs.len() as u64 {
        M::index(list, number, NodeArray { layout, lows, handles, slabs });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn passes_bring_every_element_once() {
        for len in [0, 1, 2, 15, 16, 17, 255, 256, 257, 1000] {
            for ratio in [4u32, 16] {
                let mut seen = BTreeSet::new();
                for (step, ratio) in [(ratio * ratio, 0), (ratio, ratio), (1, ratio)] {
                    for index in 0..passing(len, step, ratio) {
                        let element = passed(index, step, ratio);
                        assert!(element < len && seen.insert(element), "{len} {step} {ratio}: {element}");
                    }
                }
                assert_eq!(seen.len(), len);
            }
        }
    }
}

//! Entry points that skip lists have beside those of trees and of all keyed structures.
use super::list::Layers;
use super::tidy::{Claims, Ground, Layout};
use crate::btree::TreeView;
use crate::keyed::kernels::{batch_of, element, read_if, write_if};
use crate::keyed::{Coded, Insert, InsertNew, Tally};
use simt::{GlobalSlice, Instance, Thread, kernel};

/// The element of a batch that is number `index` among those that a pass brings: every `step`-th, and where
/// `ratio` is not 0, none that is every `ratio * step`-th too, for an earlier pass has brought those.
#[inline(always)]
fn passed(index: usize, step: u32, ratio: u32) -> usize {
    let skipped = if ratio > 1 { index / (ratio as usize - 1) + 1 } else { 0 };
    (index + skipped).saturating_mul(step as usize)
}

/// How many elements of `len` a pass brings.
pub fn passing(len: usize, step: u32, ratio: u32) -> usize {
    let all = len.div_ceil(step as usize);
    if ratio > 1 { all - all.div_ceil(ratio as usize) } else { all }
}

/// The element that the calling thread brings in a pass, and whether it brings one.
#[inline(always)]
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
            keys: GlobalSlice<M::Key>,
            values: GlobalSlice<M::Value>,
            outcomes: GlobalSlice<u8>,
            step: u32,
            ratio: u32,
        ) {
            let request = |index, brings| {
                ($operation, read_if(keys, index, brings), read_if(values, index, brings))
            };
            let place = in_pass(M::TILE, keys.len(), step, ratio);
            batch_of::<M, _>(list, place, request, values, outcomes);
        }
    )*};
}

passes! {
    /// A pass of insertions that replace: see [`passing`].
    insert_pass: Insert;
    /// A pass of insertions of new keys.
    insert_new_pass: InsertNew;
}

/// A pass of any operations: of each element's own where there are `codes`, else of `code`.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::REGISTERS)]
pub fn coded_pass<M: Layers + Instance>(
    list: TreeView<M>,
    code: u32,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
    step: u32,
    ratio: u32,
) {
    let request = |index, brings| {
        let own = read_if(codes, index, brings && !codes.is_empty()) as u32;
        let code = Coded::from_code(if codes.is_empty() { code } else { own });
        (code, read_if(keys, index, brings), read_if(arguments, index, brings))
    };
    let place = in_pass(M::TILE, keys.len(), step, ratio);
    batch_of::<M, _>(list, place, request, results, outcomes);
}

/// Insertions by tiles that take `run` neighbouring elements each, and go on with those that are as many runs
/// further on as there are tiles: the block-cyclic assignment of section 4.2.1. `run` is a multiple of the
/// tile's width. The grid has any number of blocks.
#[kernel(registers = M::REGISTERS)]
pub fn insert_runs<M: Layers + Instance>(
    list: TreeView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
    run: u32,
) {
    let (width, run) = (M::TILE as usize, run as usize);
    let (tile, rank) = (Thread::index() / width, Thread::index() % width);
    let tiles = Thread::count() / width;
    let mut tally = Tally::default();
    let mut first = 0;
    // Every tile goes as often as any: those of a warp go together.
    while first < keys.len() {
        let mut done = 0;
        while done < run {
            let index = first + tile * run + done + rank;
            let brings = done + rank < run && index < keys.len();
            let (key, value) = (read_if(keys, index, brings), read_if(values, index, brings));
            let (outcome, _) = M::execute(list, brings, Insert, key, value);
            if brings {
                tally.count(outcome);
                write_if(outcomes, index, outcome as u8);
            }
            done += width;
        }
        first += tiles * run;
    }
    M::tallies(list).record(tally);
}

/// Lists the data nodes that stay when the list is put in order, and counts them in `count`, which is 0
/// before. Runs alone, as all that follow. The grid has a thread for every slab of the pool.
#[kernel]
pub fn gather<M: Layers + Instance>(
    list: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    handles: GlobalSlice<u32>,
    count: GlobalSlice<u64>,
) {
    M::gather(list, Thread::index(), lows, handles, count);
}

/// Frees all other nodes, and makes their slabs blank. The grid has a tile for every slab of the pool.
#[kernel]
pub fn sweep<M: Layers + Instance>(list: TreeView<M>) {
    M::sweep_nodes(list, Thread::index() / M::TILE as usize);
}

/// Links the data nodes, which are sorted by their low keys. The grid has a tile for each.
#[kernel]
pub fn relink<M: Layers + Instance>(
    list: TreeView<M>,
    lows: GlobalSlice<M::Key>,
    handles: GlobalSlice<u32>,
    nodes: u64,
) {
    let (index, layout) = (Thread::index() / M::TILE as usize, Layout { nodes, stride: 1, fill: 2 });
    if (index as u64) < nodes {
        M::relink(list, index, Ground { layout, lows, handles, slabs: handles });
    }
}

/// Takes free slabs for index nodes, as many as `slabs` has room for: first those of layer 1, up to `first`,
/// then those of layer 2, up to `second`, then all others. Each is of its layer's part of the pool, or of any
/// where `anywhere` is not 0: what a launch that asks for the former leaves open, one that asks for the
/// latter fills. The three `counts` are 0 before the first of the two. The grid has a thread for every slab
/// of the pool.
#[kernel]
pub fn claim<M: Layers + Instance>(
    list: TreeView<M>,
    slabs: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
    first: u64,
    second: u64,
    anywhere: u32,
) {
    let claims = Claims { slabs, counts, ends: [first, second], anywhere: anywhere != 0 };
    M::claim(list, Thread::index(), claims);
}

/// Makes the index layers, and has walks begin at the root until there is another directory. The grid has a
/// tile for each node, the root too.
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
        M::index(list, number, Ground { layout, lows, handles, slabs });
    }
    if Thread::index() == 0 {
        list.directory().forget();
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

//! The kinds of tree with versions that are compiled: for each pair of types, in place and out of place. A
//! new variant is one line here.
use super::clock::{InPlace, OutOfPlace};
use super::kernels::{ClearMarkedVersions, MarkVersions, SweepVersions};
use super::version::Versioned;
use crate::btree::tree::Tree;
use crate::keyed::kernels::{
    ContainsKey, Export, Get, GetOrInsert, Insert, InsertNew, Mixed, Remove, Replace, RetainBetween, Take,
    Upsert,
};
use crate::keyed::{Packed, Wide};
use crate::ordered::kernels::{
    AppendPairs, BuildEmpty, BulkBuild, CheckSorted, ClaimNodes, CountRange, CountReads, Examine, FindSpine,
    FreeNodes, Predecessor, Range, RebuildDirectory, Successor,
};
use crate::reclaim::Blocks;
use crate::slab::Spread;
use simt::instances;

instances! {
    types {
        mvtree_in_place_spread_128_4x4_u32_u32: Tree<Versioned<Packed>, Spread<128>, InPlace, 4, 4>,
        mvtree_in_place_spread_256_16x1_u64_u64: Tree<Versioned<Wide<u64, u64>>, Spread<256>, InPlace, 16, 1>,
        mvtree_in_place_spread_256_16x1_u32_u64: Tree<Versioned<Wide<u32, u64>>, Spread<256>, InPlace, 16, 1>,
        mvtree_in_place_spread_256_16x1_u64_u32: Tree<Versioned<Wide<u64, u32>>, Spread<256>, InPlace, 16, 1>,
        mvtree_out_of_place_spread_128_4x4_u32_u32:
            Tree<Versioned<Packed>, Spread<128>, OutOfPlace<Blocks>, 4, 4>,
        mvtree_out_of_place_spread_256_16x1_u64_u64:
            Tree<Versioned<Wide<u64, u64>>, Spread<256>, OutOfPlace<Blocks>, 16, 1>,
        mvtree_out_of_place_spread_256_16x1_u32_u64:
            Tree<Versioned<Wide<u32, u64>>, Spread<256>, OutOfPlace<Blocks>, 16, 1>,
        mvtree_out_of_place_spread_256_16x1_u64_u32:
            Tree<Versioned<Wide<u64, u32>>, Spread<256>, OutOfPlace<Blocks>, 16, 1>,
    }
    kernels {
        Insert, InsertNew, Get, ContainsKey, Remove, Take, Replace, Upsert, GetOrInsert, Mixed, Export,
        RetainBetween,
        AppendPairs, ClaimNodes, FindSpine,
        BuildEmpty, BulkBuild, Examine, RebuildDirectory, FreeNodes, CountRange, CountReads, Predecessor,
        Range,
        Successor, CheckSorted, MarkVersions, SweepVersions, ClearMarkedVersions,
    }
    visitor: crate::ordered::Config
}

/// The kinds that persistent kernels are compiled for: each kind of versioning, with pairs of 32 bits.
#[cfg(feature = "variants")]
pub mod concurrent_mix {
    use super::super::clock::{InPlace, OutOfPlace};
    use super::super::kernels::InsertAndRange;
    use super::super::version::Versioned;
    use crate::btree::tree::Tree;
    use crate::keyed::Packed;
    use crate::ordered::access::Concurrent;
    use crate::reclaim::Blocks;
    use crate::slab::Spread;
    use simt::instances;

    instances! {
        types {
            tree_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Concurrent, 4, 4>,
            mvtree_in_place_spread_128_4x4_u32_u32: Tree<Versioned<Packed>, Spread<128>, InPlace, 4, 4>,
            mvtree_out_of_place_spread_128_4x4_u32_u32:
                Tree<Versioned<Packed>, Spread<128>, OutOfPlace<Blocks>, 4, 4>,
        }
        kernels { InsertAndRange }
    }
}

//! The kinds of tree that are compiled. A new variant is one line here.
use super::tree::Tree;
use crate::keyed::kernels::{
    ContainsKey, Export, Get, GetOrInsert, Insert, InsertNew, Mixed, Remove, Replace, RetainBetween, Take,
    Upsert,
};
use crate::keyed::{Packed, Wide};
use crate::ordered::access::Concurrent;
#[cfg(feature = "variants")]
use crate::ordered::access::{Coupled, Grouped};
use crate::ordered::kernels::{
    AppendPairs, BuildEmpty, BulkBuild, CheckSorted, ClaimNodes, CountRange, CountReads, Examine, FindSpine,
    FreeNodes, Predecessor, Range, RebuildDirectory, Successor,
};
#[cfg(feature = "variants")]
use crate::slab::Light;
use crate::slab::Spread;
use simt::instances;

instances! {
    types {
        // Names: access policy, pool, bytes per node, lanes x words per lane, bits of key and value.
        //
        // The defaults.
        tree_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Concurrent, 4, 4>,
        tree_spread_256_16x1_u64_u64: Tree<Wide<u64, u64>, Spread<256>, Concurrent, 16, 1>,
        tree_spread_256_16x1_u32_u64: Tree<Wide<u32, u64>, Spread<256>, Concurrent, 16, 1>,
        tree_spread_256_16x1_u64_u32: Tree<Wide<u64, u32>, Spread<256>, Concurrent, 16, 1>,
    }
    #[cfg(feature = "variants")]
    types {
        // Pools in one piece.
        tree_light_128_4x4_u32_u32: Tree<Packed, Light<128>, Concurrent, 4, 4>,
        // Other tile sizes.
        tree_spread_128_8x2_u32_u32: Tree<Packed, Spread<128>, Concurrent, 8, 2>,
        tree_spread_128_16x1_u32_u32: Tree<Packed, Spread<128>, Concurrent, 16, 1>,
        // Batches are sorted first.
        tree_sorted_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Grouped, 4, 4>,
        // The baseline.
        tree_coupled_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Coupled, 4, 4>,
    }
    kernels {
        Insert, InsertNew, Get, ContainsKey, Remove, Take, Replace, Upsert, GetOrInsert, Mixed, Export,
        RetainBetween,
        AppendPairs, ClaimNodes, FindSpine,
        BuildEmpty, BulkBuild, Examine, RebuildDirectory, FreeNodes, CountRange, CountReads, Predecessor,
        Range, Successor, CheckSorted,
    }
    visitor: crate::ordered::Config
}

/// The kinds whose kernels only read, while nothing writes: read-only views of the kinds of the same names
/// without `phased`.
pub mod phased {
    use super::super::tree::Tree;
    use crate::keyed::kernels::{ContainsKey, Get};
    use crate::keyed::{Packed, Wide};
    use crate::ordered::access::Phased;
    use crate::ordered::kernels::{CountRange, Predecessor, Range, Successor};
    use crate::slab::Spread;
    use simt::instances;

    instances! {
        types {
            tree_phased_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Phased, 4, 4>,
            tree_phased_spread_256_16x1_u64_u64: Tree<Wide<u64, u64>, Spread<256>, Phased, 16, 1>,
            tree_phased_spread_256_16x1_u32_u64: Tree<Wide<u32, u64>, Spread<256>, Phased, 16, 1>,
            tree_phased_spread_256_16x1_u64_u32: Tree<Wide<u64, u32>, Spread<256>, Phased, 16, 1>,
        }
        #[cfg(feature = "variants")]
        types {
            tree_phased_spread_128_8x2_u32_u32: Tree<Packed, Spread<128>, Phased, 8, 2>,
        }
        kernels { Get, ContainsKey, CountRange, Predecessor, Range, Successor }
        visitor: super::super::tree::ReadOnly
    }
}

/// The kinds whose batches are sorted before they are submitted.
#[cfg(feature = "variants")]
pub mod sorted {
    use super::super::kernels::{CodedSorted, InsertSorted, RemoveSorted};
    use super::super::tree::Tree;
    use crate::keyed::Packed;
    use crate::ordered::access::Grouped;
    use crate::slab::Spread;
    use simt::instances;

    instances! {
        types {
            tree_sorted_spread_128_4x4_u32_u32: Tree<Packed, Spread<128>, Grouped, 4, 4>,
        }
        kernels { InsertSorted, RemoveSorted, CodedSorted }
        visitor: crate::ordered::Config
    }
}

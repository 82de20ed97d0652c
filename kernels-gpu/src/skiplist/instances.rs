//! The kinds of skip list that are compiled. A new variant is one line here.
use super::kernels::{Claim, CodedPass, Gather, Index, InsertNewPass, InsertPass, InsertRuns, Relink, Sweep};
use super::list::List;
use super::policy::Unsorted;
#[cfg(feature = "variants")]
use super::policy::{Counted, Sorted, Together};
use crate::keyed::kernels::{
    ContainsKey, Export, Get, GetOrInsert, Insert, InsertNew, Mixed, Remove, Replace, RetainBetween, Take,
    Upsert,
};
use crate::keyed::{Packed, Wide};
use crate::ordered::kernels::{
    AppendPairs, BuildEmpty, BulkBuild, CheckSorted, ClaimNodes, CountRange, CountReads, Examine, FindSpine,
    FreeNodes, Predecessor, Range, RebuildDirectory, Successor,
};
use crate::slab::Spread;
#[cfg(feature = "variants")]
use crate::slab::{Layered, Light};
use simt::instances;

instances! {
    types {
        // Names: policy, pool, bytes per node, lanes x words per lane, bits of key and value.
        //
        // The defaults: 14 pairs per node.
        list_spread_128_8x2_u32_u32: List<Packed, Spread<128>, Unsorted, 8, 2>,
        list_spread_256_16x1_u64_u64: List<Wide<u64, u64>, Spread<256>, Unsorted, 16, 1>,
        list_spread_256_16x1_u32_u64: List<Wide<u32, u64>, Spread<256>, Unsorted, 16, 1>,
        list_spread_256_16x1_u64_u32: List<Wide<u64, u32>, Spread<256>, Unsorted, 16, 1>,
    }
    #[cfg(feature = "variants")]
    types {
        // 30 pairs per node, as in the paper.
        list_spread_256_8x4_u32_u32: List<Packed, Spread<256>, Unsorted, 8, 4>,
        // Pools in one piece.
        list_light_128_8x2_u32_u32: List<Packed, Light<128>, Unsorted, 8, 2>,
        // Sorted pairs, as in the paper's baseline.
        list_sorted_spread_128_8x2_u32_u32: List<Packed, Spread<128>, Sorted, 8, 2>,
        list_sorted_spread_256_16x1_u64_u64: List<Wide<u64, u64>, Spread<256>, Sorted, 16, 1>,
        // Index layers in a part of the pool: all in one part, and each in its own.
        list_layered_spread_128_8x2_u32_u32: List<Packed, Layered<Spread<128>, false>, Unsorted, 8, 2>,
        list_apart_spread_128_8x2_u32_u32: List<Packed, Layered<Spread<128>, true>, Unsorted, 8, 2>,
        // Tiles of a warp that read together and write together.
        list_together_spread_128_8x2_u32_u32: List<Packed, Spread<128>, Together, 8, 2>,
        // Kinds that count latches and steps.
        list_counted_spread_128_8x2_u32_u32: List<Packed, Spread<128>, Counted, 8, 2>,
    }
    kernels {
        Insert, InsertNew, Get, ContainsKey, Remove, Take, Replace, Upsert, GetOrInsert, Mixed, Export,
        RetainBetween,
        AppendPairs, ClaimNodes, FindSpine,
        BuildEmpty, BulkBuild, Examine, RebuildDirectory, FreeNodes, CountRange, CountReads, Predecessor,
        Range, Successor, CheckSorted, InsertPass, InsertNewPass, CodedPass, InsertRuns, Gather, Sweep,
        Relink, Claim, Index,
    }
    visitor: super::list::Layers
}

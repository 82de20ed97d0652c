//! The graphs that algorithms are compiled for. A new variant is one line here.
use super::components::{ComponentsJoin, ComponentsJoinParts};
use super::degrees::DegreesCount;
use super::page_rank::{RankGather, RankGatherParts, RankScatter, RankScatterParts};
use super::rows::CsrRows;
use super::search::{SearchExpand, SearchExpandParts};
use super::triangles::{TriangleOrient, TriangleOrientParts};
use crate::graph::Edges;
use crate::keyed::{Bare, Packed, Published, Wide};
use crate::slab::Spread;
use simt::instances;

instances! {
    types {
        csr: CsrRows,
        graph_spread_128_1x8_u32: Edges<Bare<u32>, Spread<128>, 1, 8>,
        graph_spread_128_2x4_u32_u32: Edges<Packed, Spread<128>, 2, 4>,
        graph_spread_128_4x2_u32_u64: Edges<Wide<u32, u64>, Spread<128>, 4, 2>,
        graph_published_spread_128_4x2_u32_u64: Edges<Published<u32, u64>, Spread<128>, 4, 2>,
    }
    kernels {
        DegreesCount, SearchExpand, SearchExpandParts, ComponentsJoin, ComponentsJoinParts, RankGather,
        RankGatherParts, RankScatter, RankScatterParts, TriangleOrient, TriangleOrientParts,
    }
}

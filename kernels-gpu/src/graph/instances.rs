//! The kinds of graphs that are compiled. A new variant is one line here.
use super::kernels::{
    GraphAppend, GraphAppendDeferred, GraphChooseEnds, GraphCommon, GraphCommonGroups, GraphCommonParts,
    GraphCount, GraphDegree, GraphExpect, GraphExpire, GraphFlush, GraphFreeParts, GraphFreeRemoved,
    GraphHasEdge, GraphInsert, GraphInsertDeferred, GraphInspect, GraphInstall, GraphListParts,
    GraphMarkRemoved, GraphMove, GraphNeighbors, GraphPlan, GraphRehash, GraphRemove, GraphRepair,
    GraphRestore, GraphRowParts, GraphRows, GraphUnlink, GraphUpsert, GraphUpsertDeferred, GraphWeight,
};
use super::kind::Edges;
use crate::keyed::{Bare, Packed, Published, Wide};
use crate::slab::Spread;
use simt::instances;

instances! {
    types {
        // Names: `published` or nothing, pool, bytes per slab, lanes x slots of a record, bits of a target
        // and of its data, if any.
        graph_spread_128_1x8_u32: Edges<Bare<u32>, Spread<128>, 1, 8>,
        graph_spread_128_2x4_u32_u32: Edges<Packed, Spread<128>, 2, 4>,
        graph_spread_128_4x2_u32_u64: Edges<Wide<u32, u64>, Spread<128>, 4, 2>,
        // For devices without a 16-byte compare-and-swap.
        graph_published_spread_128_4x2_u32_u64: Edges<Published<u32, u64>, Spread<128>, 4, 2>,
    }
    kernels {
        GraphInsert, GraphInsertDeferred, GraphAppend, GraphAppendDeferred, GraphUpsert, GraphUpsertDeferred,
        GraphPlan, GraphMove, GraphInstall, GraphRepair, GraphRemove, GraphHasEdge, GraphWeight, GraphDegree,
        GraphNeighbors, GraphInspect, GraphRows, GraphRowParts, GraphFlush, GraphCount, GraphExpect,
        GraphRehash, GraphExpire, GraphMarkRemoved, GraphListParts, GraphUnlink, GraphFreeParts,
        GraphFreeRemoved, GraphRestore, GraphChooseEnds, GraphCommon, GraphCommonGroups, GraphCommonParts,
    }
    visitor: super::kind::Config
}

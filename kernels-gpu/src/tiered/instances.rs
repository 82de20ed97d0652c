//! The types that the kernels are compiled for.

/// Keys that are routed. Names: bits of the key, bits in which tables store it.
pub mod routes {
    use crate::tiered::kernels::TieredRoute;
    use crate::tiered::route::Route;
    simt::instances! {
        types { u32_u32: Route<u32, u32>, u32_u64: Route<u32, u64>, u64_u64: Route<u64, u64> }
        kernels { TieredRoute }
    }
}

/// Keys that are routed by ranges.
pub mod range_routes {
    use crate::tiered::kernels::TieredRouteRange;
    use crate::tiered::route::Route;
    simt::instances! {
        types { u32_u32: Route<u32, u32>, u64_u64: Route<u64, u64> }
        kernels { TieredRouteRange }
    }
}

/// Words that are moved.
pub mod moved {
    use crate::primitives::words::Words;
    use crate::tiered::kernels::{TieredGather, TieredScatter};
    simt::instances! {
        types { u8: Words<u8>, u32: Words<u32>, u64: Words<u64> }
        kernels { TieredGather, TieredScatter }
    }
}

/// Pairs of a cache of hot pairs, and of a batch. Names: bits of the key and of the value.
pub mod pairs {
    use crate::tiered::hot::Hot;
    use crate::tiered::hot::kernels::{TieredForget, TieredKeep, TieredLookUp, TieredSample};
    use crate::tiered::parts::{TieredCollect, TieredHandOut};
    simt::instances! {
        types {
            u32_u32: Hot<u32, u32>, u32_u64: Hot<u32, u64>, u64_u32: Hot<u64, u32>, u64_u64: Hot<u64, u64>
        }
        kernels { TieredLookUp, TieredForget, TieredKeep, TieredSample, TieredCollect, TieredHandOut }
    }
}

/// Tables of shards in which small batches are executed. Names: those of the tables' kinds.
pub mod tables {
    use crate::hash_map::{DoubleHash, Hinted, Table};
    use crate::keyed::{Packed, Published, Wide};
    use crate::tiered::scattered::TieredScattered;
    simt::instances! {
        types {
            hinted8_64_2x4_u32_u32: Table<Packed, Hinted<8>, 2, 4>,
            double_64_2x2_u64_u64: Table<Wide<u64, u64>, DoubleHash, 2, 2>,
            double_64_2x2_u32_u64: Table<Wide<u32, u64>, DoubleHash, 2, 2>,
            double_64_2x2_u64_u32: Table<Wide<u64, u32>, DoubleHash, 2, 2>,
            published_double_64_2x2_u64_u64: Table<Published<u64, u64>, DoubleHash, 2, 2>,
            published_double_64_2x2_u32_u64: Table<Published<u32, u64>, DoubleHash, 2, 2>,
            published_double_64_2x2_u64_u32: Table<Published<u64, u32>, DoubleHash, 2, 2>,
        }
        kernels { TieredScattered }
        visitor: crate::hash_map::Config
    }
}

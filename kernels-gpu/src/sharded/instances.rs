//! The types that the kernels are compiled for.

/// Pairs. Names: bits of the key and of the value.
pub mod pairs {
    use crate::sharded::direct::{ShardedReceive, ShardedSend};
    use crate::sharded::equal::{ShardedDistinct, ShardedExpand, ShardedHeads, ShardedSample};
    use crate::sharded::kernels::{Pair, ShardedCount, ShardedGather, ShardedScatter};
    use crate::sharded::small::{ShardedCollect, ShardedRoute};
    simt::instances! {
        types {
            u32_u32: Pair<u32, u32>, u32_u64: Pair<u32, u64>, u64_u32: Pair<u64, u32>, u64_u64: Pair<u64, u64>
        }
        kernels {
            ShardedCount, ShardedScatter, ShardedGather, ShardedRoute, ShardedCollect, ShardedSample,
            ShardedHeads, ShardedDistinct, ShardedExpand, ShardedSend, ShardedReceive,
        }
    }
}

/// The default kinds of hash map, which other ranks read.
pub mod tables {
    use crate::hash_map::{DefaultTable, DefaultWide};
    use crate::sharded::owned::GetOwned;
    simt::instances! {
        types {
            hinted8_64_2x4_u32_u32: DefaultTable,
            double_64_2x2_u64_u64: DefaultWide<u64, u64>,
            double_64_2x2_u32_u64: DefaultWide<u32, u64>,
            double_64_2x2_u64_u32: DefaultWide<u64, u32>,
        }
        kernels { GetOwned }
        visitor: crate::hash_map::Config
    }
}

//! The types that the kernels are compiled for.

/// Pairs. Names: bits of the key and of the value.
pub mod pairs {
    use crate::sharded::equal::{ShardedDistinct, ShardedExpand, ShardedHeads, ShardedSample};
    use crate::sharded::kernels::{Pair, ShardedCount, ShardedGather, ShardedScatter};
    use crate::sharded::small::{ShardedCollect, ShardedRoute};
    simt::instances! {
        types {
            u32_u32: Pair<u32, u32>, u32_u64: Pair<u32, u64>, u64_u32: Pair<u64, u32>, u64_u64: Pair<u64, u64>
        }
        kernels {
            ShardedCount, ShardedScatter, ShardedGather, ShardedRoute, ShardedCollect, ShardedSample,
            ShardedHeads, ShardedDistinct, ShardedExpand,
        }
    }
}

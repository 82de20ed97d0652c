//! The kinds of cache table that are compiled. A new variant is one line here.
use super::kind::Cache;
use super::policy::BuiltIn;

crate::cache_instances! {
    types {
        // Names: policy, lanes x words of digests per lane, bits of key and score. First the defaults.
        cache_4x8_u64_u64: Cache<u64, u64, BuiltIn, 4, 8>,
        cache_4x8_u32_u32: Cache<u32, u32, BuiltIn, 4, 8>,
        cache_4x8_u64_u32: Cache<u64, u32, BuiltIn, 4, 8>,
        cache_4x8_u32_u64: Cache<u32, u64, BuiltIn, 4, 8>,
    }
    #[cfg(feature = "variants")]
    types {
        cache_1x8_u64_u64: Cache<u64, u64, BuiltIn, 1, 8>,
        cache_2x4_u64_u64: Cache<u64, u64, BuiltIn, 2, 4>,
        cache_8x4_u64_u64: Cache<u64, u64, BuiltIn, 8, 4>,
        // Compares all keys of a bucket.
        cache_undigested_8x4_u64_u64: Cache<u64, u64, BuiltIn, 8, 4, false>,
    }
}

/// Words of keys whose batches are merged.
pub mod merged {
    use crate::cache::merge::{CacheClaim, CacheNumber};
    use crate::primitives::words::Words;
    simt::instances! {
        types { u32: Words<u32>, u64: Words<u64> }
        kernels { CacheClaim, CacheNumber }
    }
}

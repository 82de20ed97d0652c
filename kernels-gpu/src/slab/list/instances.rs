//! The kinds of lists that are compiled. A new variant is one line here.
#[cfg(feature = "variants")]
use super::super::pool::Light;
use super::super::pool::Spread;
use super::kernels::{
    Append, AppendAll, Collect, ContainsKeyOfMany, Count, Flush, Inspect, MixedOfMany, RemoveAll, RemoveOne,
};
use super::lists::Lists;
use crate::keyed::kernels::{
    ContainsKey, Export, Get, GetOrInsert, Insert, InsertNew, Mixed, Rehash, Remove, Replace, RetainBetween,
    SketchAbsent, Take, Upsert,
};
use crate::keyed::{Bare, Packed, Published, Wide};
use simt::instances;

instances! {
    types {
        // Names: `published` or nothing, pool, bytes per slab, lanes x slots per lane, bits of key and value
        // (of the key alone: a set). First the defaults.
        spread_128_4x4_u32_u32: Lists<Packed, Spread<128>, 4, 4>,
        spread_128_4x2_u64_u64: Lists<Wide<u64, u64>, Spread<128>, 4, 2>,
        spread_128_4x2_u32_u64: Lists<Wide<u32, u64>, Spread<128>, 4, 2>,
        spread_128_4x2_u64_u32: Lists<Wide<u64, u32>, Spread<128>, 4, 2>,
        spread_128_4x8_u32: Lists<Bare<u32>, Spread<128>, 4, 8>,
        spread_128_4x4_u64: Lists<Bare<u64>, Spread<128>, 4, 4>,
        // The defaults on devices without a 16-byte compare-and-swap.
        published_spread_128_4x2_u64_u64: Lists<Published<u64, u64>, Spread<128>, 4, 2>,
        published_spread_128_4x2_u32_u64: Lists<Published<u32, u64>, Spread<128>, 4, 2>,
        published_spread_128_4x2_u64_u32: Lists<Published<u64, u32>, Spread<128>, 4, 2>,
    }
    #[cfg(feature = "variants")]
    types {
        // Contiguous pools.
        light_128_4x4_u32_u32: Lists<Packed, Light<128>, 4, 4>,
        light_128_4x2_u64_u64: Lists<Wide<u64, u64>, Light<128>, 4, 2>,
        light_128_4x8_u32: Lists<Bare<u32>, Light<128>, 4, 8>,
        // Other tile and slab sizes.
        spread_128_2x8_u32_u32: Lists<Packed, Spread<128>, 2, 8>,
        spread_128_8x2_u32_u32: Lists<Packed, Spread<128>, 8, 2>,
        spread_128_16x1_u32_u32: Lists<Packed, Spread<128>, 16, 1>,
        spread_256_8x4_u32_u32: Lists<Packed, Spread<256>, 8, 4>,
        spread_256_32x1_u32_u32: Lists<Packed, Spread<256>, 32, 1>,
        spread_128_32x1_u32: Lists<Bare<u32>, Spread<128>, 32, 1>,
    }
    kernels {
        Insert, InsertNew, Get, ContainsKey, Remove, Take, Replace, Upsert, GetOrInsert, Mixed, Export,
        Rehash,
        RetainBetween, SketchAbsent, Append, AppendAll, MixedOfMany, ContainsKeyOfMany, RemoveOne, Count,
        Collect, RemoveAll, Flush, Inspect,
    }
    visitor: super::lists::Config
}

/// The kinds whose kernels only read, while nothing writes: read-only views of the kinds of the same names
/// without `phased`.
pub mod phased {
    use super::super::lists::Lists;
    use crate::keyed::kernels::{ContainsKey, Get};
    use crate::keyed::{Packed, Wide};
    use crate::slab::{Phased, Spread};
    use simt::instances;

    instances! {
        types {
            phased_spread_128_4x4_u32_u32: Lists<Packed, Phased<Spread<128>>, 4, 4>,
            phased_spread_128_4x2_u64_u64: Lists<Wide<u64, u64>, Phased<Spread<128>>, 4, 2>,
            phased_spread_128_4x2_u32_u64: Lists<Wide<u32, u64>, Phased<Spread<128>>, 4, 2>,
            phased_spread_128_4x2_u64_u32: Lists<Wide<u64, u32>, Phased<Spread<128>>, 4, 2>,
        }
        kernels { Get, ContainsKey }
        visitor: super::super::lists::ReadOnly
    }
}

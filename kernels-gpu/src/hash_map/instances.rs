//! The kinds of table that are compiled. A new variant is one line here.
#[cfg(feature = "variants")]
use super::probing_scheme::TwoChoice;
use super::probing_scheme::{DoubleHash, Hinted};
use super::table::Table;
use crate::keyed::{Packed, Published, Wide};

crate::table_instances! {
    types {
        // Names: `published` or nothing, scheme and filter bits, bytes per bucket, lanes x slots per lane,
        // bits of key and value. First the defaults.
        hinted8_64_2x4_u32_u32: Table<Packed, Hinted<8>, 2, 4>,
        double_64_2x2_u64_u64: Table<Wide<u64, u64>, DoubleHash, 2, 2>,
        double_64_2x2_u32_u64: Table<Wide<u32, u64>, DoubleHash, 2, 2>,
        double_64_2x2_u64_u32: Table<Wide<u64, u32>, DoubleHash, 2, 2>,
        // The defaults on devices without a 16-byte compare-and-swap.
        published_double_64_2x2_u64_u64: Table<Published<u64, u64>, DoubleHash, 2, 2>,
        published_double_64_2x2_u32_u64: Table<Published<u32, u64>, DoubleHash, 2, 2>,
        published_double_64_2x2_u64_u32: Table<Published<u64, u32>, DoubleHash, 2, 2>,
    }
    #[cfg(feature = "variants")]
    types {
        // Filters with other bucket and tile sizes.
        hinted16_64_2x4_u32_u32: Table<Packed, Hinted<16>, 2, 4>,
        hinted32_64_2x4_u32_u32: Table<Packed, Hinted<32>, 2, 4>,
        hinted16_32_1x4_u32_u32: Table<Packed, Hinted<16>, 1, 4>,
        hinted16_64_4x2_u32_u32: Table<Packed, Hinted<16>, 4, 2>,
        hinted16_128_4x4_u32_u32: Table<Packed, Hinted<16>, 4, 4>,
        hinted16_128_8x2_u32_u32: Table<Packed, Hinted<16>, 8, 2>,
        hinted16_128_16x1_u32_u32: Table<Packed, Hinted<16>, 16, 1>,
        hinted16_256_32x1_u32_u32: Table<Packed, Hinted<16>, 32, 1>,
        hinted16_64_2x2_u64_u64: Table<Wide<u64, u64>, Hinted<16>, 2, 2>,
        hinted16_128_4x2_u64_u64: Table<Wide<u64, u64>, Hinted<16>, 4, 2>,
        // Other schemes.
        double_64_2x4_u32_u32: Table<Packed, DoubleHash, 2, 4>,
        double_32_1x4_u32_u32: Table<Packed, DoubleHash, 1, 4>,
        double_128_4x4_u32_u32: Table<Packed, DoubleHash, 4, 4>,
        choice_64_2x4_u32_u32: Table<Packed, TwoChoice, 2, 4>,
        choice_128_4x4_u32_u32: Table<Packed, TwoChoice, 4, 4>,
        choice_128_4x2_u64_u64: Table<Wide<u64, u64>, TwoChoice, 4, 2>,
    }
}

/// The kinds whose kernels only read, while nothing writes: read-only views of the kinds of the same names
/// without `phased`.
pub mod phased {
    use super::super::probing_scheme::{DoubleHash, Hinted, Phased};
    use super::super::table::Table;
    use crate::keyed::kernels::{ContainsKey, Get};
    use crate::keyed::{Packed, Wide};
    use simt::instances;

    instances! {
        types {
            phased_hinted8_64_2x4_u32_u32: Table<Packed, Phased<Hinted<8>>, 2, 4>,
            phased_double_64_2x2_u64_u64: Table<Wide<u64, u64>, Phased<DoubleHash>, 2, 2>,
            phased_double_64_2x2_u32_u64: Table<Wide<u32, u64>, Phased<DoubleHash>, 2, 2>,
            phased_double_64_2x2_u64_u32: Table<Wide<u64, u32>, Phased<DoubleHash>, 2, 2>,
        }
        kernels { Get, ContainsKey }
        visitor: super::super::table::ReadOnly
    }
}

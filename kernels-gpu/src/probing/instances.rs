//! The kinds of table that are compiled. A researcher's variant is one line here.
use super::kernels::{Apply, ContainsKey, Export, Get, Insert, InsertNew, Mixed, Rehash, Remove, RetainBetween};
use super::map::{Table, Visitor};
use super::probe::{DoubleHash, Hinted, TwoChoice};
use super::slot::{Packed, Published, Wide};
use simt::instances;

instances! {
    types {
        // Names: scheme (and filter bits), bytes a bucket, lanes x slots a lane, key and value bits.
        // The defaults.
        hinted8_64_2x4_u32_u32: Table<Packed, Hinted<8>, 2, 4>,
        hinted8_64_2x2_u64_u64: Table<Wide<u64, u64>, Hinted<8>, 2, 2>,
        hinted8_64_2x2_u32_u64: Table<Wide<u32, u64>, Hinted<8>, 2, 2>,
        hinted8_64_2x2_u64_u32: Table<Wide<u64, u32>, Hinted<8>, 2, 2>,
        // Where a pair of 16 bytes cannot be swapped at once.
        published8_64_2x2_u64_u64: Table<Published<u64, u64>, Hinted<8>, 2, 2>,
        published8_64_2x2_u32_u64: Table<Published<u32, u64>, Hinted<8>, 2, 2>,
        published8_64_2x2_u64_u32: Table<Published<u64, u32>, Hinted<8>, 2, 2>,
        // Whole lines and other tiles.
        hinted16_128_4x4_u32_u32: Table<Packed, Hinted<16>, 4, 4>,
        hinted16_128_8x2_u32_u32: Table<Packed, Hinted<16>, 8, 2>,
        hinted16_128_16x1_u32_u32: Table<Packed, Hinted<16>, 16, 1>,
        hinted16_256_32x1_u32_u32: Table<Packed, Hinted<16>, 32, 1>,
        hinted16_128_4x2_u64_u64: Table<Wide<u64, u64>, Hinted<16>, 4, 2>,
        // Other schemes.
        double_64_2x4_u32_u32: Table<Packed, DoubleHash, 2, 4>,
        double_32_1x4_u32_u32: Table<Packed, DoubleHash, 1, 4>,
        double_64_2x2_u64_u64: Table<Wide<u64, u64>, DoubleHash, 2, 2>,
        choice_64_2x4_u32_u32: Table<Packed, TwoChoice, 2, 4>,
        choice_128_4x4_u32_u32: Table<Packed, TwoChoice, 4, 4>,
        choice_128_4x2_u64_u64: Table<Wide<u64, u64>, TwoChoice, 4, 2>,
    }
    kernels { Insert, InsertNew, Get, ContainsKey, Remove, Apply, Mixed, Export, Rehash, RetainBetween }
    visitor { Visitor }
}

//! The kinds of table that are compiled. A researcher's variant is one line here.
use super::kernels::{Apply, ContainsKey, Export, Get, Insert, InsertNew, Mixed, Rehash, Remove, RetainBetween};
use super::map::Table;
use super::probe::{DoubleHash, Hinted, TwoChoice};
use super::slot::{Packed, Published, Wide};
use simt::instances;

type W64 = Wide<u64, u64>;
type P64 = Published<u64, u64>;

instances! {
    types {
        // Names: scheme and filter bits, bytes a bucket, lanes x slots a lane, key and value bits.
        hinted16_64_2x4_u32_u32: Table<Packed, Hinted<16>, 2, 4>,
        hinted16_64_2x2_u64_u64: Table<W64, Hinted<16>, 2, 2>,
    }
    kernels { Insert, InsertNew, Get, ContainsKey, Remove, Apply, Mixed, Export, Rehash, RetainBetween }
}

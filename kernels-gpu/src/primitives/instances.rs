//! The types that the primitives are compiled for. A variant of a tile is a line here; the first of its types is the one that is taken.

/// Passes of radix sorts: `key_value`, then threads and elements a thread.
pub mod passes {
    use crate::primitives::sort::{Radix, RadixPass};
    simt::instances! {
        types {
            u32_0_384x21: Radix<u32, (), 384, 21>,
            u32_4_384x19: Radix<u32, u32, 384, 19>,
            u32_8_384x12: Radix<u32, u64, 384, 12>,
            u32_16_256x11: Radix<u32, u128, 256, 11>,
            u64_0_384x12: Radix<u64, (), 384, 12>,
            u64_4_384x12: Radix<u64, u32, 384, 12>,
            u64_8_384x12: Radix<u64, u64, 384, 12>,
            u64_16_256x11: Radix<u64, u128, 256, 11>,
            u32_4_256x23: Radix<u32, u32, 256, 23>,
            u32_4_512x15: Radix<u32, u32, 512, 15>,
            u32_4_384x19_match: Radix<u32, u32, 384, 19, true>,
            u64_0_256x16: Radix<u64, (), 256, 16>,
            u64_0_384x15: Radix<u64, (), 384, 15>,
        }
        kernels { RadixPass }
    }
}

/// Keys whose digits are counted.
pub mod keys {
    use crate::primitives::sort::{Keys, RadixHistograms};
    simt::instances! {
        types { u32: Keys<u32>, u64: Keys<u64> }
        kernels { RadixHistograms }
    }
}

/// Words that are copied and gathered.
pub mod moved {
    use crate::primitives::words::{CopyWords, GatherWords, Words};
    simt::instances! {
        types { u8: Words<u8>, u32: Words<u32>, u64: Words<u64>, u128: Words<u128> }
        kernels { CopyWords, GatherWords }
    }
}

//! The types that the primitives are compiled for. A variant of a tile is a line here; the first variant for
//! a type is the default.

/// Passes of radix sorts. Names: bits of the key, bytes of the value, threads x elements per thread.
pub mod passes {
    use crate::primitives::sort::{Radix, RadixPass};
    simt::instances! {
        types {
            u32_0_384x21: Radix<u32, (), 384, 21>,
            u32_4_384x19: Radix<u32, u32, 384, 19>,
            u32_8_384x12: Radix<u32, u64, 384, 12>,
            u32_16_256x11: Radix<u32, u128, 256, 11>,
            u64_0_256x16: Radix<u64, (), 256, 16>,
            u64_4_384x12: Radix<u64, u32, 384, 12>,
            u64_8_384x12: Radix<u64, u64, 384, 12>,
            u64_16_256x11: Radix<u64, u128, 256, 11>,
        }
        #[cfg(feature = "variants")]
        types {
            u32_4_256x23: Radix<u32, u32, 256, 23>,
            u32_4_512x15: Radix<u32, u32, 512, 15>,
            u32_4_384x19_match: Radix<u32, u32, 384, 19, true>,
            u64_0_384x12: Radix<u64, (), 384, 12>,
            u64_0_384x15: Radix<u64, (), 384, 15>,
            u32_0_64x3: Radix<u32, (), 64, 3>,
            u32_4_64x3: Radix<u32, u32, 64, 3>,
        }
        kernels { RadixPass }
        visitor: crate::primitives::sort::Plan
    }
}

/// Keys whose digits are counted.
pub mod keys {
    use crate::primitives::segments::long::{PutLong, TakeLong};
    use crate::primitives::sort::{Keys, RadixHistograms};
    simt::instances! {
        types { u32: Keys<u32>, u64: Keys<u64> }
        kernels { RadixHistograms, TakeLong, PutLong }
    }
}

/// Words that are copied and gathered.
pub mod moved {
    use crate::primitives::words::{CopyWords, GatherWords, Words};
    simt::instances! {
        types { u8: Words<u8>, u32: Words<u32>, u64: Words<u64>, u128: Words<u128> }
        kernels { CopyWords, GatherWords }
    }

    /// Words that are compacted, counted and merged: the same words except bytes, under the same names.
    pub mod ordered {
        use crate::primitives::analysis::AnalyzeBatch;
        use crate::primitives::compact::Compact;
        use crate::primitives::merge::Merge;
        use crate::primitives::reduce::BinWords;
        use crate::primitives::runs::MarkRuns;
        use crate::primitives::words::{Ordered, ReverseWords};
        simt::instances! {
            types { u32: Ordered<u32>, u64: Ordered<u64> }
            kernels { Compact, BinWords, MarkRuns, Merge, ReverseWords, AnalyzeBatch }
        }
    }
}

/// Scans.
pub mod scans {
    use crate::primitives::operator::{Max, Min, Sum};
    use crate::primitives::scan::{Scan, Vectors};
    simt::instances! {
        types {
            sum_u32_128x24_nap: Vectors<Sum<u32>, 128, 6, 4, false, 600>,
            sum_u64_512x8: Vectors<Sum<u64>, 512, 4, 2>,
            min_u32_128x24_nap: Vectors<Min<u32>, 128, 6, 4, false, 600>,
            min_u64_512x8: Vectors<Min<u64>, 512, 4, 2>,
            max_u32_128x24_nap: Vectors<Max<u32>, 128, 6, 4, false, 600>,
            max_u64_512x8: Vectors<Max<u64>, 512, 4, 2>,
        }
        #[cfg(feature = "variants")]
        types {
            sum_u32_256x16: Vectors<Sum<u32>, 256, 4, 4>,
            sum_u32_384x24: Vectors<Sum<u32>, 384, 6, 4>,
            sum_u32_512x16: Vectors<Sum<u32>, 512, 4, 4>,
            sum_u32_512x16_nap: Vectors<Sum<u32>, 512, 4, 4, false, 600>,
            sum_u32_256x16_ahead: Vectors<Sum<u32>, 256, 4, 4, true>,
            sum_u32_512x16_ahead: Vectors<Sum<u32>, 512, 4, 4, true>,
            sum_u32_256x16_ahead_nap: Vectors<Sum<u32>, 256, 4, 4, true, 300>,
            sum_u64_256x8: Vectors<Sum<u64>, 256, 4, 2>,
            sum_u64_512x6_ahead: Vectors<Sum<u64>, 512, 3, 2, true>,
            sum_u32_64x4: Vectors<Sum<u32>, 64, 1, 4>,
            sum_u64_64x2: Vectors<Sum<u64>, 64, 1, 2>,
            sum_u32_64x4_ahead: Vectors<Sum<u32>, 64, 1, 4, true>,
            sum_u64_64x2_ahead_nap: Vectors<Sum<u64>, 64, 1, 2, true, 20>,
        }
        kernels { Scan }
        visitor: crate::primitives::scan::ScanPlan
    }
}

/// Scans and sums of segments.
pub mod segmented {
    use crate::primitives::operator::{Max, Min, Sum};
    use crate::primitives::segments::scan::{ReduceSegments, ScanSegments, Segmented};
    simt::instances! {
        types {
            sum_u32_256x16: Segmented<Sum<u32>, 256, 4, 4>,
            sum_u64_256x8: Segmented<Sum<u64>, 256, 4, 2>,
            min_u32_256x16: Segmented<Min<u32>, 256, 4, 4>,
            min_u64_256x8: Segmented<Min<u64>, 256, 4, 2>,
            max_u32_256x16: Segmented<Max<u32>, 256, 4, 4>,
            max_u64_256x8: Segmented<Max<u64>, 256, 4, 2>,
        }
        #[cfg(feature = "variants")]
        types {
            sum_u32_64x4: Segmented<Sum<u32>, 64, 1, 4>,
            sum_u64_64x4: Segmented<Sum<u64>, 64, 2, 2>,
        }
        kernels { ScanSegments, ReduceSegments }
        visitor: crate::primitives::segments::scan::SegmentPlan
    }
}

/// Sorts of short segments.
pub mod windows {
    use crate::primitives::segments::short::{SortShortSegments, Window};
    simt::instances! {
        types {
            u32_384x8: Window<u32, 384, 8>,
            u64_384x8: Window<u64, 384, 8>,
        }
        #[cfg(feature = "variants")]
        types {
            u32_64x3: Window<u32, 64, 3>,
            u64_64x3: Window<u64, 64, 3>,
        }
        kernels { SortShortSegments }
        visitor: crate::primitives::segments::short::ShortPlan
    }
}

/// Reductions.
pub mod reductions {
    use crate::primitives::operator::{Max, Min, Sum};
    use crate::primitives::reduce::{By, Reduce, ReduceBegin};
    simt::instances! {
        types {
            sum_u32: By<Sum<u32>>, sum_u64: By<Sum<u64>>,
            min_u32: By<Min<u32>>, min_u64: By<Min<u64>>,
            max_u32: By<Max<u32>>, max_u64: By<Max<u64>>,
        }
        kernels { Reduce, ReduceBegin }
        visitor: crate::primitives::reduce::Reduced
    }
}

/// Reductions of runs.
pub mod runs {
    use crate::primitives::operator::{Max, Min, Sum};
    use crate::primitives::runs::{ReduceRuns, RunsOf};
    simt::instances! {
        types {
            u32_sum_u32: RunsOf<u32, Sum<u32>>, u32_sum_u64: RunsOf<u32, Sum<u64>>,
            u32_min_u32: RunsOf<u32, Min<u32>>, u32_min_u64: RunsOf<u32, Min<u64>>,
            u32_max_u32: RunsOf<u32, Max<u32>>, u32_max_u64: RunsOf<u32, Max<u64>>,
            u64_sum_u32: RunsOf<u64, Sum<u32>>, u64_sum_u64: RunsOf<u64, Sum<u64>>,
            u64_min_u32: RunsOf<u64, Min<u32>>, u64_min_u64: RunsOf<u64, Min<u64>>,
            u64_max_u32: RunsOf<u64, Max<u32>>, u64_max_u64: RunsOf<u64, Max<u64>>,
        }
        kernels { ReduceRuns }
        visitor: crate::primitives::runs::Runs
    }
}

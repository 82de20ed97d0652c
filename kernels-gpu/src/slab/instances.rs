//! The kinds of pool that are compiled. A new variant is one line here.
use super::kernels::{SlabAllocate, SlabAllocateLone, SlabFree, SlabFreeLone, SlabRetire};
use super::pool::{Light, Spread};
use crate::reclaim::kernels::DrainSlabs;
use simt::instances;

instances! {
    types {
        spread_128: Spread<128>,
        spread_256: Spread<256>,
        light_128: Light<128>,
        light_256: Light<256>,
    }
    kernels { SlabAllocate, SlabAllocateLone, SlabFree, SlabFreeLone, SlabRetire, DrainSlabs }
    visitor: super::pool::Pool
}

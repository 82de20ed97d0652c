//! Structures that can be measured. A new one is a file here and a line in [`all`].
use crate::engine::benchmark::{Machine, Structure};
use crate::machine::{DeviceChoice, Gpu};
use anyhow::Result;

pub mod ageing;
pub mod blocking;
pub mod both_widths;
pub mod btree;
pub mod bulk;
pub mod cache_table;
pub mod concurrent_mix;
pub mod device_malloc;
pub mod driver;
pub mod first_launch;
pub mod hash_map;
pub mod increments;
pub mod limits;
pub mod map_plan;
pub mod mv_soak;
pub mod mvbtree;
pub mod ordered;
pub mod patterns;
pub mod primitives;
pub mod resident_map;
pub mod segments;
pub mod sets;
pub mod skip_list;
pub mod slab_alloc;
pub mod slab_hash;
pub mod soak;
pub mod sorted_runs;
pub mod tiered_map;

/// Returns all structures for one device.
pub fn all(gpu: &Gpu) -> Vec<Box<dyn Structure + '_>> {
    vec![
        Box::new(limits::Limits(gpu)),
        Box::new(hash_map::Maps(gpu)),
        Box::new(slab_alloc::Pools(gpu)),
        Box::new(device_malloc::Heap(gpu)),
        Box::new(slab_hash::SlabMaps(gpu)),
        Box::new(sets::SlabSets(gpu)),
        Box::new(sets::ChainSets(gpu)),
        Box::new(btree::Trees(gpu)),
        Box::new(skip_list::Lists(gpu)),
        Box::new(mvbtree::VersionedTrees(gpu)),
        Box::new(cache_table::CacheTables(gpu)),
        Box::new(resident_map::Residents(gpu)),
        Box::new(tiered_map::TieredMaps::new(gpu)),
        Box::new(tiered_map::TieredMaps::lists(gpu)),
        Box::new(sorted_runs::Baseline::array(gpu)),
        Box::new(sorted_runs::Baseline::merge_tree(gpu)),
        Box::new(primitives::Sorts(gpu)),
        Box::new(primitives::Scans(gpu)),
        Box::new(segments::AllSegments(gpu)),
    ]
}

/// Opens the device and calls `use_it` with it and all structures.
///
/// # Errors
/// Returns [`anyhow::Error`] when the device is not available or `use_it` fails.
pub fn with_machine<T>(
    choice: DeviceChoice,
    use_it: impl FnOnce(&dyn Machine, &[Box<dyn Structure + '_>]) -> Result<T>,
) -> Result<T> {
    let gpu = Gpu::open(choice)?;
    use_it(&gpu, &all(&gpu))
}

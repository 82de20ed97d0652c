//! Structures that can be measured. A new one is a file here and a line in [`all`].
use crate::engine::benchmark::{Machine, Structure};
use crate::machine::{DeviceChoice, Gpu};
use anyhow::Result;

pub mod both_widths;
pub mod btree;
pub mod bulk;
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
pub mod primitives;
pub mod segments;
pub mod sets;
pub mod skip_list;
pub mod slab_alloc;
pub mod slab_hash;
pub mod soak;
pub mod sorted_runs;

/// Returns all structures for one device.
pub fn all(gpu: &Gpu) -> Vec<Box<dyn Structure + '_>> {
    vec![
        Box::new(limits::Limits::new(gpu)),
        Box::new(hash_map::Maps::new(gpu)),
        Box::new(slab_alloc::Pools::new(gpu)),
        Box::new(device_malloc::Heap::new(gpu)),
        Box::new(slab_hash::SlabMaps::new(gpu)),
        Box::new(sets::SlabSets::new(gpu)),
        Box::new(sets::ChainSets::new(gpu)),
        Box::new(btree::Trees::new(gpu)),
        Box::new(skip_list::Lists::new(gpu)),
        Box::new(mvbtree::VersionedTrees::new(gpu)),
        Box::new(sorted_runs::Baseline::array(gpu)),
        Box::new(sorted_runs::Baseline::merge_tree(gpu)),
        Box::new(primitives::Sorts::new(gpu)),
        Box::new(primitives::Scans::new(gpu)),
        Box::new(segments::AllSegments::new(gpu)),
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

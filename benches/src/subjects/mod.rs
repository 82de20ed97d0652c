//! Structures that can be measured. A new one is a file here and a line in [`all`].
use crate::engine::benchmark::{Machine, Structure};
use crate::machine::{DeviceChoice, Gpu};
use anyhow::Result;

pub mod ageing;
pub mod blocking;
pub mod both_widths;
#[cfg(feature = "trees")]
pub mod btree;
#[cfg(feature = "trees")]
pub mod bulk;
#[cfg(feature = "cache")]
pub mod cache_table;
#[cfg(feature = "trees")]
pub mod concurrent_mix;
pub mod device_malloc;
pub mod driver;
#[cfg(feature = "graph")]
pub mod edge_batch;
#[cfg(feature = "sharded")]
pub mod exchange;
pub mod first_launch;
#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "graph")]
pub mod graph_algorithms;
#[cfg(feature = "graph")]
pub mod graph_merge;
#[cfg(feature = "graph")]
pub mod graph_whole;
pub mod hash_map;
pub mod increments;
#[cfg(feature = "graph")]
mod inputs;
pub mod limits;
pub mod litmus;
pub mod map_plan;
#[cfg(feature = "trees")]
pub mod mv_soak;
#[cfg(feature = "trees")]
pub mod mvbtree;
#[cfg(feature = "trees")]
pub mod ordered;
pub mod patterns;
#[cfg(feature = "persistent")]
pub mod persistent_map;
#[cfg(feature = "trees")]
pub mod primitives;
#[cfg(feature = "tiered")]
pub mod resident_map;
#[cfg(feature = "trees")]
pub mod segments;
pub mod sets;
#[cfg(feature = "sharded")]
pub mod sharded_map;
#[cfg(feature = "sharded")]
pub mod sharded_partition;
#[cfg(feature = "trees")]
pub mod skip_list;
pub mod slab_alloc;
pub mod slab_hash;
pub mod slab_multi_map;
#[cfg(feature = "trees")]
pub mod soak;
#[cfg(feature = "trees")]
pub mod sorted_runs;
#[cfg(feature = "tiered")]
pub mod tiered_map;

/// Returns all structures for one device.
pub fn all(gpu: &Gpu) -> Vec<Box<dyn Structure + '_>> {
    vec![
        Box::new(limits::Limits(gpu)),
        Box::new(litmus::LitmusTests(gpu)),
        Box::new(hash_map::Maps(gpu)),
        Box::new(slab_alloc::Pools(gpu)),
        Box::new(device_malloc::Heap(gpu)),
        Box::new(slab_hash::SlabMaps(gpu)),
        Box::new(slab_multi_map::MultiMaps(gpu)),
        Box::new(sets::SlabSets(gpu)),
        Box::new(sets::ChainSets(gpu)),
        #[cfg(feature = "trees")]
        Box::new(btree::Trees(gpu)),
        #[cfg(feature = "trees")]
        Box::new(skip_list::Lists(gpu)),
        #[cfg(feature = "trees")]
        Box::new(mvbtree::VersionedTrees(gpu)),
        #[cfg(feature = "cache")]
        Box::new(cache_table::CacheTables(gpu)),
        #[cfg(feature = "tiered")]
        Box::new(resident_map::Residents(gpu)),
        #[cfg(feature = "tiered")]
        Box::new(tiered_map::TieredMaps::new(gpu)),
        #[cfg(feature = "tiered")]
        Box::new(tiered_map::TieredMaps::lists(gpu)),
        #[cfg(feature = "graph")]
        Box::new(graph::Graphs(gpu)),
        #[cfg(feature = "graph")]
        Box::new(graph_algorithms::Algorithms::new(gpu)),
        #[cfg(feature = "graph")]
        Box::new(graph_merge::Merges::new(gpu)),
        #[cfg(feature = "graph")]
        Box::new(graph_whole::Wholes::new(gpu)),
        #[cfg(feature = "sharded")]
        Box::new(exchange::Exchanges(gpu)),
        #[cfg(feature = "sharded")]
        Box::new(sharded_map::ShardedMaps(gpu)),
        #[cfg(feature = "sharded")]
        Box::new(sharded_partition::ShardedPartitions(gpu)),
        #[cfg(feature = "persistent")]
        Box::new(persistent_map::PersistentMaps(gpu)),
        #[cfg(feature = "trees")]
        Box::new(sorted_runs::Baseline::array(gpu)),
        #[cfg(feature = "trees")]
        Box::new(sorted_runs::Baseline::merge_tree(gpu)),
        #[cfg(feature = "trees")]
        Box::new(primitives::Sorts(gpu)),
        #[cfg(feature = "trees")]
        Box::new(primitives::Scans(gpu)),
        #[cfg(feature = "trees")]
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

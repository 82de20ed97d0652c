//! Large batches on ordered maps, which rebuild the map: compared with `std`'s map in the order of the batch,
//! with keys that occur several times and keys that the map has; and what prevents rebuilds.
mod common;
#[path = "large_batches/fixture.rs"]
mod fixture;
#[path = "large_batches/patterns.rs"]
mod patterns;
#[path = "large_batches/results.rs"]
mod results;
#[path = "large_batches/room.rs"]
mod room;
#[path = "large_batches/when.rs"]
mod when;

use phalanx_testing::kinds;

/// Declares tests of cases that need only a device.
macro_rules! common_cases {
    ($device:ident: $module:ident { $($case:ident)* }) => {$(
        #[test]
        fn $case() {
            if let Some(device) = crate::common::$device() {
                crate::$module::$case(&device);
            }
        }
    )*};
}

macro_rules! suite {
    ($device:ident) => {
        mod $device {
            suite! { $device: btree BTree, skip_list SkipList, mvbtree MultiVersionBTree }

            common_cases! { $device: when {
                snapshots_prevent_rebuilds
                views_prevent_rebuilds
                memory_tiers_and_assignments_prevent_rebuilds
                variants_that_sort_do_not_rebuild
                frozen_trees_are_rebuilt
            } }
        }
    };
    ($device:ident: $($module:ident $structure:ident),*) => {$(
        mod $module {
            phalanx_testing::cases! { crate, crate::common::$device, [first_of_one_size $structure]:
                results {
                    insertions_are_those_of_std
                    removals_are_those_of_std
                    old_values_are_those_of_std
                    buffers_have_the_same_results
                }
                patterns {
                    empty_maps_take_batches_in_any_order
                    batches_behind_all_keys_are_appended
                    appended_batches_follow_each_other
                }
                room {
                    batches_that_do_not_fit_are_refused_in_part
                    appends_that_do_not_fit_are_refused_in_part
                    fixed_pools_are_rebuilt_if_the_pairs_fit
                }
                when {
                    policies_and_orders_decide
                    threads_share_a_map
                }
            }
        }
    )*};
}

/// Cases that only the emulator supports.
mod on_the_emulator {
    mod btree {
        phalanx_testing::cases! { crate, crate::common::emulator, [first_of_one_size BTree]:
            room { batches_that_lack_memory_lose_nothing }
            when { ascending_batches_are_not_slower large_batches_make_few_calls }
        }
    }
    mod skip_list {
        phalanx_testing::cases! { crate, crate::common::emulator, [first_of_one_size SkipList]:
            room { batches_that_lack_memory_lose_nothing }
            when { ascending_batches_are_not_slower large_batches_make_few_calls }
        }
    }
    mod mvbtree {
        phalanx_testing::cases! { crate, crate::common::emulator, [first_of_one_size MultiVersionBTree]:
            room { batches_that_lack_memory_lose_nothing }
            when { ascending_batches_are_not_slower large_batches_make_few_calls }
        }
    }
}

suite!(emulator);
#[cfg(feature = "cuda")]
suite!(cuda);

//! Conformance of maps with `std::collections::HashMap`, for every variant of every map, on the emulator and
//! on CUDA (feature `cuda`). `PHALANX_REQUIRE_CUDA=1` makes skipped CUDA tests fail. `PHALANX_SEED` changes
//! the random choices.
#[path = "conformance/allocation_failures.rs"]
mod allocation_failures;
mod common;
#[path = "conformance/frozen.rs"]
mod frozen;
#[path = "conformance/frozen_lists.rs"]
mod frozen_lists;
#[path = "conformance/frozen_tables.rs"]
mod frozen_tables;
#[path = "conformance/layers.rs"]
mod layers;
#[path = "conformance/ordered.rs"]
mod ordered;
#[path = "conformance/room.rs"]
mod room;
#[path = "conformance/snapshots.rs"]
mod snapshots;
#[path = "conformance/walks.rs"]
mod walks;

use phalanx_testing::kinds;

macro_rules! suite {
    ($device:ident) => {
        mod $device {
            mod hash_map {
                phalanx_testing::every_map!(crate::common::$device, [each HashMap], [first HashMap]);
                phalanx_testing::hash_map_cases!(crate::common::$device, [each HashMap]);
                phalanx_testing::cases! { crate, crate::common::$device, [each HashMap]:
                    frozen_tables {
                        frozen_maps_are_read_by_kernels_of_their_own
                        frozen_maps_answer_as_others_do
                        lookups_in_frozen_maps_are_bounded_by_counts
                        what_was_frozen_is_written_again
                    }
                }
            }

            mod slab_hash {
                phalanx_testing::every_map!(crate::common::$device, [each SlabHash], [first SlabHash]);
                phalanx_testing::cases! { crate, crate::common::$device, [each SlabHash]:
                    frozen_lists {
                        frozen_maps_are_read_by_kernels_of_their_own
                        frozen_maps_answer_as_others_do
                        lookups_in_frozen_maps_are_bounded_by_counts
                        what_was_frozen_is_written_again
                    }
                }
            }

            mod btree {
                phalanx_testing::every_map!(crate::common::$device, [each BTree], [first BTree]);
                phalanx_testing::cases! { crate, crate::common::$device, [each BTree]:
                    ordered {
                        order_is_that_of_std
                        ranges_are_those_of_std
                        trees_are_built_at_once
                        trees_are_built_anew
                        buffers_are_answered_in_order
                        searches_are_bounded_by_counts
                        large_trees_have_many_levels
                        what_is_no_range_is_refused
                    }
                    frozen {
                        frozen_trees_are_read_by_kernels_of_their_own
                        frozen_trees_answer_as_others_do
                        frozen_trees_answer_buffers
                        lookups_in_frozen_trees_are_bounded_by_counts
                        frozen_trees_are_read_as_a_whole
                        what_is_read_no_longer_is_written_again
                    }
                    walks {
                        walks_read_a_node_a_level
                        trees_without_a_directory_grow
                    }
                }
                phalanx_testing::cases! { crate, crate::common::$device, [first_of_one_size BTree]:
                    room {
                        pools_that_cannot_grow_are_exchanged
                        trees_are_built_in_pools_that_are_large_enough
                        a_budget_is_kept_where_pools_cannot_grow
                        launches_find_the_room_that_was_reserved
                        thin_trees_are_built_anew_rather_than_refuse
                        pools_are_exchanged_for_what_the_budget_allows
                        windows_that_move_take_no_more_memory
                        room_is_made_of_what_was_removed
                    }
                }
            }

            mod skip_list {
                phalanx_testing::every_map!(crate::common::$device, [each SkipList], [first SkipList]);
                phalanx_testing::cases! { crate, crate::common::$device, [each SkipList]:
                    ordered {
                        order_is_that_of_std
                        ranges_are_those_of_std
                        trees_are_built_at_once
                        trees_are_built_anew
                        buffers_are_answered_in_order
                        searches_are_bounded_by_counts
                        large_trees_have_many_levels
                        what_is_no_range_is_refused
                    }
                    layers {
                        merged_nodes_are_given_back
                        an_index_is_in_order_after_merges
                        thin_lists_answer_as_others_do
                        keys_are_assigned_in_every_way
                        batches_are_bounded_however_keys_are_assigned
                        a_full_pool_is_no_loss
                        lists_in_few_slabs_are_put_in_order
                        data_lies_where_it_is_asked_to
                        nodes_with_gaps_take_in_what_merges
                        keys_are_assigned_in_blocks_of_any_length
                        lists_that_scans_empty_have_room
                        lists_give_back_what_scans_empty
                    }
                    room { windows_that_move_take_no_more_memory }
                }
                phalanx_testing::cases! { crate, crate::common::$device, [first SkipList]:
                    layers { what_is_done_is_counted }
                }
                phalanx_testing::cases! { crate, crate::common::$device, [first_of_one_size SkipList]:
                    room {
                        pools_that_cannot_grow_are_exchanged
                        trees_are_built_in_pools_that_are_large_enough
                    }
                }
            }

            mod mvbtree {
                phalanx_testing::every_map!(
                    crate::common::$device, [each MultiVersionBTree], [first MultiVersionBTree]
                );
                phalanx_testing::cases! { crate, crate::common::$device, [each MultiVersionBTree]:
                    snapshots {
                        snapshots_are_past_states
                        order_is_that_of_std_now_and_then
                        snapshots_are_taken_in_streams
                        what_is_dropped_is_freed
                        a_full_pool_refuses_and_loses_nothing
                        a_budget_that_is_used_up_refuses_and_loses_nothing
                        questions_can_be_asked_for_ever
                        a_question_keeps_nothing_once_it_is_answered
                        forgotten_snapshots_do_no_harm
                        room_for_versions_goes_by_the_kind
                        what_cannot_be_asked_is_refused
                        what_does_not_fit_is_refused
                        trees_are_built_and_cleared
                    }
                }
                phalanx_testing::cases! { crate, crate::common::$device, [each_of_one_size MultiVersionBTree]:
                    room {
                        calls_on_a_full_pool_end
                        pools_are_exchanged_where_no_snapshot_lives
                        trees_with_versions_are_built_in_pools_that_are_large_enough
                        trees_are_built_anew_where_no_snapshot_lives
                        windows_move_beside_questions
                    }
                }
            }
        }
    };
}

/// Cases that only the emulator supports.
mod without_memory {
    macro_rules! lacking {
        ($($module:ident $structure:ident { $($case:ident)* })*) => {$(
            mod $module {
                phalanx_testing::cases! { crate, crate::common::emulator, [first_of_one_size $structure]:
                    allocation_failures {
                        insertions_that_lack_memory_lose_nothing
                        removals_that_lack_memory_lose_nothing
                        scans_that_lack_memory_lose_nothing
                        fixed_maps_that_lack_memory_refuse
                        $($case)*
                    }
                }
            }
        )*};
    }
    lacking! {
        hash_map HashMap { tables_grow_later }
        slab_hash SlabHash {}
        btree BTree { trees_whose_building_lacks_memory_stay_as_they_were }
        skip_list SkipList {
            trees_whose_building_lacks_memory_stay_as_they_were
            nodes_are_given_back_later
        }
    }
    mod sorted {
        phalanx_testing::cases! { crate, crate::common::emulator, [each_of_one_size BTree]:
            allocation_failures { sorted_batches_that_lack_memory_lose_nothing }
        }
    }
    mod mvbtree {
        phalanx_testing::cases! { crate, crate::common::emulator, [each_of_one_size MultiVersionBTree]:
            allocation_failures {
                insertions_that_lack_memory_lose_nothing
                removals_that_lack_memory_lose_nothing
                scans_that_lack_memory_lose_nothing
                versions_are_freed_later
                trees_with_versions_stay_as_they_were
            }
        }
    }
}

suite!(emulator);
#[cfg(feature = "cuda")]
suite!(cuda);

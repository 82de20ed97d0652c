//! Conformance of maps with `std::collections::HashMap`, for every variant of every map, on the emulator and
//! on CUDA (feature `cuda`). `PHALANX_REQUIRE_CUDA=1` makes skipped CUDA tests fail. `PHALANX_SEED` changes
//! the random choices.
#[path = "conformance/allocation_failures.rs"]
mod allocation_failures;
#[path = "conformance/batches.rs"]
mod batches;
mod common;
#[path = "conformance/duplicates.rs"]
mod duplicates;
#[path = "conformance/files.rs"]
mod files;
#[path = "conformance/frozen.rs"]
mod frozen;
#[path = "conformance/kinds.rs"]
mod kinds;
#[path = "conformance/layers.rs"]
mod layers;
#[path = "conformance/limits.rs"]
mod limits;
#[path = "conformance/methods.rs"]
mod methods;
#[path = "conformance/moments.rs"]
mod moments;
#[path = "conformance/ordered.rs"]
mod ordered;
#[path = "conformance/room.rs"]
mod room;
#[path = "conformance/sequences.rs"]
mod sequences;
#[path = "conformance/walks.rs"]
mod walks;
#[path = "conformance/whole.rs"]
mod whole;

/// Declares tests of cases, each on the variants of a structure that `$of` selects.
macro_rules! cases {
    ($device:ident, $structure:ident, $of:ident: $($module:ident { $($case:ident)* })*) => {$($(
        #[test]
        fn $case() {
            if let Some(device) = crate::common::$device() {
                crate::kinds::$of::<phalanx::$structure<u32, u32>>(&device, crate::$module::$case);
                crate::kinds::$of::<phalanx::$structure<u32, u64>>(&device, crate::$module::$case);
                crate::kinds::$of::<phalanx::$structure<u64, u32>>(&device, crate::$module::$case);
                crate::kinds::$of::<phalanx::$structure<u64, u64>>(&device, crate::$module::$case);
            }
        }
    )*)*};
}

/// Cases for every map.
macro_rules! every_map {
    ($device:ident, $structure:ident) => {
        cases! { $device, $structure, each:
            methods {
                every_method_answers_as_std_does
                empty_batches_answer_nothing
            }
            sequences {
                batches_on_a_fixed_map_agree_with_the_model
                batches_on_a_growing_map_agree_with_the_model
            }
            duplicates {
                of_equal_keys_one_is_inserted
                sums_over_equal_keys_are_exact
                of_equal_keys_one_is_removed
            }
            limits {
                every_pattern_is_a_key_and_a_value
            }
            whole {
                growth_keeps_everything
                ranges_are_retained
                predicates_are_retained
                cleared_maps_begin_anew
                threads_share_a_growing_map
                threads_each_see_their_own_keys
            }
            batches {
                buffers_and_streams_do_the_same
            }
            files {
                saved_maps_load
                every_map_reads_what_another_wrote
            }
        }
        cases! { $device, $structure, first:
            whole { pairs_are_listed_beside_insertions }
        }
    };
}

macro_rules! suite {
    ($device:ident) => {
        mod $device {
            mod hash_map {
                every_map!($device, HashMap);
                cases! { $device, HashMap, each:
                    limits {
                        a_full_table_refuses_and_loses_nothing
                        a_full_table_still_knows_the_topmost_keys
                        capacities_of_all_sizes_hold_what_they_say
                        capacity_is_reached_without_growing
                        a_crowded_table_doubles_rather_than_rehash_for_ever
                        removing_and_reinserting_goes_on_for_ever
                        a_fixed_table_comes_back_by_compaction
                        a_key_that_comes_and_goes_is_let_in_again
                    }
                    whole {
                        a_growing_table_keeps_its_measure
                        tables_are_resized
                        reserved_room_is_there
                        the_capacity_is_held_without_growing
                        a_table_that_gets_too_full_grows
                        threads_that_are_refused_together_grow_once
                    }
                    files {
                        a_loaded_map_has_the_capacity_asked_for
                        full_maps_load
                    }
                }
            }

            mod slab_hash {
                every_map!($device, SlabHash);
            }

            mod btree {
                every_map!($device, BTree);
                cases! { $device, BTree, each:
                    ordered {
                        order_is_that_of_std
                        ranges_are_those_of_std
                        trees_are_built_at_once
                        trees_are_built_anew
                        buffers_are_answered_in_order
                        large_trees_have_many_levels
                        what_is_no_range_is_refused
                    }
                    frozen {
                        frozen_trees_are_read_by_kernels_of_their_own
                        frozen_trees_answer_as_others_do
                        frozen_trees_answer_buffers
                        frozen_trees_are_read_as_a_whole
                        what_is_read_no_longer_is_written_again
                    }
                    walks {
                        walks_read_a_node_a_level
                        trees_without_a_directory_grow
                    }
                }
                cases! { $device, BTree, first:
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
                every_map!($device, SkipList);
                cases! { $device, SkipList, each:
                    ordered {
                        order_is_that_of_std
                        ranges_are_those_of_std
                        trees_are_built_at_once
                        trees_are_built_anew
                        buffers_are_answered_in_order
                        large_trees_have_many_levels
                        what_is_no_range_is_refused
                    }
                    layers {
                        merged_nodes_are_given_back
                        an_index_is_in_order_after_merges
                        thin_lists_answer_as_others_do
                        keys_are_assigned_in_every_way
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
                cases! { $device, SkipList, first:
                    layers { what_is_done_is_counted }
                    room {
                        pools_that_cannot_grow_are_exchanged
                        trees_are_built_in_pools_that_are_large_enough
                    }
                }
            }

            mod mvbtree {
                every_map!($device, MultiVersionBTree);
                cases! { $device, MultiVersionBTree, each:
                    moments {
                        snapshots_are_past_moments
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
                    room { calls_on_a_full_pool_end }
                }
                cases! { $device, MultiVersionBTree, each:
                    room {
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
                cases! { emulator, $structure, first:
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
        cases! { emulator, BTree, each:
            allocation_failures { sorted_batches_that_lack_memory_lose_nothing }
        }
    }
    mod mvbtree {
        cases! { emulator, MultiVersionBTree, each:
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

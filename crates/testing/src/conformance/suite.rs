//! The macros that declare conformance tests.

/// Runs a case on the kinds of map that `$on` selects: `[each Structure]` or `[first Structure]` of the
/// variants for each pair of key and value types, or `[table Type]`.
#[doc(hidden)]
#[macro_export]
macro_rules! case {
    ([$of:ident $structure:ident], $device:expr, $case:path) => {
        $crate::case!(@all $of $structure: (u32, u32) (u32, u64) (u64, u32) (u64, u64); $device, $case)
    };
    (@all table $of:ident: $(($key:ty, $value:ty))*; $device:expr, $case:path) => {
        $case(&$crate::kinds::table_kind::<$of>($device))
    };
    (@all $of:ident $structure:ident: $(($key:ty, $value:ty))*; $device:expr, $case:path) => {
        $($crate::kinds::$of::<$crate::phalanx::$structure<$key, $value>>($device, $case);)*
    };
}

/// Declares tests of cases in modules of `$root`, on the device that `$device()` returns.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($root:path, $device:path, $on:tt: $($module:ident { $($case:ident)* })*) => {$($(
        #[test]
        fn $case() {
            use $root as root;
            if let Some(device) = $device() {
                $crate::case!($on, &device, root::$module::$case);
            }
        }
    )*)*};
}

/// Declares tests of the cases for every map.
#[doc(hidden)]
#[macro_export]
macro_rules! every_map {
    ($device:path, $on:tt, $first:tt) => {
        $crate::cases! { $crate, $device, $on:
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
                of_equal_keys_one_is_taken
                values_of_equal_keys_are_replaced_once
                skewed_keys_are_inserted_once
                skewed_keys_get_one_value
                skewed_keys_are_merged
                batches_of_changing_skew_agree_with_the_model
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
            counts {
                batches_are_bounded_by_counts
            }
            files {
                saved_maps_load
                every_map_reads_what_another_wrote
            }
        }
        $crate::cases! { $crate, $device, $first:
            whole { pairs_are_listed_beside_insertions }
        }
    };
}

/// Declares tests of the cases for hash maps alone.
#[doc(hidden)]
#[macro_export]
macro_rules! hash_map_cases {
    ($device:path, $on:tt) => {
        $crate::cases! { $crate, $device, $on:
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
    };
}

/// Declares conformance tests of hash maps of the given kinds, on the emulator: a module of tests for each.
///
/// ```ignore
/// phalanx_testing::conformance_suite! { linear: Table<Packed, Linear<3>, 2, 4> }
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($($name:ident: $of:ty),* $(,)?) => {$(
        mod $name {
            use super::*;

            type Tested = $of;

            $crate::every_map!($crate::common::emulator, [table Tested], [table Tested]);
            $crate::hash_map_cases!($crate::common::emulator, [table Tested]);
        }
    )*};
}

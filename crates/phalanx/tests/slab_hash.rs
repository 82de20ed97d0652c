//! Operations of slab lists beyond those of every map (`conformance`): sets, multimaps, flush and rehash,
//! pools that fill up. On the emulator and on CUDA (feature `cuda`). `PHALANX_SEED` changes the random
//! choices.
#[path = "slab_hash/allocation_failures.rs"]
mod allocation_failures;
#[path = "slab_hash/bad_input.rs"]
mod bad_input;
mod common;
#[path = "slab_hash/flushes.rs"]
mod flushes;
#[path = "slab_hash/many.rs"]
mod many;
#[path = "slab_hash/room.rs"]
mod room;
#[path = "slab_hash/sets.rs"]
mod sets;

use gpu::Device;
use phalanx::map::Word;
use phalanx::slab_hash::{Builder, set_variants, variants};
use phalanx::{Error, SlabHash, SlabMultiMap, SlabSet};
pub use phalanx_testing::kinds::slots;

/// Returns builders of all variants that the device supports.
fn all<T>(device: &Device, names: Vec<&'static str>, runs: impl Fn(Builder<T>) -> bool) -> Vec<Builder<T>> {
    let builder = |name: &str| Builder::default().device(device).variant(name);
    let builders: Vec<_> =
        names.iter().filter(|name| runs(builder(name))).map(|name| builder(name)).collect();
    assert!(!builders.is_empty(), "there is a kind for every type");
    builders
}

/// Returns builders of all map variants for these types.
pub fn maps<K: Word, V: Word>(device: &Device) -> Vec<Builder<SlabHash<K, V>>> {
    all(device, variants::<K, V>(), |kind: Builder<SlabHash<K, V>>| {
        !matches!(kind.build(), Err(Error::NeedsWideSwap { .. }))
    })
}

/// Returns builders of all multimap variants for these types.
pub fn multi_maps<K: Word, V: Word>(device: &Device) -> Vec<Builder<SlabMultiMap<K, V>>> {
    all(device, variants::<K, V>(), |kind: Builder<SlabMultiMap<K, V>>| {
        !matches!(kind.build(), Err(Error::NeedsWideSwap { .. }))
    })
}

/// Returns builders of all set variants for this type.
pub fn sets<K: Word>(device: &Device) -> Vec<Builder<SlabSet<K>>> {
    all(device, set_variants::<K>(), |_| true)
}

macro_rules! suite {
    ($device:ident) => {
        common::cases_on! { $device:
            sets {
                sets_answer_as_std_does
                of_equal_keys_one_counts
                every_pattern_is_a_key_of_a_set
                sets_take_buffers
                batches_of_sets_are_bounded_by_counts
                saved_sets_load
            }
            many {
                values_agree_with_the_model
                equal_keys_in_a_batch_all_count
                a_key_has_values_beyond_a_slab
                maps_of_many_take_buffers
                batches_of_many_are_bounded_by_counts
                saved_maps_of_many_load
                threads_share_a_map_of_many
                keys_are_found_while_their_values_are_replaced
            }
            flushes {
                flushes_give_back_what_is_not_needed
                the_list_of_topmost_keys_is_packed
                sets_are_flushed
                rehashes_move_everything
                cleared_lists_have_no_slabs
            }
            room {
                a_fixed_pool_refuses_and_loses_nothing
                the_last_slab_serves_all_that_want_it
                a_budget_is_reached_and_kept
                pools_grow_as_they_must
                lists_have_the_utilisation_asked_for
                a_rehash_that_has_no_room_changes_nothing
                pools_that_cannot_grow_are_exchanged
                a_budget_is_kept_where_pools_cannot_grow
                rehashes_move_to_larger_pools
                pools_of_many_values_a_key_are_exchanged
            }
        }
    };
}

suite!(emulator);
#[cfg(feature = "cuda")]
suite!(cuda);

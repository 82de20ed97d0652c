//! Guarantees of `SlabAlloc` for every pool variant, on the emulator and on CUDA (feature `cuda`).
#[path = "slabs/bad_input.rs"]
mod bad_input;
#[path = "slabs/cases.rs"]
mod cases;
mod common;
#[path = "slabs/faults.rs"]
mod faults;
#[path = "slabs/model.rs"]
mod model;

use gpu::Device;
use phalanx::slab_alloc::{Builder, SlabAlloc};

/// Returns builders of all pool variants with `super_block` slabs per super block.
pub fn kinds(device: &Device, super_block: usize) -> Vec<Builder> {
    let kind = |light, bytes| {
        SlabAlloc::builder().device(device).super_block_slabs(super_block).light(light).slab_bytes(bytes)
    };
    [(false, 128), (true, 128), (false, 256), (true, 256)].map(|(light, bytes)| kind(light, bytes)).to_vec()
}

macro_rules! suite {
    ($device:ident) => {
        common::cases_on! { $device:
            cases {
                a_pool_gives_all_its_slabs_once
                slabs_of_a_full_pool_come_back
                batches_on_buffers_do_the_same
                nine_tenths_full_pools_give_what_is_left
                streams_share_a_pool
                names_say_what_the_kinds_are
            }
            model {
                sequences_agree_with_the_model
            }
        }
    };
}

suite!(emulator);
#[cfg(feature = "cuda")]
suite!(cuda);

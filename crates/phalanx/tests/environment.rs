//! An unavailable device in the environment variable. The process has no other test, because this one changes
//! the environment.
use gpu::DEVICE_VARIABLE;
use phalanx::{Error, HashMap, SlabAlloc, SlabHash, SlabMultiMap, SlabSet};

#[test]
fn no_structure_is_made_elsewhere_than_asked() {
    for (value, works) in [("emulator", true), ("auto", true), ("gpu", false), ("cuda:99", false)] {
        // SAFETY: this is the only test of the process, and no other thread reads the environment.
        unsafe { std::env::set_var(DEVICE_VARIABLE, value) };
        let made = [
            HashMap::<u32, u32>::with_capacity(10).map(drop),
            SlabAlloc::builder().super_block_slabs(32).build().map(drop),
            SlabHash::<u32, u32>::with_capacity(10).map(drop),
            SlabSet::<u32>::with_capacity(10).map(drop),
            SlabMultiMap::<u32, u32>::with_capacity(10).map(drop),
        ];
        for (index, made) in made.into_iter().enumerate() {
            assert_eq!(made.is_ok(), works, "{value}, structure {index}: {made:?}");
            assert!(works || matches!(made, Err(Error::Device(_))), "{value}");
        }
    }
}

//! The variants that builders select without a name. Their order in the lists of instances decides.
use gpu::Device;
use phalanx::mvbtree::Updates;
use phalanx::{BTree, HashMap, MultiVersionBTree, SkipList, SlabHash, SlabMultiMap, SlabSet};
use simt::emulator::Options;

/// Builds the structure and compares its variant with the expected name.
macro_rules! default {
    ($device:expr, $type:ty, $name:literal $(, $set:ident($value:expr))*) => {
        let built = <$type>::builder().device($device)$(.$set($value))*.build().unwrap();
        assert_eq!(built.variant(), $name, "{}", stringify!($type));
    };
}

#[test]
fn variants_are_the_fastest_that_run_on_the_device() {
    let device = &Device::emulator(Options { cas128: true, ..Options::default() });
    default!(device, HashMap<u32, u32>, "hinted8_64_2x4_u32_u32");
    default!(device, HashMap<u32, u64>, "double_64_2x2_u32_u64");
    default!(device, HashMap<u64, u32>, "double_64_2x2_u64_u32");
    default!(device, HashMap<u64, u64>, "double_64_2x2_u64_u64");
    default!(device, SlabHash<u32, u32>, "spread_128_4x4_u32_u32");
    default!(device, SlabHash<u64, u64>, "spread_128_4x2_u64_u64");
    default!(device, SlabMultiMap<u32, u64>, "spread_128_4x2_u32_u64");
    default!(device, SlabSet<u32>, "spread_128_4x8_u32");
    default!(device, SlabSet<u64>, "spread_128_4x4_u64");
    default!(device, BTree<u32, u32>, "tree_spread_128_4x4_u32_u32");
    default!(device, BTree<u64, u32>, "tree_spread_256_16x1_u64_u32");
    default!(device, MultiVersionBTree<u32, u32>, "mvtree_in_place_spread_128_4x4_u32_u32");
    default!(
        device,
        MultiVersionBTree<u64, u64>,
        "mvtree_out_of_place_spread_256_16x1_u64_u64",
        updates(Updates::OutOfPlace)
    );
    default!(device, SkipList<u32, u32>, "list_spread_128_8x2_u32_u32");
    default!(device, SkipList<u64, u64>, "list_spread_256_16x1_u64_u64");
}

#[test]
fn devices_without_a_wide_swap_have_variants_of_their_own() {
    let device = &Device::emulator(Options { cas128: false, ..Options::default() });
    default!(device, HashMap<u32, u32>, "hinted8_64_2x4_u32_u32");
    default!(device, HashMap<u32, u64>, "published_double_64_2x2_u32_u64");
    default!(device, HashMap<u64, u64>, "published_double_64_2x2_u64_u64");
    default!(device, SlabHash<u64, u32>, "published_spread_128_4x2_u64_u32");
    default!(device, SlabSet<u64>, "spread_128_4x4_u64");
    let error = BTree::<u64, u64>::builder().device(device).build().unwrap_err();
    assert!(error.to_string().contains("`tree_spread_256_16x1_u64_u64`"), "{error}");
}

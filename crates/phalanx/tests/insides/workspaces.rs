//! Workspaces that trees keep for the streams whose batches they sort.
use gpu::Device;
use phalanx::BTree;

/// Inserts a pair in each of `streams` streams, which are then dropped.
fn use_streams(tree: &BTree<u32, u32>, device: &Device, streams: u32) {
    for key in 0..streams {
        let (stream, pair) = (device.stream().unwrap(), device.from_slice(&[key]).unwrap());
        tree.on(&stream).insert(&pair, &pair, None).unwrap();
    }
}

/// A program may create a stream for each request.
#[test]
fn working_memory_does_not_grow_with_every_stream() {
    let device = Device::emulator(Default::default());
    let tree = BTree::<u32, u32>::builder().device(&device).capacity(1 << 14);
    let tree = tree.variant("tree_sorted_spread_128_4x4_u32_u32").build().unwrap();
    use_streams(&tree, &device, 40);
    let used = tree.memory_usage();
    use_streams(&tree, &device, 100);
    assert_eq!((tree.memory_usage(), tree.len().unwrap()), (used, 100));
}

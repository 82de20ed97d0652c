//! Frozen maps: views of them, and when they thaw.
use gpu::Device;
use phalanx::{BTree, Error, HashMap, SlabHash};
use phalanx_kernels::btree::{Concurrent, Phased, Tree};
use phalanx_kernels::hash_map::{self, DefaultTable, DoubleHash, Hinted, Table};
use phalanx_kernels::keyed::Packed;
use phalanx_kernels::slab::list::DefaultLists;
use phalanx_kernels::slab::{Light, Spread};

#[test]
fn views_are_of_the_kind_that_reads() {
    type Own<A> = Tree<Packed, Spread<128>, A, 4, 4>;
    let device = Device::emulator(Default::default());
    let mut tree = BTree::<u32, u32>::builder().device(&device).build().unwrap();
    let frozen = tree.frozen().unwrap();
    // SAFETY: no kernel uses these views.
    let views = unsafe { (frozen.view::<Own<Phased>>(), frozen.view::<Own<Concurrent>>()) };
    assert!(views.0.is_ok() && matches!(views.1, Err(Error::OtherVariant { .. })), "{views:?}");
    let light = BTree::<u32, u32>::builder().device(&device).variant("tree_light_128_4x4_u32_u32");
    let mut light = light.build().unwrap();
    let frozen = light.frozen().unwrap();
    // SAFETY: as above.
    unsafe { frozen.view::<Tree<Packed, Light<128>, Concurrent, 4, 4>>() }.unwrap();
}

/// A write thaws the tree and waits for readers once. Freezing an unchanged tree does not wait.
#[test]
fn trees_are_thawed_by_what_may_write() {
    let device = Device::emulator(Default::default());
    let mut tree = BTree::<u32, u32>::builder().device(&device).build().unwrap();
    assert!(!tree.is_frozen());
    tree.frozen().unwrap();
    assert!(tree.is_frozen());
    assert!(tree.insert(&[1], &[2]).unwrap().all_placed());
    assert!(!tree.is_frozen());
    assert_eq!(tree.frozen().unwrap().get(&[1]).unwrap(), [Some(2)]);
    assert_eq!(tree.frozen().unwrap().len().unwrap(), 1);
    assert!(tree.is_frozen());
    // SAFETY: no kernel uses the view.
    unsafe { tree.view::<Tree<Packed, Spread<128>, Concurrent, 4, 4>>() }.unwrap();
    assert!(!tree.is_frozen());
}

#[test]
fn views_of_frozen_tables_are_of_the_kind_that_reads() {
    type ReadOnly = Table<Packed, hash_map::Phased<Hinted<8>>, 2, 4>;
    let device = Device::emulator(Default::default());
    let mut map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
    let frozen = map.frozen().unwrap();
    // SAFETY: no kernel uses these views.
    let views = unsafe { (frozen.view::<ReadOnly>(), frozen.view::<DefaultTable>()) };
    assert!(views.0.is_ok() && matches!(views.1, Err(Error::OtherVariant { .. })), "{views:?}");
    let other = HashMap::<u32, u32>::builder().device(&device).variant("double_64_2x4_u32_u32");
    let mut other = other.build().unwrap();
    // SAFETY: as above.
    unsafe { other.frozen().unwrap().view::<Table<Packed, DoubleHash, 2, 4>>() }.unwrap();
}

#[test]
fn lists_are_thawed_by_what_may_write() {
    let device = Device::emulator(Default::default());
    let stream = device.stream().unwrap();
    let mut map = SlabHash::<u32, u32>::builder().device(&device).build().unwrap();
    assert!(!map.is_frozen());
    map.frozen().unwrap();
    assert_eq!((map.get(&[1]).unwrap(), map.is_frozen()), (vec![None], true), "a lookup writes nothing");
    assert!(map.insert(&[1], &[2]).unwrap().all_placed());
    assert!(!map.is_frozen());
    assert_eq!(map.frozen().unwrap().get(&[1]).unwrap(), [Some(2)]);
    // SAFETY: no kernel uses the view.
    unsafe { map.view::<DefaultLists>() }.unwrap();
    assert!(!map.is_frozen());
    map.frozen().unwrap();
    let keys = device.from_slice(&[1u32]).unwrap();
    let mut outcomes = device.zeroed::<u8>(1).unwrap();
    map.on(&stream).remove(&keys, &mut outcomes).unwrap();
    assert!(!map.is_frozen() && map.frozen().unwrap().is_empty().unwrap());
    // Calls on the whole map wait for the device themselves.
    map.rehash(30).unwrap();
    assert_eq!(map.frozen().unwrap().get(&[1]).unwrap(), [None]);
}

#[test]
fn tables_are_thawed_by_what_may_write() {
    let device = Device::emulator(Default::default());
    let stream = device.stream().unwrap();
    let mut map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
    assert!(!map.is_frozen());
    map.frozen().unwrap();
    assert!(map.is_frozen());
    assert_eq!(map.get(&[1]).unwrap(), [None]);
    assert!(map.is_frozen(), "a lookup writes nothing");
    assert!(map.insert(&[1], &[2]).unwrap().all_placed());
    assert!(!map.is_frozen());
    assert_eq!(map.frozen().unwrap().get(&[1]).unwrap(), [Some(2)]);
    // SAFETY: no kernel uses the view.
    unsafe { map.view::<DefaultTable>() }.unwrap();
    assert!(!map.is_frozen());
    map.frozen().unwrap();
    // SAFETY: no other stream uses the map.
    unsafe { map.clear_on(&stream) }.unwrap();
    assert!(!map.is_frozen());
    assert!(map.frozen().unwrap().is_empty().unwrap());
}

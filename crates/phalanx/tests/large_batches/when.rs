//! The choice between rebuilds and single operations.
use crate::fixture::{CROWD, LEN, Number, Ordered, filled, new_map, random};
use crate::kinds::{Kind, contents};
use gpu::{Device, Tier};
use phalanx::btree::LargeBatches;
use phalanx::kernels::btree::{Concurrent, Tree};
use phalanx::kernels::keyed::Packed;
use phalanx::kernels::slab::Spread;
use phalanx::skiplist::Assignment;
use phalanx::{BTree, MultiVersionBTree, SkipList};
use std::time::{Duration, Instant};

/// Inserts a batch into a new map with a policy that has `many` pairs. Returns whether the map was rebuilt.
fn rebuilds<M: Ordered>(kind: &Kind<M>, large: LargeBatches, many: u64, len: u64, order: Number) -> bool {
    let (map, mut model) = filled(kind, large, many);
    let (keys, values) = kind.columns((0..len).map(|n| (order(n), n)));
    assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
    model.extend(keys.into_iter().zip(values));
    assert!(contents(&map) == model, "{}", kind.name);
    map.rebuilds() > 0
}

pub fn policies_and_orders_decide<M: Ordered>(kind: &Kind<M>) {
    if !kind.is_main {
        return;
    }
    let default = LargeBatches::default();
    let is_rebuilt = |many, len, order| rebuilds(kind, default, many, len, order);
    let stays = |many, len, order| !is_rebuilt(many, len, order);
    assert!(!rebuilds(kind, LargeBatches::Concurrent, 10, CROWD, |n| n), "{}", kind.name);
    assert!(stays(10, CROWD - 1, |n| n), "{}: too small", kind.name);
    assert!(is_rebuilt(10, CROWD, |n| n) && is_rebuilt(6000, CROWD, |n| 3000 - n), "{}", kind.name);
    assert!(stays(10, CROWD, random), "{}: not in order", kind.name);
    assert!(is_rebuilt(10, LEN, random), "{}: large", kind.name);
    assert!(stays(30_000, LEN, random), "{}: too few for the map", kind.name);
    // The map has about eleven pairs between two of these keys.
    assert!(stays(20_000, CROWD, |n| n * 28), "{}: not crowded", kind.name);
}

pub fn snapshots_prevent_rebuilds(device: &Device) {
    let tree = MultiVersionBTree::<u32, u32>::builder().device(device).build().unwrap();
    let keys: Vec<u32> = (0..CROWD as u32).collect();
    assert!(tree.insert(&[7, 5000], &[1, 2]).unwrap().all_placed());
    let then = tree.snapshot().unwrap();
    assert!(tree.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(tree.rebuilds(), 0);
    assert_eq!(tree.at(&then).unwrap().iter().unwrap().collect::<Vec<_>>(), [(7, 1), (5000, 2)]);
    drop(then);
    // The first call after the snapshot frees its versions itself.
    assert!(tree.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(tree.rebuilds(), 1);
    assert_eq!(tree.versions().unwrap(), 0);
    let then = tree.snapshot().unwrap();
    tree.remove(&keys).unwrap();
    assert_eq!(tree.at(&then).unwrap().iter().unwrap().count(), keys.len() + 1);
    assert_eq!(tree.iter().unwrap().collect::<Vec<_>>(), [(5000, 2)]);
}

/// Kernels of the user may be launched at any time while a view is in use.
pub fn views_prevent_rebuilds(device: &Device) {
    type Variant = Tree<Packed, Spread<128>, Concurrent, 4, 4>;
    let mut tree = BTree::<u32, u32>::builder().device(device).build().unwrap();
    let keys: Vec<u32> = (0..CROWD as u32).collect();
    // SAFETY: no kernel takes the view.
    let _view = unsafe { tree.view::<Variant>().unwrap() };
    assert!(tree.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(tree.rebuilds(), 0);
    tree.clear().unwrap();
    assert!(tree.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(tree.rebuilds(), 1);
}

pub fn memory_tiers_and_assignments_prevent_rebuilds(device: &Device) {
    let keys: Vec<u32> = (0..CROWD as u32).collect();
    let builder = || SkipList::<u32, u32>::builder().device(device);
    let tiers = builder().variant("list_apart_spread_128_8x2_u32_u32").data_tier(Tier::Pinned);
    for builder in [tiers, builder().assignment(Assignment::Cyclic)] {
        let list = builder.build().unwrap();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        assert_eq!(list.rebuilds(), 0, "{}", list.variant());
    }
}

pub fn variants_that_sort_do_not_rebuild(device: &Device) {
    let builder = BTree::<u32, u32>::builder().device(device);
    let tree = builder.variant("tree_sorted_spread_128_4x4_u32_u32").build().unwrap();
    let keys: Vec<u32> = (0..CROWD as u32).collect();
    assert!(tree.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(tree.rebuilds(), 0);
}

pub fn frozen_trees_are_rebuilt(device: &Device) {
    let mut tree = BTree::<u32, u32>::builder().device(device).build().unwrap();
    let keys: Vec<u32> = (0..CROWD as u32).collect();
    for turn in 0..3 {
        assert_eq!(tree.frozen().unwrap().count(&[..]).unwrap(), [turn * CROWD]);
        let more: Vec<u32> = keys.iter().map(|key| key + turn as u32 * CROWD as u32).collect();
        assert!(tree.insert(&more, &keys).unwrap().all_placed());
        assert!(tree.rebuilds() == turn + 1 && !tree.is_frozen());
        assert_eq!(tree.frozen().unwrap().get(&more[3..5]).unwrap(), [Some(3), Some(4)]);
    }
}

/// Threads whose batches rebuild the map, and others whose batches do not.
pub fn threads_share_a_map<M: Ordered>(kind: &Kind<M>) {
    if !kind.is_main {
        return;
    }
    const TURNS: u64 = 4;
    let map = new_map(kind, LargeBatches::default());
    let insert = |first: u64, len: u64| {
        let (keys, values) = kind.columns((first..first + len).map(|n| (n, n)));
        assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
        keys
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || (0..TURNS).for_each(|turn| drop(insert((2 * turn + thread) * CROWD, CROWD))));
        }
        scope.spawn(|| {
            for turn in 0..5 * TURNS {
                let keys = insert((1 << 20) + turn * 8, 8);
                assert!(!map.contains_key(&keys).unwrap().contains(&false), "{}", kind.name);
                assert_eq!(map.remove(&keys[..2]).unwrap(), [true; 2], "{}", kind.name);
            }
        });
    });
    assert_eq!(contents(&map).len() as u64, 2 * TURNS * CROWD + 5 * TURNS * 6, "{}", kind.name);
}

/// Returns the time in which a batch is inserted into an empty map: the shortest of three.
fn time_of<M: Ordered>(kind: &Kind<M>, order: Number) -> Duration {
    let (keys, values) = kind.columns((0..CROWD).map(|n| (order(n), n)));
    let time = |_| {
        let map = new_map(kind, LargeBatches::default());
        let start = Instant::now();
        assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
        start.elapsed()
    };
    (0..3).map(time).min().expect("three times")
}

/// Tiles that insert neighbouring keys compete for one latch: ascending batches took 13 to 50 times as long
/// as those in random order.
pub fn ascending_batches_are_not_slower<M: Ordered>(kind: &Kind<M>) {
    let (ascending, random) = (time_of(kind, |n| n), time_of(kind, random));
    assert!(ascending <= 2 * random, "{}: {ascending:?}, in random order {random:?}", kind.name);
}

/// Large batches after the first one allocate nothing, and cause few launches and copies to the host.
pub fn large_batches_make_few_calls<M: Ordered>(kind: &Kind<M>) {
    if !kind.is_main {
        return;
    }
    let (device, stream) = (&kind.device, kind.device.stream().unwrap());
    let emulator = device.emulator_handle().expect("an emulator");
    let mut map = new_map(kind, LargeBatches::Rebuild);
    // Order, whether the map is empty before, launches, and reports that the host reads.
    let cases: [(&str, Number, bool, u64, u64); 4] = [
        ("ascending", |n| n, true, 2, 1),
        ("append", |n| LEN + n, false, 5, 2),
        ("descending", |n| LEN - n, true, 4, 1),
        // A pass for each byte of the keys.
        ("random", random, true, 9 + size_of::<M::Key>() as u64, 2),
    ];
    for is_warm in [false, true] {
        for (name, order, clears, launches, reports) in cases {
            let (keys, values) = kind.columns((0..LEN).map(|n| (order(n), n)));
            let keys = device.from_slice(&keys).unwrap();
            let values = device.from_slice(&values).unwrap();
            if clears {
                map.clear().unwrap();
            }
            let (rebuilds, before) = (map.rebuilds(), device.emulated_work().unwrap());
            emulator.fail_allocations_after(if is_warm { 0 } else { u64::MAX });
            map.on(&stream).insert(&keys, &values, None).unwrap();
            emulator.fail_allocations_after(u64::MAX);
            let after = device.emulated_work().unwrap();
            assert_eq!(map.rebuilds(), rebuilds + 1, "{}: {name}", kind.name);
            if is_warm {
                let found = (after.launches - before.launches, after.copies - before.copies);
                // The device fills each report's memory before.
                assert_eq!(found, (launches, 2 * reports), "{}: {name}", kind.name);
                assert!(after.waits - before.waits <= 2 + reports, "{}: {name}", kind.name);
            }
        }
    }
}

//! Ranges with swapped ends, and snapshots and queries of other trees.
use super::{Family, emulator, is_unchanged};
use phalanx::mvbtree::{MOST, Updates};
use phalanx::{BTree, Error, MultiVersionBTree, SkipList, SlabMultiMap, SlabSet};
use phalanx_testing::refuses;
use std::ops::Bound::{Excluded, Unbounded};

#[test]
#[allow(clippy::reversed_empty_ranges)] // the misuse
fn swapped_ranges_of_queries() {
    macro_rules! refuse {
        ($queries:expr) => {
            refuses!(
                $queries.count(&[1..=2, 2..=1]),
                Error::Range { .. },
                "from 2 to 1 has its ends swapped"
            );
            refuses!($queries.range(&[2..=1]), Error::Range { .. }, "from 2 to 1 has its ends swapped");
            refuses!($queries.range(&[u32::MAX..=0]), Error::Range { .. }, "ends swapped");
        };
    }
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::filled(&emulator());
            refuse!(map);
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
    refuse!(BTree::filled(&emulator()).frozen().unwrap());
    let tree = MultiVersionBTree::filled(&emulator());
    let snapshot = tree.snapshot().unwrap();
    refuse!(tree.at(&snapshot).unwrap());
}

/// Ranges that no key is in, since their ends exclude all keys, are empty.
#[test]
fn ranges_that_exclude_every_key() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::filled(&emulator());
            let ranges = [
                (Excluded(u32::MAX), Unbounded),
                (Unbounded, Excluded(0)),
                (Excluded(1), Excluded(2)),
            ];
            assert_eq!(map.count(&ranges).unwrap(), [0; 3]);
            assert_eq!(map.range(&ranges).unwrap(), [[]; 3] as [[(u32, u32); 0]; 3]);
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

/// Ranges on the device are not checked by the host: those with swapped ends are empty.
#[test]
fn swapped_ranges_on_the_device() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::filled(&emulator());
            let (device, stream) = (map.device().clone(), map.device().stream().unwrap());
            let [lows, highs] = [[2u32, 1], [1, 2]].map(|ends| device.from_slice(&ends).unwrap());
            let (mut keys, mut values) = (device.zeroed::<u32>(4).unwrap(), device.zeroed::<u32>(4).unwrap());
            let mut counts = device.filled::<u64>(2, 7).unwrap();
            map.ordered_on(&stream).count(&lows, &highs, &mut counts).unwrap();
            assert_eq!(counts.read().unwrap(), [0, 2]);
            map.ordered_on(&stream).range(&lows, &highs, 2, &mut keys, &mut values, &mut counts).unwrap();
            assert_eq!(counts.read().unwrap(), [0, 2]);
            assert_eq!(keys.read().unwrap(), [0, 0, 1, 2]);
            assert_eq!(values.read().unwrap(), [0, 0, 10, 20]);
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // the misuse
fn swapped_ranges_of_sets_and_multimaps() {
    let mut set = SlabSet::<u32>::builder().device(&emulator()).build().unwrap();
    set.try_extend([1, 2]).unwrap();
    refuses!(set.retain_keys(2..=1), Error::Range { .. }, "from 2 to 1 has its ends swapped");
    assert_eq!((set.len().unwrap(), set.contains_key(&[1, 2]).unwrap()), (2, vec![true; 2]));
    let mut many = SlabMultiMap::<u32, u32>::builder().device(&emulator()).build().unwrap();
    many.try_extend([(1, 10), (1, 11)]).unwrap();
    refuses!(many.retain_keys(2..=1), Error::Range { .. }, "ends swapped");
    refuses!(many.retain_values(u32::MAX..=0), Error::Range { .. }, "ends swapped");
    assert_eq!((many.len().unwrap(), many.count(&[1]).unwrap()), (2, vec![2]));
}

#[test]
fn queries_with_buffers_and_streams_of_another_device() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let (map, other) = ($family::filled(&emulator()), emulator());
            let [own, foreign] = [map.device(), &other].map(|device| device.from_slice(&[1u32]).unwrap());
            let mut counts = map.device().zeroed::<u64>(1).unwrap();
            let (stream, foreign_stream) = (map.device().default_stream(), other.default_stream());
            let count = map.ordered_on(&stream).count(&foreign, &own, &mut counts);
            refuses!(count, Error::OtherDevice { what: "lows", .. }, "map.device()");
            let count = map.ordered_on(&stream).count(&own, &foreign, &mut counts);
            refuses!(count, Error::OtherDevice { what: "highs", .. }, "map.device()");
            let count = map.ordered_on(&foreign_stream).count(&own, &own, &mut counts);
            refuses!(count, Error::OtherDevice { what: "stream", .. }, "map.device()");
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

#[test]
fn snapshots_of_another_tree() {
    let (tree, other) = (MultiVersionBTree::filled(&emulator()), MultiVersionBTree::filled(&emulator()));
    let snapshot = other.snapshot().unwrap();
    refuses!(tree.at(&snapshot), Error::OtherTree, "of another tree");
    assert_eq!(other.at(&snapshot).unwrap().get(&[1]).unwrap(), [Some(10)]);
    is_unchanged(&tree);
}

#[test]
fn snapshots_in_streams_that_cannot_take_them() {
    let in_place = MultiVersionBTree::<u32, u32>::builder().device(&emulator()).updates(Updates::InPlace);
    let in_place = in_place.build().unwrap();
    let stream = in_place.device().stream().unwrap();
    refuses!(in_place.snapshot_on(&stream), Error::ClockStands, "Updates::OutOfPlace");
    let moves = MultiVersionBTree::<u32, u32>::builder().device(&emulator()).updates(Updates::OutOfPlace);
    let moves = moves.build().unwrap();
    refuses!(moves.snapshot_on(&stream), Error::OtherDevice { what: "stream", .. }, "map.device()");
    for tree in [in_place, moves] {
        tree.try_extend([(1, 10), (2, 20)]).unwrap();
        is_unchanged(&tree);
    }
}

/// Snapshots that are never dropped keep their slots. The tree says so, and works except for new snapshots.
#[test]
fn snapshots_that_are_never_dropped() {
    for updates in [Updates::InPlace, Updates::OutOfPlace] {
        let tree = MultiVersionBTree::builder().device(&emulator()).updates(updates).build().unwrap();
        tree.try_extend([(1, 10), (2, 20)]).unwrap();
        (0..MOST).for_each(|_| std::mem::forget(tree.snapshot().unwrap()));
        refuses!(tree.snapshot(), Error::Snapshots { most: MOST }, "drop some");
        refuses!(tree.first(), Error::Snapshots { .. }, "drop some");
        is_unchanged(&tree);
        assert_eq!(tree.remove(&[1]).unwrap(), [true]);
        assert_eq!(tree.len().unwrap(), 1);
        tree.validate().unwrap();
    }
}

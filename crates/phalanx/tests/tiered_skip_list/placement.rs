//! Where the rule executes operations.
use crate::model::{Placement, device, least, small};
use crate::policies::traffic;

/// A list of 3 KiB costs as much as some 30 operations in place.
#[test]
fn the_rule_copies_only_lists_with_many_operations() {
    let few = traffic(Placement::ByCost, 8);
    assert_eq!(few.copied_in, 0);
    let many = traffic(Placement::ByCost, 4000);
    assert_eq!((many.on_device, many.in_place), (4000, 0));
}

/// Swaps of 16 bytes are not executed over the bus, whatever they cost elsewhere.
#[test]
fn lists_of_wide_pairs_are_changed_on_the_device() {
    let (narrow, wide) = (least(small::<u32, u32>(&device())), least(small::<u64, u64>(&device())));
    assert!(narrow.insert(&[1, 2], &[1, 2]).unwrap().all_placed());
    assert!(wide.insert(&[1, 2], &[1, 2]).unwrap().all_placed());
    let before = [narrow.traffic().in_place, wide.traffic().in_place];
    assert!(narrow.insert(&[3], &[3]).unwrap().all_placed() && wide.insert(&[3], &[3]).unwrap().all_placed());
    let after = [narrow.traffic().in_place, wide.traffic().in_place];
    assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 0]);
    assert_eq!(wide.get(&[3]).unwrap(), [Some(3)]);
}

/// Queries by key order are placed as batches are.
#[test]
fn ordered_queries_are_placed_by_the_rule() {
    for (placement, is_copied) in [(Placement::AlwaysCopy, true), (Placement::AlwaysInPlace, false)] {
        let list = least(small::<u32, u32>(&device()).placement(placement));
        let keys: Vec<u32> = (0..700).collect();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        let before = list.traffic();
        assert_eq!(list.successor(&keys).unwrap().into_iter().flatten().count(), 699);
        let after = list.traffic();
        assert_eq!(after.copied_in > before.copied_in, is_copied);
        assert_eq!(after.on_device > before.on_device, is_copied);
        assert_eq!(after.copied_out, before.copied_out);
    }
}

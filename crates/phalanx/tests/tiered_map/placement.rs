//! Where the rule executes operations.
use crate::model::Placement;
use crate::policies::traffic;

/// A shard of 2 KiB costs as much as some 20 operations in place.
#[test]
fn the_rule_copies_only_shards_with_many_operations() {
    let few = traffic(Placement::ByCost, 8);
    assert_eq!(few.copied_in, 0);
    let many = traffic(Placement::ByCost, 2000);
    assert_eq!((many.on_device, many.in_place), (2000, 0));
}

//! Budgets.
use crate::model::{PLACEMENTS, device, least, small};
use phalanx::tiered_skip_list::Placement;
use phalanx::{Error, TieredSkipList};

#[test]
fn every_budget_from_the_least_on_suffices() {
    let device = device();
    for placement in PLACEMENTS {
        let builder = small::<u32, u32>(&device).placement(placement);
        let needed = builder.min_budget().unwrap();
        let below = builder.clone().budget(needed - 1).build();
        assert!(matches!(below, Err(Error::DeviceBudget { asked, needed: all }) if asked + 1 == all));
        for more in [0, 1, 1000, 1 << 16, 1 << 20] {
            let list = builder.clone().budget(needed + more).build().unwrap();
            let keys: Vec<u32> = (0..900).collect();
            assert!(list.insert(&keys, &keys).unwrap().all_placed());
            assert!(list.get(&keys).unwrap().into_iter().eq(keys.iter().map(|&key| Some(key))));
            let (peak, budget) = (list.peak_device_bytes(), list.budget());
            assert!(peak <= budget && budget == needed + more && list.min_budget() == needed, "{peak}");
            assert!(list.device_bytes() <= peak);
        }
    }
}

#[test]
fn the_size_of_lists_follows_from_the_budget() {
    let device = device();
    let build =
        |budget| TieredSkipList::<u32, u32>::builder().device(&device).budget(budget).build().unwrap();
    let [least, large] =
        [TieredSkipList::<u32, u32>::builder().device(&device).min_budget().unwrap(), 256 << 20];
    let (small, large) = (build(least), build(large));
    assert!(small.list_capacity() < large.list_capacity());
    assert!(large.list_capacity() < (256 << 20) / 48 / 8, "48 lists fit the budget");
    assert!(large.device_bytes() > 200 << 20, "the budget is used");
}

/// A list that is much larger than its budget.
#[test]
fn ten_times_the_budget() {
    let list = least(small::<u64, u64>(&device()).placement(Placement::AlwaysCopy));
    let keys: Vec<u64> = (0..8000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    for part in keys.chunks(2000) {
        assert!(list.insert(part, part).unwrap().all_placed());
    }
    assert!(list.get(&keys).unwrap().into_iter().eq(keys.iter().map(|&key| Some(key))));
    assert!(list.host_bytes() > 2 * list.budget() && list.peak_device_bytes() <= list.budget());
}

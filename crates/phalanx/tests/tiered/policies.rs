//! Where lookups are executed under each policy.
use crate::model::{Placement, Traffic, device, least, small};

/// Returns what a batch of lookups of `len` keys costs, on a map with 700 pairs.
pub fn traffic(placement: Placement, len: u32) -> Traffic {
    let map = least(small::<u32, u32>(&device()).placement(placement));
    let keys: Vec<u32> = (0..700).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let before = map.traffic();
    let asked: Vec<u32> = (0..len).map(|number| number * 7 % 1400).collect();
    let found = map.get(&asked).unwrap();
    assert!(found.iter().zip(&asked).all(|(value, &key)| *value == (key < 700).then_some(key)));
    let after = map.traffic();
    let mut spent = after;
    spent.copied_in -= before.copied_in;
    spent.copied_out -= before.copied_out;
    spent.on_device -= before.on_device;
    spent.in_place -= before.in_place;
    spent
}

#[test]
fn fixed_policies() {
    for len in [1, 2000] {
        let copied = traffic(Placement::AlwaysCopy, len);
        assert_eq!((copied.on_device, copied.in_place), (u64::from(len), 0));
        for placement in [Placement::AlwaysInPlace, Placement::Remote, Placement::Managed] {
            let in_place = traffic(placement, len);
            assert_eq!((in_place.on_device, in_place.in_place), (0, u64::from(len)));
            assert_eq!((in_place.copied_in, in_place.copied_out), (0, 0));
        }
    }
}

#[test]
fn lookups_write_nothing_back() {
    for placement in [Placement::AlwaysCopy, Placement::ByCost] {
        assert_eq!(traffic(placement, 2000).copied_out, 0);
    }
}

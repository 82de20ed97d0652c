//! Exports in parts of all sizes, and with wrong counts.
use gpu::{Buffer, Device};
use phalanx::private::{by, of_count, on_device};
use phalanx::{BTree, HashMap, Map, SlabHash};
use std::collections::BTreeMap;

fn parts_make_the_whole(map: &(impl Map<Key = u32, Value = u64> + ?Sized)) {
    let keys: Vec<u32> = (0..150).map(|n| if n < 4 { u32::MAX - n } else { n * 7 }).collect();
    let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let expected: BTreeMap<_, _> = keys.into_iter().zip(values).collect();
    for threads in [1, 33, 256, usize::MAX / 2] {
        let (keys, values) = by(map.inner(), threads).unwrap();
        assert_eq!(keys.len(), expected.len(), "{threads} threads at a time");
        assert_eq!(keys.into_iter().zip(values).collect::<BTreeMap<_, _>>(), expected);
    }
    let (keys, values) = on_device(map.inner()).unwrap();
    whole_is(&keys, &values, &expected);
    for counted in [0, expected.len() - 1, expected.len() + 40] {
        let (keys, values) = of_count(map.inner(), |_| counted).unwrap();
        whole_is(&keys, &values, &expected);
    }
}

fn whole_is(keys: &Buffer<u32>, values: &Buffer<u64>, expected: &BTreeMap<u32, u64>) {
    assert_eq!((keys.len(), values.len()), (expected.len(), expected.len()));
    let pairs = keys.read().unwrap().into_iter().zip(values.read().unwrap());
    assert_eq!(&pairs.collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn parts_of_any_size_make_the_whole() {
    let device = Device::emulator(Default::default());
    parts_make_the_whole(&HashMap::builder().device(&device).capacity(200).build().unwrap());
    // A list with more pairs than its threads have space for.
    parts_make_the_whole(&SlabHash::builder().device(&device).buckets(1).build().unwrap());
    parts_make_the_whole(&BTree::builder().device(&device).build().unwrap());
}

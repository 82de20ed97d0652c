//! Arguments that are refused.
use crate::device;
use phalanx::{Error, PersistentMap};

#[test]
fn sizes_of_keys_and_values() {
    fn build<K: phalanx::persistent_map::Plain, V: phalanx::persistent_map::Plain>() -> Result<(), Error> {
        PersistentMap::<K, V>::builder().device(&device()).build().map(drop)
    }
    assert!(matches!(build::<u32, u64>(), Err(Error::ItemBytes { what: "keys", bytes: 4 })));
    assert!(matches!(build::<[u64; 3], u64>(), Err(Error::ItemBytes { what: "keys", bytes: 24 })));
    assert!(matches!(build::<u64, u32>(), Err(Error::ItemBytes { what: "values", bytes: 4 })));
    assert!(matches!(build::<u64, [u8; 9]>(), Err(Error::ItemBytes { what: "values", bytes: 9 })));
    assert!(matches!(build::<u64, [u32; 512]>(), Err(Error::ItemBytes { what: "values", bytes: 2048 })));
    assert!(build::<[u8; 16], [u8; 12]>().is_ok() && build::<[u8; 64], [u32; 256]>().is_ok());
}

#[test]
fn lengths_devices_and_names() {
    let map = PersistentMap::<u64, u64>::builder().device(&device()).build().unwrap();
    assert!(matches!(
        map.insert(&[1, 2], &[1]),
        Err(Error::Length { what: "values", expected: 2, found: 1 })
    ));
    assert!(matches!(map.update(&[1], &[]), Err(Error::Length { .. })));
    assert_eq!(map.insert(&[], &[]).unwrap().len(), 0);
    assert_eq!(map.get(&[]).unwrap(), []);
    let other = phalanx::Device::emulator(Default::default());
    let (keys, stream) = (other.from_slice(&[1u64]).unwrap(), map.device().stream().unwrap());
    assert!(matches!(map.on(&stream).remove(&keys, None), Err(Error::OtherDevice { what: "keys", .. })));
    let keys = map.device().from_slice(&[1u64]).unwrap();
    let foreign = other.stream().unwrap();
    assert!(matches!(map.on(&foreign).remove(&keys, None), Err(Error::OtherDevice { what: "stream", .. })));
    let mut short = map.device().zeroed::<u8>(0).unwrap();
    assert!(matches!(map.on(&stream).remove(&keys, &mut short), Err(Error::Length { .. })));
    let built = PersistentMap::<u64, u64>::builder().variant("none").device(&device()).build();
    assert!(matches!(built, Err(Error::UnknownVariant { .. })), "{built:?}");
    let built = PersistentMap::<u64, u64>::builder().capacity(0).device(&device()).build();
    assert!(matches!(built, Err(Error::ZeroCapacity)));
    assert!(matches!(map.sync(), Err(Error::NoFile)));
}

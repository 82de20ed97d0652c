//! Saved maps contain the encodings of their keys and values.
use crate::{Tested, contents, draw_pairs, emulator, for_every_type};
use gpu::Device;
use phalanx::{BTree, Error, HashMap, Key, SlabSet, Value};
use phalanx_testing::common::Rng;
use std::num::NonZero;

fn saved<K: Key, V: Value>(pairs: &[(K, V)]) -> Vec<u8> {
    let map = HashMap::<K, V>::builder().device(&emulator()).build().unwrap();
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().copied().unzip();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let mut bytes = Vec::new();
    map.save(&mut bytes).unwrap();
    bytes
}

fn load<K: Key, V: Value>(bytes: &[u8]) -> phalanx::Result<HashMap<K, V>> {
    HashMap::load(bytes, HashMap::builder().device(&emulator()))
}

fn round_trip<T: Tested>(device: &Device) {
    let (keys, values) = draw_pairs::<T>(&mut Rng::new(9), 30);
    let map = HashMap::<T, T>::builder().device(device).build().unwrap();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let mut bytes = Vec::new();
    map.save(&mut bytes).unwrap();
    let tree = BTree::<T, T>::load(&bytes[..], BTree::builder().device(device)).unwrap();
    assert_eq!(contents(&tree), contents(&map));
}

#[test]
fn maps_of_every_type_are_saved_and_loaded() {
    for_every_type!(round_trip(&emulator()));
}

/// Asserts that a file is refused because of the named types.
fn refused<K: Key, V: Value>(bytes: &[u8], found: &str, expected: &str) {
    let text = format!("of type `{found}`; expected `{expected}`");
    let error = load::<K, V>(bytes).unwrap_err();
    assert!(matches!(&error, Error::Format(what) if what.contains(&text)), "{error}");
}

#[test]
fn files_of_other_types_are_refused() {
    let signed = saved::<i32, u32>(&[(-1, 1)]);
    assert_eq!(load::<i32, u32>(&signed).unwrap().get(&[-1]).unwrap(), [Some(1)]);
    refused::<u32, u32>(&signed, "i32", "u32");
    refused::<f32, u32>(&signed, "i32", "f32");
    refused::<i32, f32>(&signed, "u32", "f32");
    refused::<i32, i32>(&saved::<i32, char>(&[(1, 'a')]), "char", "i32");
    let set = SlabSet::<i32>::builder().device(&emulator()).build().unwrap();
    assert!(set.insert(&[-1]).unwrap().all_placed());
    let mut bytes = Vec::new();
    set.save(&mut bytes).unwrap();
    assert!(SlabSet::<u32>::load(&bytes[..], SlabSet::builder()).is_err());
    assert!(load::<i32, u32>(&bytes).is_err());
}

/// Returns a map {7: 70} of words of 32 bits as version 1 wrote it, which had no names of types.
fn version_1() -> Vec<u8> {
    let mut bytes = b"PHXMAP\x01\x00".to_vec();
    bytes.extend([32u32, 32].map(u32::to_le_bytes).concat());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend([7u32, 70].map(u32::to_le_bytes).concat());
    bytes.extend(0x3cb6_47f2u32.to_le_bytes());
    bytes
}

#[test]
fn files_of_version_1_have_numbers() {
    assert_eq!(load::<u32, u32>(&version_1()).unwrap().get(&[7]).unwrap(), [Some(70)]);
    refused::<i32, u32>(&version_1(), "u32", "i32");
    refused::<u32, f32>(&version_1(), "u32", "f32");
    assert!(load::<u32, u64>(&version_1()).is_err());
}

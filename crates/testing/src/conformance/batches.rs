//! Batches on device buffers, in streams.
use crate::kinds::{Kind, Tested, contents};
use phalanx::{Merge, Outcome};
use phalanx_kernels::keyed::Scalar;

pub fn buffers_and_streams_do_the_same<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(200);
    let stream = kind.device.stream().unwrap();
    let on = map.on(&stream);
    let (keys, values) = kind.columns((0..100).map(|n| (n * 3, n)));
    let (k, v) = (kind.device.from_slice(&keys).unwrap(), kind.device.from_slice(&values).unwrap());
    let mut outcomes = kind.device.buffer::<u8>(100).unwrap();
    let mut results = kind.device.zeroed::<M::Value>(100).unwrap();
    let all = |outcome: Outcome| vec![outcome as u8; 100];

    on.insert(&k, &v, Some(&mut outcomes)).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Inserted), "{}", kind.name);
    let others = kind.device.from_slice(&[M::Value::from_u64(1); 100]).unwrap();
    on.insert(&k, &others, Some(&mut outcomes)).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Replaced), "{}", kind.name);
    on.get(&k, &mut results, &mut outcomes).unwrap();
    assert_eq!(results.read().unwrap(), others.read().unwrap(), "{}", kind.name);
    on.insert(&k, &v, None).unwrap();
    on.insert_new(&k, &v, Some(&mut outcomes)).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Found), "{}", kind.name);
    on.insert_new(&k, &v, None).unwrap();
    on.upsert(Merge::Add, &k, &v, None).unwrap();
    on.upsert(Merge::Add, &k, &v, Some(&mut outcomes)).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Replaced), "{}", kind.name);
    on.get(&k, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Found), "{}", kind.name);
    let tripled: Vec<M::Value> = (0..100).map(|n| M::Value::from_u64(n * 3)).collect();
    assert_eq!(results.read().unwrap(), tripled, "{}", kind.name);
    on.contains_key(&k, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Found), "{}", kind.name);
    on.get_or_insert(&k, &v, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Found), "{}", kind.name);
    assert_eq!(results.read().unwrap(), tripled, "{}", kind.name);
    assert_eq!(contents(&map), keys.iter().copied().zip(tripled.clone()).collect());

    mixed_operations_run(kind, &map, &k, &v);
    on.remove(&k, &mut outcomes).unwrap();
    let expected = (0..100).map(|n| (if n % 2 == 0 { Outcome::Absent } else { Outcome::Removed }) as u8);
    assert_eq!(outcomes.read().unwrap(), expected.collect::<Vec<_>>(), "{}", kind.name);
    assert!(contents(&map).is_empty(), "{}", kind.name);

    // These batches free no room of removed pairs, so the next ones get a map of their own.
    let map = kind.map(200);
    let on = map.on(&stream);
    on.get_or_insert(&k, &v, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Inserted), "{}", kind.name);
    assert_eq!(results.read().unwrap(), values, "{}", kind.name);
    let others = kind.device.from_slice(&tripled).unwrap();
    on.get_or_insert(&k, &others, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Found), "{}", kind.name);
    assert_eq!(results.read().unwrap(), values, "{}", kind.name);
    assert_eq!(contents(&map), keys.iter().copied().zip(values.clone()).collect());

    old_values_are_returned(kind, &map, &keys, &values);
}

/// Removes the pairs at even indices and looks up those at odd ones, in one batch on a map whose values are
/// three times `v`.
fn mixed_operations_run<M: Tested>(
    kind: &Kind<M>,
    map: &M,
    k: &gpu::Buffer<M::Key>,
    v: &gpu::Buffer<M::Value>,
) {
    let stream = kind.device.stream().unwrap();
    let mut outcomes = kind.device.buffer::<u8>(100).unwrap();
    let mut results = kind.device.zeroed::<M::Value>(100).unwrap();
    let codes: Vec<u8> = (0..100).map(|n| if n % 2 == 0 { 3 } else { 0 }).collect();
    let codes = kind.device.from_slice(&codes).unwrap();
    map.on(&stream).execute(&codes, k, v, &mut results, &mut outcomes).unwrap();
    let told = (0..100).map(|n| M::Value::from_u64(if n % 2 == 0 { n } else { n * 3 }));
    assert_eq!(results.read().unwrap(), told.collect::<Vec<_>>(), "{}", kind.name);
    let expected = (0..100).map(|n| (if n % 2 == 0 { Outcome::Removed } else { Outcome::Found }) as u8);
    assert_eq!(outcomes.read().unwrap(), expected.collect::<Vec<_>>(), "{}", kind.name);
}

/// Replaces the values of a map's keys in a stream, takes the pairs, and inserts them again.
fn old_values_are_returned<M: Tested>(kind: &Kind<M>, map: &M, keys: &[M::Key], values: &[M::Value]) {
    let stream = kind.device.stream().unwrap();
    let (on, device) = (map.on(&stream), &kind.device);
    let new: Vec<_> = (0..keys.len() as u64).map(|n| M::Value::from_u64(n * 3)).collect();
    let (k, v) = (device.from_slice(keys).unwrap(), device.from_slice(values).unwrap());
    let others = device.from_slice(&new).unwrap();
    let mut outcomes = device.buffer::<u8>(keys.len()).unwrap();
    let mut results = device.zeroed::<M::Value>(keys.len()).unwrap();
    let all = |outcome: Outcome| vec![outcome as u8; keys.len()];

    on.replace(&k, &others, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Replaced), "{}", kind.name);
    assert_eq!(results.read().unwrap(), values, "{}", kind.name);
    on.take(&k, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Removed), "{}", kind.name);
    assert_eq!(results.read().unwrap(), new, "{}", kind.name);
    on.replace(&k, &v, &mut results, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), all(Outcome::Inserted), "{}", kind.name);
    assert_eq!(contents(map), keys.iter().copied().zip(values.iter().copied()).collect());
}

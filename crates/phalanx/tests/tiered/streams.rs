//! Streams of batches, and several users.
use super::model::{Map, Progress, all_pairs, check, device, divided, least, small};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn batch(number: u32) -> (Vec<u32>, Vec<u32>) {
    (200 * number..200 * (number + 1)).map(|key| (key, key + 1)).unzip()
}

#[test]
fn all_batches_are_inserted_and_read() {
    let map = least(small::<u32, u32>(&device()));
    let mut calls = Vec::new();
    let done = map.insert_stream((0..6).map(batch), |progress| {
        calls.push(*progress);
        ControlFlow::Continue(())
    });
    let done = done.unwrap();
    assert_eq!((done.batches, done.elements, calls.len(), calls[5]), (6, 1200, 6, done));
    let mut read = BTreeMap::new();
    let sink = |keys: &[u32], values: Vec<Option<u32>>| {
        read.extend(keys.iter().copied().zip(values.into_iter().flatten()));
    };
    map.get_stream((0..6).map(|number| batch(number).0), sink, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(read, all_pairs(&map));
}

#[test]
fn an_iterator_or_callback_that_panics_leaves_the_batches_so_far() {
    let map = least(small::<u32, u32>(&device()));
    let panics = |number| if number == 3 { panic!("no more input") } else { batch(number) };
    let stream = || map.insert_stream((0..6).map(panics), |_| ControlFlow::Continue(()));
    assert!(catch_unwind(AssertUnwindSafe(stream)).is_err());
    let model: BTreeMap<u32, u32> =
        (0..3).map(batch).flat_map(|(keys, values)| keys.into_iter().zip(values)).collect();
    check(&map, &model, &[600]);
    let callback = |_: &_| panic!("the callback failed");
    assert!(catch_unwind(AssertUnwindSafe(|| map.insert_stream([batch(3)], callback))).is_err());
    assert_eq!(map.len(), 800);
}

#[test]
fn two_maps_and_two_threads_on_one_device() {
    let device = device();
    let maps = [0, 1].map(|_| least(small::<u32, u32>(&device)));
    std::thread::scope(|scope| {
        for (index, map) in maps.iter().enumerate() {
            for part in 0..2u32 {
                scope.spawn(move || {
                    let keys: Vec<u32> = (500 * part..500 * part + 400).collect();
                    let values = vec![index as u32; keys.len()];
                    assert!(map.insert(&keys, &values).unwrap().all_placed());
                    assert!(map.get(&keys).unwrap().iter().all(|&value| value == Some(index as u32)));
                });
            }
        }
    });
    assert!(maps.iter().all(|map: &Map<u32, u32>| map.len() == 800));
}

/// A stream that stopped between two batches goes on with a loaded map.
#[test]
fn stop_save_load_and_go_on() {
    let device = device();
    let map = least(small::<u32, u32>(&device));
    let all = |first: u32| (first..6).map(batch);
    let stop = |progress: &Progress| {
        if progress.batches == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(map.insert_stream(all(0), stop).unwrap().batches, 2);
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    let loaded = Map::load(&saved[..], divided(&device)).unwrap();
    assert_eq!(all_pairs::<u32, u32>(&loaded), all_pairs(&map));
    for map in [&map, &loaded] {
        map.insert_stream(all(2), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(map.len(), 1200);
    }
    assert_eq!(all_pairs(&loaded), all_pairs(&map));
    for end in [0, 5, saved.len() / 2, saved.len() - 1] {
        assert!(Map::<u32, u32>::load(&saved[..end], small(&device)).is_err());
    }
    saved[40] ^= 1;
    assert!(Map::<u32, u32>::load(&saved[..], small(&device)).is_err());
}

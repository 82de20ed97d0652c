//! Streams of batches, and several users.
use crate::model::{all_pairs, check, device, least, small};
use phalanx::TieredSkipList;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn batch(number: u32) -> (Vec<u32>, Vec<u32>) {
    (200 * number..200 * (number + 1)).map(|key| (key, key + 1)).unzip()
}

#[test]
fn all_batches_are_inserted_and_read() {
    let list = least(small::<u32, u32>(&device()));
    let mut calls = Vec::new();
    let done = list.insert_stream((0..6).map(batch), |progress| {
        calls.push(*progress);
        ControlFlow::Continue(())
    });
    let done = done.unwrap();
    assert_eq!((done.batches, done.elements, calls.len(), calls[5]), (6, 1200, 6, done));
    let mut read = BTreeMap::new();
    let sink = |keys: &[u32], values: Vec<Option<u32>>| {
        read.extend(keys.iter().copied().zip(values.into_iter().flatten()));
    };
    list.get_stream((0..6).map(|number| batch(number).0), sink, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(read, all_pairs(&list));
}

#[test]
fn an_iterator_or_callback_that_panics_leaves_the_batches_so_far() {
    let list = least(small::<u32, u32>(&device()));
    let panics = |number| if number == 3 { panic!("no more input") } else { batch(number) };
    let stream = || list.insert_stream((0..6).map(panics), |_| ControlFlow::Continue(()));
    assert!(catch_unwind(AssertUnwindSafe(stream)).is_err());
    let model: BTreeMap<u32, u32> =
        (0..3).map(batch).flat_map(|(keys, values)| keys.into_iter().zip(values)).collect();
    check(&list, &model, &[600]);
    let callback = |_: &_| panic!("the callback failed");
    assert!(catch_unwind(AssertUnwindSafe(|| list.insert_stream([batch(3)], callback))).is_err());
    assert_eq!(list.len(), 800);
}

#[test]
fn two_lists_and_two_threads_on_one_device() {
    let device = device();
    let lists = [0, 1].map(|_| least(small::<u32, u32>(&device)));
    std::thread::scope(|scope| {
        for (index, list) in lists.iter().enumerate() {
            for part in 0..2u32 {
                scope.spawn(move || {
                    let keys: Vec<u32> = (500 * part..500 * part + 400).collect();
                    let values = vec![index as u32; keys.len()];
                    assert!(list.insert(&keys, &values).unwrap().all_placed());
                    assert!(list.get(&keys).unwrap().iter().all(|&value| value == Some(index as u32)));
                });
            }
        }
    });
    assert!(lists.iter().all(|list: &TieredSkipList<u32, u32>| list.len() == 800));
}

/// A stream that stopped between two batches goes on with a loaded list.
#[test]
fn stop_save_load_and_go_on() {
    let device = device();
    let list = least(small::<u32, u32>(&device));
    let all = |first: u32| (first..6).map(batch);
    let stop = |progress: &phalanx::tiered_skip_list::Progress| {
        if progress.batches == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert_eq!(list.insert_stream(all(0), stop).unwrap().batches, 2);
    let mut saved = Vec::new();
    list.save(&mut saved).unwrap();
    let loaded = TieredSkipList::load(&saved[..], small(&device).list_capacity(60)).unwrap();
    assert_eq!(all_pairs::<u32, u32>(&loaded), all_pairs(&list));
    for list in [&list, &loaded] {
        list.insert_stream(all(2), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(list.len(), 1200);
    }
    assert_eq!(all_pairs(&loaded), all_pairs(&list));
    for end in [0, 5, saved.len() / 2, saved.len() - 1] {
        assert!(TieredSkipList::<u32, u32>::load(&saved[..end], small(&device)).is_err());
    }
    saved[40] ^= 1;
    assert!(TieredSkipList::<u32, u32>::load(&saved[..], small(&device)).is_err());
}

//! Syncs beside batches of other threads.
use crate::folder;
use phalanx::persistent_map::Storage;
use phalanx::{Device, PersistentMap};
use std::sync::Mutex;

/// A copy of the file after a sync has each pair that was complete before the sync began, with that value or
/// a later one, and no torn value.
#[test]
fn epochs_have_what_was_complete_before() {
    for storage in [Storage::Device, Storage::Pinned] {
        let (folder, device) = (folder(), Device::emulator(Default::default()));
        let (path, copy) = (folder.path().join("map"), folder.path().join("copy"));
        let builder =
            || PersistentMap::<u64, [u64; 3]>::builder().capacity(3000).storage(storage).device(&device);
        let map = builder().create(&path).unwrap();
        let keys: Vec<u64> = (0..500).collect();
        let values = |version: u64| keys.iter().map(|&key| [version, key, key ^ version]).collect::<Vec<_>>();
        let (complete, ends) = (Mutex::new(0u64), Mutex::new(false));
        assert!(map.insert(&keys, &values(0)).unwrap().all_placed());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut version = 1;
                while !*ends.lock().unwrap() {
                    assert!(map.insert(&keys, &values(version)).unwrap().all_placed());
                    // Keys that come and go, in slots that these keys leave.
                    let passing: Vec<u64> = (1000 + version * 50..1050 + version * 50).collect();
                    assert!(map.insert(&passing, &vec![[version, 0, 0]; 50]).unwrap().all_placed());
                    map.remove(&passing).unwrap();
                    *complete.lock().unwrap() = version;
                    version += 1;
                }
            });
            for epoch in 1..=12 {
                let before = *complete.lock().unwrap();
                assert_eq!(map.sync().unwrap().0, epoch);
                let after = *complete.lock().unwrap() + 1;
                std::fs::copy(&path, &copy).unwrap();
                let opened = builder().open(&copy).unwrap();
                opened.check().unwrap();
                for (&key, found) in keys.iter().zip(opened.get(&keys).unwrap()) {
                    let [version, of, mixed] = found.unwrap_or_else(|| panic!("key {key} is lost"));
                    assert!((before..=after).contains(&version), "{key}: {version}, {before}..={after}");
                    assert_eq!((of, mixed), (key, key ^ version), "a torn value");
                }
                drop(opened);
                std::fs::remove_file(&copy).unwrap();
            }
            *ends.lock().unwrap() = true;
        });
    }
}

/// Several threads may sync and grow the map at the same time.
#[test]
fn syncs_and_growth_of_several_threads() {
    let (folder, device) = (folder(), Device::emulator(Default::default()));
    let path = folder.path().join("map");
    let map = PersistentMap::<u64, u64>::builder().capacity(100).device(&device).create(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let map = &map;
            scope.spawn(move || {
                for part in 0..5 {
                    let keys: Vec<u64> = (0..200).map(|key| (thread * 5 + part) * 200 + key).collect();
                    assert!(map.insert(&keys, &keys).unwrap().all_placed());
                    map.sync().unwrap();
                }
            });
        }
    });
    map.check().unwrap();
    assert_eq!(map.len().unwrap(), 3000);
    let (len, epoch) = (map.len().unwrap(), map.epoch());
    drop(map);
    let map = PersistentMap::<u64, u64>::builder().device(&device).open(&path).unwrap();
    assert_eq!((map.len().unwrap(), map.epoch()), (len, epoch));
    map.check().unwrap();
}

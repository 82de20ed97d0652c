//! Calls in which one copy fails: the map is then as before, or the call is complete.
use crate::Scripted;
use gpu::Device;
use phalanx::mvbtree::Updates;
use phalanx::{BTree, HashMap, MultiVersionBTree, SkipList, SlabHash};
use phalanx_testing::common::{Rng, emulator};
use phalanx_testing::kinds::contents;
use std::collections::BTreeMap;

/// Number of pairs.
const PAIRS: u32 = 150;

/// Makes a call on values from `make`, of which the first copy fails, then the second, and so on, until there
/// are no more. `check` gets the value and the result of each call.
fn with_failing_copies<T, R>(
    device: &Device,
    make: impl Fn(&Device) -> T,
    call: impl Fn(&mut T) -> phalanx::Result<R>,
    check: impl Fn(T, phalanx::Result<R>),
) {
    let handle = device.emulator_handle().unwrap();
    for copies in 0.. {
        let mut value = make(device);
        handle.fail_copy(copies);
        let said = call(&mut value);
        let has_failed = handle.fail_copy(u64::MAX) == u64::MAX;
        assert!(has_failed || said.is_ok(), "copy {copies}: {:?}", said.err());
        check(value, said);
        if !has_failed {
            assert!(copies > 0, "no copy has failed");
            return;
        }
    }
}

/// Inserts the numbers below [`PAIRS`] with the value `round`.
fn insert<M: Scripted>(map: &M, round: u32) {
    let keys: Vec<u32> = (0..PAIRS).collect();
    assert!(map.insert(&keys, &vec![round; keys.len()]).unwrap().all_placed());
}

fn is_cleared_or_as_before<M: Scripted>() {
    let device = emulator().unwrap();
    let make = |device: &Device| {
        let map = M::build(M::random(device, &mut Rng::new(1))).unwrap();
        insert(&map, 5);
        map
    };
    let all: BTreeMap<u32, u32> = (0..PAIRS).map(|key| (key, 5)).collect();
    with_failing_copies(&device, make, M::clear, |mut map, said| {
        let now = contents(&map);
        assert!(now.is_empty() || said.is_err() && now == all, "{} pairs after {said:?}", now.len());
        insert(&map, 6);
        assert_eq!(contents(&map).len(), PAIRS as usize);
        map.clear().unwrap();
        assert_eq!(contents(&map).len(), 0);
    });
}

macro_rules! cleared_or_as_before {
    ($($test:ident: $map:ident;)*) => {
        $(
            #[test]
            fn $test() {
                is_cleared_or_as_before::<$map<u32, u32>>();
            }
        )*
    };
}
cleared_or_as_before! {
    a_hash_map_is_cleared_or_as_before: HashMap;
    a_slab_hash_is_cleared_or_as_before: SlabHash;
    a_btree_is_cleared_or_as_before: BTree;
    a_skip_list_is_cleared_or_as_before: SkipList;
    a_multi_version_btree_is_cleared_or_as_before: MultiVersionBTree;
}

/// Returns a tree with versions of a snapshot that was dropped, and perhaps of one that lives.
fn with_versions(device: &Device, updates: Updates, has_live: bool) -> MultiVersionBTree<u32, u32> {
    let builder = MultiVersionBTree::builder().device(device).updates(updates).capacity(4 * PAIRS as usize);
    let tree = builder.build().unwrap();
    insert(&tree, 0);
    let first = tree.snapshot().unwrap();
    insert(&tree, 1);
    if has_live {
        std::mem::forget(tree.snapshot().unwrap());
        insert(&tree, 2);
    }
    drop(first);
    tree
}

fn is_swept_in_the_end(updates: Updates, has_live: bool) {
    let device = emulator().unwrap();
    let make = |device: &Device| with_versions(device, updates, has_live);
    let drain = |tree: &mut MultiVersionBTree<u32, u32>| tree.drain();
    with_failing_copies(&device, make, drain, |tree, said| {
        assert!(!matches!(said, Ok(0)), "a snapshot was dropped");
        let before = contents(&tree);
        // A call that writes sweeps if a sweep is due.
        assert_eq!(tree.remove(&[PAIRS]).unwrap(), [false]);
        assert_eq!(tree.drain().unwrap(), 0, "{updates:?}, {has_live}: {said:?}");
        assert_eq!(tree.versions().unwrap() > 0, has_live);
        assert_eq!(contents(&tree), before);
        insert(&tree, 3);
        tree.validate().unwrap();
    });
}

#[test]
fn a_sweep_that_fails_is_complete_or_repeated() {
    for updates in [Updates::InPlace, Updates::OutOfPlace] {
        is_swept_in_the_end(updates, false);
        is_swept_in_the_end(updates, true);
    }
}

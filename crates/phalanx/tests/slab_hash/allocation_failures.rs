//! Injected allocation failures in sets and multimaps, at each of their allocations. On the emulator.
use crate::common::{attempts, emulator};
use phalanx::slab_hash::{Builder, MultiOp, SetOp, SlabMultiMap, SlabSet};
use phalanx::{Device, Error, Outcome, Outcomes, Result};
use std::collections::BTreeMap;

/// Number of keys: few buckets hold so many that the pool must grow.
const KEYS: u32 = 3000;

/// Returns a builder of a structure that must grow soon.
fn small<T>(device: &Device) -> Builder<T> {
    Builder::default().device(device).buckets(3).slabs(1)
}

/// Repeats calls with more successful allocations each time ([`attempts`]), until no allocation fails. Passes
/// the outcomes to `check`: those of the call, or refusals if it failed to allocate memory before it did
/// anything.
fn rationed<T>(
    make: impl Fn(&Device) -> T,
    call: impl Fn(&T) -> Result<Outcomes>,
    check: impl Fn(T, Outcomes),
) {
    let device = emulator().expect("there always is one");
    let failures = device.emulator_handle().expect("it is an emulator");
    for allocations in attempts(0) {
        let made = make(&device);
        failures.fail_allocations_after(allocations);
        let said = call(&made);
        let left = failures.fail_allocations_after(u64::MAX);
        let outcomes = match said {
            Err(Error::NoRoom { outcomes, .. }) => outcomes,
            Err(Error::Device(gpu::Error::OutOfMemory { .. })) => {
                vec![Outcome::Refused; KEYS as usize].into()
            }
            said => said.unwrap(),
        };
        check(made, outcomes);
        if left > 0 {
            assert!(allocations > 0, "it asks for some");
            return;
        }
    }
}

#[test]
fn sets_that_lack_memory_tell_what_they_did() {
    let keys: Vec<u32> = (0..KEYS).collect();
    let operations: Vec<_> = keys.iter().map(|&key| SetOp::Insert(key)).collect();
    let check = |set: SlabSet<u32>, outcomes: Outcomes| {
        let is_there: Vec<bool> = outcomes.iter().map(|&outcome| outcome == Outcome::Inserted).collect();
        assert_eq!(set.contains_key(&keys).unwrap(), is_there, "{outcomes:?}");
        set.validate().unwrap();
        let again = set.insert(&keys).unwrap().into_iter();
        assert!(again.map(|outcome| outcome == Outcome::Found).eq(is_there));
        assert_eq!(set.len().unwrap(), keys.len());
    };
    let make = |device: &Device| small::<SlabSet<u32>>(device).build().unwrap();
    rationed(make, |set: &SlabSet<u32>| set.insert(&keys), check);
    rationed(make, |set: &SlabSet<u32>| set.execute(&operations), check);
}

#[test]
fn maps_of_many_that_lack_memory_tell_what_they_did() {
    let keys: Vec<u32> = (0..KEYS).map(|n| n % 100).collect();
    let operations: Vec<_> = keys.iter().map(|&key| MultiOp::Insert(key, 1)).collect();
    let check = |map: SlabMultiMap<u32, u32>, outcomes: Outcomes| {
        let mut expected: BTreeMap<u32, u32> = (0..100).map(|key| (key, 0)).collect();
        for (key, _) in keys.iter().zip(outcomes).filter(|(_, outcome)| *outcome == Outcome::Inserted) {
            expected.entry(*key).and_modify(|many| *many += 1);
        }
        let found = map.count(&keys[..100]).unwrap();
        assert!(expected.into_values().eq(found.iter().copied()), "{found:?}");
        map.validate().unwrap();
        assert_eq!(map.insert(&keys, &keys).unwrap(), vec![Outcome::Inserted; keys.len()]);
        let each = KEYS / 100;
        assert!(map.count(&keys[..100]).unwrap().iter().zip(found).all(|(now, then)| *now == then + each));
    };
    let make = |device: &Device| small::<SlabMultiMap<u32, u32>>(device).build().unwrap();
    rationed(make, |map: &SlabMultiMap<u32, u32>| map.insert(&keys, &keys), check);
    let execute = |map: &SlabMultiMap<u32, u32>| {
        Ok(map.execute(&operations)?.into_iter().map(|(outcome, _)| outcome).collect())
    };
    rationed(make, execute, check);
}

/// A multimap that cannot allocate the memory for what `retain` keeps is unchanged, however often it fails.
#[test]
fn maps_of_many_that_cannot_retain_are_unchanged() {
    let keys: Vec<u32> = (0..KEYS).map(|n| n % 100).collect();
    let device = emulator().expect("there always is one");
    let failures = device.emulator_handle().expect("it is an emulator");
    let mut map = small::<SlabMultiMap<u32, u32>>(&device).build().unwrap();
    map.try_extend(keys.iter().copied().zip(0..)).unwrap();
    let before = map.get_all(&keys[..100]).unwrap();
    let mut tries = 0;
    for allocations in 0.. {
        failures.fail_allocations_after(allocations);
        let said = map.retain(|key, value| key != 7 && value % 2 == 0);
        failures.fail_allocations_after(u64::MAX);
        map.validate().unwrap();
        if said.is_ok() {
            assert_eq!(map.count(&[7, 8]).unwrap(), [0, KEYS / 100]);
            break;
        }
        tries += 1;
        assert_eq!(map.get_all(&keys[..100]).unwrap(), before);
    }
    assert!(tries > 5, "{tries}");
}

/// Outcomes of removals are reported even if the subsequent compaction of the lists fails.
#[test]
fn removals_that_lack_memory_tell_what_they_did() {
    let make = |device: &Device, keys: &[u32]| {
        let set = small::<SlabSet<u32>>(device).build().unwrap();
        assert!(set.insert(keys).unwrap().all_placed());
        set
    };
    removals(make, SlabSet::remove, SlabSet::contains_key, SlabSet::validate);
    let make = |device: &Device, keys: &[u32]| {
        let map = small::<SlabMultiMap<u32, u32>>(device).build().unwrap();
        assert!(map.insert(keys, keys).unwrap().all_placed());
        map
    };
    removals(make, SlabMultiMap::remove_one, SlabMultiMap::contains_key, SlabMultiMap::validate);
}

/// Removes nearly all keys from the result of `make`, with one more successful allocation each time.
fn removals<T>(
    make: impl Fn(&Device, &[u32]) -> T,
    remove: impl Fn(&T, &[u32]) -> Result<Vec<bool>>,
    contains: impl Fn(&T, &[u32]) -> Result<Vec<bool>>,
    validate: impl Fn(&T) -> Result<()>,
) {
    let keys: Vec<u32> = (0..KEYS).collect();
    let gone = &keys[..keys.len() - 50];
    let call = |made: &T| {
        let outcome = |removed| if removed { Outcome::Removed } else { Outcome::Absent };
        Ok(remove(made, gone)?.into_iter().map(outcome).collect())
    };
    let check = |made: T, outcomes: Outcomes| {
        assert!(!outcomes.contains(&Outcome::Absent));
        let stayed = outcomes.iter().take(gone.len()).map(|&outcome| outcome == Outcome::Refused);
        let are_there = contains(&made, gone).unwrap();
        assert!(stayed.eq(are_there.iter().copied()));
        validate(&made).unwrap();
        assert_eq!(remove(&made, gone).unwrap(), are_there);
    };
    rationed(|device| make(device, &keys), call, check);
}

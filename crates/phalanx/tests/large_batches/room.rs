//! Large batches for which there is too little memory.
use crate::common::attempts;
use crate::fixture::{CROWD, LEN, Model, Ordered, filled, random};
use crate::kinds::{Kind, contents};
use phalanx::btree::{Growth, LargeBatches};
use phalanx::{Error, Outcome, Outcomes, Result};

pub fn batches_that_do_not_fit_are_refused_in_part<M: Ordered>(kind: &Kind<M>) {
    let map = M::with(kind, LargeBatches::default(), Growth::Fixed, 400);
    let (keys, values) = kind.columns((0..LEN).map(|n| (random(n), n)));
    refuses_in_part(kind, &map, &keys, &values);
}

/// The batch would be appended, but the pool lacks slabs, also for a rebuild.
pub fn appends_that_do_not_fit_are_refused_in_part<M: Ordered>(kind: &Kind<M>) {
    let map = M::with(kind, LargeBatches::default(), Growth::Fixed, 400);
    let (keys, values) = kind.columns((0..50).map(|n| (n, n)));
    assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
    let (more, them) = kind.columns((0..LEN).map(|n| (50 + random(n), n)));
    refuses_in_part(kind, &map, &more, &them);
    assert!(map.get(&keys).unwrap().into_iter().eq(values.into_iter().map(Some)), "{}", kind.name);
    map.validate();
}

/// Inserts pairs of which some do not fit. Compares the outcomes with the contents.
fn refuses_in_part<M: Ordered>(kind: &Kind<M>, map: &M, keys: &[M::Key], values: &[M::Value]) {
    let before = contents(map);
    let outcomes = map.insert(keys, values).unwrap();
    assert!(outcomes.refused() > 0, "{}: {:?}", kind.name, map.stats());
    let placed = |(_, outcome): &(_, &Outcome)| **outcome == Outcome::Inserted;
    let pairs = keys.iter().copied().zip(values.iter().copied()).zip(&outcomes).filter(placed);
    let expected = before.into_iter().chain(pairs.map(|(pair, _)| pair)).collect();
    assert_eq!(contents(map), expected, "{}", kind.name);
}

pub fn fixed_pools_are_rebuilt_if_the_pairs_fit<M: Ordered>(kind: &Kind<M>) {
    let map = M::with(kind, LargeBatches::default(), Growth::Fixed, 2100);
    let (keys, values) = kind.columns((0..LEN).map(|n| (n, n)));
    let before = map.stats().capacity;
    assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
    assert!(map.rebuilds() == 1 && map.stats().capacity == before, "{}: {:?}", kind.name, map.stats());
}

/// Calls a function on a new map again and again, with more successful allocations each time ([`attempts`]),
/// until no allocation fails, and passes map and result to `check`.
fn rationed<M: Ordered, R>(
    kind: &Kind<M>,
    make: impl Fn() -> M,
    call: impl Fn(&M) -> R,
    check: impl Fn(M, R),
) {
    let emulator = kind.device.emulator_handle().expect("an emulator");
    for allocations in attempts(0) {
        let map = make();
        emulator.fail_allocations_after(allocations);
        let result = call(&map);
        let left = emulator.fail_allocations_after(u64::MAX);
        check(map, result);
        if left > 0 {
            return assert!(allocations > 2, "{}: a rebuild allocates", kind.name);
        }
    }
}

/// Returns the outcomes of a call, all of which are refusals if the call did nothing for lack of memory.
fn told(result: Result<Outcomes>, len: usize) -> Outcomes {
    match result {
        Ok(outcomes) | Err(Error::NoRoom { outcomes, .. }) => outcomes,
        Err(Error::Device(gpu::Error::OutOfMemory { .. })) => vec![Outcome::Refused; len].into(),
        Err(error) => panic!("{error}"),
    }
}

/// Whatever allocation fails, the elements have the effects that their outcomes say.
pub fn batches_that_lack_memory_lose_nothing<M: Ordered>(kind: &Kind<M>) {
    if !kind.is_main {
        return;
    }
    // Between the map's keys, and above them.
    for first in [0, 5000] {
        lose_nothing(kind, first);
    }
}

fn lose_nothing<M: Ordered>(kind: &Kind<M>, first: u64) {
    let (keys, values) = kind.columns((0..CROWD).map(|n| (first + n, n + 1)));
    let make = || filled(kind, LargeBatches::default(), 500).0;
    let before = contents(&make());
    let check = |map: M, result: Result<Outcomes>| {
        let outcomes = told(result, keys.len());
        let mut expected: Model<M> = before.clone();
        for ((&key, &value), outcome) in keys.iter().zip(&values).zip(&outcomes) {
            let old = if *outcome == Outcome::Refused { None } else { expected.insert(key, value) };
            assert!((*outcome == Outcome::Replaced) == old.is_some(), "{}: {outcome:?}", kind.name);
        }
        assert!(contents(&map) == expected, "{}", kind.name);
    };
    rationed(kind, make, |map| map.insert(&keys, &values), check);
    let check = |map: M, result: Result<Outcomes>| {
        let outcomes = told(result, keys.len());
        let mut expected: Model<M> = before.clone();
        for (key, outcome) in keys.iter().zip(&outcomes) {
            assert!(*outcome != Outcome::Removed || expected.remove(key).is_some(), "{}", kind.name);
        }
        assert!(contents(&map) == expected, "{}", kind.name);
    };
    let take = |map: &M| Ok(map.take(&keys)?.into_parts().1);
    rationed(kind, make, take, check);
}

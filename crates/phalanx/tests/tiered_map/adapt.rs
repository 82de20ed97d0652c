//! Memory for hot pairs while they pay.
use crate::model::{all_pairs, check, emulator, insert, numbers, small};
use gpu::Device;
use phalanx::{Merge, TieredMap};
use std::collections::BTreeMap;

type Map = TieredMap<u32, u32>;

/// Number of pairs of a map.
const PAIRS: u32 = 38_000;
/// Number of lookups of a batch.
const BATCH: usize = 4200;

/// Returns the value of a key.
fn value(key: u32) -> u32 {
    3 * key + 1
}

/// Returns a map, of whose pairs a tenth or so fits in the memory that hot pairs may have.
fn filled(device: &Device) -> Map {
    let builder = small::<u32, u32>(device).capacity(40_000).shards(64);
    let budget = builder.min_budget().unwrap() * 13 / 10;
    let map = builder.budget(budget).build().unwrap();
    let keys: Vec<u32> = (0..PAIRS).collect();
    let values: Vec<u32> = keys.iter().copied().map(value).collect();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(map.hot_pairs(), 0, "it begins without");
    map
}

/// Returns lookups that all keys are equally likely to have.
fn uniform(seed: u64) -> Vec<u32> {
    numbers(BATCH, u64::from(PAIRS), seed).into_iter().map(|key| key as u32).collect()
}

/// Returns lookups of which 90 % are of 300 keys, from the key `first` on.
fn skewed(first: u32, seed: u64) -> Vec<u32> {
    let key = |number: u64| match number % 10 {
        0 => (number / 10) as u32,
        _ => first + (number / 10) as u32 % 300,
    };
    numbers(BATCH, 10 * u64::from(PAIRS), seed).into_iter().map(key).collect()
}

/// Looks up keys, which have the values of [`value`]. Returns the share that was found among the hot pairs.
fn hits(map: &Map, keys: &[u32]) -> f64 {
    let before = map.traffic().hot_hits;
    assert!(map.get(keys).unwrap().iter().zip(keys).all(|(found, &key)| *found == Some(value(key))));
    assert!(map.peak_device_bytes() <= map.budget());
    (map.traffic().hot_hits - before) as f64 / keys.len() as f64
}

/// Returns after how many batches the map has memory for hot pairs, or has none.
fn batches_until(map: &Map, has_memory: bool, batch: impl Fn(u64) -> Vec<u32>) -> usize {
    let mut batches = 0;
    while (map.hot_pairs() > 0) != has_memory {
        let _ = hits(map, &batch(batches));
        batches += 1;
        assert!(batches < 60, "hot pairs have memory: {}", !has_memory);
    }
    batches as usize
}

#[test]
fn hot_pairs_have_memory_while_they_pay() {
    let map = filled(&emulator());
    for seed in 0..6 {
        assert_eq!(hits(&map, &uniform(seed)), 0.0);
        assert_eq!(map.hot_pairs(), 0, "uniform batch {seed}");
    }
    let without = map.device_bytes();
    assert!(batches_until(&map, true, |seed| skewed(5000, seed)) <= 2);
    let shares: Vec<f64> = (0..5).map(|seed| hits(&map, &skewed(5000, 10 + seed))).collect();
    assert!(shares[2..].iter().all(|&share| share > 0.7), "{shares:?}");
    // The hot keys change, and the memory stays.
    let shares: Vec<f64> = (0..5).map(|seed| hits(&map, &skewed(25_000, 20 + seed))).collect();
    assert!(map.hot_pairs() > 1000 && shares[3..].iter().all(|&share| share > 0.7), "{shares:?}");
    // Two judgements of 4096 lookups. A batch without hits looks up only three of its chunks.
    assert!(batches_until(&map, false, |seed| uniform(30 + seed)) <= 12);
    assert_eq!(map.device_bytes(), without, "the slots are back");
    for seed in 0..5 {
        assert_eq!(hits(&map, &uniform(40 + seed)), 0.0);
        assert_eq!(map.hot_pairs(), 0, "uniform batch {seed}");
    }
    assert!(batches_until(&map, true, |seed| skewed(9, 50 + seed)) <= 2, "the rest is over");
}

/// A few keys that have most lookups are likely to be none of the sampled ones.
#[test]
fn a_few_keys_are_hot() {
    let few = |first: u32, seed: u64| -> Vec<u32> {
        let keep = |(place, key): (usize, u32)| if place % 10 == 0 { key } else { first + key % 3 };
        uniform(seed).into_iter().enumerate().map(keep).collect()
    };
    let map = filled(&emulator());
    assert!(batches_until(&map, true, |seed| few(1234, seed)) <= 2);
    assert!(hits(&map, &few(1234, 5)) + hits(&map, &few(1234, 6)) > 0.8);
}

/// Runs rounds of batches of both kinds, by turns for a random number of rounds, with changes between them,
/// and compares with a model. Returns how often hot pairs got memory, and lost it; or what is wrong.
fn with_a_model(device: &Device, seed: u64) -> Result<(usize, usize), String> {
    let map = filled(device);
    let mut model: BTreeMap<u32, u32> = (0..PAIRS).map(|key| (key, value(key))).collect();
    let (mut got, mut lost, mut had) = (0, 0, false);
    let phases = numbers(4, 4, seed).into_iter().enumerate();
    let kinds = phases.flat_map(|(phase, more)| (0..4 + more).map(move |_| phase % 2 == 0));
    for (round, is_skewed) in (0u32..).zip(kinds) {
        for part in 0..2 {
            let keys = if is_skewed {
                skewed(100, u64::from(9 * round + part))
            } else {
                uniform(u64::from(9 * round + part))
            };
            let found = map.get(&keys).map_err(|error| error.to_string())?;
            if !found.into_iter().eq(keys.iter().map(|key| model.get(key).copied())) {
                return Err(format!("round {round}: a value is wrong"));
            }
            let has = map.hot_pairs() > 0;
            (got, lost, had) = (got + usize::from(has && !had), lost + usize::from(had && !has), has);
        }
        let changed: Vec<u32> = (100 + round * 7 % 300..500).step_by(3).collect();
        match round % 3 {
            0 => {
                let _ = map.remove(&changed).unwrap();
                model.retain(|key, _| !changed.contains(key));
            }
            1 => {
                let values: Vec<u32> = changed.iter().map(|key| key + 1000 * round).collect();
                insert(&map, &mut model, (&changed, &values));
            }
            _ => {
                assert!(map.upsert(Merge::Add, &changed, &vec![1; changed.len()]).unwrap().all_placed());
                changed.iter().for_each(|&key| *model.entry(key).or_insert(0) += 1);
            }
        }
    }
    if all_pairs(&map) != model {
        return Err("a pair is wrong".to_owned());
    }
    check(&map, &model, &[1 << 30]);
    Ok((got, lost))
}

#[test]
fn values_are_right_while_memory_comes_and_goes() {
    let (got, lost) = with_a_model(&emulator(), 1).unwrap();
    assert!(got > 1 && lost > 0, "{got} {lost}");
}

/// Shards grow while hot pairs have memory: a shard that does not fit a slot takes it back.
#[test]
fn shards_grow_while_hot_pairs_have_memory() {
    let map = filled(&emulator());
    batches_until(&map, true, |seed| skewed(0, seed));
    let mut model: BTreeMap<u32, u32> = (0..PAIRS).map(|key| (key, value(key))).collect();
    let (slots, mut lost) = (map.slots(), false);
    for part in 0..4 {
        let keys: Vec<u32> = (PAIRS + 6000 * part..PAIRS + 6000 * (part + 1)).collect();
        let values: Vec<u32> = keys.iter().copied().map(value).collect();
        insert(&map, &mut model, (&keys, &values));
        lost |= map.hot_pairs() == 0;
        for seed in 0..2 {
            let _ = hits(&map, &skewed(0, 90 + seed));
        }
    }
    assert!(map.slots() > slots && lost);
    check(&map, &model, &[1 << 30]);
}

/// Allocations fail while memory is given and taken back.
#[test]
fn results_are_right_without_memory_for_it() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let map = filled(&device);
    let right = |keys: &[u32]| match map.get(keys) {
        Ok(found) => assert!(found.iter().zip(keys).all(|(found, &key)| *found == Some(value(key)))),
        Err(error) => assert!(matches!(error, phalanx::Error::Device(gpu::Error::OutOfMemory { .. }))),
    };
    for after in [0, 3] {
        for seed in 0..4 {
            handle.fail_allocations_after(after);
            right(&skewed(300, seed));
            handle.fail_allocations_after(u64::MAX);
        }
        batches_until(&map, true, |seed| skewed(300, seed));
        for seed in 0..4 {
            handle.fail_allocations_after(after);
            right(&uniform(seed));
            handle.fail_allocations_after(u64::MAX);
        }
        batches_until(&map, false, uniform);
    }
    let pairs = all_pairs(&map);
    assert!(pairs.into_iter().eq((0..PAIRS).map(|key| (key, value(key)))));
    assert!(map.peak_device_bytes() <= map.budget());
}

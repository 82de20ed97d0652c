//! Random scripts, in which all ranks call the same operations with batches of their own.
use crate::model::{Batch, Model, OPS, Op, Results, Step};
use crate::ranks::{Case, Kind, cases, in_several_chunks, map, run, run_with, small};
use phalanx::exchange::{Exchange, Limits, Planted};
use phalanx::kernels::sharded::owner_of;
use phalanx::map::Word;
use phalanx::sharded_map::Combining;
use phalanx::{Merge, Outcome, Result, ShardedMap};

/// Distribution of the keys of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Uniform,
    /// Some ranks have no elements.
    Empty,
    /// Half of the elements have one of four keys.
    Skewed,
    /// All have one owner.
    OneOwner,
    /// Each key occurs several times.
    Duplicates,
}

const KEYS: [Keys; 5] = [Keys::Uniform, Keys::Empty, Keys::Skewed, Keys::OneOwner, Keys::Duplicates];

/// A generator of numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xd129_0d3d_4a9f_7c15).wrapping_add(1);
        let mixed = (self.0 >> 31) ^ self.0;
        (mixed.wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % most
    }
}

/// Returns a rank's batch of at most `most` elements.
fn batch(random: &mut Random, keys: Keys, (rank, ranks): (usize, usize), most: usize, op: Op) -> Batch {
    let len = match keys {
        Keys::Empty if rank.is_multiple_of(2) => 0,
        _ => most / 2 + random.below(most as u64 / 2 + 1) as usize,
    };
    let mut key = || match keys {
        Keys::Skewed if random.below(2) == 0 => random.below(4),
        Keys::Duplicates => random.below(most as u64 / 8 + 1),
        _ => random.below(2 * most as u64),
    };
    let mut keys_of = Vec::with_capacity(len);
    while keys_of.len() < len {
        let key = key();
        if keys != Keys::OneOwner || owner_of(key, ranks as u32) as usize == ranks / 2 {
            keys_of.push(key);
        }
    }
    let has_values = matches!(op, Op::Insert | Op::InsertNew | Op::Upsert);
    let values = if has_values { (0..len).map(|_| random.below(1 << 20)).collect() } else { Vec::new() };
    Batch { keys: keys_of, values }
}

/// Returns a script of steps with batches of up to `most` elements.
pub fn script(ranks: usize, (steps, most): (usize, usize), seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut step = |number: usize| {
        let op = if number == 0 { Op::Insert } else { OPS[random.below(6) as usize] };
        let keys = KEYS[(number + seed as usize) % KEYS.len()];
        let batches = (0..ranks).map(|rank| batch(&mut random, keys, (rank, ranks), most, op)).collect();
        Step { op, batches }
    };
    (0..steps).map(&mut step).collect()
}

fn narrow<T: Word>(words: &[u64]) -> Vec<T> {
    words.iter().map(|&word| T::from_u64(word)).collect()
}

/// Runs a rank's part of a step by a call on host slices.
fn on_host<K: Word, V: Word>(map: &mut ShardedMap<K, V>, op: Op, batch: &Batch) -> Result<Results> {
    let (keys, values) = (narrow::<K>(&batch.keys), narrow::<V>(&batch.values));
    let of_outcomes = |outcomes: phalanx::Outcomes| outcomes.iter().map(|&outcome| (outcome, None)).collect();
    let of_bools = |found: Vec<bool>, outcome| {
        let result = |found| (if found { outcome } else { Outcome::Absent }, None);
        found.into_iter().map(result).collect()
    };
    Ok(match op {
        Op::Insert => of_outcomes(map.insert(&keys, &values)?),
        Op::InsertNew => of_outcomes(map.insert_new(&keys, &values)?),
        Op::Upsert => of_outcomes(map.upsert(Merge::Add, &keys, &values)?),
        Op::Get => {
            let result = |value: Option<V>| match value {
                Some(value) => (Outcome::Found, Some(value.to_u64())),
                None => (Outcome::Absent, None),
            };
            map.get(&keys)?.into_iter().map(result).collect()
        }
        Op::Contains => of_bools(map.contains_key(&keys)?, Outcome::Found),
        Op::Remove => of_bools(map.remove(&keys)?, Outcome::Removed),
    })
}

/// Runs a rank's part of a step on device buffers.
fn on_device<K: Word, V: Word>(map: &mut ShardedMap<K, V>, op: Op, batch: &Batch) -> Result<Results> {
    let (device, len) = (map.device().clone(), batch.keys.len());
    let keys = device.from_slice(&narrow::<K>(&batch.keys))?;
    let mut values = device.from_slice(&narrow::<V>(&batch.values))?;
    let mut outcomes = device.filled::<u8>(len, 99)?;
    if op == Op::Get {
        values = device.filled::<V>(len, 99)?;
    }
    let mut batches = map.batches();
    match op {
        Op::Insert => batches.insert(&keys, &values, &mut outcomes)?,
        Op::InsertNew => batches.insert_new(&keys, &values, &mut outcomes)?,
        Op::Upsert => batches.upsert(Merge::Add, &keys, &values, &mut outcomes)?,
        Op::Get => batches.get(&keys, &mut values, &mut outcomes)?,
        Op::Contains => batches.contains_key(&keys, &mut outcomes)?,
        Op::Remove => batches.remove(&keys, &mut outcomes)?,
    }
    map.wait()?;
    let (outcomes, values) = (outcomes.read()?, values.read()?);
    let result = |(index, &code): (usize, &u8)| {
        let outcome = Outcome::from_code(code).unwrap_or(Outcome::Refused);
        let is_value = op == Op::Get && outcome == Outcome::Found;
        (outcome, is_value.then(|| values[index].to_u64()))
    };
    Ok(outcomes.iter().enumerate().map(result).collect())
}

/// Runs a rank's part of a script. Returns the results of the steps, and the number of pairs in the end.
fn play<K: Word, V: Word>(
    exchange: Exchange,
    steps: &[Step],
    (is_combined, is_remote): (bool, bool),
) -> Result<(Vec<Results>, usize)> {
    let mut map = map::<K, V>(exchange, 1 << 14)?;
    if is_combined {
        map.set_combining(Combining::Always);
    }
    map.set_most_remote(if is_remote { usize::MAX } else { 0 });
    let rank = map.rank();
    let mut results = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let play = if number % 2 == 0 { on_device } else { on_host };
        results.push(play(&mut map, step.op, &step.batches[rank])?);
    }
    Ok((results, map.len()?))
}

/// Returns the first difference between the results of all ranks and the model.
fn compare(steps: &[Step], results: &[(Vec<Results>, usize)], mask: u64) -> std::result::Result<(), String> {
    let mut model = Model::new(mask);
    for (number, step) in steps.iter().enumerate() {
        let of_step: Vec<_> = results.iter().map(|(of_rank, _)| of_rank[number].clone()).collect();
        model.apply(step, &of_step).map_err(|error| format!("step {number}: {error}"))?;
    }
    match results.iter().find(|(_, len)| *len != model.len()) {
        Some((_, len)) => Err(format!("{len} pairs, and the model has {}", model.len())),
        None => Ok(()),
    }
}

fn check<K: Word, V: Word>(case: Case, limits: Limits, size: (usize, usize), seed: u64) {
    let steps = script(case.1, size, seed);
    let (is_combined, is_remote) = (seed.is_multiple_of(2), seed % 3 == 1);
    let results = run(case, limits, |exchange| play::<K, V>(exchange, &steps, (is_combined, is_remote)));
    let mask = if size_of::<V>() == 4 { u32::MAX.into() } else { u64::MAX };
    compare(&steps, &results, mask).unwrap_or_else(|error| panic!("{case:?}, seed {seed}: {error}"));
}

/// Returns whether a script with faults fails or has wrong results: whether its faults are found.
pub fn finds(case: Case, limits: Limits, planted: Vec<Planted>, seed: u64) -> bool {
    let steps = script(case.1, (4, 300), seed);
    let results =
        run_with(case, limits, planted, |exchange| play::<u32, u32>(exchange, &steps, (false, false)));
    match results.into_iter().collect::<Result<Vec<_>>>() {
        Ok(results) => compare(&steps, &results, u32::MAX.into()).is_err(),
        Err(_) => true,
    }
}

#[test]
fn scripts_of_64_bits_in_many_rounds() {
    cases().into_iter().for_each(|case| check::<u64, u64>(case, small(), (12, 700), 1));
}

#[test]
fn scripts_of_32_bits_in_many_rounds() {
    cases().into_iter().for_each(|case| check::<u32, u32>(case, small(), (12, 700), 2));
}

#[test]
fn scripts_of_mixed_widths() {
    for case in cases() {
        check::<u32, u64>(case, small(), (7, 300), 3);
        check::<u64, u32>(case, small(), (7, 300), 4);
    }
}

#[test]
fn scripts_with_combined_keys() {
    for case in cases() {
        check::<u64, u64>(case, small(), (7, 300), 10);
        check::<u32, u64>(case, small(), (7, 300), 12);
    }
}

/// Each rank looks up a hot key, and a few others.
#[test]
fn a_hot_key_moves_once() {
    for case in cases() {
        run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 1000)?;
            map.set_combining(Combining::Always);
            let others: Vec<u64> = (0..100).map(|number| number + 1000 * map.rank() as u64).collect();
            assert!(map.insert(&others, &others)?.all_placed());
            let before = map.traffic().bytes;
            let keys = [vec![5; 900], others.clone()].concat();
            let found = map.get(&keys)?;
            assert!(found[..900].iter().all(|value| *value == Some(5)) && found[950] == Some(others[50]));
            assert_eq!(map.report().combined, 899 + usize::from(map.rank() == 0));
            // A key of 8 bytes, and 9 bytes of an answer to another rank's key.
            let most = 2 * map.ranks() * 101 * 17;
            assert!((map.traffic().bytes - before) as usize <= most, "{case:?}");
            Ok(())
        });
    }
}

#[test]
fn scripts_in_several_chunks() {
    let limits = in_several_chunks();
    for case in cases().into_iter().filter(|case| case.0 != Kind::Emulated) {
        check::<u64, u64>(case, limits, (7, 8000), 21);
        check::<u32, u64>(case, limits, (7, 8000), 23);
        check::<u64, u32>(case, limits, (7, 8000), 27);
        check::<u32, u32>(case, limits, (7, 8000), 29);
        check::<u64, u64>(case, limits, (7, 8000), 22); // combined, and lookups without an exchange
    }
}

#[test]
fn scripts_in_large_parts() {
    let limits = Limits { part_bytes: 1 << 20, ..Limits::default() };
    cases().into_iter().for_each(|case| check::<u64, u64>(case, limits, (7, 2000), 5));
}

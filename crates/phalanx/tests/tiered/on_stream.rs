//! Batches on device buffers.
use super::model::{Map, PLACEMENTS, Placement, all_pairs, check, device, divided, emulator, least};
use super::model::{numbers, small};
use gpu::{Buffer, Device};
use phalanx::map::OpCode;
use phalanx::tiered_map::Batches;
use phalanx::{Error, Merge, Outcome, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Returns distinct keys.
pub fn distinct(len: usize, seed: u64) -> Vec<u32> {
    let keys: BTreeSet<u32> = numbers(len, 1500, seed).into_iter().map(|key| key as u32).collect();
    keys.into_iter().collect()
}

type Model = BTreeMap<u32, u32>;

/// A batch of pairs with distinct keys: on the host, on the device, and memory for its results.
struct Columns {
    host: Vec<(u32, u32)>,
    keys: Buffer<u32>,
    values: Buffer<u32>,
    results: Buffer<u32>,
    outcomes: Buffer<u8>,
}

impl Columns {
    fn new(device: &Device, len: usize, round: u64) -> Self {
        let host: Vec<(u32, u32)> =
            distinct(len, round).into_iter().map(|key| (key, key * 5 + round as u32)).collect();
        let (keys, values): (Vec<u32>, Vec<u32>) = host.iter().copied().unzip();
        Self {
            keys: device.from_slice(&keys).unwrap(),
            values: device.from_slice(&values).unwrap(),
            results: device.filled(host.len(), 77).unwrap(),
            outcomes: device.filled(host.len(), 99).unwrap(),
            host,
        }
    }

    /// Checks for each pair the outcome and, if there is one, the result. `expected` takes the pair and the
    /// value that its key had before.
    fn check(&self, before: &Model, expected: impl Fn(u32, u32, Option<u32>) -> (Outcome, Option<u32>)) {
        let (outcomes, results) = (self.outcomes.read().unwrap(), self.results.read().unwrap());
        for ((&(key, value), code), found) in self.host.iter().zip(outcomes).zip(results) {
            let (outcome, result) = expected(key, value, before.get(&key).copied());
            assert_eq!(code, outcome as u8, "outcome of {key}");
            assert!(result.is_none_or(|result| result == found), "{key}: {result:?}, not {found}");
        }
    }
}

/// Changes pairs by one of eight calls, and checks outcomes and values.
fn change(batches: &Batches<'_, u32, u32>, device: &Device, model: &mut Model, (len, round): (usize, u64)) {
    use Outcome::{Absent, Found, Inserted, Removed, Replaced};
    let before = model.clone();
    let mut all = Columns::new(device, len, round);
    let Columns { host, keys, values, results, outcomes } = &mut all;
    let placed = |was: Option<u32>| if was.is_some() { Replaced } else { Inserted };
    match round % 8 {
        0 => {
            batches.insert(&*keys, &*values, outcomes).unwrap();
            model.extend(host.iter().copied());
            all.check(&before, |_, _, was| (placed(was), None));
        }
        1 => {
            batches.upsert(Merge::Add, &*keys, &*values, None).unwrap();
            host.iter().for_each(|&(key, more)| *model.entry(key).or_insert(0) += more);
        }
        2 => {
            batches.take(&*keys, results, outcomes).unwrap();
            model.retain(|key, _| !host.iter().any(|(removed, _)| removed == key));
            all.check(&before, |_, _, was| (if was.is_some() { Removed } else { Absent }, was));
        }
        3 => {
            batches.insert_new(&*keys, &*values, outcomes).unwrap();
            for &(key, value) in &*host {
                model.entry(key).or_insert(value);
            }
            all.check(&before, |_, _, was| (if was.is_some() { Found } else { Inserted }, None));
        }
        4 => {
            batches.get_or_insert(&*keys, &*values, results, outcomes).unwrap();
            for &(key, value) in &*host {
                model.entry(key).or_insert(value);
            }
            let found = |was: Option<u32>| if was.is_some() { Found } else { Inserted };
            all.check(&before, |_, value, was| (found(was), Some(was.unwrap_or(value))));
        }
        5 => {
            batches.replace(&*keys, &*values, results, outcomes).unwrap();
            model.extend(host.iter().copied());
            all.check(&before, |_, _, was| (placed(was), was));
        }
        6 => mixed(batches, device, model, all),
        _ => {
            batches.remove(&*keys, outcomes).unwrap();
            model.retain(|key, _| !host.iter().any(|(removed, _)| removed == key));
            all.check(&before, |_, _, was| (if was.is_some() { Removed } else { Absent }, None));
        }
    }
}

/// A mixed batch: the key selects the operation.
fn mixed(batches: &Batches<'_, u32, u32>, device: &Device, model: &mut Model, mut all: Columns) {
    use Outcome::{Absent, Found, Inserted, Removed, Replaced};
    let codes = [OpCode::GET, OpCode::INSERT, OpCode::REMOVE, OpCode::ADD];
    let code_of = |key: u32| codes[key as usize % 4].code() as u8;
    let host: Vec<u8> = all.host.iter().map(|&(key, _)| code_of(key)).collect();
    let (codes, before) = (device.from_slice(&host).unwrap(), model.clone());
    let Columns { keys, values, results, outcomes, .. } = &mut all;
    batches.execute(&codes, &*keys, &*values, results, outcomes).unwrap();
    for &(key, value) in &all.host {
        match key % 4 {
            0 => {}
            1 => *model.entry(key).or_default() = value,
            2 => model.retain(|&there, _| there != key),
            _ => *model.entry(key).or_default() += value,
        }
    }
    all.check(&before, |key, value, was| match (key % 4, was) {
        (0, Some(was)) => (Found, Some(was)),
        (2, Some(_)) => (Removed, None),
        (0 | 2, None) => (Absent, None),
        (_, Some(was)) => (Replaced, Some(was)),
        (_, None) => (Inserted, Some(value)),
    });
}

/// Looks up keys, of which some are absent.
fn look_up(batches: &Batches<'_, u32, u32>, device: &Device, model: &Model, len: usize) {
    let asked: Vec<u32> = (0..len as u32).map(|number| number * 7 % 1600).collect();
    let (keys, mut found) = (device.from_slice(&asked).unwrap(), device.zeroed::<u8>(len).unwrap());
    let mut values = device.zeroed::<u32>(len).unwrap();
    batches.get(&keys, &mut values, &mut found).unwrap();
    let all = values.read().unwrap().into_iter().zip(found.read().unwrap());
    for ((value, code), key) in all.zip(&asked) {
        let found = (code == Outcome::Found as u8).then_some(value);
        assert_eq!(found, model.get(key).copied());
    }
    batches.contains_key(&keys, &mut found).unwrap();
    let is_there = |code: u8| code == Outcome::Found as u8;
    let expected = asked.iter().map(|key| model.contains_key(key));
    assert!(found.read().unwrap().into_iter().map(is_there).eq(expected));
}

/// Runs all calls with batches of a length, and compares with a model.
pub fn with_a_model(map: &Map<u32, u32>, len: usize) {
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let (batches, mut model) = (map.on(&stream), Model::new());
    for round in 0..9 {
        change(&batches, device, &mut model, (len, round));
        look_up(&batches, device, &model, len);
        assert_eq!(map.len(), model.len());
    }
    check(map, &model, &[5000]);
}

#[test]
fn all_operations_with_all_policies() {
    let device = device();
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| [40, 600].map(|len| (placement, len)))
    {
        with_a_model(&least(small::<u32, u32>(&device).capacity(2000).placement(placement)), len);
    }
}

/// An earlier kernel of the stream says how many elements a batch has.
pub fn a_count_bounds(map: &Map<u32, u32>) {
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let host: Vec<u32> = (0..500).collect();
    let keys = device.from_slice(&host).unwrap();
    let [few, none, many] = [300u32, 0, 9999].map(|count| device.from_slice(&[count]).unwrap());
    let wide = device.from_slice(&[400u64]).unwrap();
    let mut outcomes = device.filled::<u8>(500, 99).unwrap();
    let batches = map.on(&stream);
    batches.insert(keys.bounded_by(&none).unwrap(), &keys, &mut outcomes).unwrap();
    assert_eq!((map.len(), outcomes.read().unwrap()), (0, vec![99; 500]));
    batches.insert(keys.bounded_by(&few).unwrap(), &keys, &mut outcomes).unwrap();
    let codes = outcomes.read().unwrap();
    assert!(codes[..300].iter().all(|&code| code == Outcome::Inserted as u8));
    assert_eq!((map.len(), &codes[300..]), (300, &[99u8; 200][..]));
    batches.upsert(Merge::Add, keys.bounded_by(&wide).unwrap(), &keys, None).unwrap();
    assert_eq!(map.len(), 400);
    batches.remove(keys.bounded_by(&many).unwrap(), &mut outcomes).unwrap();
    assert!(map.is_empty());
    assert_eq!(outcomes.read().unwrap()[400..], [Outcome::Absent as u8; 100]);
}

#[test]
fn counts_on_the_device() {
    let device = device();
    for placement in [Placement::ByCost, Placement::Remote] {
        a_count_bounds(&least(small::<u32, u32>(&device).placement(placement)));
    }
}

/// Checks that a call fails by a length or by a device, each with the name of the buffer.
fn refuses(what: &str, said: Result<()>, is_length: bool) {
    match said {
        Err(Error::Length { what: found, .. }) if is_length => assert_eq!(found, what),
        Err(Error::OtherDevice { what: found, .. }) if !is_length => assert_eq!(found, what),
        other => panic!("{what}: {other:?}"),
    }
}

/// Passes a wrong buffer to each call, at each place.
fn pass_wrong(batches: &Batches<'_, u32, u32>, device: &Device, wrong: (Buffer<u32>, Buffer<u8>), len: bool) {
    let keys = device.from_slice(&[1u32, 2]).unwrap();
    let (mut words, mut codes) = (device.zeroed::<u32>(2).unwrap(), device.zeroed::<u8>(2).unwrap());
    let (mut no_words, mut no_codes) = wrong;
    let bytes = device.zeroed::<u8>(2).unwrap();
    let is_wrong = |what, said| refuses(what, said, len);
    is_wrong("values", batches.insert(&keys, &no_words, None));
    is_wrong("outcomes", batches.insert_new(&keys, &keys, &mut no_codes));
    is_wrong("values", batches.upsert(Merge::Max, &keys, &no_words, &mut codes));
    is_wrong("values", batches.get_or_insert(&keys, &no_words, &mut words, &mut codes));
    is_wrong("results", batches.get_or_insert(&keys, &keys, &mut no_words, &mut codes));
    is_wrong("values", batches.get(&keys, &mut no_words, &mut codes));
    is_wrong("outcomes", batches.get(&keys, &mut words, &mut no_codes));
    is_wrong("outcomes", batches.contains_key(&keys, &mut no_codes));
    is_wrong("outcomes", batches.remove(&keys, &mut no_codes));
    is_wrong("values", batches.take(&keys, &mut no_words, &mut codes));
    is_wrong("values", batches.replace(&keys, &no_words, &mut words, &mut codes));
    is_wrong("outcomes", batches.replace(&keys, &keys, &mut words, &mut no_codes));
    is_wrong("codes", batches.execute(&no_codes, &keys, &keys, &mut words, &mut codes));
    is_wrong("arguments", batches.execute(&bytes, &keys, &no_words, &mut words, &mut codes));
    is_wrong("results", batches.execute(&bytes, &keys, &keys, &mut no_words, &mut codes));
}

#[test]
fn bad_input() {
    let (device, other) = (emulator(), emulator());
    let map = least(small::<u32, u32>(&device));
    let stream = device.default_stream();
    let batches = map.on(&stream);
    let of = |device: &Device, len| (device.zeroed(len).unwrap(), device.zeroed(len).unwrap());
    pass_wrong(&batches, &device, of(&device, 1), true);
    pass_wrong(&batches, &device, of(&other, 2), false);
    let (keys, far) = (device.from_slice(&[1u32, 2]).unwrap(), other.from_slice(&[1u32, 2]).unwrap());
    let mut outcomes = device.zeroed::<u8>(2).unwrap();
    refuses("keys", batches.remove(&far, &mut outcomes), false);
    refuses("stream", map.on(&other.default_stream()).remove(&keys, &mut outcomes), false);
    let none = device.from_slice::<u32>(&[]).unwrap();
    batches.insert(&none, &none, None).unwrap();
    assert!(map.is_empty() && outcomes.read().unwrap() == [0; 2]);
}

/// Returns which elements of a call are done.
fn done(said: Result<()>, len: usize) -> Vec<bool> {
    match said {
        Ok(()) => vec![true; len],
        Err(Error::Interrupted { done, .. }) => done,
        Err(Error::Device(_)) => vec![false; len],
        Err(other) => panic!("{other}"),
    }
}

/// Every copy of a batch fails once: the error tells which elements are done.
#[test]
fn every_copy_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let cases = [Placement::AlwaysCopy, Placement::AlwaysInPlace];
    for (placement, len) in cases.into_iter().flat_map(|placement| [100, 500].map(|len| (placement, len))) {
        let (host, stream) = (distinct(len, 3), device.stream().unwrap());
        let keys = device.from_slice(&host).unwrap();
        for copies in 0.. {
            let map = least(divided::<u32, u32>(&device).capacity(900).placement(placement));
            let first: Vec<u32> = (0..150).collect();
            assert!(map.insert(&first, &first).unwrap().all_placed());
            let ones = device.from_slice(&vec![1u32; host.len()]).unwrap();
            let mut outcomes = device.zeroed::<u8>(host.len()).unwrap();
            handle.fail_copy(copies);
            let said = map.on(&stream).upsert(Merge::Add, &keys, &ones, &mut outcomes);
            let left = handle.fail_copy(u64::MAX);
            let mut expected: Model = first.iter().map(|&key| (key, key)).collect();
            for (&key, is_done) in host.iter().zip(done(said, host.len())) {
                if is_done {
                    *expected.entry(key).or_insert(0) += 1;
                }
            }
            assert_eq!(all_pairs(&map), expected, "{placement:?} {len} {copies}");
            if left != u64::MAX {
                assert!(copies > 2);
                break;
            }
        }
    }
}

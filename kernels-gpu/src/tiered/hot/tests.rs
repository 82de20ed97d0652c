//! Tiles that change the same bucket, under explored schedules, and faults that the explorations must find.
use super::kernels::{TieredForget, TieredKeep, TieredLookUp, TieredSample};
use super::state::State;
use super::{BUCKET_WORDS, Hot, Pair};
use crate::keyed::{Outcome, Scalar};
use simt::emulator::{Emulator, Fault, Launch, Options, Schedule, SiteId, WeakMemory};
use simt::{GlobalSlice, Grid, Order};
use std::collections::BTreeMap;

/// Threads of a launch: two tiles.
const THREADS: usize = 32;

/// Memory of a device.
struct Words<T>(GlobalSlice<T>);

impl<T: simt::Word> Words<T> {
    fn new(device: &Emulator, words: &[T]) -> Self {
        let bytes = size_of_val(words);
        let pointer = device.allocate(bytes, 256).cast::<T>();
        // SAFETY: just allocated with this size; it lives as long as the device.
        unsafe {
            pointer.copy_from(words.as_ptr(), words.len());
            device.mark_initialized(pointer.cast(), bytes);
            Self(GlobalSlice::from_raw_parts(pointer, words.len()))
        }
    }

    fn slice(&self) -> GlobalSlice<T> {
        self.0
    }

    fn read(&self, index: usize) -> T {
        // SAFETY: nothing runs.
        unsafe { self.0.at(index).as_ptr().read() }
    }
}

/// The value of a key.
fn value_of<K: Scalar, V: Scalar>(key: K) -> V {
    V::from_u64(key.to_u64() * 3 + 1)
}

/// A cache of one bucket, and two batches of pairs.
struct World<K, V> {
    device: Emulator,
    bucket: Words<u64>,
    keys: [Words<K>; 2],
    values: [Words<V>; 2],
    outcomes: Words<u8>,
}

impl<K: Scalar, V: Scalar> World<K, V> {
    fn new(seed: u64, faults: &[Fault]) -> Self {
        let schedule = match seed % 3 {
            0 => Schedule::Random { seed },
            depth => Schedule::Pct { seed, depth: 2 + 3 * depth as u32 },
        };
        let options = Options { faults: faults.to_vec(), ..Options::explore(schedule) };
        let device = Emulator::new(Options { weak_memory: WeakMemory::Ptx, ..options });
        let key = |batch: u64, thread: u64| {
            K::from_u64(u64::from(simt::hash::mix32((seed << 8 | batch << 5 | thread) as u32)) % 11)
        };
        let keys =
            [0, 1].map(|batch| (0..THREADS as u64).map(|thread| key(batch, thread)).collect::<Vec<K>>());
        let values =
            [0, 1].map(|batch: usize| keys[batch].iter().map(|&key| value_of(key)).collect::<Vec<V>>());
        Self {
            bucket: Words::new(&device, &[0; BUCKET_WORDS]),
            values: values.map(|values| Words::new(&device, &values)),
            keys: keys.map(|keys| Words::new(&device, &keys)),
            outcomes: Words::new(&device, &[Outcome::Found as u8; THREADS]),
            device,
        }
    }

    /// Adds both batches at the same time. Returns the failure, if any.
    fn keep(&self) -> Result<(), String> {
        let launch = |batch: usize| {
            let (keys, values) = (self.keys[batch].slice(), self.values[batch].slice());
            let (words, outcomes) = (self.bucket.slice(), self.outcomes.slice());
            let kernel = TieredKeep::<Hot<K, V>> { words, seed: 0, keys, values, outcomes };
            Launch::new(Grid::new(1, THREADS as u32), kernel)
        };
        self.device.launch_all(vec![launch(0), launch(1)]).map_err(|failure| failure.to_string())?;
        Ok(())
    }

    /// Returns the pairs of the bucket, and what is wrong, if anything.
    fn checked(&self) -> Result<BTreeMap<K, V>, String> {
        let bytes: Vec<u8> =
            (0..BUCKET_WORDS).flat_map(|index| self.bucket.read(index).to_le_bytes()).collect();
        let (state, slots) = (State::from_word(self.bucket.read(0)), Hot::<K, V>::SLOTS as usize);
        let (of_key, of_value) = (K::BITS as usize / 8, V::BITS as usize / 8);
        let at = |first: usize, len: usize| {
            bytes[first..first + len].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
        };
        let mut pairs = BTreeMap::new();
        for slot in (0..slots).filter(|&slot| state.score(slot as u32) > 0) {
            let key = K::from_u64(at(8 + slot * of_key, of_key));
            let value = V::from_u64(at(128 - (slots - slot) * of_value, of_value));
            if value != value_of(key) {
                return Err(format!("{key:?} has the value {value:?}"));
            }
            if pairs.insert(key, value).is_some() {
                return Err(format!("{key:?} is there twice"));
            }
        }
        if state.is_locked() { Err("it stays locked".to_owned()) } else { Ok(pairs) }
    }
}

/// Runs an exploration. Returns what is wrong, if anything.
fn explored<K: Scalar, V: Scalar>(seed: u64, faults: &[Fault]) -> Result<BTreeMap<K, V>, String> {
    let world = World::<K, V>::new(seed, faults);
    world.keep()?;
    world.checked()
}

#[test]
fn tiles_that_keep_pairs_in_one_bucket() {
    let mut most = 0;
    for seed in 0..150 {
        let pairs = explored::<u32, u32>(seed, &[]).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
        most = most.max(pairs.len());
        assert!(explored::<u64, u64>(seed, &[]).unwrap_or_else(|wrong| panic!("{seed}: {wrong}")).len() <= 7);
        explored::<u32, u64>(seed, &[]).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
        explored::<u64, u32>(seed, &[]).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
    }
    assert_eq!(most, 11, "all keys");
}

/// Lookups raise scores while others do; then keys are removed by several tiles.
#[test]
fn lookups_and_removals_of_one_bucket() {
    for seed in 0..60 {
        let world = World::<u32, u64>::new(seed, &[]);
        world.keep().unwrap();
        let pairs = world.checked().unwrap();
        let (found, values) =
            (Words::new(&world.device, &[9u8; THREADS]), Words::new(&world.device, &[0u64; THREADS]));
        let numbers = Words::new(&world.device, &[0u32; THREADS]);
        let look_up = TieredLookUp::<Hot<u32, u64>> {
            words: world.bucket.slice(),
            seed: 0,
            keys: world.keys[0].slice(),
            values: values.slice(),
            outcomes: found.slice(),
            numbers: numbers.slice(),
            found: 3,
            touches: 1,
        };
        world.device.launch(Grid::new(1, THREADS as u32), look_up).unwrap();
        for thread in 0..THREADS {
            let value = pairs.get(&world.keys[0].read(thread));
            assert_eq!(found.read(thread), if value.is_some() { 3 } else { 0 });
            assert_eq!((values.read(thread), numbers.read(thread)), (*value.unwrap_or(&0), thread as u32));
        }
        assert_eq!(world.checked().unwrap(), pairs);
        let (words, keys) = (world.bucket.slice(), world.keys[0].slice());
        let forget = TieredForget::<Hot<u32, u64>> { words, seed: 0, keys };
        world.device.launch(Grid::new(1, THREADS as u32), forget).unwrap();
        let left = world.checked().unwrap();
        let is_gone = |key: &u32| (0..THREADS).any(|thread| world.keys[0].read(thread) == *key);
        assert!(pairs.iter().all(|(key, value)| left.get(key) == (!is_gone(key)).then_some(value)));
    }
}

/// Adds the keys of two batches to a sample at the same time, and then those of one of them again. Returns
/// how many lookups have missed their keys, each time.
fn sampled(seed: u64, buckets: u32) -> [u64; 2] {
    let world = World::<u32, u32>::new(seed, &[]);
    let missed = [0, 1].map(|_| Words::new(&world.device, &[0u64]));
    let launch = |batch: usize, number: usize| {
        let (words, keys, missed) = (world.bucket.slice(), world.keys[batch].slice(), missed[number].slice());
        let kernel = TieredSample::<Hot<u32, u32>> { words, buckets, seed: 0, keys, missed };
        Launch::new(Grid::new(1, THREADS as u32), kernel)
    };
    world.device.launch_all(vec![launch(0, 0), launch(1, 0)]).unwrap();
    let check = |world: &World<u32, u32>| {
        let state = State::from_word(world.bucket.read(0));
        assert!(!state.is_locked());
        let bytes: Vec<u8> =
            (0..BUCKET_WORDS).flat_map(|index| world.bucket.read(index).to_le_bytes()).collect();
        let key = |slot: usize| bytes[8 + 4 * slot..12 + 4 * slot].to_vec();
        let mut keys: Vec<Vec<u8>> = (0..15).filter(|&slot| state.score(slot as u32) > 0).map(key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "no key is there twice");
        all as u64
    };
    let there = check(&world);
    world.device.launch_all(vec![launch(0, 1)]).unwrap();
    assert!(check(&world) >= there);
    assert!(missed[0].read(0) >= there);
    missed.map(|missed| missed.read(0))
}

#[test]
fn a_sample_misses_new_keys() {
    let (mut new, mut again) = (0, 0);
    for seed in 0..60 {
        let [first, second] = sampled(seed, 1);
        assert!((1..=64).contains(&first) && second <= 32);
        (new, again) = (new + first, again + second);
        assert_eq!(sampled(seed, u32::MAX), [0, 0], "no key is in the sample");
    }
    assert!(again < new / 4, "{again} {new}");
}

/// Requires that explorations find a fault of the `nth` operation of a function with this text.
fn is_found(file: &str, function: &str, (text, nth): (&str, usize), fault: fn(SiteId) -> Fault) {
    let file = format!("src/tiered/hot/{file}.rs");
    let faults = [fault(SiteId::find_nth(&file, function, text, nth).unwrap())];
    let is_wrong = |seed: &u64| {
        explored::<u32, u32>(*seed, &faults).is_err() || explored::<u64, u64>(*seed, &faults).is_err()
    };
    let found = (0..400).find(is_wrong).expect("the fault is found");
    assert!(is_wrong(&found), "it replays");
    assert!(faults[0].effects() > 0);
}

#[test]
fn a_lock_that_is_not_taken_is_found() {
    is_found("mod", "try_lock", ("compare_exchange", 0), Fault::skip);
}

#[test]
fn a_lock_in_two_steps_is_found() {
    is_found("mod", "try_lock", ("compare_exchange", 0), Fault::tear);
}

#[test]
fn a_lock_that_acquires_nothing_is_found() {
    is_found("mod", "try_lock", ("compare_exchange", 0), |site| Fault::order(site, Order::Relaxed));
}

#[test]
fn a_lock_that_releases_nothing_is_found() {
    is_found("mod", "unlock", ("self.words.store", 0), |site| Fault::order(site, Order::Relaxed));
}

#[test]
fn lanes_that_do_not_wait_for_the_lock_are_found() {
    is_found("kernels", "keep", ("tile.sync", 0), Fault::skip);
}

#[test]
fn a_release_before_the_pair_is_found() {
    is_found("kernels", "keep", ("tile.sync", 1), Fault::skip);
}

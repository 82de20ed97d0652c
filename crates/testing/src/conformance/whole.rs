//! Operations on the map as a whole.
use crate::common::Rng;
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use phalanx::hash_map::{Growth, HashMap, Op, Outcome};
use phalanx::map::Word;
use phalanx_kernels::keyed::Scalar;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Returns a map of `len` pairs, key n with value 3n and the last three keys from the top of the range, and
/// its expected contents.
fn filled<M: Tested>(kind: &Kind<M>, len: u64) -> (M, BTreeMap<M::Key, M::Value>) {
    let map = kind.map(1);
    let key = |n: u64| if n + 3 < len { n } else { u64::MAX - (len - 1 - n) };
    let (keys, values) = kind.columns((0..len).map(|n| (key(n), n * 3)));
    let outcomes = map.insert(&keys, &values).unwrap();
    assert_eq!(outcomes, vec![Outcome::Inserted; len as usize], "{}", kind.name);
    (map, keys.into_iter().zip(values).collect())
}

pub fn growth_keeps_everything<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(1);
    let mut model = BTreeMap::new();
    for part in 0..6u64 {
        let (keys, values) = kind.columns((0..200).map(|n| (part * 150 + n, part)));
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        model.extend(keys.into_iter().zip(values));
        assert_eq!(contents(&map), model, "{}", kind.name);
    }
}

pub fn a_growing_table_keeps_its_measure<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.map(1);
    let first = map.slots();
    for part in 0..6 {
        let (keys, values) = kind.columns((0..200).map(|n| (part * 150 + n, part)));
        assert!(map.insert(&keys, &values).unwrap().all_placed());
    }
    assert!(map.slots() >= 950 && map.slots() > first, "{}: {}", kind.name, map.slots());
    assert!(map.slots() < 8000, "{}: {} slots for 950 pairs", kind.name, map.slots());
}

pub fn ranges_are_retained<M: Tested>(kind: &Kind<M>) {
    let (mut map, mut model) = filled(kind, 150);
    let at = |n| M::Key::from_u64(n);
    map.retain_keys(at(10)..=at(u64::MAX - 1)).unwrap();
    model.retain(|key, _| (at(10)..=at(u64::MAX - 1)).contains(key));
    assert_eq!(contents(&map), model, "{}", kind.name);
    let values = M::Value::from_u64(60)..=M::Value::from_u64(445);
    map.retain_values(values.clone()).unwrap();
    model.retain(|_, value| values.contains(value));
    assert_eq!(contents(&map), model, "{}", kind.name);
    map.retain_keys(at(33)..=at(33)).unwrap();
    assert_eq!(contents(&map).into_keys().collect::<Vec<_>>(), [at(33)], "{}", kind.name);
    map.retain_keys(at(0)..=at(0)).unwrap();
    assert!(map.is_empty().unwrap(), "{}", kind.name);
}

pub fn predicates_are_retained<M: Tested>(kind: &Kind<M>) {
    let (mut map, mut model) = filled(kind, 120);
    let keep = |key: M::Key, value: M::Value| (key.to_u64() ^ value.to_u64()) % 3 == 1;
    map.retain(keep).unwrap();
    model.retain(|&key, value| keep(key, *value));
    assert_eq!(contents(&map), model, "{}", kind.name);
    assert_eq!(map.iter().unwrap().collect::<BTreeMap<_, _>>(), model, "{}", kind.name);
}

pub fn tables_are_resized<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let (mut map, model) = filled(kind, 100);
    let (slots, memory) = (map.slots(), map.memory_usage());
    map.reserve(4000).unwrap();
    assert!(map.capacity() >= 4100 && map.memory_usage() > memory, "{}", kind.name);
    assert_eq!(contents(&map), model, "{}", kind.name);
    let reserved = map.slots();
    let (keys, values) = kind.columns((1000..5000).map(|key| (key, 1)));
    assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; 4000]);
    assert_eq!(map.slots(), reserved, "{}: there was room", kind.name);
    assert!(map.remove(&keys).unwrap().into_iter().all(|removed| removed));
    map.compact().unwrap();
    assert_eq!(contents(&map), model, "{}", kind.name);
    map.shrink_to_fit().unwrap();
    assert!(map.slots() <= slots && map.capacity() >= 100, "{}: {}", kind.name, map.slots());
    assert_eq!(contents(&map), model, "{}", kind.name);
    map.clear().unwrap();
    assert!(contents(&map).is_empty() && map.slots() <= slots, "{}", kind.name);
    assert_eq!(map.get(&keys[..2]).unwrap(), [None, None], "{}", kind.name);
    let one = (K::from_u64(5), V::from_u64(6));
    assert_eq!(map.insert(&[one.0], &[one.1]).unwrap(), [Outcome::Inserted], "{}", kind.name);
    assert_eq!(contents(&map), BTreeMap::from([one]), "{}", kind.name);
}

pub fn cleared_maps_begin_anew<M: Tested>(kind: &Kind<M>) {
    let (mut map, model) = filled(kind, 300);
    for _ in 0..2 {
        map.clear().unwrap();
        assert!(contents(&map).is_empty() && map.is_empty().unwrap(), "{}", kind.name);
        let (keys, values): (Vec<_>, Vec<_>) = model.clone().into_iter().unzip();
        assert_eq!(map.get(&keys).unwrap(), vec![None; 300], "{}", kind.name);
        assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; 300], "{}", kind.name);
        assert_eq!(contents(&map), model, "{}", kind.name);
    }
}

/// Four threads insert concurrently, each its own keys and some shared ones, while the map grows.
pub fn threads_share_a_growing_map<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(1);
    let inserted = std::sync::Mutex::new(0);
    let work = &|thread: u64| {
        for part in 0..5 {
            let own = (0..20).map(|n| (1000 * (thread + 1) + part * 20 + n, thread));
            let (keys, values) = kind.columns(own.chain((0..10).map(|n| (n, thread))));
            let outcomes = map.insert(&keys, &values).unwrap();
            let new = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
            *inserted.lock().unwrap() += new;
            assert!(map.get(&keys).unwrap().iter().all(Option::is_some), "{}", kind.name);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    assert_eq!(contents(&map).len(), 410, "{}", kind.name);
    assert_eq!(inserted.into_inner().unwrap(), 410, "{}: each key is inserted once", kind.name);
}

/// Tombstones are no free slots: where they use up too many slots, `reserve` reclaims them.
pub fn reserved_room_is_there<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let mut map = kind.builder().capacity(200).growth(Growth::Fixed).build().unwrap();
    let (keys, values) = kind.columns((0..200).map(|key| (key, key)));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert!(map.remove(&keys[1..]).unwrap().into_iter().all(|removed| removed));
    map.reserve(150).unwrap();
    let (more, values) = kind.columns((1000..1150).map(|key| (key, key)));
    assert_eq!(map.insert(&more, &values).unwrap(), vec![Outcome::Inserted; 150], "{}", kind.name);
    assert_eq!(contents(&map).len(), 151, "{}", kind.name);
}

pub fn the_capacity_is_held_without_growing<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    for load_factor in [0.5, 0.8, 0.9, 0.95] {
        let map = kind.builder().capacity(1500).load_factor(load_factor).build().unwrap();
        let (slots, capacity) = (map.slots(), map.capacity() as u64);
        let (keys, values) = kind.columns((0..capacity).map(|key| (key, key)));
        let outcomes = map.insert(&keys, &values).unwrap();
        assert_eq!(outcomes, vec![Outcome::Inserted; keys.len()], "{}", kind.name);
        assert_eq!(map.slots(), slots, "{}: it grew at a load of {load_factor}", kind.name);
    }
}

/// The table grows before it refuses a key, because probe sequences become long long before that.
pub fn a_table_that_gets_too_full_grows<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.builder().capacity(1000).build().unwrap();
    let slots = map.slots() as u64;
    let insert = |keys: std::ops::Range<u64>| {
        let (keys, values) = kind.columns(keys.map(|key| (key, key)));
        assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; keys.len()]);
    };
    insert(0..slots * 89 / 100);
    assert_eq!(map.slots() as u64, slots, "{}: there was room", kind.name);
    insert(slots..slots + slots / 50);
    assert!(map.slots() as u64 >= slots * 2, "{}: {} slots", kind.name, map.slots());
    assert_eq!(contents(&map).len() as u64, slots * 89 / 100 + slots / 50, "{}", kind.name);
}

/// Threads that find a table full at the same time grow it once, not once each.
pub fn threads_that_are_refused_together_grow_once<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let (keys, values) = &kind.columns((0..300).map(|key| (key, 1)));
    for _ in 0..5 {
        let map = kind.builder().capacity(1).build().unwrap();
        let start = &std::sync::Barrier::new(8);
        let work = || {
            start.wait();
            map.insert(keys, values).unwrap()
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(contents(&map).len(), 300, "{}", kind.name);
        assert!(map.slots() < 1200, "{}: {} slots for 300 pairs", kind.name, map.slots());
    }
}

/// Keys that one thread inserts in ascending order, two a call, and how far it is.
#[derive(Default)]
struct Progress {
    /// Number of keys whose calls have begun, including those that have ended.
    begun: Mutex<u64>,
    ended: Mutex<u64>,
}

impl Progress {
    const KEYS: u64 = 16_000;

    fn insert_until<M: Tested>(&self, kind: &Kind<M>, map: &M, is_enough: impl Fn() -> bool) {
        for next in (0..).step_by(2).take_while(|_| !is_enough()) {
            let (keys, values) = kind.columns((next..next + 2).map(|key| (key % Self::KEYS, key)));
            *self.begun.lock().unwrap() = next + 2;
            assert!(map.insert(&keys, &values).unwrap().all_placed());
            *self.ended.lock().unwrap() = next + 2;
        }
    }

    /// Lists a map and checks it: keys whose calls ended before occur, keys whose calls begin afterwards do
    /// not. A key between may occur without its neighbour: a call that has to grow the map is several
    /// launches.
    fn check_listing<M: Tested>(&self, kind: &Kind<M>, map: &M) {
        let ended = self.ended.lock().unwrap().min(Self::KEYS);
        let mut listed: Vec<u64> = map.iter().unwrap().map(|(key, _)| key.to_u64()).collect();
        let begun = self.begun.lock().unwrap().min(Self::KEYS);
        listed.sort_unstable();
        assert!(listed.is_sorted_by(|one, next| one < next), "{}: a key occurs twice", kind.name);
        assert!(listed.last().is_none_or(|&last| last < begun), "{}: {listed:?} of {begun}", kind.name);
        let missing: Vec<u64> = (0..ended).filter(|key| listed.binary_search(key).is_err()).collect();
        assert!(missing.is_empty(), "{}: {missing:?} of {ended} keys", kind.name);
    }
}

/// Iteration terminates, and lists all keys of completed calls, while another thread inserts without pause.
pub fn pairs_are_listed_beside_insertions<M: Tested>(kind: &Kind<M>) {
    let (map, progress) = (&kind.map(20_000), &Progress::default());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..20).for_each(|_| progress.check_listing(kind, map)));
        progress.insert_until(kind, map, || reader.is_finished());
    });
}

/// Threads mix all operations on one growing map. Each uses its own keys, and sees only the effects of its
/// own operations on them.
pub fn threads_each_see_their_own_keys<M: Tested>(kind: &Kind<M>) {
    let map = &kind.map(1);
    let expected: BTreeMap<_, _> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|thread| scope.spawn(move || live_alone(kind.name, map, thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(contents(map), expected, "{}", kind.name);
}

/// Runs one thread's operations on the map and on a model. Returns the model.
fn live_alone<M: Tested>(name: &str, map: &M, thread: u64) -> BTreeMap<M::Key, M::Value> {
    let (mut rng, mut model) = (Rng::new(crate::common::seed() * 4 + thread), BTreeMap::new());
    for _ in 0..20 {
        let ops: Vec<Op<M::Key, M::Value>> = draw(&mut rng, thread);
        for (&op, (outcome, value)) in ops.iter().zip(map.execute(&ops).unwrap()) {
            assert_eq!((outcome, value), answer(&mut model, op), "{name}: {op:?}");
        }
        if rng.below(4) == 0 {
            let listed: BTreeMap<_, _> = map.iter().unwrap().collect();
            assert!(model.iter().all(|(key, value)| listed.get(key) == Some(value)), "{name}");
        }
    }
    model
}

/// Generates operations on distinct keys of a thread, including one of the topmost.
fn draw<K: Word, V: Word>(rng: &mut Rng, thread: u64) -> Vec<Op<K, V>> {
    let mut ops = BTreeMap::new();
    for _ in 0..rng.below(60) {
        let number = rng.below(80);
        let key = K::from_u64(if number == 0 { u64::MAX - thread } else { number * 4 + thread });
        let value = V::from_u64(rng.below(1 << 40));
        let op = match rng.below(5) {
            0 => Op::Get(key),
            1 | 2 => Op::Remove(key),
            3 => Op::GetOrInsert(key, value),
            _ => Op::Insert(key, value),
        };
        ops.insert(key, op);
    }
    ops.into_values().collect()
}

/// Applies an operation to a model and returns the expected result.
fn answer<K: Word, V: Word>(model: &mut BTreeMap<K, V>, op: Op<K, V>) -> (Outcome, Option<V>) {
    let (_, key, argument) = op.parts();
    let was = model.get(&key).copied();
    let (here, gone) = match op {
        Op::Get(_) => (Outcome::Found, Outcome::Absent),
        Op::Remove(_) => (Outcome::Removed, Outcome::Absent),
        Op::Insert(..) => (Outcome::Replaced, Outcome::Inserted),
        _ => (Outcome::Found, Outcome::Inserted),
    };
    match op {
        Op::Remove(_) => drop(model.remove(&key)),
        Op::Insert(..) => drop(model.insert(key, argument)),
        Op::GetOrInsert(..) => _ = model.entry(key).or_insert(argument),
        _ => (),
    }
    let told = match op {
        Op::Remove(_) => None,
        Op::Get(_) => was,
        _ => Some(was.unwrap_or(argument)),
    };
    (if was.is_some() { here } else { gone }, told)
}

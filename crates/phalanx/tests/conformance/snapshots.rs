//! Snapshots, compared with copies of `std::collections::BTreeMap`.
use crate::common::{Rng, outcomes, seed};
use crate::kinds::{Kind, contents};
use checker::MapValue;
use gpu::Device;
use phalanx::map::Word;
use phalanx::mvbtree::{Builder, Growth, MOST, Snapshot, Updates};
use phalanx::{Error, MultiVersionBTree, Outcome};
use simt::emulator::Options;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeFull};

type Tree<K, V> = MultiVersionBTree<K, V>;

/// Changes some pairs of a tree and of its model.
fn change<K: Word, V: Word + MapValue>(tree: &Tree<K, V>, model: &mut BTreeMap<K, V>, rng: &mut Rng) {
    let key = |rng: &mut Rng| match rng.below(20) {
        0 => K::MAX,
        1 => K::from_u64(0),
        _ => K::from_u64(rng.below(700) * 3),
    };
    let mut pairs = BTreeMap::new();
    for _ in 0..rng.pick(&[1, 10, 120]) {
        pairs.insert(key(rng), V::from_u64(rng.below(1 << 30)));
    }
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    let outcomes = tree.insert(&keys, &values).unwrap();
    assert!(!outcomes.contains(&Outcome::Refused), "{}", tree.variant());
    model.extend(pairs);
    let gone: Vec<K> = model.keys().copied().filter(|_| rng.below(4) == 0).collect();
    assert!(tree.remove(&gone).unwrap().into_iter().all(|removed| removed), "{}", tree.variant());
    model.retain(|key, _| !gone.contains(key));
}

/// Compares a snapshot of the tree with the model.
fn compare<K: Word, V: Word + MapValue>(
    tree: &Tree<K, V>,
    then: &Snapshot<'_, K, V>,
    model: &BTreeMap<K, V>,
) {
    let (at, name) = (tree.at(then).unwrap(), tree.variant());
    let all: Vec<(K, V)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    assert_eq!(at.range(&[..]).unwrap(), std::slice::from_ref(&all), "{name}");
    assert_eq!(at.iter().unwrap().collect::<Vec<_>>(), all, "{name}");
    let keys: Vec<K> = (0..60).map(|n| K::from_u64(n * 37)).chain([K::MAX]).collect();
    let values: Vec<Option<V>> = keys.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(at.get(&keys).unwrap(), values, "{name}");
    let there: Vec<bool> = values.iter().map(Option::is_some).collect();
    assert_eq!(at.contains_key(&keys).unwrap(), there, "{name}");
    let pair = |(key, value): (&K, &V)| (*key, *value);
    let above = |key: &K| model.range((Bound::Excluded(*key), Bound::Unbounded)).next().map(pair);
    let below = |key: &K| model.range(..*key).next_back().map(pair);
    assert_eq!(at.successor(&keys).unwrap(), keys.iter().map(above).collect::<Vec<_>>(), "{name}");
    assert_eq!(at.predecessor(&keys).unwrap(), keys.iter().map(below).collect::<Vec<_>>(), "{name}");
    let from = |key: &K| model.range(*key..).next().map(pair);
    let until = |key: &K| model.range(..=*key).next_back().map(pair);
    assert_eq!(at.ceiling(&keys).unwrap(), keys.iter().map(from).collect::<Vec<_>>(), "{name}");
    assert_eq!(at.floor(&keys).unwrap(), keys.iter().map(until).collect::<Vec<_>>(), "{name}");
    assert_eq!(at.first().unwrap(), model.first_key_value().map(pair), "{name}");
    assert_eq!(at.last().unwrap(), model.last_key_value().map(pair), "{name}");
    let ranges: Vec<_> = keys.windows(4).map(|some| some[0]..some[3]).collect();
    let counts: Vec<u64> = ranges.iter().map(|range| model.range(range.clone()).count() as u64).collect();
    assert_eq!(at.count(&ranges).unwrap(), counts, "{name}");
}

pub fn snapshots_are_past_states<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.map(1);
    let (mut model, mut rng) = (BTreeMap::new(), Rng::new(seed()));
    let mut past: Vec<(Snapshot<'_, K, V>, BTreeMap<K, V>)> = Vec::new();
    for round in 0..12 {
        past.push((tree.snapshot().unwrap(), model.clone()));
        if round % 3 == 1 {
            past.push((tree.snapshot().unwrap(), model.clone()));
        }
        change(&tree, &mut model, &mut rng);
        if past.len() > 3 {
            drop(past.remove(rng.below(past.len() as u64) as usize));
        }
        past.iter().for_each(|(then, model)| compare(&tree, then, model));
        assert_eq!(contents(&tree), model, "{}, round {round}", kind.name);
    }
    let stamps: Vec<u32> = past.iter().map(|(then, _)| then.stamp().unwrap()).collect();
    assert!(stamps.is_sorted(), "{}: {stamps:?}", kind.name);
    drop(past);
    tree.drain().unwrap();
    assert_eq!((tree.versions().unwrap(), tree.drain().unwrap()), (0, 0), "{}", kind.name);
    assert_eq!(contents(&tree), model, "{}", kind.name);
}

pub fn order_is_that_of_std_now_and_then<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.map(1);
    let (mut model, mut rng) = (BTreeMap::new(), Rng::new(seed() + 1));
    for _ in 0..4 {
        change(&tree, &mut model, &mut rng);
        let all: Vec<(K, V)> = model.iter().map(|(&key, &value)| (key, value)).collect();
        assert_eq!(tree.range(&[..]).unwrap(), std::slice::from_ref(&all), "{}", kind.name);
        assert_eq!(tree.count(&[..]).unwrap(), [all.len() as u64], "{}", kind.name);
        assert_eq!(
            (tree.first().unwrap(), tree.last().unwrap()),
            (all.first().copied(), all.last().copied())
        );
        let keys: Vec<K> = all.iter().map(|pair| pair.0).collect();
        let next: Vec<_> = all.iter().skip(1).copied().map(Some).chain([None]).collect();
        assert_eq!(tree.successor(&keys).unwrap(), next, "{}", kind.name);
        let before: Vec<_> =
            [None].into_iter().chain(all.iter().copied().map(Some)).take(all.len()).collect();
        assert_eq!(tree.predecessor(&keys).unwrap(), before, "{}", kind.name);
        let own: Vec<_> = all.iter().copied().map(Some).collect();
        assert_eq!((tree.ceiling(&keys).unwrap(), tree.floor(&keys).unwrap()), (own.clone(), own));
        on_buffers(kind, &tree, &model);
    }
    let now = tree.snapshot().unwrap();
    assert!(tree.at(&now).unwrap().iter().unwrap().eq(model.clone()), "{}", kind.name);
    assert!(tree.iter().unwrap().eq(model), "{}", kind.name);
}

/// Queries ranges of the current state on device buffers.
fn on_buffers<K: Word, V: Word + MapValue>(
    kind: &Kind<Tree<K, V>>,
    tree: &Tree<K, V>,
    model: &BTreeMap<K, V>,
) {
    let (device, stream) = (&kind.device, kind.device.stream().unwrap());
    let lows = device.from_slice(&kind.keys([0, 300, 2000])).unwrap();
    let highs = device.from_slice(&kind.keys([200, 900, u64::MAX])).unwrap();
    let (mut keys, mut values) = (device.zeroed::<K>(12).unwrap(), device.zeroed::<V>(12).unwrap());
    let mut counts = device.zeroed::<u64>(3).unwrap();
    tree.ordered_on(&stream).range(&lows, &highs, 4, &mut keys, &mut values, &mut counts).unwrap();
    let (counts, keys) = (counts.read().unwrap(), keys.read().unwrap());
    for (place, (low, high)) in [(0, 200), (300, 900), (2000, u64::MAX)].into_iter().enumerate() {
        let within = model.range(K::from_u64(low)..=K::from_u64(high)).take(4).map(|(key, _)| *key);
        let found = keys[4 * place..][..counts[place] as usize].iter().copied();
        assert!(found.eq(within), "{}: {low} to {high}", kind.name);
    }
}

pub fn snapshots_are_taken_in_streams<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.map(100);
    let stream = kind.device.stream().unwrap();
    if tree.updates() == Updates::InPlace {
        assert!(matches!(tree.snapshot_on(&stream), Err(Error::ClockStands)), "{}", kind.name);
        return;
    }
    let device = &kind.device;
    let (mut past, mut model) = (Vec::new(), BTreeMap::new());
    for round in 0..5u64 {
        past.push((tree.snapshot_on(&stream).unwrap(), model.clone()));
        let (keys, values) = kind.columns((0..90).map(|n| (n * (round + 1), n + round)));
        model.extend(keys.iter().copied().zip(values.iter().copied()));
        let (keys, values) = (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap());
        tree.on(&stream).insert(&keys, &values, None).unwrap();
    }
    let asked = device.from_slice(&kind.keys([7, 8, 9])).unwrap();
    let (mut values, mut outcomes) = (device.zeroed::<V>(3).unwrap(), device.zeroed::<u8>(3).unwrap());
    for (then, model) in &past {
        let at = tree.at(then).unwrap();
        at.get_on(&stream, &asked, &mut values, &mut outcomes).unwrap();
        let told = outcomes.read().unwrap();
        let is_there = |key: u64| model.contains_key(&K::from_u64(key));
        let found = told.iter().map(|&code| code == Outcome::Found as u8);
        assert!(found.eq([7, 8, 9].map(is_there)), "{}: {told:?}", kind.name);
    }
    stream.synchronize().unwrap();
    past.iter().for_each(|(then, model)| compare(&tree, then, model));
    assert_eq!(contents(&tree), model, "{}", kind.name);
}

/// A tree that is overwritten repeatedly, with snapshots taken and dropped, needs no more memory than at
/// first.
pub fn what_is_dropped_is_freed<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.builder().nodes(900).growth(Growth::Fixed).build().unwrap();
    let mut live = None;
    for round in 0..25u64 {
        let (keys, values) = kind.columns((0..500).map(|n| (n * 5, n + round)));
        let then = tree.snapshot().unwrap();
        let outcomes = tree.insert(&keys, &values).unwrap();
        assert!(!outcomes.contains(&Outcome::Refused), "{}, round {round}", kind.name);
        if round > 0 {
            let old: Vec<Option<V>> = (0..500).map(|n| Some(V::from_u64(n + round - 1))).collect();
            assert_eq!(tree.at(&then).unwrap().get(&keys).unwrap(), old, "{}, round {round}", kind.name);
            assert!(tree.versions().unwrap() > 0, "{}: a snapshot needs some", kind.name);
        }
        drop(then);
        tree.remove(&[]).unwrap();
        tree.drain().unwrap();
        let now = tree.stats().unwrap().live;
        // Full inner nodes are split by operations that pass through them.
        let first = *live.get_or_insert(now);
        assert!(now <= first + 8, "{}, round {round}: {first} slabs were live, and {now} are", kind.name);
        assert_eq!(tree.versions().unwrap(), 0, "{}, round {round}", kind.name);
    }
    assert_eq!(contents(&tree).len(), 500, "{}", kind.name);
}

pub fn a_full_pool_refuses_and_loses_nothing<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    refuses_and_loses_nothing(kind, false, |builder| builder.growth(Growth::Fixed));
}

/// Slabs that a sweep frees are reused, whether the pool has reached its budget or cannot grow at all.
pub fn a_budget_that_is_used_up_refuses_and_loses_nothing<K: Word, V: Word + MapValue>(
    kind: &Kind<Tree<K, V>>,
) {
    let slab = if kind.name.contains("_256_") { 256 } else { 128 };
    refuses_and_loses_nothing(kind, true, |builder| builder.growth(Growth::Pool).budget(64 * slab));
}

fn refuses_and_loses_nothing<K: Word, V: Word + MapValue>(
    kind: &Kind<Tree<K, V>>,
    grows: bool,
    bounded: impl FnOnce(Builder<K, V>) -> Builder<K, V>,
) {
    let tree = bounded(kind.builder().nodes(40).super_block_slabs(32)).build().unwrap();
    // Enough pairs that their leaves occupy half of the slabs, unless leaves are much fuller than splits
    // leave them; never all slabs.
    let (keys, values) = kind.columns((0..320).map(|n| (n * 7, n)));
    let inserted = outcomes(tree.insert(&keys, &values));
    let model: BTreeMap<K, V> = keys
        .iter()
        .copied()
        .zip(values.iter().copied())
        .zip(&inserted)
        .filter(|(_, outcome)| **outcome == Outcome::Inserted)
        .map(|(pair, _)| pair)
        .collect();
    assert_eq!(contents(&tree), model, "{}", kind.name);
    let then = tree.snapshot().unwrap();
    // Each leaf now needs a copy, and there are not enough slabs.
    let (mut now, others) = (model.clone(), kind.columns((0..320).map(|n| (n * 7, n + 1))).1);
    let said = tree.insert(&keys, &others);
    assert_eq!(said.is_err(), grows, "{}: {said:?}", kind.name);
    let told = outcomes(said);
    for (place, outcome) in told.iter().enumerate() {
        if *outcome != Outcome::Refused {
            now.insert(keys[place], others[place]);
        }
    }
    assert!(told.contains(&Outcome::Refused), "{}: {} slabs", kind.name, tree.stats().unwrap().capacity);
    assert_eq!(contents(&tree), now, "{}", kind.name);
    compare(&tree, &then, &model);
    removes_what_it_says(kind, &tree, &mut now);
    assert_eq!(contents(&tree), now, "{}", kind.name);
    compare(&tree, &then, &model);
    drop(then);
    let rest: Vec<K> = contents(&tree).into_keys().collect();
    assert!(tree.remove(&rest).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
    assert!(contents(&tree).is_empty(), "{}", kind.name);
}

/// Removes all pairs of a tree that has too few slabs to do so.
fn removes_what_it_says<K: Word, V: Word + MapValue>(
    kind: &Kind<Tree<K, V>>,
    tree: &Tree<K, V>,
    now: &mut BTreeMap<K, V>,
) {
    let gone: Vec<K> = now.keys().copied().collect();
    let error = tree.remove(&gone).unwrap_err();
    let told = error.outcomes().unwrap_or_else(|| panic!("{}: {error}", kind.name));
    for (key, outcome) in gone.iter().zip(told) {
        match outcome {
            Outcome::Removed => assert!(now.remove(key).is_some(), "{}: {key:?}", kind.name),
            outcome => assert_eq!(*outcome, Outcome::Refused, "{}: {key:?}", kind.name),
        }
    }
}

pub fn what_cannot_be_asked_is_refused<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let (tree, other) = (kind.map(1), kind.map(1));
    let then = other.snapshot().unwrap();
    assert!(matches!(tree.at(&then), Err(Error::OtherTree)), "{}", kind.name);
    let (low, high) = (K::from_u64(3), K::from_u64(5));
    let swapped = tree.range(&[high..low]);
    assert!(matches!(swapped, Err(Error::Range { low, high }) if low == "5" && high == "3"), "{}", kind.name);
    assert_eq!(tree.count(&[low..low]).unwrap(), [0], "{}", kind.name);
    let mut many = Vec::new();
    let refused = loop {
        match tree.snapshot() {
            Ok(then) => many.push(then),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Snapshots { most } if most == many.len()), "{}: {refused}", kind.name);
    drop(many);
    assert!(tree.snapshot().is_ok(), "{}: dropped ones make room", kind.name);
}

pub fn trees_are_built_and_cleared<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..400).map(|n| (n * 3, n)).chain([(u64::MAX, 9)]));
    tree.bulk_build(&keys, &values, 0.7).unwrap();
    let mut model: BTreeMap<K, V> = keys.iter().copied().zip(values.iter().copied()).collect();
    assert_eq!(contents(&tree), model, "{}", kind.name);
    let then = tree.snapshot().unwrap();
    let before = model.clone();
    change(&tree, &mut model, &mut Rng::new(4));
    compare(&tree, &then, &before);
    drop(then);
    tree.compact(1.0).unwrap();
    assert_eq!(contents(&tree), model, "{}", kind.name);
    assert_eq!(tree.versions().unwrap(), 0, "{}", kind.name);
    tree.clear().unwrap();
    assert_eq!((tree.stats().unwrap().live, tree.len().unwrap()), (3, 0), "{}", kind.name);
    change(&tree, &mut BTreeMap::new(), &mut Rng::new(5));
}

/// Each blocking ordered query takes its own snapshot, and the snapshots of a stream are dropped at once:
/// neither uses up the snapshot slots.
pub fn questions_can_be_asked_for_ever<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.map(1);
    let (keys, values) = kind.columns([(5, 50)]);
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let (stream, first) = (kind.device.stream().unwrap(), (keys[0], values[0]));
    for round in 0..MOST + 10 {
        let found = tree.first().unwrap_or_else(|error| panic!("{}, round {round}: {error}", kind.name));
        assert_eq!(found, Some(first), "{}, round {round}", kind.name);
    }
    for round in 0..MOST + 10 {
        match tree.snapshot_on(&stream) {
            Err(Error::ClockStands) if tree.updates() == Updates::InPlace => break,
            taken => drop(taken.unwrap_or_else(|error| panic!("{}, round {round}: {error}", kind.name))),
        }
    }
    assert_eq!(contents(&tree), BTreeMap::from([first]), "{}", kind.name);
}

/// The snapshot of an ordered query ends with the query: it keeps no versions of later writes in streams,
/// which no blocking call sweeps.
pub fn a_question_keeps_nothing_once_it_is_answered<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let tree = kind.builder().nodes(4000).growth(Growth::Fixed).build().unwrap();
    let (device, stream) = (&kind.device, kind.device.stream().unwrap());
    let (keys, values) = kind.columns((0..100).map(|n| (n * 5, n)));
    assert!(!tree.insert(&keys, &values).unwrap().contains(&Outcome::Refused), "{}", kind.name);
    let (keys, values) = (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap());
    let mut told = device.zeroed::<u8>(100).unwrap();
    for round in 0..120 {
        if round == 60 {
            assert_eq!(tree.count(&[..]).unwrap(), [100], "{}", kind.name);
        }
        tree.on(&stream).insert(&keys, &values, Some(&mut told)).unwrap();
        let refused = told.read().unwrap().iter().filter(|&&code| code == Outcome::Refused as u8).count();
        assert_eq!(refused, 0, "{}, round {round}", kind.name);
    }
    tree.validate().unwrap();
}

/// A leaked snapshot keeps its versions and has no other effect.
pub fn forgotten_snapshots_do_no_harm<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let mut tree = kind.map(1);
    let (mut model, mut rng) = (BTreeMap::new(), Rng::new(seed() + 2));
    change(&tree, &mut model, &mut rng);
    std::mem::forget(tree.snapshot().unwrap());
    change(&tree, &mut model, &mut rng);
    tree.compact(0.8).unwrap();
    assert_eq!((contents(&tree), tree.versions().unwrap()), (model.clone(), 0), "{}", kind.name);
    let then = tree.snapshot().unwrap();
    let before = model.clone();
    change(&tree, &mut model, &mut rng);
    compare(&tree, &then, &before);
    drop(then);
    tree.clear().unwrap();
    model.clear();
    change(&tree, &mut model, &mut rng);
    assert_eq!(contents(&tree), model, "{}", kind.name);
}

/// Buffers and streams of another device, and buffers of wrong lengths, are rejected.
pub fn what_does_not_fit_is_refused<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let mut tree = kind.map(1);
    let (device, other) = (&kind.device, Device::emulator(Options::default()));
    let (stream, foreign) = (device.stream().unwrap(), other.stream().unwrap());
    let keys = device.from_slice(&kind.keys([1, 2])).unwrap();
    let (mut values, mut one) = (device.zeroed::<V>(2).unwrap(), device.zeroed::<V>(1).unwrap());
    let (mut codes, mut counts) = (device.zeroed::<u8>(2).unwrap(), device.zeroed::<u64>(2).unwrap());
    let mut found = device.zeroed::<K>(2).unwrap();
    let mut abroad = other.zeroed::<V>(2).unwrap();
    let taken = tree.snapshot_on(&foreign);
    assert!(matches!(taken, Err(Error::OtherDevice { .. })), "{}: {taken:?}", kind.name);
    drop(taken);
    let then = tree.snapshot().unwrap();
    let at = tree.at(&then).unwrap();
    let short = at.get_on(&stream, &keys, &mut one, &mut codes);
    assert!(matches!(short, Err(Error::Length { .. })), "{}: {short:?}", kind.name);
    let wrong = at.get_on(&stream, &keys, &mut abroad, &mut codes);
    assert!(matches!(wrong, Err(Error::OtherDevice { .. })), "{}: {wrong:?}", kind.name);
    let wrong = at.get_on(&foreign, &keys, &mut values, &mut codes);
    assert!(matches!(wrong, Err(Error::OtherDevice { .. })), "{}: {wrong:?}", kind.name);
    for ordered in [at.ordered_on(&stream), tree.ordered_on(&stream)] {
        let short = ordered.successor(&keys, &mut found, &mut one, &mut codes);
        assert!(matches!(short, Err(Error::Length { .. })), "{}: {short:?}", kind.name);
        // Two pairs per range, with buffers for one pair each.
        let short = ordered.range(&keys, &keys, 2, &mut found, &mut values, &mut counts);
        assert!(matches!(short, Err(Error::Length { .. })), "{}: {short:?}", kind.name);
        ordered.range(&keys, &keys, 1, &mut found, &mut values, &mut counts).unwrap();
        assert_eq!(counts.read().unwrap(), [0, 0], "{}", kind.name);
    }
    for ordered in [at.ordered_on(&foreign), tree.ordered_on(&foreign)] {
        let wrong = ordered.count(&keys, &keys, &mut counts);
        assert!(matches!(wrong, Err(Error::OtherDevice { .. })), "{}: {wrong:?}", kind.name);
    }
    assert!(at.range(&[] as &[RangeFull]).unwrap().is_empty(), "{}", kind.name);
    assert!(at.get(&[]).unwrap().is_empty(), "{}", kind.name);
    drop(then);
    for fill in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(matches!(tree.compact(fill), Err(Error::Fill(_))), "{}: {fill}", kind.name);
    }
}

/// A variant chosen by name reserves the memory that its update mode needs.
pub fn room_for_versions_goes_by_the_kind<K: Word, V: Word + MapValue>(kind: &Kind<Tree<K, V>>) {
    let named = kind.builder().capacity(2000).build().unwrap();
    let builder = Tree::<K, V>::builder().device(&kind.device).updates(named.updates());
    let chosen = builder.capacity(2000).build().unwrap();
    assert_eq!(named.variant(), chosen.variant());
    let slabs = [&named, &chosen].map(|tree| tree.stats().unwrap().capacity);
    assert_eq!(slabs[0], slabs[1], "{}", kind.name);
}

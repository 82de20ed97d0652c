//! Large batches in the orders of the suite `workloads/order`, on empty maps and on maps whose keys are
//! below, above, between or the same.
use crate::fixture::{CROWD, LEN, Model, Number, Ordered, new_map, random};
use crate::kinds::{Kind, contents};
use phalanx::Outcome;
use phalanx::btree::LargeBatches;

/// Length of a batch in order.
const SHORT: u64 = 2 * CROWD;

/// Lengths of batches, and orders of their distinct keys above `BASE`. Two patterns have no order, and
/// rebuild an empty map only at the larger length. The last ones end with the largest key, which has a node
/// of its own.
const PATTERNS: [(u64, Number); 8] = [
    (SHORT, |n| BASE + n),
    (SHORT, |n| BASE + SHORT - n),
    (LEN, |n| BASE + random(n)),
    (LEN, |n| BASE + n % 128 * 40_000 + n / 128 * 3), // runs that alternate
    (SHORT, |n| BASE + n % 2 * 1_000_000 + n / 2),
    (SHORT, |n| if n % 2 == 0 { BASE + n / 2 } else { BASE + SHORT - n / 2 }),
    (SHORT, |n| u64::MAX - (SHORT - 1) + n),
    (SHORT, |n| u64::MAX - n),
];

/// Lowest key of the patterns.
const BASE: u64 = 4 * LEN;

/// Returns the patterns with which a kind is tested.
fn patterns<M: Ordered>(kind: &Kind<M>) -> impl Iterator<Item = (u64, Number)> {
    let (all, is_main) = (PATTERNS.len(), kind.is_main);
    PATTERNS
        .into_iter()
        .enumerate()
        .filter(move |(number, _)| is_main || number % 3 == 1 || number + 1 == all)
        .map(|(_, pattern)| pattern)
}

/// Inserts a batch into a map and its model, and compares the outcomes.
fn insert<M: Ordered>(
    kind: &Kind<M>,
    (map, model): (&M, &mut Model<M>),
    batch: (Vec<M::Key>, Vec<M::Value>),
) {
    let (keys, values) = batch;
    let outcomes = map.insert(&keys, &values).unwrap();
    for ((&key, &value), outcome) in keys.iter().zip(&values).zip(&outcomes) {
        let old = model.insert(key, value);
        let expected = if old.is_some() { Outcome::Replaced } else { Outcome::Inserted };
        assert_eq!(*outcome, expected, "{}", kind.name);
    }
    check(kind, map, model);
}

/// Compares a map with its model, and checks its nodes.
fn check<M: Ordered>(kind: &Kind<M>, map: &M, model: &Model<M>) {
    map.validate();
    assert!(contents(map) == *model, "{}", kind.name);
    assert_eq!(map.len().unwrap(), model.len(), "{}", kind.name);
}

pub fn empty_maps_take_batches_in_any_order<M: Ordered>(kind: &Kind<M>) {
    for (len, pattern) in patterns(kind) {
        let (map, mut model) = (new_map(kind, LargeBatches::default()), Model::<M>::new());
        let (keys, values) = kind.columns((0..len).map(|n| (pattern(n), n + 1)));
        insert(kind, (&map, &mut model), (keys.clone(), values.clone()));
        assert_eq!(map.rebuilds(), 1, "{}", kind.name);
        // A node in the middle still splits, and the ends are found.
        let (more, them) = kind.columns((0..20).map(|n| (BASE + len / 2 + n * 7, n)));
        insert(kind, (&map, &mut model), (more.clone(), them));
        let gone: Vec<M::Key> = keys.iter().chain(&more).copied().collect();
        let removed: Vec<bool> = gone.iter().map(|key| model.remove(key).is_some()).collect();
        assert_eq!(map.remove(&gone).unwrap(), removed, "{}", kind.name);
        assert_eq!(map.rebuilds(), 2, "{}", kind.name);
        check(kind, &map, &model);
        let (old, outcomes) = map.replace(&keys, &values).unwrap().into_parts();
        assert!(old.iter().all(Option::is_none), "{}", kind.name);
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Inserted), "{}", kind.name);
        check(kind, &map, &keys.iter().copied().zip(values).collect());
    }
}

pub fn batches_behind_all_keys_are_appended<M: Ordered>(kind: &Kind<M>) {
    for (len, pattern) in patterns(kind) {
        for many in [1, 3000] {
            let (map, mut model) = (new_map(kind, LargeBatches::default()), Model::<M>::new());
            insert(kind, (&map, &mut model), kind.columns((0..many).map(|n| (random(n) % BASE, n))));
            let before = map.rebuilds();
            let (keys, values) = kind.columns((0..len).map(|n| (pattern(n), n)));
            insert(kind, (&map, &mut model), (keys.clone(), values));
            assert_eq!(map.rebuilds(), before + 1, "{}", kind.name);
            let (more, them) = kind.columns((0..50).map(|n| (BASE - 25 + n, n + 9)));
            insert(kind, (&map, &mut model), (more, them));
            // Of each leaf a few keys.
            let (asked, found): (Vec<M::Key>, Vec<M::Value>) =
                model.iter().step_by(5).map(|(&key, &value)| (key, value)).unzip();
            assert!(map.get(&asked).unwrap().into_iter().eq(found.into_iter().map(Some)), "{}", kind.name);
        }
    }
}

/// Batch after batch, each behind the keys of the one before, some with equal keys. In between the last
/// leaves lose all pairs: keys behind all others may then be below the lowest key of the last leaf.
pub fn appended_batches_follow_each_other<M: Ordered>(kind: &Kind<M>) {
    let (map, mut model) = (new_map(kind, LargeBatches::default()), Model::<M>::new());
    // Each parity of the keys with each length.
    for turn in 0..6u64 {
        let (base, many) = (turn * 100_000, CROWD + turn % 3 * 700);
        let key = |n| base + if turn % 2 == 0 { n } else { n / 2 * 2 };
        insert(kind, (&map, &mut model), kind.columns((0..many).map(|n| (key(n), n + turn))));
        assert_eq!(map.rebuilds(), 2 * turn + 1, "{}", kind.name);
        let gone = kind.keys(base + 900..base + 4000);
        gone.chunks(1000).for_each(|keys| drop(map.remove(keys).unwrap()));
        model.retain(|key, _| !gone.contains(key));
        check(kind, &map, &model);
        insert(kind, (&map, &mut model), kind.columns((0..CROWD).map(|n| (base + 900 + n, n))));
        assert_eq!(map.rebuilds(), 2 * turn + 2, "{}", kind.name);
    }
}

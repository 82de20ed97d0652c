//! Pools with the maximum number of super blocks that handles can address, and reserved capacity.
use crate::common::no_room;
use crate::kinds::{Kind, Tested, contents};
use crate::ordered::ByOrder;
use checker::MapValue;
use gpu::Buffer;
use phalanx::map::Word;
use phalanx::mvbtree::Growth;
use phalanx::{BTree, Error, MultiVersionBTree, Outcome, Outcomes};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Maximum number of nodes of a pool that begins with the minimum: 255 super blocks of 32 slabs.
const MOST: usize = 255 * 32;

/// Number of pairs that [`far`] generates.
const FAR: u64 = 48_500;

/// Generates distant pairs, so many that half-full nodes nearly use up such a pool.
fn far<M: Tested>(kind: &Kind<M>) -> (Vec<M::Key>, Vec<M::Value>) {
    kind.columns((0..FAR).map(|n| (n * 1000, n)))
}

/// Generates pairs between two of [`far`], not in order, which split nodes.
fn near<M: Tested>(kind: &Kind<M>) -> (Vec<M::Key>, Vec<M::Value>) {
    kind.columns((0..4000).map(|n| (3_000_001 + n * 2731 % 4000 / 999 * 1000 + n * 2731 % 4000 % 999, n)))
}

/// Copies pairs in key order to the device. To sort so many takes longer than the case that needs a tree of
/// them.
fn in_order<M: Tested>(
    kind: &Kind<M>,
    (keys, values): (&[M::Key], &[M::Value]),
) -> (Buffer<M::Key>, Buffer<M::Value>) {
    (kind.device.from_slice(keys).unwrap(), kind.device.from_slice(values).unwrap())
}

/// A pool of 32 nodes per super block cannot have a 256th super block.
pub fn pools_that_cannot_grow_are_exchanged<M: ByOrder>(kind: &Kind<M>) {
    let mut tree = kind.map(1);
    let (keys, values) = far(kind);
    let sorted = in_order(kind, (&keys, &values));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.5).unwrap();
    assert!(tree.stats().unwrap().capacity <= MOST, "{}: {:?}", kind.name, tree.stats());
    let (more, new) = near(kind);
    assert_eq!(tree.insert(&more, &new).unwrap(), vec![Outcome::Inserted; more.len()], "{}", kind.name);
    assert!(tree.stats().unwrap().capacity > MOST, "{}: {:?}", kind.name, tree.stats());
    let pairs = || keys.iter().chain(&more).copied().zip(values.iter().chain(&new).copied());
    assert_eq!(contents(&tree), pairs().collect::<BTreeMap<_, _>>(), "{}", kind.name);
}

pub fn trees_are_built_in_pools_that_are_large_enough<M: ByOrder>(kind: &Kind<M>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..100).map(|n| (n, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let (keys, values) = kind.columns((0..3 * MOST as u64 / 2).map(|n| (n * 3, n)));
    let sorted = in_order(kind, (&keys, &values));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.01).unwrap();
    assert!(tree.stats().unwrap().capacity > MOST, "{}: {:?}", kind.name, tree.stats());
    let expected: BTreeMap<M::Key, M::Value> = keys.into_iter().zip(values).collect();
    assert_eq!(contents(&tree), expected, "{}", kind.name);
}

/// Checks that the inserted pairs are in the tree and that no other pair is lost.
fn holds_what_was_inserted<K: Word, V: Word + MapValue>(
    tree: &BTree<K, V>,
    before: (Vec<K>, Vec<V>),
    more: (Vec<K>, Vec<V>),
    outcomes: Outcomes,
) {
    let inserted = more.0.into_iter().zip(more.1).zip(outcomes);
    let inserted = inserted.filter_map(|(pair, outcome)| (outcome == Outcome::Inserted).then_some(pair));
    let expected: BTreeMap<K, V> = before.0.into_iter().zip(before.1).chain(inserted).collect();
    assert_eq!(contents(tree), expected, "{}", tree.variant());
}

/// Creates a tree with a budget in nodes.
fn within_most<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>, budget: usize) -> BTree<K, V> {
    let node = if size_of::<(K, V)>() == 8 { 128 } else { 256 };
    kind.builder().nodes(1).budget(budget * node).build().unwrap()
}

/// Neither a larger pool nor a rebuilt tree fits into the budget, so keys are refused, and no pair is lost.
pub fn a_budget_is_kept_where_pools_cannot_grow<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = within_most(kind, MOST);
    let full = kind.columns((0..104_000).map(|n| (n * 1000, n)));
    let sorted = in_order(kind, (&full.0, &full.1));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 1.0).unwrap();
    let more = near(kind);
    let outcomes = no_room(tree.insert(&more.0, &more.1));
    let no_room = tree.reserve(100_000);
    assert!(matches!(no_room, Err(Error::Budget { .. })), "{}: {no_room:?}", kind.name);
    holds_what_was_inserted(&tree, full, more, outcomes);
}

/// There is no memory for more nodes, but there are underfull ones.
pub fn thin_trees_are_built_anew_rather_than_refuse<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = within_most(kind, MOST);
    let (before, more) = (far(kind), near(kind));
    let sorted = in_order(kind, (&before.0, &before.1));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.5).unwrap();
    let outcomes = tree.insert(&more.0, &more.1).unwrap();
    assert!(outcomes.all_placed(), "{}: {:?}", kind.name, tree.stats());
    assert!(tree.stats().unwrap().capacity <= MOST, "{}: {:?}", kind.name, tree.stats());
    holds_what_was_inserted(&tree, before, more, outcomes);
}

/// The budget permits a pool larger by a tenth, not by half.
pub fn pools_are_exchanged_for_what_the_budget_allows<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = within_most(kind, MOST + MOST / 10);
    let (full, more) = (kind.columns((0..104_000).map(|n| (n * 1000, n))), near(kind));
    let sorted = in_order(kind, (&full.0, &full.1));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 1.0).unwrap();
    let outcomes = tree.insert(&more.0, &more.1).unwrap();
    let capacity = tree.stats().unwrap().capacity;
    assert!((MOST + 1..=MOST + MOST / 10).contains(&capacity), "{}: {:?}", kind.name, tree.stats());
    holds_what_was_inserted(&tree, full, more, outcomes);
}

pub fn launches_find_the_room_that_was_reserved<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    for full in [false, true] {
        let mut tree = kind.map(1);
        let (keys, values) = kind.columns((0..3000).map(|n| (n * 1000, n)));
        // If all nodes are full, each of these splits one.
        let sorted = in_order(kind, (&keys, &values));
        tree.bulk_build_sorted(&sorted.0, &sorted.1, if full { 1.0 } else { 0.5 }).unwrap();
        let (keys, values) = kind.columns((0..20_000).map(|n| (n * 7919 % 20_000 * 150 + 1, n)));
        tree.reserve(keys.len()).unwrap();
        let (stream, before) = (kind.device.stream().unwrap(), tree.stats().unwrap().capacity);
        let (keys, values) =
            (kind.device.from_slice(&keys).unwrap(), kind.device.from_slice(&values).unwrap());
        tree.on(&stream).insert(&keys, &values, None).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((tree.len().unwrap(), tree.stats().unwrap().capacity), (23_000, before), "{}", kind.name);
        tree.validate().unwrap();
        // Existing capacity is not reserved again.
        tree.reserve(1).unwrap();
        assert_eq!(tree.stats().unwrap().capacity, before, "{}", kind.name);
    }
}

/// The versions of a snapshot are in the pool in which it was taken, so keys are refused until it is dropped.
pub fn pools_are_exchanged_where_no_snapshot_lives<K: Word, V: Word + MapValue>(
    kind: &Kind<MultiVersionBTree<K, V>>,
) {
    let mut tree = kind.builder().nodes(1).super_block_slabs(32).build().unwrap();
    let (keys, values) = far(kind);
    let sorted = in_order(kind, (&keys, &values));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.5).unwrap();
    let mut model: BTreeMap<K, V> = keys.into_iter().zip(values).collect();
    let (more, new) = near(kind);
    let then = tree.snapshot().unwrap();
    let refused = no_room(tree.insert(&more[..1500], &new[..1500])).refused();
    assert!(refused > 0, "{}", kind.name);
    assert!(tree.stats().unwrap().capacity <= MOST, "{}: {:?}", kind.name, tree.stats());
    assert!(tree.at(&then).unwrap().iter().unwrap().eq(model.clone()), "{}", kind.name);
    drop(then);
    let outcomes = tree.insert(&more, &new).unwrap();
    assert!(outcomes.all_placed(), "{}: {:?}", kind.name, tree.stats());
    assert!(tree.stats().unwrap().capacity > MOST, "{}: {:?}", kind.name, tree.stats());
    model.extend(more.iter().copied().zip(new));
    assert_eq!(contents(&tree), model, "{}", kind.name);
    // Timestamps continue in the new pool.
    let then = tree.snapshot().unwrap();
    assert!(tree.remove(&more).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
    assert!(tree.at(&then).unwrap().iter().unwrap().eq(model), "{}", kind.name);
    drop(then);
    tree.drain().unwrap();
    assert_eq!((tree.versions().unwrap(), tree.len().unwrap()), (0, FAR as usize), "{}", kind.name);
}

/// Versions of the old pool are waiting to be freed by kernels. These must not free nodes of the new pool
/// instead.
pub fn trees_with_versions_are_built_in_pools_that_are_large_enough<K: Word, V: Word + MapValue>(
    kind: &Kind<MultiVersionBTree<K, V>>,
) {
    let mut tree = kind.builder().nodes(1).super_block_slabs(32).build().unwrap();
    let (keys, values) = kind.columns((0..300).map(|n| (n, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let (keys, values) = kind.columns((0..3 * MOST as u64 / 2).map(|n| (n * 3, n)));
    let sorted = in_order(kind, (&keys, &values));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.01).unwrap();
    assert!(tree.stats().unwrap().capacity > MOST, "{}: {:?}", kind.name, tree.stats());
    assert_eq!(tree.insert(&keys, &values).unwrap(), vec![Outcome::Replaced; keys.len()], "{}", kind.name);
    let mut model: BTreeMap<K, V> = keys.iter().copied().zip(values).collect();
    assert_eq!(contents(&tree), model, "{}", kind.name);
    let then = tree.snapshot().unwrap();
    assert!(tree.remove(&keys[..900]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
    assert!(tree.at(&then).unwrap().iter().unwrap().eq(model.clone()), "{}", kind.name);
    model.retain(|key, _| !keys[..900].contains(key));
    drop(then);
    tree.drain().unwrap();
    assert_eq!((contents(&tree), tree.versions().unwrap()), (model, 0), "{}", kind.name);
    assert_eq!(tree.stats().unwrap().faults, 0, "{}", kind.name);
}

/// Keys are inserted at the upper end and removed at the lower end: the memory usage is bounded.
pub fn windows_that_move_take_no_more_memory<M: ByOrder>(kind: &Kind<M>) {
    let tree = kind.map(1);
    let window = |turn: u64| kind.columns((turn * 200..turn * 200 + 200).map(|n| (n, n)));
    let mut memory = 0;
    for turn in 0..40 {
        let (keys, values) = window(turn);
        assert!(!tree.insert(&keys, &values).unwrap().contains(&Outcome::Refused), "{}", kind.name);
        if turn > 0 {
            let gone = tree.remove(&window(turn - 1).0).unwrap();
            assert!(gone.into_iter().all(|removed| removed), "{}", kind.name);
        }
        if turn == 10 {
            memory = tree.memory_usage();
        }
    }
    let (keys, values) = window(39);
    assert_eq!(contents(&tree), keys.into_iter().zip(values).collect(), "{}", kind.name);
    // The number of empty leaves in a full pool varies, so the pool may have grown once more. If leaves were
    // never freed, there would be four times as many.
    assert!(tree.memory_usage() < 2 * memory, "{}: {memory} bytes became {}", kind.name, tree.memory_usage());
}

/// The tree has only a few pairs left.
pub fn room_is_made_of_what_was_removed<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..9000).map(|n| (n, n)));
    let sorted = in_order(kind, (&keys, &values));
    tree.bulk_build_sorted(&sorted.0, &sorted.1, 0.7).unwrap();
    let before = tree.stats().unwrap().capacity;
    tree.remove(&keys[100..]).unwrap();
    assert!(tree.frozen().is_ok());
    tree.reserve(1000).unwrap();
    assert!(!tree.is_frozen(), "{}: its directory was made of another tree", kind.name);
    assert_eq!(tree.stats().unwrap().capacity, before, "{}", kind.name);
    assert!(tree.stats().unwrap().free > 1000 / 7, "{}: {:?}", kind.name, tree.stats());
    assert_eq!(contents(&tree), keys.into_iter().zip(values).take(100).collect(), "{}", kind.name);
}

pub fn trees_are_built_anew_where_no_snapshot_lives<K: Word, V: Word + MapValue>(
    kind: &Kind<MultiVersionBTree<K, V>>,
) {
    let tree = kind.builder().nodes(1).super_block_slabs(32).build().unwrap();
    let (keys, values) = kind.columns((0..800).map(|n| (n, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    tree.remove(&keys[10..]).unwrap();
    let before = tree.stats().unwrap().capacity;
    let then = tree.snapshot().unwrap();
    let (more, new) = kind.columns((5000..8000).map(|n| (n, n)));
    assert!(tree.insert(&more, &new).unwrap().all_placed());
    assert!(tree.stats().unwrap().capacity > before, "{}: {:?}", kind.name, tree.stats());
    let first: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).take(10).collect();
    assert_eq!(tree.at(&then).unwrap().iter().unwrap().collect::<Vec<_>>(), first, "{}", kind.name);
    drop(then);
    tree.remove(&more).unwrap();
    let before = tree.stats().unwrap().capacity;
    for turn in 1..8 {
        let (more, new) = kind.columns((turn * 10_000..turn * 10_000 + 600).map(|n| (n, n)));
        assert!(tree.insert(&more, &new).unwrap().all_placed());
        tree.remove(&more).unwrap();
    }
    assert_eq!(tree.stats().unwrap().capacity, before, "{}: {:?}", kind.name, tree.stats());
    assert_eq!(contents(&tree), first.into_iter().collect(), "{}", kind.name);
}

/// Each query of the current state reads its own snapshot, which does not block reclamation.
pub fn windows_move_beside_questions<K: Word, V: Word + MapValue>(kind: &Kind<MultiVersionBTree<K, V>>) {
    let tree = kind.builder().nodes(1).super_block_slabs(32).build().unwrap();
    let all = |tree: &MultiVersionBTree<K, V>| tree.count(&[K::from_u64(0)..K::from_u64(1)]).unwrap();
    let (zero, value) = kind.columns([(0, 0)]);
    assert!(tree.insert(&zero, &value).unwrap().all_placed());
    // Failures are asserted after the query threads have ended.
    let (ended, mut went_well) = (Mutex::new(false), true);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !*ended.lock().unwrap() {
                    assert_eq!(all(&tree), [1]);
                }
            });
        }
        for turn in 1..50u64 {
            let (keys, values) = kind.columns((turn * 200..turn * 200 + 200).map(|n| (n, n)));
            went_well &= tree.insert(&keys, &values).is_ok_and(|all| all == [Outcome::Inserted; 200]);
            went_well &= tree.remove(&keys).is_ok_and(|all| all == [true; 200]);
        }
        *ended.lock().unwrap() = true;
    });
    assert!(went_well, "{}", kind.name);
    // The window has passed through about 1400 leaves.
    assert!(tree.stats().unwrap().capacity < 700, "{}: {:?}", kind.name, tree.stats());
    assert_eq!(contents(&tree), zero.into_iter().zip(value).collect(), "{}", kind.name);
}

/// Insertions into a tree that has no memory left terminate, although each refused attempt copies nodes out
/// of place, which the next sweep frees again.
pub fn calls_on_a_full_pool_end<K: Word, V: Word + MapValue>(kind: &Kind<MultiVersionBTree<K, V>>) {
    let (keys, values) = kind.columns((0..1200).map(|n| (n * 2731 % 1200, n)));
    let fixed = || kind.builder().nodes(1).growth(Growth::Fixed).build().unwrap();
    let node = if kind.name.contains("_256_") { 256 } else { 128 };
    let capped = kind.builder().nodes(1).budget(64 * node).build().unwrap();
    for (tree, grows) in [(fixed(), false), (capped, true)] {
        let said = tree.insert(&keys, &values);
        let outcomes = if grows { no_room(said) } else { said.unwrap() };
        let inserted = keys.iter().zip(&values).zip(&outcomes);
        let inserted = inserted.filter(|(_, outcome)| **outcome == Outcome::Inserted);
        let expected: BTreeMap<K, V> = inserted.map(|((&key, &value), _)| (key, value)).collect();
        assert!(expected.len() > 100 && expected.len() < keys.len(), "{}: {}", kind.name, expected.len());
        assert_eq!(contents(&tree), expected, "{}", kind.name);
        tree.validate().unwrap();
    }
}

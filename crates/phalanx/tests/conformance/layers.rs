//! Operations specific to skip lists: merging and freeing of nodes, and assignment of keys to tiles.
use crate::common::{Rng, seed};
use crate::kinds::{Kind, contents};
use crate::ordered::questions;
use checker::MapValue;
use gpu::{Device, Grid};
use phalanx::map::Word;
use phalanx::skiplist::{Assignment, Growth, LargeBatches};
use phalanx::{Outcome, SkipList};
use phalanx_kernels::btree::{Meta, Node, ROOT, TreeView};
use phalanx_kernels::keyed::{Packed, Slot};
use phalanx_kernels::skiplist::{Layers, List, Unsorted};
use phalanx_kernels::slab::{Handle, Layered, Pool, Spread};
use phalanx_testing::counts::each_count;
use simt::emulator::{Launch, Options, Schedule};
use simt::{GlobalSlice, Instance, Kernel, Order, Scope, Thread};
use std::collections::BTreeMap;
use std::ops::Bound;

pub fn merged_nodes_are_given_back<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let list = kind.map(1);
    let (keys, values) = kind.columns((0..2000).map(|n| (n * 7, n)));
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    let before = list.stats().unwrap();
    // With device buffers, so that no node is freed automatically.
    let gone: Vec<K> = keys.iter().copied().filter(|key| key.to_u64() % 10 != 0).collect();
    let buffer = kind.device.from_slice(&gone).unwrap();
    let stream = kind.device.stream().unwrap();
    let mut outcomes = kind.device.buffer::<u8>(gone.len()).unwrap();
    list.on(&stream).remove(&buffer, &mut outcomes).unwrap();
    assert!(outcomes.read().unwrap().iter().all(|code| *code == Outcome::Removed as u8), "{}", kind.name);
    let merged = list.merged().unwrap();
    // About a third, depending on the schedule: a node does not merge while another tile holds its
    // neighbour's latch.
    assert!(merged * 4 > before.live, "{}: {merged} of {} nodes have merged", kind.name, before.live);
    assert_eq!(
        list.stats().unwrap().live,
        before.live,
        "{}: they are there until they are given back",
        kind.name
    );
    let left: BTreeMap<K, V> = keys
        .iter()
        .copied()
        .zip(values.iter().copied())
        .filter(|(key, _)| key.to_u64().is_multiple_of(10))
        .collect();
    assert_eq!(contents(&list), left, "{}", kind.name);
    let freed = list.reclaim().unwrap();
    assert!(freed >= merged, "{}: {freed} slabs are free, {merged} had merged", kind.name);
    assert_eq!((list.merged().unwrap(), contents(&list)), (0, left.clone()), "{}", kind.name);
    let found: Vec<_> = keys.iter().map(|key| left.get(key).copied()).collect();
    assert_eq!(list.get(&keys).unwrap(), found, "{}", kind.name);
    // The list remains usable.
    assert!(list.insert(&gone, &vec![V::from_u64(9); gone.len()]).unwrap().all_placed());
    assert_eq!(contents(&list).len(), 2000, "{}", kind.name);
}

/// Merges lower the low keys of data nodes below those of the index nodes that point to them. When such a
/// node splits, its index entry is inserted further left.
pub fn an_index_is_in_order_after_merges<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let list = kind.map(1);
    let (keys, values) = kind.columns((0..300).map(|n| (n * 3, n)));
    let some = |rest| keys.iter().copied().enumerate().filter(move |(place, _)| place % 2 == rest);
    for turn in 0..3 {
        assert!(list.insert(&keys, &values).unwrap().all_placed());
        assert_eq!(contents(&list).len(), keys.len(), "{}, turn {turn}", kind.name);
        for rest in 0..2 {
            let gone: Vec<K> = some(rest).map(|(_, key)| key).collect();
            assert!(list.remove(&gone).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
        }
        assert!(contents(&list).is_empty(), "{}, turn {turn}", kind.name);
    }
}

/// Ordered operations on a list whose nodes have merged, and on the same list after compaction.
pub fn thin_lists_answer_as_others_do<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let (list, mut rng) = (kind.map(1), Rng::new(seed()));
    let (keys, values) = kind.columns((0..900).map(|n| (n * 3 + 1, n)));
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    let gone: Vec<K> = keys.iter().copied().filter(|_| rng.below(5) > 0).collect();
    let buffer = kind.device.from_slice(&gone).unwrap();
    let mut outcomes = kind.device.buffer::<u8>(gone.len()).unwrap();
    let stream = kind.device.stream().unwrap();
    list.on(&stream).remove(&buffer, &mut outcomes).unwrap();
    let mut left: BTreeMap<K, V> = keys.iter().copied().zip(values).collect();
    left.retain(|key, _| !gone.contains(key));
    for _ in 0..2 {
        let (asked, pair) = (questions(&left), |(key, value): (&K, &V)| (*key, *value));
        let below: Vec<_> = asked.iter().map(|key| left.range(..*key).next_back().map(pair)).collect();
        let above: Vec<_> = asked
            .iter()
            .map(|key| left.range((Bound::Excluded(*key), Bound::Unbounded)).next().map(pair))
            .collect();
        assert_eq!(list.predecessor(&asked).unwrap(), below, "{}", kind.name);
        assert_eq!(list.successor(&asked).unwrap(), above, "{}", kind.name);
        assert_eq!(list.range(&[..]).unwrap(), [left.iter().map(pair).collect::<Vec<_>>()], "{}", kind.name);
        assert_eq!(contents(&list), left, "{}", kind.name);
        list.reclaim().unwrap();
    }
}

pub fn batches_are_bounded_however_keys_are_assigned<K: Word, V: Word + MapValue>(
    kind: &Kind<SkipList<K, V>>,
) {
    let (keys, values) = kind.columns((0..150).map(|n| (n * 3, n)));
    for assignment in [Assignment::Cyclic, Assignment::Blocks { keys: 30, thread_blocks: Some(1) }] {
        each_count(&kind.device, keys.len(), |counted| {
            let list = kind.builder().assignment(assignment).build().unwrap();
            let (stream, mut outcomes) = (kind.device.stream().unwrap(), counted.results::<u8>());
            let (k, v) = (counted.buffer(&keys), counted.buffer(&values));
            list.on(&stream).insert(counted.bounded(&k), &v, &mut outcomes).unwrap();
            counted.check(kind.name, &mut outcomes, |_| Outcome::Inserted as u8);
            assert_eq!(list.len().unwrap(), counted.used, "{}: {assignment:?}", kind.name);
        });
    }
}

/// Number of keys of a batch: eleven of the longest blocks of keys, and three times the thread blocks.
const MANY: u64 = 1100;

pub fn keys_are_assigned_in_every_way<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let blocks = |keys, thread_blocks| Assignment::Blocks { keys, thread_blocks };
    let ways = [
        Assignment::Spread,
        Assignment::Cyclic,
        blocks(1, None),
        blocks(30, Some(1)),
        blocks(100, Some(3)),
        blocks(64, None),
    ];
    // All other cases use the first way, on each variant.
    for &assignment in if kind.is_main { &ways[..] } else { &ways[3..4] } {
        let list = kind.builder().nodes(1).assignment(assignment).build().unwrap();
        let mut expected = BTreeMap::new();
        // Ascending, ascending behind those, random, and once more.
        let batches = [(0, 0), (1 << 20, 0), (0, 77), (0, 0)];
        for (turn, (base, salt)) in batches.into_iter().enumerate() {
            let number = |n: u64| if salt == 0 { base + n } else { simt::hash::mix64(salt ^ n) >> 40 };
            let (keys, values) = kind.columns((0..MANY).map(|n| (number(n), n + turn as u64)));
            let outcomes = list.insert(&keys, &values).unwrap();
            let new = keys
                .iter()
                .filter(|key| !expected.contains_key(*key))
                .collect::<std::collections::BTreeSet<_>>();
            let inserted = outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count();
            assert_eq!(inserted, new.len(), "{}: {assignment:?}", kind.name);
            for (key, value) in keys.iter().zip(&values) {
                // It is unspecified which value of equal keys remains.
                expected.insert(*key, *value);
            }
            assert_eq!(contents(&list).len(), expected.len(), "{}: {assignment:?}", kind.name);
        }
        let (keys, _) = kind.columns((0..MANY).map(|n| (n, 0)));
        let values: Vec<_> = (0..MANY).map(|n| Some(V::from_u64(n + 3))).collect();
        assert_eq!(list.get(&keys).unwrap(), values, "{}: {assignment:?}", kind.name);
        let (keys, values) = kind.columns((0..MANY).map(|n| (n * 2, 1)));
        assert!(list.upsert(phalanx::Merge::Add, &keys, &values).unwrap().all_placed());
        let found = list.get(&kind.keys([0, 2, MANY - 2, 2 * MANY - 2])).unwrap();
        assert_eq!(found, [4, 6, MANY + 2, 1].map(|n| Some(V::from_u64(n))), "{}: {assignment:?}", kind.name);
    }
}

/// Without growth, keys that do not fit are refused, and all others are present.
pub fn a_full_pool_is_no_loss<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let list = kind.builder().nodes(1).growth(Growth::Fixed).build().unwrap();
    let (keys, values) = kind.columns((0..2000).map(|n| (simt::hash::mix64(n) >> 33, n)));
    let outcomes = list.insert(&keys, &values).unwrap();
    let pairs = || keys.iter().copied().zip(values.iter().copied());
    let kept: BTreeMap<K, V> = pairs()
        .zip(&outcomes)
        .filter(|(_, outcome)| **outcome == Outcome::Inserted)
        .map(|(pair, _)| pair)
        .collect();
    assert!(kept.len() < 2000 && kept.len() > 100, "{}: {} found room", kind.name, kept.len());
    assert_eq!(contents(&list), kept, "{}", kind.name);
    // Removals free memory for insertions.
    assert!(list.remove(&keys).unwrap().iter().filter(|removed| **removed).count() == kept.len());
    let again = list.insert(&keys[..50], &values[..50]).unwrap();
    assert!(again.iter().all(|outcome| *outcome == Outcome::Inserted), "{}: {again:?}", kind.name);
    assert_eq!(contents(&list), pairs().take(50).collect(), "{}", kind.name);
}

/// With few slabs, compaction does not insert an index entry for every node; the list is correct all the
/// same.
pub fn lists_in_few_slabs_are_put_in_order<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let list = kind.builder().nodes(1).growth(Growth::Fixed).build().unwrap();
    let (keys, values) = kind.columns((0..1000).map(|n| (n * 5, n)));
    assert!(list.insert(&keys, &values).unwrap().refused() > 0, "{}", kind.name);
    let before = contents(&list);
    assert_eq!(list.stats().unwrap().free, 0, "{}: every slab is taken", kind.name);
    list.reclaim().unwrap();
    assert_eq!(contents(&list), before, "{}", kind.name);
    let found: Vec<_> = keys.iter().map(|key| before.get(key).copied()).collect();
    assert_eq!(list.get(&keys).unwrap(), found, "{}", kind.name);
}

/// Counters of table 1 of the paper: latch attempts and acquisitions, links and index entries followed.
pub fn what_is_done_is_counted<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let (keys, values) = kind.columns((0..600).map(|n| (n, n)));
    let list = kind.map(1);
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(list.counters().unwrap(), Default::default(), "{} does not count", kind.name);
    if (K::BITS, V::BITS) != (32, 32) {
        return;
    }
    let counted =
        SkipList::<K, V>::builder().device(&kind.device).variant("list_counted_spread_128_8x2_u32_u32");
    let list = counted.large_batches(LargeBatches::Concurrent).build().unwrap();
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    let found = list.counters().unwrap();
    assert!(found.latches > 0 && found.attempts >= found.latches && found.down > 0, "{found:?}");
    let before = found.down;
    list.get(&keys).unwrap();
    // A look-up descends at least once, from an index node to a data node.
    assert!(list.counters().unwrap().down >= before + 600, "{found:?}");
    let (capacity, before) = (list.stats().unwrap().capacity, list.counters().unwrap());
    let (keys, values) = kind.columns((600..6000).map(|n| (n, n)));
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    assert!(list.stats().unwrap().capacity > capacity && list.counters().unwrap().down > before.down);
    assert!(list.counters().unwrap().latches > before.latches + 5400 / 2, "they go on: {before:?}");
}

/// The index layers are in a separate part of the pool, and the data is in host memory.
pub fn data_lies_where_it_is_asked_to<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    for tier in [gpu::Tier::Pinned, gpu::Tier::Managed] {
        let builder = kind.builder().nodes(700).super_block_slabs(64).data_tier(tier);
        let list = builder.build().unwrap();
        let (keys, values) = kind.columns((0..3000).map(|n| (simt::hash::mix64(n) >> 40, n)));
        assert!(list.insert(&keys, &values).unwrap().all_placed());
        let expected: std::collections::BTreeSet<K> = keys.iter().copied().collect();
        assert!(contents(&list).keys().eq(&expected), "{}, {tier}", kind.name);
        assert!(list.remove(&keys[..2900]).unwrap().contains(&true), "{}, {tier}", kind.name);
        list.reclaim().unwrap();
        let left: std::collections::BTreeSet<K> =
            expected.into_iter().filter(|key| !keys[..2900].contains(key)).collect();
        assert!(contents(&list).keys().eq(&left), "{}, {tier}", kind.name);
    }
}

/// Scans leave gaps between pairs. A node that merges with such a node overwrites none of its pairs.
pub fn nodes_with_gaps_take_in_what_merges<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let slots = if kind.name.contains("8x4") { 30 } else { 14 };
    let half = slots / 2;
    for gaps in [vec![0], vec![half / 2], vec![half - 1], vec![0, 1, half - 2]] {
        let mut list = kind.map(1);
        // Nodes are half full. The third gets gaps, and its predecessor becomes underfull.
        let is_gone = |key: u64| key >= 2 * half && gaps.contains(&(key - 2 * half));
        let (keys, values) = kind.columns((0..10 * half).map(|key| (key, u64::from(is_gone(key)))));
        list.bulk_build(&keys, &values, 0.5).unwrap();
        list.retain_values(V::from_u64(0)..=V::from_u64(0)).unwrap();
        let removed = half..2 * half - slots / 3;
        assert!(!list.remove(&kind.keys(removed.clone())).unwrap().contains(&false), "{}", kind.name);
        assert_eq!(list.merged().unwrap(), 1, "{}: gaps at {gaps:?}", kind.name);
        let left = (0..10 * half).filter(|key| !is_gone(*key) && !removed.contains(key));
        let left = kind.keys(left);
        assert!(contents(&list).keys().eq(&left), "{}: gaps at {gaps:?}", kind.name);
        assert!(!list.contains_key(&left).unwrap().contains(&false), "{}: gaps at {gaps:?}", kind.name);
    }
}

/// A block of keys may be longer than any batch, and there may be more thread blocks than blocks of keys.
pub fn keys_are_assigned_in_blocks_of_any_length<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let (keys, values) = kind.columns((0..100).map(|n| (n, n)));
    for (length, thread_blocks) in [(u32::MAX, None), (u32::MAX - 40, Some(2)), (16, Some(u32::MAX))] {
        let assignment = Assignment::Blocks { keys: length, thread_blocks };
        let list = kind.builder().assignment(assignment).build().unwrap();
        assert!(list.insert(&keys, &values).unwrap().all_placed());
        assert!(list.insert(&[], &[]).unwrap().all_placed());
        let expected = keys.iter().copied().zip(values.iter().copied()).collect();
        assert_eq!(contents(&list), expected, "{}: {assignment:?}", kind.name);
    }
}

/// Without growth, a list that was emptied by scans accepts as many new keys as a new one.
pub fn lists_that_scans_empty_have_room<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let mut list = kind.builder().nodes(1).growth(Growth::Fixed).build().unwrap();
    let fill = |list: &SkipList<K, V>, base: u64| {
        let (keys, values) = kind.columns((0..1000).map(|n| (base + n, n)));
        let outcomes = list.insert(&keys, &values).unwrap();
        outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count()
    };
    let most = fill(&list, 0);
    assert!(most > 100 && most < 1000, "{}: {most} found room", kind.name);
    for turn in 1..4 {
        list.retain_keys(K::from_u64(u64::MAX)..=K::from_u64(u64::MAX)).unwrap();
        assert_eq!(list.len().unwrap(), 0, "{}", kind.name);
        let many = fill(&list, turn << 20);
        // The number varies with the schedule.
        assert!(many * 5 >= most * 4, "{}, turn {turn}: first {most} found room, then {many}", kind.name);
        assert_eq!(contents(&list).len(), many, "{}", kind.name);
    }
}

/// Nodes that a scan has emptied are freed, and no others.
pub fn lists_give_back_what_scans_empty<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let mut list = kind.map(1);
    let (keys, values) = kind.columns((0..4000).map(|n| (n, n)));
    list.bulk_build(&keys, &values, 0.5).unwrap();
    let before = list.stats().unwrap().live;
    list.retain_keys(K::from_u64(500)..=K::from_u64(3999)).unwrap();
    assert_eq!(list.stats().unwrap().live, before, "{}: an eighth is not worth it", kind.name);
    list.retain_keys(K::from_u64(1000)..=K::from_u64(1099)).unwrap();
    let live = list.stats().unwrap().live;
    assert!(live * 10 < before, "{}: {before} nodes became {live}", kind.name);
    assert_eq!(contents(&list).len(), 100, "{}", kind.name);
}

/// Kernel that writes the layer of each slab's node. Elements of free slabs and of the root stay unchanged.
struct LayersOf<M: Layers> {
    list: TreeView<M>,
    found: GlobalSlice<u32>,
}

impl<M: Layers> Clone for LayersOf<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Layers> Copy for LayersOf<M> {}

impl<M: Layers<Slot = Packed>> Kernel for LayersOf<M> {
    const PROGRAM: &'static str = "conformance";
    const NAME: &'static str = "layers_of";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        // SAFETY: nodes are only read.
        let (pool, number) = (unsafe { self.list.raw_pool() }, Thread::index());
        let handle: Handle = pool.handle(number as u32);
        if number < self.found.len() && pool.is_live(handle) {
            // SAFETY: the handle refers to a live slab of the pool, which is a node.
            let node = unsafe { Node::<Packed, 8, 2>::at(pool.slab(handle)) };
            let meta = Meta::read(Packed::value(node.header().load(Order::Relaxed, Scope::Device)));
            if handle != ROOT {
                self.found.write(number, meta.level());
            }
        }
    }
}

/// Returns the slabs of each index layer below the root's, for a compacted list in a pool with super blocks
/// of 256 slabs.
fn slabs_of_layers<M>(name: &str, seed: u64) -> Vec<Vec<usize>>
where
    M: Layers<Slot = Packed, Key = u32, Value = u32> + Instance,
{
    let device = Device::emulator(Options::explore(Schedule::Random { seed }));
    let builder = SkipList::<u32, u32>::builder().device(&device).variant(name);
    let mut list = builder.nodes(700).super_block_slabs(256).build().unwrap();
    let keys: Vec<u32> = (0..1400).collect();
    list.bulk_build(&keys, &keys, 0.5).unwrap();
    list.retain_keys(700..=1399).unwrap();
    list.reclaim().unwrap();
    list.validate().unwrap();
    let found = device.from_slice(&vec![u32::MAX; list.stats().unwrap().capacity]).unwrap();
    // SAFETY: the list outlives the launch, and is not used by others meanwhile.
    let view = unsafe { list.view::<M>() }.unwrap();
    let launch =
        Launch::new(Grid::for_items(found.len(), 128), LayersOf { list: view, found: found.global() });
    device.emulator_handle().unwrap().launch_all(vec![launch]).unwrap();
    let found = found.read().unwrap();
    let of = |layer| (0..found.len()).filter(|number| found[*number] == layer).collect();
    (1..4).map(of).collect()
}

#[test]
fn lists_that_were_put_in_order_keep_index_layers_in_their_parts() {
    type Layers<const EACH: bool> = List<Packed, Layered<Spread<128>, EACH>, Unsorted, 8, 2>;
    for seed in 0..3 {
        let layers = slabs_of_layers::<Layers<false>>("list_layered_spread_128_8x2_u32_u32", seed);
        assert!(layers[0].len() > 9 && layers[1].len() > 1, "{layers:?}");
        assert!(layers.iter().flatten().all(|slab| *slab < 256), "{layers:?}");
        let layers = slabs_of_layers::<Layers<true>>("list_apart_spread_128_8x2_u32_u32", seed);
        assert!(layers[0].len() > 9 && layers[1].len() > 1, "{layers:?}");
        assert!(layers[0].iter().all(|slab| (32..256).contains(slab)), "{layers:?}");
        assert!(layers[1].iter().all(|slab| *slab < 32), "{layers:?}");
    }
}

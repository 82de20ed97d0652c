//! Traits of the standard library, and the calls that return errors where those panic.
use phalanx::gpu::Device;
use phalanx::{BTree, Error, HashMap, Map, MultiVersionBTree, SkipList, SlabHash, SlabMultiMap, SlabSet};
use simt::emulator::Options;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Pairs of which two have the same key.
const PAIRS: [(u32, u32); 4] = [(30, 1), (10, 2), (30, 3), (20, 4)];

fn check<M>()
where
    M: Map<Key = u32, Value = u32> + Default + FromIterator<(u32, u32)> + Extend<(u32, u32)>,
    M: PartialEq + std::fmt::Debug + IntoIterator<Item = (u32, u32)>,
    for<'a> &'a M: IntoIterator<Item = (u32, u32)>,
{
    let last: BTreeMap<u32, u32> = PAIRS.into_iter().collect();
    let mut map: M = PAIRS.into_iter().collect();
    assert_eq!((&map).into_iter().collect::<BTreeMap<_, _>>(), last);
    assert_eq!(M::from_pairs(&[10, 20, 30], &[2, 4, 3]).unwrap(), map);
    assert!(M::try_from_iter(PAIRS).unwrap().try_eq(&map).unwrap());
    let mut other = M::default();
    assert!(other.is_empty().unwrap() && other != map);
    other.extend(PAIRS);
    assert_eq!(other, map);
    other.try_extend([(20, 5), (20, 6)]).unwrap();
    assert_eq!((other.get(&[20]).unwrap(), other.len().unwrap()), (vec![Some(6)], 3));
    assert!(!other.try_eq(&map).unwrap(), "a value differs");
    map.extend([(u32::MAX, 0)]);
    assert!(!other.try_eq(&map).unwrap(), "a key differs");
    assert_eq!(map.into_iter().count(), 4);
    let short = M::from_pairs(&[1, 2], &[1]).map(drop).unwrap_err();
    assert!(matches!(short, Error::Length { what: "values", expected: 2, found: 1 }), "{short:?}");
    assert!(M::from_pairs(&[], &[]).unwrap().is_empty().unwrap());
    assert!(M::try_new().unwrap().is_empty().unwrap());
}

#[test]
fn maps_have_the_traits_of_collections() {
    check::<HashMap<u32, u32>>();
    check::<SlabHash<u32, u32>>();
    check::<BTree<u32, u32>>();
    check::<MultiVersionBTree<u32, u32>>();
    check::<SkipList<u32, u32>>();
}

#[test]
fn sets_have_the_traits_of_collections() {
    let mut set: SlabSet<u32> = [3, 1, 3].into_iter().collect();
    assert_eq!(set, SlabSet::from_keys(&[1, 3]).unwrap());
    assert_ne!(set, SlabSet::default());
    set.extend([4, 1]);
    let mut keys: Vec<u32> = (&set).into_iter().collect();
    keys.sort_unstable();
    assert_eq!(keys, [1, 3, 4]);
    assert!(!set.try_eq(&SlabSet::from_keys(&[1, 3, 5]).unwrap()).unwrap(), "a key differs");
    assert_eq!(set.into_iter().count(), 3);
}

#[test]
fn multimaps_have_the_traits_of_collections() {
    let mut map: SlabMultiMap<u32, u32> = PAIRS.into_iter().collect();
    assert_eq!(map.get_all(&[30, 10]).unwrap().iter().collect::<Vec<_>>(), [&[1, 3][..], &[2]]);
    let [first, second, third, fourth] = PAIRS;
    assert_eq!(map, SlabMultiMap::try_from_iter([third, second, first, fourth]).unwrap());
    assert_ne!(map, SlabMultiMap::try_from_iter([first, second, first, fourth]).unwrap());
    assert_ne!(map, SlabMultiMap::default());
    map.extend([(30, 0), (10, 0), (30, 9)]);
    assert_eq!(map.get_all(&[30, 10]).unwrap().iter().collect::<Vec<_>>(), [&[1, 3, 0, 9][..], &[2, 0]]);
    assert_eq!((&map).into_iter().count(), 7);
    assert_eq!(map.into_iter().map(|(_, value)| value).sum::<u32>(), 19);
    let short = SlabMultiMap::<u32, u32>::from_pairs(&[1], &[]).map(drop).unwrap_err();
    assert!(matches!(short, Error::Length { .. }), "{short:?}");
}

/// Returns the message with which `run` panics.
#[track_caller]
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    *panic.downcast::<String>().expect("it has a message")
}

#[test]
fn what_does_not_fit_is_an_error_or_a_panic_with_its_message() {
    let device = Device::emulator(Options::default());
    let mut map = HashMap::<u32, u32>::builder()
        .device(&device)
        .capacity(1)
        .growth(phalanx::hash_map::Growth::Fixed)
        .build()
        .unwrap();
    let pairs = || (0..500).chain([0]).map(|n| (n, n));
    let error = map.try_extend(pairs()).unwrap_err();
    let outcomes = error.outcomes().expect("they are returned");
    assert_eq!((outcomes.asked(), outcomes.asked() - outcomes.refused()), (500, map.len().unwrap()));
    let said = panic_of(|| map.extend(pairs()));
    assert!(said.contains("of 500 elements do not fit"), "{said}");
    let mut many = SlabMultiMap::<u32, u32>::builder()
        .device(&device)
        .buckets(1)
        .slabs(1)
        .growth(phalanx::slab_hash::Growth::Fixed)
        .build()
        .unwrap();
    let pairs = || (0..900).map(|n| (n % 300, n));
    let error = many.try_extend(pairs()).unwrap_err();
    let outcomes = error.outcomes().expect("they are returned");
    assert_eq!((outcomes.asked(), outcomes.asked() - outcomes.refused()), (900, many.len().unwrap()));
    for (key, value) in &many {
        assert_eq!(outcomes[value as usize], phalanx::Outcome::Inserted, "{key}");
    }
    let said = panic_of(|| many.extend(pairs()));
    assert!(said.contains("900 of 900 elements do not fit"), "{said}");
}

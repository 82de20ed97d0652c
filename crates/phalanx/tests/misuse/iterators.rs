//! Iterators of the caller whose sizes are wrong, or that use the structure that they fill.
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Yields the elements of the other iterator, and says that there are `usize::MAX` of them.
struct Lying<I>(I);

impl<I: Iterator> Iterator for Lying<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

fn lying<const N: usize>(pairs: [(u32, u32); N]) -> impl Iterator<Item = (u32, u32)> {
    Lying(pairs.into_iter())
}

#[test]
fn sizes_of_iterators_that_lie() {
    fn check<M: Family>(map: M) {
        map.try_extend(lying([(2, 21), (3, 30)])).unwrap();
        assert_eq!(map.get(&[1, 2, 3]).unwrap(), [Some(10), Some(21), Some(30)]);
        assert_eq!(M::try_from_iter(lying([(7, 70)])).unwrap().get(&[7]).unwrap(), [Some(70)]);
    }
    each_map!(check);
}

#[test]
fn sizes_of_iterators_of_sets_and_multimaps_that_lie() {
    let set = SlabSet::try_from_iter(Lying([1u32, 2, 1].into_iter())).unwrap();
    set.try_extend(Lying([2, 3].into_iter())).unwrap();
    assert_eq!(set.contains_key(&[1, 2, 3, 4]).unwrap(), [true, true, true, false]);
    let many = SlabMultiMap::try_from_iter(lying([(1, 10), (1, 11)])).unwrap();
    many.try_extend(lying([(1, 12)])).unwrap();
    assert_eq!(many.get_all(&[1]).unwrap().of(0), [10, 11, 12]);
}

/// Pairs that the iterator has inserted by itself remain; those that it yielded are not inserted.
#[test]
fn iterators_that_insert_and_then_panic() {
    fn check(map: impl Family) {
        let pairs = (3..6).map(|key| match key {
            5 => panic!("the iterator's"),
            _ => (key, map.insert(&[key + 100], &[1]).unwrap().len() as u32),
        });
        assert!(catch_unwind(AssertUnwindSafe(|| map.try_extend(pairs))).is_err());
        assert_eq!(map.get(&[3, 4, 103, 104]).unwrap(), [None, None, Some(1), Some(1)]);
        assert_eq!(map.len().unwrap(), 4);
    }
    each_map!(check);
}

/// `iter` reads a copy, so a map may be filled from itself and cleared meanwhile.
#[test]
fn iterators_of_a_map_that_is_cleared() {
    fn check(mut map: impl Family) {
        let pairs = map.iter().unwrap();
        map.clear().unwrap();
        assert!(map.is_empty().unwrap());
        map.try_extend(pairs).unwrap();
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn iterators_that_are_empty() {
    fn check<M: Family>(map: M) {
        map.try_extend(map.iter().unwrap().filter(|_| false)).unwrap();
        is_unchanged(&map);
        assert!(M::try_from_iter([]).unwrap().is_empty().unwrap());
    }
    each_map!(check);
    assert!(SlabSet::<u32>::try_from_iter([]).unwrap().is_empty().unwrap());
    assert!(SlabMultiMap::<u32, u32>::try_from_iter([]).unwrap().is_empty().unwrap());
}

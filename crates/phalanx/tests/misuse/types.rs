//! Words on the device that are no keys or values of the map's types.
use super::emulator;
use phalanx::{BTree, Error, HashMap, Map, MultiVersionBTree, SkipList, SlabHash};
use phalanx_testing::refuses;
use std::num::NonZero;

/// Inserts the words of a key and of a value by a batch on buffers, which has no types.
fn insert_words<M: Map>(map: &M, key: u32, value: u32)
where
    M::Key: phalanx::Key<Word = u32>,
    M::Value: phalanx::Value<Word = u32>,
{
    let (keys, values) =
        (map.device().from_slice(&[key]).unwrap(), map.device().from_slice(&[value]).unwrap());
    map.on(&map.device().default_stream()).insert(&keys, &values, None).unwrap();
}

macro_rules! each {
    ($check:ident, $key:ty, $value:ty: $($family:ident)*) => {$(
        $check($family::<$key, $value>::builder().device(&emulator()).build().unwrap());
    )*};
}

#[test]
fn words_that_are_no_values() {
    fn check(mut map: impl Map<Key = u32, Value = char>) {
        map.try_extend([(1, 'a'), (2, 'b')]).unwrap();
        insert_words(&map, 3, 0x0011_0000);
        refuses!(map.get(&[1, 3]), Error::Format(_), "0x110000 is no value of type `char`");
        refuses!(map.export(), Error::Format(_), "no value of type `char`");
        refuses!(map.iter(), Error::Format(_), "no value of type `char`");
        refuses!(map.retain(|_, _| false), Error::Format(_), "no value of type `char`");
        refuses!(map.execute(&[phalanx::Op::Get(3)]), Error::Format(_), "no value of type `char`");
        assert_eq!((map.len().unwrap(), map.get(&[1, 2]).unwrap()), (3, vec![Some('a'), Some('b')]));
        assert_eq!(map.remove(&[3]).unwrap(), [true]);
        assert_eq!(map.export().unwrap().0.len(), 2);
    }
    each!(check, u32, char: HashMap SlabHash BTree MultiVersionBTree SkipList);
}

#[test]
fn words_that_are_no_keys() {
    fn check(map: impl Map<Key = NonZero<u32>, Value = u32>) {
        let [one, two] = [1, 2].map(|number| NonZero::new(number).unwrap());
        map.try_extend([(one, 10), (two, 20)]).unwrap();
        insert_words(&map, 0, 7);
        refuses!(map.export(), Error::Format(_), "0x0 is no value of type");
        refuses!(map.iter(), Error::Format(_), "0x0 is no value of type");
        assert_eq!((map.len().unwrap(), map.get(&[one, two]).unwrap()), (3, vec![Some(10), Some(20)]));
    }
    each!(check, NonZero<u32>, u32: HashMap SlabHash BTree MultiVersionBTree SkipList);
}

#[test]
fn queries_that_find_words_of_no_type() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::<u32, char>::builder().device(&emulator()).build().unwrap();
            map.try_extend([(1, 'a'), (2, 'b')]).unwrap();
            insert_words(&map, 3, u32::MAX);
            refuses!(map.last(), Error::Format(_), "no value of type `char`");
            refuses!(map.successor(&[0, 2]), Error::Format(_), "no value of type `char`");
            refuses!(map.range(&[0..9]), Error::Format(_), "no value of type `char`");
            assert_eq!((map.first().unwrap(), map.count(&[0..9]).unwrap()), (Some((1, 'a')), vec![3]));
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

//! Serialization by serde.
use phalanx::{BTree, HashMap, MultiVersionBTree, SkipList, SlabHash, SlabMultiMap, SlabSet};
use serde_json::{from_str, to_string};

/// Asserts that the structure of `$elements` becomes `$json`, which becomes it again.
macro_rules! round_trip {
    ($type:ty, $elements:expr, $json:literal) => {{
        let made = <$type>::try_from_iter($elements).unwrap();
        let json = to_string(&made).unwrap();
        assert_eq!(json, $json);
        assert_eq!(from_str::<$type>(&json).unwrap(), made);
    }};
}

#[test]
fn ordered_maps_are_serialized_in_key_order() {
    round_trip!(BTree<u32, u64>, [(7, 70), (1, u64::MAX)], r#"{"1":18446744073709551615,"7":70}"#);
    round_trip!(SkipList<u32, u32>, [(7, 70), (1, 10)], r#"{"1":10,"7":70}"#);
    round_trip!(MultiVersionBTree<u64, u32>, [(7, 70), (1, 10)], r#"{"1":10,"7":70}"#);
}

#[test]
fn hash_structures_are_serialized() {
    round_trip!(HashMap<u32, u32>, [(7, 70)], r#"{"7":70}"#);
    round_trip!(SlabHash<u64, u64>, [(u64::MAX, 70)], r#"{"18446744073709551615":70}"#);
    round_trip!(SlabMultiMap<u32, u32>, [(7, 70), (7, 70)], "[[7,70],[7,70]]");
    round_trip!(SlabSet<u32>, [7, 7], "[7]");
    round_trip!(HashMap<u32, u32>, [], "{}");
    let many = HashMap::<u32, u32>::try_from_iter((0..1000).map(|n| (n, n * 3))).unwrap();
    assert_eq!(from_str::<HashMap<u32, u32>>(&to_string(&many).unwrap()).unwrap(), many);
}

#[test]
fn the_last_of_equal_keys_remains() {
    let map: BTree<u32, u32> = from_str(r#"{"1":10,"1":11}"#).unwrap();
    assert_eq!(map.get(&[1]).unwrap(), [Some(11)]);
}

#[test]
fn other_data_is_an_error() {
    for json in ["[]", "{\"a\":1}", "{\"1\":-1}", "{\"4294967296\":1}", "{\"1\":1", "{\"1\":null}"] {
        assert!(from_str::<HashMap<u32, u32>>(json).is_err(), "{json}");
    }
    for json in ["{}", "[-1]", "[4294967296]", "[1", "[\"1\"]"] {
        assert!(from_str::<SlabSet<u32>>(json).is_err(), "{json}");
    }
    assert!(from_str::<SlabMultiMap<u32, u32>>("[[1]]").is_err());
}

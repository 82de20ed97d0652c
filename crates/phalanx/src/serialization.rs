//! Traits of serde, by the feature `serde`. Maps are serialized as maps, sets as sequences of keys, multimaps
//! as sequences of pairs. Deserialized structures are created by `try_from_iter`.
use crate::{Key, Result, Value};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Visitor that collects the entries of a map.
struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
    type Value = Vec<(K, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // The announced length is not trusted: memory grows only with the data that is actually read.
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Deserializes the entries of a map.
fn entries<'de, K, V, D>(deserializer: D) -> Result<Vec<(K, V)>, D::Error>
where
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Entries(PhantomData))
}

/// Implements the traits for a structure, which `$collect` serializes and `$read` deserializes as a list of
/// what `try_from_iter` takes.
macro_rules! serialization {
    ($type:ident<$($name:ident: $bound:ident),*>, $collect:ident, $read:path) => {
        impl<$($name: $bound + Serialize),*> Serialize for crate::$type<$($name),*> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.$collect(self.iter().map_err(S::Error::custom)?)
            }
        }

        impl<'de, $($name: $bound + Deserialize<'de>),*> Deserialize<'de> for crate::$type<$($name),*> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::try_from_iter($read(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

#[cfg(feature = "hash-map")]
serialization!(HashMap<K: Key, V: Value>, collect_map, entries);
#[cfg(feature = "slab-hash")]
serialization!(SlabHash<K: Key, V: Value>, collect_map, entries);
#[cfg(feature = "btree")]
serialization!(BTree<K: Key, V: Value>, collect_map, entries);
#[cfg(feature = "mvbtree")]
serialization!(MultiVersionBTree<K: Key, V: Value>, collect_map, entries);
#[cfg(feature = "skip-list")]
serialization!(SkipList<K: Key, V: Value>, collect_map, entries);
#[cfg(feature = "slab-hash")]
serialization!(SlabMultiMap<K: Key, V: Value>, collect_seq, Vec::<(K, V)>::deserialize);
#[cfg(feature = "slab-hash")]
serialization!(SlabSet<K: Key>, collect_seq, Vec::<K>::deserialize);

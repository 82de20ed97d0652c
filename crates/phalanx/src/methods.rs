//! The operations of [`Map`] as inherent methods of each map, expanded from the trait.
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::launch::BatchOp;
use crate::map::run::{self, Results};
use crate::map::{Batches, IntoIter, Pairs, check, encoding, export, file, map_methods};
use crate::{Key, Map, Merge, OldValues, Op, Outcome, Outcomes, Result, Value};
use gpu::{Device, Stream};
use std::io::Write;
use std::ops::RangeInclusive;

#[cfg(feature = "hash-map")]
map_methods!(crate::HashMap<K, V>);
#[cfg(feature = "slab-hash")]
map_methods!(crate::SlabHash<K, V>);
#[cfg(feature = "btree")]
map_methods!(crate::BTree<K, V>);
#[cfg(feature = "mvbtree")]
map_methods!(crate::MultiVersionBTree<K, V>);
#[cfg(feature = "skip-list")]
map_methods!(crate::SkipList<K, V>);

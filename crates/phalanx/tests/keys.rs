//! Keys and values of all types, in all structures, compared with std.
#[path = "keys/files.rs"]
mod files;
#[path = "keys/merges.rs"]
mod merges;
#[path = "keys/order.rs"]
mod order;
#[path = "keys/structs.rs"]
mod structs;

use gpu::Device;
use phalanx::{BTree, Error, HashMap, Key, Map, MultiVersionBTree, Op, Outcome, SkipList, SlabHash, Value};
use phalanx_kernels::keyed::Scalar;
use phalanx_testing::common::Rng;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZero;

/// A type of keys and values, with the order that the documentation promises, by other means than words.
pub(crate) trait Tested: Key + Value<Word = <Self as Key>::Word> {
    fn order(&self, other: &Self) -> Ordering;

    /// Draws a value: one of few near either end or the middle of the order, so that values repeat, or any.
    fn draw(rng: &mut Rng) -> Self {
        let width = <Self as Key>::WIDTH;
        loop {
            let word = match rng.below(3) {
                0 => rng.below(60),
                1 => (1 << (width - 1)) ^ rng.below(60),
                _ => rng.below(u64::MAX),
            } & (u64::MAX >> (64 - width));
            if let Some(value) = <Self as Key>::decode(<Self as Key>::Word::from_u64(word)) {
                return value;
            }
        }
    }
}

macro_rules! tested {
    ($order:path: $($type:ty)*) => {$(
        impl Tested for $type {
            fn order(&self, other: &Self) -> Ordering {
                $order(self, other)
            }
        }
    )*};
}
tested!(Ord::cmp: u8 u16 u32 u64 i8 i16 i32 i64 bool char [u8; 4] [u8; 8]);
tested!(Ord::cmp: NonZero<u8> NonZero<u16> NonZero<u32> NonZero<u64>);
tested!(Ord::cmp: NonZero<i8> NonZero<i16> NonZero<i32> NonZero<i64>);
tested!(f32::total_cmp: f32);
tested!(f64::total_cmp: f64);

/// A key or value that compares as [`Tested::order`] says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered<T>(T);

impl<T: Tested> PartialEq for Ordered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Tested> Eq for Ordered<T> {}

impl<T: Tested> PartialOrd for Ordered<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Tested> Ord for Ordered<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}

pub(crate) type Model<T> = BTreeMap<Ordered<T>, Ordered<T>>;

fn ordered<T>(found: Vec<Option<T>>) -> Vec<Option<Ordered<T>>> {
    found.into_iter().map(|value| value.map(Ordered)).collect()
}

/// Returns the pairs of a map in order.
pub(crate) fn contents<T: Tested>(map: &impl Map<Key = T, Value = T>) -> Model<T> {
    let (keys, values) = map.export().unwrap();
    keys.into_iter().map(Ordered).zip(values.into_iter().map(Ordered)).collect()
}

/// Draws up to `most` pairs with distinct keys.
pub(crate) fn draw_pairs<T: Tested>(rng: &mut Rng, most: usize) -> (Vec<T>, Vec<T>) {
    let pairs: Model<T> = (0..most).map(|_| (Ordered(T::draw(rng)), Ordered(T::draw(rng)))).collect();
    pairs.into_iter().map(|(key, value)| (key.0, value.0)).unzip()
}

/// Inserts, looks up, executes, removes and retains.
fn agrees<T: Tested>(map: &mut impl Map<Key = T, Value = T>, rng: &mut Rng) {
    let mut model = Model::new();
    for _ in 0..3 {
        let (keys, values) = draw_pairs::<T>(rng, 40);
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        model.extend(keys.iter().copied().map(Ordered).zip(values.into_iter().map(Ordered)));
        assert_eq!(contents(map), model);
        let (keys, values) = draw_pairs::<T>(rng, 40);
        let expected: Vec<_> = keys.iter().map(|&key| model.get(&Ordered(key)).copied()).collect();
        assert_eq!(ordered(map.get(&keys).unwrap()), expected);
        executes(map, &mut model, &keys, &values);
        let (keys, _) = draw_pairs::<T>(rng, 20);
        let removed: Vec<_> = keys.iter().map(|&key| model.remove(&Ordered(key)).is_some()).collect();
        assert_eq!(map.remove(&keys).unwrap(), removed);
    }
    let (Ordered(a), Ordered(b)) = (Ordered(T::draw(rng)), Ordered(T::draw(rng)));
    let (low, high) = if a.order(&b) == Ordering::Greater { (b, a) } else { (a, b) };
    map.retain_values(low..=high).unwrap();
    model.retain(|_, value| Ordered(low) <= *value && *value <= Ordered(high));
    assert_eq!(contents(map), model);
    map.retain_keys(low..=high).unwrap();
    model.retain(|key, _| Ordered(low) <= *key && *key <= Ordered(high));
    assert_eq!(contents(map), model);
    if Ordered(low) < Ordered(high) {
        let swapped = map.retain_keys(std::ops::RangeInclusive::new(high, low));
        let named = |error: &Error| error.to_string().contains(&format!("from {high:?} to {low:?}"));
        assert!(swapped.as_ref().is_err_and(named), "{swapped:?}");
    }
}

/// Executes lookups and insertions of absent keys.
fn executes<T: Tested>(map: &impl Map<Key = T, Value = T>, model: &mut Model<T>, keys: &[T], values: &[T]) {
    let op =
        |(index, (&key, &value))| if index % 2 == 0 { Op::Get(key) } else { Op::GetOrInsert(key, value) };
    let ops: Vec<_> = keys.iter().zip(values).enumerate().map(op).collect();
    for (op, (outcome, value)) in ops.iter().zip(map.execute(&ops).unwrap()) {
        let expected = match *op {
            Op::GetOrInsert(key, value) if !model.contains_key(&Ordered(key)) => {
                model.insert(Ordered(key), Ordered(value));
                (Outcome::Inserted, Some(Ordered(value)))
            }
            Op::Get(key) | Op::GetOrInsert(key, _) => match model.get(&Ordered(key)) {
                Some(&value) => (Outcome::Found, Some(value)),
                None => (Outcome::Absent, None),
            },
            _ => unreachable!("only these two are made above"),
        };
        assert_eq!((outcome, value.map(Ordered)), expected, "{op:?}");
    }
}

/// Runs [`agrees`] on a hash map and a tree.
pub(crate) fn agree<T: Tested>(device: &Device) {
    let mut rng = Rng::new(7);
    agrees(&mut HashMap::<T, T>::builder().device(device).capacity(20).build().unwrap(), &mut rng);
    agrees(&mut BTree::<T, T>::builder().device(device).capacity(20).build().unwrap(), &mut rng);
}

/// Runs [`agrees`] on a map of each other family. All families know keys and values only by their words, so
/// a few types of either width show it.
fn agree_elsewhere<T: Tested>(device: &Device) {
    let mut rng = Rng::new(7);
    agrees(&mut SlabHash::<T, T>::builder().device(device).buckets(3).slabs(1).build().unwrap(), &mut rng);
    agrees(&mut SkipList::<T, T>::builder().device(device).capacity(20).build().unwrap(), &mut rng);
    agrees(&mut MultiVersionBTree::<T, T>::builder().device(device).capacity(20).build().unwrap(), &mut rng);
}

/// Calls a generic function for every type.
macro_rules! for_every_type {
    ($case:ident($device:expr)) => {
        $crate::for_every_type!($case($device):
            u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool char [u8; 4] [u8; 8]
            NonZero<u8> NonZero<u16> NonZero<u32> NonZero<u64>
            NonZero<i8> NonZero<i16> NonZero<i32> NonZero<i64>)
    };
    ($case:ident($device:expr): $($type:ty)*) => {$(
        $case::<$type>($device);
    )*};
}

pub(crate) use for_every_type;

pub(crate) fn emulator() -> Device {
    Device::emulator(Default::default())
}

#[test]
fn maps_of_every_type_agree_with_std() {
    for_every_type!(agree(&emulator()));
    for_every_type!(agree_elsewhere(&emulator()): i32 f64 bool [u8; 4] NonZero<i64>);
}

/// Stores a word on the device that no `bool` has.
#[test]
fn words_of_no_value_are_reported() {
    let map = HashMap::<u32, bool>::builder().device(&emulator()).build().unwrap();
    let (keys, words) =
        (map.device().from_slice(&[1u32, 2]).unwrap(), map.device().from_slice(&[1u32, 7]).unwrap());
    map.on(&map.device().default_stream()).insert(&keys, &words, None).unwrap();
    assert_eq!(map.get(&[1, 3]).unwrap(), [Some(true), None]);
    let text = "0x7 is no value of type `bool`";
    let is_format = |error: Error| matches!(&error, Error::Format(what) if what.contains(text));
    assert!(is_format(map.get(&[2]).unwrap_err()));
    assert!(is_format(map.export().unwrap_err()));
    assert!(is_format(map.execute(&[Op::Get(2)]).unwrap_err()));
    assert!(is_format(map.get_or_insert(&[2], &[true]).unwrap_err()));
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    let builder = || HashMap::builder().device(map.device());
    assert!(is_format(HashMap::<u32, bool>::load(&saved[..], builder()).unwrap_err()));
    // A removal returns no value.
    assert_eq!(map.execute(&[Op::Remove(2)]).unwrap(), [(Outcome::Removed, None)]);
    assert_eq!(map.export().unwrap(), (vec![1], vec![true]));
}

#[test]
fn operations_have_words() {
    assert_eq!(
        Op::<i32, i32>::Insert(-1, 1).parts(),
        (phalanx::map::OpCode::INSERT, i32::MAX as u32, 0x8000_0001)
    );
}

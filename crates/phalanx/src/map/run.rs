//! Batches on host slices: copied to the device, run and copied back. Refused elements are retried as long as
//! the map grows.
use super::encoding::{self, Word, decoded};
use super::launch::{Batch, BatchOp, Scan, nothing};
use super::structure::{Room, Structure};
use super::{Key, OldValues, Outcomes, Pairs, Value, check};
use crate::error::or_later;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{OpCode, Outcome};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;

/// Results of a batch: outcomes, and the words of the values.
pub struct Results<V> {
    pub outcomes: Vec<Outcome>,
    pub values: Vec<V>,
}

impl<V: Word> Results<V> {
    /// Returns the indices of the refused elements.
    fn refused(&self) -> Vec<usize> {
        let is_refused = |&place: &usize| self.outcomes[place] == Outcome::Refused;
        (0..self.outcomes.len()).filter(is_refused).collect()
    }

    /// Stores the results of retried elements at their indices.
    fn put(&mut self, places: &[usize], again: Self) {
        for (&place, outcome) in places.iter().zip(again.outcomes) {
            self.outcomes[place] = outcome;
        }
        for (&place, value) in places.iter().zip(again.values) {
            self.values[place] = value;
        }
    }

    /// Returns the outcomes without the values.
    pub fn into_outcomes(self) -> Outcomes {
        self.outcomes.into()
    }

    /// Returns the error with these outcomes.
    fn no_room(self) -> Error {
        Error::NoRoom { outcomes: self.into_outcomes() }
    }

    /// Returns for each element whether it had this outcome.
    pub fn whether(self, outcome: Outcome) -> Vec<bool> {
        self.outcomes.into_iter().map(|found| found == outcome).collect()
    }

    /// Returns the values whose outcomes satisfy `is`.
    pub fn values_where<T: Value<Word = V>>(self, is: impl Fn(Outcome) -> bool) -> Result<Vec<Option<T>>> {
        self.pairs_where(is).map(|pair| pair.map(|(_, value)| value)).collect()
    }

    /// Returns the values that keys had whose outcome is `outcome`, and all outcomes.
    fn into_old_values<T: Value<Word = V>>(self, outcome: Outcome) -> Result<OldValues<T>> {
        let pairs = self.pairs_where(|found| found == outcome);
        let (outcomes, values): (Vec<_>, _) = pairs.collect::<Result<_>>()?;
        Ok(OldValues::new(outcomes.into(), values))
    }

    /// Returns the outcomes, and the values of those that satisfy `is`.
    pub fn pairs_where<T: Value<Word = V>>(
        self,
        is: impl Fn(Outcome) -> bool,
    ) -> impl Iterator<Item = Result<(Outcome, Option<T>)>> {
        self.outcomes.into_iter().zip(self.values).map(move |(outcome, word)| {
            let value = if is(outcome) { Some(decoded(word, T::decode)?) } else { None };
            Ok((outcome, value))
        })
    }
}

/// The elements of a batch on the host.
struct Elements<'a, K: Copy, V: Copy> {
    codes: Cow<'a, [u8]>,
    keys: Cow<'a, [K]>,
    arguments: Cow<'a, [V]>,
}

impl<'a, K: Word, V: Word> Elements<'a, K, V> {
    fn of_keys<T: Key<Word = K>>(keys: &'a [T]) -> Self {
        Self { codes: (&[]).into(), keys: T::encode_all(keys), arguments: (&[]).into() }
    }

    fn of_pairs<T: Key<Word = K>, U: Value<Word = V>>(keys: &'a [T], values: &'a [U]) -> Result<Self> {
        check("values", keys.len(), values.len())?;
        Ok(Self { arguments: U::encode_all(values), ..Self::of_keys(keys) })
    }

    fn pick(&self, indices: &[usize]) -> Self {
        Self {
            codes: pick(&self.codes, indices).into(),
            keys: pick(&self.keys, indices).into(),
            arguments: pick(&self.arguments, indices).into(),
        }
    }
}

/// Returns the elements at `indices`, or nothing if the slice is empty.
fn pick<T: Copy>(slice: &[T], indices: &[usize]) -> Vec<T> {
    if slice.is_empty() { Vec::new() } else { indices.iter().map(|&index| slice[index]).collect() }
}

/// Runs one operation for each key.
pub fn keys<M: Structure + ?Sized, K: Key<Word = M::Key>>(
    map: &M,
    op: BatchOp,
    keys: &[K],
    wants_values: bool,
) -> Result<Results<M::Value>> {
    look_up(map.device(), &|stream, batch| map.submit(stream, batch), op, keys, wants_values)
}

/// Function that submits a batch to a stream.
type Submit<'a, K, V> = &'a dyn Fn(&Stream, Batch<K, V>) -> Result<()>;

/// [`keys`], submitted by `submit`.
pub fn look_up<K: Key, V: Word>(
    device: &Device,
    submit: Submit<'_, K::Word, V>,
    op: BatchOp,
    keys: &[K],
    wants_values: bool,
) -> Result<Results<V>> {
    let elements = Elements::of_keys(keys);
    once(device, submit, op, &elements, wants_values)
}

/// Runs one operation for each pair.
pub fn with_values<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    keys: &[K],
    values: &[V],
) -> Result<Results<M::Value>> {
    until_room(map, op, &Elements::of_pairs(keys, values)?, matches!(op, BatchOp::Apply(_)))
}

/// Inserts keys into a structure without values.
pub fn new_keys<M: Structure + ?Sized, K: Key<Word = M::Key>>(map: &M, keys: &[K]) -> Result<Outcomes> {
    until_room(map, BatchOp::InsertNew, &Elements::of_keys(keys), false).map(Results::into_outcomes)
}

/// Returns the pairs in columns, with the last value of each key, in the order in which the keys first occur.
pub fn last_of_each<K: Key, V: Value>(pairs: impl IntoIterator<Item = (K, V)>) -> Pairs<K, V> {
    let (mut keys, mut values, mut seen) = (Vec::new(), Vec::new(), HashMap::new());
    for (key, value) in pairs {
        match seen.entry(key.encode()) {
            Entry::Occupied(place) => values[*place.get()] = value,
            Entry::Vacant(place) => {
                place.insert(keys.len());
                keys.push(key);
                values.push(value);
            }
        }
    }
    (keys, values)
}

/// Runs one operation per element, each with its own code, and an argument if the structure has values.
pub fn coded<M: Structure + ?Sized>(
    map: &M,
    operations: impl Iterator<Item = (OpCode, M::Key, Option<M::Value>)> + Clone,
) -> Result<Results<M::Value>> {
    let elements = Elements {
        codes: operations.clone().map(|(code, ..)| code.code() as u8).collect(),
        keys: operations.clone().map(|(_, key, _)| key).collect(),
        arguments: operations.filter_map(|(.., argument)| argument).collect(),
    };
    let wants_values = !elements.arguments.is_empty();
    until_room(map, BatchOp::Mixed, &elements, wants_values)
}

/// Returns for each key whether the operation had this outcome.
pub fn whether<M: Structure + ?Sized, K: Key<Word = M::Key>>(
    map: &M,
    op: BatchOp,
    of: &[K],
    outcome: Outcome,
) -> Result<Vec<bool>> {
    Ok(keys(map, op, of, false)?.whether(outcome))
}

/// Removes keys. Returns for each whether it was removed.
pub fn removed<M: Structure + ?Sized, K: Key<Word = M::Key>>(map: &M, keys: &[K]) -> Result<Vec<bool>> {
    let results = until_room(map, BatchOp::Remove, &Elements::of_keys(keys), false)?;
    // A boolean result cannot represent a refused removal.
    if results.outcomes.contains(&Outcome::Refused) {
        return Err(results.no_room());
    }
    Ok(results.whether(Outcome::Removed))
}

/// Removes keys, and returns their values.
pub fn taken<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    keys: &[K],
) -> Result<OldValues<V>> {
    until_no_growth(map, BatchOp::Take, &Elements::of_keys(keys), true)?.into_old_values(Outcome::Removed)
}

/// Inserts pairs or replaces values, and returns the old ones.
pub fn replaced<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    keys: &[K],
    values: &[V],
) -> Result<OldValues<V>> {
    let elements = Elements::of_pairs(keys, values)?;
    until_no_growth(map, BatchOp::Replace, &elements, true)?.into_old_values(Outcome::Replaced)
}

/// As [`until_no_growth`], with an error if elements are refused by a map that grows.
fn until_room<M: Structure + ?Sized>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, M::Key, M::Value>,
    wants_values: bool,
) -> Result<Results<M::Value>> {
    let results = until_no_growth(map, op, elements, wants_values)?;
    if map.grows() && results.outcomes.contains(&Outcome::Refused) {
        Err(results.no_room())
    } else {
        Ok(results)
    }
}

/// Runs a batch, and retries refused elements as long as the map grows. Maintenance that lacks memory
/// afterwards is left to the next call.
fn until_no_growth<M: Structure + ?Sized>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, M::Key, M::Value>,
    wants_values: bool,
) -> Result<Results<M::Value>> {
    let mut seen = Some(map.generation());
    let mut results = attempt(map, op, elements, wants_values)?;
    loop {
        let refused = results.refused();
        if refused.is_empty() {
            or_later(map.grow())?;
            return Ok(results);
        }
        match again(map, op, &elements.pick(&refused), wants_values, &mut seen) {
            Ok(Some(done)) => results.put(&refused, done),
            Err(error) if !error.is_lack_of_room() => return Err(error),
            _ => return Ok(results),
        }
    }
}

/// Retries elements that were refused by a map of generation `seen`, and sets `seen` to the map's generation,
/// or to `None` if all elements are refused again. Returns `None` if there is no memory for any of them.
///
/// A futile attempt does not end the call: other threads may have taken the memory. The next attempt then
/// follows memory that this call has obtained itself. If even that was only freed, not allocated, and the
/// attempt is futile again, the call gives up: a refused out-of-place attempt allocates copies of nodes and
/// frees them, so there would be something to free forever.
fn again<M: Structure + ?Sized>(
    map: &M,
    op: BatchOp,
    refused: &Elements<'_, M::Key, M::Value>,
    wants_values: bool,
    seen: &mut Option<u64>,
) -> Result<Option<Results<M::Value>>> {
    let room = map.grow_for(&refused.keys, *seen)?;
    if room == Room::None {
        return Ok(None);
    }
    let generation = map.generation();
    let results = attempt(map, op, refused, wants_values)?;
    let is_vain = results.refused().len() == refused.keys.len();
    if is_vain && seen.is_none() && room == Room::Freed {
        return Ok(None);
    }
    *seen = (!is_vain).then_some(generation);
    Ok(Some(results))
}

/// Runs a batch once. A launch may run out of memory part way, if the batch is submitted in chunks: then the
/// elements that were not submitted are refused. Returns the error if no element is done.
fn attempt<M: Structure + ?Sized>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, M::Key, M::Value>,
    wants_values: bool,
) -> Result<Results<M::Value>> {
    let uploaded = Uploaded::new(map.device(), elements, wants_values)?;
    let batch = uploaded.batch(op);
    or_later(map.reserve_for(&batch))?;
    let Err(error) = map.run(batch, &elements.keys) else { return uploaded.results() };
    if !error.is_lack_of_room() {
        return Err(error);
    }
    let results = uploaded.results()?;
    let is_begun = results.outcomes.iter().any(|&outcome| outcome != Outcome::Refused);
    if is_begun { Ok(results) } else { Err(error) }
}

/// Runs a batch that changes nothing.
fn once<K: Word, V: Word>(
    device: &Device,
    submit: Submit<'_, K, V>,
    op: BatchOp,
    elements: &Elements<'_, K, V>,
    wants_values: bool,
) -> Result<Results<V>> {
    let uploaded = Uploaded::new(device, elements, wants_values)?;
    submit(&device.default_stream(), uploaded.batch(op))?;
    uploaded.results()
}

/// A batch's elements and results on the device.
struct Uploaded<K, V> {
    codes: Buffer<u8>,
    keys: Buffer<K>,
    arguments: Buffer<V>,
    values: Option<Buffer<V>>,
    /// Initialized with [`Outcome::Refused`]; a launch overwrites it.
    outcomes: Buffer<u8>,
}

impl<K: Word, V: Word> Uploaded<K, V> {
    fn new(device: &Device, elements: &Elements<'_, K, V>, wants_values: bool) -> Result<Self> {
        let len = elements.keys.len();
        Ok(Self {
            codes: device.from_slice(&elements.codes)?,
            keys: device.from_slice(&elements.keys)?,
            arguments: device.from_slice(&elements.arguments)?,
            values: if wants_values { Some(device.buffer(len)?) } else { None },
            outcomes: device.filled(len, Outcome::Refused as u8)?,
        })
    }

    fn batch(&self, op: BatchOp) -> Batch<K, V> {
        Batch {
            codes: self.codes.global(),
            arguments: self.arguments.global(),
            results: self.values.as_ref().map_or_else(nothing, Buffer::global),
            outcomes: self.outcomes.global(),
            ..Batch::new(op, self.keys.global())
        }
    }

    /// Waits for the launches.
    fn results(&self) -> Result<Results<V>> {
        let known = |code| Outcome::from_code(code).unwrap_or(Outcome::Refused);
        let outcomes = self.outcomes.read()?.into_iter().map(known).collect();
        Ok(Results { outcomes, values: self.values.as_ref().map_or(Ok(Vec::new()), Buffer::read)? })
    }
}

/// Removes the pairs whose keys lie outside a range.
pub fn retain_keys<M: Structure + ?Sized, K: Key<Word = M::Key>>(
    map: &mut M,
    range: &RangeInclusive<K>,
) -> Result<()> {
    retain_between(map, false, encoding::ends(range.start(), range.end(), K::encode)?)
}

/// Removes the pairs whose values lie outside a range.
pub fn retain_values<M: Structure + ?Sized, V: Value<Word = M::Value>>(
    map: &mut M,
    range: &RangeInclusive<V>,
) -> Result<()> {
    retain_between(map, true, encoding::ends(range.start(), range.end(), V::encode)?)
}

/// Removes the pairs outside a range. Maintenance that lacks memory afterwards is left to the next call.
fn retain_between<M: Structure + ?Sized>(map: &mut M, by_value: bool, (low, high): (u64, u64)) -> Result<()> {
    map.scans(&mut |scanner| scanner.run(Scan::RetainBetween { by_value, low, high }))?;
    or_later(map.grow())
}

#[cfg(test)]
mod tests {
    use super::super::structure::Scans;
    use super::*;
    use std::cell::RefCell;

    /// A map that refuses everything. `finds` lists the memory that each call of `grow_for` obtains, and
    /// `seen` records the generation that each call had seen.
    struct Refusing {
        device: Device,
        finds: RefCell<Vec<Room>>,
        seen: RefCell<Vec<Option<u64>>>,
    }

    impl Structure for Refusing {
        type Key = u32;
        type Value = u32;

        fn device(&self) -> &Device {
            &self.device
        }

        fn submit(&self, _stream: &Stream, _batch: Batch<u32, u32>) -> Result<()> {
            Ok(())
        }

        fn scans(&self, _run: Scans<'_, u32, u32>) -> Result<()> {
            Ok(())
        }

        fn generation(&self) -> u64 {
            self.seen.borrow().len() as u64
        }

        fn grows(&self) -> bool {
            false
        }

        fn grow(&self) -> Result<()> {
            Ok(())
        }

        fn grow_for(&self, refused: &[u32], seen: Option<u64>) -> Result<Room> {
            assert_eq!(refused, [7, 8]);
            self.seen.borrow_mut().push(seen);
            Ok(self.finds.borrow_mut().pop().unwrap_or(Room::None))
        }

        fn len(&self) -> Result<usize> {
            Ok(0)
        }

        fn clear(&mut self) -> Result<()> {
            Ok(())
        }

        fn memory_usage(&self) -> usize {
            0
        }
    }

    /// Inserts into a map whose growth yields `finds`, one after the other. Returns the generation that each
    /// attempt had seen.
    fn insert(finds: &[Room]) -> Vec<Option<u64>> {
        let map = Refusing {
            device: Device::emulator(Default::default()),
            finds: RefCell::new(finds.iter().rev().copied().collect()),
            seen: RefCell::default(),
        };
        let elements = Elements { codes: (&[]).into(), keys: (&[7, 8]).into(), arguments: (&[1, 1]).into() };
        let results = until_room(&map, BatchOp::Insert, &elements, false).unwrap();
        assert_eq!(results.outcomes, [Outcome::Refused; 2]);
        map.seen.into_inner()
    }

    #[test]
    fn a_retry_in_vain_is_followed_by_one_with_room_of_its_own() {
        use Room::{Freed, More, None as Nothing};
        let own = None;
        assert_eq!(insert(&[Nothing]), [Some(0)]);
        assert_eq!(insert(&[More, Nothing]), [Some(0), own]);
        assert_eq!(insert(&[Freed, Nothing]), [Some(0), own]);
    }

    /// Otherwise refused attempts that copy nodes and free them would continue forever.
    #[test]
    fn freed_memory_that_serves_nobody_ends_the_call() {
        use Room::{Freed, More};
        let own = None;
        assert_eq!(insert(&[Freed; 9]), [Some(0), own]);
        assert_eq!(insert(&[More, Freed, More]), [Some(0), own]);
        assert_eq!(insert(&[Freed, More, More, Freed, More]), [Some(0), own, own, own]);
    }
}

//! Batches on host slices. Refused elements are retried as long as the map grows.
use super::encoding::{self, Word, decoded};
use super::fresh::room_for;
use super::host::{self, Request};
use super::launch::{Batch, BatchOp, Scan, nothing};
use super::structure::{HostKeys, Room, Structure};
use super::{Key, OldValues, Outcomes, Pairs, Value, check, outcome_of, parallel};
use crate::error::or_later;
use crate::{Error, Result};
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::{OpCode, Outcome, Scalar};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds, RangeInclusive};

/// Results of a batch: outcomes, and the words of the values.
pub struct Results<V> {
    pub outcomes: Vec<Outcome>,
    pub values: Vec<V>,
    has_refused: bool,
}

impl<V: Word> Results<V> {
    /// Returns the results of elements with these outcome codes. `values` has a word for each, or none.
    #[cfg(feature = "tiered-map")]
    pub fn of_codes(codes: &[u8], values: Vec<V>) -> Result<Self> {
        let mut results = Self::for_elements(codes.len(), false);
        results.append(codes, &[])?;
        Ok(Self { values, ..results })
    }

    /// Copies the results of a batch that is executed to the host: the first outcome codes and words of
    /// values of two buffers. There are as many words as codes, or none.
    #[cfg(feature = "sharded-map")]
    pub fn of_device(codes: (&Buffer<u8>, usize), words: (&Buffer<V>, usize)) -> Result<Self> {
        let mut results = Self::for_elements(codes.1, words.1 > 0);
        download_anyhow(codes, &mut |codes| results.append(codes, &[]))?;
        download_anyhow(words, &mut |words| results.append(&[], words))?;
        Ok(results)
    }

    /// Returns the error with the outcomes if elements were refused.
    pub fn or_no_room(self) -> Result<Self> {
        if self.has_refused { Err(self.no_room()) } else { Ok(self) }
    }

    /// Returns the results of no elements, with room for those of `len`.
    fn for_elements(len: usize, has_values: bool) -> Self {
        let values = room_for(if has_values { len } else { 0 });
        Self { outcomes: room_for(len), values, has_refused: false }
    }

    /// Appends the results of a part of the batch.
    fn append(&mut self, codes: &[u8], words: &[V]) -> Result<()> {
        parallel::append(&mut self.values, (words, words), |&word, _| Ok(word))?;
        let outcome = |&code: &u8| outcome_of(code);
        let is_refused = |&code: &u8| code == Outcome::Refused as u8;
        self.has_refused |= parallel::append_noting(&mut self.outcomes, codes, outcome, is_refused);
        Ok(())
    }

    /// Marks the elements without results, of `len`, as refused. Returns whether there are others.
    fn refuse_rest(&mut self, len: usize, has_values: bool) -> bool {
        self.has_refused |= self.outcomes.len() < len;
        self.outcomes.resize(len, Outcome::Refused);
        self.values.resize(if has_values { len } else { 0 }, V::default());
        self.outcomes.iter().any(|&outcome| outcome != Outcome::Refused)
    }

    /// Returns the indices of the refused elements.
    pub fn refused(&self) -> Vec<usize> {
        if !self.has_refused {
            return Vec::new();
        }
        let is_refused = |&place: &usize| self.outcomes[place] == Outcome::Refused;
        (0..self.outcomes.len()).filter(is_refused).collect()
    }

    /// Stores the results of retried elements at their indices.
    pub fn put(&mut self, places: &[usize], again: Self) {
        for (&place, outcome) in places.iter().zip(again.outcomes) {
            self.outcomes[place] = outcome;
        }
        for (&place, value) in places.iter().zip(again.values) {
            self.values[place] = value;
        }
        self.has_refused = again.has_refused;
    }

    /// Returns the outcomes without the values.
    pub fn into_outcomes(self) -> Outcomes {
        self.outcomes.into()
    }

    /// Returns the error with these outcomes.
    fn no_room(self) -> Error {
        Error::NoRoom { outcomes: self.into_outcomes(), cause: None }
    }

    /// Returns the values whose outcomes satisfy `is`.
    pub fn values_where<T: Value<Word = V>>(
        &self,
        is: impl Fn(Outcome) -> bool + Sync,
    ) -> Result<Vec<Option<T>>> {
        let mut values = room_for(self.values.len());
        let value = |&outcome: &Outcome, &word: &V| match is(outcome) {
            true => decoded(word, T::decode).map(Some),
            false => Ok(None),
        };
        parallel::append(&mut values, (&self.outcomes, &self.values), value)?;
        Ok(values)
    }

    /// Returns the values that keys had whose outcome is `outcome`, and all outcomes.
    pub fn into_old_values<T: Value<Word = V>>(self, outcome: Outcome) -> Result<OldValues<T>> {
        let values = self.values_where(|found| found == outcome)?;
        Ok(OldValues::new(self.outcomes.into(), values))
    }

    /// Returns the outcomes, and the values of those that satisfy `is`.
    pub fn pairs_where<T: Value<Word = V>>(
        self,
        is: impl Fn(Outcome) -> bool + Sync,
    ) -> Result<Vec<(Outcome, Option<T>)>> {
        let values = self.values_where(is)?;
        Ok(self.outcomes.into_iter().zip(values).collect())
    }
}

/// The elements of a batch on the host. Columns that the operation does not need are empty.
struct Elements<'a, K: Copy, V: Copy> {
    codes: Cow<'a, [u8]>,
    keys: Cow<'a, [K]>,
    arguments: Cow<'a, [V]>,
}

impl<'a, K: Key, V: Value> Elements<'a, K, V> {
    fn of_keys(keys: &'a [K]) -> Self {
        Self { codes: (&[]).into(), keys: keys.into(), arguments: (&[]).into() }
    }

    fn of_pairs(keys: &'a [K], values: &'a [V]) -> Result<Self> {
        check("values", keys.len(), values.len())?;
        Ok(Self { arguments: values.into(), ..Self::of_keys(keys) })
    }

    fn pick(&self, indices: &[usize]) -> Self {
        Self {
            codes: pick(&self.codes, indices).into(),
            keys: pick(&self.keys, indices).into(),
            arguments: pick(&self.arguments, indices).into(),
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn request(&self, op: BatchOp, returns: bool) -> Request<'_, K, V> {
        let (codes, arguments) = (&self.codes, &self.arguments);
        Request { codes, arguments, ..Request::of_keys(op, &self.keys, returns) }
    }
}

/// Returns the elements at `indices`, or nothing if the slice is empty.
fn pick<T: Copy>(slice: &[T], indices: &[usize]) -> Vec<T> {
    if slice.is_empty() { Vec::new() } else { indices.iter().map(|&index| slice[index]).collect() }
}

/// Returns the values of the keys, `None` for an absent key.
pub fn look_up<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    keys: &[K],
) -> Result<Vec<Option<V>>> {
    host::values(map.device(), &|stream, batch| map.submit(stream, batch), keys)
}

/// Returns for each key whether it is present.
pub fn contains<M: Structure + ?Sized, K: Key<Word = M::Key>>(map: &M, keys: &[K]) -> Result<Vec<bool>> {
    host::presence(map.device(), &|stream, batch| map.submit(stream, batch), keys)
}

/// Writes the values of the keys, and for each whether it is present.
pub fn look_up_into<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    keys: &[K],
    values: &mut [V],
    found: &mut [bool],
) -> Result<()> {
    host::values_into(map.device(), &|stream, batch| map.submit(stream, batch), keys, (values, found))
}

/// Writes for each key whether it is present.
pub fn contains_into<M: Structure + ?Sized, K: Key<Word = M::Key>>(
    map: &M,
    keys: &[K],
    found: &mut [bool],
) -> Result<()> {
    host::presence_into(map.device(), &|stream, batch| map.submit(stream, batch), keys, found)
}

/// Runs one operation for each pair.
pub fn with_values<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    keys: &[K],
    values: &[V],
) -> Result<Results<M::Value>> {
    let returns = matches!(op, BatchOp::GetOrInsert);
    or_no_room(map, until_no_growth(map, op, &Elements::of_pairs(keys, values)?, returns)?)
}

/// Inserts keys into a structure without values.
pub fn new_keys<M: Structure + ?Sized, K: Key<Word = M::Key>>(map: &M, keys: &[K]) -> Result<Outcomes> {
    let elements = Elements::<K, M::Value>::of_keys(keys);
    or_no_room(map, until_no_growth(map, BatchOp::InsertNew, &elements, false)?).map(Results::into_outcomes)
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

/// Returns the elements. Unlike `collect` it reserves no memory by [`Iterator::size_hint`], which may lie.
pub fn all_of<T>(elements: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    elements.into_iter().for_each(|element| all.push(element));
    all
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
    let returns = !elements.arguments.is_empty();
    or_no_room(map, until_no_growth(map, BatchOp::Mixed, &elements, returns)?)
}

/// Removes keys. Returns for each whether it was removed.
pub fn removed<M: Structure + ?Sized, K: Key<Word = M::Key>>(map: &M, keys: &[K]) -> Result<Vec<bool>> {
    let elements = Elements::<K, M::Value>::of_keys(keys);
    let results = until_no_growth(map, BatchOp::Remove, &elements, false)?;
    // A boolean result cannot represent a refused removal.
    if results.has_refused {
        return Err(results.no_room());
    }
    let (mut removed, outcomes) = (Vec::with_capacity(keys.len()), &results.outcomes);
    parallel::append(&mut removed, (outcomes, outcomes), |&outcome, _| Ok(outcome == Outcome::Removed))?;
    Ok(removed)
}

/// Removes keys, and returns their values.
pub fn taken<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    keys: &[K],
) -> Result<OldValues<V>> {
    let elements = Elements::<K, V>::of_keys(keys);
    until_no_growth(map, BatchOp::Take, &elements, true)?.into_old_values(Outcome::Removed)
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

/// Returns an error if elements are refused by a map that grows.
fn or_no_room<M: Structure + ?Sized>(map: &M, results: Results<M::Value>) -> Result<Results<M::Value>> {
    if results.has_refused && map.grows() { Err(results.no_room()) } else { Ok(results) }
}

/// Runs a batch, and retries refused elements as long as the map grows. Maintenance that lacks memory
/// afterwards is left to the next call.
fn until_no_growth<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, K, V>,
    returns: bool,
) -> Result<Results<M::Value>> {
    let mut seen = Some(map.generation());
    let mut results = attempt(map, op, elements, returns)?;
    loop {
        let refused = results.refused();
        if refused.is_empty() {
            or_later(map.grow())?;
            return Ok(results);
        }
        match again(map, op, &elements.pick(&refused), returns, &mut seen) {
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
fn again<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    refused: &Elements<'_, K, V>,
    returns: bool,
    seen: &mut Option<u64>,
) -> Result<Option<Results<M::Value>>> {
    let room = map.grow_for(&K::encode_all(&refused.keys), *seen)?;
    if room == Room::None {
        return Ok(None);
    }
    let generation = map.generation();
    let results = attempt(map, op, refused, returns)?;
    let is_vain = results.refused().len() == refused.len();
    if is_vain && seen.is_none() && room == Room::Freed {
        return Ok(None);
    }
    *seen = (!is_vain).then_some(generation);
    Ok(Some(results))
}

/// Runs a batch once, whole or in chunks. A launch may run out of memory part way: then the elements that
/// were not submitted are refused. Returns the error if no element is done.
fn attempt<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, K, V>,
    returns: bool,
) -> Result<Results<M::Value>> {
    let (len, mut results) = (elements.len(), Results::for_elements(elements.len(), returns));
    let keys = HostKeys { len, at: &|index| elements.keys[index].encode() };
    let mut sink = |_, codes: &[u8], words: &[M::Value]| results.append(codes, words);
    let done = if map.needs_whole(op, &keys)? {
        whole(map, op, elements, (returns, &keys), &mut sink)
    } else {
        let request = elements.request(op, returns);
        host::batch(map.device(), &|stream, batch| map.submit(stream, batch), &request, &mut sink)
    };
    match done {
        Err(error) if !error.is_lack_of_room() => Err(error),
        Err(error) if !results.refuse_rest(len, returns) => Err(error),
        _ => Ok(results),
    }
}

/// Runs a batch that the structure needs to know as a whole.
fn whole<M: Structure + ?Sized, K: Key<Word = M::Key>, V: Value<Word = M::Value>>(
    map: &M,
    op: BatchOp,
    elements: &Elements<'_, K, V>,
    (returns, keys): (bool, &HostKeys<'_, M::Key>),
    sink: host::Sink<'_, M::Value>,
) -> Result<()> {
    let uploaded = Uploaded::new(map.device(), elements, returns)?;
    let batch = uploaded.batch(op);
    or_later(map.reserve_for(&batch))?;
    let ran = map.run(batch, keys);
    match &ran {
        Err(error) if !error.is_lack_of_room() => {}
        _ => uploaded.results(sink)?,
    }
    ran
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
    fn new<A: Key<Word = K>, B: Value<Word = V>>(
        device: &Device,
        elements: &Elements<'_, A, B>,
        returns: bool,
    ) -> Result<Self> {
        Ok(Self {
            codes: host::upload(device, &elements.codes, |code| code)?,
            keys: host::upload(device, &elements.keys, A::encode)?,
            arguments: host::upload(device, &elements.arguments, B::encode)?,
            values: if returns { Some(device.buffer(elements.len())?) } else { None },
            outcomes: device.filled(elements.len(), Outcome::Refused as u8)?,
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

    /// Waits for the launches, and passes the results to `sink`, outcomes and values one after the other.
    fn results(&self, sink: host::Sink<'_, V>) -> Result<()> {
        download_anyhow((&self.outcomes, self.outcomes.len()), &mut |codes| sink(0..0, codes, &[]))?;
        let Some(values) = &self.values else { return Ok(()) };
        download_anyhow((values, values.len()), &mut |words| sink(0..0, &[], words))
    }
}

/// Copies the first `len` elements to the host, and passes them to `take` in order, also if there is no
/// memory for staging: the batch is executed, so its results must not be lost.
fn download_anyhow<W: bytemuck::Pod + simt::Word>(
    (elements, len): (&Buffer<W>, usize),
    take: &mut impl FnMut(&[W]) -> Result<()>,
) -> Result<()> {
    let mut taken = 0;
    let staged = host::download(elements.device(), elements.global().part(0, len), &mut |part| {
        taken += part.len();
        take(part)
    });
    match staged {
        Err(error) if error.is_lack_of_room() => {
            let mut rest = vec![W::zeroed(); len - taken];
            elements.read_into(taken, &mut rest)?;
            take(&rest)
        }
        staged => staged,
    }
}

/// Removes the pairs whose keys lie outside a range.
pub fn retain_keys<M: Structure + ?Sized, K: Key<Word = M::Key>>(
    map: &mut M,
    range: &RangeInclusive<K>,
) -> Result<()> {
    retain_between(map, false, words_within(range, K::encode)?)
}

/// Removes the pairs whose values lie outside a range.
pub fn retain_values<M: Structure + ?Sized, V: Value<Word = M::Value>>(
    map: &mut M,
    range: &RangeInclusive<V>,
) -> Result<()> {
    retain_between(map, true, words_within(range, V::encode)?)
}

/// Returns the words of the ends of a range; of one that an iteration has used up, ends with nothing between.
pub(crate) fn words_within<T: Copy + Debug, W: Scalar>(
    range: &RangeInclusive<T>,
    encode: impl Fn(T) -> W,
) -> Result<(u64, u64)> {
    let words = encoding::ends(range.start(), range.end(), encode)?;
    Ok(if matches!(range.end_bound(), Bound::Excluded(_)) { (1, 0) } else { words })
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
    use gpu::Stream;
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
        let elements = Elements::of_pairs(&[7u32, 8], &[1u32, 1]).unwrap();
        let results = until_no_growth(&map, BatchOp::Insert, &elements, false).unwrap();
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

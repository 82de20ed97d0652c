//! Batches on host slices: to the device, run, back; and again what was refused, as long as the map makes room.
use super::launch::{Ask, Batch, Scan, nothing};
use super::structure::Structure;
use super::{Key, Value, check};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{Coded, Outcome};
use std::borrow::Cow;

/// What became of the elements of a batch.
pub struct Results<V> {
    pub outcomes: Vec<Outcome>,
    pub values: Vec<V>,
}

impl<V> Results<V> {
    /// Of each element, whether it came to `outcome`.
    pub fn whether(self, outcome: Outcome) -> Vec<bool> {
        self.outcomes.into_iter().map(|found| found == outcome).collect()
    }

    /// The values whose outcomes are right.
    pub fn values_where(self, is: impl Fn(Outcome) -> bool) -> Vec<Option<V>> {
        self.outcomes
            .into_iter()
            .zip(self.values)
            .map(|(outcome, value)| is(outcome).then_some(value))
            .collect()
    }
}

/// The elements of a batch on the host.
struct Elements<'a, K: Copy, V: Copy> {
    codes: Cow<'a, [u8]>,
    keys: Cow<'a, [K]>,
    arguments: Cow<'a, [V]>,
}

impl<K: Copy, V: Copy> Elements<'_, K, V> {
    fn pick(&self, indices: &[usize]) -> Self {
        Self {
            codes: pick(&self.codes, indices).into(),
            keys: pick(&self.keys, indices).into(),
            arguments: pick(&self.arguments, indices).into(),
        }
    }
}

/// The elements at `indices`, or nothing of a slice that has nothing.
fn pick<T: Copy>(slice: &[T], indices: &[usize]) -> Vec<T> {
    if slice.is_empty() { Vec::new() } else { indices.iter().map(|&index| slice[index]).collect() }
}

/// One operation for each key.
pub fn keys<M: Structure + ?Sized>(
    map: &M,
    ask: Ask,
    keys: &[M::Key],
    wants_values: bool,
) -> Result<Results<M::Value>> {
    look_up(map.home(), &|stream, batch| map.launch(stream, batch), ask, keys, wants_values)
}

/// What asks a stream for a batch.
type Launch<'a, K, V> = &'a dyn Fn(&Stream, Batch<K, V>) -> Result<()>;

/// [`keys`] of whatever `launch` asks.
pub fn look_up<K: Key, V: Value>(
    home: &Device,
    launch: Launch<'_, K, V>,
    ask: Ask,
    keys: &[K],
    wants_values: bool,
) -> Result<Results<V>> {
    let elements = Elements { codes: (&[]).into(), keys: keys.into(), arguments: (&[]).into() };
    once(home, launch, ask, &elements, wants_values)
}

/// One operation for each pair.
pub fn pairs<M: Structure + ?Sized>(
    map: &M,
    ask: Ask,
    keys: &[M::Key],
    values: &[M::Value],
) -> Result<Results<M::Value>> {
    check("values", keys.len(), values.len())?;
    let wants_values = matches!(ask, Ask::Apply(_));
    let elements = Elements { codes: (&[]).into(), keys: keys.into(), arguments: values.into() };
    until_room(map, ask, &elements, wants_values)
}

/// One placing operation for each key of a structure without values.
pub fn new_keys<M: Structure + ?Sized>(map: &M, keys: &[M::Key]) -> Result<Vec<Outcome>> {
    let elements = Elements { codes: (&[]).into(), keys: keys.into(), arguments: (&[]).into() };
    Ok(until_room(map, Ask::InsertNew, &elements, false)?.outcomes)
}

/// An operation of its own for each element, with an argument if the structure has values.
pub fn coded<M: Structure + ?Sized>(
    map: &M,
    operations: impl Iterator<Item = (Coded, M::Key, Option<M::Value>)> + Clone,
) -> Result<Results<M::Value>> {
    let elements = Elements {
        codes: operations.clone().map(|(code, ..)| code.code() as u8).collect(),
        keys: operations.clone().map(|(_, key, _)| key).collect(),
        arguments: operations.filter_map(|(.., argument)| argument).collect(),
    };
    let wants_values = !elements.arguments.is_empty();
    until_room(map, Ask::Mixed, &elements, wants_values)
}

/// Of each key, whether the operation came to `outcome`.
pub fn whether<M: Structure + ?Sized>(
    map: &M,
    ask: Ask,
    of: &[M::Key],
    outcome: Outcome,
) -> Result<Vec<bool>> {
    Ok(keys(map, ask, of, false)?.whether(outcome))
}

/// Of each key, whether it was there and is removed.
pub fn removed<M: Structure + ?Sized>(map: &M, keys: &[M::Key]) -> Result<Vec<bool>> {
    let elements = Elements { codes: (&[]).into(), keys: keys.into(), arguments: (&[]).into() };
    let results = until_room(map, Ask::Remove, &elements, false)?;
    let refused = results.outcomes.iter().filter(|&&outcome| outcome == Outcome::Refused).count();
    if refused > 0 {
        return Err(Error::NoRoom { refused, asked: keys.len() });
    }
    Ok(results.whether(Outcome::Removed))
}

/// Runs a batch, and again what was refused as long as the map makes room.
fn until_room<M: Structure + ?Sized>(
    map: &M,
    ask: Ask,
    elements: &Elements<'_, M::Key, M::Value>,
    wants_values: bool,
) -> Result<Results<M::Value>> {
    let mut age = map.age();
    let launch = |stream: &Stream, batch| map.launch(stream, batch);
    let mut results = once(map.home(), &launch, ask, elements, wants_values)?;
    loop {
        let refused: Vec<usize> =
            (0..elements.keys.len()).filter(|&index| results.outcomes[index] == Outcome::Refused).collect();
        if refused.is_empty() {
            map.make_room()?;
            return Ok(results);
        }
        let left = elements.pick(&refused);
        if !map.make_room_for(&left.keys, age)? {
            return Ok(results);
        }
        age = map.age();
        let again = once(map.home(), &launch, ask, &left, wants_values)?;
        for (from, &to) in refused.iter().enumerate() {
            results.outcomes[to] = again.outcomes[from];
            if wants_values {
                results.values[to] = again.values[from];
            }
        }
    }
}

fn once<K: Key, V: Value>(
    device: &Device,
    launch: Launch<'_, K, V>,
    ask: Ask,
    elements: &Elements<'_, K, V>,
    wants_values: bool,
) -> Result<Results<V>> {
    let len = elements.keys.len();
    let (codes, keys) = (device.from_slice(&elements.codes)?, device.from_slice(&elements.keys)?);
    let arguments = device.from_slice(&elements.arguments)?;
    let values = if wants_values { Some(device.buffer::<V>(len)?) } else { None };
    let outcomes = device.buffer::<u8>(len)?;
    let batch = Batch {
        codes: codes.slice(),
        arguments: arguments.slice(),
        results: values.as_ref().map_or_else(nothing, Buffer::slice),
        outcomes: outcomes.slice(),
        ..Batch::new(ask, keys.slice())
    };
    launch(&device.default_stream(), batch)?;
    let known = |code| Outcome::from_code(code).unwrap_or(Outcome::Refused);
    let outcomes = outcomes.read()?.into_iter().map(known).collect();
    Ok(Results { outcomes, values: values.map_or(Ok(Vec::new()), |values| values.read())? })
}

/// Removes what lies outside a range.
pub fn retain_between<M: Structure + ?Sized>(map: &mut M, by_value: bool, low: u64, high: u64) -> Result<()> {
    if low > high {
        return Err(Error::Range { low, high });
    }
    map.scans(&mut |scanner| scanner.run(Scan::RetainBetween { by_value, low, high }))?;
    map.make_room()
}

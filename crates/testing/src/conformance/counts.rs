//! Batches on device buffers that a count on the device bounds.
use crate::kinds::{Kind, Tested, contents};
use bytemuck::Pod;
use gpu::{Bounded, Buffer, Device};
use phalanx::map::OpCode;
use phalanx::{Merge, Outcome};
use phalanx_kernels::keyed::Scalar;
use std::fmt::Debug;

/// Byte of the results that a batch must not write.
pub const UNTOUCHED: u8 = 0xee;

/// Calls `case` with a batch of `len` elements for each count at the limits, as `u32` or as `u64`, and for a
/// count whose lower half is 0.
pub fn each_count(device: &Device, len: usize, case: impl Fn(&Counted<'_>)) {
    for count in [0, 1, len - 1, len, len + 7] {
        case(&Counted::narrow(device, len, count));
    }
    for count in [len - 1, 1 << 32] {
        case(&Counted::wide(device, len, count));
    }
}

/// A batch of `len` elements of which a count on the device includes `used`.
pub struct Counted<'a> {
    device: &'a Device,
    pub len: usize,
    pub used: usize,
    count: CountBuffer,
}

enum CountBuffer {
    Narrow(Buffer<u32>),
    Wide(Buffer<u64>),
}

impl<'a> Counted<'a> {
    fn narrow(device: &'a Device, len: usize, count: usize) -> Self {
        let buffer = device.from_slice(&[count as u32]).unwrap();
        Self { device, len, used: count.min(len), count: CountBuffer::Narrow(buffer) }
    }

    fn wide(device: &'a Device, len: usize, count: usize) -> Self {
        let buffer = device.from_slice(&[count as u64]).unwrap();
        Self { device, len, used: count.min(len), count: CountBuffer::Wide(buffer) }
    }

    /// Returns a buffer whose used elements are initialized: the emulator reports reads of the others.
    pub fn buffer<T: Pod>(&self, elements: &[T]) -> Buffer<T> {
        let mut buffer = self.device.buffer(self.len).unwrap();
        buffer.slice_mut(..self.used).unwrap().write(&elements[..self.used]).unwrap();
        buffer
    }

    /// Returns a buffer for results.
    pub fn results<T: Pod>(&self) -> Buffer<T> {
        let mut results = self.device.buffer(self.len).unwrap();
        results.fill_bytes(UNTOUCHED).unwrap();
        results
    }

    /// Returns the elements, bounded by the count.
    pub fn bounded<'b, T: Pod>(&'b self, elements: &'b Buffer<T>) -> Bounded<'b, T> {
        match &self.count {
            CountBuffer::Narrow(count) => elements.bounded_by(count).unwrap(),
            CountBuffer::Wide(count) => elements.bounded_by(count).unwrap(),
        }
    }

    /// Checks the used results, that the others are untouched, and prepares the buffer for the next batch.
    #[track_caller]
    pub fn check<T: Pod + PartialEq + Debug>(
        &self,
        name: &str,
        results: &mut Buffer<T>,
        expected: impl Fn(usize) -> T,
    ) {
        let found = results.read().unwrap();
        let used = found.iter().enumerate().take(self.used);
        let wrong =
            used.map(|(index, result)| (index, *result)).find(|&(index, result)| result != expected(index));
        assert_eq!(wrong, None, "{name}, {} of {}", self.used, self.len);
        let is_untouched = |result: &T| bytemuck::bytes_of(result).iter().all(|&byte| byte == UNTOUCHED);
        let touched = found[self.used..].iter().position(|result| !is_untouched(result));
        assert_eq!(touched, None, "{name}, {} of {}", self.used, self.len);
        results.fill_bytes(UNTOUCHED).unwrap();
    }
}

/// On the first variants, the batch is so long that ordered maps divide it into several launches. The others
/// share their code, so one count suffices.
pub fn batches_are_bounded_by_counts<M: Tested>(kind: &Kind<M>) {
    let case = |counted: &Counted<'_>| {
        let map = with_room(kind, counted.len);
        writes_are_bounded(kind, &map, counted);
        reads_are_bounded(kind, &map, counted);
        removals_are_bounded(kind, &map, counted);
    };
    if kind.is_main {
        each_count(&kind.device, 530, case);
    } else {
        case(&Counted::narrow(&kind.device, 40, 39));
    }
}

/// Returns an empty map that has room for all keys of a batch. Batches on device buffers do not grow it.
fn with_room<M: Tested>(kind: &Kind<M>, len: usize) -> M {
    let mut map = kind.map(3 * len);
    let (keys, values) = kind.columns((0..3 * len as u64).map(|n| (n, n)));
    assert!(map.insert(&keys, &values).unwrap().all_placed(), "{}", kind.name);
    map.clear().unwrap();
    map
}

/// Returns the keys of the batch, and its values: a factor times the index.
fn columns<M: Tested>(
    kind: &Kind<M>,
    counted: &Counted<'_>,
    factor: u64,
) -> (Buffer<M::Key>, Buffer<M::Value>) {
    let (keys, values) = kind.columns((0..counted.len as u64).map(|n| (n * 3, n * factor)));
    (counted.buffer(&keys), counted.buffer(&values))
}

/// Stores 5 times its index for each key.
fn writes_are_bounded<M: Tested>(kind: &Kind<M>, map: &M, counted: &Counted<'_>) {
    let stream = kind.device.stream().unwrap();
    let on = map.on(&stream);
    let (keys, ones) = columns(kind, counted, 1);
    let (_, threes) = columns(kind, counted, 3);
    let keys = counted.bounded(&keys);
    let (mut outcomes, mut results) = (counted.results::<u8>(), counted.results::<M::Value>());
    let had = |outcomes: &mut _, outcome| counted.check(kind.name, outcomes, |_| outcome as u8);
    on.insert_new(keys, &ones, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Inserted);
    on.insert(keys, &threes, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Replaced);
    on.upsert(Merge::Add, keys, &ones, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Replaced);
    let adds = counted.buffer(&vec![OpCode::ADD.code() as u8; counted.len]);
    on.execute(&adds, keys, &ones, &mut results, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Replaced);
    counted.check(kind.name, &mut results, |index| M::Value::from_u64(4 * index as u64));
    on.get_or_insert(keys, &ones, &mut results, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Found);
    counted.check(kind.name, &mut results, |index| M::Value::from_u64(5 * index as u64));
    let (_, fives) = columns(kind, counted, 5);
    on.replace(keys, &fives, &mut results, &mut outcomes).unwrap();
    had(&mut outcomes, Outcome::Replaced);
    counted.check(kind.name, &mut results, |index| M::Value::from_u64(5 * index as u64));
    on.insert_new(keys, &ones, None).unwrap();
    let stored = kind.columns((0..counted.used as u64).map(|n| (n * 3, n * 5)));
    assert_eq!(contents(map), stored.0.into_iter().zip(stored.1).collect(), "{}", kind.name);
}

fn reads_are_bounded<M: Tested>(kind: &Kind<M>, map: &M, counted: &Counted<'_>) {
    let stream = kind.device.stream().unwrap();
    let on = map.on(&stream);
    let (keys, _) = columns(kind, counted, 1);
    let keys = counted.bounded(&keys);
    let (mut outcomes, mut results) = (counted.results::<u8>(), counted.results::<M::Value>());
    on.get(keys, &mut results, &mut outcomes).unwrap();
    counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
    counted.check(kind.name, &mut results, |index| M::Value::from_u64(5 * index as u64));
    on.contains_key(keys, &mut outcomes).unwrap();
    counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
}

/// Removes only the keys that the count includes, of a map with all.
fn removals_are_bounded<M: Tested>(kind: &Kind<M>, map: &M, counted: &Counted<'_>) {
    let stream = kind.device.stream().unwrap();
    let (all, values) = kind.columns((0..counted.len as u64).map(|n| (n * 3, n)));
    let keys = counted.buffer(&all);
    let (mut outcomes, mut results) = (counted.results::<u8>(), counted.results::<M::Value>());
    for takes in [false, true] {
        assert!(map.insert(&all, &values).unwrap().all_placed(), "{}", kind.name);
        let (on, keys) = (map.on(&stream), counted.bounded(&keys));
        if takes {
            on.take(keys, &mut results, &mut outcomes).unwrap();
            counted.check(kind.name, &mut results, |index| values[index]);
        } else {
            on.remove(keys, &mut outcomes).unwrap();
        }
        counted.check(kind.name, &mut outcomes, |_| Outcome::Removed as u8);
        let left = all.iter().copied().zip(values.iter().copied()).skip(counted.used);
        assert_eq!(contents(map), left.collect(), "{}", kind.name);
    }
}

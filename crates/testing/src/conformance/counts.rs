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
    let narrow = |count: usize| CountBuffer::Narrow(device.from_slice(&[count as u32]).unwrap());
    let wide = |count: usize| CountBuffer::Wide(device.from_slice(&[count as u64]).unwrap());
    let counts = [narrow(0), narrow(1), narrow(len - 1), narrow(len), narrow(len + 7)];
    for count in counts.into_iter().chain([wide(len - 1), wide(1 << 32)]) {
        let used = count.value().min(len as u64) as usize;
        case(&Counted { device, len, used, count });
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

impl CountBuffer {
    fn value(&self) -> u64 {
        match self {
            Self::Narrow(count) => count.read().unwrap()[0].into(),
            Self::Wide(count) => count.read().unwrap()[0],
        }
    }
}

impl Counted<'_> {
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
    pub fn bounded<'a, T: Pod>(&'a self, elements: &'a Buffer<T>) -> Bounded<'a, T> {
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
        let wrong = (0..self.used).find(|&index| found[index] != expected(index));
        assert_eq!(
            wrong,
            None,
            "{name}, {} of {}: {:?}",
            self.used,
            self.len,
            wrong.map(|index| found[index])
        );
        let is_untouched = |result: &T| bytemuck::bytes_of(result).iter().all(|&byte| byte == UNTOUCHED);
        let touched = found[self.used..].iter().position(|result| !is_untouched(result));
        assert_eq!(touched, None, "{name}, {} of {}", self.used, self.len);
        results.fill_bytes(UNTOUCHED).unwrap();
    }
}

/// Large enough on the first variants that ordered maps divide the batch into several launches.
pub fn batches_are_bounded_by_counts<M: Tested>(kind: &Kind<M>) {
    let len = if kind.is_main { 700 } else { 40 };
    each_count(&kind.device, len, |counted| {
        let map = with_room(kind, len);
        writes_are_bounded(kind, &map, counted);
        reads_are_bounded(kind, &map, counted);
        removals_are_bounded(kind, &map, counted);
    });
}

/// Returns an empty map that has room for all keys of a batch. Batches on device buffers do not grow it.
fn with_room<M: Tested>(kind: &Kind<M>, len: usize) -> M {
    let mut map = kind.map(4 * len);
    let (keys, values) = kind.columns((0..4 * len as u64).map(|n| (n, n)));
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
    assert!(map.insert(&all, &values).unwrap().all_placed(), "{}", kind.name);
    let mut outcomes = counted.results::<u8>();
    map.on(&stream).remove(counted.bounded(&counted.buffer(&all)), &mut outcomes).unwrap();
    counted.check(kind.name, &mut outcomes, |_| Outcome::Removed as u8);
    let left = all.into_iter().zip(values).skip(counted.used);
    assert_eq!(contents(map), left.collect(), "{}", kind.name);
}

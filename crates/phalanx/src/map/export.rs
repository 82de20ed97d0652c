//! All pairs of a structure, on the host.
use super::Pairs;
use super::launch::Scan;
use super::structure::{Scanner, Structure};
use crate::Result;
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::Scalar;

/// Threads that export at a time: what bounds the device memory that an export needs, at 64 MiB for a hash map.
const THREADS: usize = 1 << 22;

/// All keys and, at the same places, their values: those of one moment.
pub fn all<M: Structure + ?Sized>(map: &M) -> Result<Pairs<M::Key, M::Value>> {
    by(map, THREADS)
}

/// Exports what so many threads of a scan see at a time.
fn by<M: Structure + ?Sized>(map: &M, threads: usize) -> Result<Pairs<M::Key, M::Value>> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    map.scans(&mut |scanner| {
        keys.reserve(scanner.pairs);
        values.reserve(scanner.pairs);
        let threads = threads.min(scanner.threads).next_multiple_of(32);
        let mut part = Part::new(map.home(), threads)?;
        for first in (0..scanner.threads).step_by(threads) {
            let found = part.fill(map.home(), &scanner, first, threads)?;
            append(&mut keys, &part.keys, found)?;
            append(&mut values, &part.values, found)?;
        }
        Ok(())
    })?;
    Ok((keys, values))
}

/// Room for the pairs of a part.
struct Part<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Part<K, V> {
    fn new(device: &Device, pairs: usize) -> Result<Self> {
        Ok(Self { keys: device.buffer(pairs)?, values: device.buffer(pairs)?, count: device.zeroed(1)? })
    }

    /// Exports a part, into more room where it has more pairs than there is room for. Gives how many they are.
    fn fill(
        &mut self,
        device: &Device,
        scanner: &Scanner<'_, K, V>,
        first: usize,
        threads: usize,
    ) -> Result<usize> {
        loop {
            self.count.fill_bytes(0)?;
            let (keys, values, count) = (self.keys.slice(), self.values.slice(), self.count.slice());
            scanner.run(Scan::Export { first, threads, keys, values, count })?;
            let found = self.count.read()?[0] as usize;
            if found <= self.keys.len() {
                return Ok(found);
            }
            *self = Self::new(device, found)?;
        }
    }
}

/// Appends the first `count` elements of a buffer.
fn append<T: Scalar>(to: &mut Vec<T>, from: &Buffer<T>, count: usize) -> Result<()> {
    let len = to.len();
    to.resize(len + count, T::from_u64(0));
    Ok(from.read_into(0, &mut to[len..])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashMap, Map, SlabHash};
    use std::collections::BTreeMap;

    fn parts_make_the_whole(map: &(impl Map<Key = u32, Value = u64> + ?Sized)) {
        let keys: Vec<u32> = (0..150).map(|n| if n < 4 { u32::MAX - n } else { n * 7 }).collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
        map.insert(&keys, &values).unwrap();
        let expected: BTreeMap<_, _> = keys.into_iter().zip(values).collect();
        for threads in [1, 33, 256, usize::MAX / 2] {
            let (keys, values) = by(map, threads).unwrap();
            assert_eq!(keys.len(), expected.len(), "{threads} threads at a time");
            assert_eq!(keys.into_iter().zip(values).collect::<BTreeMap<_, _>>(), expected);
        }
    }

    #[test]
    fn parts_of_any_size_make_the_whole() {
        let device = Device::emulator(Default::default());
        parts_make_the_whole(&HashMap::builder().device(&device).capacity(200).build().unwrap());
        // A list with more pairs than its threads have room for.
        parts_make_the_whole(&SlabHash::builder().device(&device).buckets(1).build().unwrap());
    }
}

//! All pairs of a structure, on the host or in device memory.
use super::Pairs;
use super::launch::Scan;
use super::structure::{Scanner, Scans, Structure};
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
    of_scans(map.home(), &|run| map.scans(run), threads)
}

/// [`all`] of what is scanned so.
pub fn scanned<K: Scalar, V: Scalar>(
    home: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
) -> Result<Pairs<K, V>> {
    of_scans(home, scans, THREADS)
}

fn of_scans<K: Scalar, V: Scalar>(
    home: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
    threads: usize,
) -> Result<Pairs<K, V>> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    scans(&mut |scanner| {
        keys.reserve(scanner.pairs);
        values.reserve(scanner.pairs);
        let threads = threads.min(scanner.threads).next_multiple_of(32);
        let mut part = Part::new(home, threads)?;
        for first in (0..scanner.threads).step_by(threads) {
            let found = part.fill(home, &scanner, first, threads)?;
            append(&mut keys, &part.keys, found)?;
            append(&mut values, &part.values, found)?;
        }
        Ok(())
    })?;
    Ok((keys, values))
}

/// All keys and, at the same places, their values, in buffers that have just their number: those of one moment. They see no host.
pub fn on_device<M: Structure + ?Sized>(map: &M) -> Result<Columns<M::Key, M::Value>> {
    let mut whole = Part::new(map.home(), 0)?;
    map.scans(&mut |scanner| {
        whole = Part::whole(map.home(), &scanner, scanner.pairs)?;
        Ok(())
    })?;
    Ok((whole.keys, whole.values))
}

/// Keys and values on the device.
pub type Columns<K, V> = (Buffer<K>, Buffer<V>);

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

    /// Exports all pairs. A count of them that is wrong, as kernels of the user's own may leave one, costs a second export.
    fn whole(device: &Device, scanner: &Scanner<'_, K, V>, counted: usize) -> Result<Self> {
        let mut part = Self::new(device, counted)?;
        loop {
            let found = part.fill(device, scanner, 0, scanner.threads.next_multiple_of(32))?;
            if found == part.keys.len() {
                return Ok(part);
            }
            part = Self::new(device, found)?;
        }
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
    use crate::{BTree, HashMap, Map, SlabHash};
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
        let (keys, values) = on_device(map).unwrap();
        whole_is(&keys, &values, &expected);
        for counted in [0, expected.len() - 1, expected.len() + 40] {
            map.scans(&mut |scanner| {
                let whole = Part::whole(map.home(), &scanner, counted)?;
                whole_is(&whole.keys, &whole.values, &expected);
                Ok(())
            })
            .unwrap();
        }
    }

    fn whole_is(keys: &Buffer<u32>, values: &Buffer<u64>, expected: &BTreeMap<u32, u64>) {
        assert_eq!((keys.len(), values.len()), (expected.len(), expected.len()));
        let pairs = keys.read().unwrap().into_iter().zip(values.read().unwrap());
        assert_eq!(&pairs.collect::<BTreeMap<_, _>>(), expected);
    }

    #[test]
    fn parts_of_any_size_make_the_whole() {
        let device = Device::emulator(Default::default());
        parts_make_the_whole(&HashMap::builder().device(&device).capacity(200).build().unwrap());
        // A list with more pairs than its threads have room for.
        parts_make_the_whole(&SlabHash::builder().device(&device).buckets(1).build().unwrap());
        parts_make_the_whole(&BTree::builder().device(&device).build().unwrap());
    }
}

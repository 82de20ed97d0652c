//! All pairs of a structure, on the host or in device memory.
use super::Pairs;
use super::launch::Scan;
use super::structure::{Scanner, Scans, Structure};
use crate::Result;
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::Scalar;

/// Threads that export at a time: what bounds the device memory that an export needs, at 64 MiB for a hash
/// map.
const THREADS: usize = 1 << 22;

/// All keys and, at the same places, their values: those of one moment.
pub fn all<M: Structure + ?Sized>(map: &M) -> Result<Pairs<M::Key, M::Value>> {
    by(map, THREADS)
}

/// Exports what so many threads of a scan see at a time.
pub fn by<M: Structure + ?Sized>(map: &M, threads: usize) -> Result<Pairs<M::Key, M::Value>> {
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

/// All keys and, at the same places, their values, in buffers that have just their number: those of one
/// moment. They see no host.
pub fn on_device<M: Structure + ?Sized>(map: &M) -> Result<Columns<M::Key, M::Value>> {
    of_count(map, |pairs| pairs)
}

/// [`on_device`], where so many pairs are expected as `counted` makes of their number.
pub fn of_count<M: Structure + ?Sized>(
    map: &M,
    counted: impl Fn(usize) -> usize,
) -> Result<Columns<M::Key, M::Value>> {
    whole(map.home(), &|run| map.scans(run), counted)
}

/// [`of_count`] of what is scanned so.
pub fn whole<K: Scalar, V: Scalar>(
    home: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
    counted: impl Fn(usize) -> usize,
) -> Result<Columns<K, V>> {
    let mut whole = Part::new(home, 0)?;
    scans(&mut |scanner| {
        whole = Part::whole(home, &scanner, counted(scanner.pairs))?;
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

    /// Exports all pairs. A count of them that is wrong, as kernels of the user's own may leave one, costs a
    /// second export.
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

    /// Exports a part, into more room where it has more pairs than there is room for. Returns how many they
    /// are.
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

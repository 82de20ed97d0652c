//! Export of all pairs of a structure, to the host or into device memory.
use super::fresh::room_for;
use super::launch::Scan;
use super::structure::{Scanner, Scans, Structure};
use super::{Pairs, host, parallel};
use crate::Result;
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::Scalar;

/// Maximum number of threads that export at once. It limits the device memory for an export, to 256 MiB for a
/// hash map of 64-bit pairs. If there is less memory, fewer threads export at once.
const THREADS: usize = 1 << 24;
/// Number of threads below which a lack of memory ends an export.
const LEAST_THREADS: usize = 1 << 16;

/// Returns all keys and, at the same indices, their values, as of one point in time.
pub fn all<M: Structure + ?Sized>(map: &M) -> Result<Pairs<M::Key, M::Value>> {
    by(map, THREADS)
}

/// [`all`], for an ordered structure in key order.
pub fn listed<M: Structure + ?Sized>(map: &M) -> Result<Pairs<M::Key, M::Value>> {
    let pairs = all(map)?;
    Ok(if map.is_ordered() { sorted(pairs) } else { pairs })
}

/// Sorts the pairs by key and keeps the first of each key.
pub fn sorted<K: Scalar, V>((keys, values): Pairs<K, V>) -> Pairs<K, V> {
    let mut pairs: Vec<(K, V)> = keys.into_iter().zip(values).collect();
    pairs.sort_unstable_by_key(|&(key, _)| key);
    pairs.dedup_by_key(|&mut (key, _)| key);
    pairs.into_iter().unzip()
}

/// Exports with `threads` threads of a scan at a time.
pub fn by<M: Structure + ?Sized>(map: &M, threads: usize) -> Result<Pairs<M::Key, M::Value>> {
    of_scans(map.device(), &|run| map.scans(run), threads)
}

/// [`all`] for pairs that `scans` scans.
pub fn scanned<K: Scalar, V: Scalar>(
    device: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
) -> Result<Pairs<K, V>> {
    of_scans(device, scans, THREADS)
}

fn of_scans<K: Scalar, V: Scalar>(
    device: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
    threads: usize,
) -> Result<Pairs<K, V>> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    scans(&mut |scanner| {
        (keys, values) = (room_for(scanner.pairs), room_for(scanner.pairs));
        let (mut part, threads) = Part::of_threads(device, threads.min(scanner.threads))?;
        for first in (0..scanner.threads).step_by(threads) {
            let found = part.fill(device, &scanner, first, threads)?;
            append(&mut keys, &part.keys, found)?;
            append(&mut values, &part.values, found)?;
        }
        Ok(())
    })?;
    Ok((keys, values))
}

/// Returns all keys and, at the same indices, their values, as of one point in time, in device buffers of
/// exactly their number. They are not copied to the host.
pub fn on_device<M: Structure + ?Sized>(map: &M) -> Result<Columns<M::Key, M::Value>> {
    of_count(map, |pairs| pairs)
}

/// [`on_device`] with the initial buffer size that `counted` returns for the number of counted pairs.
pub fn of_count<M: Structure + ?Sized>(
    map: &M,
    counted: impl Fn(usize) -> usize,
) -> Result<Columns<M::Key, M::Value>> {
    whole(map.device(), &|run| map.scans(run), counted)
}

/// [`of_count`] for pairs that `scans` scans.
pub fn whole<K: Scalar, V: Scalar>(
    device: &Device,
    scans: &dyn Fn(Scans<'_, K, V>) -> Result<()>,
    counted: impl Fn(usize) -> usize,
) -> Result<Columns<K, V>> {
    let mut whole = Part::new(device, 0)?;
    scans(&mut |scanner| {
        whole = Part::whole(device, &scanner, counted(scanner.pairs))?;
        Ok(())
    })?;
    Ok((whole.keys, whole.values))
}

/// Keys and values on the device.
pub type Columns<K, V> = (Buffer<K>, Buffer<V>);

/// Buffers for the pairs of a part.
struct Part<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Part<K, V> {
    fn new(device: &Device, pairs: usize) -> Result<Self> {
        Ok(Self { keys: device.buffer(pairs)?, values: device.buffer(pairs)?, count: device.zeroed(1)? })
    }

    /// Returns memory for the pairs of as many threads as there is memory for, at most `most`, and their
    /// number.
    fn of_threads(device: &Device, most: usize) -> Result<(Self, usize)> {
        let mut threads = most.next_multiple_of(32);
        loop {
            match Self::new(device, threads) {
                Ok(part) => return Ok((part, threads)),
                Err(error) if threads <= LEAST_THREADS || !error.is_lack_of_room() => return Err(error),
                Err(_) => threads = (threads / 2).next_multiple_of(32),
            }
        }
    }

    /// Exports all pairs. If the number of pairs was counted wrongly, as user kernels may leave it, a second
    /// export follows.
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

    /// Exports a part, again with larger buffers if its pairs do not fit. Returns the number of pairs.
    fn fill(
        &mut self,
        device: &Device,
        scanner: &Scanner<'_, K, V>,
        first: usize,
        threads: usize,
    ) -> Result<usize> {
        loop {
            self.count.fill_bytes(0)?;
            let (keys, values, count) = (self.keys.global(), self.values.global(), self.count.global());
            scanner.run(Scan::Export { first, threads, keys, values, count })?;
            let found = self.count.read()?[0] as usize;
            if found <= self.keys.len() {
                return Ok(found);
            }
            *self = Self::new(device, found)?;
        }
    }
}

/// Appends the first `count` elements of a buffer. Waits for all earlier launches.
pub fn append<T: Scalar>(to: &mut Vec<T>, from: &Buffer<T>, count: usize) -> Result<()> {
    host::download(from.device(), from.global().part(0, count), &mut |words| {
        parallel::append(to, (words, words), |&word, _| Ok(word))
    })
}

//! The way of keys and values from the threads that read to the thread that fills a table.
//!
//! Each reading thread collects pairs in a [`Segment`]. Full segments pass through a channel, and
//! [`Batches`] joins them to batches in pinned memory, from which a device copies at the speed of its bus.
use anyhow::{Context, Result, anyhow};
use bytemuck::Pod;
use phalanx::Device;
use phalanx::gpu::{Buffer, Tier};
use rayon::prelude::*;
use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keys and values, at equal indices. A key may occur several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment<V> {
    /// Packed k-mers.
    pub keys: Vec<u64>,
    /// A value for each of them.
    pub values: Vec<V>,
}

impl<V> Segment<V> {
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }
}

/// Emptied segments, whose memory is used again.
type Spares<V> = Arc<Mutex<Vec<Segment<V>>>>;

/// Sending end of a channel for segments. Each reading thread has a clone.
#[derive(Debug)]
pub struct Feed<V> {
    sender: SyncSender<Segment<V>>,
    spares: Spares<V>,
    segment: Segment<V>,
    size: usize,
    waited: Duration,
}

impl<V> Clone for Feed<V> {
    fn clone(&self) -> Self {
        let (sender, spares) = (self.sender.clone(), self.spares.clone());
        let segment = Segment { keys: Vec::new(), values: Vec::new() };
        Self { sender, spares, segment, size: self.size, waited: Duration::ZERO }
    }
}

/// Receiving end of a channel for segments.
#[derive(Debug)]
pub struct Segments<V> {
    receiver: Receiver<Segment<V>>,
    spares: Spares<V>,
}

/// Maximum number of pairs in a segment: 1 MiB.
const LARGEST: usize = 1 << 16;
/// Least number of segments that wait in a channel before the senders do.
const WAITING: usize = 64;

/// Creates a channel for batches of at most `batch` pairs (at least 1). As many pairs wait in it, so that a
/// batch is read while the one before is executed.
pub fn channel<V>(batch: usize) -> (Feed<V>, Segments<V>) {
    let size = batch.clamp(1, LARGEST);
    let (sender, receiver) = sync_channel((batch / size).max(WAITING));
    let spares = Spares::default();
    let segment = Segment { keys: Vec::new(), values: Vec::new() };
    let feed = Feed { sender, spares: spares.clone(), segment, size, waited: Duration::ZERO };
    (feed, Segments { receiver, spares })
}

impl<V> Feed<V> {
    /// Adds a pair. Waits if the receiver is slow.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the receiver is gone, which then has an error of its own.
    #[inline]
    pub fn push(&mut self, key: u64, value: V) -> Result<()> {
        self.segment.keys.push(key);
        self.segment.values.push(value);
        if self.segment.len() < self.size { Ok(()) } else { self.send() }
    }

    /// Sends the pairs so far.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn flush(&mut self) -> Result<()> {
        if self.segment.is_empty() { Ok(()) } else { self.send() }
    }

    /// Returns the time for which the receiver was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    fn send(&mut self) -> Result<()> {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let empty = || Segment { keys: Vec::with_capacity(self.size), values: Vec::with_capacity(self.size) };
        let full = std::mem::replace(&mut self.segment, spare.unwrap_or_else(empty));
        let start = Instant::now();
        let sent = self.sender.send(full);
        self.waited += start.elapsed();
        sent.map_err(|_| anyhow!("the counting has ended early"))
    }
}

impl<V> Segments<V> {
    /// Receives the next segment, `None` when all senders are gone.
    fn next(&self) -> Option<Segment<V>> {
        self.receiver.recv().ok()
    }

    /// Takes back a segment whose pairs were used.
    fn recycle(&self, mut segment: Segment<V>) {
        segment.clear();
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).push(segment);
    }

    /// Drops all pairs until the senders are gone: a reading thread then shows its own speed.
    pub fn discard(self) {
        while let Some(segment) = self.next() {
            self.recycle(segment);
        }
    }
}

/// A column of batches, in pinned memory.
#[derive(Debug)]
pub struct Column<T: Pod>(Buffer<T>);

impl<T: Pod + Send + Sync> Column<T> {
    /// Allocates a column for batches of at most `len` elements.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the host has no memory that can be pinned.
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        let buffer = device.buffer_on(Tier::Pinned, len);
        buffer
            .map(Self)
            .with_context(|| format!("no pinned memory for batches of {len} k-mers: give a smaller --batch"))
    }

    /// Copies parts to the column, on all cores, and returns them as one slice.
    ///
    /// # Errors
    /// Returns [`phalanx::gpu::Error`] when the device is lost.
    ///
    /// # Panics
    /// Panics if the parts together are longer than the column.
    pub fn fill<'a>(&mut self, parts: impl Iterator<Item = &'a [T]>) -> phalanx::gpu::Result<&[T]> {
        let (mut rest, mut len, mut copies) = (self.0.as_mut_slice()?, 0, Vec::new());
        for part in parts {
            let (to, after) = take(&mut rest).split_at_mut(part.len());
            copies.push((to, part));
            rest = after;
            len += part.len();
        }
        copies.into_par_iter().for_each(|(to, part)| to.copy_from_slice(part));
        Ok(&self.0.as_slice()?[..len])
    }

    /// Returns the first elements, for results.
    ///
    /// # Errors
    /// Returns [`phalanx::gpu::Error`] when the device is lost.
    ///
    /// # Panics
    /// Panics if the column is shorter than `len`.
    pub fn first(&mut self, len: usize) -> phalanx::gpu::Result<&mut [T]> {
        Ok(&mut self.0.as_mut_slice()?[..len])
    }
}

/// A batch of pairs in pinned memory, which is filled again and again.
#[derive(Debug)]
pub struct Batch<V: Pod> {
    keys: Column<u64>,
    values: Column<V>,
    len: usize,
}

impl<V: Pod + Send + Sync> Batch<V> {
    /// Allocates memory for at most `size` pairs (at least 1).
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the host has no memory that can be pinned.
    pub fn new(device: &Device, size: usize) -> Result<Self> {
        let size = size.max(1);
        Ok(Self { keys: Column::new(device, size)?, values: Column::new(device, size)?, len: 0 })
    }

    /// Allocates memory for a batch of [`Rounds`] of `size` pairs on each device.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_rounds(device: &Device, size: usize) -> Result<Self> {
        // A batch is filled up to its share, and may exceed it by a part of a segment.
        Self::new(device, size.saturating_add(size.min(LARGEST)))
    }

    /// Returns the keys and the values.
    ///
    /// # Errors
    /// Returns [`phalanx::gpu::Error`] when the device is lost.
    pub fn columns(&self) -> phalanx::gpu::Result<(&[u64], &[V])> {
        Ok((&self.keys.0.as_slice()?[..self.len], &self.values.0.as_slice()?[..self.len]))
    }

    /// Returns the number of pairs for which there is memory.
    pub fn capacity(&self) -> usize {
        self.keys.0.len()
    }

    /// Replaces the pairs by those of segments, which are recycled.
    fn fill(&mut self, parts: &mut Vec<Segment<V>>, segments: &Segments<V>) -> phalanx::gpu::Result<()> {
        self.len = self.keys.fill(parts.iter().map(|segment| &segment.keys[..]))?.len();
        self.values.fill(parts.iter().map(|segment| &segment.values[..]))?;
        parts.drain(..).for_each(|segment| segments.recycle(segment));
        Ok(())
    }
}

/// Joins segments to batches.
#[derive(Debug)]
pub struct Batches<V: Pod> {
    batch: Batch<V>,
}

impl<V: Pod + Send + Sync> Batches<V> {
    /// Allocates memory for batches of at most `size` pairs (at least 1).
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the host has no memory that can be pinned.
    pub fn new(device: &Device, size: usize) -> Result<Self> {
        Ok(Self { batch: Batch::new(device, size)? })
    }

    /// Calls `run` with batches of all segments, until `run` returns an error or there are no more. All
    /// batches but the last are full, up to a segment.
    ///
    /// # Errors
    /// Returns the error of `run`, and [`anyhow::Error`] when the device is lost.
    pub fn run(
        &mut self,
        segments: Segments<V>,
        mut run: impl FnMut(&[u64], &[V]) -> Result<()>,
    ) -> Result<()> {
        let mut source = Source::new(segments);
        loop {
            let (mut parts, len) = source.take(self.batch.capacity());
            if len == 0 {
                return Ok(());
            }
            self.batch.fill(&mut parts, &source.segments)?;
            let (keys, values) = self.batch.columns()?;
            run(keys, values)?;
        }
    }
}

/// Joins segments to rounds: a batch for each of several devices.
#[derive(Debug)]
pub struct Rounds<V> {
    source: Source<V>,
    size: usize,
}

impl<V: Pod + Send + Sync> Rounds<V> {
    /// Creates rounds of at most `size` pairs on each device. The segments come from a [`channel`] for
    /// batches of this size.
    pub fn new(segments: Segments<V>, size: usize) -> Self {
        Self { source: Source::new(segments), size: size.max(1) }
    }

    /// Fills batches, made by [`Batch::of_rounds`], with the next pairs: the same number for each, up to a
    /// segment. Returns the number of pairs of all, which is 0 if there are no more.
    ///
    /// # Errors
    /// Returns [`phalanx::gpu::Error`] when a device is lost.
    pub fn fill(&mut self, batches: &mut [Batch<V>]) -> phalanx::gpu::Result<usize> {
        let (parts, total) = self.source.take(self.size.saturating_mul(batches.len()));
        let (share, mut parts) = (total.div_ceil(batches.len().max(1)), parts.into_iter());
        for batch in batches {
            let (mut own, mut len) = (Vec::new(), 0);
            while len < share
                && let Some(segment) = parts.next()
            {
                len += segment.len();
                own.push(segment);
            }
            batch.fill(&mut own, &self.source.segments)?;
        }
        Ok(total)
    }
}

/// Segments, and the one that the last batch had no room for.
#[derive(Debug)]
struct Source<V> {
    segments: Segments<V>,
    held: Option<Segment<V>>,
}

impl<V> Source<V> {
    fn new(segments: Segments<V>) -> Self {
        Self { segments, held: None }
    }

    /// Returns the next segments that have at most `most` pairs together, and the number of their pairs. It
    /// is 0 if there are no more.
    fn take(&mut self, most: usize) -> (Vec<Segment<V>>, usize) {
        let (mut parts, mut len) = (Vec::new(), 0);
        while let Some(segment) = self.held.take().or_else(|| self.segments.next()) {
            if len > 0 && len + segment.len() > most {
                self.held = Some(segment);
                break;
            }
            len += segment.len();
            parts.push(segment);
        }
        (parts, len)
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;

    /// Returns the lengths of the batches of each round of `len` pairs on two devices.
    fn rounds(len: u64, size: usize) -> Vec<[usize; 2]> {
        let device = Device::named("emulator").unwrap();
        let (mut feed, segments) = channel(size);
        let reader = std::thread::spawn(move || {
            (0..len).for_each(|key| feed.push(key, 2 * key).unwrap());
            feed.flush().unwrap();
        });
        let mut batches = [(); 2].map(|()| Batch::of_rounds(&device, size).unwrap());
        let (mut rounds, mut next) = (Rounds::new(segments, size), 0);
        let mut lens = Vec::new();
        while rounds.fill(&mut batches).unwrap() > 0 {
            for batch in &batches {
                let (keys, values) = batch.columns().unwrap();
                let expected = next..next + keys.len() as u64;
                assert!(keys.iter().copied().eq(expected.clone()));
                assert!(values.iter().copied().eq(expected.clone().map(|key| 2 * key)));
                next = expected.end;
            }
            lens.push(batches.each_ref().map(|batch| batch.columns().unwrap().0.len()));
        }
        reader.join().unwrap();
        assert_eq!(next, len);
        lens
    }

    #[test]
    fn a_round_has_as_many_pairs_for_each_device() {
        assert!(rounds(0, 100).is_empty());
        assert_eq!(rounds(1, 100), [[1, 0]]);
        assert_eq!(rounds(250, 100), [[100, 100], [50, 0]]);
        let most = LARGEST as u64;
        assert_eq!(rounds(7 * most + 5, 2 * LARGEST), [[2 * LARGEST; 2], [2 * LARGEST, LARGEST + 5]]);
    }
}

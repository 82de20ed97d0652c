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

/// Joins segments to batches.
#[derive(Debug)]
pub struct Batches<V: Pod> {
    keys: Column<u64>,
    values: Column<V>,
    size: usize,
}

impl<V: Pod + Send + Sync> Batches<V> {
    /// Allocates memory for batches of at most `size` pairs (at least 1).
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the host has no memory that can be pinned.
    pub fn new(device: &Device, size: usize) -> Result<Self> {
        let size = size.max(1);
        Ok(Self { keys: Column::new(device, size)?, values: Column::new(device, size)?, size })
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
        let (mut waiting, mut len) = (Vec::new(), 0);
        while let Some(segment) = segments.next() {
            if len + segment.len() > self.size {
                self.execute(&mut waiting, &segments, &mut run)?;
                len = 0;
            }
            len += segment.len();
            waiting.push(segment);
        }
        self.execute(&mut waiting, &segments, &mut run)
    }

    fn execute(
        &mut self,
        waiting: &mut Vec<Segment<V>>,
        segments: &Segments<V>,
        run: &mut impl FnMut(&[u64], &[V]) -> Result<()>,
    ) -> Result<()> {
        let keys = self.keys.fill(waiting.iter().map(|segment| &segment.keys[..]))?;
        let values = self.values.fill(waiting.iter().map(|segment| &segment.values[..]))?;
        waiting.drain(..).for_each(|segment| segments.recycle(segment));
        if keys.is_empty() { Ok(()) } else { run(keys, values) }
    }
}

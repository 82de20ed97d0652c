//! The clock of a tree, the live snapshots of hosts, and the memory of epochs.
use super::kernels::Shape;
use crate::{Error, Result};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx_kernels::mvbtree::kernels::{ReleaseSnapshot, TakeSnapshot};
use phalanx_kernels::ordered::{FROM_PIN, LATEST, PIN, RawVersions as HistoryParts, Time};
use phalanx_kernels::reclaim::kernels::ForgetPlaces;
use phalanx_kernels::reclaim::{Epochs, LOG, epoch_words};
use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of live snapshots of hosts.
pub const MOST: usize = 1024;
/// Items per bag of a participant slot.
const ROOM: u32 = 384;
/// Threads of the smallest block that participates in epochs.
const LEAST_BLOCK: u32 = 128;

/// Timestamp from which a sweep that finds no live snapshot restarts the clock: long before timestamps are
/// used up, yet rarely reached.
const LATE: u32 = LATEST / 2;

/// Timestamp as of which a search reads: a number, or a pointer to one on the device.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimestamp {
    at: u32,
    pin: *mut u32,
}

// SAFETY: a pointer to device memory, which the host does not dereference.
unsafe impl Send for ReadTimestamp {}
// SAFETY: as above.
unsafe impl Sync for ReadTimestamp {}

impl ReadTimestamp {
    /// The present.
    pub const NOW: Self = Self { at: LATEST, pin: null_mut() };
}

/// Slots for snapshots.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    /// Slots of snapshots that are alive, or were dropped since the last sweep.
    live: BTreeSet<u32>,
    dropped: Vec<u32>,
    /// Dropped slots that the clock no longer counts.
    released: Vec<u32>,
}

/// Slots of snapshots when a sweep begins.
struct Gone {
    /// Those of dropped snapshots that the clock still counts.
    dropped: Vec<u32>,
    /// Those of other dropped snapshots.
    released: Vec<u32>,
    /// Those of live snapshots.
    live: Vec<u32>,
}

impl Gone {
    fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.released.is_empty()
    }

    /// Returns the slots of dropped snapshots.
    fn each(&self) -> impl Iterator<Item = u32> {
        self.dropped.iter().chain(&self.released).copied()
    }
}

impl Slots {
    /// Returns the slots of the snapshots that were dropped so far.
    fn gone(&self) -> Gone {
        let (dropped, released) = (self.dropped.clone(), self.released.clone());
        let is_gone = |slot: &u32| dropped.contains(slot) || released.contains(slot);
        let live = self.live.iter().copied().filter(|slot| !is_gone(slot)).collect();
        Gone { dropped, released, live }
    }

    /// Frees slots that [`Self::gone`] has returned. Others may have been dropped since.
    fn free(&mut self, gone: &Gone) {
        self.dropped.drain(..gone.dropped.len());
        self.released.drain(..gone.released.len());
        self.live.retain(|&slot| gone.each().all(|freed| freed != slot));
        self.free.extend(gone.each());
    }
}

/// Clock, snapshots and epochs of a tree.
#[derive(Debug)]
pub struct History {
    moves: bool,
    clock: Buffer<u64>,
    /// Timestamps of the snapshots, by slot.
    pins: Buffer<u32>,
    epochs: Buffer<u64>,
    places: u32,
    /// The clock, if it does not advance while kernels run.
    now: u32,
    /// Timestamp of the newest live snapshot plus one, if the clock does not advance while kernels run.
    since: u32,
    slots: Mutex<Slots>,
}

impl History {
    /// Creates the history of a tree without snapshots.
    pub fn new(device: &Device, shape: Shape) -> Result<Self> {
        // A participant slot for every block that can be resident, and a quarter more, so that a free one is
        // found quickly.
        let places =
            if shape.moves { device.resident_threads().max(1024) / LEAST_BLOCK * 5 / 4 + 32 } else { 1 };
        let slots = Slots { free: (0..MOST as u32).rev().collect(), ..Slots::default() };
        Ok(Self {
            moves: shape.moves,
            clock: device.zeroed(1)?,
            // A stream must wait before it reads as of a snapshot of another stream. If it does not, it reads
            // the slot's old content: `LATEST` is safe there, but an earlier snapshot's timestamp is not,
            // since its versions are freed.
            pins: device.from_slice(&[LATEST; MOST])?,
            epochs: device.zeroed(epoch_words(places, ROOM))?,
            places,
            now: 0,
            since: 0,
            slots: Mutex::new(slots),
        })
    }

    /// Returns what kernels need of the history to read as of a timestamp.
    pub fn at(&self, timestamp: ReadTimestamp) -> HistoryParts {
        HistoryParts {
            clock: self.clock.pointer(),
            now: self.now,
            since: self.since,
            at: timestamp.at,
            pin: if timestamp.pin.is_null() { self.pins.pointer() } else { timestamp.pin },
            epochs: self.epochs.pointer(),
            places: self.places,
            room: ROOM,
        }
    }

    pub fn memory_usage(&self) -> usize {
        self.clock.byte_len() + self.pins.byte_len() + self.epochs.byte_len()
    }

    // Only lists of numbers are behind the lock: they are valid even after a panic.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether snapshots were dropped since the last sweep.
    pub fn is_due(&self) -> bool {
        let slots = self.slots();
        !slots.dropped.is_empty() || !slots.released.is_empty()
    }

    /// Returns whether a snapshot is alive, or was dropped since the last sweep.
    pub fn is_asked_for(&self) -> bool {
        !self.slots().live.is_empty()
    }

    /// Records that a snapshot was dropped. Kernels that read as of it may still run, so its slot and
    /// versions are kept until the next sweep.
    pub fn drop_slot(&self, slot: u32) {
        self.slots().dropped.push(slot);
    }

    /// Records that a snapshot was dropped of which all reads are in `stream`: updates that run after these
    /// reads keep no versions for it. Its slot is kept until the next sweep.
    pub fn release(&self, stream: &Stream, slot: u32) {
        if !self.moves {
            return self.drop_slot(slot);
        }
        // SAFETY: the buffer lives as long as the tree, which waits for its launches when it is dropped.
        match unsafe { stream.launch(Grid::new(1, 32), ReleaseSnapshot { clock: self.clock.global() }) } {
            Ok(()) => self.slots().released.push(slot),
            Err(_) => self.drop_slot(slot),
        }
    }

    /// Frees a slot for which taking the snapshot failed, and returns the error.
    fn unclaim<T>(&self, slot: u32, error: impl Into<Error>) -> Result<T> {
        let mut slots = self.slots();
        slots.live.remove(&slot);
        slots.free.push(slot);
        Err(error.into())
    }

    fn claim(&self) -> Result<u32> {
        let mut slots = self.slots();
        let slot = slots.free.pop().ok_or(Error::Snapshots { most: MOST })?;
        slots.live.insert(slot);
        Ok(slot)
    }

    /// Takes a snapshot while nothing runs. Returns its slot and timestamp.
    pub fn take(&mut self) -> Result<(u32, ReadTimestamp)> {
        let slot = self.claim()?;
        match self.advance_clock(slot) {
            Ok(at) => Ok((slot, ReadTimestamp { at, pin: null_mut() })),
            Err(error) => self.unclaim(slot, error),
        }
    }

    /// Advances the clock for the snapshot in `slot`. Returns its timestamp.
    fn advance_clock(&mut self, slot: u32) -> Result<u32> {
        let word = if self.moves { self.clock.read()?[0] } else { u64::from(self.now) };
        let stamp = Time::of(word).stamp;
        if stamp >= LATEST {
            return Err(Error::Moments);
        }
        self.pins.write_at(slot as usize, &[stamp])?;
        if self.moves {
            self.clock.write(&[word + PIN + 1])?;
        } else {
            (self.now, self.since) = (stamp + 1, stamp + 1);
        }
        Ok(stamp)
    }

    /// Takes a snapshot in stream order.
    pub fn take_on(&self, stream: &Stream) -> Result<(u32, ReadTimestamp)> {
        if !self.moves {
            return Err(Error::ClockStands);
        }
        let slot = self.claim()?;
        let pin = self.pins.global().part(slot as usize, 1);
        let take = TakeSnapshot { clock: self.clock.global(), pin };
        // SAFETY: the buffers live as long as the tree, which waits for its launches when it is dropped. No
        // one else uses the slot.
        if let Err(error) = unsafe { stream.launch(Grid::new(1, 32), take) } {
            return self.unclaim(slot, error);
        }
        Ok((slot, ReadTimestamp { at: FROM_PIN, pin: pin.at(0).as_ptr() }))
    }

    /// Returns the timestamp of a snapshot. Waits for all earlier launches.
    pub fn stamp(&self, slot: u32) -> Result<u32> {
        let mut stamp = [0];
        self.pins.read_into(slot as usize, &mut stamp)?;
        Ok(stamp[0])
    }

    /// Releases dropped snapshots, and all items in the bags of epochs. Runs before a sweep, while nothing
    /// else runs. Writes the timestamps of live snapshots to `to`, and returns their number. If a copy fails,
    /// no snapshot is released.
    pub fn settle(&mut self, stream: &Stream, to: &mut Buffer<u32>) -> Result<usize> {
        let gone = self.slots().gone();
        let mut pins = self.pins.read()?;
        let mut stamps: Vec<u32> = gone.live.iter().map(|&slot| pins[slot as usize]).collect();
        stamps.sort_unstable();
        to.write_at(0, &stamps)?;
        if !gone.is_empty() {
            gone.each().for_each(|slot| pins[slot as usize] = LATEST);
            self.pins.write(&pins)?;
        }
        if self.moves {
            let word = self.clock.read()?[0];
            self.clock.write(&[word - PIN * gone.dropped.len() as u64])?;
        }
        // Nothing fails from here on, unless the device is lost.
        self.since = stamps.last().map_or(0, |newest| newest.saturating_add(1));
        self.slots().free(&gone);
        if self.moves {
            let epochs = self.epochs();
            // SAFETY: the memory of these participant slots; nothing else runs, and the caller waits.
            unsafe { stream.launch(Grid::for_items(self.places as usize, 256), ForgetPlaces { epochs })? };
        }
        Ok(stamps.len())
    }

    /// Restarts the clock if it is late, after a sweep that found no live snapshot: no leaf has a timestamp
    /// then.
    pub fn begin_anew(&mut self) -> Result<()> {
        let now = if self.moves { Time::of(self.clock.read()?[0]).stamp } else { self.now };
        if now < LATE { Ok(()) } else { self.begin_at(0) }
    }

    /// Sets the clock to a timestamp, while nothing runs, no snapshot is alive, and no leaf has a later
    /// timestamp.
    pub fn begin_at(&mut self, stamp: u32) -> Result<()> {
        if self.moves {
            self.clock.write(&[u64::from(stamp)])?;
        }
        self.now = stamp;
        Ok(())
    }

    fn epochs(&self) -> Epochs {
        // SAFETY: memory for these numbers, which was zeroed. Participants are blocks of at least
        // `LEAST_BLOCK` threads, for which `new` sized it.
        unsafe { Epochs::new(self.epochs.pointer(), self.places, ROOM) }
    }

    /// Returns the counters of epochs, and the log of the last epochs.
    pub fn reclaimed(&self) -> Result<Reclaimed> {
        let words = self.epochs.read()?;
        let epoch = words[0];
        let line = |epoch: u64| {
            let at = 4 + 3 * (epoch as usize % LOG);
            EpochLine { epoch, retired: words[at], reclaimed: words[at + 1], nanoseconds: words[at + 2] }
        };
        let log = (epoch.saturating_sub(LOG as u64)..epoch).map(line).collect();
        Ok(Reclaimed { epoch, retired: words[1], reclaimed: words[2], deferred: words[3], log })
    }
}

/// Versions that kernels have freed by epochs: see
/// `MultiVersionBTree::reclaimed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Number of ended epochs.
    pub epoch: u64,
    /// Retired versions. Those of blocks that have not entered a later epoch since are not counted yet.
    pub retired: u64,
    /// Retired versions that kernels have freed.
    pub reclaimed: u64,
    /// Retired versions that did not fit a bag. The next sweep frees them.
    pub deferred: u64,
    /// State at the end of each of the last epochs.
    pub log: Vec<EpochLine>,
}

/// State at the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochLine {
    /// The epoch.
    pub epoch: u64,
    /// Versions retired until then.
    pub retired: u64,
    /// Versions freed until then.
    pub reclaimed: u64,
    /// Time by the device's clock, in nanoseconds.
    pub nanoseconds: u64,
}

//! What a tree has of time: its clock, the snapshots of hosts that live, and the memory of epochs.
use crate::btree::engine::{Parts, Shape};
use crate::{Error, Result};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx_kernels::btree::kernels::{ReleaseSnapshot, TakeSnapshot};
use phalanx_kernels::btree::{FROM_PIN, HistoryParts, LATEST, PIN, Time};
use phalanx_kernels::reclaim::kernels::ForgetPlaces;
use phalanx_kernels::reclaim::{Epochs, LOG, epoch_words};
use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Snapshots of hosts that can live at a time.
pub const MOST: usize = 1024;
/// Items that each bag of a place holds.
const ROOM: u32 = 384;
/// Threads of the smallest block that enters epochs.
const LEAST_BLOCK: u32 = 128;

/// Where a sweep that finds no snapshot alive lets time begin anew: long before stamps are used up, and
/// seldom.
const LATE: u32 = LATEST / 2;

/// As of when is read.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: u32,
    pin: *mut u32,
}

// SAFETY: a pointer to device memory, which hosts do not follow.
unsafe impl Send for Moment {}
// SAFETY: as above.
unsafe impl Sync for Moment {}

impl Moment {
    /// As it is now.
    pub const NOW: Self = Self { at: LATEST, pin: null_mut() };

    /// What views are made of that read as of it.
    pub fn of(self, parts: Parts) -> Parts {
        let pin = if self.pin.is_null() { parts.history.pin } else { self.pin };
        Parts { history: HistoryParts { at: self.at, pin, ..parts.history }, ..parts }
    }
}

/// Places for snapshots.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    /// Those of snapshots that live, or were dropped since the last sweep.
    live: BTreeSet<u32>,
    dropped: Vec<u32>,
    /// Those that the clock counts no more, as nobody reads as of them.
    released: Vec<u32>,
}

/// What a tree has of time.
#[derive(Debug)]
pub struct History {
    moves: bool,
    clock: Buffer<u64>,
    /// The stamps of snapshots, by their places.
    pins: Buffer<u32>,
    epochs: Buffer<u64>,
    places: u32,
    /// What the clock says, where it stands still while kernels run.
    now: u32,
    /// The newest live snapshot and one more, there.
    since: u32,
    slots: Mutex<Slots>,
}

impl History {
    /// Of a tree without snapshots.
    pub fn new(device: &Device, shape: Shape) -> Result<Self> {
        // A place for every block that can be on the device, and some, so that one is found soon.
        let places =
            if shape.moves { device.resident_threads().max(1024) / LEAST_BLOCK * 5 / 4 + 32 } else { 1 };
        let slots = Slots { free: (0..MOST as u32).rev().collect(), ..Slots::default() };
        Ok(Self {
            moves: shape.moves,
            clock: device.zeroed(1)?,
            // A stream that has not waited, as it must, reads what a place says now: better not another's
            // stamp, whose versions are freed.
            pins: device.from_slice(&[LATEST; MOST])?,
            epochs: device.zeroed(epoch_words(places, ROOM))?,
            places,
            now: 0,
            since: 0,
            slots: Mutex::new(slots),
        })
    }

    /// What views are made of.
    pub fn parts(&self) -> HistoryParts {
        HistoryParts {
            clock: self.clock.pointer(),
            now: self.now,
            since: self.since,
            at: LATEST,
            pin: self.pins.pointer(),
            epochs: self.epochs.pointer(),
            places: self.places,
            room: ROOM,
        }
    }

    pub fn bytes(&self) -> usize {
        self.clock.bytes() + self.pins.bytes() + self.epochs.bytes()
    }

    // A list of numbers alone is behind the lock: what a panic leaves is as good as any.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether snapshots were dropped since the last sweep.
    pub fn is_due(&self) -> bool {
        let slots = self.slots();
        !slots.dropped.is_empty() || !slots.released.is_empty()
    }

    /// Whether a snapshot lives, or was dropped since the last sweep.
    pub fn is_asked_for(&self) -> bool {
        !self.slots().live.is_empty()
    }

    /// Nobody asks for a snapshot any more. Kernels that read it may still run, so it lives until the next
    /// sweep.
    pub fn drop_slot(&self, slot: u32) {
        self.slots().dropped.push(slot);
    }

    /// Nobody asks for a snapshot any more, and whatever read it did so in this stream: what changes from
    /// when that has ended keeps nothing for it. The place lives until the next sweep.
    pub fn release(&self, stream: &Stream, slot: u32) {
        if !self.moves {
            return self.drop_slot(slot);
        }
        // SAFETY: the buffer lives as long as the tree, which waits for what it was asked when it is dropped.
        match unsafe { stream.launch(Grid::new(1, 32), ReleaseSnapshot { clock: self.clock.slice() }) } {
            Ok(()) => self.slots().released.push(slot),
            Err(_) => self.drop_slot(slot),
        }
    }

    /// Gives a place back that no snapshot was taken for.
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

    /// Takes a snapshot, where nothing runs. Returns its place and as of when it reads.
    pub fn take(&mut self) -> Result<(u32, Moment)> {
        let slot = self.claim()?;
        match self.tick(slot) {
            Ok(at) => Ok((slot, Moment { at, pin: null_mut() })),
            Err(error) => self.unclaim(slot, error),
        }
    }

    /// Moves the clock on for the snapshot in a place. Returns its stamp.
    fn tick(&mut self, slot: u32) -> Result<u32> {
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

    /// Takes a snapshot when a stream has come so far.
    pub fn take_on(&self, stream: &Stream) -> Result<(u32, Moment)> {
        if !self.moves {
            return Err(Error::ClockStands);
        }
        let slot = self.claim()?;
        let pin = self.pins.slice().part(slot as usize, 1);
        let take = TakeSnapshot { clock: self.clock.slice(), pin };
        // SAFETY: the buffers live as long as the tree, which waits for what it was asked when it is dropped;
        // nobody else has the place.
        if let Err(error) = unsafe { stream.launch(Grid::new(1, 32), take) } {
            return self.unclaim(slot, error);
        }
        Ok((slot, Moment { at: FROM_PIN, pin: pin.at(0).as_ptr() }))
    }

    /// The stamp of a snapshot, once all that was asked for before has ended.
    pub fn stamp(&self, slot: u32) -> Result<u32> {
        let mut stamp = [0];
        self.pins.read_into(slot as usize, &mut stamp)?;
        Ok(stamp[0])
    }

    /// Lets go of what was dropped, and of what epochs keep: where nothing runs, before a sweep. Gives the
    /// stamps of live snapshots.
    pub fn settle(&mut self, stream: &Stream) -> Result<Vec<u32>> {
        let (dropped, gone, live) = self.forget();
        let mut pins = self.pins.read()?;
        let mut stamps: Vec<u32> = live.into_iter().map(|slot| pins[slot as usize]).collect();
        stamps.sort_unstable();
        self.since = stamps.last().map_or(0, |newest| newest.saturating_add(1));
        if !gone.is_empty() {
            gone.into_iter().for_each(|slot| pins[slot as usize] = LATEST);
            self.pins.write(&pins)?;
        }
        if self.moves {
            let word = self.clock.read()?[0];
            self.clock.write(&[word - PIN * dropped])?;
            let epochs = self.epochs();
            // SAFETY: the memory of these places, where nothing else runs; the caller waits.
            unsafe { stream.launch(Grid::for_items(self.places as usize, 256), ForgetPlaces { epochs })? };
        }
        Ok(stamps)
    }

    /// Takes back the places of snapshots that live no more. Returns how many of them the clock counts, the
    /// places, and those of snapshots that live.
    fn forget(&self) -> (u64, Vec<u32>, Vec<u32>) {
        let mut slots = self.slots();
        let mut gone = std::mem::take(&mut slots.dropped);
        let dropped = gone.len() as u64;
        gone.append(&mut slots.released);
        slots.live.retain(|slot| !gone.contains(slot));
        slots.free.extend(&gone);
        (dropped, gone, slots.live.iter().copied().collect())
    }

    /// Lets time begin anew where it is late, after a sweep that has found no snapshot alive: no leaf has a
    /// stamp then.
    pub fn begin_anew(&mut self) -> Result<()> {
        let now = if self.moves { Time::of(self.clock.read()?[0]).stamp } else { self.now };
        if now < LATE { Ok(()) } else { self.begin_at(0) }
    }

    /// Lets time go on from a stamp, where nothing runs, no snapshot lives, and no leaf has a stamp above it.
    pub fn begin_at(&mut self, stamp: u32) -> Result<()> {
        self.now = stamp;
        if self.moves { Ok(self.clock.write(&[u64::from(stamp)])?) } else { Ok(()) }
    }

    fn epochs(&self) -> Epochs {
        // SAFETY: memory of these numbers, which was zeroed; processes are blocks of at least as many threads
        // as it was made for.
        unsafe { Epochs::new(self.epochs.pointer(), self.places, ROOM) }
    }

    /// What epochs have counted: the epoch, what was retired, reclaimed, and shelved; and the log of the last
    /// epochs.
    pub fn reclaimed(&self) -> Result<Reclaimed> {
        let words = self.epochs.read()?;
        let epoch = words[0];
        let line = |epoch: u64| {
            let at = 4 + 3 * (epoch as usize % LOG);
            EpochLine { epoch, retired: words[at], reclaimed: words[at + 1], nanoseconds: words[at + 2] }
        };
        let log = (epoch.saturating_sub(LOG as u64)..epoch).map(line).collect();
        Ok(Reclaimed { epoch, retired: words[1], reclaimed: words[2], shelved: words[3], log })
    }
}

/// Makes a tree of which nobody has taken a snapshot as old as if so many had been taken.
pub fn begin_at<K, V>(tree: &super::MultiVersionBTree<K, V>, stamp: u32) -> Result<()> {
    tree.trees
        .owner
        .alone(|_, _, memory| memory.history.as_mut().map_or(Ok(()), |history| history.begin_at(stamp)))
}

/// What kernels have freed by epochs: see
/// [`MultiVersionBTree::reclaimed`](super::MultiVersionBTree::reclaimed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Epochs that have ended.
    pub epoch: u64,
    /// Versions that were retired; those of blocks that have not entered a later epoch since are not counted
    /// yet.
    pub retired: u64,
    /// Those of them that kernels have freed.
    pub reclaimed: u64,
    /// Those of them that no bag had room for: they are freed by the next sweep.
    pub shelved: u64,
    /// How it was when each of the last epochs ended.
    pub log: Vec<EpochLine>,
}

/// How it was when an epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochLine {
    /// The epoch.
    pub epoch: u64,
    /// Versions that were retired until then.
    pub retired: u64,
    /// Those of them that were freed.
    pub reclaimed: u64,
    /// When it was, by the device's clock.
    pub nanoseconds: u64,
}

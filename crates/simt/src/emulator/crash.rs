//! Crashes: the stores of kernels to memory that survives the process, and what of them a crash may leave.
//!
//! A store is *pending* from its execution until it is certain to have reached the memory. It is *settled* by
//!
//! - a fence of system scope, or a release of system scope, of a lane that the store happens before: the lane
//!   that made it, or one that has synchronized with it since;
//! - the end of the launch.
//!
//! Anything may be left of pending stores. That is more than hardware does, which loses no store that a later
//! store of the same lane to the same sector depends on; so what survives here survives there.
use super::detect::order::Timestamp;
use super::memory::access::Access;
use super::site::{Site, SourceLine};
use crate::Order;
use crate::hash::mix64;
use std::fmt;
use std::ops::Range;

/// Bytes of a cache line.
const LINE: usize = 128;

/// Lane that made a store, for messages.
#[derive(Clone, Copy, Debug)]
struct StoreOrigin {
    block: u32,
    thread: u32,
    site: Site,
}

/// A store to recorded memory.
#[derive(Clone, Debug)]
struct Store {
    region: usize,
    offset: usize,
    bytes: Vec<u8>,
    /// `None`: the host.
    origin: Option<StoreOrigin>,
    timestamp: Timestamp,
    /// Number of the event that settled it.
    settled: Option<usize>,
}

/// A step of the record. A crash may happen after each.
#[derive(Clone, Debug)]
enum Event {
    Store(Store),
    /// Settles stores.
    Settle,
}

/// Recorded memory, and its contents when the record began.
#[derive(Clone, Debug)]
struct Region {
    address: usize,
    before: Vec<u8>,
}

/// Record of the stores to memory that survives the process: see
/// [`Emulator::record_stores`](super::public::Emulator::record_stores).
///
/// ```
/// use simt::emulator::{Emulator, Fault, Options, Schedule, SiteId};
/// use simt::{GlobalSlice, Grid, Order, Scope, fence};
///
/// const FENCE: u32 = line!() + 6;
///
/// /// Writes a value, and then says that it is there.
/// #[simt::kernel]
/// fn publish(words: GlobalSlice<u32>) {
///     words.at(0).store(42, Order::Relaxed, Scope::Device);
///     fence(Scope::System);
///     words.at(1).store(1, Order::Relaxed, Scope::Device);
/// }
///
/// /// Returns whether each crash leaves the value if it leaves the flag.
/// fn survives(faults: &[Fault]) -> bool {
///     let options = Options::explore(Schedule::Random { seed: 1 });
///     let device = Emulator::new(Options { faults: faults.to_vec(), ..options });
///     let pointer = device.allocate(8, 8).cast::<u32>();
///     // SAFETY: the buffer holds two words and lives until the record has ended; no kernel runs meanwhile.
///     let words = unsafe {
///         pointer.cast::<u64>().write(0);
///         device.mark_initialized(pointer.cast(), 8);
///         device.record_stores(pointer.cast(), 8);
///         GlobalSlice::from_raw_parts(pointer, 2)
///     };
///     device.launch(Grid::new(1, 1), Publish { words }).unwrap();
///     let log = device.take_stores().unwrap();
///     let mut survives = true;
///     log.crashes(0..log.events() + 1, 64, |crash| {
///         let bytes = crash.contents(0);
///         survives &= bytes[4] == 0 || bytes[0] == 42;
///     });
///     survives
/// }
///
/// assert!(survives(&[]));
/// assert!(!survives(&[Fault::skip(SiteId::line(file!(), FENCE))]));
/// ```
///
/// # Cost
///
/// The record has some 100 bytes per store. A crash costs a copy of the recorded memory, and the repetition
/// of the stores since the first pending one.
#[derive(Clone, Debug, Default)]
pub struct StoreLog {
    regions: Vec<Region>,
    events: Vec<Event>,
    /// Contents of the regions after all events.
    now: Vec<Vec<u8>>,
    /// Pending stores, by the numbers of their events.
    pending: Vec<usize>,
}

impl StoreLog {
    /// Adds memory to the record.
    ///
    /// # Safety
    /// - The bytes are valid for reads until the record ends.
    pub(super) unsafe fn add(&mut self, address: usize, bytes: usize) {
        // SAFETY: the caller's obligation.
        let before = unsafe { read(address, bytes) };
        self.now.push(before.clone());
        self.regions.push(Region { address, before });
    }

    /// Records a store of a lane. Weak stores of 16 bytes are two.
    pub(super) fn store(&mut self, access: &Access, word: u128, timestamp: Timestamp, party: (u32, u32)) {
        let origin = StoreOrigin { block: party.0, thread: party.1, site: access.site };
        let part = if access.order == Order::Weak { 8 } else { 16 };
        let word = word.to_le_bytes();
        for (index, bytes) in word[..access.bytes].chunks(part).enumerate() {
            self.push(access.address + index * part, bytes, Some(origin), timestamp);
        }
    }

    /// Records a store, if it is to recorded memory.
    fn push(&mut self, address: usize, bytes: &[u8], origin: Option<StoreOrigin>, timestamp: Timestamp) {
        let offset_in = |region: &Region| {
            let offset = address.checked_sub(region.address)?;
            (offset + bytes.len() <= region.before.len()).then_some(offset)
        };
        let mut regions = self.regions.iter().enumerate();
        let found = regions.find_map(|(number, region)| Some((number, offset_in(region)?)));
        let Some((region, offset)) = found else { return };
        self.now[region][offset..offset + bytes.len()].copy_from_slice(bytes);
        self.pending.push(self.events.len());
        let store = Store { region, offset, bytes: bytes.to_vec(), origin, timestamp, settled: None };
        self.events.push(Event::Store(store));
    }

    /// Settles the pending stores whose timestamp `knows` accepts.
    pub(super) fn settle(&mut self, knows: impl Fn(Timestamp) -> bool) {
        let (number, before) = (self.events.len(), self.pending.len());
        let events = &mut self.events;
        self.pending.retain(|&pending| match &mut events[pending] {
            Event::Store(store) if knows(store.timestamp) => {
                store.settled = Some(number);
                false
            }
            _ => true,
        });
        if self.pending.len() < before {
            self.events.push(Event::Settle);
        }
    }

    /// Records the bytes that the host has written since the last event, as one settled store for each run of
    /// different bytes.
    ///
    /// # Safety
    /// - No kernel runs.
    pub(super) unsafe fn note_host(&mut self) {
        for region in 0..self.regions.len() {
            let Region { address, ref before } = self.regions[region];
            // SAFETY: the bytes are valid until the record ends; nothing writes them now.
            let found = unsafe { read(address, before.len()) };
            let differs: Vec<bool> =
                found.iter().zip(&self.now[region]).map(|(new, old)| new != old).collect();
            let mut start = 0;
            for run in differs.chunk_by(|one, other| one == other) {
                let end = start + run.len();
                if run[0] {
                    self.push(address + start, &found[start..end], None, Timestamp { lane: 0, epoch: 0 });
                }
                start = end;
            }
        }
        self.settle(|_| true);
    }

    /// Returns the number of events. A crash may happen before the first, and after each.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// Passes to `visit` what crashes may leave of the recorded memory, for each stop: a number of events
    /// after which no other has happened.
    ///
    /// With `p` pending stores, these are: all stores; if 2^p is at most `subsets`, all but each subset of
    /// the pending stores; otherwise all but each single one, for each cache line each prefix of its pending
    /// stores, and `subsets` seeded subsets, half of them by prefixes of cache lines.
    pub fn crashes(&self, stops: Range<usize>, subsets: u64, mut visit: impl FnMut(&Crash<'_>)) {
        let mut floor = Floor::new(self);
        for stop in stops.start..stops.end.min(self.events.len() + 1) {
            let pending = self.pending_at(stop);
            floor.advance(pending.first().copied().unwrap_or(stop));
            let mut show = |lost: &[usize]| visit(&floor.crash(stop, lost));
            show(&[]);
            match 1u64.checked_shl(pending.len() as u32) {
                Some(all) if all <= subsets => {
                    (1..all).for_each(|bits| show(&chosen(&pending, |i| bits >> i & 1 == 1)))
                }
                _ => self.sample(stop, &pending, subsets, &mut show),
            }
        }
    }

    /// Returns the stores before a stop that are not settled then.
    fn pending_at(&self, stop: usize) -> Vec<usize> {
        let is_pending = |event: &Event| match event {
            Event::Store(store) => store.settled.is_none_or(|settled| settled >= stop),
            Event::Settle => false,
        };
        // Stores before the end of the launch before are all settled, so the search backwards ends soon.
        (0..stop).filter(|&number| is_pending(&self.events[number])).collect()
    }

    fn sample(&self, stop: usize, pending: &[usize], subsets: u64, show: &mut impl FnMut(&[usize])) {
        pending.iter().for_each(|&lost| show(&[lost]));
        let lines = self.lines(pending);
        for line in &lines {
            (0..line.len()).for_each(|kept| show(&line[kept..]));
        }
        for seed in 0..subsets {
            let random = |number: usize| mix64(mix64(stop as u64 ^ seed << 32) ^ number as u64);
            let mut lost = match seed % 2 {
                0 => chosen(pending, |index| random(index) & 1 == 0),
                _ => {
                    let kept = |line: &Vec<usize>| random(line[0]) as usize % (line.len() + 1);
                    lines.iter().flat_map(|line| line[kept(line)..].to_vec()).collect()
                }
            };
            lost.sort_unstable();
            show(&lost);
        }
    }

    /// Returns the stores by the cache line of their first byte.
    fn lines(&self, pending: &[usize]) -> Vec<Vec<usize>> {
        let mut lines = std::collections::BTreeMap::<_, Vec<usize>>::new();
        for &number in pending {
            if let Event::Store(store) = &self.events[number] {
                lines.entry((store.region, store.offset / LINE)).or_default().push(number);
            }
        }
        lines.into_values().collect()
    }

    fn apply(&self, number: usize, regions: &mut [Vec<u8>]) {
        if let Event::Store(Store { region, offset, bytes, .. }) = &self.events[number] {
            regions[*region][*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Returns the elements whose index is chosen.
fn chosen(of: &[usize], choose: impl Fn(usize) -> bool) -> Vec<usize> {
    of.iter().enumerate().filter(|&(index, _)| choose(index)).map(|(_, &number)| number).collect()
}

/// Reads bytes.
///
/// # Safety
/// - They are valid for reads, and nothing writes them.
unsafe fn read(address: usize, bytes: usize) -> Vec<u8> {
    // SAFETY: the caller's obligation.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
}

/// Contents after the events before the first pending one, from which those of all crashes at a stop follow.
struct Floor<'a> {
    log: &'a StoreLog,
    events: usize,
    regions: Vec<Vec<u8>>,
}

impl<'a> Floor<'a> {
    fn new(log: &'a StoreLog) -> Self {
        let regions = log.regions.iter().map(|region| region.before.clone()).collect();
        Self { log, events: 0, regions }
    }

    fn advance(&mut self, events: usize) {
        (self.events..events).for_each(|number| self.log.apply(number, &mut self.regions));
        self.events = self.events.max(events);
    }

    fn crash(&self, stop: usize, lost: &[usize]) -> Crash<'a> {
        let mut regions = self.regions.clone();
        let kept = (self.events..stop).filter(|number| lost.binary_search(number).is_err());
        kept.for_each(|number| self.log.apply(number, &mut regions));
        Crash { log: self.log, stop, lost: lost.to_vec(), regions }
    }
}

/// Contents of the recorded memory after a crash. As text, it names the last event and the lost stores.
///
/// ```
/// use simt::emulator::{Emulator, Options, Schedule};
///
/// let device = Emulator::new(Options::explore(Schedule::Random { seed: 1 }));
/// let kept = [7u8; 8];
/// // SAFETY: the array lives until the record has ended, and no kernel runs meanwhile.
/// unsafe { device.record_stores(kept.as_ptr(), 8) };
/// let log = device.take_stores().expect("a record was begun");
/// log.crashes(0..1, 1, |crash| {
///     assert_eq!((crash.stop(), crash.lost(), crash.contents(0)), (0, 0, &kept[..]));
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Crash<'a> {
    log: &'a StoreLog,
    stop: usize,
    lost: Vec<usize>,
    regions: Vec<Vec<u8>>,
}

impl Crash<'_> {
    /// Returns the number of events before the crash.
    pub fn stop(&self) -> usize {
        self.stop
    }

    /// Returns the number of stores that are lost.
    pub fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Returns the contents of the region that the call of `record_stores` with this number, from 0, has
    /// recorded.
    ///
    /// # Panics
    /// If there were fewer calls.
    pub fn contents(&self, region: usize) -> &[u8] {
        &self.regions[region]
    }
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash after {} events", self.stop)?;
        if let Some(last) = self.stop.checked_sub(1) {
            write!(f, ", the last one {}", self.log.events[last])?;
        }
        self.lost.iter().try_for_each(|&lost| write!(f, "; lost: {}", self.log.events[lost]))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Store(store) = self else { return write!(f, "a fence or the end of a launch") };
        let Store { region, offset, bytes, .. } = store;
        match store.origin {
            None => write!(f, "a write of {} bytes by the host", bytes.len())?,
            Some(StoreOrigin { block, thread, site }) => {
                let (len, line) = (bytes.len(), SourceLine::from(site));
                write!(f, "a store of {len} bytes by thread {thread} of block {block} at {line}")?;
            }
        }
        write!(f, " to byte {offset} of region {region}")
    }
}

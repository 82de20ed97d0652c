//! The checks that precede each access to global memory.
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::options::Detect;
use super::super::site::Site;
use super::registry::{Buffer, Found, Registry};
use crate::device;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const RANGES: usize = 4;

#[derive(Clone, Copy)]
struct Range {
    start: usize,
    bytes: usize,
}

impl Range {
    const NOTHING: Self = Self { start: 0, bytes: 0 };
}

/// Cache of the buffers that a worker accessed last, so that most accesses need no look-up.
pub struct RangeCache {
    ranges: [Cell<Range>; RANGES],
    next: Cell<usize>,
    version: Cell<u64>,
    /// The buffers, for callers that need more than a bounds check.
    buffers: RefCell<[Option<Arc<Buffer>>; RANGES]>,
}

impl RangeCache {
    pub fn new(detect: Detect) -> Self {
        let ranges = [const { Cell::new(Range::NOTHING) }; RANGES];
        if !detect.bounds && !detect.use_after_free && !detect.uninitialized {
            ranges[0].set(Range { start: 0, bytes: usize::MAX });
        }
        Self { ranges, next: Cell::new(0), version: Cell::new(0), buffers: RefCell::default() }
    }

    /// Returns the slot of a cached buffer that contains the access.
    #[device]
    fn place(&self, address: usize, bytes: usize) -> Option<usize> {
        (0..RANGES).find(|&place| {
            let range = self.ranges[place].get();
            let offset = address.wrapping_sub(range.start);
            offset < range.bytes && range.bytes - offset >= bytes
        })
    }

    fn insert(&self, buffer: Arc<Buffer>) -> usize {
        let place = self.next.get();
        self.next.set((place + 1) % RANGES);
        self.ranges[place].set(Range { start: buffer.start, bytes: buffer.bytes });
        self.buffers.borrow_mut()[place] = Some(buffer);
        place
    }

    /// Clears the cache if any buffer was added or removed.
    pub fn refresh(&self, registry: &Registry) {
        let version = registry.version();
        if self.version.replace(version) != version {
            for (range, buffer) in self.ranges.iter().zip(self.buffers.borrow_mut().iter_mut()) {
                if buffer.take().is_some() {
                    range.set(Range::NOTHING);
                }
            }
        }
    }
}

/// Effect of an access on the bytes that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    /// Reads and may write.
    Update,
}

/// Ends the launch unless the access is aligned, lies in a live buffer and reads only initialised bytes.
#[device]
pub fn check(lane: &Lane, address: usize, bytes: usize, usage: Use, site: Site) {
    if address & (bytes - 1) != 0 {
        lane.fail(FailureKind::Misaligned { address, bytes }, site, None);
    }
    let worker = lane.worker();
    if let Some((name, offset)) = worker.run.world.registry.poison_at(address) {
        lane.fail(FailureKind::UseAfterReclaim { bytes, name, offset }, site, None);
    }
    let place = match worker.ranges.place(address, bytes) {
        Some(place) => place,
        None => match look_up(lane, address, bytes, site) {
            Some(place) => place,
            None => return,
        },
    };
    if worker.detect().uninitialized {
        check_written(lane, place, address, bytes, usage, site);
    }
}

#[cold]
fn look_up(lane: &Lane, address: usize, bytes: usize, site: Site) -> Option<usize> {
    let worker = lane.worker();
    let detect = worker.detect();
    match worker.run.world.registry.find(address, bytes) {
        Found::Live(buffer) => return Some(worker.ranges.insert(buffer)),
        Found::Freed(within) if detect.use_after_free => {
            lane.fail(FailureKind::UseAfterFree { bytes, within }, site, None)
        }
        Found::Nothing(nearest) if detect.bounds => {
            lane.fail(FailureKind::OutOfBounds { address, bytes, nearest }, site, None)
        }
        Found::Freed(_) | Found::Nothing(_) => {}
    }
    None
}

fn check_written(lane: &Lane, place: usize, address: usize, bytes: usize, usage: Use, site: Site) {
    let buffers = lane.worker().ranges.buffers.borrow();
    let Some(buffer) = &buffers[place] else { return };
    if usage == Use::Write {
        buffer.set_written(address, bytes);
    } else if !buffer.is_written(address, bytes) {
        let within = Some(buffer.nearest(address));
        drop(buffers);
        lane.fail(FailureKind::Uninitialized { bytes, within }, site, None);
    }
}

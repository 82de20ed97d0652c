//! Cache of the buffers that a worker accessed last.
use super::super::options::Detect;
use super::registry::{Buffer, Registry};
use simt_macros::device;
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
    pub buffers: RefCell<[Option<Arc<Buffer>>; RANGES]>,
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
    pub fn place(&self, address: usize, bytes: usize) -> Option<usize> {
        (0..RANGES).find(|&place| {
            let range = self.ranges[place].get();
            let offset = address.wrapping_sub(range.start);
            offset < range.bytes && range.bytes - offset >= bytes
        })
    }

    /// Adds a buffer; returns its slot.
    pub fn insert(&self, buffer: Arc<Buffer>) -> usize {
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

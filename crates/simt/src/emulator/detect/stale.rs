//! The L1 cache of a multiprocessor, which writes of other multiprocessors do not update: stale values that a
//! weak load may return.
//!
//! Per granule of eight bytes, the values before its last few writes are kept. A weak load may return any of
//! them unless the write that replaced it happens before the load.
use super::order::{GranuleMap, Orders, Timestamp, granules};

/// Number of values kept per granule.
const KEPT: usize = 4;

struct Overwritten {
    by: Timestamp,
    bytes: u8,
    value: u64,
}

/// The recently overwritten values.
#[derive(Default)]
pub struct History {
    granules: GranuleMap<Vec<Overwritten>>,
}

impl History {
    /// Records a write to bytes of a granule that holds `value`.
    pub fn overwrite(&mut self, granule: usize, bytes: u8, value: u64, by: Timestamp) {
        let values = self.granules.entry(granule).or_default();
        if values.len() == KEPT {
            values.remove(0);
        }
        values.push(Overwritten { by, bytes, value });
    }

    /// Forgets the values of memory that gets a new owner.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        granules(address, bytes).for_each(|(granule, _)| drop(self.granules.remove(&granule)));
    }

    /// Returns the stale values that a weak load of bytes of a granule may return, the newest first.
    pub fn stale(&self, orders: &Orders, lane: u32, granule: usize, bytes: u8) -> Vec<u64> {
        let values = self.granules.get(&granule).map_or(&[][..], |values| values);
        let unseen = |old: &&Overwritten| !orders.knows(lane, old.by);
        values
            .iter()
            .rev()
            .filter(|old| old.bytes & bytes != 0)
            .take_while(unseen)
            .map(|old| old.value)
            .collect()
    }
}

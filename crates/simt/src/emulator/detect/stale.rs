//! The cache of a multiprocessor, which other multiprocessors' writes do not reach: values that a weak load
//! may still return.
//!
//! For each granule of eight bytes the values before its last few writes are kept. A weak load may return any
//! of them whose overwriting is not ordered before the load.
use super::order::{GranuleMap, Moment, Orders, granules};

/// Values kept for a granule.
const KEPT: usize = 4;

struct Overwritten {
    by: Moment,
    bytes: u8,
    value: u64,
}

/// The values overwritten lately.
#[derive(Default)]
pub struct History {
    granules: GranuleMap<Vec<Overwritten>>,
}

impl History {
    /// A write replaces bytes of a granule that holds `value`.
    pub fn overwrite(&mut self, granule: usize, bytes: u8, value: u64, by: Moment) {
        let values = self.granules.entry(granule).or_default();
        if values.len() == KEPT {
            values.remove(0);
        }
        values.push(Overwritten { by, bytes, value });
    }

    /// Memory that goes to somebody else: its values are nobody's.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        granules(address, bytes).for_each(|(granule, _)| drop(self.granules.remove(&granule)));
    }

    /// The values that a weak load of bytes of a granule may return beside the newest, the youngest first.
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
